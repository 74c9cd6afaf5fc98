/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A small engine for tests: sequences are spread over the ranks, batches are put together at random
 * (prompts in pieces, some ranks empty), and layers may be moved meanwhile. In every forward the counts
 * are compared with what was routed, and after every move all slots with the tables.
 */
#ifndef UNIT_MODEL_SERVE_H
#define UNIT_MODEL_SERVE_H

#include "naive.h"
#include "ranks.h"

enum { SERVE_MAX_SEQUENCES = 12 };

struct serve_sequence {
    int32_t prompt[NAIVE_MAX_LENGTH];
    int32_t length;  /* of the prompt */
    int32_t decoded; /* tokens to make */
    struct eplb_model_sample samples[NAIVE_MAX_LENGTH];
};

/** Draws sequences; without samples. */
void serve_draw(uint64_t seed, int32_t vocab_size, int32_t count, struct serve_sequence *sequences);

/** What the naive model makes of them, at `samples`. */
void serve_naively(const struct eplb_model_config *config, int32_t count, struct serve_sequence *sequences);

struct serve_params {
    struct ranks_params ranks;
    uint64_t seed;     /* of batches and placements */
    bool random_start; /* begins with random placements */
    bool moves;        /* layers are moved in turn, as long as there is something to serve */
    bool warmups;      /* some forwards are called warm-ups */
    bool reweighs;     /* new tables come with weights of their own, and weights change between forwards */
};

struct serve_counts {
    int64_t forwards;
    int64_t switches;    /* layers that were moved */
    int64_t empty;       /* ranks that had no rows in a forward with rows */
    int64_t mixed;       /* forwards with rows of both kinds */
    int64_t not_counted; /* rows that were no load */
    int64_t reweighed;   /* layers that got new weights */
};

/** Serves all sequences; their samples come out at `samples`. Fails the test when anything is wrong. */
struct serve_counts serve(const struct serve_params *params, int32_t count, struct serve_sequence *sequences);

/** Fails the test unless both have the same samples, to the last bit of the logits. */
void serve_compare(uint64_t seed, int32_t count, const struct serve_sequence *got,
                   const struct serve_sequence *expected);

#endif
