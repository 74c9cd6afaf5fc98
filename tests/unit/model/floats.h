/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Random floats for tests of arithmetic, and a look at their bits.
 */
#ifndef MODEL_TESTS_FLOATS_H
#define MODEL_TESTS_FLOATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"

/** Uniform in (-size, size). */
float floats_draw(struct eplb_prng *prng, float size);

/**
 * Fills with numbers on which roundings differ: most in (-2, 2), others of any exponent from 2^-140 (a
 * denormal number) to 2^20, zeros of both signs.
 */
void floats_fill(struct eplb_prng *prng, size_t count, float *to);

/** Fails the test, and says where, unless both have the same bits. */
void floats_same(const float *actual, const float *expected, size_t count);

/** A digest of the bits, for comparison with a committed one. */
uint64_t floats_digest(const float *floats, size_t count);

#endif
