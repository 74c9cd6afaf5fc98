/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/copy_heap.h"

#include <stdbool.h>

#include "base/assert.h"
#include "base/wide.h"

static uint64_t divisor(enum eplb_copy_rule rule, int32_t replicas)
{
    uint64_t c = (uint64_t)replicas;
    return rule == EPLB_COPY_LARGEST_DROP ? c * (c + 1) : 1;
}

/** Replicas stay below 2^17, so a product is below 2^62 * 2^34 and exact in 128 bits. */
static bool comes_before(const struct eplb_copy_heap *heap, int32_t a, int32_t b)
{
    eplb_u128 worth_a = (eplb_u128)(uint64_t)heap->load[a] * divisor(heap->rule, heap->replicas[b]);
    eplb_u128 worth_b = (eplb_u128)(uint64_t)heap->load[b] * divisor(heap->rule, heap->replicas[a]);
    return worth_a != worth_b ? worth_a > worth_b : a < b;
}

static void sink(struct eplb_copy_heap *heap, int32_t hole)
{
    int32_t expert = heap->experts[hole];
    for (int32_t child = 2 * hole + 1; child < heap->count; child = 2 * hole + 1) {
        if (child + 1 < heap->count && comes_before(heap, heap->experts[child + 1], heap->experts[child]))
            child++;
        if (comes_before(heap, expert, heap->experts[child]))
            break;
        heap->experts[hole] = heap->experts[child];
        hole = child;
    }
    heap->experts[hole] = expert;
}

void eplb_copy_heap_init(struct eplb_copy_heap *heap, const struct eplb_shape *shape,
                         enum eplb_copy_rule rule, const int64_t *load, const int32_t *replicas,
                         int32_t *experts)
{
    *heap = (struct eplb_copy_heap){.rule = rule,
                                    .ep_size = shape->ep_size,
                                    .load = load,
                                    .replicas = replicas,
                                    .experts = experts,
                                    .count = shape->num_experts};
    for (int32_t expert = 0; expert < heap->count; expert++) {
        EPLB_ASSERT(load[expert] >= 0 && replicas[expert] >= 1);
        experts[expert] = expert;
    }
    for (int32_t parent = heap->count / 2 - 1; parent >= 0; parent--)
        sink(heap, parent);
}

int32_t eplb_copy_heap_first(const struct eplb_copy_heap *heap)
{
    /* slots_per_rank <= num_experts, so the slots never outnumber ep_size replicas of each. */
    EPLB_ASSERT(heap->count > 0);
    EPLB_ASSERT(heap->replicas[heap->experts[0]] < heap->ep_size);
    return heap->experts[0];
}

void eplb_copy_heap_update(struct eplb_copy_heap *heap)
{
    EPLB_ASSERT(heap->count > 0);
    EPLB_ASSERT(heap->replicas[heap->experts[0]] <= heap->ep_size);
    if (heap->replicas[heap->experts[0]] == heap->ep_size)
        heap->experts[0] = heap->experts[--heap->count];
    if (heap->count > 0)
        sink(heap, 0);
}
