/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Names that people type: compared without case, and the nearest known one for a misspelt one.
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/** Whether two words are the same but for the case of ASCII letters, in every locale. */
bool eplb_same_word(const char *a, const char *b);

/** Edit distance (insert, delete, replace, swap of neighbours), ignoring case; words are cut at 63
 * characters. */
size_t eplb_edit_distance(const char *a, const char *b);

/** Index of the word nearest to `word`, ties to the lowest index; count > 0. */
size_t eplb_nearest(const char *word, const char *const *words, size_t count);

#endif
