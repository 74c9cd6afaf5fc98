/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A stand-in for one rank's model: layers whose slots are filled with fingerprints, bytes that say which
 * checkpoint, layer, expert and tensor they belong to. Whatever is moved wrongly, or not at all, shows.
 *
 * Every layer has several tensors per expert, most of odd sizes and at odd addresses, among them a
 * scale and a value derived of it, and three that never move: a router, a shared expert, a scalar.
 * The hooks of include/eplb/hooks.h are those of a real model; each can be told to be slow, to fail or
 * to hang.
 */
#ifndef SUPPORT_STANDIN_H
#define SUPPORT_STANDIN_H

#include <stdbool.h>

#include "eplb/hooks.h"

/** The tensors of every layer, in order of registration. */
enum standin_tensor {
    STANDIN_GATE,   /* 1 byte per expert */
    STANDIN_BIAS,   /* 3 */
    STANDIN_DOWN,   /* 17 */
    STANDIN_MATRIX, /* as the parameters say */
    STANDIN_SCALE,  /* uint32_t */
    STANDIN_ALPHA,  /* uint64_t, the layer's input scale times the expert's scale */
    STANDIN_PER_EXPERT,
    STANDIN_ROUTER = STANDIN_PER_EXPERT, /* its first dimension is num_experts */
    STANDIN_SHARED,                      /* the shared expert: 1 */
    STANDIN_SCALAR,                      /* none */
    STANDIN_TENSORS,
};

enum { STANDIN_MATRIX_BYTES = 4096 + 5 };

struct standin_params {
    struct eplb_shape shape;
    int32_t ep_rank;
    uint64_t checkpoint;    /* which weights are loaded, < 1000 */
    const int32_t *initial; /* [num_layers][num_slots] legal; NULL: the initial placement */
    int64_t matrix_bytes;   /* per expert, > 0; the largest of its tensors */
    const struct eplb_log_sink *log;
};

struct standin;

enum eplb_status standin_create(const struct standin_params *params, struct standin **model,
                                struct eplb_error *error);

/** NULL is allowed. */
void standin_destroy(struct standin *model);

struct eplb_weights *standin_weights(struct standin *model);
const struct eplb_model_hooks *standin_hooks(const struct standin *model);

/** The layer's map [num_experts]; it stays at this address. */
const int32_t *standin_log2phy(const struct standin *model, int32_t layer);

/** A tensor as it is registered. */
struct eplb_tensor standin_tensor(const struct standin *model, int32_t layer, enum standin_tensor tensor);

/** Bytes of one expert, from the model's configuration. */
int64_t standin_expert_bytes(int64_t matrix_bytes);

/** Bytes of all tensors of all layers. */
int64_t standin_bytes(const struct standin *model);

/**
 * Compares every byte of every slot, the maps and what never moves with what they must be under the
 * tables [num_layers][num_slots]. Called by the thread that runs the forwards, or between forwards.
 *
 * @return EPLB_OK; EPLB_INCONSISTENT with a sentence that names the first wrong byte
 */
enum eplb_status standin_check(const struct standin *model, const int32_t *tables, struct eplb_error *error);

/** Loads another checkpoint into the slots as the tables name them, and tells the registration. */
enum eplb_status standin_load(struct standin *model, uint64_t checkpoint, const int32_t *tables,
                              struct eplb_error *error);

/** Gives a tensor other memory with the same content, and tells the registration. */
enum eplb_status standin_relocate(struct standin *model, int32_t layer, enum standin_tensor tensor,
                                  struct eplb_error *error);

/* ------------------------------------------------------------------------------- forwards */

/** What a slot's expert makes of a token: from bytes of all its tensors and the shared expert's. */
uint64_t standin_compute(const struct standin *model, int32_t layer, int32_t local_slot, uint64_t token);

/** What an expert must make of a token, wherever it is. */
uint64_t standin_expected(const struct standin *model, int32_t layer, int32_t expert, uint64_t token);

/** The scale of the expert in a slot: checkpoint * 100 + layer * 100000 + 10 * (expert + 1). */
uint32_t standin_scale(const struct standin *model, int32_t layer, int32_t local_slot);

/* --------------------------------------------------------------------------------- faults */

enum standin_hook { STANDIN_PREPARE, STANDIN_START, STANDIN_UPDATE, STANDIN_HOOKS };

enum standin_mood {
    STANDIN_WORKS,
    STANDIN_FAILS, /* not STANDIN_UPDATE, which cannot */
    STANDIN_HANGS, /* until it is set to something else */
};

/** What a hook does from now on. Any thread. */
struct standin_fault {
    enum standin_mood mood;
    int64_t delay_ns; /* it takes that much longer */
};

void standin_set_fault(struct standin *model, enum standin_hook hook, struct standin_fault fault);

/** Waits until the hook hangs; false when it does not before the deadline. Any thread. */
bool standin_await_hang(struct standin *model, enum standin_hook hook, int64_t deadline);

/** How often a hook was called, and, of STANDIN_UPDATE, how often with commit. Any thread. */
uint64_t standin_calls(struct standin *model, enum standin_hook hook);
uint64_t standin_commits(struct standin *model);

#endif
