/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What stands under a name, looked at without trusting it: nothing is followed, mapped or changed, and a
 * named pipe makes nobody wait.
 */
#ifndef SHM_FOUND_H
#define SHM_FOUND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "eplb/status.h"
#include "shm/layout.h"

enum eplb_found_state {
    EPLB_FOUND_NOTHING, /* the name is free */
    EPLB_FOUND_LIVE,    /* a segment of this layout, and its owner holds the lock */
    EPLB_FOUND_DEAD,    /* a segment of this layout, and nobody does */
    EPLB_FOUND_FOREIGN, /* anything else: see `why` */
};

struct eplb_found {
    enum eplb_found_state state;
    int descriptor; /* of the file, or -1; holds no lock */
    dev_t device;
    ino_t inode;
    uint64_t file_bytes;
    struct eplb_segment_header header; /* as far as the file has it; the rest zeros */
    char why[EPLB_ERROR_TEXT];         /* FOREIGN: what was found and expected, and how to remove it */
};

/**
 * Looks. What lives or is dead stays so while the generation lock is held, but for the owner's death.
 *
 * @param is_writable whether the descriptor can be mapped for writing
 * @param found       receives what there is; to be closed on EPLB_OK
 * @return EPLB_OK; EPLB_IO when the directory or the file cannot be read
 */
enum eplb_status eplb_found_look(const char *path, bool is_writable, struct eplb_found *found,
                                 struct eplb_error *error);

void eplb_found_close(struct eplb_found *found);

/** Whether another open file description holds a lock on this one's file. One fcntl. */
bool eplb_found_is_locked(int descriptor);

/** The name of a kind of payload; NULL for a number that is none. */
const char *eplb_segment_kind_text(uint32_t kind);

#endif
