/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Whole files: read into memory, written so that a reader sees the old or the new content.
 */
#ifndef OS_FILE_H
#define OS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "eplb/status.h"

/** Largest file that is read, in bytes. */
#define EPLB_MAX_FILE_BYTES ((size_t)4 << 30)

/**
 * Reads a file, pipe or terminal to its end. Blocks as long as the other end of a pipe does.
 *
 * @param path  the file
 * @param bytes receives the content and one zero byte after it, to be freed with free()
 * @param size  receives the length without that zero byte
 * @return EPLB_INVALID when the path cannot be opened, is a directory or is larger than
 *         EPLB_MAX_FILE_BYTES; EPLB_IO when reading fails; EPLB_NO_MEMORY
 */
enum eplb_status eplb_file_read(const char *path, char **bytes, size_t *size, struct eplb_error *error);

/**
 * Replaces a file's content. At every moment, even if this process is killed or others write the
 * same path, the path holds one complete content: that of before or that of one of the writers.
 * A symbolic link to a file is followed. A new file gets the mode that the umask leaves, a replaced one
 * keeps its mode. A pipe, terminal or device cannot be replaced and is written to directly.
 *
 * @return EPLB_INVALID when the path is a directory or lies in none; EPLB_IO when the content
 *         cannot be written (the old content is still there, nothing else is left behind)
 */
enum eplb_status eplb_file_write_atomic(const char *path, const void *data, size_t size,
                                        struct eplb_error *error);

/** Whether two paths lead to the same regular file; false when one of them leads nowhere. */
bool eplb_file_is_same(const char *one, const char *other);

#endif
