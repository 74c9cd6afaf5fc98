/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Commands that are printed to be pasted into a shell: each is given to one, and removes what it names and
 * nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/name.h"
#include "unit/shm/place.h"

enum { LINE = EPLB_ERROR_TEXT + PLACE_PATH };

/* In the directory, where another file lies, too. */
static void paste(const char *path, const char *command)
{
    char line[LINE];
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    assert_int_equal(snprintf(line, sizeof line, "cd %s && %s", place_directory(), command) > 0, 1);
    if (system(line) != 0)
        fail_msg("it fails: %s", command);
    if (lstat(path, &info) == 0)
        fail_msg("it does not remove the file: %s", command);
    assert_int_equal(place_count(), 1);
}

struct name {
    const char *text; /* of the file */
    const char *told; /* the command, with %s for the directory; NULL: by the inode */
};

static void what_is_pasted_removes_that_file_alone(void **state)
{
    (void)state;
    const struct name names[] = {
        {"plain_-.Name9", "rm %s/plain_-.Name9"},
        {"two words", "rm '%s/two words'"},
        {"it's", "rm '%s/it'\\''s'"},
        {"$(touch made)", "rm '%s/$(touch made)'"},
        {"a;touch made;#", "rm '%s/a;touch made;#'"},
        {"`touch made`", "rm '%s/`touch made`'"},
        {"\"*?[a-z]~!\\", "rm '%s/\"*?[a-z]~!\\'"},
        {"\xc3\xa4", "rm '%s/\xc3\xa4'"},
        {"new\nline", NULL},
        {"\033[31m", NULL},
        {"\xff\xfe", NULL},
    };
    place_write(place_path("other"), "", 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PLACE_PATH];
        char expected[LINE];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", place_directory(), names[i].text);
        place_write(path, "x", 1);
        assert_int_equal(stat(path, &info), 0);
        struct eplb_shm_removal removal = eplb_shm_removal(path);
        if (names[i].told == NULL) {
            snprintf(expected, sizeof expected, "find %s -xdev -maxdepth 1 -inum %llu -delete",
                     place_directory(), (unsigned long long)info.st_ino);
        } else {
            const char *rest = strstr(names[i].told, "%s");
            snprintf(expected, sizeof expected, "%.*s%s%s", (int)(rest - names[i].told), names[i].told,
                     place_directory(), rest + 2);
        }
        assert_string_equal(removal.text, expected);
        paste(path, removal.text);
    }
}

static void directories_go_with_what_is_in_them(void **state)
{
    (void)state;
    const char *const names[] = {"folder", "folder\n"};
    place_write(place_path("other"), "", 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PLACE_PATH];
        char inner[PLACE_PATH + 8];
        snprintf(path, sizeof path, "%s/%s", place_directory(), names[i]);
        snprintf(inner, sizeof inner, "%s/inner", path);
        assert_int_equal(mkdir(path, 0700), 0);
        place_write(inner, "", 0);
        paste(path, eplb_shm_removal(path).text);
    }
}

static void a_name_is_never_an_option(void **state)
{
    (void)state;
    char before[PLACE_PATH];
    assert_non_null(getcwd(before, sizeof before));
    place_write(place_path("other"), "", 0);
    assert_int_equal(chdir(place_directory()), 0);
    place_write("-rf", "", 0);
    struct eplb_shm_removal removal = eplb_shm_removal("-rf");
    assert_string_equal(removal.text, "rm ./-rf");
    paste("-rf", removal.text);
    assert_int_equal(chdir(before), 0);
}

/* One that would be cut names another file. */
static void a_command_is_whole(void **state)
{
    (void)state;
    char name[201];
    char deep[PLACE_PATH];
    char path[PLACE_PATH + 8];
    char before[PLACE_PATH];
    place_write(place_path("other"), "", 0);
    memset(name, '\'', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(path, sizeof path, "%s/%s", place_directory(), name);
    place_write(path, "", 0);
    struct eplb_shm_removal removal = eplb_shm_removal(path);
    place_assert_contains(removal.text, " -delete");
    paste(path, removal.text);

    /* Where the directory cannot be told either. */
    snprintf(deep, sizeof deep, "%s/%s", place_directory(), name);
    assert_int_equal(mkdir(deep, 0700), 0);
    snprintf(path, sizeof path, "%s/\n", deep);
    place_write(path, "", 0);
    removal = eplb_shm_removal(path);
    place_assert_contains(removal.text, "find . -xdev -maxdepth 1 -inum ");
    place_assert_contains(removal.text, " -delete (in its directory)");
    *strstr(removal.text, " (in") = '\0';
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(deep), 0);
    assert_int_equal(system(removal.text), 0);
    assert_int_equal(access("\n", F_OK), -1);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(deep), 0);
    assert_string_equal(eplb_shm_removal("gone\n").text, "remove it by hand");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_pasted_removes_that_file_alone, place_empty),
        cmocka_unit_test_teardown(directories_go_with_what_is_in_them, place_empty),
        cmocka_unit_test_teardown(a_name_is_never_an_option, place_empty),
        cmocka_unit_test_teardown(a_command_is_whole, place_empty),
    };
    return cmocka_run_group_tests(tests, place_make, place_remove);
}
