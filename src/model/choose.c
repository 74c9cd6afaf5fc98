/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/choose.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* ----------------------------------------------------------------------------------------- memory */

void eplb_chooser_take(struct eplb_arena *arena, const struct eplb_choose_params *params,
                       struct eplb_chooser *chooser)
{
    size_t ranks = (size_t)params->shape.ep_size;
    size_t experts = (size_t)params->shape.num_experts;
    size_t slots = (size_t)params->shape.num_slots;
    struct eplb_chooser parts = {0};
    parts.slots =
        eplb_arena_take(arena, (size_t)params->max_rows, (size_t)params->top_k * sizeof *parts.slots);
    parts.sent = eplb_arena_take(arena, slots, sizeof *parts.sent);
    parts.arrives = eplb_arena_take(arena, slots, sizeof *parts.arrives);
    parts.wanted = eplb_arena_take(arena, experts, sizeof *parts.wanted);
    parts.seen = eplb_arena_take(arena, experts, sizeof *parts.seen);
    parts.last_row = eplb_arena_take(arena, experts, sizeof *parts.last_row);
    if (params->routing == EPLB_ROUTING_BATCH) {
        parts.counts = eplb_arena_take(arena, ranks * experts, sizeof *parts.counts);
        parts.tokens = eplb_arena_take(arena, slots, sizeof *parts.tokens);
        parts.sends = eplb_arena_take(arena, slots, sizeof *parts.sends);
        parts.receives = eplb_arena_take(arena, slots, sizeof *parts.receives);
    }
    *chooser = parts;
}

void eplb_chooser_init(struct eplb_chooser *chooser, const struct eplb_choose_params *params)
{
    EPLB_ASSERT(params->cost_per_active_slot >= 0 && params->cost_per_token >= 1);
    chooser->params = *params;
}

/* ------------------------------------------------------------------------------------------ tables */

static void begin(struct eplb_chooser *chooser)
{
    memset(chooser->sent, 0, (size_t)chooser->params.shape.num_slots * sizeof *chooser->sent);
    memset(chooser->seen, 0, (size_t)chooser->params.shape.num_experts * sizeof *chooser->seen);
}

static void give(struct eplb_chooser *chooser, size_t copy, int32_t slot, uint8_t counted)
{
    EPLB_ASSERT(slot >= 0 && slot < chooser->params.shape.num_slots);
    chooser->slots[copy] = slot;
    chooser->sent[slot].rows++;
    chooser->sent[slot].counted += counted;
}

enum eplb_status eplb_choose_count(struct eplb_chooser *chooser, const struct eplb_choose_call *call,
                                   struct eplb_error *error)
{
    int32_t experts = chooser->params.shape.num_experts;
    const int32_t *expert = call->experts;
    EPLB_ASSERT(call->num_rows >= 0 && call->num_rows <= chooser->params.max_rows);
    for (int32_t i = 0; i < experts; i++) {
        chooser->wanted[i] = (struct eplb_row_count){0};
        chooser->last_row[i] = -1;
    }
    for (int32_t row = 0; row < call->num_rows; row++) {
        for (int32_t k = 0; k < chooser->params.top_k; k++, expert++) {
            EPLB_ASSERT(*expert >= 0 && *expert < experts);
            if (chooser->last_row[*expert] == row)
                EPLB_FAIL(EPLB_INVALID, "layer %d, row %d: expert %d was chosen twice", call->layer, row,
                          *expert);
            chooser->last_row[*expert] = row;
            chooser->wanted[*expert].rows++;
            chooser->wanted[*expert].counted += call->counted[row];
        }
    }
    return EPLB_OK;
}

void eplb_choose_by_table(struct eplb_chooser *chooser, const struct eplb_choose_call *call)
{
    size_t top_k = (size_t)chooser->params.top_k;
    struct eplb_route_turn turn;
    begin(chooser);
    eplb_route_turn_init(&turn, chooser->params.shape.ep_size, chooser->params.ep_rank, call->seq);
    for (size_t row = 0; row < (size_t)call->num_rows; row++)
        for (size_t copy = row * top_k; copy < (row + 1) * top_k; copy++) {
            int32_t expert = call->experts[copy];
            uint32_t number = (uint32_t)chooser->seen[expert].rows++;
            give(chooser, copy, eplb_route_slot(&call->replicas->table, &turn, expert, number),
                 call->counted[row]);
        }
}

/* ------------------------------------------------------------------------------------------- batch */

/** The split, as every rank finds it. */
static void split(struct eplb_chooser *chooser, const struct eplb_choose_call *call,
                  const struct eplb_row_count *const *wanted)
{
    const struct eplb_shape *shape = &chooser->params.shape;
    int32_t *count = chooser->counts;
    for (int32_t source = 0; source < shape->ep_size; source++)
        for (int32_t expert = 0; expert < shape->num_experts; expert++)
            *count++ = wanted[source][expert].rows;
    struct eplb_batch_problem problem;
    struct eplb_batch_result result;
    eplb_batch_problem_init(&problem);
    problem.counts = chooser->counts;
    problem.table = call->replicas->fixed;
    problem.rotation = call->seq + (uint64_t)call->layer;
    problem.cost_per_active_slot = chooser->params.cost_per_active_slot;
    problem.cost_per_token = chooser->params.cost_per_token;
    eplb_batch_split(call->replicas->graph, &problem, chooser->tokens, &result);
}

static void send(struct eplb_chooser *chooser, const struct eplb_choose_call *call)
{
    size_t top_k = (size_t)chooser->params.top_k;
    const struct eplb_split_graph *graph = call->replicas->graph;
    eplb_batch_sends(graph, chooser->counts, chooser->tokens, chooser->params.ep_rank, chooser->sends);
    for (size_t row = 0; row < (size_t)call->num_rows; row++)
        for (size_t copy = row * top_k; copy < (row + 1) * top_k; copy++) {
            int32_t expert = call->experts[copy];
            struct eplb_row_count *seen = &chooser->seen[expert];
            int32_t number =
                call->counted[row] ? seen->counted : chooser->wanted[expert].counted + seen->rows;
            seen->counted += call->counted[row];
            seen->rows += !call->counted[row];
            give(chooser, copy, eplb_batch_slot(graph, chooser->sends, expert, number), call->counted[row]);
        }
    for (int32_t slot = 0; slot < chooser->params.shape.num_slots; slot++)
        EPLB_ASSERT(chooser->sent[slot].rows == chooser->sends[slot]);
}

/** Whether some expert's rows of a source are load in part. */
static bool is_mixed(const struct eplb_chooser *chooser, const struct eplb_row_count *wanted)
{
    for (int32_t expert = 0; expert < chooser->params.shape.num_experts; expert++)
        if (wanted[expert].counted != 0 && wanted[expert].counted != wanted[expert].rows)
            return true;
    return false;
}

/** How many of a source's rows count in each slot of this rank, when an expert's rows count all or not at
 * all. */
static void count_whole(const struct eplb_chooser *chooser, const struct eplb_choose_call *call,
                        const struct eplb_row_count *wanted, struct eplb_row_count *arrives)
{
    int32_t slots = chooser->params.shape.slots_per_rank;
    const int32_t *expert_ids = call->replicas->expert_ids + chooser->params.ep_rank * slots;
    for (int32_t slot = 0; slot < slots; slot++)
        arrives[slot].counted = wanted[expert_ids[slot]].counted > 0 ? arrives[slot].rows : 0;
}

/** The same for any rows: the slots of an expert take its rows in order, those that count first. */
static void count_mixed(struct eplb_chooser *chooser, const struct eplb_choose_call *call,
                        const struct eplb_row_count *wanted, int32_t source, struct eplb_row_count *arrives)
{
    const struct eplb_shape *shape = &chooser->params.shape;
    int32_t first = chooser->params.ep_rank * shape->slots_per_rank;
    int32_t *before = chooser->last_row; /* rows that the expert's slots so far take */
    memset(before, 0, (size_t)shape->num_experts * sizeof *before);
    eplb_batch_sends(call->replicas->graph, chooser->counts, chooser->tokens, source, chooser->sends);
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t expert = call->replicas->expert_ids[slot];
        int32_t rows = chooser->sends[slot];
        int32_t left = wanted[expert].counted - before[expert];
        before[expert] += rows;
        if (slot < first || slot >= first + shape->slots_per_rank)
            continue;
        EPLB_ASSERT(arrives[slot - first].rows == rows);
        arrives[slot - first].counted = left < 0 ? 0 : left < rows ? left : rows;
    }
}

void eplb_choose_by_batch(struct eplb_chooser *chooser, const struct eplb_choose_call *call,
                          const struct eplb_row_count *const *wanted)
{
    const struct eplb_shape *shape = &chooser->params.shape;
    begin(chooser);
    split(chooser, call, wanted);
    send(chooser, call);
    eplb_batch_receives(call->replicas->graph, chooser->counts, chooser->tokens, chooser->params.ep_rank,
                        chooser->receives);
    for (int32_t slot = 0; slot < shape->num_slots; slot++)
        chooser->arrives[slot].rows = chooser->receives[slot];
    for (int32_t source = 0; source < shape->ep_size; source++) {
        struct eplb_row_count *arrives = chooser->arrives + (size_t)source * (size_t)shape->slots_per_rank;
        if (is_mixed(chooser, wanted[source]))
            count_mixed(chooser, call, wanted[source], source, arrives);
        else
            count_whole(chooser, call, wanted[source], arrives);
    }
}
