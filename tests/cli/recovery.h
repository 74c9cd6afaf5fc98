/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * How a recorded run came back into balance after its traffic changed. Whatever is wrong fails the test.
 */
#ifndef CLI_RECOVERY_H
#define CLI_RECOVERY_H

#include <stddef.h>
#include <stdint.h>

/** Steps of a sliding window, and the steps at the end of a phase whose mean is its final level. */
enum { RECOVERY_WINDOW = 32, RECOVERY_FINAL_STEPS = 200 };

/** A run, step by step. */
struct recovery_series {
    size_t num_steps;
    double *balance;    /* [num_steps] mean over the layers of the largest by mean rank load, in the window
                           that ends with the step (a shorter one at the beginning) */
    uint64_t *switched; /* [num_steps] layers that had switched when the step's outputs came */
    uint64_t *updates;  /* [num_steps] weight updates that had been handed out likewise */
};

/** Reads the event log of a run. To be freed with recovery_free. */
void recovery_read(const char *path, struct recovery_series *series);

void recovery_free(struct recovery_series *series);

/** What became of a phase of the traffic. */
struct recovery {
    double highest;     /* balance of its worst window */
    double final;       /* mean over its last windows */
    double final_worst; /* of the worst of these */
    size_t last_switch; /* steps until the last layer switched; 0: none did */
    uint64_t switched;  /* layers, within it */
    uint64_t updates;   /* of weights, likewise */
};

/** A phase goes from step `begin` to the one before `end`. */
struct recovery recovery_of(const struct recovery_series *series, size_t begin, size_t end);

/** Steps from the phase's beginning until the balance stays within `tolerance` of the final one. */
size_t recovery_steps(const struct recovery_series *series, size_t begin, size_t end, double tolerance);

/**
 * Steps until it has come down from its worst window to the worst of the last ones: it is at its final level,
 * which later windows leave by chance, and a little.
 */
size_t recovery_arrival_steps(const struct recovery_series *series, size_t begin, size_t end);

#endif
