/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a candidate moves, and after how many forwards that has paid.
 */
#include "eplb/policy.h"

#include <math.h>

#include "base/arena.h"
#include "base/assert.h"

/* Stands for what is not known in eplb_migration.break_even_forwards. */
static const double UNKNOWN = -1;

struct work {
    struct eplb_move *moves; /* [num_slots] */
    void *diff;
};

static void layout(struct work *work, struct eplb_arena *arena, const struct eplb_shape *shape)
{
    work->moves = eplb_arena_take(arena, (size_t)shape->num_slots, sizeof *work->moves);
    work->diff = eplb_arena_take(arena, 1, eplb_placement_diff_scratch(shape));
}

size_t eplb_migration_scratch(const struct eplb_shape *shape)
{
    struct work work;
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&work, &arena, shape);
    return arena.used;
}

int32_t eplb_most_received(const struct eplb_shape *shape, const struct eplb_move *moves, int32_t num_moves)
{
    int32_t most = 0;
    int32_t rank = -1;
    int32_t received = 0;
    for (int32_t i = 0; i < num_moves; i++) {
        /* Moves ascend by slot, so those of a rank are together. */
        if (moves[i].slot / shape->slots_per_rank != rank)
            received = 0;
        rank = moves[i].slot / shape->slots_per_rank;
        EPLB_ASSERT(i == 0 || moves[i].slot > moves[i - 1].slot);
        received += moves[i].kind == EPLB_MOVE_P2P;
        most = received > most ? received : most;
    }
    EPLB_ASSERT(most <= shape->slots_per_rank);
    return most;
}

static int64_t bytes_of(int32_t experts, int64_t expert_bytes)
{
    int64_t bytes;
    EPLB_ASSERT(experts >= 0 && expert_bytes >= 0);
    return __builtin_mul_overflow(experts, expert_bytes, &bytes) ? INT64_MAX : bytes;
}

/** Counts the moves; returns how many experts the rank receives that receives most. */
static int32_t count_moves(const struct eplb_shape *shape, const int32_t *active, const int32_t *candidate,
                           const struct work *work, struct eplb_migration *migration)
{
    migration->moved_slots = eplb_placement_diff(shape, active, candidate, work->diff, work->moves);
    EPLB_ASSERT(migration->moved_slots <= shape->num_slots);
    for (int32_t i = 0; i < migration->moved_slots; i++)
        migration->sent_slots += work->moves[i].kind == EPLB_MOVE_P2P;
    return eplb_most_received(shape, work->moves, migration->moved_slots);
}

static double break_even(const struct eplb_migration *migration, const struct eplb_benefit *benefit,
                         const struct eplb_migration_cost *cost)
{
    if (migration->sent_slots == 0)
        return 0;
    if (migration->seconds <= 0 || cost->seconds_per_token <= 0 || cost->num_forwards <= 0)
        return UNKNOWN;
    double saved = (benefit->current_peak - benefit->candidate_peak) / cost->num_forwards;
    return saved > 0 ? migration->seconds / (saved * cost->seconds_per_token) : (double)INFINITY;
}

struct eplb_migration eplb_migration_of(const struct eplb_shape *shape, const int32_t *active,
                                        const int32_t *candidate, const struct eplb_benefit *benefit,
                                        const struct eplb_migration_cost *cost, void *scratch)
{
    struct work work;
    struct eplb_arena arena;
    struct eplb_migration migration = {.pays = 1};
    eplb_arena_init(&arena, scratch, eplb_migration_scratch(shape));
    layout(&work, &arena, shape);
    EPLB_ASSERT(!arena.overflow);
    EPLB_ASSERT(cost->expert_bytes >= 0 && cost->max_break_even_forwards >= 0);
    int32_t most = count_moves(shape, active, candidate, &work, &migration);
    EPLB_ASSERT(most <= migration.sent_slots && migration.sent_slots <= migration.moved_slots);
    migration.bytes = bytes_of(migration.sent_slots, cost->expert_bytes);
    if (cost->bytes_per_second > 0)
        migration.seconds = (double)bytes_of(most, cost->expert_bytes) / cost->bytes_per_second;
    migration.break_even_forwards = break_even(&migration, benefit, cost);
    if (benefit->publish && cost->max_break_even_forwards > 0)
        migration.pays = migration.break_even_forwards <= cost->max_break_even_forwards;
    return migration;
}
