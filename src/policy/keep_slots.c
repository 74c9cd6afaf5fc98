/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/keep_slots.h"

#include "base/assert.h"

static int32_t find(const int32_t *row, int32_t count, int32_t expert)
{
    for (int32_t slot = 0; slot < count; slot++)
        if (row[slot] == expert)
            return slot;
    return -1;
}

void eplb_keep_slots(const int32_t *active, const int32_t *packed, int32_t slots_per_rank, int32_t *row)
{
    for (int32_t slot = 0; slot < slots_per_rank; slot++)
        row[slot] = find(packed, slots_per_rank, active[slot]) >= 0 ? active[slot] : -1;
    int32_t next_free = 0;
    for (int32_t i = 0; i < slots_per_rank; i++) {
        if (find(active, slots_per_rank, packed[i]) >= 0)
            continue;
        while (row[next_free] >= 0)
            next_free++;
        EPLB_ASSERT(next_free < slots_per_rank);
        row[next_free] = packed[i];
    }
}
