/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Random numbers by key and number instead of by turn (the mixing of splitmix64, Steele, Lea and Flood
 * 2014): what is drawn for one thing does not depend on what was drawn before, or on which rank.
 */
#ifndef BASE_MIX_H
#define BASE_MIX_H

#include <stdint.h>

/** The number-th draw of a key; also the key of whatever is told apart by that number. */
static inline uint64_t eplb_mix(uint64_t key, uint64_t number)
{
    uint64_t z = key + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
