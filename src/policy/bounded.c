/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/bounded.h"

#include "base/arena.h"
#include "base/assert.h"
#include "policy/even.h"
#include "policy/local_search.h"
#include "policy/stay.h"

struct bounded {
    struct eplb_even even;
    struct eplb_stay stay;
};

static void layout(struct bounded *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    eplb_even_layout(&work->even, arena, shape);
    eplb_stay_layout(&work->stay, arena, shape);
}

size_t eplb_bound_scratch(const struct eplb_shape *shape)
{
    struct bounded work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    return arena.used;
}

int32_t eplb_bound_plan(const struct eplb_policy_problem *problem, int32_t max_moves, void *scratch,
                        int32_t *expert_ids)
{
    EPLB_ASSERT(max_moves > 0 && expert_ids != problem->active);
    const struct eplb_shape *shape = problem->shape;
    struct bounded work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, eplb_bound_scratch(shape));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow);

    eplb_even_load(&work.even, problem->load);
    eplb_even_place_home(&work.even, problem->active);
    const struct eplb_search_limits limits = {.target = eplb_even_bound(&work.even),
                                              .max_steps = EPLB_SEARCH_MAX_STEPS(shape),
                                              .max_moves = max_moves};
    const int64_t active_peak = eplb_even_peak(&work.even);
    eplb_search_descend(&work.even, &limits);
    EPLB_ASSERT(eplb_even_peak(&work.even) <= active_peak);
    int32_t moved = eplb_stay_keep(&work.stay, problem->active, work.even.rows, expert_ids);
    EPLB_ASSERT(moved == work.even.moves && moved <= max_moves);
    return moved;
}
