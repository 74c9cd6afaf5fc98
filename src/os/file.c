/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

enum {
    FIRST_CAPACITY = 65536,
    /* ".<pid>.<counter>.tmp", a 64-bit and a 32-bit number. */
    SUFFIX_BYTES = 64,
    MAX_NAME_TRIES = 1000
};

/* Whoever gave the path can repair these; anything else is the machine's trouble. */
static enum eplb_status open_status(int code)
{
    switch (code) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case ELOOP:
    case ENAMETOOLONG:
        return EPLB_INVALID;
    default:
        return EPLB_IO;
    }
}

struct content {
    char *bytes;
    size_t length;
    size_t capacity;
};

static enum eplb_status reserve(struct content *content, size_t capacity, const char *path,
                                struct eplb_error *error)
{
    char *bytes = realloc(content->bytes, capacity);
    if (bytes == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the content of %s (%zu bytes)", path, capacity);
    content->bytes = bytes;
    content->capacity = capacity;
    return EPLB_OK;
}

/* The size that fstat gave is only a first guess: the file may grow, and pipes have none. */
static enum eplb_status read_to_end(int fd, const char *path, struct content *content,
                                    struct eplb_error *error)
{
    for (;;) {
        EPLB_ASSERT(content->length < content->capacity);
        if (content->length + 1 == content->capacity)
            EPLB_TRY(reserve(content, content->capacity * 2, path, error));
        ssize_t count = read(fd, content->bytes + content->length, content->capacity - content->length - 1);
        if (count == 0)
            break;
        if (count < 0 && errno != EINTR)
            EPLB_FAIL(EPLB_IO, "cannot read %s: %s", path, strerror(errno));
        content->length += count > 0 ? (size_t)count : 0;
        if (content->length > EPLB_MAX_FILE_BYTES)
            EPLB_FAIL(EPLB_INVALID, "%s is larger than the %zu bytes that are read", path,
                      EPLB_MAX_FILE_BYTES);
    }
    content->bytes[content->length] = '\0';
    return EPLB_OK;
}

static enum eplb_status read_descriptor(int fd, const char *path, struct content *content,
                                        struct eplb_error *error)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        EPLB_FAIL(EPLB_IO, "cannot read %s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        EPLB_FAIL(EPLB_INVALID, "%s is a directory, not a file", path);
    size_t capacity = FIRST_CAPACITY;
    if (S_ISREG(info.st_mode)) {
        if ((uintmax_t)info.st_size > EPLB_MAX_FILE_BYTES)
            EPLB_FAIL(EPLB_INVALID, "%s has %jd bytes; at most %zu are read", path, (intmax_t)info.st_size,
                      EPLB_MAX_FILE_BYTES);
        /* One byte for the zero, one so that the end is met without growing. */
        capacity = (size_t)info.st_size + 2;
    }
    EPLB_TRY(reserve(content, capacity, path, error));
    return read_to_end(fd, path, content, error);
}

enum eplb_status eplb_file_read(const char *path, char **bytes, size_t *size, struct eplb_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno;
        EPLB_FAIL(open_status(code), "cannot open %s: %s", path, strerror(code));
    }
    struct content content = {0};
    enum eplb_status status = read_descriptor(fd, path, &content, error);
    close(fd);
    if (status != EPLB_OK) {
        free(content.bytes);
        return status;
    }
    *bytes = content.bytes;
    *size = content.length;
    return EPLB_OK;
}

/* Returns 0, or the errno of the write that failed. */
static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t count = write(fd, data, size);
        if (count < 0) {
            if (errno == EINTR)
                continue;
            return errno;
        }
        data += count;
        size -= (size_t)count;
    }
    return 0;
}

static enum eplb_status write_directly(const char *path, const char *data, size_t size,
                                       struct eplb_error *error)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno;
        EPLB_FAIL(open_status(code), "cannot write %s: %s", path, strerror(code));
    }
    int code = write_all(fd, data, size);
    if (close(fd) != 0 && code == 0)
        code = errno;
    if (code != 0)
        EPLB_FAIL(EPLB_IO, "cannot write %s: %s", path, strerror(code));
    return EPLB_OK;
}

/* mkstemp would create the file with mode 0600, and the umask cannot be read without changing it
 * for every thread; open applies it by itself. */
static int open_temporary(const char *target, char *name, size_t capacity)
{
    static atomic_uint counter;
    for (int tries = 0; tries < MAX_NAME_TRIES; tries++) {
        /* Relaxed: the numbers only have to differ. */
        unsigned number = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
        int length = snprintf(name, capacity, "%s.%ld.%u.tmp", target, (long)getpid(), number);
        EPLB_ASSERT(length > 0 && (size_t)length < capacity);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Returns 0, or the errno of the first step that failed. Closes fd. */
static int fill_temporary(int fd, const struct stat *replaced, const char *data, size_t size)
{
    int code = 0;
    if (replaced != NULL && fchmod(fd, replaced->st_mode & 0777) != 0)
        code = errno;
    if (code == 0)
        code = write_all(fd, data, size);
    if (code == 0 && fsync(fd) != 0)
        code = errno;
    if (close(fd) != 0 && code == 0)
        code = errno;
    return code;
}

static enum eplb_status replace(const char *target, const struct stat *replaced, const char *data,
                                size_t size, struct eplb_error *error)
{
    size_t capacity = strlen(target) + SUFFIX_BYTES;
    char *name = malloc(capacity);
    if (name == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to write %s", target);
    enum eplb_status status = EPLB_OK;
    int fd = open_temporary(target, name, capacity);
    if (fd < 0) {
        int code = errno;
        status = eplb_fail(error, open_status(code), "cannot write %s: %s", target, strerror(code));
        goto free_name;
    }
    int code = fill_temporary(fd, replaced, data, size);
    if (code == 0 && rename(name, target) != 0)
        code = errno;
    if (code != 0) {
        unlink(name);
        status = eplb_fail(error, EPLB_IO, "cannot write %s: %s", target, strerror(code));
    }
free_name:
    free(name);
    return status;
}

enum eplb_status eplb_file_write_atomic(const char *path, const void *data, size_t size,
                                        struct eplb_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return replace(path, NULL, data, size, error);
    if (S_ISDIR(info.st_mode))
        EPLB_FAIL(EPLB_INVALID, "%s is a directory, not a file", path);
    if (!S_ISREG(info.st_mode))
        return write_directly(path, data, size, error);
    /* Renaming over a symbolic link would replace the link and leave the file it names as it was. */
    char *target = realpath(path, NULL);
    if (target == NULL) {
        int code = errno;
        EPLB_FAIL(open_status(code), "cannot write %s: %s", path, strerror(code));
    }
    enum eplb_status status = replace(target, &info, data, size, error);
    free(target);
    return status;
}

bool eplb_file_is_same(const char *one, const char *other)
{
    struct stat first;
    struct stat second;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && S_ISREG(first.st_mode) &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}
