/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * An engine and a worker that are processes: what arrives is whole, and who waits costs next to nothing.
 *
 * EPLB_CHANNEL_MESSAGES=N passes N messages, however long that takes; else as many as ten seconds allow, a
 * million at most.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/prng.h"
#include "os/bell.h"
#include "support/children.h"
#include "support/shm_place.h"
#include "traffic.h"

enum { LONG_MS = 60000, NS_PER_MS = 1000000, FEWEST = 5000 };

/* What the two processes share beside the channel. */
struct board {
    struct eplb_channel_attach_params attach;
    atomic_int ready;
    struct eplb_bell bell;         /* rung when the worker is ready */
    atomic_int_least64_t cpu_ns;   /* that the worker has used since */
    atomic_uint_least64_t refused; /* requests that were not what they should be */
};

struct scene {
    struct shm_place place;
    struct traffic traffic;
    struct eplb_error error;
    struct eplb_channel *engine;
    struct board *board;
    struct child child;
};

/* CPU time of this process. */
static int64_t cpu_ns(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000000) +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

static void await_ready(struct board *board)
{
    int64_t deadline = traffic_in_ms(LONG_MS);
    for (;;) {
        uint32_t heard = eplb_bell_hear(&board->bell);
        if (atomic_load(&board->ready))
            return;
        assert_true(traffic_in_ms(0) < deadline);
        eplb_bell_sleep(&board->bell, heard, 0, deadline);
    }
}

static void open_scene(struct scene *scene, int64_t spin_ns, void (*worker)(void *context, int32_t index))
{
    *scene = (struct scene){.engine = NULL};
    shm_place_open(&scene->place);
    traffic_init(&scene->traffic);
    struct eplb_channel_params params;
    eplb_channel_params_init(&params);
    params.directory = scene->place.path;
    params.shape = scene->traffic.shape;
    params.ep_rank = TRAFFIC_RANK;
    params.max_input_bytes = TRAFFIC_BYTES;
    params.max_result_bytes = TRAFFIC_BYTES;
    params.spin_ns = spin_ns;
    if (eplb_channel_create(&params, &scene->engine, &scene->error) != EPLB_OK)
        fail_msg("%s", scene->error.text);
    scene->board =
        mmap(NULL, sizeof *scene->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene->board != MAP_FAILED);
    eplb_channel_attach_params_init(&scene->board->attach);
    scene->board->attach.directory = scene->place.path;
    scene->board->attach.generation = eplb_channel_generation(scene->engine);
    scene->board->attach.ep_rank = TRAFFIC_RANK;
    scene->board->attach.spin_ns = spin_ns;
    child_start(&scene->child, worker, scene->board, 0);
    await_ready(scene->board);
}

static void close_scene(struct scene *scene)
{
    assert_int_equal(children_finish(&scene->child, 1, traffic_in_ms(LONG_MS)), 0);
    assert_int_equal(atomic_load(&scene->board->refused), 0);
    eplb_channel_destroy(scene->engine);
    munmap(scene->board, sizeof *scene->board);
    shm_place_close(&scene->place);
}

/* ---- the worker's process ---- */

static struct eplb_channel *be_ready(struct board *board)
{
    struct eplb_channel *worker;
    struct eplb_error error;
    if (eplb_channel_attach(&board->attach, &worker, &error) != EPLB_OK)
        child_fail(error.text);
    atomic_store(&board->ready, 1);
    eplb_bell_ring(&board->bell);
    return worker;
}

static void yield_now_and_then(struct eplb_prng *prng)
{
    if (eplb_prng_below(prng, 16) == 0)
        (void)sched_yield();
}

/* Replies to every forward, until a wake comes. */
static void work(void *context, int32_t index)
{
    (void)index;
    struct board *board = context;
    struct traffic traffic;
    struct eplb_prng prng;
    struct eplb_error error;
    traffic_init(&traffic);
    eplb_prng_seed(&prng, 2);
    struct eplb_channel *worker = be_ready(board);
    int64_t begin = cpu_ns();
    for (uint64_t seq = 1;; seq++) {
        struct eplb_channel_request request;
        int arrived;
        if (eplb_channel_receive(worker, traffic_in_ms(LONG_MS), &request, &arrived, &error) != EPLB_OK)
            child_fail(error.text);
        if (!arrived)
            break;
        if (!traffic_request_is(&traffic, &request, seq, TRAFFIC_BYTES))
            atomic_fetch_add(&board->refused, 1);
        yield_now_and_then(&prng);
        if (traffic_reply(&traffic, worker, seq, TRAFFIC_BYTES, &error) != EPLB_OK)
            child_fail(error.text);
        yield_now_and_then(&prng);
    }
    atomic_store(&board->cpu_ns, cpu_ns() - begin);
    eplb_channel_destroy(worker);
}

/* ---- whole messages ---- */

struct amount {
    uint64_t messages;
    int64_t ms; /* at most */
};

static struct amount wanted_amount(void)
{
    const char *text = getenv("EPLB_CHANNEL_MESSAGES");
    if (text == NULL)
        return (struct amount){.messages = 1000000, .ms = 10000};
    return (struct amount){.messages = strtoull(text, NULL, 10), .ms = INT64_C(24) * 3600 * 1000};
}

/* B72: every message is 4 KiB of one value; a reader that is told too early sees two. */
static void messages_never_mix(void **state)
{
    (void)state;
    struct scene scene;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1);
    open_scene(&scene, -1, work);
    const struct amount amount = wanted_amount();
    uint64_t wanted = amount.messages;
    int64_t begin = traffic_in_ms(0);
    uint64_t submitted = 0;
    uint64_t collected = 0;
    while (collected < wanted) {
        while (submitted < wanted && submitted - collected < EPLB_CHANNEL_DEPTH) {
            submitted++;
            assert_int_equal(
                traffic_submit(&scene.traffic, scene.engine, submitted, TRAFFIC_BYTES, &scene.error),
                EPLB_OK);
            yield_now_and_then(&prng);
        }
        struct eplb_channel_reply reply;
        int arrived;
        assert_int_equal(
            eplb_channel_collect(scene.engine, traffic_in_ms(LONG_MS), &reply, &arrived, &scene.error),
            EPLB_OK);
        assert_int_equal(arrived, 1);
        collected++;
        assert_true(traffic_reply_is(&scene.traffic, &reply, collected, TRAFFIC_BYTES));
        yield_now_and_then(&prng);
        if (traffic_in_ms(-amount.ms) >= begin)
            wanted = submitted;
    }
    print_message("seeds 1 and 2: %llu messages of %d bytes each way in %lld ms\n",
                  (unsigned long long)collected, TRAFFIC_BYTES,
                  (long long)(traffic_in_ms(0) - begin) / NS_PER_MS);
    assert_in_range(collected, amount.messages < FEWEST ? amount.messages : FEWEST, amount.messages);
    eplb_channel_wake(scene.engine);
    close_scene(&scene);
}

/* ---- the cost of waiting ---- */

static void assert_share(const char *who, int64_t cpu, int64_t wall, double most)
{
    double share = (double)cpu / (double)wall;
    print_message("%s: %.2f ms of %.0f ms, %.3f%%\n", who, (double)cpu / NS_PER_MS, (double)wall / NS_PER_MS,
                  share * 100);
    if (share >= most)
        fail_msg("%s uses %.3f%% of a processor; allowed is less than %.0f%%", who, share * 100, most * 100);
}

static void who_waits_costs_next_to_nothing(void **state)
{
    (void)state;
    enum { WAIT_MS = 2000 };
    struct scene scene;
    open_scene(&scene, -1, work);
    struct eplb_channel_reply reply;
    int arrived;
    int64_t begin = traffic_in_ms(0);
    int64_t cpu = cpu_ns();
    assert_int_equal(eplb_channel_collect(scene.engine, begin + INT64_C(1) * WAIT_MS * NS_PER_MS, &reply,
                                          &arrived, &scene.error),
                     EPLB_OK);
    int64_t wall = traffic_in_ms(0) - begin;
    cpu = cpu_ns() - cpu;
    assert_int_equal(arrived, 0);
    eplb_channel_wake(scene.engine);
    assert_int_equal(children_finish(&scene.child, 1, traffic_in_ms(LONG_MS)), 0);
    assert_true(wall >= INT64_C(1) * WAIT_MS * NS_PER_MS);
    assert_share("waiting engine", cpu, wall, 0.01);
    assert_share("waiting worker", atomic_load(&scene.board->cpu_ns), wall, 0.01);
    close_scene(&scene);
}

/* A message every 5 ms; between two, both wait. */
static void a_message_now_and_then_costs_little(void **state)
{
    (void)state;
    enum { MESSAGES = 300, EVERY_MS = 5 };
    static const int64_t spins[] = {-1, 20000};
    for (size_t i = 0; i < sizeof spins / sizeof *spins; i++) {
        struct scene scene;
        open_scene(&scene, spins[i], work);
        struct eplb_channel_reply reply;
        int arrived;
        int64_t begin = traffic_in_ms(0);
        int64_t cpu = cpu_ns();
        for (uint64_t seq = 1; seq <= MESSAGES; seq++) {
            assert_int_equal(traffic_submit(&scene.traffic, scene.engine, seq, TRAFFIC_BYTES, NULL), EPLB_OK);
            assert_int_equal(
                eplb_channel_collect(scene.engine, traffic_in_ms(LONG_MS), &reply, &arrived, NULL), EPLB_OK);
            assert_int_equal(arrived, 1);
            int64_t next = begin + (int64_t)seq * EVERY_MS * NS_PER_MS;
            assert_int_equal(eplb_channel_collect(scene.engine, next, &reply, &arrived, NULL), EPLB_OK);
            assert_int_equal(arrived, 0);
        }
        int64_t wall = traffic_in_ms(0) - begin;
        cpu = cpu_ns() - cpu;
        eplb_channel_wake(scene.engine);
        assert_int_equal(children_finish(&scene.child, 1, traffic_in_ms(LONG_MS)), 0);
        assert_share("engine", cpu, wall, 0.20);
        assert_share("worker", atomic_load(&scene.board->cpu_ns), wall, 0.20);
        close_scene(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_never_mix),
        cmocka_unit_test(who_waits_costs_next_to_nothing),
        cmocka_unit_test(a_message_now_and_then_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
