/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Reading from a segment, or from the lock's file, without being noticed: no lock is taken, nothing is
 * mapped or written. What is read of a living segment may change the next moment.
 */
#ifndef SHM_PEEK_H
#define SHM_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"

struct eplb_peek {
    int descriptor; /* of one file, whatever its name comes to mean meanwhile */
    uint64_t file_bytes;
};

/**
 * Opens a regular file; links are not followed.
 *
 * @return EPLB_OK; EPLB_INVALID when there is nothing of that name, it is no regular file or may not be
 *         read; EPLB_IO
 */
enum eplb_status eplb_peek_open(const char *path, struct eplb_peek *peek, struct eplb_error *error);

/** Reads `size` bytes from `offset` on; false when the file has not so many there. */
bool eplb_peek_read(const struct eplb_peek *peek, uint64_t offset, void *bytes, size_t size);

void eplb_peek_close(struct eplb_peek *peek);

#endif
