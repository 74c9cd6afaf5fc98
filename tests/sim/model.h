/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * One rank's model: the content of every slot, active and staged, and the maps it routes by.
 *
 * An expert's content is a few words made of (layer, expert, word), so that a slot with the wrong
 * expert, or with half of one, is seen at once. The hooks are functions of this file.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "eplb/migrate.h"
#include "sim/config.h"

struct sim_model {
    int32_t ep_rank;
    uint64_t epoch; /* raised when a tensor is registered again */
    uint64_t generations[SIM_LAYERS];
    int32_t tables[SIM_LAYERS][SIM_SLOTS];
    int32_t maps[SIM_LAYERS][SIM_RANKS][SIM_EXPERTS]; /* of every source rank */
    int32_t weights[SIM_LAYERS][SIM_SLOTS];
    uint64_t versions[SIM_LAYERS];
    uint64_t active[SIM_LAYERS][SIM_LOCAL_SLOTS][SIM_WORDS];
    uint64_t staging[SIM_LOCAL_SLOTS][SIM_WORDS];
};

/** A forward's counted rows, [layer][source rank][expert]. */
typedef int64_t sim_rows[SIM_LAYERS][SIM_RANKS][SIM_EXPERTS];

/** The content that a slot with this expert has. */
uint64_t sim_model_word(int32_t layer, int32_t expert, int32_t word);

/** A model that runs the initial placement as generation 0. */
void sim_model_init(struct sim_model *model, const struct sim_config *config, int32_t ep_rank);

/** The hook start_expert_weight_transfer: stages the experts that are resident. Returns their number. */
int32_t sim_model_materialise(struct sim_model *model, const struct sim_config *config,
                              const struct eplb_layer_plan *plan);

/** The hook update_expert_weight with commit: copies staging into the changed slots, switches table and maps.
 */
void sim_model_switch(struct sim_model *model, const struct sim_config *config,
                      const struct eplb_layer_plan *plan);

/** The hook update_replica_weights. */
void sim_model_take_weights(struct sim_model *model, const struct sim_config *config, int32_t layer,
                            uint64_t version, const int32_t *weights);

/** Counts the rows that the rank's slots get under the maps or weights of now. */
void sim_model_count(const struct sim_model *model, const struct sim_config *config, sim_rows rows,
                     int64_t counts[SIM_LAYERS][SIM_LOCAL_SLOTS]);

#endif
