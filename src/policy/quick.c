/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/quick.h"

#include <string.h>

#include "base/assert.h"

enum { ID_BITS = 16, DIGIT_BITS = 8, BINS = 1 << DIGIT_BITS };

_Static_assert(EPLB_MAX_EXPERTS <= 1 << ID_BITS, "an id fits the low bits of a key");
_Static_assert(EPLB_QUICK_LOAD < INT64_C(1) << (63 - EPLB_SHARE_BITS), "a sum of shares fits 63 bits");
_Static_assert(EPLB_QUICK_REPLICAS *EPLB_QUICK_REPLICAS <= 1 << EPLB_SHARE_BITS, "shares order quotients");

bool eplb_quick_fits(const int64_t *load, int32_t count)
{
    uint64_t bits = 0;
    uint64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        bits |= (uint64_t)load[i];
        sum += (uint64_t)load[i];
    }
    /* When no load is larger than the limit, 2^16 of them do not overflow the sum. */
    return bits <= EPLB_QUICK_LOAD && sum <= EPLB_QUICK_LOAD;
}

/** Merges two sorted runs that follow each other. */
static void merge(const struct eplb_weighed *left, const struct eplb_weighed *right,
                  const struct eplb_weighed *end, struct eplb_weighed *out)
{
    const struct eplb_weighed *const middle = right;
    while (left < middle && right < end) {
        const bool from_right = eplb_weighed_first(right, left);
        *out++ = *(from_right ? right : left);
        right += from_right;
        left += !from_right;
    }
    memcpy(out, left, (size_t)(middle - left) * sizeof *out);
    memcpy(out + (middle - left), right, (size_t)(end - right) * sizeof *out);
}

void eplb_weighed_sort(struct eplb_weighed *items, int32_t count, struct eplb_weighed *scratch)
{
    struct eplb_weighed *from = items;
    struct eplb_weighed *to = scratch;
    EPLB_ASSERT(count >= 0 && items != scratch);
    for (int32_t width = 1; width < count; width *= 2) {
        for (int32_t begin = 0; begin < count; begin += 2 * width) {
            const int32_t middle = begin + width < count ? begin + width : count;
            const int32_t end = middle + width < count ? middle + width : count;
            merge(from + begin, from + middle, from + end, to + begin);
        }
        struct eplb_weighed *const swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, (size_t)count * sizeof *items);
    EPLB_ASSERT(count < 2 || !eplb_weighed_first(&items[count - 1], &items[0]));
}

/** One pass of a radix sort, by the digit at `shift`; stable. */
static void deal(const uint64_t *from, uint64_t *to, int32_t count, int shift)
{
    uint32_t bins[BINS] = {0};
    for (int32_t i = 0; i < count; i++)
        bins[from[i] >> shift & (BINS - 1)]++;
    uint32_t begin = 0;
    for (int bin = 0; bin < BINS; bin++) {
        const uint32_t size = bins[bin];
        bins[bin] = begin;
        begin += size;
    }
    EPLB_ASSERT(begin == (uint32_t)count);
    for (int32_t i = 0; i < count; i++)
        to[bins[from[i] >> shift & (BINS - 1)]++] = from[i];
}

/** Keys start in id order and passes are stable, so that ties stay in id order. */
static void order_experts(struct eplb_quick *quick)
{
    const int32_t count = quick->shape->num_experts;
    int64_t largest = quick->load[0];
    int64_t smallest = quick->load[0];
    for (int32_t expert = 1; expert < count; expert++) {
        largest = quick->load[expert] > largest ? quick->load[expert] : largest;
        smallest = quick->load[expert] < smallest ? quick->load[expert] : smallest;
    }
    EPLB_ASSERT(smallest >= 0 && largest <= EPLB_QUICK_LOAD);
    quick->largest = largest;
    for (int32_t expert = 0; expert < count; expert++)
        quick->keys[expert] = (uint64_t)(largest - quick->load[expert]) << ID_BITS | (uint32_t)expert;

    for (int shift = 0; (uint64_t)(largest - smallest) >> shift > 0; shift += DIGIT_BITS) {
        deal(quick->keys, quick->spare, count, ID_BITS + shift);
        uint64_t *const swap = quick->keys;
        quick->keys = quick->spare;
        quick->spare = swap;
    }
    EPLB_ASSERT(eplb_quick_load(quick, 0) == (uint64_t)largest);
    EPLB_ASSERT(eplb_quick_load(quick, count - 1) == (uint64_t)smallest);
}

void eplb_quick_layout(struct eplb_quick *quick, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    const size_t num_experts = (size_t)shape->num_experts;
    EPLB_ASSERT(shape->num_slots >= shape->num_experts);
    *quick = (struct eplb_quick){.shape = shape};
    quick->keys = eplb_arena_take(arena, num_experts, sizeof *quick->keys);
    quick->spare = eplb_arena_take(arena, num_experts, sizeof *quick->spare);
    quick->replicas = eplb_arena_take(arena, num_experts, sizeof *quick->replicas);
    quick->weights = eplb_arena_take(arena, num_experts, sizeof *quick->weights);
    quick->chosen = eplb_arena_take(arena, (size_t)shape->num_slots - num_experts, sizeof *quick->chosen);
    quick->race = eplb_arena_take(arena, num_experts, sizeof *quick->race);
}

static uint64_t divisor(const struct eplb_quick *quick, int32_t expert)
{
    const uint64_t c = (uint64_t)quick->replicas[expert];
    return c * (c + 1);
}

/** Rounded-down worths that differ decide; equal ones may hide a difference of the fractions. */
static bool comes_before(const struct eplb_quick *quick, struct eplb_weighed a, struct eplb_weighed b)
{
    if (a.weight != b.weight)
        return a.weight > b.weight;
    if (quick->rule == EPLB_QUICK_LARGEST_DROP) {
        /* At most EPLB_QUICK_REPLICAS replicas: below 2^43 * 2^10 * (2^10 + 1). */
        const uint64_t worth_a = (uint64_t)quick->load[a.expert] * divisor(quick, b.expert);
        const uint64_t worth_b = (uint64_t)quick->load[b.expert] * divisor(quick, a.expert);
        if (worth_a != worth_b)
            return worth_a > worth_b;
    }
    return a.expert < b.expert;
}

static void sink(struct eplb_quick *quick)
{
    struct eplb_weighed *race = quick->race;
    const struct eplb_weighed moved = race[0];
    int32_t hole = 0;
    for (int32_t child = 1; child < quick->num_racers; child = 2 * hole + 1) {
        if (child + 1 < quick->num_racers && comes_before(quick, race[child + 1], race[child]))
            child++;
        if (comes_before(quick, moved, race[child]))
            break;
        race[hole] = race[child];
        hole = child;
    }
    race[hole] = moved;
}

static void enter(struct eplb_quick *quick, struct eplb_weighed racer)
{
    struct eplb_weighed *race = quick->race;
    EPLB_ASSERT(quick->num_racers < quick->num_split);
    int32_t hole = quick->num_racers++;
    for (; hole > 0 && comes_before(quick, racer, race[(hole - 1) / 2]); hole = (hole - 1) / 2)
        race[hole] = race[(hole - 1) / 2];
    race[hole] = racer;
}

/** Gives an expert a copy; what the next one is worth. */
static uint64_t copy(struct eplb_quick *quick, int32_t expert)
{
    EPLB_ASSERT(quick->replicas[expert] < quick->shape->ep_size);
    const uint64_t before = (uint64_t)quick->replicas[expert]++;
    if (quick->rule == EPLB_QUICK_LARGEST_DROP)
        return ((uint64_t)quick->load[expert] << EPLB_SHARE_BITS) / divisor(quick, expert);
    /* Rounded down at every copy, as the historical code does: not the same as load / replicas. */
    quick->weights[expert] = (int64_t)((uint64_t)quick->weights[expert] * before / (before + 1));
    return (uint64_t)quick->weights[expert];
}

/** What the first copy of the most loaded expert without copies is worth. */
static struct eplb_weighed next_whole(const struct eplb_quick *quick)
{
    const uint64_t load = eplb_quick_load(quick, quick->num_split);
    return (struct eplb_weighed){
        .weight = quick->rule == EPLB_QUICK_LARGEST_DROP ? load << (EPLB_SHARE_BITS - 1) : load,
        .expert = eplb_quick_expert(quick, quick->num_split)};
}

/** Returns the expert of the next copy. */
static int32_t hand_out(struct eplb_quick *quick)
{
    const struct eplb_shape *shape = quick->shape;
    struct eplb_weighed whole = {0};
    const bool has_whole = quick->num_split < shape->num_experts;
    if (has_whole)
        whole = next_whole(quick);
    /* slots_per_rank <= num_experts, so the slots never outnumber ep_size replicas of each. */
    EPLB_ASSERT(has_whole || quick->num_racers > 0);
    if (quick->num_racers > 0 && (!has_whole || comes_before(quick, quick->race[0], whole))) {
        const int32_t expert = quick->race[0].expert;
        quick->race[0].weight = copy(quick, expert);
        if (quick->replicas[expert] == shape->ep_size)
            quick->race[0] = quick->race[--quick->num_racers];
        if (quick->num_racers > 0)
            sink(quick);
        return expert;
    }
    quick->num_split++;
    quick->weights[whole.expert] = quick->load[whole.expert];
    whole.weight = copy(quick, whole.expert);
    if (quick->replicas[whole.expert] < shape->ep_size)
        enter(quick, whole);
    return whole.expert;
}

bool eplb_quick_copies(struct eplb_quick *quick, enum eplb_quick_rule rule, const int64_t *load)
{
    const struct eplb_shape *shape = quick->shape;
    quick->rule = rule;
    quick->load = load;
    quick->num_split = 0;
    quick->num_racers = 0;
    order_experts(quick);
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        quick->replicas[expert] = 1;
    for (int32_t i = 0; i < shape->num_slots - shape->num_experts; i++) {
        const int32_t expert = hand_out(quick);
        if (quick->replicas[expert] > EPLB_QUICK_REPLICAS)
            return false;
        quick->chosen[i] = expert;
    }
    EPLB_ASSERT(quick->num_split <= shape->num_slots - shape->num_experts);
    return true;
}

void eplb_quick_primaries(const struct eplb_quick *quick, const struct eplb_weighed *split, int shift,
                          struct eplb_weighed *primaries)
{
    const struct eplb_weighed *const end = split + quick->num_split;
    const struct eplb_weighed *const first = primaries;
    EPLB_ASSERT(shift >= 0 && shift <= EPLB_SHARE_BITS);
    for (int32_t place = quick->num_split; place < quick->shape->num_experts; place++) {
        const struct eplb_weighed whole = {.weight = eplb_quick_load(quick, place) << shift,
                                           .expert = eplb_quick_expert(quick, place)};
        while (split < end && eplb_weighed_first(split, &whole))
            *primaries++ = *split++;
        *primaries++ = whole;
    }
    while (split < end)
        *primaries++ = *split++;
    EPLB_ASSERT(primaries == first + quick->shape->num_experts);
}
