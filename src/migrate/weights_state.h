/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The registration: shared by registering (weights.c, weights_check.c) and copying (weights_copy.c).
 */
#ifndef MIGRATE_WEIGHTS_STATE_H
#define MIGRATE_WEIGHTS_STATE_H

#include <stdbool.h>

#include "eplb/migrate.h"

enum { EPLB_TENSOR_NAME = 32 };

/* What holds for a tensor in every layer. */
struct eplb_tensor_kind {
    char name[EPLB_TENSOR_NAME];
    bool per_expert;
    size_t bytes;           /* of one slot when per_expert, else of the whole */
    unsigned char *staging; /* [slots_per_rank][bytes] when per_expert, else NULL */
};

struct eplb_weights {
    struct eplb_shape shape;
    int32_t ep_rank;
    int32_t num_tensors;
    int32_t num_per_expert;
    int64_t expert_bytes;
    size_t staging_bytes;
    uint64_t epoch;
    struct eplb_tensor_kind *kinds; /* [num_tensors] */
    unsigned char **data;           /* [num_layers][num_tensors]; NULL: its registration was refused */
};

/** Checks everything that eplb_weights_create refuses, but memory. */
enum eplb_status eplb_weights_check_params(const struct eplb_weights_params *params,
                                           struct eplb_error *error);

/** Checks a replacement against the registration, the tensor itself excepted. */
enum eplb_status eplb_weights_check_replacement(const struct eplb_weights *weights, int32_t layer,
                                                int32_t tensor, const struct eplb_tensor *replacement,
                                                struct eplb_error *error);

/** The address of a tensor in a layer; NULL when its registration was refused. */
unsigned char *eplb_weights_data(const struct eplb_weights *weights, int32_t layer, int32_t tensor);

/** The first tensor of a layer whose registration was refused; -1 when there is none. */
int32_t eplb_weights_lost(const struct eplb_weights *weights, int32_t layer);

#endif
