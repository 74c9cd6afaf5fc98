/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The files of the project: those that git has or would add; without git, all but build/.
 */
#include "style/style.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct style_file *files;
    size_t count;
    size_t room;
} tree; /* a global, because nftw hands its callback no context */

static _Noreturn void give_up(const char *what)
{
    perror(what);
    exit(1);
}

/** Reads a file; NULL when it is none (a submodule, a file removed but still in the index). */
static char *read_text(const char *path, size_t *length)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return NULL;
    char *text = NULL;
    *length = 0;
    for (size_t room = 4096;; room *= 2) {
        text = realloc(text, room);
        if (text == NULL)
            give_up(path);
        *length += fread(text + *length, 1, room - *length, stream);
        if (*length < room)
            break; /* at least the byte for the zero is left */
    }
    int failed = ferror(stream);
    fclose(stream);
    if (!failed)
        return text;
    free(text);
    return NULL;
}

static void add(const char *path)
{
    size_t length;
    char *text = read_text(path, &length);
    if (text == NULL || memchr(text, '\0', length) != NULL) {
        free(text);
        return;
    }
    if (tree.count == tree.room) {
        tree.room = tree.room == 0 ? 256 : tree.room * 2;
        tree.files = realloc(tree.files, tree.room * sizeof *tree.files);
        if (tree.files == NULL)
            give_up("style");
    }
    style_file_init(&tree.files[tree.count++], path, text, length);
}

static int ask_git(void)
{
    FILE *list = popen("git ls-files -z --cached --others --exclude-standard 2>/dev/null", "r");
    if (list == NULL)
        return 0;
    char *path = NULL;
    size_t room = 0;
    while (getdelim(&path, &room, '\0', list) > 0)
        add(path);
    free(path);
    return pclose(list) == 0 && tree.count > 0;
}

static int visit(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    const char *name = path + where->base;
    if (type == FTW_D && (strcmp(name, ".git") == 0 || strcmp(path, "./build") == 0))
        return FTW_SKIP_SUBTREE;
    if (type == FTW_F)
        add(path + strlen("./"));
    return FTW_CONTINUE;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct style_file *)a)->path, ((const struct style_file *)b)->path);
}

struct style_file *style_load_tree(size_t *count)
{
    if (!ask_git() && nftw(".", visit, 16, FTW_PHYS | FTW_ACTIONRETVAL) != 0)
        give_up("style");
    qsort(tree.files, tree.count, sizeof *tree.files, by_path);
    *count = tree.count;
    return tree.files;
}
