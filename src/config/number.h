/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Reading numbers: strictly, and the same in every locale.
 */
#ifndef CONFIG_NUMBER_H
#define CONFIG_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/** Reads `[-]digits`, all of the text, without overflow. *value is written on success only. */
bool eplb_integer_read(const char *text, int64_t *value);

/**
 * Reads `[-]digits[.digits][e[+-]digits]`, all of the text, correctly rounded; -0.0 gives +0.
 * A text that overflows, or is not zero and would become zero or subnormal, is refused.
 */
bool eplb_real_read(const char *text, double *value);

#endif
