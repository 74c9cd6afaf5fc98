/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Text that goes out: the sink of generated pages, and strangers' text inside our sentences.
 */
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

#include <stddef.h>

#include "eplb/status.h"

/** Takes generated text piece by piece. */
struct eplb_text_sink {
    void *context;
    void (*put)(void *context, const char *text, size_t length);
};

void eplb_text_put(const struct eplb_text_sink *sink, const char *text);

/** printf for pieces of our own, shorter than 512 bytes. */
void eplb_text_printf(const struct eplb_text_sink *sink, const char *format, ...) EPLB_PRINTF(2, 3);

/** Puts a paragraph as lines of at most 80 columns, each indented. */
void eplb_text_wrap(const struct eplb_text_sink *sink, size_t indent, const char *paragraph);

/** Bytes that eplb_text_shown needs. */
#define EPLB_SHOWN_TEXT 72

/** Copies text for a sentence: control characters and malformed bytes as '?', and cut with "..." when long.
 */
void eplb_text_shown(char shown[EPLB_SHOWN_TEXT], const char *text);

#endif
