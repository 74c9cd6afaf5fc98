/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/robust_sort.h"

#include <string.h>

static void merge(const double *load, const int32_t *from, int32_t middle, int32_t end, int32_t *to)
{
    int32_t left = 0;
    int32_t right = middle;
    for (int32_t i = 0; i < end; i++)
        if (right == end ||
            (left < middle && eplb_before(load[from[left]], from[left], load[from[right]], from[right])))
            to[i] = from[left++];
        else
            to[i] = from[right++];
}

void eplb_sort_hottest(const double *load, int32_t count, int32_t *order, int32_t *spare)
{
    for (int32_t i = 0; i < count; i++)
        order[i] = i;
    for (int32_t run = 1; run<count; run = run> count / 2 ? count : 2 * run) {
        for (int32_t first = 0; first < count; first += 2 * run) {
            int32_t left = count - first;
            int32_t middle = run < left ? run : left;
            merge(load, order + first, middle, left - middle < run ? left : middle + run, spare + first);
        }
        memcpy(order, spare, (size_t)count * sizeof *order);
    }
}
