/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "unit/policy/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

void plan_once(const char *kind, const struct eplb_shape *shape, const int64_t *load, const int32_t *active,
               int32_t *candidate)
{
    const struct eplb_policy_ops *ops = eplb_policy_find(kind).ops;
    struct eplb_policy_settings settings;
    eplb_policy_settings_init(&settings);
    size_t bytes = ops->scratch_size(shape, &settings);
    /* The guard behind the scratch shows, without a sanitizer too, that no byte more is used. */
    unsigned char *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xa5, (bytes + 127) / 64 * 64);
    struct eplb_error error = {0};
    int32_t weights[PLAN_MAX_SLOTS];
    struct eplb_policy_problem problem = {
        .size = sizeof problem, .shape = shape, .settings = &settings, .load = load, .active = active};
    struct eplb_policy_answer answer = {.size = sizeof answer, .expert_ids = candidate, .weights = weights};
    assert_int_equal(ops->plan_layer(&problem, scratch, &answer, &error), EPLB_OK);
    assert_string_equal(error.text, "");
    for (size_t i = bytes; i < (bytes + 127) / 64 * 64; i++)
        assert_int_equal(scratch[i], 0xa5);
    free(scratch);
}

void plan_initial(const char *kind, const struct eplb_shape *shape, const int64_t *load, int32_t *candidate)
{
    int32_t active[PLAN_MAX_SLOTS];
    eplb_placement_initial(shape, active);
    plan_once(kind, shape, load, active, candidate);
}

double plan_peak(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load)
{
    int32_t scratch[PLAN_MAX_EXPERTS];
    return eplb_balance_of(shape, expert_ids, load, scratch).peak;
}

static int64_t below(struct eplb_prng *prng, int64_t bound)
{
    return (int64_t)eplb_prng_below(prng, (uint64_t)bound);
}

void plan_random_load(struct eplb_prng *prng, const struct eplb_shape *shape, int64_t largest, int64_t *load)
{
    int64_t kind = below(prng, 5);
    for (int32_t expert = 0; expert < shape->num_experts; expert++) {
        if (kind == 0)
            load[expert] = below(prng, 4);
        else if (kind == 1)
            load[expert] = below(prng, 8) == 0 ? below(prng, 100000) : below(prng, 100);
        else if (kind == 2)
            load[expert] = below(prng, 1000001);
        else if (kind == 3)
            load[expert] = below(prng, largest) + 1;
        else
            load[expert] = 1000000 / (1 + below(prng, 1000));
    }
    int64_t *one = &load[below(prng, shape->num_experts)];
    *one += *one < largest;
}
