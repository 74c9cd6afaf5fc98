/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * How fast ranks that are processes send each other weights through the `shm` group, in GB/s of what
 * arrives at all ranks together. A transfer is cut into messages of a chunk each, posted at once, as an
 * executor does; transfers follow each other without a pause. Beside it, in the same run: a copy of as many
 * bytes by one thread, between buffers larger than the caches. A message is copied twice, into the ring
 * and out of it, but by two processes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eplb/clock.h"
#include "eplb/shm.h"
#include "support/bench.h"

enum {
    KIB = 1024,
    MIB = 1024 * KIB,
    CHUNK = 4 * MIB, /* the default of --eplb_transfer_chunk_bytes */
    MAX_CHUNKS = 16,
    MAX_RANKS = 8,
    MAX_REPETITIONS = 20,
    AS_IT_PAYS = -1,
};

#define PATIENCE_NS INT64_C(60000000000)

struct bench_case {
    int32_t ranks;
    int32_t senders; /* ranks 0 to senders - 1 send, each to the next */
    size_t bytes;    /* of one transfer */
    size_t ring_bytes;
    int64_t spin_ns;
};

#define RING (128 * KIB)

static const struct bench_case cases[] = {
    {2, 1, 64 * KIB, RING, AS_IT_PAYS}, {2, 1, 1 * MIB, RING, AS_IT_PAYS},  {2, 1, 4 * MIB, RING, AS_IT_PAYS},
    {2, 1, 16 * MIB, RING, AS_IT_PAYS}, {2, 1, 64 * MIB, RING, AS_IT_PAYS}, {2, 1, 64 * KIB, RING, 0},
    {2, 1, 64 * KIB, RING, 20000},      {2, 1, 64 * MIB, RING, 0},          {2, 1, 64 * MIB, RING, 20000},
    {2, 2, 64 * MIB, RING, 0},          {2, 2, 64 * MIB, RING, 20000},      {4, 4, 64 * MIB, RING, 0},
    {4, 4, 64 * MIB, RING, 20000},      {8, 8, 64 * MIB, RING, 0},          {8, 8, 64 * MIB, RING, 20000},
    {2, 1, 64 * MIB, 32 * KIB, 0},      {2, 1, 64 * MIB, 512 * KIB, 0},     {2, 1, 64 * MIB, 2 * MIB, 0},
};
static const struct bench_case quick_cases[] = {{2, 1, 64 * KIB, RING, AS_IT_PAYS},
                                                {2, 2, 64 * KIB, RING, 0}};

/* How much is moved for one figure. */
struct effort {
    int repetitions;
    size_t moved_bytes;  /* by each sender in a repetition */
    size_t window_bytes; /* memory that transfers walk through, on each side */
};

/* What the processes of one case share. */
struct shared {
    double seconds[MAX_REPETITIONS];
};

struct run {
    const struct bench_case *bench_case;
    const struct effort *effort;
    struct eplb_shm_attach_params attach;
    struct shared *shared;
};

static double seconds_now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return (double)clock->now(clock->context) * 1e-9;
}

/* ---- one rank ---- */

struct rank {
    const struct run *run;
    const struct eplb_group *group;
    unsigned char *source; /* NULL: it does not send */
    unsigned char *target; /* NULL: nobody sends to it */
    uint64_t token;
    size_t offset; /* of the next transfer in the windows */
};

static int32_t before(const struct rank *rank)
{
    return (rank->group->rank + rank->group->num_ranks - 1) % rank->group->num_ranks;
}

/* Posts one side of a transfer; its operations have the numbers from `first` on. Returns how many. */
static size_t post(const struct rank *rank, unsigned char *window, uint32_t first)
{
    const struct eplb_group *group = rank->group;
    size_t bytes = rank->run->bench_case->bytes;
    size_t count = 0;
    for (size_t at = 0; at < bytes; at += CHUNK, count++) {
        const struct eplb_part part = {window + rank->offset + at, bytes - at < CHUNK ? bytes - at : CHUNK};
        const struct eplb_op op = {first + (uint32_t)count};
        struct eplb_message_tag tag = {.token = {rank->token}, .chunk = (int32_t)count};
        enum eplb_status status =
            first == 0
                ? group->post_send(group->self, (group->rank + 1) % group->num_ranks, &tag, &part, 1, op)
                : group->post_recv(group->self, before(rank), &tag, &part, 1, op);
        if (status != EPLB_OK)
            eplb_bench_fail("a message was not taken");
    }
    return count;
}

static void transfer(struct rank *rank)
{
    const struct eplb_group *group = rank->group;
    size_t left = 0;
    rank->token++;
    if (rank->target != NULL)
        left += post(rank, rank->target, MAX_CHUNKS);
    if (rank->source != NULL)
        left += post(rank, rank->source, 0);
    while (left > 0) {
        struct eplb_completion completions[2 * MAX_CHUNKS];
        size_t ended = group->poll(group->self, (struct eplb_activation_token){rank->token}, completions,
                                   2 * MAX_CHUNKS);
        for (size_t i = 0; i < ended; i++)
            if (completions[i].result != EPLB_OP_DONE)
                eplb_bench_fail("a message was lost");
        left -= ended;
        if (left > 0 && ended == 0)
            group->wait(group->self, (int64_t)(seconds_now() * 1e9) + PATIENCE_NS);
    }
    rank->offset += rank->run->bench_case->bytes;
    if (rank->offset + rank->run->bench_case->bytes > rank->run->effort->window_bytes)
        rank->offset = 0;
}

static void meet(const struct rank *rank)
{
    struct eplb_error error;
    if (rank->group->barrier(rank->group->self, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
}

static void repeat(struct rank *rank, double *seconds)
{
    size_t moved = rank->run->effort->moved_bytes;
    meet(rank);
    double begin = seconds_now();
    for (size_t at = 0; at < moved; at += rank->run->bench_case->bytes)
        transfer(rank);
    meet(rank);
    if (rank->group->rank == 0)
        *seconds = seconds_now() - begin;
}

/* A figure of code that moves something else is worth nothing. */
static void check_arrival(const struct rank *rank)
{
    for (size_t at = 0; at < rank->run->effort->moved_bytes; at += KIB)
        if (rank->target[at] != (unsigned char)(before(rank) + (int32_t)(at / KIB)))
            eplb_bench_fail("other bytes arrived than were sent");
}

static void run_rank(const struct run *run, int32_t index)
{
    struct eplb_error error;
    struct eplb_shm *shm;
    struct eplb_shm_attach_params attach = run->attach;
    attach.rank = index;
    if (eplb_shm_attach(&attach, &shm, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    struct rank rank = {.run = run, .group = eplb_shm_group(shm)};
    size_t window = run->effort->window_bytes;
    if (index < run->bench_case->senders)
        rank.source = eplb_bench_allocate(window, 1);
    if (before(&rank) < run->bench_case->senders)
        rank.target = eplb_bench_allocate(window, 1);
    for (size_t at = 0; rank.source != NULL && at < window; at += KIB)
        rank.source[at] = (unsigned char)(index + (int32_t)(at / KIB));
    double warm_up;
    repeat(&rank, &warm_up);
    if (rank.target != NULL)
        check_arrival(&rank);
    for (int i = 0; i < run->effort->repetitions; i++)
        repeat(&rank, &run->shared->seconds[i]);
    free(rank.source);
    free(rank.target);
    eplb_shm_destroy(shm);
}

/* ---- all ranks ---- */

static void start_rank(const struct run *run, int32_t index)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        eplb_bench_fail("no process could be started");
    if (pid > 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_rank(run, index);
    _exit(0);
}

static void run_ranks(const struct run *run, const struct eplb_group *engine)
{
    int failed = 0;
    for (int32_t i = 0; i < run->bench_case->ranks; i++)
        start_rank(run, i);
    for (int32_t i = 0; i < run->bench_case->ranks; i++) {
        int status;
        if (wait(&status) > 0 && status == 0)
            continue;
        /* Whichever it was: none shall wait for it. */
        engine->member_dead(engine->self, 0);
        failed = 1;
    }
    if (failed)
        eplb_bench_fail("a rank failed");
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct eplb_bench_time time_case(const struct bench_case *bench_case, const struct effort *effort)
{
    struct eplb_error error;
    struct eplb_shm *shm;
    struct eplb_shm_params params;
    char name[32];
    snprintf(name, sizeof name, "bench%d", (int)getpid());
    eplb_shm_params_init(&params);
    params.instance_name = name;
    params.num_ranks = bench_case->ranks;
    params.transfer_ring_bytes = bench_case->ring_bytes;
    params.spin_ns = bench_case->spin_ns;
    if (eplb_shm_create(&params, &shm, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    struct run run = {.bench_case = bench_case, .effort = effort};
    run.shared = mmap(NULL, sizeof *run.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.shared == MAP_FAILED)
        eplb_bench_fail("no shared memory");
    eplb_shm_attach_params_init(&run.attach);
    run.attach.instance_name = name;
    run.attach.generation = eplb_shm_generation(shm);
    run.attach.spin_ns = bench_case->spin_ns;
    run_ranks(&run, eplb_shm_group(shm));
    double *seconds = run.shared->seconds;
    qsort(seconds, (size_t)effort->repetitions, sizeof *seconds, ascending);
    struct eplb_bench_time result = {seconds[0], seconds[effort->repetitions / 2]};
    munmap(run.shared, sizeof *run.shared);
    eplb_shm_destroy(shm);
    return result;
}

/* ---- the copy beside ---- */

struct copy {
    unsigned char *from;
    unsigned char *to;
    size_t bytes;
};

static void copy_all(void *context)
{
    const struct copy *copy = context;
    memcpy(copy->to, copy->from, copy->bytes);
    /* Whoever reads the copy is unknown to the compiler, so it has to be made. */
    __asm__ volatile("" : : "r"(copy->to) : "memory");
}

static double copied_bytes_per_second(size_t bytes)
{
    struct copy copy = {eplb_bench_allocate(bytes, 1), eplb_bench_allocate(bytes, 1), bytes};
    memset(copy.from, 1, bytes);
    struct eplb_bench_time time = eplb_bench_measure(copy_all, &copy, 1, 5);
    free(copy.from);
    free(copy.to);
    return (double)bytes / time.minimum;
}

static void bench_one(struct eplb_bench_report *report, const struct bench_case *bench_case,
                      const struct effort *effort, double copied)
{
    struct eplb_bench_time time = time_case(bench_case, effort);
    double bytes = (double)effort->moved_bytes * bench_case->senders;
    char spin[32] = "default";
    if (bench_case->spin_ns != AS_IT_PAYS)
        snprintf(spin, sizeof spin, "%g", (double)bench_case->spin_ns * 1e-3);
    const struct eplb_bench_cell cells[] = {
        EPLB_BENCH_CELL_INT("ranks", bench_case->ranks),
        EPLB_BENCH_CELL_INT("senders", bench_case->senders),
        EPLB_BENCH_CELL_INT("bytes", (int64_t)bench_case->bytes),
        EPLB_BENCH_CELL_INT("ring_bytes", (int64_t)bench_case->ring_bytes),
        EPLB_BENCH_CELL_TEXT("spin_us", spin),
        EPLB_BENCH_CELL_REAL("us_per_transfer",
                             time.median * 1e6 * (double)bench_case->bytes / (double)effort->moved_bytes),
        EPLB_BENCH_CELL_REAL("gb_per_s", bytes / time.minimum * 1e-9),
        EPLB_BENCH_CELL_REAL("gb_per_s_median", bytes / time.median * 1e-9),
        EPLB_BENCH_CELL_REAL("memcpy_gb_per_s", copied * 1e-9),
    };
    eplb_bench_row(report, cells, sizeof cells / sizeof cells[0]);
}

int main(int argc, char **argv)
{
    static const struct effort full = {.repetitions = 9, .moved_bytes = 64 * MIB, .window_bytes = 128 * MIB};
    static const struct effort quick = {.repetitions = 2, .moved_bytes = MIB, .window_bytes = 2 * MIB};
    struct eplb_bench_options options;
    int code = eplb_bench_parse(
        argc, argv,
        "Transfers between ranks that are processes, beside a copy of as many bytes by one thread.",
        &options);
    if (code >= 0)
        return code;
    struct eplb_bench_report report = {.json = options.json};
    const struct effort *effort = options.quick ? &quick : &full;
    const struct bench_case *chosen = options.quick ? quick_cases : cases;
    size_t count = options.quick ? sizeof quick_cases / sizeof *chosen : sizeof cases / sizeof *chosen;
    double copied = copied_bytes_per_second(options.quick ? MIB : 384 * (size_t)MIB);
    for (size_t i = 0; i < count; i++)
        bench_one(&report, &chosen[i], effort, copied);
    return eplb_bench_end(&report);
}
