/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/clock.h"
#include "os/fork.h"
#include "shm/found.h"
#include "shm/listing.h"
#include "shm/lock.h"
#include "shm/name.h"
#include "shm/nameless.h"
#include "shm/reserve.h"

/* How long a lock is waited for whose owner is gone. */
#define ORPHAN_PATIENCE_NS (INT64_C(2) * 1000000000)

enum { ORPHAN_PAUSE_NS = 1000000 };

static const char shared_memory[] = "shared memory";

struct eplb_segment {
    char path[EPLB_SEGMENT_PATH];
    char directory[EPLB_SHM_DIRECTORY_BYTES + 1];
    unsigned char *base; /* header and payload; the mapping of an owner holds the owner's lock */
    size_t bytes;
    uint64_t generation; /* 0: none yet */
    pid_t process;       /* that mapped it */
    bool is_owner;
    bool is_published;
    /* Holds no lock. The owner's: to be linked, then -1. An opener's: asks for the owner's lock. */
    int descriptor;
    dev_t device;
    ino_t inode;
};

/* ---- a segment as an object ---- */

static enum eplb_status make(const struct eplb_segment_name *name, const char *path,
                             struct eplb_segment **segment, struct eplb_error *error)
{
    const char *directory;
    EPLB_TRY(eplb_shm_directory(name->directory, &directory, error));
    struct eplb_segment *made = calloc(1, sizeof *made);
    if (made == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a hold on shared memory: %s", path);
    snprintf(made->path, sizeof made->path, "%s", path);
    snprintf(made->directory, sizeof made->directory, "%s", directory);
    made->descriptor = -1;
    made->process = getpid();
    *segment = made;
    return EPLB_OK;
}

/* Maps the file at once out of the reach of forked children. */
static enum eplb_status map(struct eplb_segment *segment, int fd, struct eplb_error *error)
{
    void *base = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        EPLB_FAIL(errno == ENOMEM ? EPLB_NO_MEMORY : EPLB_IO,
                  "shared memory of %zu bytes cannot be mapped: %s: %s", segment->bytes, strerror(errno),
                  segment->path);
    if (madvise(base, segment->bytes, MADV_DONTFORK) != 0) {
        int code = errno;
        munmap(base, segment->bytes);
        EPLB_FAIL(EPLB_IO, "shared memory cannot be kept out of forked children: %s: %s", strerror(code),
                  segment->path);
    }
    segment->base = base;
    return EPLB_OK;
}

static struct eplb_segment_header *header_of(const struct eplb_segment *segment)
{
    return (struct eplb_segment_header *)segment->base;
}

/* ---- whether the name can be had ---- */

/* What was found under the name that is wanted. */
struct claim {
    bool is_dead;       /* nobody holds it */
    bool owner_is_gone; /* somebody does, and not who made it */
};

static enum eplb_status refuse_live(const char *path, const struct eplb_segment_header *header,
                                    struct claim *claim, struct eplb_error *error)
{
    char instance[EPLB_SEGMENT_WORD + 1];
    char part[EPLB_SEGMENT_WORD + 1];
    struct eplb_process_id owner;
    eplb_segment_owner_of(header, &owner);
    (void)eplb_segment_name_split(eplb_shm_base_name(path), instance, part);
    int seen = eplb_process_seen(&owner);
    const char *remark = "";
    claim->owner_is_gone = seen == 0;
    if (seen == 0)
        remark = ", which has ended, but something else holds its lock";
    else if (seen < 0)
        remark = " of another pid namespace";
    EPLB_FAIL(EPLB_IN_USE,
              "the instance name '%s' is in use by process %lld%s; choose another --instance_name: %s",
              instance, (long long)owner.pid, remark, path);
}

/* Under the lock, or to tell early what will be told under it. */
static enum eplb_status check_name(const char *path, struct claim *claim, struct eplb_error *error)
{
    struct eplb_found found;
    EPLB_TRY(eplb_found_look(path, false, &found, error));
    eplb_found_close(&found);
    *claim = (struct claim){.is_dead = found.state == EPLB_FOUND_DEAD};
    if (found.state == EPLB_FOUND_FOREIGN)
        EPLB_FAIL(EPLB_LAYOUT, "%s", found.why);
    if (found.state == EPLB_FOUND_LIVE)
        return refuse_live(path, &found.header, claim, error);
    return EPLB_OK;
}

/* A dead one's name and memory, of whatever options: its owner's lock is free, so nobody loses anything. */
static enum eplb_status remove_dead(const char *path, struct eplb_error *error)
{
    if (unlink(path) != 0 && errno != ENOENT)
        EPLB_FAIL(EPLB_IO, "a dead process's shared memory cannot be removed: %s: %s", strerror(errno), path);
    return EPLB_OK;
}

/*
 * A dead one is removed before the new one is reserved, so that a run which starts again needs the memory
 * once.
 *
 * A child that the owner was starting when it was killed (posix_spawn, popen: anything that begins with
 * vfork) shares its memory, and with that its lock, until it runs a program of its own. So a lock whose
 * owner is gone is waited for. Nothing is decided by that: the lock decides, then as now.
 */
static enum eplb_status check_name_early(const struct eplb_segment_name *name, const char *path,
                                         struct eplb_error *error)
{
    const struct eplb_clock *clock = eplb_clock_system();
    const struct timespec pause = {.tv_nsec = ORPHAN_PAUSE_NS};
    int64_t deadline = clock->now(clock->context) + ORPHAN_PATIENCE_NS;
    for (;;) {
        struct eplb_shm_lock lock;
        struct claim claim = {.is_dead = false};
        EPLB_TRY(eplb_shm_lock_take(name->directory, &lock, error));
        enum eplb_status status = check_name(path, &claim, error);
        if (claim.is_dead)
            status = remove_dead(path, error);
        eplb_shm_lock_release(&lock);
        if (!claim.owner_is_gone || clock->now(clock->context) >= deadline)
            return status;
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- building ---- */

static enum eplb_status open_nameless(struct eplb_segment *segment, struct eplb_error *error)
{
    struct stat info;
    EPLB_TRY(
        eplb_nameless_open(segment->directory, shared_memory, segment->path, &segment->descriptor, error));
    if (fstat(segment->descriptor, &info) != 0)
        EPLB_FAIL(EPLB_IO, "shared memory cannot be made: %s: %s", strerror(errno), segment->path);
    segment->device = info.st_dev;
    segment->inode = info.st_ino;
    return EPLB_OK;
}

static enum eplb_status reserve(const struct eplb_segment *segment, struct eplb_error *error)
{
    struct eplb_error lack;
    if (eplb_shm_reserve(segment->descriptor, segment->bytes, segment->path, &lack) == EPLB_OK)
        return EPLB_OK;
    uint64_t dead = eplb_segment_dead_bytes(segment->directory);
    if (dead > 0)
        EPLB_FAIL(lack.status, "%s; dead segments hold %llu bytes, which eplb shm clean removes", lack.text,
                  (unsigned long long)dead);
    EPLB_FAIL(lack.status, "%s", lack.text);
}

/* The lock belongs to a description that in the end only the mapping keeps. */
static enum eplb_status map_and_lock(struct eplb_segment *segment, struct eplb_error *error)
{
    char link[EPLB_DESCRIPTOR_PATH];
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(eplb_descriptor_path(segment->descriptor, link), O_RDWR | O_CLOEXEC);
    if (fd < 0)
        EPLB_FAIL(EPLB_IO, "shared memory cannot be opened through %s: %s%s: %s", link, strerror(errno),
                  eplb_descriptor_hint(errno), segment->path);
    enum eplb_status status = map(segment, fd, error);
    if (status == EPLB_OK && fcntl(fd, F_OFD_SETLK, &whole) != 0)
        status = eplb_fail(error, EPLB_IO, "shared memory cannot be locked: %s: %s", strerror(errno),
                           segment->path);
    close(fd);
    return status;
}

/*
 * A child that was forked before the mapping is out of its reach, or the descriptor closed, would hold the
 * lock on for as long as it lives. So nobody forks meanwhile.
 */
static enum eplb_status hold(struct eplb_segment *segment, struct eplb_error *error)
{
    struct eplb_fork_pause pause;
    EPLB_TRY(eplb_fork_hold_off(&pause, error));
    enum eplb_status status = map_and_lock(segment, error);
    eplb_fork_let_go(&pause);
    return status;
}

static void write_header(struct eplb_segment *segment, enum eplb_segment_kind kind)
{
    struct eplb_process_id owner;
    eplb_process_identify(&owner);
    struct eplb_segment_header *header = header_of(segment);
    header->magic = EPLB_SEGMENT_MAGIC;
    header->version = EPLB_SEGMENT_VERSION;
    header->kind = kind;
    header->payload_bytes = segment->bytes - EPLB_SEGMENT_ALIGN;
    header->owner_pid = (uint64_t)owner.pid;
    header->owner_start_time = owner.start_time;
    header->owner_pid_namespace = owner.pid_namespace;
    memcpy(header->owner_boot_id, owner.boot_id, sizeof owner.boot_id);
}

static enum eplb_status round_up(size_t payload_bytes, const char *path, size_t *rounded,
                                 struct eplb_error *error)
{
    const size_t most = (size_t)INT64_MAX - 2 * (size_t)EPLB_SEGMENT_ALIGN;
    if (payload_bytes > most)
        EPLB_FAIL(EPLB_IO, "shared memory of %zu bytes cannot be reserved, at most %zu are possible: %s",
                  payload_bytes, most, path);
    *rounded = (payload_bytes + EPLB_SEGMENT_ALIGN - 1) / EPLB_SEGMENT_ALIGN * EPLB_SEGMENT_ALIGN;
    return EPLB_OK;
}

enum eplb_status eplb_segment_build(const struct eplb_segment_name *name, enum eplb_segment_kind kind,
                                    size_t payload_bytes, struct eplb_segment **segment,
                                    struct eplb_error *error)
{
    char path[EPLB_SEGMENT_PATH];
    size_t rounded = 0;
    struct eplb_segment *made;
    EPLB_ASSERT(payload_bytes > 0 && eplb_segment_kind_text(kind) != NULL);
    EPLB_TRY(eplb_segment_path(name, path, error));
    EPLB_TRY(round_up(payload_bytes, path, &rounded, error));
    EPLB_TRY(check_name_early(name, path, error));
    EPLB_TRY(make(name, path, &made, error));
    made->is_owner = true;
    made->bytes = EPLB_SEGMENT_ALIGN + rounded;
    enum eplb_status status = open_nameless(made, error);
    if (status == EPLB_OK)
        status = reserve(made, error);
    if (status == EPLB_OK)
        status = hold(made, error);
    if (status != EPLB_OK) {
        eplb_segment_close(made);
        return status;
    }
    write_header(made, kind);
    *segment = made;
    return EPLB_OK;
}

/* ---- publishing ---- */

static enum eplb_status give_name(const struct eplb_segment *segment, bool replaces_dead,
                                  struct eplb_error *error)
{
    bool taken;
    if (replaces_dead)
        EPLB_TRY(remove_dead(segment->path, error));
    EPLB_TRY(eplb_nameless_link(segment->descriptor, shared_memory, segment->path, &taken, error));
    /* Not by anybody who heeds the lock. */
    if (taken)
        EPLB_FAIL(EPLB_IO, "shared memory cannot be given its name: %s: %s", strerror(EEXIST), segment->path);
    return EPLB_OK;
}

static enum eplb_status publish_locked(struct eplb_segment *segment, struct eplb_shm_lock *lock,
                                       uint64_t generation, struct eplb_error *error)
{
    struct claim claim;
    EPLB_TRY(check_name(segment->path, &claim, error));
    if (generation == 0)
        EPLB_TRY(eplb_shm_lock_next(lock, &generation, error));
    header_of(segment)->generation = generation;
    EPLB_TRY(give_name(segment, claim.is_dead, error));
    segment->generation = generation;
    segment->is_published = true;
    return EPLB_OK;
}

enum eplb_status eplb_segment_publish(struct eplb_segment *segment, uint64_t generation,
                                      struct eplb_error *error)
{
    struct eplb_shm_lock lock;
    EPLB_ASSERT(segment->is_owner && !segment->is_published);
    EPLB_TRY(eplb_shm_lock_take(segment->directory, &lock, error));
    enum eplb_status status = publish_locked(segment, &lock, generation, error);
    eplb_shm_lock_release(&lock);
    if (status == EPLB_OK) {
        close(segment->descriptor);
        segment->descriptor = -1;
    }
    return status;
}

/* ---- opening ---- */

struct wanted {
    enum eplb_segment_kind kind;
    uint64_t generation;  /* 0: any */
    size_t payload_bytes; /* 0: any */
};

static enum eplb_status check_found(const char *path, const struct eplb_found *found,
                                    const struct wanted *wanted, struct eplb_error *error)
{
    const struct eplb_segment_header *header = &found->header;
    const char *name = eplb_shm_base_name(path);
    if (found->state == EPLB_FOUND_NOTHING)
        EPLB_FAIL(EPLB_INVALID, "there is no such shared memory: %s", path);
    if (found->state == EPLB_FOUND_FOREIGN)
        EPLB_FAIL(EPLB_LAYOUT, "%s", found->why);
    if (header->kind != wanted->kind)
        EPLB_FAIL(EPLB_LAYOUT, "%s holds a %s, expected a %s" EPLB_SHM_REMOVE, name,
                  eplb_segment_kind_text(header->kind), eplb_segment_kind_text(wanted->kind),
                  eplb_shm_removal(path).text);
    if (wanted->payload_bytes != 0 && header->payload_bytes != wanted->payload_bytes)
        EPLB_FAIL(EPLB_LAYOUT,
                  "%s has a payload of %llu bytes, expected %zu: it is of other options" EPLB_SHM_REMOVE,
                  name, (unsigned long long)header->payload_bytes, wanted->payload_bytes,
                  eplb_shm_removal(path).text);
    if (wanted->generation != 0 && header->generation != wanted->generation)
        EPLB_FAIL(EPLB_INCONSISTENT, "shared memory is of generation %llu, expected %llu: another run's: %s",
                  (unsigned long long)header->generation, (unsigned long long)wanted->generation, path);
    if (found->state == EPLB_FOUND_DEAD)
        EPLB_FAIL(EPLB_REFUSED, "process %llu, which made this shared memory, has ended: %s",
                  (unsigned long long)header->owner_pid, path);
    return EPLB_OK;
}

static enum eplb_status take_over(struct eplb_segment *segment, struct eplb_found *found,
                                  const struct wanted *wanted, struct eplb_error *error)
{
    EPLB_TRY(check_found(segment->path, found, wanted, error));
    if (found->file_bytes > SIZE_MAX)
        EPLB_FAIL(EPLB_NO_MEMORY, "shared memory of %llu bytes cannot be mapped: %s",
                  (unsigned long long)found->file_bytes, segment->path);
    segment->bytes = (size_t)found->file_bytes;
    EPLB_TRY(map(segment, found->descriptor, error));
    segment->generation = found->header.generation;
    segment->descriptor = found->descriptor;
    found->descriptor = -1;
    return EPLB_OK;
}

static enum eplb_status open_locked(struct eplb_segment *segment, const struct wanted *wanted,
                                    struct eplb_error *error)
{
    struct eplb_found found;
    EPLB_TRY(eplb_found_look(segment->path, true, &found, error));
    enum eplb_status status = take_over(segment, &found, wanted, error);
    eplb_found_close(&found);
    return status;
}

enum eplb_status eplb_segment_open(const struct eplb_segment_name *name, enum eplb_segment_kind kind,
                                   uint64_t generation, size_t payload_bytes, struct eplb_segment **segment,
                                   struct eplb_error *error)
{
    char path[EPLB_SEGMENT_PATH];
    struct eplb_shm_lock lock;
    struct eplb_segment *made;
    struct wanted wanted = {.kind = kind, .generation = generation};
    EPLB_ASSERT(eplb_segment_kind_text(kind) != NULL);
    EPLB_TRY(eplb_segment_path(name, path, error));
    EPLB_TRY(round_up(payload_bytes, path, &wanted.payload_bytes, error));
    EPLB_TRY(make(name, path, &made, error));
    enum eplb_status status = eplb_shm_lock_take(name->directory, &lock, error);
    if (status == EPLB_OK) {
        status = open_locked(made, &wanted, error);
        eplb_shm_lock_release(&lock);
    }
    if (status != EPLB_OK) {
        eplb_segment_close(made);
        return status;
    }
    *segment = made;
    return EPLB_OK;
}

/* ---- holding ---- */

void *eplb_segment_payload(const struct eplb_segment *segment)
{
    return segment->base + EPLB_SEGMENT_ALIGN;
}

size_t eplb_segment_payload_bytes(const struct eplb_segment *segment)
{
    return segment->bytes - EPLB_SEGMENT_ALIGN;
}

uint64_t eplb_segment_generation(const struct eplb_segment *segment)
{
    return segment->generation;
}

const char *eplb_segment_path_of(const struct eplb_segment *segment)
{
    return segment->path;
}

void eplb_segment_owner_of(const struct eplb_segment_header *header, struct eplb_process_id *owner)
{
    *owner = (struct eplb_process_id){.pid = (int64_t)header->owner_pid,
                                      .start_time = header->owner_start_time,
                                      .pid_namespace = header->owner_pid_namespace};
    memcpy(owner->boot_id, header->owner_boot_id, sizeof owner->boot_id);
}

bool eplb_segment_owner_lives(const struct eplb_segment *segment)
{
    return segment->is_owner || eplb_found_is_locked(segment->descriptor);
}

/* ---- giving up ---- */

/*
 * Whether the last wait for the lock of any close was in vain. Its holder is stopped then, and a process that
 * closes many segments would wait for it as often.
 */
static _Atomic bool waited_in_vain;

static enum eplb_status take_lock_to_close(const char *directory, struct eplb_shm_lock *lock)
{
    /* Relaxed, all: it decides only how long to wait. */
    bool vain = atomic_load_explicit(&waited_in_vain, memory_order_relaxed);
    enum eplb_status status =
        eplb_shm_lock_take_within(directory, vain ? 0 : EPLB_LOCK_PATIENCE_NS, lock, NULL);
    if (status == EPLB_OK || status == EPLB_RANK_SILENT)
        atomic_store_explicit(&waited_in_vain, status != EPLB_OK, memory_order_relaxed);
    return status;
}

/* A name that stays, because the lock cannot be had, is a dead segment's, which the next run replaces. */
static void take_name(const struct eplb_segment *segment)
{
    struct eplb_shm_lock lock;
    struct stat named;
    if (take_lock_to_close(segment->directory, &lock) != EPLB_OK)
        return;
    if (lstat(segment->path, &named) == 0 && named.st_dev == segment->device &&
        named.st_ino == segment->inode)
        (void)unlink(segment->path);
    eplb_shm_lock_release(&lock);
}

void eplb_segment_close(struct eplb_segment *segment)
{
    if (segment == NULL)
        return;
    /* A forked child has neither the mapping, whose place may be taken by now, nor a right to the name. */
    bool is_mine = segment->process == getpid();
    if (is_mine && segment->is_published)
        take_name(segment);
    if (is_mine && segment->base != NULL)
        munmap(segment->base, segment->bytes);
    if (segment->descriptor >= 0)
        close(segment->descriptor);
    free(segment);
}
