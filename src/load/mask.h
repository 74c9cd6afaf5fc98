/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#ifndef LOAD_MASK_H
#define LOAD_MASK_H

#include <stddef.h>
#include <stdint.h>

/** Index of the first byte that is neither 0 nor 1; length when there is none. */
size_t eplb_mask_first_bad(const uint8_t *mask, size_t length);

#endif
