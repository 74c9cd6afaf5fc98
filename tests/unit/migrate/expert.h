/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A rank's tensors for the tests of this folder, filled with a fingerprint of (layer, expert) per
 * byte: a wrong expert, layer, tensor or offset shows.
 */
#ifndef MIGRATE_EXPERT_H
#define MIGRATE_EXPERT_H

#include "eplb/migrate.h"

/* Bytes of one slot of each tensor; 0 ends the list. `shared` more bytes per layer never move. */
struct expert_sizes {
    int64_t bytes[EPLB_MAX_TENSORS];
    int64_t shared;
};

/* A rank's model: its tensors and their registration. */
struct expert_model {
    struct eplb_shape shape;
    int32_t ep_rank;
    int32_t num_tensors;         /* with the shared one, which is the last */
    struct eplb_tensor *tensors; /* [num_layers][num_tensors] */
    struct eplb_weights *weights;
};

/** Allocates and registers; slots hold what tables ([num_layers][num_slots]) say. Fails the test on error. */
void expert_model_init(struct expert_model *model, const struct eplb_shape *shape, int32_t ep_rank,
                       const struct expert_sizes *sizes, const int32_t *tables);
void expert_model_destroy(struct expert_model *model);

/** Writes what the slots of a layer hold under a table, as a loader does. */
void expert_model_load(struct expert_model *model, int32_t layer, const int32_t *expert_ids);

/** The first local slot of a layer that does not hold what the table says, or num_slots for the
 *  shared tensor; -1 when all is right. */
int32_t expert_model_wrong_slot(const struct expert_model *model, int32_t layer, const int32_t *expert_ids);

/** As above for what staging will bring: the changed slots of a plan only. */
int32_t expert_model_wrong_staging(const struct expert_model *model, const struct eplb_layer_plan *plan);

#endif
