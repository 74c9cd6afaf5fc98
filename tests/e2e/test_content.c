/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* What the slots hold, through switches, reloads and moved tensors; and that a wrong byte would be seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/director.h"
#include "e2e/engine.h"
#include "support/hand_clock.h"

static void start(struct director *director, int32_t layers, int32_t experts, int32_t ranks,
                  int32_t redundant)
{
    struct team_params params;
    team_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, layers, experts, ranks, redundant, NULL), EPLB_OK);
    director_init(director, team_create(&params));
}

static void stop(struct director *director)
{
    team_destroy(director->team);
    director_destroy(director);
}

/* ---- the check itself ---- */

static void expect_seen(struct director *director, unsigned char *byte)
{
    struct eplb_error error;
    *byte ^= 1;
    assert_int_equal(standin_check(team_model(director->team, 0), director->tables, &error),
                     EPLB_INCONSISTENT);
    *byte ^= 1;
    assert_int_equal(standin_check(team_model(director->team, 0), director->tables, &error), EPLB_OK);
}

static void test_a_wrong_byte_is_seen(void **state)
{
    (void)state;
    struct director director;
    start(&director, 2, 8, 2, 1);
    for (int32_t layer = 0; layer < 2; layer++)
        for (int tensor = 0; tensor < STANDIN_TENSORS; tensor++) {
            struct eplb_tensor whole =
                standin_tensor(team_model(director.team, 0), layer, (enum standin_tensor)tensor);
            int64_t pieces = whole.per_expert == EPLB_PER_EXPERT_YES ? whole.first_dimension : 1;
            expect_seen(&director, whole.data);
            expect_seen(&director, (unsigned char *)whole.data + pieces * whole.bytes_per_expert - 1);
        }
    /* The content of another expert, layer or checkpoint is as wrong as a flipped bit. */
    int32_t other[2 * 10];
    memcpy(other, director.tables, sizeof other);
    other[4] = 5;
    assert_int_equal(standin_check(team_model(director.team, 0), other, NULL), EPLB_INCONSISTENT);
    stop(&director);
}

/* ---- B34: weights are loaded anew ---- */

static void load_all(struct director *director, uint64_t checkpoint)
{
    struct eplb_error error;
    for (int32_t rank = 0; rank < director->shape.ep_size; rank++)
        if (standin_load(team_model(director->team, rank), checkpoint, director->tables, &error) != EPLB_OK)
            fail_msg("%s", error.text);
}

/** The scales of layer 0 as a token of rank `source` meets them. */
static void expect_routed(const struct director *director, int32_t source, const uint32_t *scales)
{
    int32_t slots = director->shape.slots_per_rank;
    for (int32_t expert = 0; expert < director->shape.num_experts; expert++) {
        int32_t slot = standin_log2phy(team_model(director->team, source), 0)[expert];
        assert_int_equal(standin_scale(team_model(director->team, slot / slots), 0, slot % slots),
                         scales[expert]);
    }
}

static void test_weights_loaded_after_a_switch(void **state)
{
    (void)state;
    static const int32_t wanted[] = {0, 2, 1, 3};
    static const uint32_t first[] = {110, 120, 130, 140};
    static const uint32_t second[] = {210, 220, 230, 240};
    struct director director;
    start(&director, 1, 4, 2, 0);
    expect_routed(&director, 0, first);
    director_move(&director, 0, wanted);
    expect_routed(&director, 0, first);
    expect_routed(&director, 1, first);
    load_all(&director, 2);
    director_check(&director);
    expect_routed(&director, 0, second);
    expect_routed(&director, 1, second);
    director_forward(&director);
    stop(&director);
}

static void test_an_old_plan_does_not_overwrite_loaded_weights(void **state)
{
    (void)state;
    static const int32_t wanted[] = {0, 2, 1, 3};
    struct director director;
    start(&director, 1, 4, 2, 0);
    director_prepare(&director, 0, wanted);
    assert_int_equal(director_await_prepared(&director), EPLB_PREPARE_OK);
    load_all(&director, 2);
    director_activate(&director);
    const struct eplb_worker_output *outputs = director_forward(&director);
    assert_int_equal(director_outcome(&director, outputs), EPLB_ACTIVATION_KEPT);
    for (int32_t rank = 0; rank < 2; rank++)
        assert_int_equal(outputs[rank].levels.activation_reason, EPLB_REASON_STORAGE_CHANGED);
    director_check(&director);
    director_move(&director, 0, wanted);
    stop(&director);
}

/* ---- B35: a switch changes the map, the weights, and where the next rows are counted ---- */

enum { RANKS = 4, LAYERS = 3, SLOTS = 5, EXPERTS = 16 };

struct snapshot {
    unsigned char *matrices[RANKS]; /* [LAYERS][SLOTS][matrix bytes] */
    const int32_t *maps[RANKS];     /* where they are */
};

static void take_snapshot(const struct team *team, struct snapshot *snapshot)
{
    for (int32_t rank = 0; rank < RANKS; rank++) {
        snapshot->matrices[rank] = malloc((size_t)LAYERS * SLOTS * STANDIN_MATRIX_BYTES);
        assert_non_null(snapshot->matrices[rank]);
        snapshot->maps[rank] = standin_log2phy(team_model(team, rank), 0);
        for (int32_t layer = 0; layer < LAYERS; layer++)
            memcpy(snapshot->matrices[rank] + (size_t)layer * SLOTS * STANDIN_MATRIX_BYTES,
                   standin_tensor(team_model(team, rank), layer, STANDIN_MATRIX).data,
                   (size_t)SLOTS * STANDIN_MATRIX_BYTES);
    }
}

/** Slots whose expert changed have other bytes, the others the same, at the same addresses. */
static void compare_slots(const struct team *team, const struct snapshot *snapshot, int32_t layer,
                          const int32_t *before, const int32_t *after)
{
    for (int32_t slot = 0; slot < RANKS * SLOTS; slot++) {
        int32_t rank = slot / SLOTS;
        size_t at = (size_t)(slot % SLOTS) * STANDIN_MATRIX_BYTES;
        const unsigned char *old =
            snapshot->matrices[rank] + (size_t)layer * SLOTS * STANDIN_MATRIX_BYTES + at;
        const unsigned char *now =
            (const unsigned char *)standin_tensor(team_model(team, rank), layer, STANDIN_MATRIX).data + at;
        assert_int_equal(memcmp(old, now, STANDIN_MATRIX_BYTES) != 0, before[slot] != after[slot]);
        assert_ptr_equal(standin_log2phy(team_model(team, rank), 0), snapshot->maps[rank]);
    }
}

/** The rows of each rank in a layer if forward `seq` ran under a table. */
static void predict(const struct engine *engine, const struct engine_params *params, uint64_t seq,
                    int32_t layer, const int32_t *table, int64_t rows[RANKS])
{
    int32_t map[EXPERTS];
    memset(rows, 0, RANKS * sizeof *rows);
    for (int32_t source = 0; source < RANKS; source++) {
        int64_t tokens = engine_batch(engine, ENGINE_DECODE, seq, source).decode_tokens;
        eplb_log2phy(&params->team.shape, table, source, 0, map);
        for (int32_t token = 0; token < tokens; token++)
            for (int32_t k = 0; k < params->team.top_k; k++)
                rows[map[toy_route(&params->team.shape, params->team.top_k, &params->team.traffic, seq,
                                   source, token, layer, k)] /
                     SLOTS]++;
    }
}

static int64_t peak_of(const int64_t rows[RANKS])
{
    int64_t peak = 0;
    for (int32_t rank = 0; rank < RANKS; rank++)
        peak = rows[rank] > peak ? rows[rank] : peak;
    return peak;
}

/** Over some forwards, the rows counted in a layer are those of the new table; returns by how much better. */
static int64_t compare_rows(struct engine *engine, const struct engine_params *params, int32_t layer,
                            const int32_t *before, const int32_t *after)
{
    int64_t old[RANKS] = {0};
    int64_t new[RANKS] = {0};
    for (int32_t i = 0; i < 24; i++) {
        int64_t rows[RANKS];
        struct eplb_command command = engine_submit(engine, ENGINE_DECODE);
        const struct eplb_worker_output *outputs = engine_collect(engine);
        predict(engine, params, command.seq, layer, after, rows);
        for (int32_t rank = 0; rank < RANKS; rank++) {
            assert_int_equal(outputs[rank].prefix[layer * SLOTS + SLOTS - 1], rows[rank]);
            new[rank] += rows[rank];
        }
        predict(engine, params, command.seq, layer, before, rows);
        for (int32_t rank = 0; rank < RANKS; rank++)
            old[rank] += rows[rank];
    }
    print_message("layer %d: peak %d rows before, %d after\n", layer, (int)peak_of(old), (int)peak_of(new));
    return peak_of(old) - peak_of(new);
}

static void test_a_switch_is_not_only_on_paper(void **state)
{
    (void)state;
    struct engine_params params;
    struct snapshot snapshot;
    int32_t before[RANKS * SLOTS];
    int32_t after[RANKS * SLOTS];
    engine_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.team.shape, LAYERS, EXPERTS, RANKS, 1, NULL), EPLB_OK);
    params.team.traffic.period = 0;
    /* The time comes once, so there is one round, and the layers stay as it leaves them. */
    struct hand_clock hand;
    hand_clock_init(&hand);
    params.manager.clock = &hand.clock;
    params.manager.update_interval_seconds = 1000;
    params.manager.min_peak_load_improvement = 0.1;
    struct engine *engine = engine_create(&params);
    for (int32_t i = 0; i < 24; i++)
        engine_forward(engine, ENGINE_DECODE);
    hand_clock_advance(&hand, INT64_C(1000000000000));
    take_snapshot(engine_team(engine), &snapshot);
    eplb_placement_initial(&params.team.shape, before);
    engine_run_until(engine, engine_has_committed, "done with a layer");
    int32_t layer = 0;
    while (eplb_manager_placement(engine_manager(engine), layer, after) == 0)
        layer++;
    assert_int_not_equal(memcmp(before, after, sizeof before), 0);
    assert_memory_equal(eplb_executor_tables(team_executor(engine_team(engine), 2)) + layer * RANKS * SLOTS,
                        after, sizeof after);
    compare_slots(engine_team(engine), &snapshot, layer, before, after);
    assert_true(compare_rows(engine, &params, layer, before, after) > 0);
    engine_destroy(engine);
    for (int32_t rank = 0; rank < RANKS; rank++)
        free(snapshot.matrices[rank]);
}

/* ---- B49: what is derived of an expert's tensors moves with it ---- */

static uint64_t alpha_of_slot(const struct director *director, int32_t slot)
{
    uint64_t alpha;
    int32_t slots = director->shape.slots_per_rank;
    struct eplb_tensor whole = standin_tensor(team_model(director->team, slot / slots), 0, STANDIN_ALPHA);
    memcpy(&alpha, (const unsigned char *)whole.data + slot % slots * (int32_t)sizeof alpha, sizeof alpha);
    return alpha;
}

static void test_derived_values_follow_their_experts(void **state)
{
    (void)state;
    static const int32_t tables[2][4] = {{0, 2, 1, 3}, {0, 1, 2, 3}};
    struct director director;
    start(&director, 1, 4, 2, 0);
    for (int32_t round = 0; round < 100; round++) {
        const int32_t *table = tables[round % 2];
        director_move(&director, 0, table);
        for (int32_t slot = 0; slot < 4; slot++)
            assert_int_equal(alpha_of_slot(&director, slot), 3 * (100 + 10 * (table[slot] + 1)));
    }
    stop(&director);
}

/* ---- B50: which tensors belong to experts is said, not guessed ---- */

enum { OWN_LAYERS = 2 };

static enum eplb_status try_to_register(const struct director *director, const struct eplb_tensor *tensors,
                                        int32_t num_tensors, struct eplb_error *error)
{
    struct eplb_weights *weights = NULL;
    struct eplb_weights_params params = {.size = sizeof params,
                                         .shape = director->shape,
                                         .num_tensors = num_tensors,
                                         .tensors = tensors,
                                         .expert_bytes = standin_expert_bytes(STANDIN_MATRIX_BYTES)};
    enum eplb_status status = eplb_weights_create(&params, &weights, error);
    eplb_weights_destroy(weights);
    return status;
}

static void list_tensors(const struct director *director, int num_tensors,
                         struct eplb_tensor tensors[OWN_LAYERS * STANDIN_TENSORS])
{
    for (int32_t i = 0; i < OWN_LAYERS * num_tensors; i++)
        tensors[i] = standin_tensor(team_model(director->team, 0), i / num_tensors,
                                    (enum standin_tensor)(i % num_tensors));
}

static void test_registration_takes_no_guess(void **state)
{
    (void)state;
    struct eplb_tensor tensors[OWN_LAYERS * STANDIN_TENSORS];
    struct eplb_error error;
    struct director director;
    start(&director, OWN_LAYERS, 8, 2, 1);
    /* First dimensions of slots_per_rank, num_experts, 1 and none, each as it is. */
    list_tensors(&director, STANDIN_TENSORS, tensors);
    assert_int_equal(try_to_register(&director, tensors, STANDIN_TENSORS, &error), EPLB_OK);

    tensors[STANDIN_TENSORS + STANDIN_BIAS].first_dimension = director.shape.num_slots;
    assert_int_equal(try_to_register(&director, tensors, STANDIN_TENSORS, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "bias"));
    list_tensors(&director, STANDIN_TENSORS, tensors);
    tensors[STANDIN_SCALE].per_expert = EPLB_PER_EXPERT_UNSAID;
    assert_int_equal(try_to_register(&director, tensors, STANDIN_TENSORS, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "scale"));

    /* alpha is left out: what is registered is not a whole expert. */
    list_tensors(&director, STANDIN_ALPHA, tensors);
    assert_int_equal(try_to_register(&director, tensors, STANDIN_ALPHA, &error), EPLB_INVALID);
    stop(&director);
}

/* ---- B51: a tensor's memory is replaced ---- */

static void test_a_tensor_that_moved(void **state)
{
    (void)state;
    static const int32_t wanted[] = {0, 2, 1, 3};
    struct director director;
    struct eplb_error error;
    start(&director, 1, 4, 2, 0);
    for (int tensor = 0; tensor < STANDIN_PER_EXPERT; tensor++) {
        const int32_t *table = tensor % 2 == 0 ? wanted : (const int32_t[]){0, 1, 2, 3};
        director_prepare(&director, 0, table);
        assert_int_equal(director_await_prepared(&director), EPLB_PREPARE_OK);
        if (standin_relocate(team_model(director.team, 1), 0, (enum standin_tensor)tensor, &error) != EPLB_OK)
            fail_msg("%s", error.text);
        director_activate(&director);
        const struct eplb_worker_output *outputs = director_forward(&director);
        assert_int_equal(director_outcome(&director, outputs), EPLB_ACTIVATION_KEPT);
        assert_int_equal(outputs[1].levels.activation_reason, EPLB_REASON_STORAGE_CHANGED);
        director_check(&director);
        director_move(&director, 0, table);
    }
    stop(&director);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_byte_is_seen),
        cmocka_unit_test(test_weights_loaded_after_a_switch),
        cmocka_unit_test(test_an_old_plan_does_not_overwrite_loaded_weights),
        cmocka_unit_test(test_a_switch_is_not_only_on_paper),
        cmocka_unit_test(test_derived_values_follow_their_experts),
        cmocka_unit_test(test_registration_takes_no_guess),
        cmocka_unit_test(test_a_tensor_that_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
