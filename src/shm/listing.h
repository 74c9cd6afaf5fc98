/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What lies in the directory of segments under a user's names: for people who look, and for cleaning up.
 */
#ifndef SHM_LISTING_H
#define SHM_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"
#include "os/process.h"
#include "shm/layout.h"
#include "shm/segment.h"

enum eplb_segment_state {
    EPLB_SEGMENT_LIVE,    /* of this layout, and its owner holds the lock */
    EPLB_SEGMENT_DEAD,    /* of this layout, and nobody does */
    EPLB_SEGMENT_FOREIGN, /* of another layout, or damaged: see `why` */
};

struct eplb_segment_info {
    char path[EPLB_SEGMENT_PATH];
    char instance[EPLB_SEGMENT_WORD + 1]; /* "" when the name is not of ours */
    char part[EPLB_SEGMENT_WORD + 1];
    enum eplb_segment_state state;
    uint64_t file_bytes;
    struct eplb_segment_header header; /* as far as the file has it; the rest zeros */
    struct eplb_process_id owner;      /* from the header */
    char why[EPLB_ERROR_TEXT];         /* FOREIGN: found and expected values; "" else */
};

/** Looks at one name, without the lock. EPLB_INVALID when there is nothing; EPLB_IO. Changes nothing. */
enum eplb_status eplb_segment_look(const char *path, struct eplb_segment_info *info,
                                   struct eplb_error *error);

/**
 * All names that begin with eplb.<uid of this user>. but the lock's, sorted by name. Changes nothing.
 *
 * @param directory NULL: EPLB_SHM_DIRECTORY
 * @param infos receives an array, to be freed with free(); NULL when there is none
 */
enum eplb_status eplb_segment_list(const char *directory, struct eplb_segment_info **infos, size_t *count,
                                   struct eplb_error *error);

/** Bytes that the user's dead segments hold; 0 also when they cannot be listed. Changes nothing. */
uint64_t eplb_segment_dead_bytes(const char *directory);

/**
 * Unlinks the segment if it is still of this layout and dead, under the generation lock.
 *
 * @param removed whether it was; a live or foreign one is left as it is, and so is one that has gone or
 *                whose name is not this user's
 */
enum eplb_status eplb_segment_remove_dead(const char *path, bool *removed, struct eplb_error *error);

#endif
