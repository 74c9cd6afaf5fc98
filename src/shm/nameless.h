/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Files that are made without a name, and get it when they are whole.
 */
#ifndef SHM_NAMELESS_H
#define SHM_NAMELESS_H

#include <stdbool.h>

#include "eplb/status.h"

/**
 * Makes an empty file without a name, with mode 0600 whatever the umask.
 *
 * @param what for the sentence, as is the path: "shared memory"
 * @return EPLB_OK; EPLB_IO
 */
enum eplb_status eplb_nameless_open(const char *directory, const char *what, const char *path,
                                    int *descriptor, struct eplb_error *error);

/**
 * Gives the file its name, unless something has it.
 *
 * @param taken receives whether something has it
 * @return EPLB_OK also when it is taken; EPLB_IO
 */
enum eplb_status eplb_nameless_link(int descriptor, const char *what, const char *path, bool *taken,
                                    struct eplb_error *error);

/** Room for the path of a descriptor below /proc. */
#define EPLB_DESCRIPTOR_PATH 64

/** Writes the path under which a file can be opened anew that this process has open. Returns path. */
const char *eplb_descriptor_path(int descriptor, char path[EPLB_DESCRIPTOR_PATH]);

/** What an error on such a path means: " (is /proc mounted?)" when it is not there, else "". */
const char *eplb_descriptor_hint(int code);

#endif
