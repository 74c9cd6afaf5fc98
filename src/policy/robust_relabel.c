/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A fresh plan says which experts share a rank, not which rank that is: the ranks are named so that
 * most slots stay as they are.
 */
#include "policy/robust.h"

#include <string.h>

#include "base/assert.h"

void eplb_relabel_layout(struct eplb_relabel *relabel, struct eplb_arena *arena,
                         const struct eplb_shape *shape)
{
    size_t ranks = (size_t)shape->ep_size;
    relabel->common = eplb_arena_take(arena, ranks * ranks, sizeof *relabel->common);
    relabel->name = eplb_arena_take(arena, ranks, sizeof *relabel->name);
    relabel->taken = eplb_arena_take(arena, ranks, sizeof *relabel->taken);
}

static void count_common(struct eplb_relabel *relabel, const struct eplb_table *table,
                         const struct eplb_table *active)
{
    size_t ranks = (size_t)table->num_ranks;
    memset(relabel->common, 0, ranks * ranks * sizeof *relabel->common);
    for (int32_t expert = 0; expert < table->num_experts; expert++)
        for (int32_t slot = table->first[expert]; slot >= 0; slot = table->next[slot])
            for (int32_t other = active->first[expert]; other >= 0; other = active->next[other])
                relabel->common[(size_t)(slot / table->slots_per_rank) * ranks +
                                (size_t)(other / table->slots_per_rank)]++;
}

/** Names every rank that has no name yet by a free one with which it has at least `least` experts in common.
 */
static void name_ranks(struct eplb_relabel *relabel, int32_t ranks, int32_t least)
{
    for (int32_t rank = 0; rank < ranks; rank++)
        for (int32_t name = 0; name < ranks && relabel->name[rank] < 0; name++)
            if (!relabel->taken[name] &&
                relabel->common[(size_t)rank * (size_t)ranks + (size_t)name] >= least) {
                relabel->name[rank] = name;
                relabel->taken[name] = true;
            }
}

void eplb_relabel_ranks(struct eplb_relabel *relabel, const struct eplb_table *table,
                        const struct eplb_table *active, int32_t *expert_ids)
{
    int32_t ranks = table->num_ranks;
    EPLB_ASSERT(active->num_ranks == ranks && active->slots_per_rank == table->slots_per_rank);
    count_common(relabel, table, active);
    memset(relabel->name, -1, (size_t)ranks * sizeof *relabel->name);
    memset(relabel->taken, 0, (size_t)ranks * sizeof *relabel->taken);
    for (int32_t least = table->slots_per_rank; least >= 0; least--)
        name_ranks(relabel, ranks, least);
    for (int32_t rank = 0; rank < ranks; rank++) {
        EPLB_ASSERT(relabel->name[rank] >= 0);
        memcpy(expert_ids + (size_t)relabel->name[rank] * (size_t)table->slots_per_rank,
               table->expert_ids + (size_t)rank * (size_t)table->slots_per_rank,
               (size_t)table->slots_per_rank * sizeof *expert_ids);
    }
}
