/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Made-up loads for tests, benches and demonstrations: how the tokens of one layer and step fall
 * on its experts. Deterministic: the same generator state gives the same counts on every machine,
 * for only + - * / and sqrt of doubles are used, which IEEE 754 fixes to the last bit.
 */
#ifndef TRACE_WORKLOAD_H
#define TRACE_WORKLOAD_H

#include <stdint.h>

#include "base/prng.h"
#include "eplb/status.h"

/**
 * Popularity by rank: the k-th most popular expert gets a share in proportion to k^-exponent.
 * Which expert has which rank, the generator decides.
 *
 * @param num_experts in [1, 65536]
 * @param exponent    in [0, 8]; 0 is uniform, 1 strongly skewed
 * @param tokens      in [0, 2^62]
 * @param load        receives [num_experts] counts that add up to tokens
 * @return EPLB_INVALID when an argument is out of range; EPLB_NO_MEMORY
 */
enum eplb_status eplb_workload_zipf(struct eplb_prng *prng, int32_t num_experts, double exponent,
                                    int64_t tokens, int64_t *load, struct eplb_error *error);

/**
 * Shares in proportion to exp(sigma * z), z a standard normal number for each expert.
 *
 * @param sigma in [0, 8]
 */
enum eplb_status eplb_workload_lognormal(struct eplb_prng *prng, int32_t num_experts, double sigma,
                                         int64_t tokens, int64_t *load, struct eplb_error *error);

/**
 * Multiplies each share by exp(sigma * z): the next window of traffic that moves slowly. The
 * total stays; an expert without tokens stays so.
 *
 * @param sigma in [0, 8]
 * @param load  [num_experts] counts >= 0 with a total <= 2^62, replaced
 */
enum eplb_status eplb_workload_drift(struct eplb_prng *prng, int32_t num_experts, double sigma, int64_t *load,
                                     struct eplb_error *error);

/** 2 to the x, |x| <= 1000, to about one unit in the last place. */
double eplb_workload_exp2(double x);

/** The logarithm of x > 0 (a normal number) to base 2, to about one unit in the last place of 1 + |result|.
 */
double eplb_workload_log2(double x);

#endif
