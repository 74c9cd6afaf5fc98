/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The MoE block alone: what it adds, what it counts, slot by slot, and what it believes of a peer. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "eplb/threads.h"
#include "model/arithmetic.h"
#include "model/gemm.h"
#include "model/moe.h"
#include "os/thread.h"
#include "support/tables.h"

enum { HIDDEN = 24, INNER = 16, EXPERTS = 6, RANKS = 3, MAX_SLOTS = 4, MAX_ROWS = 150, TOP_K = 4, SEEDS = 8 };

/** One rank with its part of one layer. */
struct rank {
    int32_t number;
    struct eplb_moe_params params;
    struct eplb_moe *moe;
    struct eplb_layer_weights weights;
    struct eplb_replicas replicas;
    void *replicas_block;
    int32_t num_rows;
    float x[MAX_ROWS][HIDDEN], y[MAX_ROWS][HIDDEN], expected[MAX_ROWS][HIDDEN];
    int32_t experts[MAX_ROWS][TOP_K];
    float gates[MAX_ROWS][TOP_K];
    uint8_t counted[MAX_ROWS];
    int64_t prefix[2 * MAX_SLOTS];
    enum eplb_status status;
    struct eplb_error error;
    struct eplb_thread thread;
};

static struct eplb_model_config config_of(void)
{
    struct eplb_model_config config;
    eplb_model_config_init(&config);
    config.hidden_size = HIDDEN;
    config.expert_hidden_size = INNER;
    config.num_experts = EXPERTS;
    config.num_layers = 2;
    config.top_k = TOP_K;
    return config;
}

static void fill_weights(struct rank *rank, const int32_t *table)
{
    struct eplb_expert_layout layout = eplb_expert_layout(&rank->params.config);
    int32_t slots = rank->params.shape.slots_per_rank;
    rank->weights.gate_up = calloc((size_t)(slots * layout.gate_up_floats), sizeof(float));
    rank->weights.down = calloc((size_t)(slots * layout.down_floats), sizeof(float));
    assert_true(rank->weights.gate_up != NULL && rank->weights.down != NULL);
    for (int32_t slot = 0; slot < slots; slot++)
        eplb_expert_fill(&rank->params.config, 1, table[rank->number * slots + slot],
                         rank->weights.gate_up + slot * layout.gate_up_floats,
                         rank->weights.down + slot * layout.down_floats);
}

/** Tables of both layers, of which the calls use the second. */
static void make_replicas(struct rank *rank, const int32_t *table, const int32_t *weights)
{
    const struct eplb_replicas_params params = {
        .shape = rank->params.shape, .ep_rank = rank->number, .routing = rank->params.routing};
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_replicas_take(&arena, &params, &rank->replicas);
    rank->replicas_block = eplb_arena_reserve(&arena);
    assert_non_null(rank->replicas_block);
    eplb_replicas_take(&arena, &params, &rank->replicas);
    eplb_replicas_init(&rank->replicas, &params);
    for (int32_t layer = 0; layer < 2; layer++)
        eplb_replicas_set(&rank->replicas, layer, table, weights);
}

static void create_rank(struct rank *rank, int32_t number, const struct eplb_group *group,
                        const struct eplb_shape *shape, enum eplb_replica_routing routing,
                        const int32_t *table, const int32_t *weights)
{
    struct eplb_arena arena;
    struct eplb_shape layers = *shape;
    layers.num_layers = 2;
    *rank = (struct rank){.number = number};
    rank->params = (struct eplb_moe_params){.config = config_of(),
                                            .shape = layers,
                                            .ep_rank = number,
                                            .max_rows = MAX_ROWS,
                                            .group = group,
                                            .routing = routing,
                                            .cost_per_token = 1};
    assert_int_equal(eplb_counter_create(&layers, number, &rank->params.counter, NULL), EPLB_OK);
    eplb_arena_init(&arena, NULL, 0);
    assert_null(eplb_moe_take(&arena, &rank->params));
    assert_non_null(eplb_arena_reserve(&arena));
    rank->moe = eplb_moe_take(&arena, &rank->params);
    eplb_moe_init(rank->moe, &rank->params);
    make_replicas(rank, table, weights);
    fill_weights(rank, table);
}

static void destroy_rank(struct rank *rank)
{
    eplb_counter_destroy(rank->params.counter);
    eplb_arena_free(rank->moe);
    eplb_arena_free(rank->replicas_block);
    free(rank->weights.gate_up);
    free(rank->weights.down);
}

/** Any experts in any order, so that one rank often has several of a row. */
static void draw_row(struct rank *rank, int32_t row, struct eplb_prng *prng)
{
    int32_t order[EXPERTS] = {0, 1, 2, 3, 4, 5};
    for (int32_t k = 0; k < TOP_K; k++) {
        int32_t other = k + (int32_t)eplb_prng_below(prng, (uint64_t)(EXPERTS - k));
        int32_t expert = order[other];
        order[other] = order[k];
        rank->experts[row][k] = order[k] = expert;
        rank->gates[row][k] = (float)eplb_prng_real(prng);
    }
    for (int32_t i = 0; i < HIDDEN; i++) {
        rank->x[row][i] = (float)(2 * eplb_prng_real(prng) - 1);
        rank->y[row][i] = rank->expected[row][i] = (float)eplb_prng_real(prng);
    }
    rank->counted[row] = (uint8_t)eplb_prng_below(prng, 2);
}

static void expect_row(struct rank *rank, int32_t row)
{
    struct eplb_model_config config = config_of();
    struct eplb_expert_layout layout = eplb_expert_layout(&config);
    float *gate_up = malloc((size_t)layout.gate_up_floats * sizeof(float));
    float *down = malloc((size_t)layout.down_floats * sizeof(float));
    assert_true(gate_up != NULL && down != NULL);
    for (int32_t k = 0; k < TOP_K; k++) {
        float both[2 * INNER], inner[INNER], out[HIDDEN];
        eplb_expert_fill(&config, 1, rank->experts[row][k], gate_up, down);
        eplb_gemm_plain(rank->x[row], 1, HIDDEN, gate_up, 2 * INNER, both);
        for (int32_t i = 0; i < INNER; i++)
            inner[i] = eplb_silu(both[i]) * both[INNER + i];
        eplb_gemm_plain(inner, 1, INNER, down, HIDDEN, out);
        for (int32_t i = 0; i < HIDDEN; i++)
            rank->expected[row][i] = fmaf(rank->gates[row][k], out[i], rank->expected[row][i]);
    }
    free(gate_up);
    free(down);
}

static struct eplb_moe_call call_of(const struct rank *rank, float *y)
{
    return (struct eplb_moe_call){.seq = 17,
                                  .layer = 1,
                                  .generation = 5,
                                  .weights = &rank->weights,
                                  .replicas = &rank->replicas.layers[1],
                                  .num_rows = rank->num_rows,
                                  .x = rank->x[0],
                                  .experts = rank->experts[0],
                                  .gates = rank->gates[0],
                                  .counted = rank->counted,
                                  .y = y};
}

static void run(void *argument)
{
    struct rank *rank = argument;
    const struct eplb_moe_call call = call_of(rank, rank->y[0]);
    rank->status = eplb_counter_begin(rank->params.counter, 0, &rank->error);
    if (rank->status == EPLB_OK)
        rank->status = eplb_moe_run(rank->moe, &call, &rank->error);
    eplb_counter_prefix(rank->params.counter, rank->prefix);
}

/** The slots of a source's rows by its table, row by row. */
static void slots_by_table(const struct rank *source, int32_t slots[MAX_ROWS][TOP_K])
{
    uint32_t numbers[EXPERTS] = {0};
    struct eplb_route_turn turn;
    eplb_route_turn_init(&turn, RANKS, source->number, 17);
    for (int32_t row = 0; row < source->num_rows; row++)
        for (int32_t k = 0; k < TOP_K; k++) {
            int32_t expert = source->experts[row][k];
            slots[row][k] =
                eplb_route_slot(&source->replicas.layers[1].table, &turn, expert, numbers[expert]++);
        }
}

/** The same by the split of the batch: rows that count come first. */
static void slots_by_batch(const struct rank *ranks, const struct rank *source,
                           int32_t slots[MAX_ROWS][TOP_K])
{
    const struct eplb_replica_layer *layer = &source->replicas.layers[1];
    int32_t counts[RANKS][EXPERTS] = {0}, sends[RANKS * MAX_SLOTS], numbers[EXPERTS] = {0};
    int64_t tokens[RANKS * MAX_SLOTS];
    struct eplb_batch_problem problem;
    struct eplb_batch_result result;
    for (int32_t rank = 0; rank < RANKS; rank++)
        for (int32_t i = 0; i < ranks[rank].num_rows * TOP_K; i++)
            counts[rank][ranks[rank].experts[i / TOP_K][i % TOP_K]]++;
    eplb_batch_problem_init(&problem);
    problem.counts = counts[0];
    problem.table = layer->fixed;
    problem.rotation = 17 + 1;
    eplb_batch_split(layer->graph, &problem, tokens, &result);
    eplb_batch_sends(layer->graph, counts[0], tokens, source->number, sends);
    for (int uncounted = 0; uncounted < 2; uncounted++)
        for (int32_t row = 0; row < source->num_rows; row++)
            for (int32_t k = 0; source->counted[row] != uncounted && k < TOP_K; k++) {
                int32_t expert = source->experts[row][k];
                slots[row][k] = eplb_batch_slot(layer->graph, sends, expert, numbers[expert]++);
            }
}

/** Every slot's count, from where the sources must send their rows. */
static void check_counts(const struct rank *ranks, const struct eplb_shape *shape)
{
    int64_t rows[RANKS * MAX_SLOTS] = {0}, counted[RANKS * MAX_SLOTS] = {0};
    for (int32_t source = 0; source < RANKS; source++) {
        static int32_t slots[MAX_ROWS][TOP_K];
        if (ranks->params.routing == EPLB_ROUTING_BATCH)
            slots_by_batch(ranks, &ranks[source], slots);
        else
            slots_by_table(&ranks[source], slots);
        for (int32_t row = 0; row < ranks[source].num_rows; row++)
            for (int32_t k = 0; k < TOP_K; k++) {
                rows[slots[row][k]]++;
                counted[slots[row][k]] += ranks[source].counted[row];
            }
    }
    for (int32_t rank = 0; rank < RANKS; rank++) {
        int64_t before = 0, work = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            int64_t prefix = ranks[rank].prefix[shape->slots_per_rank + slot];
            assert_int_equal(ranks[rank].prefix[slot], 0);
            assert_int_equal(prefix - before, counted[rank * shape->slots_per_rank + slot]);
            work += rows[rank * shape->slots_per_rank + slot];
            before = prefix;
        }
        assert_int_equal(eplb_moe_work(ranks[rank].moe).rows, work);
        assert_int_equal(eplb_moe_work(ranks[rank].moe).cpu_ns, 0);
    }
}

static void run_all(struct rank *ranks)
{
    for (int32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(eplb_thread_start(&ranks[rank].thread, "rank", run, &ranks[rank], NULL), EPLB_OK);
    for (int32_t rank = 0; rank < RANKS; rank++)
        eplb_thread_join(&ranks[rank].thread);
    for (int32_t rank = 0; rank < RANKS; rank++)
        if (ranks[rank].status != EPLB_OK)
            fail_msg("%s", ranks[rank].error.text);
}

static void draw_weights(struct eplb_prng *prng, const struct eplb_shape *shape, const int32_t *table,
                         int32_t *weights)
{
    int32_t scratch[EXPERTS], first[EXPERTS];
    eplb_weights_equal(shape, table, scratch, weights);
    for (int32_t expert = 0; expert < EXPERTS; expert++)
        first[expert] = -1;
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t *other = &first[table[slot]];
        if (*other >= 0) {
            int32_t given = (int32_t)eplb_prng_below(prng, (uint64_t)weights[*other]);
            weights[*other] -= given;
            weights[slot] += given;
        }
        *other = slot;
    }
    assert_int_equal(eplb_weights_check(shape, table, weights, scratch, NULL), EPLB_OK);
}

/** Which rows count: some in no order, all, or none of the rank. */
static void draw_counted(struct rank *rank, uint64_t kind)
{
    for (int32_t row = 0; row < rank->num_rows && kind > 0; row++)
        rank->counted[row] = kind == 1;
}

/* One rank has all rows that it may have, so that a slot computes several tiles of them; one has none. */
static void check_routing(enum eplb_replica_routing routing, uint64_t seed)
{
    static struct rank ranks[RANKS];
    struct eplb_prng prng;
    struct eplb_threads *threads;
    struct eplb_threads_params params;
    struct eplb_shape shape = tables_shape(EXPERTS, RANKS, (int32_t)(seed % 3));
    int32_t table[RANKS * MAX_SLOTS], weights[RANKS * MAX_SLOTS];
    printf("%s, seed %" PRIu64 "\n", eplb_replica_routing_name(routing), seed);
    eplb_prng_seed(&prng, seed);
    tables_random(&prng, &shape, table);
    draw_weights(&prng, &shape, table, weights);
    eplb_threads_params_init(&params);
    params.num_ranks = RANKS;
    assert_int_equal(eplb_threads_create(&params, &threads, NULL), EPLB_OK);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        create_rank(&ranks[rank], rank, eplb_threads_group(threads, rank), &shape, routing, table, weights);
        uint64_t place = ((uint64_t)rank + seed) % RANKS;
        ranks[rank].num_rows = place == 0   ? MAX_ROWS
                               : place == 1 ? 0
                                            : (int32_t)eplb_prng_below(&prng, MAX_ROWS);
        for (int32_t row = 0; row < ranks[rank].num_rows; row++) {
            draw_row(&ranks[rank], row, &prng);
            expect_row(&ranks[rank], row);
        }
        draw_counted(&ranks[rank], (seed + (uint64_t)rank) % 3);
    }
    run_all(ranks);
    for (int32_t rank = 0; rank < RANKS; rank++)
        assert_memory_equal(ranks[rank].y, ranks[rank].expected, sizeof ranks[rank].y);
    check_counts(ranks, &shape);
    for (int32_t rank = 0; rank < RANKS; rank++)
        destroy_rank(&ranks[rank]);
    eplb_threads_destroy(threads);
}

static void outputs_are_added_in_order_and_rows_are_counted(void **state)
{
    (void)state;
    for (int32_t routing = 0; routing < EPLB_NUM_ROUTINGS; routing++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            check_routing((enum eplb_replica_routing)routing, seed);
}

/* --------------------------------------------------------------------------------- what a peer may say */

/** Rank 0 of two, whose peer answers every exchange with what it was sent, but for one number. */
struct echo {
    struct eplb_group group;
    struct rank rank;
    int32_t round;
    size_t offset;  /* of the number in the head; 0 bytes: it tells the truth */
    size_t bytes;   /* 4 or 8 */
    int64_t number; /* what it says */
    int32_t flood;  /* slots or experts that it says it has MAX_ROWS rows for */
    enum eplb_replica_routing routing;
};

enum { SEQ = 0, GENERATION = 8, VERSION = 16, LAYER = 24, SOURCE = 28, FIRST_ROWS = 32, FIRST_COUNTED = 36 };

static enum eplb_status echo_all_to_all(void *self, const struct eplb_part *send,
                                        const struct eplb_part *receive, struct eplb_error *error)
{
    struct echo *echo = self;
    int32_t source = 1;
    (void)error;
    for (int32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(send[rank].size, receive[rank].size);
        if (send[rank].size > 0)
            memcpy(receive[rank].data, send[rank].data, send[rank].size);
    }
    if (echo->round++ == 0) {
        unsigned char *head = receive[1].data;
        int32_t number = (int32_t)echo->number;
        memcpy(head + SOURCE, &source, sizeof source);
        if (echo->bytes == sizeof number)
            memcpy(head + echo->offset, &number, sizeof number);
        if (echo->bytes == sizeof echo->number)
            memcpy(head + echo->offset, &echo->number, sizeof echo->number);
        number = MAX_ROWS;
        for (int32_t slot = 0; slot < echo->flood; slot++)
            memcpy(head + FIRST_ROWS + 8 * slot, &number, sizeof number);
    }
    return EPLB_OK;
}

/** Two rows want expert 3, which rank 1 has in its first slot; one of them counts. */
static void want_experts(struct rank *rank)
{
    static const int32_t experts[2][TOP_K] = {{3, 0, 4, 1}, {5, 2, 3, 1}};
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 3);
    rank->num_rows = 2;
    for (int32_t row = 0; row < 2; row++) {
        draw_row(rank, row, &prng);
        memcpy(rank->experts[row], experts[row], sizeof experts[row]);
        rank->counted[row] = row == 0;
    }
}

/** What the rank says to the peer. */
static enum eplb_status answer(struct echo *echo, int32_t redundant, struct eplb_error *error)
{
    static float y[MAX_ROWS][HIDDEN];
    struct eplb_shape shape = tables_shape(EXPERTS, 2, redundant);
    int32_t table[2 * EXPERTS];
    eplb_placement_initial(&shape, table);
    echo->group = (struct eplb_group){
        .size = sizeof echo->group, .self = echo, .num_ranks = 2, .all_to_all = echo_all_to_all};
    create_rank(&echo->rank, 0, &echo->group, &shape, echo->routing, table, NULL);
    want_experts(&echo->rank);
    const struct eplb_moe_call call = call_of(&echo->rank, y[0]);
    assert_int_equal(eplb_counter_begin(echo->rank.params.counter, 0, NULL), EPLB_OK);
    enum eplb_status status = eplb_moe_run(echo->rank.moe, &call, error);
    assert_int_equal(echo->round, status == EPLB_OK ? 3 : 1);
    destroy_rank(&echo->rank);
    return status;
}

static enum eplb_status answer_number(size_t offset, size_t bytes, int64_t number, struct eplb_error *error)
{
    static struct echo echo;
    echo = (struct echo){.offset = offset, .bytes = bytes, .number = number};
    return answer(&echo, 0, error);
}

static void expect_refusal(size_t offset, size_t bytes, int64_t number, const char *sentence)
{
    struct eplb_error error = {0};
    assert_int_equal(answer_number(offset, bytes, number, &error), EPLB_INCONSISTENT);
    assert_string_equal(error.text, sentence);
}

static void a_peer_that_agrees_is_believed(void **state)
{
    struct eplb_error error;
    (void)state;
    assert_int_equal(answer_number(0, 0, 0, &error), EPLB_OK);
    assert_int_equal(answer_number(SEQ, 8, 17, &error), EPLB_OK);
    assert_int_equal(answer_number(GENERATION, 8, 5, &error), EPLB_OK);
}

static void a_peer_of_another_forward_is_named(void **state)
{
    (void)state;
    expect_refusal(SEQ, 8, 18, "rank 0 runs forward 17, layer 1, and rank 1 runs forward 18, layer 1");
    expect_refusal(LAYER, 4, 0, "rank 0 runs forward 17, layer 1, and rank 1 runs forward 17, layer 0");
    expect_refusal(GENERATION, 8, 4, "forward 17, layer 1: rank 0 runs generation 5 and rank 1 runs 4");
    expect_refusal(VERSION, 8, 1, "forward 17, layer 1: rank 0 runs weight version 0 and rank 1 runs 1");
    expect_refusal(SOURCE, 4, 0,
                   "forward 17, layer 1: rank 0 got from rank 1 what says that it is from rank 0");
}

static void a_peer_is_believed_within_bounds_only(void **state)
{
    (void)state;
    expect_refusal(FIRST_ROWS, 4, -1,
                   "forward 17, layer 1: rank 1 announces -1 rows, 1 of them counted, for slot 0 of rank 0; "
                   "allowed are 0 to 150 rows");
    expect_refusal(FIRST_ROWS, 4, MAX_ROWS + 1,
                   "forward 17, layer 1: rank 1 announces 151 rows, 1 of them counted, for slot 0 of rank 0; "
                   "allowed are 0 to 150 rows");
    expect_refusal(FIRST_COUNTED, 4, -1,
                   "forward 17, layer 1: rank 1 announces 2 rows, -1 of them counted, for slot 0 of rank 0; "
                   "allowed are 0 to 150 rows");
    expect_refusal(FIRST_COUNTED, 4, 3,
                   "forward 17, layer 1: rank 1 announces 2 rows, 3 of them counted, for slot 0 of rank 0; "
                   "allowed are 0 to 150 rows");
}

/* With five slots and four choices, a row comes four times at most: five full slots cannot be. */
static void rows_cannot_be_more_than_their_choices(void **state)
{
    static struct echo echo;
    struct eplb_error error;
    (void)state;
    echo = (struct echo){.flood = 5};
    assert_int_equal(answer(&echo, 2, &error), EPLB_INCONSISTENT);
    assert_string_equal(error.text,
                        "forward 17, layer 1: rank 1 announces 750 rows for rank 0; allowed are up to 600");
}

/* With batch, a peer tells of experts, and the same bounds hold for what follows from that. */
static void a_peer_is_believed_of_experts_within_bounds_only(void **state)
{
    static struct echo echo;
    struct eplb_error error;
    (void)state;
    echo = (struct echo){
        .routing = EPLB_ROUTING_BATCH, .offset = FIRST_ROWS + 8 * 5, .bytes = 4, .number = MAX_ROWS + 1};
    assert_int_equal(answer(&echo, 0, &error), EPLB_INCONSISTENT);
    assert_string_equal(error.text, "forward 17, layer 1: rank 1 announces 151 rows, 0 of them counted, for "
                                    "expert 5; allowed are 0 to 150 rows");
    echo = (struct echo){.routing = EPLB_ROUTING_BATCH, .flood = EXPERTS};
    assert_int_equal(answer(&echo, 3, &error), EPLB_INCONSISTENT);
    assert_string_equal(
        error.text, "forward 17, layer 1: rank 1 announces 900 rows for all experts; allowed are up to 600");
}

static void an_expert_chosen_twice_is_refused(void **state)
{
    static struct echo echo;
    struct eplb_shape shape = tables_shape(EXPERTS, 2, 0);
    struct eplb_error error;
    int32_t table[EXPERTS];
    (void)state;
    eplb_placement_initial(&shape, table);
    create_rank(&echo.rank, 0, &echo.group, &shape, EPLB_ROUTING_STATIC, table, NULL);
    want_experts(&echo.rank);
    echo.rank.experts[1][3] = 5;
    const struct eplb_moe_call call = call_of(&echo.rank, echo.rank.y[0]);
    assert_int_equal(eplb_moe_run(echo.rank.moe, &call, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 1, row 1: expert 5 was chosen twice");
    destroy_rank(&echo.rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_added_in_order_and_rows_are_counted),
        cmocka_unit_test(a_peer_that_agrees_is_believed),
        cmocka_unit_test(a_peer_of_another_forward_is_named),
        cmocka_unit_test(a_peer_is_believed_within_bounds_only),
        cmocka_unit_test(rows_cannot_be_more_than_their_choices),
        cmocka_unit_test(a_peer_is_believed_of_experts_within_bounds_only),
        cmocka_unit_test(an_expert_chosen_twice_is_refused),
    };
    return cmocka_run_group_tests_name("model_moe", tests, NULL, NULL);
}
