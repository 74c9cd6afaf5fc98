/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `minmax`: the lowest peak for engines that split an expert evenly over its replicas.
 *
 * 1. The bound that no placement is below is the larger of the mean and, without redundancy, the largest
 *    expert. An active placement within 1 / 101 of it stays as it is.
 * 2. Repair: an active placement that is not too far off is searched with moves counted, first for as
 *    many moves as there are ranks, then for twice, three and four times as many, until its peak is
 *    within 1 / 101 of the bound. Where that takes three moves for four ranks or more, another way is tried
 *    and the one with fewer moves counts. That is the answer: under drift a plan costs few moves, and what
 *    it leaves is less than what the next window brings. Otherwise the search goes on uncounted.
 * 3. Fresh plans: several numbers of copies. Copies for the hottest replica first make the largest share
 *    as small as it can be, but then many shares are alike, a bit more than half of the mean, and no two
 *    of them fit one rank. So, too: just as many copies as bring every share below a cap, between
 *    half and all of the mean, and the rest of the copies for experts with shares well below the cap, which
 *    fill what the large ones leave. Each is packed, heaviest first, without repeats, and searched until no
 *    swap and no exchange of replicas lowers the peak. Within 2^-12 of the bound the next are not tried.
 * 4. Small shapes are searched further: random steps from the best plan, and down again.
 * 5. Of the placements whose peaks are within 2^-10 of the best, the active one, the searched one and the
 *    fresh one, that with the fewest moves is the answer. Rows of a fresh plan are matched to the ranks
 *    that share most experts with them; an expert that stays on its rank keeps its slot.
 *
 * Everything is decided by integers (see even.h) and by a generator with a fixed seed. The memory is
 * O(E + R * K). The time is bounded by the steps of a search, EPLB_SEARCH_MAX_STEPS, times O(R * K + E) a
 * step.
 */
#include "policy/policies.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/prng.h"
#include "policy/even.h"
#include "policy/fresh.h"
#include "policy/local_search.h"
#include "policy/stay.h"

/** Caps of the largest share and of the shares that get the rest, in 1/128 of the mean and of the cap. */
struct start {
    int32_t cap;
    int32_t rest;
};

enum { ONE = 128, NO_CAP = 0 };

/** In the order tried. Hottest replica first is NO_CAP. */
static const struct start starts[] = {
    {96, 45},  {NO_CAP, 0}, {83, 45}, {102, 45}, {83, 96}, {90, 96},  {90, 45},   {96, 64},
    {109, 64}, {77, 96},    {71, 64}, {64, 96},  {58, 64}, {115, 45}, {128, 128},
};

enum { NUM_STARTS = sizeof starts / sizeof *starts };

enum {
    CLOSE_SHIFT = 10,  /* peaks that differ by less than 2^-10 count as equal */
    REACH_SHIFT = 13,  /* a search ends at a peak within 2^-13 of the bound */
    DONE_SHIFT = 12,   /* no further start is tried once a peak is within 2^-12 of the bound */
    FAR_SHIFT = 1,     /* no repair when the active peak is above the bound by more than 2^-1 of it */
    REPAIR_PART = 101, /* a repair ends at a peak within 1 / 101 of the bound */
    REPAIR_ROUNDS = 4  /* and spends so many moves per rank at most */
};

enum { MAX_KICKED_SLOTS = 128, MAX_KICKS = 200, KICK_WORK = 8192 };

struct minmax {
    struct eplb_even even;
    struct eplb_fresh fresh;
    struct eplb_stay stay;
    int32_t *best;     /* [R][K] the best fresh plan */
    int32_t *repaired; /* [R][K] what local search makes of the active placement */
    int32_t *matched;  /* [R][K] */
};

static void layout(struct minmax *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t slots = (size_t)shape->num_slots;
    eplb_even_layout(&work->even, arena, shape);
    eplb_fresh_layout(&work->fresh, arena, shape);
    eplb_stay_layout(&work->stay, arena, shape);
    work->best = eplb_arena_take(arena, slots, sizeof *work->best);
    work->repaired = eplb_arena_take(arena, slots, sizeof *work->repaired);
    work->matched = eplb_arena_take(arena, slots, sizeof *work->matched);
}

static size_t scratch_size(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    struct minmax work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    return arena.used;
}

static size_t table_bytes(const struct eplb_shape *shape)
{
    return (size_t)shape->num_slots * sizeof(int32_t);
}

static bool within(int64_t peak, int64_t base, int shift)
{
    EPLB_ASSERT(peak >= 0 && base >= 0); /* so that the difference fits */
    return peak - base <= base >> shift;
}

static struct eplb_search_limits no_limits(const struct eplb_even *even, int64_t bound)
{
    EPLB_ASSERT(bound >= 0 && bound <= INT64_MAX - (bound >> REACH_SHIFT));
    return (struct eplb_search_limits){.target = bound + (bound >> REACH_SHIFT),
                                       .max_steps = EPLB_SEARCH_MAX_STEPS(even->shape)};
}

/** One to three random steps, whatever they do to the peak. */
static void kick(struct eplb_even *even, struct eplb_prng *prng)
{
    const struct eplb_shape *shape = even->shape;
    EPLB_ASSERT(even->home == NULL); /* random steps ask for no move to spare */
    for (uint64_t left = 1 + eplb_prng_below(prng, 3); left > 0; left--) {
        int32_t a = (int32_t)eplb_prng_below(prng, (uint64_t)shape->ep_size);
        int32_t b = (int32_t)eplb_prng_below(prng, (uint64_t)shape->ep_size);
        int32_t i = (int32_t)eplb_prng_below(prng, (uint64_t)shape->slots_per_rank);
        int32_t j = (int32_t)eplb_prng_below(prng, (uint64_t)shape->slots_per_rank);
        int32_t expert = (int32_t)eplb_prng_below(prng, (uint64_t)shape->num_experts);
        int32_t old = eplb_even_row(even, a)[i];
        int32_t other = eplb_even_row(even, b)[j];
        if (even->copies[old] > 1 && !eplb_even_holds(even, expert, a))
            eplb_even_replace(even, a, i, expert);
        else if (!eplb_even_holds(even, old, b) && !eplb_even_holds(even, other, a))
            eplb_even_swap(even, a, i, b, j);
    }
}

/** Small shapes: the best plan is kicked and searched again, and what is not worse is kept. */
static int64_t search_on(struct minmax *work, int64_t bound, int64_t peak)
{
    const struct eplb_shape *shape = work->even.shape;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1);
    int32_t kicks = shape->num_slots > MAX_KICKED_SLOTS ? 0 : KICK_WORK / shape->num_slots;
    kicks = kicks > MAX_KICKS ? MAX_KICKS : kicks;
    for (; kicks > 0 && !within(peak, bound, DONE_SHIFT); kicks--) {
        eplb_even_place(&work->even, work->best);
        kick(&work->even, &prng);
        struct eplb_search_limits limits = no_limits(&work->even, bound);
        eplb_search_descend(&work->even, &limits);
        if (eplb_even_peak(&work->even) > peak)
            continue;
        peak = eplb_even_peak(&work->even);
        memcpy(work->best, work->even.rows, table_bytes(shape));
    }
    return peak;
}

/** Plans from nothing into work->best. Returns its peak. */
static int64_t plan_fresh(struct minmax *work, int64_t bound)
{
    struct eplb_even *even = &work->even;
    int64_t best = INT64_MAX;
    eplb_fresh_start(&work->fresh, even);
    for (int32_t i = 0; i < NUM_STARTS && (i == 0 || !within(best, bound, DONE_SHIFT)); i++) {
        int64_t cap = starts[i].cap == NO_CAP ? INT64_MAX : even->mean / ONE * starts[i].cap + 1;
        int64_t rest = starts[i].cap == NO_CAP ? INT64_MAX : cap / ONE * starts[i].rest;
        if (!eplb_fresh_copies(&work->fresh, even, cap, rest))
            continue;
        eplb_fresh_pack(&work->fresh, even);
        struct eplb_search_limits limits = no_limits(even, bound);
        eplb_search_descend(even, &limits);
        if (eplb_even_peak(even) >= best)
            continue;
        best = eplb_even_peak(even);
        memcpy(work->best, even->rows, table_bytes(even->shape));
    }
    EPLB_ASSERT(best < INT64_MAX); /* the start without a cap always has copies enough */
    return search_on(work, bound, best);
}

/** Searches from the active placement, which even holds, with moves counted, until it is good enough. */
static void repair_by(struct eplb_even *even, int64_t target, bool evenly)
{
    EPLB_ASSERT(even->home != NULL && even->moves == 0);
    for (int32_t round = 1; round <= REPAIR_ROUNDS && eplb_even_peak(even) > target; round++) {
        const struct eplb_search_limits limits = {.target = target,
                                                  .max_steps = EPLB_SEARCH_MAX_STEPS(even->shape),
                                                  .max_moves = round * even->shape->ep_size,
                                                  .evenly = evenly};
        eplb_search_descend(even, &limits);
    }
    EPLB_ASSERT(even->moves <= REPAIR_ROUNDS * even->shape->ep_size);
}

/**
 * Repairs, and where that takes three moves for four ranks or more, in another way too; leaves the better one
 * in even. Returns whether it is good enough.
 */
static bool repair(struct minmax *work, const int32_t *active, int64_t bound)
{
    struct eplb_even *even = &work->even;
    const int64_t target = bound + bound / REPAIR_PART;
    EPLB_ASSERT(even->home == active && target < eplb_even_peak(even));
    repair_by(even, target, false);
    const int64_t peak = eplb_even_peak(even);
    const int32_t moves = even->moves;
    if (peak <= target && moves <= even->shape->ep_size * 3 / 4)
        return true;
    memcpy(work->repaired, even->rows, table_bytes(even->shape));
    eplb_even_place_home(even, active);
    repair_by(even, target, true);
    if (peak <= target && (eplb_even_peak(even) > target || moves <= even->moves))
        eplb_even_place(even, work->repaired);
    return eplb_even_peak(even) <= target;
}

/** Searches on from the repair, moves uncounted, into work->repaired. Returns the peak. */
static int64_t search_repaired(struct minmax *work, int64_t bound)
{
    const struct eplb_search_limits limits = no_limits(&work->even, bound);
    eplb_even_place(&work->even, work->even.rows);
    eplb_search_descend(&work->even, &limits);
    memcpy(work->repaired, work->even.rows, table_bytes(work->even.shape));
    return eplb_even_peak(&work->even);
}

/** Of the fresh and the repaired plan, the one with fewer moves among those as good as the best. */
static void choose(struct minmax *work, const int32_t *active, int64_t fresh_peak, int64_t repaired_peak,
                   int32_t *expert_ids)
{
    int64_t best = fresh_peak < repaired_peak ? fresh_peak : repaired_peak;
    int32_t moves = INT32_MAX;
    EPLB_ASSERT(best < INT64_MAX); /* a fresh plan there always is */
    if (within(fresh_peak, best, CLOSE_SHIFT)) {
        eplb_stay_match(&work->stay, active, work->best, work->matched);
        moves = eplb_stay_keep(&work->stay, active, work->matched, expert_ids);
    }
    if (!within(repaired_peak, best, CLOSE_SHIFT))
        return;
    if (eplb_stay_keep(&work->stay, active, work->repaired, work->matched) < moves)
        memcpy(expert_ids, work->matched, table_bytes(work->even.shape));
}

static void plan(struct minmax *work, const struct eplb_policy_problem *problem, int32_t *expert_ids)
{
    struct eplb_even *even = &work->even;
    const size_t bytes = table_bytes(problem->shape);
    EPLB_ASSERT(expert_ids != problem->active);
    eplb_even_load(even, problem->load);
    eplb_even_place_home(even, problem->active);
    const int64_t bound = eplb_even_bound(even);
    const int64_t active_peak = eplb_even_peak(even);
    memcpy(expert_ids, problem->active, bytes);
    if (active_peak <= bound + bound / REPAIR_PART)
        return;
    int64_t repaired_peak = INT64_MAX;
    if (within(active_peak, bound, FAR_SHIFT)) {
        if (repair(work, problem->active, bound)) {
            eplb_stay_keep(&work->stay, problem->active, even->rows, expert_ids);
            return;
        }
        repaired_peak = search_repaired(work, bound);
    }
    const int64_t fresh_peak = plan_fresh(work, bound);
    const int64_t best = fresh_peak < repaired_peak ? fresh_peak : repaired_peak;
    if (!within(active_peak, best, CLOSE_SHIFT))
        choose(work, problem->active, fresh_peak, repaired_peak, expert_ids);
}

static enum eplb_status plan_layer(const struct eplb_policy_problem *problem, void *scratch,
                                   struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)error;
    struct minmax work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, scratch, scratch_size(problem->shape, problem->settings));
    layout(&work, &arena, problem->shape);
    EPLB_ASSERT(!arena.overflow);
    plan(&work, problem, answer->expert_ids);
    return EPLB_OK;
}

const struct eplb_policy_ops eplb_policy_minmax = {
    .size = sizeof(struct eplb_policy_ops),
    .name = "minmax",
    .scratch_size = scratch_size,
    .plan_layer = plan_layer,
};
