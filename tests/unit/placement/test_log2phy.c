/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tables.h"

static const int32_t two_ranks[] = {0, 1, 2, 0, 3, 1};

static void a_source_takes_the_replica_of_its_number(void **state)
{
    (void)state;
    static const int32_t of_rank_0[] = {0, 1, 2, 4};
    static const int32_t of_rank_1[] = {3, 5, 2, 4};
    struct eplb_shape shape = tables_shape(4, 2, 1);
    int32_t map[4];
    eplb_log2phy(&shape, two_ranks, 0, 0, map);
    assert_memory_equal(map, of_rank_0, sizeof map);
    eplb_log2phy(&shape, two_ranks, 1, 0, map);
    assert_memory_equal(map, of_rank_1, sizeof map);
    /* The rank in the MoE TP group shifts the choice, and a large one does not overflow. */
    eplb_log2phy(&shape, two_ranks, 0, 1, map);
    assert_memory_equal(map, of_rank_1, sizeof map);
    eplb_log2phy(&shape, two_ranks, 1, INT32_MAX, map);
    assert_memory_equal(map, of_rank_0, sizeof map);
}

/** Eight ranks; expert 0 in the slots 0, 3 and 5, expert 7 in the slots 7 and 14. */
static const int32_t eight_ranks[] = {0, 1, 1, 0, 2, 0, 3, 7, 4, 2, 5, 3, 6, 4, 7, 5};

static void eight_sources_spread_over_three_replicas(void **state)
{
    (void)state;
    static const int32_t expected[8] = {0, 3, 5, 0, 3, 5, 0, 3};
    struct eplb_shape shape = tables_shape(8, 8, 1);
    assert_int_equal(eplb_placement_check(&shape, eight_ranks, NULL), EPLB_OK);
    int senders[16] = {0};
    for (int32_t rank = 0; rank < 8; rank++) {
        int32_t map[8];
        eplb_log2phy(&shape, eight_ranks, rank, 0, map);
        assert_int_equal(map[0], expected[rank]);
        senders[map[0]]++;
    }
    assert_int_equal(senders[0], 3);
    assert_int_equal(senders[3], 3);
    assert_int_equal(senders[5], 2);
}

/** The static rule does not know which sources are idle: what it gives is 400 and 200, not 300 each. */
static void idle_tail_ranks_leave_a_replica_less(void **state)
{
    (void)state;
    static const int64_t tokens[8] = {100, 100, 100, 0, 100, 100, 100, 0};
    struct eplb_shape shape = tables_shape(8, 8, 1);
    int64_t received[16] = {0};
    for (int32_t rank = 0; rank < 8; rank++) {
        int32_t map[8];
        eplb_log2phy(&shape, eight_ranks, rank, 0, map);
        received[map[7]] += tokens[rank];
    }
    assert_int_equal(received[7], 400);
    assert_int_equal(received[14], 200);
}

/** The replica of that number, found the long way. */
static int32_t replica_slot(const struct eplb_shape *shape, const int32_t *expert_ids, int32_t expert,
                            int64_t number)
{
    int32_t replicas = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        replicas += expert_ids[slot] == expert;
    int64_t left = number % replicas;
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        if (expert_ids[slot] == expert && left-- == 0)
            return slot;
    return -1;
}

static void random_maps_follow_the_rule(void **state)
{
    (void)state;
    enum { TABLES = 500 };
    static const int32_t shapes[][3] = {{8, 4, 1}, {12, 3, 5}, {16, 8, 4}, {6, 6, 5}, {64, 8, 2}, {5, 1, 0}};
    const uint64_t seed = 20240611;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    for (int i = 0; i < TABLES; i++) {
        const int32_t *sizes = shapes[(size_t)i % (sizeof shapes / sizeof *shapes)];
        struct eplb_shape shape = tables_shape(sizes[0], sizes[1], sizes[2]);
        int32_t table[128];
        int32_t map[64];
        tables_random(&prng, &shape, table);
        int32_t tp_rank = (int32_t)eplb_prng_below(&prng, 5);
        for (int32_t rank = 0; rank < shape.ep_size; rank++) {
            eplb_log2phy(&shape, table, rank, tp_rank, map);
            for (int32_t expert = 0; expert < shape.num_experts; expert++)
                assert_int_equal(map[expert], replica_slot(&shape, table, expert, (int64_t)rank + tp_rank));
        }
    }
}

enum { RUNS = 50 };

static _Noreturn void write_maps(int output)
{
    struct eplb_shape shape = tables_shape(4, 2, 1);
    for (int run = 0; run < RUNS; run++)
        for (int32_t rank = 0; rank < 2; rank++) {
            int32_t map[4];
            eplb_log2phy(&shape, two_ranks, rank, 0, map);
            if (write(output, map, sizeof map) != (ssize_t)sizeof map)
                _exit(1);
        }
    _exit(0);
}

static void every_process_builds_the_same_maps(void **state)
{
    (void)state;
    static const int32_t expected[2][4] = {{0, 1, 2, 4}, {3, 5, 2, 4}};
    for (int process = 0; process < 2; process++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_maps(ends[1]);
        close(ends[1]);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        int32_t maps[RUNS][2][4];
        assert_int_equal(read(ends[0], maps, sizeof maps), sizeof maps);
        close(ends[0]);
        for (int run = 0; run < RUNS; run++)
            assert_memory_equal(maps[run], expected, sizeof expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_takes_the_replica_of_its_number),
        cmocka_unit_test(eight_sources_spread_over_three_replicas),
        cmocka_unit_test(idle_tail_ranks_leave_a_replica_less),
        cmocka_unit_test(random_maps_follow_the_rule),
        cmocka_unit_test(every_process_builds_the_same_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
