/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

const char *eplb_descriptor_path(int descriptor, char path[EPLB_DESCRIPTOR_PATH])
{
    snprintf(path, EPLB_DESCRIPTOR_PATH, "/proc/self/fd/%d", descriptor);
    return path;
}

const char *eplb_descriptor_hint(int code)
{
    return code == ENOENT ? " (is /proc mounted?)" : "";
}

enum eplb_status eplb_nameless_open(const char *directory, const char *what, const char *path,
                                    int *descriptor, struct eplb_error *error)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        EPLB_FAIL(EPLB_IO, "the file system has no files without a name (O_TMPFILE), a tmpfs has: %s",
                  directory);
    if (fd < 0)
        EPLB_FAIL(EPLB_IO, "%s cannot be made: %s: %s", what, strerror(errno), path);
    /* The umask may have taken from the owner, too. */
    if (fchmod(fd, 0600) != 0) {
        int code = errno;
        close(fd);
        EPLB_FAIL(EPLB_IO, "%s cannot be given mode 0600: %s: %s", what, strerror(code), path);
    }
    *descriptor = fd;
    return EPLB_OK;
}

enum eplb_status eplb_nameless_link(int descriptor, const char *what, const char *path, bool *taken,
                                    struct eplb_error *error)
{
    char link[EPLB_DESCRIPTOR_PATH];
    eplb_descriptor_path(descriptor, link);
    bool failed = linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0;
    if (failed && errno != EEXIST)
        EPLB_FAIL(EPLB_IO, "%s cannot be given its name through %s: %s%s: %s", what, link, strerror(errno),
                  eplb_descriptor_hint(errno), path);
    *taken = failed;
    return EPLB_OK;
}
