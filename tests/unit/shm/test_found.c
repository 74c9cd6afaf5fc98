/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * What stands under a segment's name and is none: refused in its own words at every door, and left as it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/listing.h"
#include "shm/segment.h"
#include "support/process.h"
#include "support/unprivileged.h"
#include "unit/shm/place.h"

struct damage {
    const char *name;
    void (*apply)(struct place_content *content);
    const char *sentence; /* after the file's name */
};

static void make_empty(struct place_content *content)
{
    content->size = 0;
}

static void make_short(struct place_content *content)
{
    content->size = 100;
}

static void make_one_byte_short(struct place_content *content)
{
    content->size--;
}

static void make_zero(struct place_content *content)
{
    memset(content->bytes, 0, sizeof content->bytes);
}

static void change_magic(struct place_content *content)
{
    content->bytes[0] = 'e';
}

static void change_version(struct place_content *content)
{
    place_header(content)->version = 3;
}

static void change_payload(struct place_content *content)
{
    place_header(content)->payload_bytes = 4 * EPLB_SEGMENT_ALIGN;
}

static void wrap_payload(struct place_content *content)
{
    place_header(content)->payload_bytes = UINT64_MAX;
}

static void have_no_payload(struct place_content *content)
{
    content->size = EPLB_SEGMENT_ALIGN;
    place_header(content)->payload_bytes = 0;
}

static void misalign_payload(struct place_content *content)
{
    content->size += 100;
    place_header(content)->payload_bytes += 100;
}

static void change_kind(struct place_content *content)
{
    place_header(content)->kind = 3;
}

static void clear_generation(struct place_content *content)
{
    place_header(content)->generation = 0;
}

/* As the first layout had it: the same magic, and a header of two dozen bytes. */
static void be_version_1(struct place_content *content)
{
    place_header(content)->version = 1;
    content->size = 24 + 512;
}

static const struct damage damages[] = {
    {"empty", make_empty, " is empty, expected a segment of layout version 2;"},
    {"short", make_short, " has 100 bytes, expected at least the 4096 of a header;"},
    {"zero", make_zero, " has a header of zeros, expected magic 004d4853424c5045;"},
    {"magic", change_magic, " has magic 004d4853424c5065, expected 004d4853424c5045;"},
    {"version", change_version, " is of layout version 3, expected 2: an eplb of another version made it;"},
    {"v1", be_version_1, " is of layout version 1, expected 2: an eplb of another version made it;"},
    {"size", change_payload, " has a payload of 16384 bytes by its header, expected 4096 by its size;"},
    {"cut", make_one_byte_short, " has a payload of 4096 bytes by its header, expected 4095 by its size;"},
    {"wrap", wrap_payload, " bytes by its header, expected 4096 by its size;"},
    {"none", have_no_payload, " has no payload, expected one of at least 4096 bytes;"},
    {"align", misalign_payload, " has a payload of 4196 bytes, expected a multiple of 4096;"},
    {"kind", change_kind, " has a payload of kind 3, expected 1 or 2;"},
    {"generation", clear_generation, " has generation 0, expected 1 or more;"},
};

enum { NUM_DAMAGES = sizeof damages / sizeof *damages };

static void expect_sentence(const char *text, const char *sentence)
{
    char whole[PLACE_PATH + 200];
    snprintf(whole, sizeof whole, "eplb.%u.a.group", geteuid());
    assert_int_equal(strncmp(text, whole, strlen(whole)), 0);
    place_assert_contains(text, sentence);
    snprintf(whole, sizeof whole, "; once nothing uses it: rm %s", place_path("a"));
    place_assert_contains(text, whole);
}

/* A segment that was built while the name was free. */
static struct eplb_segment *build_early(void)
{
    struct eplb_error error = {0};
    struct eplb_segment *segment = NULL;
    struct eplb_segment_name name = place_name("a");
    place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &segment, &error), EPLB_OK, &error);
    return segment;
}

static void knock_at_every_door(struct eplb_segment *early, const char *sentence)
{
    struct eplb_segment_name name = place_name("a");
    struct eplb_segment *segment;
    struct eplb_segment_info info;
    struct eplb_error error = {0};
    size_t files = process_files();
    bool removed = true;
    place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &segment, &error), EPLB_LAYOUT, &error);
    expect_sentence(error.text, sentence);
    error.text[0] = '\0';
    place_expect(eplb_segment_publish(early, 0, &error), EPLB_LAYOUT, &error);
    expect_sentence(error.text, sentence);
    error.text[0] = '\0';
    place_expect(eplb_segment_open(&name, EPLB_SEGMENT_GROUP, 0, 0, &segment, &error), EPLB_LAYOUT, &error);
    expect_sentence(error.text, sentence);
    place_expect(eplb_segment_look(place_path("a"), &info, &error), EPLB_OK, &error);
    assert_int_equal(info.state, EPLB_SEGMENT_FOREIGN);
    expect_sentence(info.why, sentence);
    place_expect(eplb_segment_remove_dead(place_path("a"), &removed, &error), EPLB_OK, &error);
    assert_false(removed);
    assert_int_equal(process_files(), files);
}

static void damage_is_refused_and_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < NUM_DAMAGES; i++) {
        struct place_content content = place_segment();
        struct eplb_segment *early = build_early();
        damages[i].apply(&content);
        place_write(place_path("a"), content.bytes, content.size);
        struct stat before;
        struct stat after;
        assert_int_equal(stat(place_path("a"), &before), 0);
        knock_at_every_door(early, damages[i].sentence);
        eplb_segment_close(early);
        struct place_content left = place_read(place_path("a"));
        assert_int_equal(stat(place_path("a"), &after), 0);
        assert_int_equal(after.st_ino, before.st_ino);
        assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
        assert_int_equal(left.size, content.size);
        assert_memory_equal(left.bytes, content.bytes, content.size);
        assert_int_equal(unlink(place_path("a")), 0);
    }
}

static void every_damage_has_its_own_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < NUM_DAMAGES; i++) {
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(damages[i].sentence, damages[j].sentence);
    }
}

/* ---- other files ---- */

static void links_are_not_followed(void **state)
{
    (void)state;
    struct place_content content = place_segment();
    place_write(place_path("target"), content.bytes, content.size);
    struct eplb_segment *early = build_early();
    assert_int_equal(symlink(place_path("target"), place_path("a")), 0);
    knock_at_every_door(early, " is a symbolic link, expected a regular file;");
    eplb_segment_close(early);
    struct stat info;
    assert_int_equal(lstat(place_path("a"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_memory_equal(place_read(place_path("target")).bytes, content.bytes, content.size);
}

static void pipes_make_nobody_wait(void **state)
{
    (void)state;
    struct eplb_segment *early = build_early();
    assert_int_equal(mkfifo(place_path("a"), 0600), 0);
    knock_at_every_door(early, " is a named pipe, expected a regular file;");
    eplb_segment_close(early);
    assert_int_equal(access(place_path("a"), F_OK), 0);
}

static void directories_are_refused(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    struct eplb_segment_name name = place_name("a");
    struct eplb_segment *early = build_early();
    char remove[PLACE_PATH + 50];
    snprintf(remove, sizeof remove,
             " is a directory, expected a regular file; once nothing uses it: rm -r %s", place_path("a"));
    assert_int_equal(mkdir(place_path("a"), 0700), 0);
    assert_int_equal(eplb_segment_publish(early, 0, &error), EPLB_LAYOUT);
    place_assert_contains(error.text, remove);
    assert_int_equal(eplb_segment_open(&name, EPLB_SEGMENT_GROUP, 0, 0, &segment, &error), EPLB_LAYOUT);
    place_assert_contains(error.text, remove);
    eplb_segment_close(early);
    assert_int_equal(rmdir(place_path("a")), 0);
}

static void another_users_file_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: only root can give a file away\n");
        skip();
    }
    struct place_content content = place_segment();
    struct eplb_segment *early = build_early();
    place_write(place_path("a"), content.bytes, content.size);
    assert_int_equal(chown(place_path("a"), 65534, 65534), 0);
    knock_at_every_door(early, " belongs to user 65534, expected user 0, whose name it bears;");
    eplb_segment_close(early);
    assert_int_equal(access(place_path("a"), F_OK), 0);
}

static void a_file_that_may_not_be_read_is_refused(void **state)
{
    (void)state;
    struct place_content content = place_segment();
    struct eplb_segment *early = build_early();
    place_write(place_path("a"), content.bytes, content.size);
    assert_int_equal(chmod(place_path("a"), 0), 0);
    unprivileged_begin();
    knock_at_every_door(early, " has mode 0000, expected 0600;");
    unprivileged_end();
    eplb_segment_close(early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(damage_is_refused_and_left, place_empty),
        cmocka_unit_test(every_damage_has_its_own_words),
        cmocka_unit_test_teardown(links_are_not_followed, place_empty),
        cmocka_unit_test_teardown(pipes_make_nobody_wait, place_empty),
        cmocka_unit_test_teardown(directories_are_refused, place_empty),
        cmocka_unit_test_teardown(another_users_file_is_refused, place_empty),
        cmocka_unit_test_teardown(a_file_that_may_not_be_read_is_refused, place_empty),
    };
    return cmocka_run_group_tests(tests, place_make, place_remove);
}
