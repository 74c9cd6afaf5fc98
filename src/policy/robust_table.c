/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/robust.h"

#include <string.h>

#include "base/assert.h"

void eplb_table_layout(struct eplb_table *table, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    size_t num_experts = (size_t)shape->num_experts;
    size_t num_slots = (size_t)shape->num_slots;
    EPLB_ASSERT(shape->slots_per_rank >= 1 && shape->slots_per_rank <= shape->num_experts);
    table->num_experts = shape->num_experts;
    table->num_ranks = shape->ep_size;
    table->slots_per_rank = shape->slots_per_rank;
    table->words = (shape->ep_size + 63) / 64;
    table->expert_ids = eplb_arena_take(arena, num_slots, sizeof *table->expert_ids);
    table->next = eplb_arena_take(arena, num_slots, sizeof *table->next);
    table->first = eplb_arena_take(arena, num_experts, sizeof *table->first);
    table->copies = eplb_arena_take(arena, num_experts, sizeof *table->copies);
    table->holders = eplb_arena_take(arena, num_experts * (size_t)table->words, sizeof *table->holders);
}

static size_t num_slots(const struct eplb_table *table)
{
    return (size_t)table->num_ranks * (size_t)table->slots_per_rank;
}

void eplb_table_clear(struct eplb_table *table)
{
    size_t num_experts = (size_t)table->num_experts;
    memset(table->expert_ids, -1, num_slots(table) * sizeof *table->expert_ids);
    memset(table->first, -1, num_experts * sizeof *table->first);
    memset(table->copies, 0, num_experts * sizeof *table->copies);
    memset(table->holders, 0, num_experts * (size_t)table->words * sizeof *table->holders);
}

void eplb_table_set(struct eplb_table *table, const int32_t *expert_ids)
{
    eplb_table_clear(table);
    for (int32_t slot = 0; slot < table->num_ranks * table->slots_per_rank; slot++)
        eplb_table_fill(table, slot, expert_ids[slot]);
}

void eplb_table_copy(struct eplb_table *table, const struct eplb_table *from)
{
    EPLB_ASSERT(table->num_experts == from->num_experts && table->num_ranks == from->num_ranks);
    EPLB_ASSERT(table->slots_per_rank == from->slots_per_rank);
    size_t num_experts = (size_t)table->num_experts;
    memcpy(table->expert_ids, from->expert_ids, num_slots(table) * sizeof *table->expert_ids);
    memcpy(table->next, from->next, num_slots(table) * sizeof *table->next);
    memcpy(table->first, from->first, num_experts * sizeof *table->first);
    memcpy(table->copies, from->copies, num_experts * sizeof *table->copies);
    memcpy(table->holders, from->holders, num_experts * (size_t)table->words * sizeof *table->holders);
}

static uint64_t *word_of(const struct eplb_table *table, int32_t slot, int32_t expert)
{
    int32_t rank = slot / table->slots_per_rank;
    return &table->holders[(size_t)expert * (size_t)table->words + (size_t)rank / 64];
}

void eplb_table_fill(struct eplb_table *table, int32_t slot, int32_t expert)
{
    int32_t rank = slot / table->slots_per_rank;
    EPLB_ASSERT(expert >= 0 && expert < table->num_experts);
    EPLB_ASSERT(rank >= 0 && rank < table->num_ranks);
    EPLB_ASSERT(table->expert_ids[slot] == -1);
    EPLB_ASSERT(!eplb_table_holds(table, rank, expert));
    table->expert_ids[slot] = expert;
    table->next[slot] = table->first[expert];
    table->first[expert] = slot;
    table->copies[expert]++;
    *word_of(table, slot, expert) |= UINT64_C(1) << (rank % 64);
}

void eplb_table_empty(struct eplb_table *table, int32_t slot)
{
    int32_t expert = table->expert_ids[slot];
    EPLB_ASSERT(expert >= 0 && expert < table->num_experts);
    EPLB_ASSERT(table->copies[expert] >= 1 && table->first[expert] >= 0);
    int32_t *link = &table->first[expert];
    while (*link != slot) {
        link = &table->next[*link];
        EPLB_ASSERT(*link >= 0);
    }
    *link = table->next[slot];
    table->expert_ids[slot] = -1;
    table->copies[expert]--;
    *word_of(table, slot, expert) &= ~(UINT64_C(1) << (slot / table->slots_per_rank % 64));
}
