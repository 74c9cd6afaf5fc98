/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * What a forward costs before anybody computes: an engine hands an empty command to every rank's process
 * and takes its output back, over forward channels; and a barrier of the ranks, over the shm group. Beside
 * them, in the same run: the same number of processes that are woken by a bare futex each and say by
 * another that they were, which is what the machine's wake-ups allow.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eplb/channel.h"
#include "eplb/clock.h"
#include "eplb/shm.h"
#include "os/futex.h"
#include "support/bench.h"

enum { MAX_RANKS = 16, NUM_LAYERS = 4, NUM_EXPERTS = 64, PATH = 512 };

/* Longest time that the answer of a process may take. */
#define PATIENCE_NS (INT64_C(20) * 1000000000)

static const int32_t sizes[] = {2, 8, 16};

/* What the processes share beside what is measured. */
struct board {
    _Alignas(64) _Atomic uint32_t answers; /* that ranks have given: slept on by the engine */
    struct {
        _Alignas(64) _Atomic uint32_t calls; /* slept on by a rank */
    } ranks[MAX_RANKS];
    char directory[PATH];
    uint64_t generation;
    struct eplb_shape shape;
};

struct team {
    struct board *board;
    int32_t num_ranks;
    pid_t children[MAX_RANKS];
    uint64_t seq;
    uint32_t called;                          /* rounds of the bare futexes */
    struct eplb_channel *channels[MAX_RANKS]; /* while round trips are measured */
    const struct eplb_group *group;           /* while barriers are measured */
};

static void check(enum eplb_status status, const struct eplb_error *error)
{
    if (status != EPLB_OK)
        eplb_bench_fail(error->text);
}

static int64_t patience(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context) + PATIENCE_NS;
}

/* ---- processes ---- */

static void answer(struct board *board)
{
    /* Release: what the rank has done comes before its answer. */
    atomic_fetch_add_explicit(&board->answers, 1, memory_order_release);
    eplb_futex_wake(&board->answers);
}

/* Waits until that many answers have been given in all. */
static void await_answers(struct board *board, uint32_t count)
{
    int64_t deadline = patience();
    for (;;) {
        /* Acquire: pairs with the release in answer. */
        uint32_t seen = atomic_load_explicit(&board->answers, memory_order_acquire);
        if (seen == count)
            return;
        if (patience() - deadline > PATIENCE_NS)
            eplb_bench_fail("a process of the bench does not answer");
        eplb_futex_wait(&board->answers, seen, deadline);
    }
}

/* Starts the ranks from `first` on, each in a process of its own that runs until it is killed. */
static void start(struct team *team, int32_t first, void (*run)(struct board *board, int32_t rank))
{
    pid_t parent = getpid();
    /* Relaxed: nobody else is there. */
    atomic_store_explicit(&team->board->answers, 0, memory_order_relaxed);
    for (int32_t rank = first; rank < team->num_ranks; rank++) {
        pid_t pid = fork();
        if (pid < 0)
            eplb_bench_fail("the bench cannot start a process");
        if (pid == 0) {
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
                run(team->board, rank);
            _exit(1);
        }
        team->children[rank] = pid;
    }
    await_answers(team->board, (uint32_t)(team->num_ranks - first));
}

static void stop(struct team *team, int32_t first)
{
    for (int32_t rank = first; rank < team->num_ranks; rank++) {
        kill(team->children[rank], SIGKILL);
        waitpid(team->children[rank], NULL, 0);
    }
}

/* ---- bare futexes ---- */

static void answer_calls(struct board *board, int32_t rank)
{
    _Atomic uint32_t *calls = &board->ranks[rank].calls;
    uint32_t heard = 0;
    for (;;) {
        answer(board);
        for (;;) {
            /* Acquire: what the caller did comes before its call. */
            uint32_t seen = atomic_load_explicit(calls, memory_order_acquire);
            if (seen != heard)
                break;
            eplb_futex_wait(calls, heard, INT64_MAX);
        }
        heard++;
    }
}

static void call_all(void *context)
{
    struct team *team = context;
    team->called++;
    for (int32_t rank = 0; rank < team->num_ranks; rank++) {
        _Atomic uint32_t *calls = &team->board->ranks[rank].calls;
        /* Release: pairs with the acquire in answer_calls. */
        atomic_store_explicit(calls, team->called, memory_order_release);
        eplb_futex_wake(calls);
    }
    await_answers(team->board, (uint32_t)team->num_ranks * (team->called + 1));
}

static struct eplb_bench_time measure_futexes(struct team *team, int repetitions)
{
    team->called = 0;
    for (int32_t rank = 0; rank < team->num_ranks; rank++)
        /* Relaxed: the ranks are not there yet. */
        atomic_store_explicit(&team->board->ranks[rank].calls, 0, memory_order_relaxed);
    start(team, 0, answer_calls);
    struct eplb_bench_time time = eplb_bench_measure(call_all, team, repetitions / 10, repetitions);
    stop(team, 0);
    return time;
}

/* ---- channels ---- */

static void answer_forwards(struct board *board, int32_t rank)
{
    struct eplb_channel *channel;
    struct eplb_error error;
    struct eplb_channel_attach_params params;
    eplb_channel_attach_params_init(&params);
    params.directory = board->directory;
    params.generation = board->generation;
    params.ep_rank = rank;
    check(eplb_channel_attach(&params, &channel, &error), &error);
    const struct eplb_shape *shape = eplb_channel_shape(channel);
    size_t layers = (size_t)shape->num_layers;
    struct eplb_worker_output output = {
        .size = sizeof output,
        .ep_rank = rank,
        .num_layers = shape->num_layers,
        .slots_per_rank = shape->slots_per_rank,
        .prefix = eplb_bench_allocate(layers * (size_t)shape->slots_per_rank, sizeof(int64_t)),
        .generations = eplb_bench_allocate(layers, sizeof(uint64_t))};
    answer(board);
    for (;;) {
        struct eplb_channel_request request;
        int arrived;
        check(eplb_channel_receive(channel, INT64_MAX, &request, &arrived, &error), &error);
        if (!arrived)
            continue;
        output.seq = request.command.seq;
        check(eplb_channel_reply(channel, &output, NULL, 0, &error), &error);
    }
}

static void run_forward(void *context)
{
    struct team *team = context;
    struct eplb_error error;
    struct eplb_command command;
    eplb_command_init(&command, ++team->seq);
    for (int32_t rank = 0; rank < team->num_ranks; rank++)
        check(eplb_channel_submit(team->channels[rank], &command, NULL, 0, &error), &error);
    for (int32_t rank = 0; rank < team->num_ranks; rank++) {
        struct eplb_channel_reply reply;
        int arrived;
        check(eplb_channel_collect(team->channels[rank], patience(), &reply, &arrived, &error), &error);
        if (!arrived)
            eplb_bench_fail("a worker of the bench does not reply");
    }
}

static struct eplb_bench_time measure_forwards(struct team *team, int repetitions)
{
    struct eplb_error error;
    struct board *board = team->board;
    struct eplb_channel_params params;
    eplb_channel_params_init(&params);
    params.directory = board->directory;
    params.shape = board->shape;
    for (params.ep_rank = 0; params.ep_rank < team->num_ranks; params.ep_rank++) {
        struct eplb_channel **channel = &team->channels[params.ep_rank];
        check(eplb_channel_create(&params, channel, &error), &error);
        params.generation = eplb_channel_generation(*channel);
    }
    board->generation = params.generation;
    start(team, 0, answer_forwards);
    struct eplb_bench_time time = eplb_bench_measure(run_forward, team, repetitions / 10, repetitions);
    stop(team, 0);
    for (int32_t rank = 0; rank < team->num_ranks; rank++)
        eplb_channel_destroy(team->channels[rank]);
    return time;
}

/* ---- barriers ---- */

static struct eplb_shm *attach_group(const struct board *board, int32_t rank)
{
    struct eplb_shm *shm;
    struct eplb_error error;
    struct eplb_shm_attach_params params;
    eplb_shm_attach_params_init(&params);
    params.directory = board->directory;
    params.generation = board->generation;
    params.rank = rank;
    check(eplb_shm_attach(&params, &shm, &error), &error);
    return shm;
}

static void pass_barrier(void *context)
{
    const struct team *team = context;
    struct eplb_error error;
    check(team->group->barrier(team->group->self, &error), &error);
}

static void pass_barriers(struct board *board, int32_t rank)
{
    struct team team = {.group = eplb_shm_group(attach_group(board, rank))};
    answer(board);
    for (;;)
        pass_barrier(&team);
}

/* This process is rank 0. */
static struct eplb_bench_time measure_barriers(struct team *team, int repetitions)
{
    struct eplb_shm *shm;
    struct eplb_error error;
    struct eplb_shm_params params;
    eplb_shm_params_init(&params);
    params.directory = team->board->directory;
    params.num_ranks = team->num_ranks;
    check(eplb_shm_create(&params, &shm, &error), &error);
    team->board->generation = eplb_shm_generation(shm);
    struct eplb_shm *own = attach_group(team->board, 0);
    team->group = eplb_shm_group(own);
    start(team, 1, pass_barriers);
    struct eplb_bench_time time = eplb_bench_measure(pass_barrier, team, repetitions / 10, repetitions);
    stop(team, 1);
    eplb_shm_destroy(own);
    eplb_shm_destroy(shm);
    return time;
}

/* ---- rows ---- */

static void bench_size(struct eplb_bench_report *report, struct board *board, int32_t num_ranks, int quick)
{
    int repetitions = quick ? 20 : EPLB_BENCH_MAX_REPETITIONS;
    struct team team = {.board = board, .num_ranks = num_ranks};
    struct eplb_error error;
    check(eplb_shape_init(&board->shape, NUM_LAYERS, NUM_EXPERTS, num_ranks, 1, &error), &error);
    struct eplb_bench_time forward = measure_forwards(&team, repetitions);
    struct eplb_bench_time barrier = measure_barriers(&team, repetitions);
    struct eplb_bench_time futex = measure_futexes(&team, repetitions);
    const struct eplb_bench_cell cells[] = {
        EPLB_BENCH_CELL_INT("ranks", num_ranks),
        EPLB_BENCH_CELL_INT("command_bytes", (int64_t)eplb_command_bytes(&board->shape)),
        EPLB_BENCH_CELL_INT("output_bytes", (int64_t)eplb_worker_output_bytes(&board->shape)),
        EPLB_BENCH_CELL_REAL("forward_us", forward.minimum * 1e6),
        EPLB_BENCH_CELL_REAL("forward_us_median", forward.median * 1e6),
        EPLB_BENCH_CELL_REAL("barrier_us", barrier.minimum * 1e6),
        EPLB_BENCH_CELL_REAL("barrier_us_median", barrier.median * 1e6),
        EPLB_BENCH_CELL_REAL("futex_us", futex.minimum * 1e6),
        EPLB_BENCH_CELL_REAL("futex_us_median", futex.median * 1e6),
    };
    eplb_bench_row(report, cells, sizeof cells / sizeof cells[0]);
}

static void remove_directory(const struct board *board)
{
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/eplb.%u.lock", board->directory, (unsigned)getuid());
    (void)unlink(path);
    (void)rmdir(board->directory);
}

int main(int argc, char **argv)
{
    struct eplb_bench_options options;
    int code = eplb_bench_parse(
        argc, argv,
        "A forward's way through the channels of all ranks and back, and a barrier of the ranks, beside bare "
        "futexes.",
        &options);
    if (code >= 0)
        return code;
    struct eplb_bench_report report = {.json = options.json};
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        eplb_bench_fail("the bench has not enough memory");
    snprintf(board->directory, sizeof board->directory, "/dev/shm/eplb-bench-XXXXXX");
    if (mkdtemp(board->directory) == NULL)
        eplb_bench_fail("the bench cannot make a directory in /dev/shm");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        bench_size(&report, board, sizes[i], options.quick);
    remove_directory(board);
    return eplb_bench_end(&report);
}
