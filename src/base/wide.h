/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * 128-bit integers, for products of a load (up to 2^62) that must stay exact, and comparisons of
 * their products.
 */
#ifndef BASE_WIDE_H
#define BASE_WIDE_H

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 eplb_u128;

struct eplb_u256 {
    eplb_u128 high;
    eplb_u128 low;
};

/** a * b, whole. */
static inline struct eplb_u256 eplb_u128_multiply(eplb_u128 a, eplb_u128 b)
{
    uint64_t a_low = (uint64_t)a;
    uint64_t b_low = (uint64_t)b;
    eplb_u128 low = (eplb_u128)a_low * b_low;
    eplb_u128 middle = (a >> 64) * b_low + (low >> 64);
    eplb_u128 cross = a_low * (b >> 64) + (uint64_t)middle;
    return (struct eplb_u256){.high = (a >> 64) * (b >> 64) + (middle >> 64) + (cross >> 64),
                              .low = cross << 64 | (uint64_t)low};
}

/** Whether a * b < c * d. */
static inline bool eplb_product_less(eplb_u128 a, eplb_u128 b, eplb_u128 c, eplb_u128 d)
{
    struct eplb_u256 left = eplb_u128_multiply(a, b);
    struct eplb_u256 right = eplb_u128_multiply(c, d);
    return left.high != right.high ? left.high < right.high : left.low < right.low;
}

#endif
