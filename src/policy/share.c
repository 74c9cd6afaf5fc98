/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/share.h"

#include <string.h>

#include "base/assert.h"

static void merge(const struct eplb_share *left, size_t num_left, const struct eplb_share *right,
                  size_t num_right, struct eplb_share *out)
{
    size_t l = 0;
    size_t r = 0;
    while (l < num_left && r < num_right)
        *out++ = eplb_share_exceeds(&right[r], &left[l]) ? right[r++] : left[l++];
    memcpy(out, left + l, (num_left - l) * sizeof *out);
    memcpy(out + (num_left - l), right + r, (num_right - r) * sizeof *out);
}

/** Bottom-up merge sort: stable, no allocation, the same comparisons on every machine. */
void eplb_share_sort(struct eplb_share *shares, size_t count, struct eplb_share *scratch)
{
    EPLB_ASSERT(count == 0 || (shares != NULL && scratch != NULL && shares != scratch));
    struct eplb_share *from = shares;
    struct eplb_share *to = scratch;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            size_t middle = begin + width < count ? begin + width : count;
            size_t end = middle + width < count ? middle + width : count;
            merge(from + begin, middle - begin, from + middle, end - middle, to + begin);
        }
        struct eplb_share *swap = from;
        from = to;
        to = swap;
    }
    if (from != shares)
        memcpy(shares, from, count * sizeof *shares);
}
