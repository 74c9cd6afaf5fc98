/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/listing.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "shm/found.h"
#include "shm/lock.h"
#include "shm/name.h"

enum { FIRST_CAPACITY = 16 };

struct listing {
    struct eplb_segment_info *infos;
    size_t count;
    size_t capacity;
};

static enum eplb_segment_state state_of(const struct eplb_found *found)
{
    switch (found->state) {
    case EPLB_FOUND_LIVE:
        return EPLB_SEGMENT_LIVE;
    case EPLB_FOUND_DEAD:
        return EPLB_SEGMENT_DEAD;
    default:
        return EPLB_SEGMENT_FOREIGN;
    }
}

static enum eplb_status check_path(const char *path, struct eplb_error *error)
{
    if (strlen(path) >= EPLB_SEGMENT_PATH)
        EPLB_FAIL(EPLB_INVALID, "a path of shared memory has %zu bytes, at most %d are allowed: %.128s",
                  strlen(path), EPLB_SEGMENT_PATH - 1, path);
    return EPLB_OK;
}

static enum eplb_status look(const char *path, struct eplb_segment_info *info, bool *exists,
                             struct eplb_error *error)
{
    struct eplb_found found;
    EPLB_TRY(eplb_found_look(path, false, &found, error));
    eplb_found_close(&found);
    *exists = found.state != EPLB_FOUND_NOTHING;
    *info = (struct eplb_segment_info){.state = state_of(&found), .file_bytes = found.file_bytes};
    snprintf(info->path, sizeof info->path, "%s", path);
    (void)eplb_segment_name_split(eplb_shm_base_name(path), info->instance, info->part);
    info->header = found.header;
    eplb_segment_owner_of(&info->header, &info->owner);
    memcpy(info->why, found.why, sizeof info->why);
    return EPLB_OK;
}

enum eplb_status eplb_segment_look(const char *path, struct eplb_segment_info *info, struct eplb_error *error)
{
    struct eplb_segment_info seen;
    bool exists = false;
    EPLB_TRY(check_path(path, error));
    EPLB_TRY(look(path, &seen, &exists, error));
    if (!exists)
        EPLB_FAIL(EPLB_INVALID, "there is no such shared memory: %s", path);
    *info = seen;
    return EPLB_OK;
}

/* ---- all of a user's ---- */

static enum eplb_status grow(struct listing *listing, const char *directory, struct eplb_error *error)
{
    if (listing->count < listing->capacity)
        return EPLB_OK;
    size_t capacity = listing->capacity == 0 ? FIRST_CAPACITY : 2 * listing->capacity;
    struct eplb_segment_info *infos = realloc(listing->infos, capacity * sizeof *infos);
    if (infos == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a list of %zu names: %s", capacity, directory);
    listing->infos = infos;
    listing->capacity = capacity;
    return EPLB_OK;
}

static enum eplb_status add(struct listing *listing, const char *directory, const char *name,
                            struct eplb_error *error)
{
    char path[EPLB_SEGMENT_PATH];
    EPLB_TRY(grow(listing, directory, error));
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    EPLB_ASSERT(length > 0 && length < EPLB_SEGMENT_PATH);
    bool exists = false; /* it may be gone since the directory was read */
    EPLB_TRY(look(path, &listing->infos[listing->count], &exists, error));
    listing->count += exists;
    return EPLB_OK;
}

static enum eplb_status read_directory(DIR *folder, const char *directory, struct listing *listing,
                                       struct eplb_error *error)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL && errno != 0)
            EPLB_FAIL(EPLB_IO, "the directory of shared memory cannot be read: %s: %s", strerror(errno),
                      directory);
        if (entry == NULL)
            return EPLB_OK;
        if (eplb_shm_is_ours(entry->d_name))
            EPLB_TRY(add(listing, directory, entry->d_name, error));
    }
}

static int compare(const void *one, const void *other)
{
    const struct eplb_segment_info *first = one;
    const struct eplb_segment_info *second = other;
    return strcmp(first->path, second->path);
}

enum eplb_status eplb_segment_list(const char *directory, struct eplb_segment_info **infos, size_t *count,
                                   struct eplb_error *error)
{
    struct listing listing = {.count = 0};
    EPLB_TRY(eplb_shm_directory(directory, &directory, error));
    DIR *folder = opendir(directory);
    if (folder == NULL)
        EPLB_FAIL(EPLB_IO, "the directory of shared memory cannot be read: %s: %s", strerror(errno),
                  directory);
    enum eplb_status status = read_directory(folder, directory, &listing, error);
    closedir(folder);
    if (status != EPLB_OK || listing.count == 0) {
        free(listing.infos);
        listing.infos = NULL;
    }
    if (status != EPLB_OK)
        return status;
    if (listing.count > 0)
        qsort(listing.infos, listing.count, sizeof *listing.infos, compare);
    *infos = listing.infos;
    *count = listing.count;
    return EPLB_OK;
}

uint64_t eplb_segment_dead_bytes(const char *directory)
{
    struct eplb_segment_info *infos;
    size_t count;
    uint64_t bytes = 0;
    if (eplb_segment_list(directory, &infos, &count, NULL) != EPLB_OK)
        return 0;
    for (size_t i = 0; i < count; i++)
        bytes += infos[i].state == EPLB_SEGMENT_DEAD ? infos[i].file_bytes : 0;
    free(infos);
    return bytes;
}

/* ---- cleaning up ---- */

static enum eplb_status remove_locked(const char *path, bool *removed, struct eplb_error *error)
{
    struct eplb_found found;
    EPLB_TRY(eplb_found_look(path, false, &found, error));
    eplb_found_close(&found);
    bool is_dead = found.state == EPLB_FOUND_DEAD;
    if (is_dead && unlink(path) != 0)
        EPLB_FAIL(EPLB_IO, "a dead process's shared memory cannot be removed: %s: %s", strerror(errno), path);
    *removed = is_dead;
    return EPLB_OK;
}

enum eplb_status eplb_segment_remove_dead(const char *path, bool *removed, struct eplb_error *error)
{
    char directory[EPLB_SEGMENT_PATH];
    struct eplb_shm_lock lock;
    const char *name = eplb_shm_base_name(path);
    EPLB_TRY(check_path(path, error));
    if (!eplb_shm_is_ours(name)) {
        *removed = false;
        return EPLB_OK;
    }
    eplb_shm_directory_of(path, directory);
    EPLB_TRY(eplb_shm_lock_take(directory, &lock, error));
    enum eplb_status status = remove_locked(path, removed, error);
    eplb_shm_lock_release(&lock);
    return status;
}
