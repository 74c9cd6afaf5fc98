/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/prng.h"

#include "base/assert.h"
#include "base/wide.h"

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

void eplb_prng_seed(struct eplb_prng *prng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        prng->state[i] = splitmix64(&seed);
}

uint64_t eplb_prng_next(struct eplb_prng *prng)
{
    uint64_t *s = prng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t eplb_prng_below(struct eplb_prng *prng, uint64_t bound)
{
    EPLB_ASSERT(bound > 0);
    /* Lemire 2019: the high half of a product is uniform once the few low halves below 2^64 mod
     * bound are thrown back. */
    eplb_u128 product = (eplb_u128)eplb_prng_next(prng) * bound;
    uint64_t threshold = (0 - bound) % bound;
    while ((uint64_t)product < threshold)
        product = (eplb_u128)eplb_prng_next(prng) * bound;
    return (uint64_t)(product >> 64);
}

double eplb_prng_real(struct eplb_prng *prng)
{
    return (double)(eplb_prng_next(prng) >> 11) * 0x1p-53;
}
