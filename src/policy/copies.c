/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/copies.h"

#include "base/assert.h"
#include "policy/copy_heap.h"

void eplb_choose_copies(const struct eplb_shape *shape, const int64_t *load, int32_t *replicas,
                        int32_t *scratch, int32_t *chosen)
{
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        replicas[expert] = 1;
    int32_t copies = shape->num_slots - shape->num_experts;
    EPLB_ASSERT(copies >= 0);
    struct eplb_copy_heap heap;
    eplb_copy_heap_init(&heap, shape, EPLB_COPY_LARGEST_DROP, load, replicas, scratch);
    for (int32_t copy = 0; copy < copies; copy++) {
        chosen[copy] = eplb_copy_heap_first(&heap);
        replicas[chosen[copy]]++;
        eplb_copy_heap_update(&heap);
    }
}
