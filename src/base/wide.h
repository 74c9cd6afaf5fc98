/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * 128-bit integers, for products of a load (up to 2^62) that must stay exact.
 */
#ifndef BASE_WIDE_H
#define BASE_WIDE_H

__extension__ typedef unsigned __int128 eplb_u128;

#endif
