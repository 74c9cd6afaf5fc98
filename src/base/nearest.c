/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/nearest.h"

#include "base/assert.h"

enum { MAX_WORD = 63 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool eplb_same_word(const char *a, const char *b)
{
    while (*a != '\0' && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) == lower(*b);
}

static size_t bounded_length(const char *word)
{
    size_t length = 0;
    while (length < MAX_WORD && word[length] != '\0')
        length++;
    return length;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t eplb_edit_distance(const char *a, const char *b)
{
    size_t rows[3][MAX_WORD + 1];
    size_t a_length = bounded_length(a);
    size_t b_length = bounded_length(b);
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = lower(a[i - 1]);
            char y = lower(b[j - 1]);
            row[j] = smaller(above[j - 1] + (x != y), smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
                row[j] = smaller(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

size_t eplb_nearest(const char *word, const char *const *words, size_t count)
{
    EPLB_ASSERT(count > 0);
    size_t best = 0;
    size_t best_distance = eplb_edit_distance(word, words[0]);
    for (size_t i = 1; i < count; i++) {
        size_t distance = eplb_edit_distance(word, words[i]);
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    return best;
}
