/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/sort_pairs.h"

#include "base/assert.h"

enum { SHORT = 48 }; /* up to here insertion is faster */

static void sort_short(int64_t *keys, int32_t *ids, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        int64_t key = keys[i];
        int32_t id = ids[i];
        int32_t at = i;
        for (; at > 0 && keys[at - 1] < key; at--) {
            keys[at] = keys[at - 1];
            ids[at] = ids[at - 1];
        }
        keys[at] = key;
        ids[at] = id;
    }
    EPLB_ASSERT(count == 0 || keys[0] >= keys[count - 1]);
}

/** Lets a pair sink into the hole of a heap whose root is the smallest. */
static void sink(int64_t *keys, int32_t *ids, int32_t count, int32_t hole, int64_t key, int32_t id)
{
    for (int32_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {
        child += child + 1 < count && keys[child + 1] < keys[child];
        if (key <= keys[child])
            break;
        keys[hole] = keys[child];
        ids[hole] = ids[child];
        hole = child;
    }
    keys[hole] = key;
    ids[hole] = id;
}

void eplb_sort_pairs(int64_t *keys, int32_t *ids, int32_t count)
{
    EPLB_ASSERT(count >= 0);
    if (count <= SHORT) {
        sort_short(keys, ids, count);
        return;
    }
    for (int32_t parent = count / 2 - 1; parent >= 0; parent--)
        sink(keys, ids, count, parent, keys[parent], ids[parent]);
    for (int32_t last = count - 1; last > 0; last--) {
        int64_t key = keys[last];
        int32_t id = ids[last];
        keys[last] = keys[0];
        ids[last] = ids[0];
        sink(keys, ids, last, 0, key, id);
    }
    EPLB_ASSERT(keys[0] >= keys[count - 1]);
}
