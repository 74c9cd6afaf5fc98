/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "model/config.h"
#include "model/model.h"
#include "model/weights.h"

static struct eplb_model_config small(void)
{
    struct eplb_model_config config;
    eplb_model_config_init(&config);
    return config;
}

static void the_default_is_valid(void **state)
{
    (void)state;
    struct eplb_error error;
    struct eplb_model_config config = small();
    assert_int_equal(eplb_model_config_check(&config, &error), EPLB_OK);
    assert_int_equal(config.vocab_size, 256);
    assert_int_equal(eplb_model_expert_bytes(&config), 4 * (64 * 256 + 128 * 64));
}

static void the_ends_of_the_ranges_are_valid(void **state)
{
    (void)state;
    static const struct eplb_model_config ends[] = {
        {2, 8, 1, 1, 8, 1, 1, 1, 8, 0, 0},
        {65536, 8192, 1024, 128, 256, 65536, EPLB_MAX_EXPERTS, EPLB_MAX_TOP_K, 16384, 16384, UINT64_MAX},
    };
    struct eplb_error error;
    for (int i = 0; i < 2; i++)
        assert_int_equal(eplb_model_config_check(&ends[i], &error), EPLB_OK);
}

struct refusal {
    size_t offset;
    int32_t value;
    const char *sentence;
};

#define MEMBER(name) offsetof(struct eplb_model_config, name)

static void what_is_out_of_range_is_named(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {MEMBER(vocab_size), 1, "vocab_size is 1; allowed is 2 to 65536"},
        {MEMBER(vocab_size), 65537, "vocab_size is 65537; allowed is 2 to 65536"},
        {MEMBER(hidden_size), 12, "hidden_size is 12; allowed is a multiple of 8 from 8 to 8192"},
        {MEMBER(hidden_size), 0, "hidden_size is 0; allowed is a multiple of 8 from 8 to 8192"},
        {MEMBER(hidden_size), 8200, "hidden_size is 8200; allowed is a multiple of 8 from 8 to 8192"},
        {MEMBER(num_layers), 0, "num_layers is 0; allowed is 1 to 1024"},
        {MEMBER(num_layers), 1025, "num_layers is 1025; allowed is 1 to 1024"},
        {MEMBER(num_heads), -1, "num_heads is -1; allowed is 1 to 128"},
        {MEMBER(num_heads), 129, "num_heads is 129; allowed is 1 to 128"},
        {MEMBER(head_dim), 4, "head_dim is 4; allowed is a multiple of 8 from 8 to 256"},
        {MEMBER(head_dim), 264, "head_dim is 264; allowed is a multiple of 8 from 8 to 256"},
        {MEMBER(kv_window), 0, "kv_window is 0; allowed is 1 to 65536"},
        {MEMBER(kv_window), 65537, "kv_window is 65537; allowed is 1 to 65536"},
        {MEMBER(num_experts), 0, "num_experts is 0; allowed is 1 to 65536"},
        {MEMBER(num_experts), 65537, "num_experts is 65537; allowed is 1 to 65536"},
        {MEMBER(top_k), 0, "top_k is 0; allowed is 1 to 64"},
        {MEMBER(top_k), 65, "top_k is 65; allowed is 1 to 64"},
        {MEMBER(top_k), 17, "top_k is 17; with num_experts 16, allowed is 1 to 16"},
        {MEMBER(expert_hidden_size), 100,
         "expert_hidden_size is 100; allowed is a multiple of 8 from 8 to 16384"},
        {MEMBER(expert_hidden_size), 0,
         "expert_hidden_size is 0; allowed is a multiple of 8 from 8 to 16384"},
        {MEMBER(shared_hidden_size), -8,
         "shared_hidden_size is -8; allowed is 0 (none) or a multiple of 8 up to 16384"},
        {MEMBER(shared_hidden_size), 16392,
         "shared_hidden_size is 16392; allowed is 0 (none) or a multiple of 8 up to 16384"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct eplb_error error;
        struct eplb_model_config config = small();
        memcpy((char *)&config + refusals[i].offset, &refusals[i].value, sizeof refusals[i].value);
        assert_int_equal(eplb_model_config_check(&config, &error), EPLB_INVALID);
        assert_string_equal(error.text, refusals[i].sentence);
    }
}

static struct eplb_shape shape_of(const struct eplb_model_config *config, int32_t ep_size, int32_t redundant)
{
    struct eplb_shape shape;
    struct eplb_error error;
    assert_int_equal(
        eplb_shape_init(&shape, config->num_layers, config->num_experts, ep_size, redundant, &error),
        EPLB_OK);
    return shape;
}

static void the_plan_adds_up(void **state)
{
    (void)state;
    struct eplb_error error;
    struct eplb_model_config config = small();
    struct eplb_shape shape = shape_of(&config, 4, 2);
    struct eplb_memory_plan plan;
    assert_int_equal(eplb_memory_plan_make(&config, &shape, EPLB_ROUTING_STATIC, 32, 8, 0, &plan, &error),
                     EPLB_OK);
    int64_t expert = 4 * (64 * 256 + 128 * 64);
    /* Norms, query key value, attention out, router, shared, six slots. */
    int64_t layer = 4 * (64 + 64 * 192 + 64 * 64 + 64 + 64 * 16 + 64 * 128 + 64 * 64) + 6 * expert;
    int64_t structs = (4 * (int64_t)sizeof(struct eplb_layer_weights) + 63) / 64 * 64;
    assert_int_equal(plan.weights, 4 * (256 * 64 + 64 + 64 * 256) + structs + 4 * layer);
    assert_int_equal(plan.redundant_slots, 4 * 2 * expert);
    assert_int_equal(plan.staging, 6 * expert);
    assert_int_equal(plan.kv_cache, eplb_model_kv_bytes(&config, 8));
    assert_int_equal(plan.activations, eplb_model_activation_bytes(&config, &shape, EPLB_ROUTING_STATIC, 32));
    assert_int_equal(plan.graph_pool, 0);
    assert_int_equal(plan.total, plan.weights + plan.staging + plan.kv_cache + plan.activations);
}

static void experts_that_never_move_need_no_staging(void **state)
{
    (void)state;
    struct eplb_error error;
    struct eplb_model_config config = small();
    struct eplb_shape shape = shape_of(&config, 4, 0);
    struct eplb_memory_plan plan;
    struct eplb_memory_plan fixed;
    assert_int_equal(eplb_memory_plan_make(&config, &shape, EPLB_ROUTING_STATIC, 32, 8, 0, &plan, &error),
                     EPLB_OK);
    assert_int_equal(eplb_memory_plan_make(&config, &shape, EPLB_ROUTING_STATIC, 32, 8, 1, &fixed, &error),
                     EPLB_OK);
    assert_int_equal(fixed.staging, 0);
    assert_int_equal(fixed.weights, plan.weights);
    assert_int_equal(fixed.total, plan.total - plan.staging);
}

static void the_plan_grows_with_what_it_counts(void **state)
{
    (void)state;
    struct eplb_error error;
    struct eplb_model_config config = small();
    struct eplb_shape shape = shape_of(&config, 4, 0);
    struct eplb_memory_plan plan;
    struct eplb_memory_plan more;
    assert_int_equal(eplb_memory_plan_make(&config, &shape, EPLB_ROUTING_STATIC, 32, 8, 0, &plan, &error),
                     EPLB_OK);
    assert_int_equal(plan.redundant_slots, 0);
    assert_int_equal(eplb_memory_plan_make(&config, &shape, EPLB_ROUTING_STATIC, 32, 16, 0, &more, &error),
                     EPLB_OK);
    assert_true(more.kv_cache > plan.kv_cache && more.weights == plan.weights);
    assert_int_equal(eplb_memory_plan_make(&config, &shape, EPLB_ROUTING_STATIC, 64, 8, 0, &more, &error),
                     EPLB_OK);
    assert_true(more.activations > plan.activations && more.kv_cache == plan.kv_cache);
}

static void a_plan_past_all_memory_is_refused(void **state)
{
    (void)state;
    struct eplb_error error;
    struct eplb_model_config config = {65536, 8192, 1024, 128, 256, 65536, 65536, 64, 16384, 16384, 1};
    struct eplb_shape shape = shape_of(&config, 1, 0);
    struct eplb_memory_plan plan = {.total = -5};
    assert_int_equal(
        eplb_memory_plan_make(&config, &shape, EPLB_ROUTING_STATIC, 1, INT32_MAX, 0, &plan, &error),
        EPLB_INVALID);
    assert_string_equal(error.text, "with its KV cache, a rank needs more than 2^62 bytes");
    assert_int_equal(plan.total, -5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_valid),
        cmocka_unit_test(the_ends_of_the_ranges_are_valid),
        cmocka_unit_test(what_is_out_of_range_is_named),
        cmocka_unit_test(the_plan_adds_up),
        cmocka_unit_test(experts_that_never_move_need_no_staging),
        cmocka_unit_test(the_plan_grows_with_what_it_counts),
        cmocka_unit_test(a_plan_past_all_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
