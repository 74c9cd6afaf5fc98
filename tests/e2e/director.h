/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Leads a team without a manager: commands as a test wants them, and a memory of its own of what every
 * rank must hold. A command is put together (director_prepare, director_activate), then a forward
 * carries it.
 */
#ifndef E2E_DIRECTOR_H
#define E2E_DIRECTOR_H

#include "e2e/team.h"

struct director {
    struct team *team;
    struct eplb_shape shape;
    uint64_t seq;
    uint64_t token;              /* the last one of either kind */
    struct eplb_command command; /* of the next forward */
    bool open;                   /* a command is being put together */
    int32_t *tables;             /* [L][num_slots] that all ranks run */
    uint64_t *generations;       /* [L] */
    int32_t prepared_layer;      /* of the last prepare */
    uint64_t prepared_token;
    int32_t *prepared_table;  /* [num_slots] */
    int32_t *activated_table; /* [num_slots] of the last activation */
    int64_t moves, messages;  /* of the last prepare: changed slots; of these, moved between ranks */
    void *scratch;
};

/** Fails the test when it cannot. */
void director_init(struct director *director, struct team *team);
void director_destroy(struct director *director);

/** What a layer runs. */
const int32_t *director_table(const struct director *director, int32_t layer);

/** Adds to the next command: prepare this table for the layer. */
void director_prepare(struct director *director, int32_t layer, const int32_t *table);

/** Adds to the next command: activate the last prepare. Opens its record. */
void director_activate(struct director *director);

/** As director_activate, for any prepare token and layer. */
void director_activate_token(struct director *director, int32_t layer, uint64_t prepare_token);

/** Hands out a forward of decode tokens with the command that was put together, or an empty one. */
void director_submit(struct director *director);

/** Collects the oldest forward; the dead ranks' outputs have prefix NULL. */
const struct eplb_worker_output *director_collect(struct director *director);

/** One forward: submit and collect. */
const struct eplb_worker_output *director_forward(struct director *director);

/**
 * Runs forwards until no live rank is still running the last prepare.
 *
 * @return its status on all live ranks; fails the test when they differ
 */
enum eplb_prepare_status director_await_prepared(struct director *director);

/**
 * What all live ranks report of the last activation; fails the test when they differ, or report
 * another token. On a switch the director's table follows.
 */
enum eplb_activation_outcome director_outcome(struct director *director,
                                              const struct eplb_worker_output *outputs);

/** Prepare, await, activate; fails the test unless all switched and every byte is right. */
void director_move(struct director *director, int32_t layer, const int32_t *table);

/** Fails the test unless every live rank runs the director's tables, and holds what they say. */
void director_check(const struct director *director);

#endif
