/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/shm_place.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void shm_place_open(struct shm_place *place)
{
    *place = (struct shm_place){.path = "/dev/shm/eplb-test-XXXXXX"};
    assert_non_null(mkdtemp(place->path));
}

/* Calls visit for every name but the folder's own two. */
static void each_name(const struct shm_place *place, void (*visit)(int folder, const char *name, int *count),
                      int *count)
{
    DIR *folder = opendir(place->path);
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            visit(dirfd(folder), entry->d_name, count);
    closedir(folder);
}

static void count_it(int folder, const char *name, int *count)
{
    (void)folder;
    size_t length = strlen(name);
    *count += length < 5 || strcmp(name + length - 5, ".lock") != 0;
}

static void remove_it(int folder, const char *name, int *count)
{
    (void)count;
    assert_int_equal(unlinkat(folder, name, 0), 0);
}

int shm_place_count(const struct shm_place *place)
{
    int count = 0;
    each_name(place, count_it, &count);
    return count;
}

void shm_place_close(const struct shm_place *place)
{
    each_name(place, remove_it, NULL);
    assert_int_equal(rmdir(place->path), 0);
}
