/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Named shared memory that a crash cannot leave in anyone's way.
 *
 * A segment is built without a name (O_TMPFILE), reserved (posix_fallocate: a full file system is a
 * sentence, never SIGBUS), filled by its maker, and only then linked under its name. So nobody ever
 * sees an unfinished one, and a maker that dies before leaves nothing.
 *
 * Its owner holds an open-file-description lock on it for as long as it maps it: alive means that the
 * lock is held. The mapping is kept out of forked children, which would hold the lock on, and nobody forks
 * while it is made (os/fork.h).
 *
 * Names are <directory>/eplb.<uid>.<instance>.<part>. Linking, opening and unlinking run under the
 * user's generation lock, the file eplb.<uid>.lock (see shm/lock.h).
 *
 * Nothing that is found under a name is trusted: an opener checks file type, owner, size, magic,
 * version, kind and payload size before it maps anything. What is of another layout is refused,
 * whoever owns it, with what was found, what was expected and how to remove it; it is never resized,
 * cleared or unlinked here. One that is of this layout and whose owner is dead is removed at build, before
 * anything is reserved, or replaced at publish.
 */
#ifndef SHM_SEGMENT_H
#define SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"
#include "os/process.h"
#include "shm/layout.h"

/** Where segments live unless told otherwise. */
#define EPLB_SHM_DIRECTORY "/dev/shm"

/** Longest instance name and part name: letters, digits, '-' and '_', at least one. */
#define EPLB_SEGMENT_WORD 32

/** Room for a path of a segment, with its terminating zero. */
#define EPLB_SEGMENT_PATH 512

/** Which segment. */
struct eplb_segment_name {
    const char *directory; /* NULL: EPLB_SHM_DIRECTORY */
    const char *instance;  /* 1 to EPLB_SEGMENT_WORD letters, digits, '-', '_' */
    const char *part;      /* likewise; "group", "rank0", ... */
};

/** EPLB_INVALID with a sentence that names the value and the flag --instance_name. */
enum eplb_status eplb_instance_name_check(const char *instance, struct eplb_error *error);

/** Writes the path. EPLB_INVALID when a word is not allowed or the whole is too long. */
enum eplb_status eplb_segment_path(const struct eplb_segment_name *name, char path[EPLB_SEGMENT_PATH],
                                   struct eplb_error *error);

/** Who made it, as the header says. */
void eplb_segment_owner_of(const struct eplb_segment_header *header, struct eplb_process_id *owner);

struct eplb_segment;

/**
 * Builds a segment without a name, zeroed, mapped, reserved to the last byte, locked.
 *
 * The name is looked at first, so that a run which cannot have it is told before it reserves anything. What
 * a dead owner has left under it is removed: a run that starts again needs its memory once.
 *
 * @param payload_bytes > 0; rounded up to EPLB_SEGMENT_ALIGN
 * @param segment       receives it; free it with eplb_segment_close
 * @return EPLB_OK; EPLB_IN_USE when a live owner has the name (owner's pid, and --instance_name, are in
 *         the sentence; when the owner is gone and something else holds its lock, that is waited for
 *         first, 2 s); EPLB_LAYOUT when something of another layout has it; EPLB_IO when the memory
 *         cannot be reserved (path, size and what is free are named, and what this user's dead segments
 *         hold) or the directory cannot be used;
 *         EPLB_NO_MEMORY
 */
enum eplb_status eplb_segment_build(const struct eplb_segment_name *name, enum eplb_segment_kind kind,
                                    size_t payload_bytes, struct eplb_segment **segment,
                                    struct eplb_error *error);

/**
 * Gives a filled segment its name. A dead owner's segment of this layout that has the name is replaced.
 *
 * @param generation 0: takes the next one of this user; else the one of a segment published before, of
 *                   the same run
 * @return EPLB_OK; as eplb_segment_build: the segment then stays without a name
 */
enum eplb_status eplb_segment_publish(struct eplb_segment *segment, uint64_t generation,
                                      struct eplb_error *error);

/**
 * Opens and maps the segment of that name, which a live owner has published.
 *
 * @param generation    the one that it must have; 0: any
 * @param payload_bytes what its payload must have, rounded up as at build; 0: any
 * @return EPLB_OK; EPLB_INVALID when there is none of that name; EPLB_LAYOUT with found and expected
 *         values; EPLB_INCONSISTENT when it is of another generation; EPLB_REFUSED when its owner is dead;
 *         EPLB_IO, EPLB_NO_MEMORY when it cannot be mapped. Nothing is changed in any case
 */
enum eplb_status eplb_segment_open(const struct eplb_segment_name *name, enum eplb_segment_kind kind,
                                   uint64_t generation, size_t payload_bytes, struct eplb_segment **segment,
                                   struct eplb_error *error);

/** The payload: aligned to a page, shared, writable. */
void *eplb_segment_payload(const struct eplb_segment *segment);
size_t eplb_segment_payload_bytes(const struct eplb_segment *segment);
uint64_t eplb_segment_generation(const struct eplb_segment *segment);
const char *eplb_segment_path_of(const struct eplb_segment *segment);

/** Whether the owner holds its lock. For openers; one fcntl, any thread. */
bool eplb_segment_owner_lives(const struct eplb_segment *segment);

/**
 * Unmaps and frees. The owner of a published one unlinks the name first, if it still is this
 * segment's; an opener never unlinks. Waits for the generation lock at most EPLB_LOCK_PATIENCE_NS, and after
 * a wait in vain not at all until it was had again; without it the name stays, which the next run of this
 * name replaces. In a forked child it frees what is the
 * child's and touches nothing else. NULL is allowed.
 */
void eplb_segment_close(struct eplb_segment *segment);

#endif
