/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#include "sim/world.h"

static struct sim_watched_rank *watched(struct world *world, int32_t rank)
{
    return &world->checks.ranks[rank];
}

/** A rank takes a command; one that owes a report may not. */
void sim_check_attempt(struct world *world, int32_t rank, const struct eplb_command *command)
{
    struct sim_watched_rank *self = watched(world, rank);
    if (!self->resolved)
        sim_fail(&world->sim, "record", "rank %d begins forward %" PRIu64 " with activation %" PRIu64 " open",
                 rank, command->seq, self->token);
    if (command->prepare_layer_id != EPLB_NO_LAYER) {
        self->prepare_taken = command->prepare_token.value;
        self->prepare_hook_failed = false;
    }
    if (command->update_layer_id == EPLB_NO_LAYER)
        return;
    self->token = command->activation_token.value;
    self->prepare_token = command->update_prepare_token.value;
    self->layer = command->update_layer_id;
    self->resolved = self->voted = self->voted_yes = false;
    self->materialise_failed = self->operation_failed = self->switched = self->finishing = false;
}

void sim_check_staging_write(struct world *world, int32_t rank, int32_t local_slot, uint64_t token,
                             uint64_t sender_token)
{
    const struct sim_watched_rank *self = watched(world, rank);
    if (sender_token != token)
        sim_fail(&world->sim, "staging",
                 "rank %d, slot %d: a message of activation %" PRIu64 " is taken for one of %" PRIu64, rank,
                 local_slot, sender_token, token);
    if (!world->ranks[rank].dead && (self->token != token || self->resolved))
        sim_fail(&world->sim, "staging",
                 "rank %d, slot %d: a message of activation %" PRIu64 " is written %s activation %" PRIu64,
                 rank, local_slot, token, self->resolved ? "after the report of" : "during", self->token);
}

static uint64_t hash_of_moves(const struct eplb_layer_plan *plan)
{
    uint64_t hash = (uint64_t)plan->num_moves;
    for (int32_t i = 0; i < plan->num_moves; i++) {
        const struct eplb_move *move = &plan->moves[i];
        const int32_t parts[] = {move->slot, move->expert, move->source_slot, (int32_t)move->kind};
        for (int32_t part = 0; part < 4; part++)
            hash = (hash ^ (uint64_t)parts[part]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/** All ranks find the same plan, and it is for the table that was commanded. */
void sim_check_plan(struct world *world, int32_t rank, const struct eplb_layer_plan *plan)
{
    const struct eplb_shape *shape = &world->config.shape;
    struct sim_plan *known = NULL;
    for (int32_t i = 0; i < SIM_BOOK_PLANS; i++)
        if (world->checks.book.plans[i].token == plan->token.value)
            known = &world->checks.book.plans[i];
    if (known == NULL)
        return; /* so slow that it is of no interest any more */
    int32_t map[SIM_EXPERTS];
    eplb_log2phy(shape, known->table, rank, 0, map);
    uint64_t hash = hash_of_moves(plan);
    if (plan->layer != known->layer ||
        memcmp(plan->expert_ids, known->table, (size_t)shape->num_slots * sizeof *plan->expert_ids) != 0 ||
        memcmp(plan->log2phy, map, (size_t)shape->num_experts * sizeof *map) != 0)
        sim_fail(&world->sim, "staging", "rank %d: the plan of prepare %" PRIu64 " is not what was commanded",
                 rank, plan->token.value);
    if (known->built && known->moves_hash != hash)
        sim_fail(&world->sim, "staging",
                 "rank %d has other moves for prepare %" PRIu64 " than a rank before it", rank,
                 plan->token.value);
    known->built = true;
    known->moves_hash = hash;
}

void sim_check_materialise(struct world *world, int32_t rank, const struct eplb_layer_plan *plan,
                           uint64_t token, bool fails)
{
    struct sim_watched_rank *self = watched(world, rank);
    if (self->token != token || self->resolved || plan->token.value != self->prepare_token ||
        plan->layer != self->layer)
        sim_fail(&world->sim, "staging",
                 "rank %d fills staging for activation %" PRIu64 " with the plan of prepare %" PRIu64, rank,
                 token, plan->token.value);
    for (int32_t i = 0; i < SIM_OPS; i++) {
        const struct sim_op *op = &world->group.ops[i];
        if (op->used && op->rank == rank && op->attempt != token)
            sim_fail(&world->sim, "staging",
                     "rank %d fills staging for activation %" PRIu64 " while an operation of %" PRIu64
                     " is outstanding",
                     rank, token, op->attempt);
    }
    if (plan->weights_epoch != world->ranks[rank].model.epoch)
        sim_fail(&world->sim, "staging",
                 "rank %d fills staging for activation %" PRIu64 " with a plan made before a tensor changed",
                 rank, token);
    self->materialise_failed = fails;
}

/** Every changed slot of the rank has its new content in staging. */
static void check_complete(struct world *world, int32_t rank)
{
    const struct sim_config *config = &world->config;
    const struct sim_watched_rank *self = watched(world, rank);
    const struct sim_model *model = &world->ranks[rank].model;
    const struct sim_plan *plan = sim_book_plan(world, self->prepare_token);
    for (int32_t slot = 0; slot < config->shape.slots_per_rank; slot++) {
        int32_t global = rank * config->shape.slots_per_rank + slot;
        int32_t expert = plan->table[global];
        for (int32_t word = 0; expert != model->tables[plan->layer][global] && word < config->words; word++)
            if (model->staging[slot][word] != sim_model_word(plan->layer, expert, word))
                sim_fail(&world->sim, "staging",
                         "rank %d votes yes on activation %" PRIu64 " and slot %d has no expert %d (word %d)",
                         rank, self->token, slot, expert, word);
    }
}

void sim_check_vote(struct world *world, int32_t rank, uint64_t token, bool yes)
{
    struct sim_watched_rank *self = watched(world, rank);
    if (self->token != token || self->resolved || self->voted)
        sim_fail(&world->sim, "record", "rank %d votes on activation %" PRIu64 " %s", rank, token,
                 self->voted ? "twice" : "out of turn");
    self->voted = true;
    self->voted_yes = yes;
    if (!yes)
        return;
    if (self->materialise_failed || sim_group_outstanding(&world->group, rank, token) > 0)
        sim_fail(&world->sim, "staging", "rank %d votes yes on activation %" PRIu64 " before all is done",
                 rank, token);
    check_complete(world, rank);
}

void sim_check_update(struct world *world, int32_t rank, uint64_t token, int32_t layer, bool commit)
{
    struct sim_watched_rank *self = watched(world, rank);
    enum eplb_decision decision = sim_record_read(&world->group, (struct eplb_activation_token){token});
    if (self->token != token || self->resolved || self->layer != layer)
        sim_fail(&world->sim, "record", "rank %d updates layer %d for activation %" PRIu64 " out of turn",
                 rank, layer, token);
    if (decision == EPLB_UNDECIDED || commit != (decision == EPLB_COMMIT))
        sim_fail(&world->sim, "record", "rank %d %s activation %" PRIu64 " and the record says %s", rank,
                 commit ? "commits" : "keeps", token,
                 decision == EPLB_COMMIT  ? "commit"
                 : decision == EPLB_ABORT ? "abort"
                                          : "undecided");
    if (world->ranks[rank].state != SIM_RANK_FINISHING)
        sim_fail(&world->sim, "forward", "rank %d updates layer %d inside a forward", rank, layer);
    self->switched = commit;
}
