/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/stay.h"

#include <string.h>

#include "base/assert.h"
#include "policy/sort_pairs.h"

/** An expert with more active replicas than this says little about where a row belongs. */
enum { MAX_HOLDERS = 64 };

void eplb_stay_layout(struct eplb_stay *stay, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t experts = (size_t)shape->num_experts;
    size_t ranks = (size_t)shape->ep_size;
    stay->shape = shape;
    stay->first = eplb_arena_take(arena, experts, sizeof *stay->first);
    stay->next = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *stay->next);
    stay->stamp = eplb_arena_take(arena, experts, sizeof *stay->stamp);
    stay->overlap = eplb_arena_take(arena, ranks, sizeof *stay->overlap);
    stay->taken = eplb_arena_take(arena, ranks, sizeof *stay->taken);
    stay->to = eplb_arena_take(arena, ranks, sizeof *stay->to);
    stay->rows = eplb_arena_take(arena, ranks, sizeof *stay->rows);
    stay->keys = eplb_arena_take(arena, ranks, sizeof *stay->keys);
}

static void list_active(struct eplb_stay *stay, const int32_t *active)
{
    memset(stay->first, 0xff, (size_t)stay->shape->num_experts * sizeof *stay->first);
    for (int32_t slot = stay->shape->num_slots - 1; slot >= 0; slot--) {
        stay->next[slot] = stay->first[active[slot]];
        stay->first[active[slot]] = slot;
    }
}

/**
 * The free active rank that a row has most in common with, ties to the lowest; -1 where it has nothing in
 * common with any. `overlap` is all zero before and after.
 */
static int32_t best_rank(struct eplb_stay *stay, const int32_t *row, int32_t *largest)
{
    int32_t slots_per_rank = stay->shape->slots_per_rank;
    int32_t best = -1;
    *largest = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < slots_per_rank; i++) {
            int32_t left = MAX_HOLDERS;
            for (int32_t slot = stay->first[row[i]]; slot >= 0 && left > 0; slot = stay->next[slot], left--) {
                int32_t rank = slot / slots_per_rank;
                if (pass == 1)
                    stay->overlap[rank] = 0;
                else if (!stay->taken[rank])
                    stay->overlap[rank]++;
                if (stay->overlap[rank] > *largest || (stay->overlap[rank] == *largest && rank < best)) {
                    *largest = stay->overlap[rank];
                    best = rank;
                }
            }
        }
    }
    EPLB_ASSERT((best >= 0) == (*largest > 0) && *largest <= slots_per_rank);
    EPLB_ASSERT(best < 0 || !stay->taken[best]);
    return best;
}

void eplb_stay_match(struct eplb_stay *stay, const int32_t *active, const int32_t *rows, int32_t *matched)
{
    const struct eplb_shape *shape = stay->shape;
    size_t slots_per_rank = (size_t)shape->slots_per_rank;
    int32_t overlap;
    EPLB_ASSERT(matched != rows && matched != active);
    list_active(stay, active);
    memset(stay->overlap, 0, (size_t)shape->ep_size * sizeof *stay->overlap);
    memset(stay->taken, 0, (size_t)shape->ep_size * sizeof *stay->taken);
    for (int32_t row = 0; row < shape->ep_size; row++) {
        best_rank(stay, rows + (size_t)row * slots_per_rank, &overlap);
        stay->rows[row] = row;
        stay->keys[row] = overlap;
    }
    eplb_sort_pairs(stay->keys, stay->rows, shape->ep_size);
    for (int32_t i = 0; i < shape->ep_size; i++) {
        int32_t row = stay->rows[i];
        stay->to[row] = best_rank(stay, rows + (size_t)row * slots_per_rank, &overlap);
        if (stay->to[row] >= 0)
            stay->taken[stay->to[row]] = 1;
    }
    int32_t free_rank = 0;
    for (int32_t row = 0; row < shape->ep_size; row++) {
        while (stay->to[row] < 0 && stay->taken[free_rank])
            free_rank++;
        int32_t rank = stay->to[row] >= 0 ? stay->to[row] : free_rank++;
        EPLB_ASSERT(rank >= 0 && rank < shape->ep_size);
        memcpy(matched + (size_t)rank * slots_per_rank, rows + (size_t)row * slots_per_rank,
               slots_per_rank * sizeof *matched);
    }
}

int32_t eplb_stay_keep(struct eplb_stay *stay, const int32_t *active, const int32_t *rows,
                       int32_t *expert_ids)
{
    const struct eplb_shape *shape = stay->shape;
    int32_t moved = 0;
    EPLB_ASSERT(expert_ids != rows && expert_ids != active);
    memset(stay->stamp, 0, (size_t)shape->num_experts * sizeof *stay->stamp);
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        size_t begin = (size_t)rank * (size_t)shape->slots_per_rank;
        size_t end = begin + (size_t)shape->slots_per_rank;
        for (size_t slot = begin; slot < end; slot++)
            stay->stamp[rows[slot]] = rank + 1;
        for (size_t slot = begin; slot < end; slot++) {
            int32_t expert = active[slot];
            expert_ids[slot] = stay->stamp[expert] == rank + 1 ? expert : -1;
            if (expert_ids[slot] >= 0)
                stay->stamp[expert] = 0;
        }
        size_t free_slot = begin;
        for (size_t slot = begin; slot < end; slot++) {
            if (stay->stamp[rows[slot]] != rank + 1)
                continue;
            while (expert_ids[free_slot] >= 0)
                free_slot++;
            EPLB_ASSERT(free_slot < end);
            expert_ids[free_slot++] = rows[slot];
            moved++;
        }
    }
    return moved;
}
