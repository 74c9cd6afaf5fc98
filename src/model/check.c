/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Whether every slot holds the expert that it should: by fingerprints that are made from the seed alone. */
#include "base/error.h"
#include "model/model_state.h"

struct place {
    float *gate_up, *down;
};

static struct place take_expert(struct eplb_arena *arena, struct eplb_expert_layout layout)
{
    struct place place;
    place.gate_up = eplb_arena_take(arena, (size_t)layout.gate_up_floats, sizeof(float));
    place.down = eplb_arena_take(arena, (size_t)layout.down_floats, sizeof(float));
    return place;
}

enum eplb_status eplb_model_expected_fingerprints(const struct eplb_model_config *config,
                                                  uint64_t *fingerprints, struct eplb_error *error)
{
    struct eplb_expert_layout layout = eplb_expert_layout(config);
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    (void)take_expert(&arena, layout);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for one expert of %lld bytes",
                  (long long)eplb_model_expert_bytes(config));
    struct place expert = take_expert(&arena, layout);
    for (int32_t layer = 0; layer < config->num_layers; layer++)
        for (int32_t id = 0; id < config->num_experts; id++) {
            eplb_expert_fill(config, layer, id, expert.gate_up, expert.down);
            *fingerprints++ = eplb_expert_fingerprint(config, expert.gate_up, expert.down);
        }
    eplb_arena_free(block);
    return EPLB_OK;
}

/** Compares an expert's replicas in two tables, whatever their weights. */
static enum eplb_status check_replicas(const struct eplb_route_table *is, const struct eplb_route_table *must,
                                       int32_t layer, int32_t expert, struct eplb_error *error)
{
    int32_t count = is->first[expert + 1] - is->first[expert];
    int32_t expected = must->first[expert + 1] - must->first[expert];
    if (count != expected)
        EPLB_FAIL(EPLB_VERIFY, "layer %d, rank %d: expert %d is mapped to %d slots; it must be %d", layer,
                  is->source, expert, count, expected);
    for (int32_t i = 0; i < count; i++) {
        int32_t slot = is->slots[is->first[expert] + i];
        int32_t right = must->slots[must->first[expert] + i];
        if (slot != right)
            EPLB_FAIL(EPLB_VERIFY, "layer %d, rank %d: expert %d is mapped to slot %d; it must be slot %d",
                      layer, is->source, expert, slot, right);
    }
    return EPLB_OK;
}

static enum eplb_status check_map(const struct eplb_model *model, int32_t layer, const int32_t *table,
                                  struct eplb_error *error)
{
    const struct eplb_replicas_params *replicas = &model->replicas.params;
    const struct eplb_route_params params = {.size = sizeof params,
                                             .routing = replicas->routing,
                                             .expert_ids = table,
                                             .node_of_rank = replicas->node_of_rank};
    struct eplb_route_table expected;
    eplb_route_table_init(&expected, &model->shape, model->ep_rank, model->expected_memory);
    eplb_route_table_set(&expected, &params);
    for (int32_t expert = 0; expert < model->shape.num_experts; expert++)
        EPLB_TRY(check_replicas(&eplb_model_replicas(model, layer)->table, &expected, layer, expert, error));
    for (int32_t slot = 0; slot < model->shape.num_slots; slot++) {
        int32_t expert = eplb_model_replicas(model, layer)->expert_ids[slot];
        if (expert != table[slot])
            EPLB_FAIL(EPLB_VERIFY,
                      "layer %d, rank %d: slot %d is taken to hold expert %d; it must be expert %d", layer,
                      model->ep_rank, slot, expert, table[slot]);
    }
    return EPLB_OK;
}

static uint64_t fingerprint_of(const struct eplb_model *model, int32_t layer, int32_t slot)
{
    const struct eplb_layer_weights *weights = &model->weights.layers[layer];
    struct eplb_expert_layout layout = eplb_expert_layout(&model->config);
    return eplb_expert_fingerprint(&model->config, weights->gate_up + slot * layout.gate_up_floats,
                                   weights->down + slot * layout.down_floats);
}

/** Says which expert is there instead. */
static enum eplb_status name_intruder(const struct eplb_model *model, int32_t layer, int32_t slot,
                                      int32_t expert, uint64_t found, const uint64_t *fingerprints,
                                      struct eplb_error *error)
{
    for (int32_t other = 0; other < model->shape.num_layers; other++)
        for (int32_t id = 0; id < model->shape.num_experts; id++)
            if (*fingerprints++ == found)
                EPLB_FAIL(EPLB_VERIFY,
                          "layer %d, rank %d: slot %d must hold expert %d, and holds expert %d of layer %d",
                          layer, model->ep_rank, slot, expert, id, other);
    EPLB_FAIL(EPLB_VERIFY,
              "layer %d, rank %d: slot %d must hold expert %d, and holds none of the model's experts", layer,
              model->ep_rank, slot, expert);
}

enum eplb_status eplb_model_check_slots(const struct eplb_model *model, const int32_t *tables,
                                        const uint64_t *fingerprints, struct eplb_error *error)
{
    const struct eplb_shape *shape = &model->shape;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int32_t *table = tables + (size_t)layer * (size_t)shape->num_slots;
        const uint64_t *expected = fingerprints + (size_t)layer * (size_t)shape->num_experts;
        EPLB_TRY(check_map(model, layer, table, error));
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            int32_t expert = table[model->ep_rank * shape->slots_per_rank + slot];
            uint64_t found = fingerprint_of(model, layer, slot);
            if (found != expected[expert])
                return name_intruder(model, layer, slot, expert, found, fingerprints, error);
        }
    }
    return EPLB_OK;
}
