/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "workers.h"

#include <string.h>

void workers_init(struct workers *workers, uint64_t seed, const uint64_t *generations)
{
    memset(workers, 0, sizeof *workers);
    eplb_prng_seed(&workers->prng, seed);
    if (generations != NULL)
        memcpy(workers->generations, generations, sizeof workers->generations);
    for (int layer = 0; layer < WORKER_LAYERS; layer++)
        workers->hot[layer] = (int32_t)eplb_prng_below(&workers->prng, WORKER_RANKS * WORKER_SLOTS);
}

bool workers_chance(struct workers *workers, uint64_t percent)
{
    return eplb_prng_below(&workers->prng, 100) < percent;
}

void workers_batches(struct workers *workers, struct eplb_dp_batch batches[WORKER_RANKS])
{
    bool prefill = workers_chance(workers, 15);
    for (int rank = 0; rank < WORKER_RANKS; rank++) {
        batches[rank].decode_tokens = (int64_t)eplb_prng_below(&workers->prng, 60);
        batches[rank].prefill_tokens = prefill ? (int64_t)eplb_prng_below(&workers->prng, 500) : 0;
    }
}

static void prepare(struct workers *workers, const struct eplb_command *command)
{
    for (int rank = 0; rank < WORKER_RANKS; rank++) {
        bool fails = !workers->calm && workers_chance(workers, 4);
        struct eplb_worker_levels *levels = &workers->levels[rank];
        levels->prepare_token = command->prepare_token;
        levels->prepare_status = fails ? EPLB_PREPARE_FAILED : EPLB_PREPARE_OK;
        levels->prepare_reason = fails ? EPLB_REASON_HOOK_FAILED : EPLB_REASON_NONE;
    }
}

static void activate(struct workers *workers, const struct eplb_command *command)
{
    bool kept = !workers->calm && workers_chance(workers, 20);
    for (int rank = 0; rank < WORKER_RANKS; rank++) {
        struct eplb_worker_levels *levels = &workers->levels[rank];
        levels->activation_token = command->activation_token;
        levels->activation_outcome = kept ? EPLB_ACTIVATION_KEPT : EPLB_ACTIVATION_SWITCHED;
        levels->activation_reason = kept ? EPLB_REASON_DEADLINE : EPLB_REASON_NONE;
    }
    workers->generations[command->update_layer_id] += !kept;
    if (!kept)
        workers->versions[command->update_layer_id] = 0;
}

static void take_weights(struct workers *workers, const struct eplb_command *command)
{
    for (int32_t i = 0; i < command->num_weight_updates; i++) {
        const struct eplb_weight_update *update = &command->weight_updates[i];
        if (update->generation == workers->generations[update->layer] &&
            update->version > workers->versions[update->layer])
            workers->versions[update->layer] = update->version;
    }
}

static void count(struct workers *workers, struct worker_forward *forward, int rank)
{
    for (int layer = 0; layer < WORKER_LAYERS; layer++) {
        int64_t sum = 0;
        for (int slot = 0; slot < WORKER_SLOTS; slot++) {
            bool hot = workers->hot[layer] == rank * WORKER_SLOTS + slot;
            sum += hot ? 100 : (int64_t)eplb_prng_below(&workers->prng, 4);
            forward->prefix[rank][layer * WORKER_SLOTS + slot] = sum;
        }
    }
}

static void answer(struct workers *workers, struct worker_forward *forward, int rank)
{
    struct eplb_worker_output *output = &forward->outputs[rank];
    bool lost = workers->dead[rank] || (!workers->calm && workers_chance(workers, 3));
    if (workers_chance(workers, 70))
        workers->told[rank] = workers->levels[rank];
    count(workers, forward, rank);
    *output = (struct eplb_worker_output){.size = sizeof *output,
                                          .seq = forward->seq,
                                          .ep_rank = rank,
                                          .num_layers = WORKER_LAYERS,
                                          .slots_per_rank = WORKER_SLOTS,
                                          .prefix = lost ? NULL : forward->prefix[rank],
                                          .generations = forward->generations[rank],
                                          .weight_versions = forward->versions[rank],
                                          .levels = workers->told[rank]};
    if (workers->calm || !workers_chance(workers, 2))
        return;
    /* What a manager must bear: another's output, other sizes, sums that fall. */
    switch (eplb_prng_below(&workers->prng, 4)) {
    case 0:
        output->seq--;
        break;
    case 1:
        output->ep_rank++;
        break;
    case 2:
        output->slots_per_rank++;
        break;
    default:
        forward->prefix[rank][1] = -5;
    }
}

void workers_take(struct workers *workers, const struct eplb_command *command)
{
    struct worker_forward *forward = &workers->forwards[command->seq % 2];
    forward->seq = command->seq;
    take_weights(workers, command);
    for (int rank = 0; rank < WORKER_RANKS; rank++) {
        memcpy(forward->generations[rank], workers->generations, sizeof workers->generations);
        memcpy(forward->versions[rank], workers->versions, sizeof workers->versions);
    }
    if (command->update_layer_id != EPLB_NO_LAYER)
        activate(workers, command);
    if (command->prepare_layer_id != EPLB_NO_LAYER)
        prepare(workers, command);
    if (workers_chance(workers, 2))
        workers->hot[eplb_prng_below(&workers->prng, WORKER_LAYERS)] =
            (int32_t)eplb_prng_below(&workers->prng, WORKER_RANKS * WORKER_SLOTS);
    for (int rank = 0; rank < WORKER_RANKS; rank++)
        answer(workers, forward, rank);
}

const struct eplb_worker_output *workers_outputs(struct workers *workers, uint64_t seq)
{
    return workers->forwards[seq % 2].outputs;
}
