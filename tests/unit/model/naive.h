/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The model once more, as plainly as it can be said: one token at a time, all experts in one place, the
 * whole history kept. What the real one gives must be the same to the last bit.
 */
#ifndef UNIT_MODEL_NAIVE_H
#define UNIT_MODEL_NAIVE_H

#include "model/model.h"

enum { NAIVE_MAX_LENGTH = 64 };

struct naive;

struct naive *naive_create(const struct eplb_model_config *config);
void naive_destroy(struct naive *naive);

/**
 * Continues a prompt by `decoded` tokens.
 *
 * @param samples receives [decoded]
 */
void naive_run(struct naive *naive, const int32_t *prompt, int32_t length, int32_t decoded,
               struct eplb_model_sample *samples);

#endif
