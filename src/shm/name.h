/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Names in the directory of segments, and what kind of file may stand under one.
 */
#ifndef SHM_NAME_H
#define SHM_NAME_H

#include <stdbool.h>
#include <sys/stat.h>

#include "eplb/status.h"
#include "shm/segment.h"

/** Longest directory: a name of 255 bytes, the longest there are, then still fits a path. */
#define EPLB_SHM_DIRECTORY_BYTES (EPLB_SEGMENT_PATH - 257)

/** The directory; NULL stands for the usual one. EPLB_INVALID when it is too long. */
enum eplb_status eplb_shm_directory(const char *directory, const char **found, struct eplb_error *error);

/** The path of the user's lock file. */
enum eplb_status eplb_shm_lock_path(const char *directory, char path[EPLB_SEGMENT_PATH],
                                    struct eplb_error *error);

/** What follows the last '/'. */
const char *eplb_shm_base_name(const char *path);

/** The directory of a path that fits EPLB_SEGMENT_PATH. */
void eplb_shm_directory_of(const char *path, char directory[EPLB_SEGMENT_PATH]);

/** Whether the file name is one of this user's (eplb.<uid>.) and not the lock's. */
bool eplb_shm_is_ours(const char *base_name);

/** Splits eplb.<uid>.<instance>.<part> of this user; false, and two empty words, when it is none. */
bool eplb_segment_name_split(const char *base_name, char instance[EPLB_SEGMENT_WORD + 1],
                             char part[EPLB_SEGMENT_WORD + 1]);

/**
 * EPLB_LAYOUT when it is no regular file of this user, with what it is, what was expected and how to
 * remove it.
 */
enum eplb_status eplb_shm_check_own_file(const struct stat *info, const char *path, struct eplb_error *error);

/** The end of every sentence about what stands in the way; takes eplb_shm_removal(path).text. */
#define EPLB_SHM_REMOVE "; once nothing uses it: %s"

struct eplb_shm_removal {
    char text[EPLB_ERROR_TEXT];
};

/**
 * The command that removes what has the path, whole, to be pasted into a shell: `rm PATH`, quoted where the
 * shell would read something else in it, with -r for a directory. A path that cannot be shown, or would
 * not fit the sentence, is told by its inode: `find DIRECTORY -xdev -maxdepth 1 -inum N -delete`.
 */
struct eplb_shm_removal eplb_shm_removal(const char *path);

#endif
