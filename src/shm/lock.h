/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The generation lock: one file per user, <directory>/eplb.<uid>.lock. Under it segments get and lose
 * their names, and it holds the generation counter. It is the one name that stays.
 *
 * The lock is the kernel's (an open-file-description lock), so a holder that dies frees it. A holder
 * that is stopped is waited for, then named. It is held for a few system calls at a time.
 *
 * The content is one record of EPLB_LOCK_BYTES, written by a single pwrite, which no kill splits.
 */
#ifndef SHM_LOCK_H
#define SHM_LOCK_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"
#include "shm/segment.h"

#define EPLB_LOCK_MAGIC UINT64_C(0x004b434c424c5045) /* "EPLBLCK" and a zero */
#define EPLB_LOCK_BYTES 64

/** Longest wait for the holder. */
#define EPLB_LOCK_PATIENCE_NS (INT64_C(5) * 1000000000)

/** The file's content; an empty file counts as zeros with the right magic and version. */
struct eplb_lock_record {
    uint64_t magic;
    uint64_t version;    /* EPLB_SEGMENT_VERSION */
    uint64_t generation; /* the last one given out */
    uint64_t holder_pid; /* who holds the lock: for the message; 0: nobody, or who has not signed */
    uint64_t reserved[4];
};

_Static_assert(sizeof(struct eplb_lock_record) == EPLB_LOCK_BYTES, "layout of the lock file");

struct eplb_shm_lock {
    int descriptor;
    struct eplb_lock_record record; /* as the file has it */
    char path[EPLB_SEGMENT_PATH];
};

/**
 * Takes the lock; makes the file if there is none. Threads of one process exclude each other too.
 *
 * The holder signs with its pid if it can: a full file system, on which an empty file cannot be written,
 * keeps nobody from looking and removing. Only eplb_shm_lock_next must write.
 *
 * @param directory NULL: EPLB_SHM_DIRECTORY
 * @return EPLB_OK; EPLB_RANK_SILENT with the holder's pid when it does not let go within
 *         EPLB_LOCK_PATIENCE_NS; EPLB_LAYOUT when the name is not a regular file of this user with mode 0600
 *         and one name, or its content is not such a record (it is not changed); EPLB_INVALID when the
 *         directory's path is too long; EPLB_IO
 */
enum eplb_status eplb_shm_lock_take(const char *directory, struct eplb_shm_lock *lock,
                                    struct eplb_error *error);

/** As eplb_shm_lock_take, with another patience. */
enum eplb_status eplb_shm_lock_take_within(const char *directory, int64_t patience_ns,
                                           struct eplb_shm_lock *lock, struct eplb_error *error);

/** Counts on: writes and returns the next generation. EPLB_IO, then nothing was given out. */
enum eplb_status eplb_shm_lock_next(struct eplb_shm_lock *lock, uint64_t *generation,
                                    struct eplb_error *error);

/** Takes the signature back and lets go. */
void eplb_shm_lock_release(struct eplb_shm_lock *lock);

/** Whether the file at the lock's path is as eplb_shm_lock_take wants it, without taking it: EPLB_OK, or what
 * it would say. Changes nothing. */
enum eplb_status eplb_shm_lock_check(const char *path, struct eplb_error *error);

#endif
