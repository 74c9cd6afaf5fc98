/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"

enum {
    /* A reservation that a signal interrupts is undone and begun again: in steps, so that it comes to an
     * end whatever the signals' rate. */
    STEP_BYTES = 16 << 20,
    MEMINFO_BYTES = 4096, /* the lines that are read are among the first */
};

/* ---- what is there ---- */

/* Bytes that the file system can still give; UINT64_MAX when it does not say, as a tmpfs without a limit. */
static uint64_t bytes_free(int descriptor)
{
    struct statvfs space;
    if (fstatvfs(descriptor, &space) != 0 || space.f_blocks == 0)
        return UINT64_MAX;
    return (uint64_t)space.f_bavail * space.f_frsize;
}

static bool is_memory(int descriptor)
{
    struct statfs system;
    return fstatfs(descriptor, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

/* The value of a line "name: number kB", in bytes. */
static uint64_t line_bytes(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line == NULL ? 0 : strtoull(line + strlen(name), NULL, 10) * 1024;
}

/* Memory and swap that can be had without taking it from anyone; UINT64_MAX when the system does not say. */
static uint64_t memory_available(void)
{
    char text[MEMINFO_BYTES];
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return UINT64_MAX;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    uint64_t memory = line_bytes(text, "MemAvailable:");
    return memory == 0 ? UINT64_MAX : memory + line_bytes(text, "SwapFree:");
}

uint64_t eplb_shm_file_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX
                                                                                   : limit.rlim_cur;
}

/* ---- refusing ---- */

static enum eplb_status refuse(size_t bytes, uint64_t left, const char *reason, const char *path,
                               struct eplb_error *error)
{
    if (left == UINT64_MAX)
        EPLB_FAIL(EPLB_IO, "shared memory of %zu bytes cannot be reserved: %s: %s", bytes, reason, path);
    EPLB_FAIL(EPLB_IO, "shared memory of %zu bytes cannot be reserved, %llu bytes are free: %s: %s", bytes,
              (unsigned long long)left, reason, path);
}

enum eplb_status eplb_shm_check_memory(size_t bytes, const char *path, struct eplb_error *error)
{
    uint64_t left = memory_available();
    if (bytes > left)
        return refuse(bytes, left, strerror(ENOMEM), path, error);
    return EPLB_OK;
}

/* ---- reserving ---- */

/* 0, or why not. */
static int reserve_in_steps(int descriptor, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t step = bytes - done < STEP_BYTES ? bytes - done : STEP_BYTES;
        int reason = posix_fallocate(descriptor, (off_t)done, (off_t)step);
        if (reason != 0 && reason != EINTR)
            return reason;
        done += reason == 0 ? step : 0;
    }
    return 0;
}

enum eplb_status eplb_shm_reserve(int descriptor, size_t bytes, const char *path, struct eplb_error *error)
{
    uint64_t most = eplb_shm_file_limit();
    if (bytes > most)
        EPLB_FAIL(EPLB_IO,
                  "shared memory of %zu bytes cannot be reserved, files of this process may have %llu "
                  "(RLIMIT_FSIZE): %s",
                  bytes, (unsigned long long)most, path);
    uint64_t left = bytes_free(descriptor);
    if (bytes > left)
        return refuse(bytes, left, strerror(ENOSPC), path, error);
    if (is_memory(descriptor))
        EPLB_TRY(eplb_shm_check_memory(bytes, path, error));
    int reason = ftruncate(descriptor, (off_t)bytes) == 0 ? reserve_in_steps(descriptor, bytes) : errno;
    if (reason != 0) {
        /* Given back at once, so that what is free is said without it. */
        (void)!ftruncate(descriptor, 0);
        return refuse(bytes, bytes_free(descriptor), strerror(reason), path, error);
    }
    return EPLB_OK;
}
