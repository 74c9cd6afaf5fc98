/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
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

#include "shm/listing.h"
#include "support/process.h"
#include "unit/shm/place.h"

static struct eplb_segment_info *list(size_t *count)
{
    struct eplb_error error = {0};
    struct eplb_segment_info *infos = NULL;
    place_expect(eplb_segment_list(place_directory(), &infos, count, &error), EPLB_OK, &error);
    return infos;
}

static void write_named(const char *name, const void *bytes, size_t size)
{
    char path[PLACE_PATH];
    snprintf(path, sizeof path, "%s/%s", place_directory(), name);
    place_write(path, bytes, size);
}

static void an_empty_directory_has_none(void **state)
{
    (void)state;
    size_t count = 7;
    assert_null(list(&count));
    assert_int_equal(count, 0);
    /* The lock and other people's names are not counted; looking makes no lock. */
    assert_int_equal(place_count(), 0);
    place_write(place_lock(), "", 0);
    write_named("eplb.4000000000.a.group", "", 0);
    write_named("other", "", 0);
    assert_null(list(&count));
    assert_int_equal(count, 0);
}

static void all_kinds_are_told_in_order(void **state)
{
    (void)state;
    struct place_content content = place_segment();
    char odd[64];
    size_t count;
    size_t files = process_files();
    struct eplb_segment *live = place_publish("b", 4096, 0);
    place_write(place_path("a"), content.bytes, content.size);
    place_write(place_path("c"), "", 0);
    snprintf(odd, sizeof odd, "eplb.%u.odd", geteuid());
    write_named(odd, content.bytes, content.size);
    struct eplb_segment_info *infos = list(&count);
    assert_int_equal(count, 4);

    assert_string_equal(infos[0].path, place_path("a"));
    assert_string_equal(infos[0].instance, "a");
    assert_string_equal(infos[0].part, "group");
    assert_int_equal(infos[0].state, EPLB_SEGMENT_DEAD);
    assert_int_equal(infos[0].file_bytes, 8192);
    assert_int_equal(infos[0].header.generation, 7);
    assert_int_equal(infos[0].owner.pid, 1234567);
    assert_string_equal(infos[0].why, "");

    assert_string_equal(infos[1].path, place_path("b"));
    assert_int_equal(infos[1].state, EPLB_SEGMENT_LIVE);
    assert_int_equal(infos[1].header.generation, 1);
    assert_int_equal(infos[1].owner.pid, getpid());
    assert_int_equal(eplb_process_seen(&infos[1].owner), 1);

    assert_string_equal(infos[2].instance, "c");
    assert_int_equal(infos[2].state, EPLB_SEGMENT_FOREIGN);
    place_assert_contains(infos[2].why, "is empty");
    assert_int_equal(infos[2].header.magic, 0);

    assert_string_equal(infos[3].instance, "");
    assert_string_equal(infos[3].part, "");
    assert_int_equal(infos[3].state, EPLB_SEGMENT_DEAD);
    free(infos);
    eplb_segment_close(live);
    assert_int_equal(process_files(), files);
}

static void many_are_listed(void **state)
{
    (void)state;
    enum { MANY = 100 };
    size_t count;
    for (int i = 0; i < MANY; i++) {
        char instance[16];
        snprintf(instance, sizeof instance, "i%02d", i);
        place_write(place_path(instance), "", 0);
    }
    struct eplb_segment_info *infos = list(&count);
    assert_int_equal(count, MANY);
    for (int i = 0; i < MANY; i++) {
        char instance[16];
        snprintf(instance, sizeof instance, "i%02d", i);
        assert_string_equal(infos[i].instance, instance);
    }
    free(infos);
}

static void the_longest_names_fit(void **state)
{
    (void)state;
    char name[256];
    size_t count;
    int length = snprintf(name, sizeof name, "eplb.%u.", geteuid());
    memset(name + length, 'x', sizeof name - 1 - (size_t)length);
    name[255] = '\0';
    write_named(name, "", 0);
    struct eplb_segment_info *infos = list(&count);
    assert_int_equal(count, 1);
    assert_string_equal(infos[0].path + strlen(place_directory()) + 1, name);
    assert_string_equal(infos[0].instance, "");
    free(infos);
}

static void what_is_not_there_is_said(void **state)
{
    (void)state;
    char longer[600];
    struct eplb_error error = {0};
    struct eplb_segment_info info;
    struct eplb_segment_info *infos;
    size_t count;
    bool removed;
    assert_int_equal(eplb_segment_look(place_path("a"), &info, &error), EPLB_INVALID);
    place_assert_contains(error.text, "there is no such shared memory: /");
    assert_int_equal(eplb_segment_list("/nowhere", &infos, &count, &error), EPLB_IO);
    assert_string_equal(error.text,
                        "the directory of shared memory cannot be read: No such file or directory: /nowhere");
    memset(longer, 'x', sizeof longer);
    longer[599] = '\0';
    assert_int_equal(eplb_segment_look(longer, &info, &error), EPLB_INVALID);
    place_assert_contains(error.text, "has 599 bytes, at most 511 are allowed: xxx");
    assert_int_equal(eplb_segment_remove_dead(longer, &removed, &error), EPLB_INVALID);
}

/* ---- removing ---- */

static bool is_removed(const char *path)
{
    struct eplb_error error = {0};
    bool removed = false;
    place_expect(eplb_segment_remove_dead(path, &removed, &error), EPLB_OK, &error);
    assert_int_equal(removed, access(path, F_OK) != 0);
    return removed;
}

static void only_the_dead_are_removed(void **state)
{
    (void)state;
    bool removed = true;
    char elsewhere[PLACE_PATH];
    struct eplb_error error = {0};
    struct place_content content = place_segment();
    struct eplb_segment *live = place_publish("live", 4096, 0);
    place_write(place_path("dead"), content.bytes, content.size);
    place_write(place_path("empty"), "", 0);
    snprintf(elsewhere, sizeof elsewhere, "%s/copy", place_directory());
    place_write(elsewhere, content.bytes, content.size);
    assert_true(is_removed(place_path("dead")));
    assert_false(is_removed(place_path("live")));
    assert_false(is_removed(place_path("empty")));
    assert_false(is_removed(elsewhere));
    place_expect(eplb_segment_remove_dead(place_path("gone"), &removed, &error), EPLB_OK, &error);
    assert_false(removed);
    eplb_segment_close(live);
}

static void relative_paths_are_removed_too(void **state)
{
    (void)state;
    char before[PLACE_PATH];
    char name[64];
    struct place_content content = place_segment();
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(place_directory()), 0);
    snprintf(name, sizeof name, "eplb.%u.a.group", geteuid());
    place_write(name, content.bytes, content.size);
    assert_true(is_removed(name));
    place_write(name, content.bytes, content.size);
    snprintf(name, sizeof name, "./eplb.%u.a.group", geteuid());
    assert_true(is_removed(name));
    assert_int_equal(access(place_lock(), F_OK), 0);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(place_count(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_empty_directory_has_none, place_empty),
        cmocka_unit_test_teardown(all_kinds_are_told_in_order, place_empty),
        cmocka_unit_test_teardown(many_are_listed, place_empty),
        cmocka_unit_test_teardown(the_longest_names_fit, place_empty),
        cmocka_unit_test_teardown(what_is_not_there_is_said, place_empty),
        cmocka_unit_test_teardown(only_the_dead_are_removed, place_empty),
        cmocka_unit_test_teardown(relative_paths_are_removed_too, place_empty),
    };
    return cmocka_run_group_tests(tests, place_make, place_remove);
}
