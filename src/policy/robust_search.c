/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A search that is led by what is wrong: of a scenario with a high optimum it takes the densest rank set,
 * and moves an expert that is shut in there to a rank outside, in exchange for another slot's expert or
 * in place of a copy that another expert can spare. Where moved slots have a price, other moves take one
 * back. Of a few moves the best one, by the sets that are known, is measured exactly, and kept if the cost
 * falls.
 */
#include "policy/robust.h"

#include <string.h>

#include "base/assert.h"
#include "base/mix.h"

enum {
    LANES = EPLB_ROBUST_SCENARIOS,
    CONTESTANTS = 3, /* scenarios that are drawn for a move; the worst leads it */
    PAIRS = 16,      /* pairs of slots that are drawn for a move */
    ROUND = 8,       /* moves of which the most promising is tried */
    RETURNS = 4,     /* one in so many moves brings an expert back, where moved slots have a price */
};

/* Parts of the cost that count as nothing. */
static const double least_gain = 1e-6;
/* Mean excess below which there is nothing to search for. */
static const double good_enough = 1e-5;

/** Slots that change, and the experts that they get. */
struct move {
    int32_t count;
    int32_t slots[2];
    int32_t experts[2];
};

void eplb_search_layout(struct eplb_search *search, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    eplb_table_layout(&search->table, arena, shape);
    eplb_cuts_layout(&search->cuts, arena, shape);
    eplb_trial_flow_layout(&search->flow, arena, shape);
    search->holders = eplb_arena_take(arena, 4 * (size_t)search->cuts.words, sizeof *search->holders);
    search->inner = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *search->inner);
    search->outer = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *search->outer);
}

double eplb_search_balance(const struct eplb_search *search)
{
    return search->optimum.sum / LANES * search->table.num_ranks / EPLB_ROBUST_TOTAL;
}

/** Lifts lower bounds to the optimum, unless their sum reaches `stop` before. Returns whether it did not. */
static bool make_exact(struct eplb_search *search, struct eplb_bounds *bounds, double stop)
{
    eplb_trial_flow_start(&search->flow, &search->table);
    for (int32_t i = 0; i < LANES && bounds->sum < stop; i++) {
        for (;;) {
            float level = bounds->level.at[i];
            int32_t size =
                eplb_trial_flow_fit(&search->flow, &search->table, search->lanes, i, (double)level);
            if (size == 0)
                break;
            int32_t cut = eplb_cuts_add(&search->cuts, &search->table, search->lanes, search->flow.queue,
                                        size, &search->optimum, bounds);
            eplb_cuts_raise(&search->cuts, cut, bounds);
            /* No rise: the set is as dense as the level, as far as a float tells. */
            if (bounds->sum >= stop || bounds->level.at[i] <= level)
                break;
        }
    }
    return bounds->sum < stop;
}

static bool is_moved(const struct eplb_search *search, int32_t slot, int32_t expert)
{
    return !eplb_table_holds(search->active, slot / search->table.slots_per_rank, expert);
}

static int32_t count_moved(const struct eplb_search *search)
{
    int32_t count = 0;
    for (int32_t slot = 0; slot < search->table.num_ranks * search->table.slots_per_rank; slot++)
        count += is_moved(search, slot, search->table.expert_ids[slot]);
    return count;
}

/** The sets that every table is measured by: all ranks together, and each alone. */
static void seed_cuts(struct eplb_search *search)
{
    struct eplb_cuts *cuts = &search->cuts;
    int32_t ranks = search->table.num_ranks;
    cuts->count = 0;
    cuts->last = -1;
    for (int32_t rank = 0; rank < ranks; rank++)
        search->flow.queue[rank] = rank;
    eplb_cuts_add(cuts, &search->table, search->lanes, search->flow.queue, ranks, NULL, NULL);
    for (int32_t rank = 0; rank < ranks && rank < EPLB_ROBUST_CUTS / 2; rank++)
        eplb_cuts_add(cuts, &search->table, search->lanes, &rank, 1, NULL, NULL);
}

void eplb_search_start(struct eplb_search *search, const struct eplb_table *table,
                       const struct eplb_table *active, const struct eplb_lanes *lanes, double price)
{
    EPLB_ASSERT(price >= 0 && table->num_ranks == active->num_ranks);
    search->lanes = lanes;
    search->active = active;
    search->price = price;
    eplb_table_copy(&search->table, table);
    seed_cuts(search);
    memset(&search->optimum, 0, sizeof search->optimum);
    eplb_cuts_raise_all(&search->cuts, &search->optimum);
    bool is_exact = make_exact(search, &search->optimum, (double)EPLB_ROBUST_TOTAL * LANES * 2);
    EPLB_ASSERT(is_exact);
    search->moved = count_moved(search);
}

static void swap_table(struct eplb_search *search, struct eplb_table *table)
{
    struct eplb_table other = *table;
    *table = search->table;
    search->table = other;
    eplb_cuts_measure(&search->cuts, &search->table, search->lanes);
    search->moved = count_moved(search);
}

void eplb_search_offer(struct eplb_search *search, struct eplb_table *table)
{
    EPLB_ASSERT(table->num_experts == search->table.num_experts &&
                table->num_ranks == search->table.num_ranks);
    double cost = search->optimum.sum + search->price * search->moved;
    swap_table(search, table);
    memset(&search->trial, 0, sizeof search->trial);
    eplb_cuts_raise_all(&search->cuts, &search->trial);
    if (make_exact(search, &search->trial, cost * (1 - least_gain) - search->price * search->moved))
        search->optimum = search->trial;
    else
        swap_table(search, table);
}

/** Picks the scenario to improve: the worst of a few. */
static int32_t pick_scenario(const struct eplb_search *search, uint64_t key)
{
    int32_t worst = -1;
    for (uint64_t i = 0; i < CONTESTANTS; i++) {
        int32_t scenario = (int32_t)(eplb_mix(key, i) % LANES);
        if (worst < 0 || search->optimum.level.at[scenario] > search->optimum.level.at[worst])
            worst = scenario;
    }
    EPLB_ASSERT(worst >= 0);
    return worst;
}

static bool has(const uint64_t *set, int32_t rank)
{
    return set[rank / 64] >> (rank % 64) & 1;
}

/** Lists the slots inside of a set whose experts are shut in, and the slots outside. */
static void list_slots(struct eplb_search *search, const uint64_t *set, int32_t *inner, int32_t *outer)
{
    const struct eplb_table *table = &search->table;
    int32_t slot = 0;
    EPLB_ASSERT(table->slots_per_rank >= 1);
    *inner = 0;
    *outer = 0;
    for (int32_t rank = 0; rank < table->num_ranks; rank++) {
        bool inside = has(set, rank);
        for (int32_t end = slot + table->slots_per_rank; slot < end; slot++)
            if (!inside)
                search->outer[(*outer)++] = slot;
            else if (eplb_set_within(eplb_table_holders(table, table->expert_ids[slot]), set, table->words))
                search->inner[(*inner)++] = slot;
    }
}

/** Makes a move of a slot's expert to another slot, if that is legal. */
static bool make_move(const struct eplb_table *table, int32_t inner, int32_t outer, bool copy,
                      struct move *move)
{
    int32_t expert = table->expert_ids[inner];
    int32_t other = table->expert_ids[outer];
    copy = copy && table->copies[other] > 1;
    *move = (struct move){.count = copy ? 1 : 2, .slots = {outer, inner}, .experts = {expert, other}};
    return !eplb_table_holds(table, outer / table->slots_per_rank, expert) &&
           (copy || !eplb_table_holds(table, inner / table->slots_per_rank, other));
}

/** A slot that moved, or -1. */
static int32_t pick_moved(const struct eplb_search *search, uint64_t key)
{
    int32_t slots = search->table.num_ranks * search->table.slots_per_rank;
    int32_t slot = (int32_t)(key % (uint64_t)slots);
    for (int32_t i = 0; i < slots; i++, slot = slot + 1 < slots ? slot + 1 : 0)
        if (is_moved(search, slot, search->table.expert_ids[slot]))
            return slot;
    EPLB_ASSERT(search->moved == 0);
    return -1;
}

/** An expert that a rank holds in the active table and no longer in the other: one for each moved slot. */
static int32_t pick_lost(const struct eplb_search *search, int32_t rank, uint64_t key)
{
    int32_t slots = search->table.slots_per_rank;
    const int32_t *experts = search->active->expert_ids + (size_t)rank * (size_t)slots;
    int32_t at = (int32_t)(key % (uint64_t)slots);
    int32_t left = slots;
    while (eplb_table_holds(&search->table, rank, experts[at])) {
        EPLB_ASSERT(left > 0);
        at = at + 1 < slots ? at + 1 : 0;
        left--;
    }
    return experts[at];
}

/** Brings an expert back to a rank that lost it: from a slot that it moved to, if there is one. */
static bool pick_return(const struct eplb_search *search, uint64_t key, struct move *move)
{
    const struct eplb_table *table = &search->table;
    int32_t to = pick_moved(search, eplb_mix(key, 0));
    if (to < 0)
        return false;
    int32_t lost = pick_lost(search, to / table->slots_per_rank, eplb_mix(key, 1));
    int32_t skip = (int32_t)(eplb_mix(key, 2) % (uint64_t)table->copies[lost]);
    int32_t from = -1;
    int32_t moved = -1;
    for (int32_t slot = table->first[lost]; slot >= 0; slot = table->next[slot], skip--) {
        from = skip >= 0 ? slot : from;
        moved = is_moved(search, slot, lost) ? slot : moved;
    }
    EPLB_ASSERT(from >= 0);
    return make_move(table, moved >= 0 ? moved : from, to, eplb_mix(key, 3) & 1, move);
}

static bool pick_move(struct eplb_search *search, uint64_t key, struct move *move)
{
    if (search->price > 0 && (key >> 32) % RETURNS == 0)
        return pick_return(search, key, move);
    int32_t binding = search->optimum.binding[pick_scenario(search, key)];
    EPLB_ASSERT(binding >= 0 && binding < search->cuts.count);
    int32_t inner;
    int32_t outer;
    list_slots(search, search->cuts.sets + (size_t)binding * (size_t)search->cuts.words, &inner, &outer);
    if (inner == 0 || outer == 0)
        return false;
    for (uint64_t i = 0; i < PAIRS; i++) {
        uint64_t draw = eplb_mix(key, CONTESTANTS + i);
        int32_t from = search->inner[(draw & 0x7fffffff) % (uint64_t)inner];
        int32_t to = search->outer[(draw >> 31 & 0x7fffffff) % (uint64_t)outer];
        if (make_move(&search->table, from, to, draw >> 63, move))
            return true;
    }
    return false;
}

/** What a move changes: the ranks of the expert that gets out, and of the one that makes room. */
static void describe(struct eplb_search *search, const struct move *move, struct eplb_cut_change changes[2])
{
    const struct eplb_table *table = &search->table;
    size_t words = (size_t)table->words;
    EPLB_ASSERT(move->count == 1 || move->count == 2);
    EPLB_ASSERT(move->experts[0] != table->expert_ids[move->slots[0]]);
    int32_t to = move->slots[0] / table->slots_per_rank;
    for (size_t i = 0; i < 2; i++) {
        uint64_t *before = search->holders + 2 * i * words;
        uint64_t *after = before + words;
        int32_t expert = i == 0 ? move->experts[0] : table->expert_ids[move->slots[0]];
        memcpy(before, eplb_table_holders(table, expert), words * sizeof *before);
        memcpy(after, before, words * sizeof *after);
        after[to / 64] ^= UINT64_C(1) << (to % 64);
        if (move->count == 2) {
            int32_t from = move->slots[1] / table->slots_per_rank;
            after[from / 64] ^= UINT64_C(1) << (from % 64);
        }
        changes[i] = (struct eplb_cut_change){.expert = expert, .before = before, .after = after};
    }
}

/** By how much a move changes the number of moved slots. */
static int32_t moved_by(const struct eplb_search *search, const struct move *move)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < move->count; i++)
        sum += is_moved(search, move->slots[i], move->experts[i]) -
               is_moved(search, move->slots[i], search->table.expert_ids[move->slots[i]]);
    return sum;
}

/** Does a move, and makes it the one that takes it back. */
static void do_move(struct eplb_search *search, struct move *move)
{
    struct eplb_table *table = &search->table;
    struct move back = *move;
    search->moved += moved_by(search, move);
    for (int32_t i = 0; i < move->count; i++) {
        back.experts[i] = table->expert_ids[move->slots[i]];
        eplb_table_empty(table, move->slots[i]);
    }
    for (int32_t i = 0; i < move->count; i++)
        eplb_table_fill(table, move->slots[i], move->experts[i]);
    EPLB_ASSERT(search->moved >= 0);
    *move = back;
}

/** Does a move if it lowers the cost: `stop` is the sum of optima that it must stay below. */
static void try_move(struct eplb_search *search, struct move *move, double stop)
{
    struct eplb_cut_change changes[2];
    describe(search, move, changes);
    do_move(search, move);
    eplb_cuts_change(&search->cuts, search->lanes, changes);
    memset(&search->trial, 0, sizeof search->trial);
    eplb_cuts_raise_all(&search->cuts, &search->trial);
    if (make_exact(search, &search->trial, stop)) {
        search->optimum = search->trial;
        return;
    }
    for (int32_t i = 0; i < 2; i++) {
        const uint64_t *before = changes[i].before;
        changes[i].before = changes[i].after;
        changes[i].after = before;
    }
    eplb_cuts_change(&search->cuts, search->lanes, changes);
    do_move(search, move);
}

/** Draws a few moves and tries the one that the known sets say most good of. */
static void run_round(struct eplb_search *search, uint64_t key)
{
    struct move best = {0};
    double least = (search->optimum.sum + search->price * search->moved) * (1 - least_gain);
    double stop = 0;
    double limit = least;
    for (int32_t i = 0; i < ROUND; i++) {
        struct move move;
        struct eplb_cut_change changes[2];
        if (!pick_move(search, eplb_mix(key, (uint64_t)i), &move))
            continue;
        describe(search, &move, changes);
        double moved = search->price * (search->moved + moved_by(search, &move));
        double cost = eplb_cuts_preview(&search->cuts, search->lanes, changes) + moved;
        if (cost < least) {
            least = cost;
            best = move;
            stop = limit - moved;
        }
    }
    if (best.count == 0)
        return;
    EPLB_ASSERT(stop > 0 && stop <= limit);
    try_move(search, &best, stop);
}

bool eplb_search_is_tired(const struct eplb_search *search)
{
    return search->flow.work > EPLB_ROBUST_MOST_WORK;
}

void eplb_search_run(struct eplb_search *search, int32_t candidates)
{
    for (int32_t i = 0; i < candidates && eplb_search_balance(search) > 1 + good_enough; i += ROUND) {
        if (eplb_search_is_tired(search))
            break;
        run_round(search, eplb_mix(0, (uint64_t)i));
    }
}
