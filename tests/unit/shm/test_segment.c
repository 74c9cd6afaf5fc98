/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/lock.h"
#include "shm/segment.h"
#include "support/process.h"
#include "support/unprivileged.h"
#include "unit/shm/place.h"

static bool is_zero(const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++) {
        if (byte[i] != 0)
            return false;
    }
    return true;
}

/* ---- names ---- */

static void names_are_checked(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    char path[EPLB_SEGMENT_PATH];
    char expected[EPLB_SEGMENT_PATH];
    struct eplb_segment_name name = {.instance = "aZ09-_", .part = "rank0"};
    assert_int_equal(eplb_segment_path(&name, path, &error), EPLB_OK);
    snprintf(expected, sizeof expected, "/dev/shm/eplb.%u.aZ09-_.rank0", geteuid());
    assert_string_equal(path, expected);

    assert_int_equal(eplb_instance_name_check("abcdefghijabcdefghijabcdefghij12", &error), EPLB_OK);
    const char *bad[] = {"", "abcdefghijabcdefghijabcdefghij123", "a.b", "a/b", "a b", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char sentence[200];
        assert_int_equal(eplb_instance_name_check(bad[i], &error), EPLB_INVALID);
        snprintf(sentence, sizeof sentence,
                 "--instance_name=%s: an instance name has 1 to 32 letters, digits, '-' or '_'", bad[i]);
        assert_string_equal(error.text, sentence);
        name.instance = bad[i];
        assert_int_equal(eplb_segment_path(&name, path, &error), EPLB_INVALID);
        name.instance = "a";
        name.part = bad[i];
        assert_int_equal(eplb_segment_path(&name, path, &error), EPLB_INVALID);
        place_assert_contains(error.text, "a part of shared memory is called '");
        name.part = "group";
    }
}

/* ---- one owner, one opener ---- */

static void what_one_writes_the_other_reads(void **state)
{
    (void)state;
    struct stat info;
    size_t files = process_files();
    mode_t before = umask(0);
    struct eplb_segment *owner = place_publish("a", 5000, 0);
    umask(before);
    assert_int_equal(process_files(), files);
    assert_string_equal(eplb_segment_path_of(owner), place_path("a"));
    assert_int_equal(eplb_segment_payload_bytes(owner), 8192);
    assert_int_equal(eplb_segment_generation(owner), 1);
    assert_true(eplb_segment_owner_lives(owner));
    assert_true(is_zero(eplb_segment_payload(owner), 8192));
    assert_int_equal((uintptr_t)eplb_segment_payload(owner) % EPLB_SEGMENT_ALIGN, 0);
    assert_int_equal(stat(place_path("a"), &info), 0);
    assert_int_equal(info.st_mode, S_IFREG | 0600);
    assert_int_equal(info.st_size, 4096 + 8192);
    assert_int_equal(info.st_blocks * 512, 4096 + 8192);

    struct eplb_segment *opener = place_open("a");
    assert_int_equal(process_files(), files + 1);
    assert_ptr_not_equal(eplb_segment_payload(opener), eplb_segment_payload(owner));
    assert_int_equal(eplb_segment_payload_bytes(opener), 8192);
    assert_int_equal(eplb_segment_generation(opener), 1);
    assert_string_equal(eplb_segment_path_of(opener), place_path("a"));
    memset(eplb_segment_payload(owner), 0x5a, 8192);
    assert_memory_equal(eplb_segment_payload(opener), eplb_segment_payload(owner), 8192);
    assert_true(eplb_segment_owner_lives(opener));

    eplb_segment_close(owner);
    assert_int_equal(access(place_path("a"), F_OK), -1);
    assert_false(eplb_segment_owner_lives(opener));
    assert_int_equal(((unsigned char *)eplb_segment_payload(opener))[8191], 0x5a);
    eplb_segment_close(opener);
    eplb_segment_close(NULL);
    assert_int_equal(process_files(), files);
    assert_int_equal(place_count(), 1);
}

static void the_header_says_who_made_it(void **state)
{
    (void)state;
    struct eplb_process_id self;
    struct eplb_process_id owner;
    eplb_process_identify(&self);
    struct eplb_segment *segment = place_publish("a", 1, 0);
    struct place_content content = place_read(place_path("a"));
    const struct eplb_segment_header *header = place_header(&content);
    assert_memory_equal(content.bytes, "EPLBSHM", 8);
    assert_int_equal(header->version, 2);
    assert_int_equal(header->kind, EPLB_SEGMENT_GROUP);
    assert_int_equal(header->payload_bytes, 4096);
    assert_int_equal(header->generation, 1);
    eplb_segment_owner_of(header, &owner);
    assert_memory_equal(&owner, &self, sizeof self);
    assert_true(is_zero(header->reserved, sizeof header->reserved));
    eplb_segment_close(segment);
}

static void without_a_name_nobody_sees_it(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    struct eplb_segment *opener;
    struct eplb_segment_name name = place_name("a");
    place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &segment, &error), EPLB_OK, &error);
    assert_int_equal(place_count(), 1);
    assert_int_equal(eplb_segment_generation(segment), 0);
    assert_int_equal(eplb_segment_open(&name, EPLB_SEGMENT_GROUP, 0, 0, &opener, &error), EPLB_INVALID);
    place_assert_contains(error.text, "there is no such shared memory: /");
    eplb_segment_close(segment);
    assert_int_equal(place_count(), 1);
}

static void a_second_life_is_newer_and_zero(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 3; round++) {
        struct eplb_segment *segment = place_publish("a", 4096, 0);
        assert_int_equal(eplb_segment_generation(segment), round);
        assert_true(is_zero(eplb_segment_payload(segment), 4096));
        memset(eplb_segment_payload(segment), 0xff, 4096);
        eplb_segment_close(segment);
    }
}

static void parts_of_one_run_share_a_generation(void **state)
{
    (void)state;
    struct eplb_segment *first = place_publish("a", 1, 0);
    struct eplb_segment *other = place_publish("b", 1, 0);
    assert_int_equal(eplb_segment_generation(other), 2);
    struct eplb_segment *second = place_publish("c", 1, eplb_segment_generation(first));
    assert_int_equal(eplb_segment_generation(second), 1);
    eplb_segment_close(second);
    eplb_segment_close(first);
    eplb_segment_close(other);
    second = place_publish("a", 1, 0);
    assert_int_equal(eplb_segment_generation(second), 3);
    eplb_segment_close(second);
}

static void two_instances_do_not_meet(void **state)
{
    (void)state;
    struct eplb_segment *owners[2] = {place_publish("one", 4096, 0), place_publish("two", 4096, 0)};
    struct eplb_segment *openers[2] = {place_open("one"), place_open("two")};
    for (int i = 0; i < 2; i++)
        memset(eplb_segment_payload(owners[i]), i + 1, 4096);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(((unsigned char *)eplb_segment_payload(openers[i]))[4095], i + 1);
        assert_int_equal(eplb_segment_generation(openers[i]), i + 1);
    }
    eplb_segment_close(owners[0]);
    assert_false(eplb_segment_owner_lives(openers[0]));
    assert_true(eplb_segment_owner_lives(openers[1]));
    assert_int_equal(access(place_path("two"), F_OK), 0);
    eplb_segment_close(owners[1]);
    eplb_segment_close(openers[0]);
    eplb_segment_close(openers[1]);
}

/* ---- refusals ---- */

static void expect_open(enum eplb_segment_kind kind, uint64_t generation, size_t bytes,
                        enum eplb_status status, const char *sentence)
{
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    struct eplb_segment_name name = place_name("a");
    place_expect(eplb_segment_open(&name, kind, generation, bytes, &segment, &error), status, &error);
    if (status == EPLB_OK)
        eplb_segment_close(segment);
    else
        place_assert_contains(error.text, sentence);
}

static void an_opener_gets_what_it_asked_for(void **state)
{
    (void)state;
    struct eplb_segment *owner = place_publish("a", 5000, 0);
    expect_open(EPLB_SEGMENT_GROUP, 1, 8192, EPLB_OK, NULL);
    expect_open(EPLB_SEGMENT_GROUP, 1, 5001, EPLB_OK, NULL);
    expect_open(EPLB_SEGMENT_GROUP, 2, 0, EPLB_INCONSISTENT, "is of generation 1, expected 2");
    expect_open(
        EPLB_SEGMENT_GROUP, 0, 4096, EPLB_LAYOUT,
        "has a payload of 8192 bytes, expected 4096: it is of other options; once nothing uses it: rm /");
    expect_open(EPLB_SEGMENT_CHANNEL, 0, 0, EPLB_LAYOUT,
                "holds a process group, expected a forward channel; once nothing uses it: rm /");
    expect_open(EPLB_SEGMENT_GROUP, 0, SIZE_MAX, EPLB_IO, "at most");
    eplb_segment_close(owner);
    expect_open(EPLB_SEGMENT_GROUP, 1, 0, EPLB_INVALID, "there is no such shared memory: /");
}

static void a_live_one_is_never_replaced(void **state)
{
    (void)state;
    char sentence[PLACE_PATH + 200];
    struct eplb_error error = {0};
    struct eplb_segment_name name = place_name("a");
    struct eplb_segment *early;
    struct eplb_segment *other;
    place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &early, &error), EPLB_OK, &error);
    struct eplb_segment *owner = place_publish("a", 1, 0);
    struct stat before;
    struct stat after;
    assert_int_equal(stat(place_path("a"), &before), 0);
    snprintf(sentence, sizeof sentence,
             "the instance name 'a' is in use by process %d; choose another --instance_name: %s", getpid(),
             place_path("a"));
    assert_int_equal(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &other, &error), EPLB_IN_USE);
    assert_string_equal(error.text, sentence);
    error.text[0] = '\0';
    assert_int_equal(eplb_segment_publish(early, 0, &error), EPLB_IN_USE);
    assert_string_equal(error.text, sentence);
    /* One that was refused its name takes nobody's with it. */
    eplb_segment_close(early);
    assert_int_equal(stat(place_path("a"), &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(place_count(), 2);
    eplb_segment_close(owner);
}

static void a_refused_one_can_be_published_later(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    struct eplb_segment_name name = place_name("a");
    struct eplb_segment *early;
    place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &early, &error), EPLB_OK, &error);
    struct eplb_segment *owner = place_publish("a", 1, 0);
    assert_int_equal(eplb_segment_publish(early, 0, &error), EPLB_IN_USE);
    eplb_segment_close(owner);
    place_expect(eplb_segment_publish(early, 0, &error), EPLB_OK, &error);
    assert_int_equal(eplb_segment_generation(early), 2);
    eplb_segment_close(early);
}

/* The name is somebody else's by then: it stays. */
static void only_its_own_name_is_removed(void **state)
{
    (void)state;
    struct eplb_segment *owner = place_publish("a", 1, 0);
    assert_int_equal(unlink(place_path("a")), 0);
    place_write(place_path("a"), "other", 5);
    eplb_segment_close(owner);
    assert_int_equal(place_read(place_path("a")).size, 5);
}

/* Where the mapping was, a forked child has nothing; it may put something there. */
static int close_in_child(void *argument)
{
    struct eplb_segment *segment = argument;
    char *place = eplb_segment_payload(segment);
    char *other =
        mmap(place, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (other != place)
        return 1;
    eplb_segment_close(segment);
    other[0] = 1;
    return 0;
}

static void a_forked_child_closes_only_what_is_its_own(void **state)
{
    (void)state;
    struct eplb_segment *owner = place_publish("a", 4096, 0);
    struct eplb_segment *opener = place_open("a");
    place_await(place_fork(close_in_child, owner), 0);
    assert_int_equal(access(place_path("a"), F_OK), 0);
    assert_true(eplb_segment_owner_lives(opener));
    place_await(place_fork(close_in_child, opener), 0);
    assert_true(eplb_segment_owner_lives(opener));
    eplb_segment_close(opener);
    eplb_segment_close(owner);
}

static void two_kinds_and_sizes_of_the_dead_are_replaced(void **state)
{
    (void)state;
    struct place_content dead = place_segment();
    place_write(place_path("a"), dead.bytes, dead.size);
    expect_open(EPLB_SEGMENT_GROUP, 7, 4096, EPLB_REFUSED,
                "process 1234567, which made this shared memory, has ended: /");
    /* A dead one of other options is of our layout all the same. */
    place_header(&dead)->kind = EPLB_SEGMENT_CHANNEL;
    place_header(&dead)->payload_bytes = 2 * EPLB_SEGMENT_ALIGN;
    place_write(place_path("a"), dead.bytes, 3 * EPLB_SEGMENT_ALIGN);
    struct eplb_segment *owner = place_publish("a", 1, 0);
    expect_open(EPLB_SEGMENT_GROUP, 1, 1, EPLB_OK, NULL);
    eplb_segment_close(owner);
    assert_int_equal(place_count(), 1);
}

static void no_umask_spoils_a_segment(void **state)
{
    (void)state;
    struct stat info;
    mode_t before = umask(0777);
    unprivileged_begin();
    struct eplb_segment *owner = place_publish("a", 1, 0);
    struct eplb_segment *opener = place_open("a");
    unprivileged_end();
    umask(before);
    assert_int_equal(stat(place_path("a"), &info), 0);
    assert_int_equal(info.st_mode, S_IFREG | 0600);
    eplb_segment_close(opener);
    eplb_segment_close(owner);
}

/* A stopped holder of the generation lock is waited for once, not once a segment. */
static void many_are_closed_in_the_time_of_one(void **state)
{
    (void)state;
    struct eplb_shm_lock lock;
    struct eplb_segment *segments[3] = {place_publish("a", 1, 0), place_publish("b", 1, 0),
                                        place_publish("c", 1, 0)};
    struct eplb_segment *last = place_publish("d", 1, 0);
    assert_int_equal(eplb_shm_lock_take(place_directory(), &lock, NULL), EPLB_OK);
    int64_t begin = place_now_ms();
    for (int i = 0; i < 3; i++)
        eplb_segment_close(segments[i]);
    int64_t took = place_now_ms() - begin;
    eplb_shm_lock_release(&lock);
    assert_true(took >= 4999 && took < 7000);
    /* Their names have stayed, and are in nobody's way. */
    assert_int_equal(place_count(), 5);
    eplb_segment_close(place_publish("a", 1, 0));
    eplb_segment_close(last);
    assert_int_equal(access(place_path("d"), F_OK), -1);
    assert_int_equal(place_count(), 3);
}

static void directories_that_cannot_be_used(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    struct eplb_segment_name name = {.directory = "/nowhere", .instance = "a", .part = "group"};
    assert_int_equal(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &segment, &error), EPLB_IO);
    place_assert_contains(error.text, "No such file or directory: /nowhere/eplb.");
    assert_int_equal(eplb_segment_open(&name, EPLB_SEGMENT_GROUP, 0, 0, &segment, &error), EPLB_IO);
    name = place_name("a");
    assert_int_equal(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, SIZE_MAX, &segment, &error), EPLB_IO);
    place_assert_contains(error.text, "cannot be reserved, at most");
    assert_int_equal(place_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(names_are_checked, place_empty),
        cmocka_unit_test_teardown(what_one_writes_the_other_reads, place_empty),
        cmocka_unit_test_teardown(the_header_says_who_made_it, place_empty),
        cmocka_unit_test_teardown(without_a_name_nobody_sees_it, place_empty),
        cmocka_unit_test_teardown(a_second_life_is_newer_and_zero, place_empty),
        cmocka_unit_test_teardown(parts_of_one_run_share_a_generation, place_empty),
        cmocka_unit_test_teardown(two_instances_do_not_meet, place_empty),
        cmocka_unit_test_teardown(an_opener_gets_what_it_asked_for, place_empty),
        cmocka_unit_test_teardown(a_live_one_is_never_replaced, place_empty),
        cmocka_unit_test_teardown(a_refused_one_can_be_published_later, place_empty),
        cmocka_unit_test_teardown(only_its_own_name_is_removed, place_empty),
        cmocka_unit_test_teardown(a_forked_child_closes_only_what_is_its_own, place_empty),
        cmocka_unit_test_teardown(two_kinds_and_sizes_of_the_dead_are_replaced, place_empty),
        cmocka_unit_test_teardown(no_umask_spoils_a_segment, place_empty),
        cmocka_unit_test_teardown(many_are_closed_in_the_time_of_one, place_empty),
        cmocka_unit_test_teardown(directories_that_cannot_be_used, place_empty),
    };
    return cmocka_run_group_tests(tests, place_make, place_remove);
}
