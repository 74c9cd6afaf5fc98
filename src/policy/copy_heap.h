/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Which expert a further copy is worth most for: a binary heap in the caller's memory.
 */
#ifndef POLICY_COPY_HEAP_H
#define POLICY_COPY_HEAP_H

#include "eplb/placement.h"

/** What a further copy of an expert with c replicas is worth. */
enum eplb_copy_rule {
    EPLB_COPY_LARGEST_DROP,  /* load / (c * (c + 1)): by how much its replica load falls */
    EPLB_COPY_LARGEST_WEIGHT /* load: a weight that the caller lowers with every copy */
};

/**
 * The experts that may get a further copy: with fewer than ep_size replicas. The first is worth most
 * by the rule, ties to the lowest id; worths are compared exactly, so the order is total.
 */
struct eplb_copy_heap {
    enum eplb_copy_rule rule;
    int32_t ep_size;
    const int64_t *load;     /* [E] up to 2^62 */
    const int32_t *replicas; /* [E] */
    int32_t *experts;        /* [E], the first `count` of them in the heap */
    int32_t count;
};

/**
 * Starts with all experts. load and replicas belong to the caller, who changes those of the first
 * expert only, by eplb_copy_heap_update; experts is overwritten. O(E).
 */
void eplb_copy_heap_init(struct eplb_copy_heap *heap, const struct eplb_shape *shape,
                         enum eplb_copy_rule rule, const int64_t *load, const int32_t *replicas,
                         int32_t *experts);

/** The expert that is worth most; the heap must not be empty. O(1). */
int32_t eplb_copy_heap_first(const struct eplb_copy_heap *heap);

/** Puts the first expert where it belongs after it got a copy, which lowered its worth. O(log E). */
void eplb_copy_heap_update(struct eplb_copy_heap *heap);

#endif
