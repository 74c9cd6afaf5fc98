/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Exchanges of difficult forms and sizes, over real threads, and beside other communication. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/director.h"
#include "support/notes.h"
#include "support/tables.h"

#define MIB (INT64_C(1) << 20)

enum { SEED = 48 };

static struct notes notes;

static struct team_params one_layer(int32_t experts, int32_t ranks, int32_t redundant)
{
    struct team_params params;
    team_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, 1, experts, ranks, redundant, NULL), EPLB_OK);
    params.log = &notes.sink;
    return params;
}

static void start(struct director *director, const struct team_params *params)
{
    director_init(director, team_create(params));
}

static void stop(struct director *director)
{
    team_destroy(director->team);
    director_destroy(director);
}

/** Moves layer 0, and counts the messages: one per moved slot and chunk, all tensors in it. */
static void move(struct director *director, const int32_t *table, int64_t chunks)
{
    notes_clear(&notes);
    director_move(director, 0, table);
    assert_int_equal(notes_count(&notes, "update_expert_weight"), director->shape.ep_size);
    /* A rank logs what it has sent and received, so every message is in two lines. */
    assert_int_equal((int64_t)notes_sum(&notes, "update_expert_weight", "p2p_messages"),
                     2 * director->messages * chunks);
}

/* ---- B46: two ranks swap messages larger than any buffer ---- */

static void swap_large(int64_t chunk_bytes)
{
    static const int32_t swapped[] = {1, 0};
    struct director director;
    struct team_params params = one_layer(2, 2, 0);
    params.matrix_bytes = 64 * MIB - standin_expert_bytes(0);
    params.chunk_bytes = chunk_bytes;
    params.inflight_bytes = 64 * MIB;
    start(&director, &params);
    move(&director, swapped, 64 * MIB / chunk_bytes);
    assert_int_equal(director.messages, 2);
    stop(&director);
}

static void test_swap_in_one_piece(void **state)
{
    (void)state;
    swap_large(64 * MIB);
}

static void test_swap_in_chunks(void **state)
{
    (void)state;
    swap_large(4 * MIB);
}

/* ---- one holder, everybody wants ---- */

static void test_fan_out(void **state)
{
    (void)state;
    struct director director;
    struct team_params params = one_layer(8, 8, 1);
    start(&director, &params);
    int32_t table[16];
    eplb_placement_initial(&director.shape, table);
    for (int32_t rank = 0; rank < 8; rank++)
        table[2 * rank + 1] = rank == 1 ? 2 : 1;
    move(&director, table, 5);
    /* Rank 0 is the only one that holds expert 0 now. */
    for (int32_t rank = 1; rank < 8; rank++)
        table[2 * rank + 1] = 0;
    move(&director, table, 5);
    assert_int_equal(director.messages, 7);
    stop(&director);
}

/* ---- every rank sends to its neighbour ---- */

static void test_cycle(void **state)
{
    (void)state;
    struct director director;
    struct team_params params = one_layer(8, 8, 0);
    params.inflight_bytes = params.chunk_bytes;
    start(&director, &params);
    int32_t table[8];
    for (int32_t step = 1; step <= 16; step++) {
        for (int32_t rank = 0; rank < 8; rank++)
            table[rank] = (rank + 3 * step) % 8;
        move(&director, table, 5);
        assert_int_equal(director.messages, 8);
    }
    stop(&director);
}

/* ---- B62: chunk edges, and how many messages there are ---- */

static void test_chunk_edges(void **state)
{
    (void)state;
    enum { CHUNK = 1024 };
    static const struct {
        int64_t expert_bytes, chunks;
    } cases[] = {{3 * CHUNK - 1, 3}, {3 * CHUNK, 3}, {3 * CHUNK + 1, 4}, {CHUNK, 1}, {CHUNK - 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct director director;
        struct eplb_prng prng;
        struct team_params params = one_layer(12, 4, 2);
        params.matrix_bytes = cases[i].expert_bytes - standin_expert_bytes(0);
        params.chunk_bytes = CHUNK;
        params.inflight_bytes = 2 * CHUNK;
        start(&director, &params);
        eplb_prng_seed(&prng, SEED);
        for (int32_t round = 0; round < 20; round++) {
            int32_t table[TEAM_MAX_SLOTS];
            tables_random(&prng, &director.shape, table);
            move(&director, table, cases[i].chunks);
        }
        stop(&director);
    }
}

/* ---- B48: a second thread of every rank has its own communication ---- */

static void migrate_beside_chatter(int32_t rounds, int64_t jitter_ns)
{
    struct director director;
    struct eplb_prng prng;
    struct team_params params = one_layer(16, 8, 1);
    params.chatter = 1;
    params.chunk_bytes = 3000;
    params.inflight_bytes = 9000;
    params.jitter_ns = jitter_ns;
    params.seed = SEED;
    params.log = NULL;
    print_message("seed %d\n", SEED);
    start(&director, &params);
    eplb_prng_seed(&prng, SEED);
    for (int32_t round = 0; round < rounds; round++) {
        int32_t table[TEAM_MAX_SLOTS];
        tables_random(&prng, &director.shape, table);
        director_move(&director, 0, table);
    }
    stop(&director);
}

static void test_beside_chatter(void **state)
{
    (void)state;
    migrate_beside_chatter(800, 0);
}

static void test_beside_chatter_with_jitter(void **state)
{
    (void)state;
    migrate_beside_chatter(200, 5000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swap_in_one_piece),
        cmocka_unit_test(test_swap_in_chunks),
        cmocka_unit_test(test_fan_out),
        cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_chunk_edges),
        cmocka_unit_test(test_beside_chatter),
        cmocka_unit_test(test_beside_chatter_with_jitter),
    };
    notes_init(&notes);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    notes_destroy(&notes);
    return failed;
}
