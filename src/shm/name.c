/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

#define WORD_RULE "1 to 32 letters, digits, '-' or '_'"

static const char word_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

static_assert(EPLB_SEGMENT_WORD == 32, "the sentences say so");

static bool is_word(const char *word)
{
    size_t length = strspn(word, word_letters);
    return length >= 1 && length <= EPLB_SEGMENT_WORD && word[length] == '\0';
}

enum eplb_status eplb_instance_name_check(const char *instance, struct eplb_error *error)
{
    if (!is_word(instance))
        EPLB_FAIL(EPLB_INVALID, "--instance_name=%.64s: an instance name has " WORD_RULE, instance);
    return EPLB_OK;
}

enum eplb_status eplb_shm_directory(const char *directory, const char **found, struct eplb_error *error)
{
    if (directory == NULL)
        directory = EPLB_SHM_DIRECTORY;
    if (directory[0] == '\0' || strlen(directory) > EPLB_SHM_DIRECTORY_BYTES)
        EPLB_FAIL(EPLB_INVALID, "the directory for shared memory has %zu bytes, 1 to %d are allowed: %.64s",
                  strlen(directory), EPLB_SHM_DIRECTORY_BYTES, directory);
    *found = directory;
    return EPLB_OK;
}

enum eplb_status eplb_segment_path(const struct eplb_segment_name *name, char path[EPLB_SEGMENT_PATH],
                                   struct eplb_error *error)
{
    const char *directory;
    EPLB_TRY(eplb_instance_name_check(name->instance, error));
    if (!is_word(name->part))
        EPLB_FAIL(EPLB_INVALID, "a part of shared memory is called '%.64s', allowed are " WORD_RULE,
                  name->part);
    EPLB_TRY(eplb_shm_directory(name->directory, &directory, error));
    int length = snprintf(path, EPLB_SEGMENT_PATH, "%s/eplb.%u.%s.%s", directory, geteuid(), name->instance,
                          name->part);
    EPLB_ASSERT(length > 0 && length < EPLB_SEGMENT_PATH);
    return EPLB_OK;
}

enum eplb_status eplb_shm_lock_path(const char *directory, char path[EPLB_SEGMENT_PATH],
                                    struct eplb_error *error)
{
    EPLB_TRY(eplb_shm_directory(directory, &directory, error));
    int length = snprintf(path, EPLB_SEGMENT_PATH, "%s/eplb.%u.lock", directory, geteuid());
    EPLB_ASSERT(length > 0 && length < EPLB_SEGMENT_PATH);
    return EPLB_OK;
}

const char *eplb_shm_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* What follows "eplb.<uid>."; NULL when the name does not begin so. */
static const char *after_user(const char *base_name)
{
    char start[32];
    int length = snprintf(start, sizeof start, "eplb.%u.", geteuid());
    return strncmp(base_name, start, (size_t)length) == 0 ? base_name + length : NULL;
}

bool eplb_shm_is_ours(const char *base_name)
{
    const char *rest = after_user(base_name);
    return rest != NULL && strcmp(rest, "lock") != 0;
}

bool eplb_segment_name_split(const char *base_name, char instance[EPLB_SEGMENT_WORD + 1],
                             char part[EPLB_SEGMENT_WORD + 1])
{
    const char *rest = after_user(base_name);
    const char *dot = rest == NULL ? NULL : strchr(rest, '.');
    instance[0] = '\0';
    part[0] = '\0';
    if (dot == NULL || dot - rest > EPLB_SEGMENT_WORD || !is_word(dot + 1))
        return false;
    char word[EPLB_SEGMENT_WORD + 1];
    snprintf(word, sizeof word, "%.*s", (int)(dot - rest), rest);
    if (!is_word(word))
        return false;
    snprintf(instance, EPLB_SEGMENT_WORD + 1, "%s", word);
    snprintf(part, EPLB_SEGMENT_WORD + 1, "%s", dot + 1);
    return true;
}

static const char *type_text(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFLNK:
        return "a symbolic link";
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a named pipe";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

enum eplb_status eplb_shm_check_own_file(const struct stat *info, const char *path, struct eplb_error *error)
{
    const char *name = eplb_shm_base_name(path);
    if (!S_ISREG(info->st_mode))
        EPLB_FAIL(EPLB_LAYOUT, "%s is %s, expected a regular file; once nothing uses it: %s %s", name,
                  type_text(info->st_mode), S_ISDIR(info->st_mode) ? "rm -r" : "rm", path);
    if (info->st_uid != geteuid())
        EPLB_FAIL(EPLB_LAYOUT, "%s belongs to user %u, expected user %u, whose name it bears" EPLB_SHM_REMOVE,
                  name, info->st_uid, geteuid(), path);
    return EPLB_OK;
}
