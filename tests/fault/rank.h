/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A rank as a process: the test program, started again as fault/crew.h does. It attaches its channel
 * and its place in the group, ties itself to the engine, and runs forwards over a stand-in model with a
 * real executor and the toy forward, as a rank of e2e/team.h does in a thread.
 *
 * After every activation, and in every forward once another rank has died, it compares every byte of
 * its model with the executor's tables. Whatever must never happen ends it with a sentence and
 * RANK_WRONG.
 */
#ifndef FAULT_RANK_H
#define FAULT_RANK_H

#include "e2e/toy.h"
#include "eplb/manager.h"
#include "support/standin.h"

enum { RANK_SENTENCE = 128 };

/** Exit codes beside 0. */
enum {
    RANK_ORPHANED = 98, /* the engine has ended */
    RANK_WRONG = 99,
};

/** What it must know before its first forward: the channel's setup. */
struct rank_setup {
    int32_t tokens, top_k;
    struct toy_traffic traffic;
    int64_t matrix_bytes;
    int64_t chunk_bytes, inflight_bytes;
    int32_t transfer_timeout_seconds;
    int64_t jitter_ns; /* longest random delay at each point of a forward; 0: none */
    uint64_t seed;     /* of the jitter */
};

/** How a forward's input begins. */
struct rank_input {
    bool leave; /* no forward: the rank is to end, without a reply */
    struct eplb_dp_batch batch;
    enum standin_mood moods[STANDIN_HOOKS]; /* of the model's hooks from this forward on */
};

/** A forward's result. */
struct rank_result {
    uint64_t state;                  /* rank_state of what it runs */
    uint64_t checked;                /* rank_state when every byte was compared last, and was right */
    uint64_t commands_hash;          /* over all commands that it has seen */
    uint64_t commands;               /* how many */
    char bereavement[RANK_SENTENCE]; /* what its group said when another rank had died; "" else */
};

/** A hash of tables [num_layers][num_slots] and generations [num_layers]. */
uint64_t rank_state(const struct eplb_shape *shape, const int32_t *tables, const uint64_t *generations);

/** What main does when its first argument is CREW_RANK. Returns the exit code. */
int rank_main(char **argv);

#endif
