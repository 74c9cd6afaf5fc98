/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The nearest known word, for messages about misspelt names.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

/** Edit distance (insert, delete, replace, swap of neighbours), ignoring case; words are cut at 63
 * characters. */
size_t eplb_edit_distance(const char *a, const char *b);

/** Index of the word nearest to `word`, ties to the lowest index; count > 0. */
size_t eplb_nearest(const char *word, const char *const *words, size_t count);

#endif
