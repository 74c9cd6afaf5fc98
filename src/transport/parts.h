/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A message's memory: parts one after the other, read and written in pieces.
 */
#ifndef TRANSPORT_PARTS_H
#define TRANSPORT_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "eplb/group.h"

/** A place in a message. The parts belong to someone else and stay. */
struct eplb_part_cursor {
    const struct eplb_part *parts;
    size_t part;   /* the current one */
    size_t offset; /* in it */
};

/** Adds the sizes up; false when the sum does not fit a size_t. */
bool eplb_parts_size(const struct eplb_part *parts, size_t num_parts, size_t *size);

/** The cursor at the first byte. */
struct eplb_part_cursor eplb_part_cursor_begin(const struct eplb_part *parts);

/** Copies the next `size` bytes out of the parts; there are as many. */
void eplb_part_cursor_read(struct eplb_part_cursor *cursor, void *to, size_t size);

/** Copies `size` bytes to the next place in the parts; there is as much room. */
void eplb_part_cursor_write(struct eplb_part_cursor *cursor, const void *from, size_t size);

#endif
