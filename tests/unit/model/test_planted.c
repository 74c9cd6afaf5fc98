/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A wrong expert that is put into a slot on purpose is found, so the check of a run is worth something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/layer_plan.h"
#include "model/model_state.h"
#include "ranks.h"

static void a_wrong_slot_is_found_once(void **state)
{
    static const int32_t tables[] = {0, 1, 2, 3};
    static const int32_t moved[] = {1, 0, 2, 3};
    _Alignas(8) unsigned char scratch[4096];
    struct eplb_layer_plan plan;
    struct eplb_arena arena;
    struct eplb_error error;
    struct ranks ranks;
    uint64_t fingerprints[4];
    struct ranks_params params = {.ep_size = 1, .max_rows = 4, .num_caches = 1};
    (void)state;
    params.config = ranks_random_config(1);
    params.config.num_layers = 1;
    params.config.num_experts = params.config.top_k = 4;
    ranks_create(&ranks, &params);
    struct eplb_model *model = ranks.models[0];
    const struct eplb_model_hooks *hooks = eplb_model_hooks(model);
    assert_int_equal(eplb_model_expected_fingerprints(&params.config, fingerprints, &error), EPLB_OK);
    eplb_arena_init(&arena, NULL, 0);
    eplb_layer_plan_take(&arena, &ranks.shape, &plan);
    void *block = eplb_arena_reserve(&arena);
    assert_non_null(block);
    eplb_layer_plan_take(&arena, &ranks.shape, &plan);
    assert_true(eplb_placement_diff_scratch(&ranks.shape) <= sizeof scratch);
    eplb_layer_plan_build(&plan, &ranks.shape, 0, tables, moved, scratch);
    plan.layer = 0;
    plan.weights_epoch = eplb_weights_epoch(eplb_model_registered(model));
    assert_int_equal(hooks->prepare_expert_weight(hooks->context, &plan, &error), EPLB_OK);
    eplb_model_inject_wrong_slot = 1;
    assert_int_equal(hooks->start_expert_weight_transfer(hooks->context, &plan, &error), EPLB_OK);
    hooks->update_expert_weight(hooks->context, &plan, 1);
    assert_int_equal(eplb_model_check_slots(model, moved, fingerprints, &error), EPLB_VERIFY);
    assert_string_equal(error.text,
                        "layer 0, rank 0: slot 3 must hold expert 3, and holds expert 1 of layer 0");
    assert_int_equal(eplb_model_inject_wrong_slot, 0);
    eplb_arena_free(block);
    ranks_destroy(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_slot_is_found_once),
    };
    return cmocka_run_group_tests_name("model_planted", tests, NULL, NULL);
}
