/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/model.h"

#include <string.h>

uint64_t sim_model_word(int32_t layer, int32_t expert, int32_t word)
{
    uint64_t mixed = (uint64_t)(1 + word + SIM_WORDS * (expert + SIM_EXPERTS * layer));
    mixed *= UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ mixed >> 29;
}

static void make_maps(struct sim_model *model, const struct sim_config *config, int32_t layer)
{
    for (int32_t source = 0; source < config->shape.ep_size; source++)
        eplb_log2phy(&config->shape, model->tables[layer], source, 0, model->maps[layer][source]);
}

void sim_model_init(struct sim_model *model, const struct sim_config *config, int32_t ep_rank)
{
    memset(model, 0, sizeof *model);
    model->ep_rank = ep_rank;
    model->epoch = 1;
    for (int32_t layer = 0; layer < config->shape.num_layers; layer++) {
        int32_t scratch[SIM_EXPERTS];
        eplb_placement_initial(&config->shape, model->tables[layer]);
        eplb_weights_equal(&config->shape, model->tables[layer], scratch, model->weights[layer]);
        make_maps(model, config, layer);
        for (int32_t slot = 0; slot < config->shape.slots_per_rank; slot++) {
            int32_t expert = model->tables[layer][ep_rank * config->shape.slots_per_rank + slot];
            for (int32_t word = 0; word < config->words; word++)
                model->active[layer][slot][word] = sim_model_word(layer, expert, word);
        }
    }
}

/** Whether a move fills a slot of this rank, and which. */
static bool is_own(const struct sim_model *model, const struct sim_config *config,
                   const struct eplb_move *move, int32_t *slot)
{
    *slot = move->slot % config->shape.slots_per_rank;
    return move->slot / config->shape.slots_per_rank == model->ep_rank;
}

int32_t sim_model_materialise(struct sim_model *model, const struct sim_config *config,
                              const struct eplb_layer_plan *plan)
{
    int32_t count = 0;
    for (int32_t i = 0; i < plan->num_moves; i++) {
        const struct eplb_move *move = &plan->moves[i];
        int32_t slot;
        if (!is_own(model, config, move, &slot) || move->kind != EPLB_MOVE_LOCAL)
            continue;
        int32_t source = move->source_slot % config->shape.slots_per_rank;
        memcpy(model->staging[slot], model->active[plan->layer][source], sizeof model->staging[slot]);
        count++;
    }
    return count;
}

void sim_model_switch(struct sim_model *model, const struct sim_config *config,
                      const struct eplb_layer_plan *plan)
{
    for (int32_t i = 0; i < plan->num_moves; i++) {
        int32_t slot;
        if (is_own(model, config, &plan->moves[i], &slot))
            memcpy(model->active[plan->layer][slot], model->staging[slot], sizeof model->staging[slot]);
    }
    memcpy(model->tables[plan->layer], plan->expert_ids,
           (size_t)config->shape.num_slots * sizeof *plan->expert_ids);
    make_maps(model, config, plan->layer);
    model->generations[plan->layer]++;
    memcpy(model->weights[plan->layer], plan->replica_weights,
           (size_t)config->shape.num_slots * sizeof *plan->replica_weights);
    model->versions[plan->layer] = 0;
}

void sim_model_take_weights(struct sim_model *model, const struct sim_config *config, int32_t layer,
                            uint64_t version, const int32_t *weights)
{
    memcpy(model->weights[layer], weights, (size_t)config->shape.num_slots * sizeof *weights);
    model->versions[layer] = version;
}

/** By weights: of an expert's rows, a slot gets those between its share of the unit and the next one's. */
static void count_by_weights(const struct sim_model *model, const struct eplb_shape *shape, int32_t layer,
                             int32_t expert, int64_t rows, int64_t *counts)
{
    int64_t before = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        if (model->tables[layer][slot] != expert)
            continue;
        int64_t after = before + model->weights[layer][slot];
        if (slot / shape->slots_per_rank == model->ep_rank)
            counts[slot % shape->slots_per_rank] +=
                rows * after / EPLB_WEIGHT_UNIT - rows * before / EPLB_WEIGHT_UNIT;
        before = after;
    }
}

void sim_model_count(const struct sim_model *model, const struct sim_config *config, sim_rows rows,
                     int64_t counts[SIM_LAYERS][SIM_LOCAL_SLOTS])
{
    const struct eplb_shape *shape = &config->shape;
    int32_t first = model->ep_rank * shape->slots_per_rank;
    memset(counts, 0, sizeof(int64_t) * SIM_LAYERS * SIM_LOCAL_SLOTS);
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        for (int32_t source = 0; source < shape->ep_size; source++)
            for (int32_t expert = 0; expert < shape->num_experts; expert++) {
                if (config->routing >= EPLB_ROUTING_WEIGHTED) {
                    count_by_weights(model, shape, layer, expert, rows[layer][source][expert], counts[layer]);
                    continue;
                }
                int32_t slot = model->maps[layer][source][expert] - first;
                if (slot >= 0 && slot < shape->slots_per_rank)
                    counts[layer][slot] += rows[layer][source][expert];
            }
}
