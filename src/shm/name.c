/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "shm/name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/utf8.h"

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

void eplb_shm_directory_of(const char *path, char directory[EPLB_SEGMENT_PATH])
{
    const char *name = eplb_shm_base_name(path);
    if (name == path)
        snprintf(directory, EPLB_SEGMENT_PATH, ".");
    else if (name == path + 1)
        snprintf(directory, EPLB_SEGMENT_PATH, "/");
    else
        snprintf(directory, EPLB_SEGMENT_PATH, "%.*s", (int)(name - path) - 1, path);
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
        EPLB_FAIL(EPLB_LAYOUT, "%s is %s, expected a regular file" EPLB_SHM_REMOVE, name,
                  type_text(info->st_mode), eplb_shm_removal(path).text);
    if (info->st_uid != geteuid())
        EPLB_FAIL(EPLB_LAYOUT, "%s belongs to user %u, expected user %u, whose name it bears" EPLB_SHM_REMOVE,
                  name, info->st_uid, geteuid(), eplb_shm_removal(path).text);
    return EPLB_OK;
}

/* ---- how to remove it ---- */

/* What the sentence says before the command, but for the name, is not longer. */
enum { WORDS_BEFORE = 160 };

/* Letters that no shell takes for anything else. */
static const char plain_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";

/* A command that is being written; what does not fit makes it useless. */
struct command {
    char *text;
    size_t length;
    size_t room; /* with the terminating zero */
    bool is_whole;
};

static void put(struct command *command, const char *text, size_t length)
{
    command->is_whole = command->is_whole && length < command->room - command->length;
    if (!command->is_whole)
        return;
    memcpy(command->text + command->length, text, length);
    command->length += length;
    command->text[command->length] = '\0';
}

static void put_text(struct command *command, const char *text)
{
    put(command, text, strlen(text));
}

/* As one word of a shell, and never as an option. */
static void put_word(struct command *command, const char *word)
{
    bool quoted = word[strspn(word, plain_letters)] != '\0';
    if (quoted)
        put_text(command, "'");
    if (word[0] == '-')
        put_text(command, "./");
    while (*word != '\0') {
        size_t length = eplb_utf8_printable(word);
        if (*word == '\'')
            put_text(command, "'\\''");
        else
            put(command, word, length);
        command->is_whole = command->is_whole && length > 0;
        word += length > 0 ? length : 1;
    }
    if (quoted)
        put_text(command, "'");
}

static bool remove_by_path(struct command *command, const char *path, bool is_directory)
{
    put_text(command, is_directory ? "rm -r " : "rm ");
    put_word(command, path);
    return command->is_whole;
}

/* Without a directory where that cannot be told either. */
static bool remove_by_inode(struct command *command, const char *directory, const struct stat *info)
{
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)info->st_ino);
    put_text(command, "find ");
    put_word(command, directory == NULL ? "." : directory);
    put_text(command, " -xdev -maxdepth 1 -inum ");
    put_text(command, number);
    put_text(command, S_ISDIR(info->st_mode) ? " -exec rm -r {} +" : " -delete");
    if (directory == NULL)
        put_text(command, " (in its directory)");
    return command->is_whole;
}

static struct command begin(struct eplb_shm_removal *removal, size_t room)
{
    return (struct command){.text = removal->text, .room = room, .is_whole = true};
}

struct eplb_shm_removal eplb_shm_removal(const char *path)
{
    struct eplb_shm_removal removal = {.text = ""};
    struct stat info = {.st_ino = 0};
    char directory[EPLB_SEGMENT_PATH];
    const char *name = eplb_shm_base_name(path);
    size_t taken = WORDS_BEFORE + strlen(name);
    size_t room = taken < sizeof removal.text ? sizeof removal.text - taken : 1;
    bool is_there = lstat(path, &info) == 0;
    struct command command = begin(&removal, room);
    if (remove_by_path(&command, path, is_there && S_ISDIR(info.st_mode)))
        return removal;
    if (!is_there)
        return (struct eplb_shm_removal){.text = "remove it by hand"};
    eplb_shm_directory_of(path, directory);
    command = begin(&removal, room);
    if (remove_by_inode(&command, directory, &info))
        return removal;
    command = begin(&removal, sizeof removal.text);
    (void)remove_by_inode(&command, NULL, &info);
    return removal;
}
