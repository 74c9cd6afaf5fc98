/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/process.h"

#include <dirent.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static size_t entries(const char *path)
{
    size_t count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

size_t process_threads(void)
{
    return entries("/proc/self/task");
}

size_t process_files(void)
{
    return entries("/proc/self/fd");
}

int64_t process_heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

int64_t process_resident_bytes(void)
{
    /* statm is quicker, and wrong by as many pages as the processors keep uncounted. */
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kibibytes = -1;
    assert_non_null(file);
    while (kibibytes < 0 && fgets(line, sizeof line, file) != NULL)
        (void)sscanf(line, "Rss: %ld kB", &kibibytes);
    fclose(file);
    assert_true(kibibytes >= 0);
    return (int64_t)kibibytes * 1024;
}
