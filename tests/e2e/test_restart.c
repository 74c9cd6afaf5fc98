/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* B56: what is begun a second time goes on with what is there, and resets nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/director.h"
#include "e2e/engine.h"
#include "support/notes.h"

enum { RANKS = 4, LAYERS = 3, SLOTS = 20 };

static void choose_shape(struct eplb_shape *shape)
{
    assert_int_equal(eplb_shape_init(shape, LAYERS, 16, RANKS, 1, NULL), EPLB_OK);
}

/* ---- a second registration and a second executor over a model that has moved ---- */

static struct eplb_weights *register_again(const struct director *director, int32_t rank)
{
    struct eplb_tensor tensors[LAYERS * STANDIN_TENSORS];
    struct eplb_weights *weights = NULL;
    for (int32_t i = 0; i < LAYERS * STANDIN_TENSORS; i++)
        tensors[i] = standin_tensor(team_model(director->team, rank), i / STANDIN_TENSORS,
                                    (enum standin_tensor)(i % STANDIN_TENSORS));
    const struct eplb_weights_params params = {.size = sizeof params,
                                               .shape = director->shape,
                                               .ep_rank = rank,
                                               .num_tensors = STANDIN_TENSORS,
                                               .tensors = tensors};
    assert_int_equal(eplb_weights_create(&params, &weights, NULL), EPLB_OK);
    return weights;
}

static void test_registering_again_changes_nothing(void **state)
{
    (void)state;
    struct director director;
    struct team_params params;
    int32_t wanted[SLOTS];
    team_params_init(&params);
    choose_shape(&params.shape);
    director_init(&director, team_create(&params));
    memcpy(wanted, director_table(&director, 1), sizeof wanted);
    wanted[0] = 5;
    wanted[5 + 1] = 0;
    director_move(&director, 1, wanted);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        struct standin *model = team_model(director.team, rank);
        struct eplb_weights *weights = register_again(&director, rank);
        struct eplb_executor *executor = NULL;
        struct eplb_executor_params again;
        eplb_executor_params_init(&again);
        again.shape = director.shape;
        again.ep_rank = rank;
        again.initial = director.tables;
        again.group = team_group(director.team, rank);
        again.weights = weights;
        again.hooks = standin_hooks(model);
        assert_int_equal(eplb_executor_create(&again, &executor, NULL), EPLB_OK);
        assert_memory_equal(eplb_executor_tables(executor), director.tables,
                            LAYERS * SLOTS * sizeof *director.tables);
        director_check(&director);
        assert_int_equal(eplb_executor_stop(executor, TEAM_PATIENCE_NS, NULL), EPLB_OK);
        eplb_executor_destroy(executor);
        eplb_weights_destroy(weights);
    }
    director_check(&director);
    wanted[0] = 0;
    wanted[5 + 1] = 5;
    director_move(&director, 1, wanted);
    team_destroy(director.team);
    director_destroy(&director);
}

/* ---- a second manager over workers that have switched layers ---- */

static bool has_committed_some(const struct eplb_manager_status *status)
{
    return status->layers_committed >= 5;
}

/** What a new manager must know of the workers: from them, not from the manager that is gone. */
static void learn(const struct engine *engine, struct eplb_manager_params *params, int32_t *tables,
                  uint64_t *generations, const struct eplb_worker_output *outputs)
{
    const struct eplb_executor *executor = team_executor(engine_team(engine), 0);
    memcpy(tables, eplb_executor_tables(executor), LAYERS * SLOTS * sizeof *tables);
    memcpy(generations, eplb_executor_generations(executor), LAYERS * sizeof *generations);
    params->initial = tables;
    params->generations = generations;
    for (int32_t rank = 0; rank < RANKS; rank++) {
        const struct eplb_worker_levels *levels = &outputs[rank].levels;
        if (levels->prepare_token.value >= params->first_token)
            params->first_token = levels->prepare_token.value + 1;
        if (levels->activation_token.value >= params->first_token)
            params->first_token = levels->activation_token.value + 1;
    }
    params->first_seq = outputs[0].seq + 1;
}

static void test_a_second_manager(void **state)
{
    (void)state;
    static struct notes notes;
    struct engine_params params;
    int32_t tables[LAYERS * SLOTS];
    uint64_t generations[LAYERS];
    engine_params_init(&params);
    choose_shape(&params.team.shape);
    notes_init(&notes);
    params.manager.log = &notes.sink;
    struct engine *engine = engine_create(&params);
    for (int32_t life = 0; life < 3; life++) {
        engine_run_until(engine, has_committed_some, "done with five layers");
        engine_submit(engine, ENGINE_DECODE);
        learn(engine, &params.manager, tables, generations, engine_collect(engine));
        engine_replace_manager(engine, &params.manager);
        for (int32_t layer = 0; layer < LAYERS; layer++) {
            int32_t table[SLOTS];
            assert_int_equal(eplb_manager_placement(engine_manager(engine), layer, table),
                             generations[layer]);
            assert_memory_equal(table, tables + layer * SLOTS, sizeof table);
        }
        engine_settle(engine);
    }
    engine_run_until(engine, has_committed_some, "done with five layers");
    assert_int_equal(engine_status(engine).layers_aborted, 0);
    assert_int_equal(engine_status(engine).samples_refused, 0);
    assert_int_equal(notes_count(&notes, "EPLB warning"), 0);
    engine_settle(engine);
    engine_destroy(engine);
    notes_destroy(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registering_again_changes_nothing),
        cmocka_unit_test(test_a_second_manager),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
