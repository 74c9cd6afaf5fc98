/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/local_search.h"

#include <string.h>

#include "base/assert.h"

/** How many experts of the fullest rank are tried in exchanges: the work of a step stays bounded. */
enum { MAX_TRIED = 16 };

enum step_kind { STEP_NONE, STEP_SWAP, STEP_EXCHANGE };

struct step {
    enum step_kind kind;
    int64_t worth;
    int64_t waste; /* decides between steps of the same worth: the smaller one */
    int32_t rank;
    int32_t i;
    int32_t partner; /* of a swap */
    int32_t j;
    int32_t expert; /* of an exchange: the one that gets a replica */
};

/** A search for the next step. */
struct search {
    const struct eplb_even *even;
    bool counted;
    bool evenly;
    int32_t max_cost; /* moves that are left */
    int64_t needed;   /* from the peak to the target */
    int32_t fullest;
    struct step best; /* so far; a better one is worth more */
};

/**
 * What a swap is worth: its gain; or where moves count, per move, what the fullest rank needs to come to the
 * target, half the gain when that is not enough, and twice as much where nothing is moved.
 */
static int64_t worth(const struct search *search, int64_t gain, int32_t cost)
{
    if (!search->counted)
        return gain;
    int64_t useful = gain < search->needed ? gain / 2 : search->needed;
    return cost <= 0 ? 2 * useful : useful >> (cost - 1);
}

static bool better(const struct step *a, const struct step *b)
{
    return a->worth > b->worth || (a->worth == b->worth && a->waste < b->waste);
}

/** What it adds to the moves when the expert at position i of a rank makes room for another. */
static int32_t cost_of(const struct search *search, int32_t rank, int32_t i, int32_t expert)
{
    const struct eplb_even *even = search->even;
    if (!search->counted)
        return 0;
    uint8_t strange = even->strange[(size_t)rank * (size_t)even->shape->slots_per_rank + (size_t)i];
    return !eplb_even_was_on(even, expert, rank) - strange;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/** Takes a swap for the best step if it is worth most, legal and affordable. */
static bool try_swap(struct search *search, int64_t gain, const struct step *swap)
{
    const struct eplb_even *even = search->even;
    int32_t from = eplb_even_row(even, swap->rank)[swap->i];
    int32_t back = eplb_even_row(even, swap->partner)[swap->j];
    if (eplb_even_holds(even, from, swap->partner) || eplb_even_holds(even, back, swap->rank))
        return false;
    int32_t cost = cost_of(search, swap->rank, swap->i, back) + cost_of(search, swap->partner, swap->j, from);
    struct step step = *swap;
    step.worth = worth(search, gain, cost);
    if (cost > search->max_cost || !better(&step, &search->best))
        return false;
    search->best = step;
    return true;
}

/**
 * The best swap with one partner, where moves do not count. A difference d of shares leaves both below
 * the peak by at least min(d, gap - d), most at half the gap; rows are sorted, so for each expert of the
 * fullest rank the search starts there and goes both ways while it can still win.
 */
static void find_swap_with(struct search *search, int32_t partner)
{
    const struct eplb_even *even = search->even;
    const int64_t *keys = eplb_even_keys(even, search->fullest);
    const int64_t *others = eplb_even_keys(even, partner);
    int32_t count = even->shape->slots_per_rank;
    int64_t gap = even->sums[search->fullest] - even->sums[partner];
    EPLB_ASSERT(!search->counted && gap > 0);
    int32_t start = 0;
    struct step swap = {.kind = STEP_SWAP, .rank = search->fullest, .partner = partner};
    for (int32_t i = 0; i < count; i++) {
        swap.i = i;
        while (start < count && keys[i] - others[start] < gap / 2)
            start++;
        for (swap.j = start; swap.j < count; swap.j++) {
            int64_t gain = gap - (keys[i] - others[swap.j]);
            if (gain <= search->best.worth || try_swap(search, gain, &swap))
                break;
        }
        for (swap.j = start - 1; swap.j >= 0; swap.j--) {
            int64_t gain = keys[i] - others[swap.j];
            if (gain <= search->best.worth || try_swap(search, gain, &swap))
                break;
        }
    }
}

/** The best swap with one partner, where moves count: one of an expert that is not at home costs less. */
static void find_cheap_swap_with(struct search *search, int32_t partner)
{
    const struct eplb_even *even = search->even;
    const int64_t *keys = eplb_even_keys(even, search->fullest);
    const int64_t *others = eplb_even_keys(even, partner);
    int32_t count = even->shape->slots_per_rank;
    const uint8_t *strange = even->strange + (size_t)search->fullest * (size_t)count;
    const uint8_t *strange_there = even->strange + (size_t)partner * (size_t)count;
    int64_t gap = even->sums[search->fullest] - even->sums[partner];
    EPLB_ASSERT(search->counted && gap > 0);
    struct step swap = {.kind = STEP_SWAP, .rank = search->fullest, .partner = partner};
    for (swap.i = 0; swap.i < count; swap.i++) {
        for (swap.j = count - 1; swap.j >= 0 && others[swap.j] < keys[swap.i]; swap.j--) {
            /* Each expert that leaves home costs a move; one that is not at home may even go back. */
            int32_t cost = 2 - 2 * (strange[swap.i] + strange_there[swap.j]);
            if (cost == 2 && search->best.worth > search->needed / 2)
                continue;
            int64_t down = keys[swap.i] - others[swap.j];
            int64_t gain = smaller(down, gap - down);
            swap.worth = worth(search, gain, cost);
            swap.waste = search->evenly ? -gain : -down;
            if (gain > 0 && better(&swap, &search->best))
                try_swap(search, gain, &swap);
        }
    }
}

/** Whether some expert of a rank was not there at home. */
static bool has_strange(const struct eplb_even *even, int32_t rank)
{
    size_t count = (size_t)even->shape->slots_per_rank;
    return memchr(even->strange + (size_t)rank * count, 1, count) != NULL;
}

static void find_swap(struct search *search)
{
    const struct eplb_even *even = search->even;
    const bool strange = search->counted && has_strange(even, search->fullest);
    for (int32_t at = 0; at + 1 < even->shape->ep_size; at++) {
        int32_t partner = even->order[at];
        /* No partner from here on has a larger gap. */
        int64_t half = (even->sums[search->fullest] - even->sums[partner]) / 2;
        if (half <= 0 || worth(search, half, 0) < search->best.worth)
            return;
        if (search->counted && search->best.worth > search->needed / 2 && !strange &&
            !has_strange(even, partner))
            continue;
        if (search->counted)
            find_cheap_swap_with(search, partner);
        else
            find_swap_with(search, partner);
    }
}

static int64_t over(const struct search *search, int64_t sum)
{
    int64_t target = search->even->sums[search->fullest] - search->needed;
    return sum > target ? sum - target : 0;
}

/** By how much an exchange lowers what all ranks together have above the target. */
static int64_t relief_of(const struct search *search, int32_t rank, int32_t old, int32_t expert)
{
    const struct eplb_even *even = search->even;
    int64_t grows = even->fewer[old] - even->shares[old];
    int64_t shrinks = even->shares[expert] - even->more[expert];
    EPLB_ASSERT(grows >= 0 && shrinks >= 0); /* old has another replica, expert may get one */
    int64_t relief = over(search, even->sums[rank]) -
                     over(search, even->sums[rank] - even->shares[old] + even->more[expert]);
    for (int32_t node = even->first[expert]; node >= 0; node = even->next[node]) {
        int64_t sum = even->sums[even->rank_of[node]];
        relief += over(search, sum) - over(search, sum - shrinks);
    }
    for (int32_t node = even->first[old]; node >= 0; node = even->next[node]) {
        int64_t sum = even->sums[even->rank_of[node]];
        if (even->rank_of[node] == rank)
            continue;
        if (sum + grows > even->sums[search->fullest] - search->needed &&
            eplb_even_holds(even, expert, even->rank_of[node]))
            sum -= shrinks;
        relief += over(search, sum) - over(search, sum + grows);
    }
    return relief;
}

/** Takes an exchange for the best step if it is worth most, legal and affordable. */
static void try_exchange(struct search *search, int64_t gain, int32_t rank, int32_t old, int32_t expert)
{
    const struct eplb_even *even = search->even;
    if (eplb_even_holds(even, expert, rank))
        return;
    struct step step = {.kind = STEP_EXCHANGE, .rank = rank, .expert = expert, .worth = gain, .waste = -gain};
    if (search->counted)
        step.worth = relief_of(search, rank, old, expert);
    if (step.worth <= search->best.worth / 2)
        return;
    while (eplb_even_row(even, rank)[step.i] != old)
        step.i++;
    int32_t cost = cost_of(search, rank, step.i, expert);
    if (search->counted && cost <= 0)
        step.worth *= 2;
    if (cost <= search->max_cost && better(&step, &search->best))
        search->best = step;
}

/** The two largest sums among an expert's ranks but the fullest. */
struct holders {
    int64_t first;
    int64_t second; /* INT64_MIN when there is none */
    int32_t first_rank;
    bool fullest; /* whether the fullest rank holds it too */
};

static struct holders holders_of(const struct search *search, int32_t expert)
{
    const struct eplb_even *even = search->even;
    struct holders holders = {.first = INT64_MIN, .second = INT64_MIN, .first_rank = -1};
    for (int32_t node = even->first[expert]; node >= 0; node = even->next[node]) {
        int32_t rank = even->rank_of[node];
        int64_t sum = even->sums[rank];
        if (rank == search->fullest) {
            holders.fullest = true;
        } else if (sum > holders.first) {
            holders.second = holders.first;
            holders.first = sum;
            holders.first_rank = rank;
        } else if (sum > holders.second) {
            holders.second = sum;
        }
    }
    EPLB_ASSERT(holders.second <= holders.first && holders.first_rank != search->fullest);
    return holders;
}

/** The fullest rank gives the slot of one of its split experts to an expert that it lacks. */
static void find_gift(struct search *search, int32_t old)
{
    const struct eplb_even *even = search->even;
    const struct holders holders = holders_of(search, old);
    EPLB_ASSERT(holders.fullest && holders.first_rank >= 0); /* it is split, so another rank has it */
    int64_t share = even->shares[old];
    int64_t room = even->sums[search->fullest] - holders.first - (even->fewer[old] - share);
    if (room <= 0 || (!search->counted && room < search->best.worth))
        return;
    for (int32_t expert = 0; expert < even->shape->num_experts; expert++) {
        int64_t gain = smaller(room, share - even->more[expert]);
        if (gain > 0 && (search->counted || gain >= search->best.worth))
            try_exchange(search, gain, search->fullest, old, expert);
    }
}

/** A replica of a split expert on another rank makes room for one of an expert of the fullest rank. */
static void find_relief(struct search *search, int32_t old)
{
    const struct eplb_even *even = search->even;
    const int32_t *row = eplb_even_row(even, search->fullest);
    const struct holders holders = holders_of(search, old);
    int64_t peak = even->sums[search->fullest];
    int64_t grows = even->fewer[old] - even->shares[old];
    EPLB_ASSERT(even->copies[old] > 1 && grows >= 0);
    int32_t count = even->shape->slots_per_rank < MAX_TRIED ? even->shape->slots_per_rank : MAX_TRIED;
    for (int32_t node = even->first[old]; node >= 0; node = even->next[node]) {
        int32_t rank = even->rank_of[node];
        int64_t other = rank == holders.first_rank ? holders.second : holders.first;
        int64_t room = other == INT64_MIN ? INT64_MAX : peak - other - grows;
        if (rank == search->fullest || room <= 0 || (!search->counted && room < search->best.worth))
            continue;
        for (int32_t k = 0; k < count; k++) {
            int32_t expert = row[k];
            /* A replica more on every rank has no share: no exchange, and no number to reckon with. */
            if (even->more[expert] == INT64_MAX)
                continue;
            int64_t relief = even->shares[expert] - even->more[expert] - (holders.fullest ? grows : 0);
            int64_t there = peak - even->sums[rank] + even->shares[old] - even->more[expert];
            int64_t gain = smaller(smaller(room, relief), there);
            if (gain > 0 && expert != old && (search->counted || gain >= search->best.worth))
                try_exchange(search, gain, rank, old, expert);
        }
    }
}

static void find_exchange(struct search *search)
{
    const struct eplb_even *even = search->even;
    const int32_t *row = eplb_even_row(even, search->fullest);
    int32_t tried = 0;
    for (int32_t i = 0; i < even->shape->slots_per_rank && tried < MAX_TRIED; i++) {
        if (even->copies[row[i]] == 1)
            continue;
        tried++;
        find_gift(search, row[i]);
    }
    for (int32_t expert = 0; expert < even->shape->num_experts; expert++)
        if (even->copies[expert] > 1)
            find_relief(search, expert);
}

static struct step find_step(const struct eplb_even *even, const struct eplb_search_limits *limits)
{
    int64_t peak = eplb_even_peak(even);
    struct search search = {.even = even,
                            .counted = even->home != NULL,
                            .evenly = limits->evenly,
                            .max_cost = limits->max_moves - even->moves,
                            .needed = peak - limits->target,
                            .fullest = even->order[even->shape->ep_size - 1]};
    EPLB_ASSERT(search.needed > 0);
    EPLB_ASSERT(!search.counted || search.max_cost >= 0);
    if (search.counted)
        find_exchange(&search);
    find_swap(&search);
    /* A swap that takes the rank a good part of the way to the mean is good enough. */
    if (!search.counted && search.best.worth <= (peak - even->mean) / 4)
        find_exchange(&search);
    return search.best;
}

void eplb_search_descend(struct eplb_even *even, const struct eplb_search_limits *limits)
{
    EPLB_ASSERT(limits->max_steps >= 0);
    EPLB_ASSERT(even->home == NULL || limits->max_moves > 0);
    for (int32_t taken = 0; taken < limits->max_steps && eplb_even_peak(even) > limits->target; taken++) {
        const int64_t peak = eplb_even_peak(even);
        const struct step step = find_step(even, limits);
        if (step.kind == STEP_NONE)
            return;
        EPLB_ASSERT(step.worth >= 0);
        if (step.kind == STEP_SWAP)
            eplb_even_swap(even, step.rank, step.i, step.partner, step.j);
        else
            eplb_even_replace(even, step.rank, step.i, step.expert);
        EPLB_ASSERT(eplb_even_peak(even) <= peak);
        EPLB_ASSERT(even->home == NULL || even->moves <= limits->max_moves);
    }
}
