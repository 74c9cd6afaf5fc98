/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A seeded pseudo-random generator for tests, benches and workloads (xoshiro256**, Blackman and
 * Vigna 2018, seeded by splitmix64). The same seed gives the same numbers on every machine.
 */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stdint.h>

struct eplb_prng {
    uint64_t state[4];
};

void eplb_prng_seed(struct eplb_prng *prng, uint64_t seed);

/** A uniform 64-bit number. */
uint64_t eplb_prng_next(struct eplb_prng *prng);

/** A uniform number in [0, bound); bound > 0. Unbiased. */
uint64_t eplb_prng_below(struct eplb_prng *prng, uint64_t bound);

/** A uniform real in [0, 1) with 53 random bits. */
double eplb_prng_real(struct eplb_prng *prng);

#endif
