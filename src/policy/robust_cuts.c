/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A pool of rank sets. Most moves of a search are worse by a set that is known already: that is seen
 * from the loads inside of the sets, 64 scenarios at a time, without a flow.
 */
#include "policy/robust.h"

#include <string.h>

#include "base/assert.h"

enum { LANES = EPLB_ROBUST_SCENARIOS };

void eplb_cuts_layout(struct eplb_cuts *cuts, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    cuts->words = (shape->ep_size + 63) / 64;
    cuts->sets = eplb_arena_take(arena, (size_t)EPLB_ROBUST_CUTS * (size_t)cuts->words, sizeof *cuts->sets);
    cuts->inverse = eplb_arena_take(arena, EPLB_ROBUST_CUTS, sizeof *cuts->inverse);
    cuts->inside = eplb_arena_take(arena, EPLB_ROBUST_CUTS, sizeof *cuts->inside);
}

static const uint64_t *set_of(const struct eplb_cuts *cuts, int32_t cut)
{
    return cuts->sets + (size_t)cut * (size_t)cuts->words;
}

static void add_lanes(struct eplb_lanes *restrict sum, const struct eplb_lanes *restrict lanes, float factor)
{
    for (int32_t i = 0; i < LANES; i++)
        sum->at[i] += factor * lanes->at[i];
}

static void mark(const struct eplb_bounds *bounds, int32_t count, bool *binds)
{
    for (int32_t i = 0; i < LANES; i++) {
        EPLB_ASSERT(bounds->binding[i] >= 0 && bounds->binding[i] < count);
        binds[bounds->binding[i]] = true;
    }
}

/**
 * The set that is given up for a new one, in turn: one that no bound rests on; where both together rest on
 * all sets, one that no kept bound does.
 */
static int32_t choose_victim(struct eplb_cuts *cuts, const struct eplb_bounds *kept,
                             const struct eplb_bounds *raised)
{
    EPLB_ASSERT(kept != NULL && raised != NULL && cuts->count == EPLB_ROBUST_CUTS);
    bool binds[EPLB_ROBUST_CUTS] = {false};
    bool kept_binds[EPLB_ROBUST_CUTS] = {false};
    mark(kept, cuts->count, kept_binds);
    mark(kept, cuts->count, binds);
    mark(raised, cuts->count, binds);
    for (int32_t i = 0; i < 2 * EPLB_ROBUST_CUTS; i++) {
        cuts->last = (cuts->last + 1) % EPLB_ROBUST_CUTS;
        if (!(i < EPLB_ROBUST_CUTS ? binds : kept_binds)[cuts->last])
            break;
    }
    return cuts->last;
}

static void measure(struct eplb_cuts *cuts, int32_t cut, const struct eplb_table *table,
                    const struct eplb_lanes *lanes)
{
    memset(&cuts->inside[cut], 0, sizeof cuts->inside[cut]);
    for (int32_t expert = 0; expert < table->num_experts; expert++)
        if (eplb_set_within(eplb_table_holders(table, expert), set_of(cuts, cut), cuts->words))
            add_lanes(&cuts->inside[cut], &lanes[expert], 1);
}

void eplb_cuts_measure(struct eplb_cuts *cuts, const struct eplb_table *table, const struct eplb_lanes *lanes)
{
    for (int32_t cut = 0; cut < cuts->count; cut++)
        measure(cuts, cut, table, lanes);
}

int32_t eplb_cuts_add(struct eplb_cuts *cuts, const struct eplb_table *table, const struct eplb_lanes *lanes,
                      const int32_t *ranks, int32_t size, const struct eplb_bounds *kept,
                      const struct eplb_bounds *raised)
{
    EPLB_ASSERT(size >= 1 && size <= table->num_ranks);
    EPLB_ASSERT(cuts->words == table->words);
    int32_t cut = cuts->count < EPLB_ROBUST_CUTS ? cuts->count++ : choose_victim(cuts, kept, raised);
    uint64_t *set = cuts->sets + (size_t)cut * (size_t)cuts->words;
    memset(set, 0, (size_t)cuts->words * sizeof *set);
    for (int32_t i = 0; i < size; i++) {
        EPLB_ASSERT(ranks[i] >= 0 && ranks[i] < table->num_ranks);
        set[ranks[i] / 64] |= UINT64_C(1) << (ranks[i] % 64);
    }
    cuts->inverse[cut] = 1.0F / (float)size;
    measure(cuts, cut, table, lanes);
    return cut;
}

static double sum_of(const struct eplb_lanes *lanes)
{
    double sum = 0;
    for (int32_t i = 0; i < LANES; i++)
        sum += (double)lanes->at[i];
    return sum;
}

static void raise_to(const struct eplb_cuts *cuts, int32_t cut, struct eplb_bounds *bounds)
{
    for (int32_t i = 0; i < LANES; i++) {
        float density = cuts->inside[cut].at[i] * cuts->inverse[cut];
        if (density > bounds->level.at[i]) {
            bounds->level.at[i] = density;
            bounds->binding[i] = cut;
        }
    }
}

void eplb_cuts_raise(const struct eplb_cuts *cuts, int32_t cut, struct eplb_bounds *bounds)
{
    EPLB_ASSERT(cut >= 0 && cut < cuts->count);
    raise_to(cuts, cut, bounds);
    bounds->sum = sum_of(&bounds->level);
}

void eplb_cuts_raise_all(const struct eplb_cuts *cuts, struct eplb_bounds *bounds)
{
    for (int32_t cut = 0; cut < cuts->count; cut++)
        raise_to(cuts, cut, bounds);
    bounds->sum = sum_of(&bounds->level);
}

/** What a change does to the load inside of a set: 1 comes in, -1 goes out. */
static float step_of(const struct eplb_cuts *cuts, int32_t cut, const struct eplb_cut_change *change)
{
    const uint64_t *set = set_of(cuts, cut);
    return (float)eplb_set_within(change->after, set, cuts->words) -
           (float)eplb_set_within(change->before, set, cuts->words);
}

double eplb_cuts_preview(const struct eplb_cuts *cuts, const struct eplb_lanes *lanes,
                         const struct eplb_cut_change changes[2])
{
    EPLB_ASSERT(cuts->count >= 1 && changes[0].expert != changes[1].expert);
    struct eplb_lanes most = {0};
    const float *restrict a = lanes[changes[0].expert].at;
    const float *restrict b = lanes[changes[1].expert].at;
    for (int32_t cut = 0; cut < cuts->count; cut++) {
        const float *restrict inside = cuts->inside[cut].at;
        const float inverse = cuts->inverse[cut];
        const float a_step = step_of(cuts, cut, &changes[0]);
        const float b_step = step_of(cuts, cut, &changes[1]);
        if (a_step == 0 && b_step == 0) {
            for (int32_t i = 0; i < LANES; i++) {
                float density = inside[i] * inverse;
                most.at[i] = density > most.at[i] ? density : most.at[i];
            }
        } else {
            for (int32_t i = 0; i < LANES; i++) {
                float density = (inside[i] + a_step * a[i] + b_step * b[i]) * inverse;
                most.at[i] = density > most.at[i] ? density : most.at[i];
            }
        }
    }
    return sum_of(&most);
}

void eplb_cuts_change(struct eplb_cuts *cuts, const struct eplb_lanes *lanes,
                      const struct eplb_cut_change changes[2])
{
    for (int32_t cut = 0; cut < cuts->count; cut++)
        for (int32_t i = 0; i < 2; i++) {
            float step = step_of(cuts, cut, &changes[i]);
            if (step != 0)
                add_lanes(&cuts->inside[cut], &lanes[changes[i].expert], step);
        }
}
