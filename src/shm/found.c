/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/found.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "shm/name.h"
#include "shm/nameless.h"

const char *eplb_segment_kind_text(uint32_t kind)
{
    switch (kind) {
    case EPLB_SEGMENT_GROUP:
        return "process group";
    case EPLB_SEGMENT_CHANNEL:
        return "forward channel";
    default:
        return NULL;
    }
}

bool eplb_found_is_locked(int descriptor)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int failed = fcntl(descriptor, F_OFD_GETLK, &whole);
    EPLB_ASSERT(failed == 0);
    return whole.l_type != F_UNLCK;
}

static enum eplb_status cannot_read(const char *path, struct eplb_error *error)
{
    EPLB_FAIL(EPLB_IO, "shared memory cannot be read: %s: %s", strerror(errno), path);
}

/* ---- the header ---- */

static bool is_all_zero(const struct eplb_segment_header *header)
{
    static const struct eplb_segment_header zeros;
    return memcmp(header, &zeros, sizeof zeros) == 0;
}

static enum eplb_status judge_payload(const char *path, const struct eplb_found *found,
                                      struct eplb_error *error)
{
    const struct eplb_segment_header *header = &found->header;
    const char *name = eplb_shm_base_name(path);
    unsigned long long payload = header->payload_bytes;
    unsigned long long room = found->file_bytes - EPLB_SEGMENT_ALIGN;
    if (payload != room)
        EPLB_FAIL(EPLB_LAYOUT,
                  "%s has a payload of %llu bytes by its header, expected %llu by its size" EPLB_SHM_REMOVE,
                  name, payload, room, eplb_shm_removal(path).text);
    if (payload == 0)
        EPLB_FAIL(EPLB_LAYOUT, "%s has no payload, expected one of at least %d bytes" EPLB_SHM_REMOVE, name,
                  EPLB_SEGMENT_ALIGN, eplb_shm_removal(path).text);
    if (payload % EPLB_SEGMENT_ALIGN != 0)
        EPLB_FAIL(EPLB_LAYOUT, "%s has a payload of %llu bytes, expected a multiple of %d" EPLB_SHM_REMOVE,
                  name, payload, EPLB_SEGMENT_ALIGN, eplb_shm_removal(path).text);
    if (eplb_segment_kind_text(header->kind) == NULL)
        EPLB_FAIL(EPLB_LAYOUT, "%s has a payload of kind %u, expected %d or %d" EPLB_SHM_REMOVE, name,
                  header->kind, EPLB_SEGMENT_GROUP, EPLB_SEGMENT_CHANNEL, eplb_shm_removal(path).text);
    if (header->generation == 0)
        EPLB_FAIL(EPLB_LAYOUT, "%s has generation 0, expected 1 or more" EPLB_SHM_REMOVE, name,
                  eplb_shm_removal(path).text);
    return EPLB_OK;
}

/* Whether the file, whose first `length` bytes were read into the header, is a segment. */
static enum eplb_status judge(const char *path, size_t length, const struct eplb_found *found,
                              struct eplb_error *error)
{
    const struct eplb_segment_header *header = &found->header;
    const char *name = eplb_shm_base_name(path);
    bool has_version = length >= offsetof(struct eplb_segment_header, kind);
    if (length == 0)
        EPLB_FAIL(EPLB_LAYOUT, "%s is empty, expected a segment of layout version %d" EPLB_SHM_REMOVE, name,
                  EPLB_SEGMENT_VERSION, eplb_shm_removal(path).text);
    /* Before the length: the header of another version may be shorter. */
    if (has_version && header->magic == EPLB_SEGMENT_MAGIC && header->version != EPLB_SEGMENT_VERSION)
        EPLB_FAIL(
            EPLB_LAYOUT,
            "%s is of layout version %u, expected %d: an eplb of another version made it" EPLB_SHM_REMOVE,
            name, header->version, EPLB_SEGMENT_VERSION, eplb_shm_removal(path).text);
    if (length < sizeof *header)
        EPLB_FAIL(EPLB_LAYOUT, "%s has %zu bytes, expected at least the %zu of a header" EPLB_SHM_REMOVE,
                  name, length, sizeof *header, eplb_shm_removal(path).text);
    if (is_all_zero(header))
        EPLB_FAIL(EPLB_LAYOUT, "%s has a header of zeros, expected magic %016llx" EPLB_SHM_REMOVE, name,
                  (unsigned long long)EPLB_SEGMENT_MAGIC, eplb_shm_removal(path).text);
    if (header->magic != EPLB_SEGMENT_MAGIC)
        EPLB_FAIL(EPLB_LAYOUT, "%s has magic %016llx, expected %016llx" EPLB_SHM_REMOVE, name,
                  (unsigned long long)header->magic, (unsigned long long)EPLB_SEGMENT_MAGIC,
                  eplb_shm_removal(path).text);
    return judge_payload(path, found, error);
}

static enum eplb_status read_header(const char *path, struct eplb_found *found, size_t *length,
                                    struct eplb_error *error)
{
    unsigned char *bytes = (unsigned char *)&found->header;
    size_t done = 0;
    while (done < sizeof found->header) {
        ssize_t count = pread(found->descriptor, bytes + done, sizeof found->header - done, (off_t)done);
        if (count < 0 && errno != EINTR)
            return cannot_read(path, error);
        if (count == 0)
            break;
        done += count > 0 ? (size_t)count : 0;
    }
    *length = done;
    return EPLB_OK;
}

/* ---- the file ---- */

static void refuse(struct eplb_found *found, const struct eplb_error *reason)
{
    found->state = EPLB_FOUND_FOREIGN;
    memcpy(found->why, reason->text, sizeof found->why);
}

static enum eplb_status look_at_file(const char *path, struct eplb_found *found, struct eplb_error *error)
{
    struct stat info;
    size_t length = 0;
    if (fstat(found->descriptor, &info) != 0)
        return cannot_read(path, error);
    found->device = info.st_dev;
    found->inode = info.st_ino;
    found->file_bytes = (uint64_t)info.st_size;
    EPLB_TRY(read_header(path, found, &length, error));
    struct eplb_error reason;
    if (judge(path, length, found, &reason) != EPLB_OK)
        refuse(found, &reason);
    else
        found->state = eplb_found_is_locked(found->descriptor) ? EPLB_FOUND_LIVE : EPLB_FOUND_DEAD;
    return EPLB_OK;
}

/* `handle` stands for the file without having opened it, so that no pipe or device notices. */
static enum eplb_status look_behind(int handle, const char *path, bool is_writable, struct eplb_found *found,
                                    struct eplb_error *error)
{
    struct stat info;
    char link[EPLB_DESCRIPTOR_PATH];
    if (fstat(handle, &info) != 0)
        return cannot_read(path, error);
    struct eplb_error reason;
    if (eplb_shm_check_own_file(&info, path, &reason) != EPLB_OK) {
        refuse(found, &reason);
        return EPLB_OK;
    }
    eplb_descriptor_path(handle, link);
    found->descriptor = open(link, (is_writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (found->descriptor < 0 && errno == EACCES) {
        (void)eplb_fail(&reason, EPLB_LAYOUT, "%s has mode %04o, expected 0600" EPLB_SHM_REMOVE,
                        eplb_shm_base_name(path), info.st_mode & 07777U, eplb_shm_removal(path).text);
        refuse(found, &reason);
        return EPLB_OK;
    }
    if (found->descriptor < 0)
        EPLB_FAIL(EPLB_IO, "shared memory cannot be read through %s: %s%s: %s", link, strerror(errno),
                  eplb_descriptor_hint(errno), path);
    enum eplb_status status = look_at_file(path, found, error);
    if (status != EPLB_OK)
        eplb_found_close(found);
    return status;
}

enum eplb_status eplb_found_look(const char *path, bool is_writable, struct eplb_found *found,
                                 struct eplb_error *error)
{
    *found = (struct eplb_found){.state = EPLB_FOUND_NOTHING, .descriptor = -1};
    int handle = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0 && errno == ENOENT)
        return EPLB_OK;
    if (handle < 0)
        return cannot_read(path, error);
    enum eplb_status status = look_behind(handle, path, is_writable, found, error);
    close(handle);
    return status;
}

void eplb_found_close(struct eplb_found *found)
{
    if (found->descriptor >= 0)
        close(found->descriptor);
    found->descriptor = -1;
}
