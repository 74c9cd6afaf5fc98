/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/clock.h"
#include "shm/name.h"
#include "shm/nameless.h"
#include "shm/reserve.h"

enum {
    FIRST_PAUSE_NS = 50000, /* the lock is held for some ten microseconds at a time */
    LONGEST_PAUSE_NS = 5000000,
    NS_PER_MS = 1000000,
};

static int64_t now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

/* ---- the file ---- */

static enum eplb_status check_mode(const struct stat *info, const char *path, struct eplb_error *error)
{
    unsigned mode = info->st_mode & 07777U;
    if (mode != 0600)
        EPLB_FAIL(EPLB_LAYOUT, "%s has mode %04o, expected 0600%s" EPLB_SHM_REMOVE, eplb_shm_base_name(path),
                  mode, (mode & (S_IRWXG | S_IRWXO)) != 0 ? ": others may hold it" : "",
                  eplb_shm_removal(path).text);
    return EPLB_OK;
}

/* Says what stands in the way of the lock file, or, if nothing does, what the system said. */
static enum eplb_status refuse_open(const char *path, int code, struct eplb_error *error)
{
    struct stat info;
    if (lstat(path, &info) == 0) {
        EPLB_TRY(eplb_shm_check_own_file(&info, path, error));
        EPLB_TRY(check_mode(&info, path, error));
    }
    EPLB_FAIL(EPLB_IO, "the lock of shared memory cannot be opened: %s: %s", strerror(code), path);
}

static enum eplb_status check_file(int fd, const char *path, struct eplb_error *error)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        EPLB_FAIL(EPLB_IO, "the lock of shared memory cannot be read: %s: %s", strerror(errno), path);
    EPLB_TRY(eplb_shm_check_own_file(&info, path, error));
    EPLB_TRY(check_mode(&info, path, error));
    if (info.st_nlink > 1)
        EPLB_FAIL(EPLB_LAYOUT, "%s has %lu names, expected one" EPLB_SHM_REMOVE, eplb_shm_base_name(path),
                  (unsigned long)info.st_nlink, eplb_shm_removal(path).text);
    return EPLB_OK;
}

/* Whole before it has its name: nobody ever meets one with the mode that a umask left. */
static enum eplb_status make_file(const char *directory, const char *path, struct eplb_error *error)
{
    int fd;
    bool taken; /* by another that was faster: as good */
    const char *what = "the lock of shared memory";
    EPLB_TRY(eplb_nameless_open(directory, what, path, &fd, error));
    enum eplb_status status = eplb_nameless_link(fd, what, path, &taken, error);
    close(fd);
    return status;
}

/* O_NONBLOCK: a named pipe must not make it wait for a writer. */
static int open_named(const char *path, int access)
{
    return open(path, access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static enum eplb_status open_file(const char *directory, const char *path, int *descriptor,
                                  struct eplb_error *error)
{
    int fd;
    while ((fd = open_named(path, O_RDWR)) < 0) {
        if (errno != ENOENT)
            return refuse_open(path, errno, error);
        EPLB_TRY(make_file(directory, path, error));
    }
    enum eplb_status status = check_file(fd, path, error);
    if (status != EPLB_OK) {
        close(fd);
        return status;
    }
    *descriptor = fd;
    return EPLB_OK;
}

static bool is_still_named(int fd, const char *path)
{
    struct stat held;
    struct stat named;
    return fstat(fd, &held) == 0 && lstat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

/* ---- the lock ---- */

static enum eplb_status name_holder(int fd, const char *path, int64_t patience, struct eplb_error *error)
{
    struct eplb_lock_record record;
    long long waited = patience / NS_PER_MS;
    if (pread(fd, &record, sizeof record, 0) == sizeof record && record.magic == EPLB_LOCK_MAGIC &&
        record.holder_pid != 0)
        EPLB_FAIL(EPLB_RANK_SILENT,
                  "process %llu has not let go of the lock of shared memory for %lld ms (is it stopped?): %s",
                  (unsigned long long)record.holder_pid, waited, path);
    EPLB_FAIL(EPLB_RANK_SILENT,
              "a process that has not signed has not let go of the lock of shared memory for %lld ms (is it "
              "stopped?): %s",
              waited, path);
}

static enum eplb_status wait_for_lock(int fd, const char *path, int64_t begin, int64_t patience,
                                      struct eplb_error *error)
{
    int64_t pause = FIRST_PAUSE_NS;
    for (;;) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
            return EPLB_OK;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            EPLB_FAIL(EPLB_IO, "the lock of shared memory cannot be taken: %s: %s", strerror(errno), path);
        if (now() - begin >= patience)
            return name_holder(fd, path, patience, error);
        struct timespec time = {.tv_nsec = (long)pause};
        (void)nanosleep(&time, NULL);
        pause = pause * 2 < LONGEST_PAUSE_NS ? pause * 2 : LONGEST_PAUSE_NS;
    }
}

/* Somebody may have removed the file by hand while it was waited for, and another have made a new one. */
static enum eplb_status lock_named_file(const char *directory, struct eplb_shm_lock *lock, int64_t begin,
                                        int64_t patience, struct eplb_error *error)
{
    for (;;) {
        EPLB_TRY(open_file(directory, lock->path, &lock->descriptor, error));
        enum eplb_status status = wait_for_lock(lock->descriptor, lock->path, begin, patience, error);
        if (status == EPLB_OK && is_still_named(lock->descriptor, lock->path))
            return EPLB_OK;
        close(lock->descriptor);
        if (status != EPLB_OK)
            return status;
    }
}

static enum eplb_status read_record(int fd, const char *path, struct eplb_lock_record *record,
                                    struct eplb_error *error)
{
    struct stat info;
    struct eplb_lock_record read = {.magic = EPLB_LOCK_MAGIC, .version = EPLB_SEGMENT_VERSION};
    const char *name = eplb_shm_base_name(path);
    if (fstat(fd, &info) != 0)
        EPLB_FAIL(EPLB_IO, "the lock of shared memory cannot be read: %s: %s", strerror(errno), path);
    if (info.st_size != 0 && info.st_size != EPLB_LOCK_BYTES)
        EPLB_FAIL(EPLB_LAYOUT, "%s has %lld bytes, expected %d" EPLB_SHM_REMOVE, name,
                  (long long)info.st_size, EPLB_LOCK_BYTES, eplb_shm_removal(path).text);
    if (info.st_size != 0 && pread(fd, &read, sizeof read, 0) != sizeof read)
        EPLB_FAIL(EPLB_IO, "the lock of shared memory cannot be read: %s: %s", strerror(errno), path);
    if (read.magic != EPLB_LOCK_MAGIC)
        EPLB_FAIL(EPLB_LAYOUT, "%s begins with %016llx, expected %016llx" EPLB_SHM_REMOVE, name,
                  (unsigned long long)read.magic, (unsigned long long)EPLB_LOCK_MAGIC,
                  eplb_shm_removal(path).text);
    if (read.version != EPLB_SEGMENT_VERSION)
        EPLB_FAIL(EPLB_LAYOUT, "%s is of layout version %llu, expected %d" EPLB_SHM_REMOVE, name,
                  (unsigned long long)read.version, EPLB_SEGMENT_VERSION, eplb_shm_removal(path).text);
    *record = read;
    return EPLB_OK;
}

static enum eplb_status write_record(struct eplb_shm_lock *lock, const struct eplb_lock_record *record,
                                     struct eplb_error *error)
{
    /* Asked, not tried: the system would end the process with SIGXFSZ. */
    bool allowed = eplb_shm_file_limit() >= sizeof *record;
    ssize_t written = allowed ? pwrite(lock->descriptor, record, sizeof *record, 0) : 0;
    if (written != sizeof *record)
        EPLB_FAIL(EPLB_IO, "the lock of shared memory cannot be written: %s: %s",
                  strerror(!allowed      ? EFBIG
                           : written < 0 ? errno
                                         : ENOSPC),
                  lock->path);
    lock->record = *record;
    return EPLB_OK;
}

/* Writes who holds it, if that can be written. */
static void sign(struct eplb_shm_lock *lock, pid_t holder)
{
    struct eplb_lock_record record = lock->record;
    record.holder_pid = (uint64_t)holder;
    (void)write_record(lock, &record, NULL);
}

static void let_go(struct eplb_shm_lock *lock)
{
    struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    EPLB_ASSERT(lock->descriptor >= 0);
    /* Said, not left to close: a child that another thread forked meanwhile holds the descriptor on. */
    (void)fcntl(lock->descriptor, F_OFD_SETLK, &whole);
    close(lock->descriptor);
    lock->descriptor = -1;
}

enum eplb_status eplb_shm_lock_take_within(const char *directory, int64_t patience,
                                           struct eplb_shm_lock *lock, struct eplb_error *error)
{
    struct eplb_shm_lock taken;
    int64_t begin = now();
    EPLB_TRY(eplb_shm_lock_path(directory, taken.path, error));
    EPLB_TRY(eplb_shm_directory(directory, &directory, error));
    EPLB_TRY(lock_named_file(directory, &taken, begin, patience, error));
    enum eplb_status status = read_record(taken.descriptor, taken.path, &taken.record, error);
    if (status != EPLB_OK) {
        let_go(&taken);
        return status;
    }
    sign(&taken, getpid());
    *lock = taken;
    return EPLB_OK;
}

enum eplb_status eplb_shm_lock_take(const char *directory, struct eplb_shm_lock *lock,
                                    struct eplb_error *error)
{
    return eplb_shm_lock_take_within(directory, EPLB_LOCK_PATIENCE_NS, lock, error);
}

enum eplb_status eplb_shm_lock_next(struct eplb_shm_lock *lock, uint64_t *generation,
                                    struct eplb_error *error)
{
    struct eplb_lock_record record = lock->record;
    if (record.generation == UINT64_MAX)
        EPLB_FAIL(EPLB_LAYOUT, "%s has given out its last generation, %llu" EPLB_SHM_REMOVE,
                  eplb_shm_base_name(lock->path), (unsigned long long)record.generation,
                  eplb_shm_removal(lock->path).text);
    record.generation++;
    record.holder_pid = (uint64_t)getpid();
    /* Written before it is given out: whatever happens then, nobody gets it a second time. */
    EPLB_TRY(write_record(lock, &record, error));
    *generation = record.generation;
    return EPLB_OK;
}

void eplb_shm_lock_release(struct eplb_shm_lock *lock)
{
    /* So that nobody is named who has let go; an empty file stays so. */
    if (lock->record.holder_pid != 0)
        sign(lock, 0);
    let_go(lock);
}

/* ---- looking ---- */

enum eplb_status eplb_shm_lock_check(const char *path, struct eplb_error *error)
{
    struct eplb_lock_record record;
    int fd = open_named(path, O_RDONLY);
    if (fd < 0)
        return refuse_open(path, errno, error);
    enum eplb_status status = check_file(fd, path, error);
    if (status == EPLB_OK)
        status = read_record(fd, path, &record, error);
    close(fd);
    return status;
}
