/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum eplb_status eplb_peek_open(const char *path, struct eplb_peek *peek, struct eplb_error *error)
{
    struct stat info;
    /* Not to wait where somebody has put a pipe. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
        EPLB_FAIL(errno == ENFILE || errno == EMFILE || errno == ENOMEM ? EPLB_IO : EPLB_INVALID,
                  "cannot open %s: %s", path, errno == ELOOP ? "it is a link" : strerror(errno));
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(descriptor);
        EPLB_FAIL(EPLB_INVALID, "%s is no regular file", path);
    }
    *peek = (struct eplb_peek){.descriptor = descriptor, .file_bytes = (uint64_t)info.st_size};
    return EPLB_OK;
}

bool eplb_peek_read(const struct eplb_peek *peek, uint64_t offset, void *bytes, size_t size)
{
    if (offset > INT64_MAX || size > INT64_MAX - offset)
        return false;
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(peek->descriptor, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

void eplb_peek_close(struct eplb_peek *peek)
{
    close(peek->descriptor);
    peek->descriptor = -1;
}
