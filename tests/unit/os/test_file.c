/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/file.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/eplb-test-file-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Number of names in the folder; with remove they go. */
static int names(int remove)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (remove)
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    }
    closedir(dir);
    return count;
}

static int empty_folder(void **state)
{
    (void)state;
    names(1);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void put(const char *path, const char *content)
{
    struct eplb_error error;
    if (eplb_file_write_atomic(path, content, strlen(content), &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void check(const char *path, const char *content)
{
    char *bytes;
    size_t size;
    struct eplb_error error;
    if (eplb_file_read(path, &bytes, &size, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    assert_int_equal(size, strlen(content));
    assert_string_equal(bytes, content);
    free(bytes);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    put(in_folder("a"), "first");
    check(in_folder("a"), "first");
    put(in_folder("a"), "");
    check(in_folder("a"), "");
    assert_int_equal(names(0), 1);
}

static void large_files_and_pipes(void **state)
{
    (void)state;
    enum { SIZE = 1000003 };
    char *content = malloc(SIZE + 1);
    assert_non_null(content);
    for (int i = 0; i < SIZE; i++)
        content[i] = (char)('a' + i % 23);
    content[SIZE] = '\0';
    put(in_folder("large"), content);
    check(in_folder("large"), content);

    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t writer = fork();
    if (writer == 0) {
        close(ends[0]);
        for (ssize_t done = 0; done < SIZE;)
            done += write(ends[1], content + done, (size_t)(SIZE - done));
        _exit(0);
    }
    close(ends[1]);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    check(path, content);
    close(ends[0]);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    free(content);
}

static void modes_follow_the_umask_and_stay(void **state)
{
    (void)state;
    struct stat info;
    mode_t before = umask(027);
    put(in_folder("new"), "x");
    umask(before);
    assert_int_equal(stat(in_folder("new"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(chmod(in_folder("new"), 0604), 0);
    put(in_folder("new"), "y");
    assert_int_equal(stat(in_folder("new"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0604);
}

static void links_are_followed(void **state)
{
    (void)state;
    struct stat info;
    put(in_folder("target"), "old");
    assert_int_equal(symlink("target", in_folder("link")), 0);
    put(in_folder("link"), "new");
    assert_int_equal(lstat(in_folder("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    check(in_folder("target"), "new");
}

static void devices_are_not_replaced(void **state)
{
    (void)state;
    struct stat info;
    struct eplb_error error;
    put("/dev/null", "x");
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(eplb_file_write_atomic("/dev/full", "x", 1, &error), EPLB_IO);
    assert_string_equal(error.text, "cannot write /dev/full: No space left on device");
}

static void wrong_paths_are_refused(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    struct eplb_error error;
    assert_int_equal(eplb_file_read("/tmp", &bytes, &size, &error), EPLB_INVALID);
    assert_string_equal(error.text, "/tmp is a directory, not a file");
    assert_int_equal(eplb_file_read("/nowhere/a", &bytes, &size, &error), EPLB_INVALID);
    assert_string_equal(error.text, "cannot open /nowhere/a: No such file or directory");
    assert_int_equal(eplb_file_write_atomic("/tmp", "x", 1, &error), EPLB_INVALID);
    assert_string_equal(error.text, "/tmp is a directory, not a file");
    assert_int_equal(eplb_file_write_atomic("/nowhere/a", "x", 1, &error), EPLB_INVALID);
    assert_string_equal(error.text, "cannot write /nowhere/a: No such file or directory");
    assert_int_equal(eplb_file_write_atomic("/proc/a", "x", 1, &error), EPLB_INVALID);
    assert_string_equal(error.text, "cannot write /proc/a: No such file or directory");
}

/* A write that fails half-way (the file size limit stands in for a full disk) changes nothing. */
static void a_failed_write_leaves_the_old_content(void **state)
{
    (void)state;
    put(in_folder("a"), "old");
    pid_t child = fork();
    if (child == 0) {
        static char large[65536];
        struct eplb_error error = {0};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}) != 0)
            _exit(2);
        _exit(eplb_file_write_atomic(in_folder("a"), large, sizeof large, &error) == EPLB_IO ? 0 : 1);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    check(in_folder("a"), "old");
    assert_int_equal(names(0), 1);
}

enum { CONTENT = 300000 };

static void write_forever(char letter)
{
    static char content[CONTENT];
    struct eplb_error error;
    memset(content, letter, sizeof content);
    for (;;)
        if (eplb_file_write_atomic(in_folder("shared"), content, sizeof content, &error) != EPLB_OK)
            _exit(1);
}

/* Two writers of one path, killed at any moment: a reader always finds one whole content. */
static void a_reader_sees_one_whole_content(void **state)
{
    (void)state;
    char *first = malloc(CONTENT + 1);
    assert_non_null(first);
    memset(first, 'o', CONTENT);
    first[CONTENT] = '\0';
    put(in_folder("shared"), first);
    free(first);
    for (int round = 0; round < 20; round++) {
        pid_t writers[2];
        for (int i = 0; i < 2; i++) {
            writers[i] = fork();
            if (writers[i] == 0)
                write_forever(i == 0 ? 'a' : 'b');
        }
        for (int reads = 0; reads < 10; reads++) {
            char *bytes;
            size_t size;
            struct eplb_error error;
            assert_int_equal(eplb_file_read(in_folder("shared"), &bytes, &size, &error), EPLB_OK);
            assert_int_equal(size, CONTENT);
            for (size_t i = 1; i < size; i++)
                assert_true(bytes[i] == bytes[0]);
            free(bytes);
        }
        for (int i = 0; i < 2; i++) {
            int ended;
            kill(writers[i], SIGKILL);
            assert_int_equal(waitpid(writers[i], &ended, 0), writers[i]);
            assert_true(WIFSIGNALED(ended));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_written_is_read, empty_folder),
        cmocka_unit_test_teardown(large_files_and_pipes, empty_folder),
        cmocka_unit_test_teardown(modes_follow_the_umask_and_stay, empty_folder),
        cmocka_unit_test_teardown(links_are_followed, empty_folder),
        cmocka_unit_test(devices_are_not_replaced),
        cmocka_unit_test(wrong_paths_are_refused),
        cmocka_unit_test_teardown(a_failed_write_leaves_the_old_content, empty_folder),
        cmocka_unit_test_teardown(a_reader_sees_one_whole_content, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
