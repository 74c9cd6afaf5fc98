/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#include "sim/world.h"

/** The rank's slots of a layer hold what the generation's table names. */
static void check_content(struct world *world, int32_t rank, int32_t layer)
{
    const struct sim_config *config = &world->config;
    const struct sim_model *model = &world->ranks[rank].model;
    const int32_t *table = sim_book_table(world, layer, model->generations[layer]);
    if (memcmp(table, model->tables[layer], (size_t)config->shape.num_slots * sizeof *table) != 0)
        sim_fail(&world->sim, "forward",
                 "rank %d, layer %d: the model runs another table than generation %" PRIu64, rank, layer,
                 model->generations[layer]);
    for (int32_t slot = 0; slot < config->shape.slots_per_rank; slot++) {
        int32_t expert = table[rank * config->shape.slots_per_rank + slot];
        for (int32_t word = 0; word < config->words; word++)
            if (model->active[layer][slot][word] != sim_model_word(layer, expert, word))
                sim_fail(&world->sim, "forward",
                         "rank %d, layer %d, generation %" PRIu64
                         ": slot %d does not hold expert %d (word %d)",
                         rank, layer, model->generations[layer], slot, expert, word);
    }
}

static void check_other_ranks(struct world *world, int32_t rank, const struct sim_forward *forward)
{
    for (int32_t other = 0; other < world->config.shape.ep_size; other++)
        for (int32_t layer = 0; forward->read[other] && layer < world->config.shape.num_layers; layer++)
            if (forward->generations[other][layer] != forward->generations[rank][layer])
                sim_fail(&world->sim, "forward",
                         "forward %" PRIu64 ", layer %d: rank %d runs generation %" PRIu64
                         " and rank %d generation %" PRIu64,
                         forward->seq, layer, other, forward->generations[other][layer], rank,
                         forward->generations[rank][layer]);
}

/** Called when a rank enters the forward and when it leaves it. */
void sim_check_forward(struct world *world, int32_t rank, struct sim_forward *forward)
{
    const struct sim_model *model = &world->ranks[rank].model;
    size_t bytes = (size_t)world->config.shape.num_layers * sizeof *model->generations;
    for (int32_t layer = 0; layer < world->config.shape.num_layers; layer++)
        check_content(world, rank, layer);
    if (forward->read[rank]) {
        if (memcmp(forward->generations[rank], model->generations, bytes) != 0 ||
            memcmp(forward->versions[rank], model->versions, bytes) != 0)
            sim_fail(&world->sim, "forward",
                     "rank %d switches a layer or its weights inside forward %" PRIu64, rank, forward->seq);
        return;
    }
    memcpy(forward->generations[rank], model->generations, bytes);
    memcpy(forward->versions[rank], model->versions, bytes);
    forward->read[rank] = true;
    check_other_ranks(world, rank, forward);
    sim_check_weights_forward(world, rank, forward);
}

void sim_check_reported(struct world *world, int32_t rank, const struct sim_forward *forward)
{
    for (int32_t layer = 0; forward->read[rank] && layer < world->config.shape.num_layers; layer++)
        if (forward->reported[rank][layer] != forward->generations[rank][layer])
            sim_fail(&world->sim, "forward",
                     "rank %d ran layer %d of forward %" PRIu64 " under generation %" PRIu64
                     " and reports %" PRIu64,
                     rank, layer, forward->seq, forward->generations[rank][layer],
                     forward->reported[rank][layer]);
    size_t bytes = (size_t)world->config.shape.num_layers * sizeof forward->versions[0][0];
    if (forward->read[rank] && memcmp(forward->reported_versions[rank], forward->versions[rank], bytes) != 0)
        sim_fail(&world->sim, "forward",
                 "rank %d reports other weights than it ran forward %" PRIu64 " under", rank, forward->seq);
}
