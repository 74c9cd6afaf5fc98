/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Owners that die at any moment, and children that outlive them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/prng.h"
#include "shm/listing.h"
#include "shm/lock.h"
#include "shm/segment.h"
#include "unit/shm/place.h"

enum { KILLS = 200, LONGEST_LIFE_NS = 5000000, HOLD_NS = 500000, PAYLOAD = 64 * 1024 };

/* An owner in a process of its own, and what it has told. */
struct owner {
    struct place_word ready;
    struct place_word go_on;
    int answers[2]; /* a pipe, for a number */
};

static struct owner owner_make(void)
{
    struct owner owner = {.ready = place_word_make(), .go_on = place_word_make()};
    assert_int_equal(pipe(owner.answers), 0);
    return owner;
}

static void owner_free(const struct owner *owner)
{
    place_word_close(&owner->ready);
    place_word_close(&owner->go_on);
    close(owner->answers[0]);
    close(owner->answers[1]);
}

/* Not with the helpers of the tests: a child that fails one would run the parent's next tests. */
static struct eplb_segment *child_publish(void)
{
    struct eplb_segment *segment;
    struct eplb_segment_name name = place_name("a");
    if (eplb_segment_build(&name, EPLB_SEGMENT_GROUP, PAYLOAD, &segment, NULL) != EPLB_OK)
        _exit(1);
    memset(eplb_segment_payload(segment), 0x11, PAYLOAD);
    if (eplb_segment_publish(segment, 0, NULL) != EPLB_OK)
        _exit(2);
    return segment;
}

static int publish_and_wait(void *argument)
{
    struct owner *owner = argument;
    (void)child_publish();
    place_word_say(&owner->ready);
    place_wait_to_be_killed();
}

static void the_dead_are_replaced_and_the_living_not(void **state)
{
    (void)state;
    struct owner owner = owner_make();
    struct eplb_error error = {0};
    struct eplb_segment *other;
    struct eplb_segment_name name = place_name("a");
    char sentence[100];
    pid_t child = place_fork(publish_and_wait, &owner);
    place_word_hear(&owner.ready);
    struct eplb_segment *opener = place_open("a");
    assert_true(eplb_segment_owner_lives(opener));
    place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &other, &error), EPLB_IN_USE, &error);
    snprintf(sentence, sizeof sentence, "the instance name 'a' is in use by process %d; choose", child);
    place_assert_contains(error.text, sentence);

    place_kill(child);
    assert_false(eplb_segment_owner_lives(opener));
    assert_int_equal(((unsigned char *)eplb_segment_payload(opener))[PAYLOAD - 1], 0x11);
    place_expect(eplb_segment_open(&name, EPLB_SEGMENT_GROUP, 0, 0, &other, &error), EPLB_REFUSED, &error);
    snprintf(sentence, sizeof sentence, "process %d, which made this shared memory, has ended: /", child);
    place_assert_contains(error.text, sentence);

    struct eplb_segment *next = place_publish("a", PAYLOAD, 0);
    assert_int_equal(eplb_segment_generation(next), 2);
    assert_int_equal(((unsigned char *)eplb_segment_payload(next))[PAYLOAD - 1], 0);
    /* The old one's opener sees neither the new one nor its owner. */
    assert_int_equal(((unsigned char *)eplb_segment_payload(opener))[PAYLOAD - 1], 0x11);
    assert_false(eplb_segment_owner_lives(opener));
    eplb_segment_close(opener);
    assert_int_equal(access(place_path("a"), F_OK), 0);
    eplb_segment_close(next);
    owner_free(&owner);
}

/* A stopped owner lives. */
static void the_stopped_are_not_replaced(void **state)
{
    (void)state;
    int status;
    struct owner owner = owner_make();
    struct eplb_error error = {0};
    struct eplb_segment *other;
    struct eplb_segment_name name = place_name("a");
    pid_t child = place_fork(publish_and_wait, &owner);
    place_word_hear(&owner.ready);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &other, &error), EPLB_IN_USE, &error);
    struct eplb_segment *opener = place_open("a");
    assert_true(eplb_segment_owner_lives(opener));
    eplb_segment_close(opener);
    place_kill(child);
    owner_free(&owner);
}

/* ---- kills at random moments ---- */

static void busy_until(int64_t nanoseconds)
{
    struct timespec begin;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * INT64_C(1000000000) + now.tv_nsec - begin.tv_nsec < nanoseconds);
}

static int publish_forever(void *argument)
{
    const struct place_word *ready = argument;
    place_word_say(ready);
    do {
        struct eplb_segment *segment = child_publish();
        busy_until(HOLD_NS);
        eplb_segment_close(segment);
    } while (getppid() > 1);
    return 0;
}

static void a_kill_at_any_moment_is_in_nobodys_way(void **state)
{
    (void)state;
    const uint64_t seed = (uint64_t)time(NULL);
    struct eplb_prng prng;
    struct place_word ready = place_word_make();
    uint64_t last = 0;
    int found_dead = 0;
    int64_t longest = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    eplb_prng_seed(&prng, seed);
    for (int kills = 0; kills < KILLS; kills++) {
        pid_t child = place_fork(publish_forever, &ready);
        place_word_hear(&ready);
        busy_until((int64_t)eplb_prng_below(&prng, LONGEST_LIFE_NS));
        place_kill(child);
        found_dead += access(place_path("a"), F_OK) == 0;

        int64_t begin = place_now_ms();
        struct eplb_segment *segment = place_publish("a", PAYLOAD, 0);
        int64_t took = place_now_ms() - begin;
        longest = took > longest ? took : longest;
        assert_true(took < 1000);
        assert_true(eplb_segment_generation(segment) > last);
        last = eplb_segment_generation(segment);
        assert_int_equal(place_read(place_lock()).size, EPLB_LOCK_BYTES);
        assert_int_equal(place_count(), 2);
        eplb_segment_close(segment);
        assert_int_equal(place_count(), 1);
    }
    /* Else the kills came all before or after what they were to meet. */
    assert_true(found_dead > 0 && found_dead < KILLS);
    print_message("%d of %d found a dead one; longest publish %lld ms; %llu generations\n", found_dead, KILLS,
                  (long long)longest, (unsigned long long)last);
    place_word_close(&ready);
}

/* Builds, waits for the word, publishes and tells how that went. */
static int publish_at_the_word(void *argument)
{
    struct owner *owner = argument;
    struct eplb_segment *segment;
    struct eplb_segment_name name = place_name("a");
    char letter;
    if (eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &segment, NULL) != EPLB_OK)
        return 1;
    place_word_say(&owner->ready);
    if (read(owner->go_on.ends[0], &letter, 1) != 1)
        return 2;
    int status = (int)eplb_segment_publish(segment, 0, NULL);
    if (write(owner->answers[1], &status, sizeof status) != sizeof status)
        return 3;
    place_wait_to_be_killed();
}

/* Two that want one name at once: exactly one has it. */
static void of_two_at_once_one_is_told(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    struct eplb_segment_name name = place_name("a");
    int won = 0;
    for (int round = 0; round < 100; round++) {
        int other;
        struct owner owner = owner_make();
        struct eplb_segment *segment;
        place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, 1, &segment, &error), EPLB_OK, &error);
        pid_t child = place_fork(publish_at_the_word, &owner);
        place_word_hear(&owner.ready);
        place_word_say(&owner.go_on);
        enum eplb_status mine = eplb_segment_publish(segment, 0, &error);
        assert_int_equal(read(owner.answers[0], &other, sizeof other), sizeof other);
        assert_true((mine == EPLB_OK) != (other == EPLB_OK));
        assert_int_equal(mine == EPLB_OK ? other : (int)mine, EPLB_IN_USE);
        won += mine == EPLB_OK;
        place_kill(child);
        eplb_segment_close(segment);
        owner_free(&owner);
    }
    print_message("%d of 100 won\n", won);
}

/* ---- forked children ---- */

static void leave_a_child(struct owner *owner, struct eplb_segment *segment)
{
    pid_t grandchild = fork();
    if (grandchild == 0) {
        char letter;
        /* So that it ends with the test, if that fails. */
        close(owner->go_on.ends[1]);
        place_word_say(&owner->ready);
        ssize_t got = read(owner->go_on.ends[0], &letter, 1);
        /* Must not take the name, which may be another's by now. */
        eplb_segment_close(segment);
        place_word_say(&owner->ready);
        _exit(got == 1 ? 0 : 1);
    }
    if (write(owner->answers[1], &grandchild, sizeof grandchild) != sizeof grandchild)
        _exit(3);
}

static int publish_and_leave_a_child(void *argument)
{
    struct owner *owner = argument;
    leave_a_child(owner, child_publish());
    place_wait_to_be_killed();
}

/* The one whose descriptor is still open, because it was not published yet. */
static int build_and_leave_a_child(void *argument)
{
    struct owner *owner = argument;
    struct eplb_segment *segment;
    struct eplb_segment_name name = place_name("a");
    if (eplb_segment_build(&name, EPLB_SEGMENT_GROUP, PAYLOAD, &segment, NULL) != EPLB_OK)
        return 1;
    leave_a_child(owner, segment);
    if (eplb_segment_publish(segment, 0, NULL) != EPLB_OK)
        return 2;
    place_word_say(&owner->ready);
    place_wait_to_be_killed();
}

static void check_that_a_child_keeps_nothing_alive(int (*run)(void *argument), int words)
{
    struct owner owner = owner_make();
    pid_t grandchild;
    pid_t child = place_fork(run, &owner);
    for (int i = 0; i < words; i++)
        place_word_hear(&owner.ready);
    assert_int_equal(read(owner.answers[0], &grandchild, sizeof grandchild), sizeof grandchild);
    struct eplb_segment *opener = place_open("a");
    place_kill(child);
    assert_int_equal(kill(grandchild, 0), 0);
    assert_false(eplb_segment_owner_lives(opener));
    eplb_segment_close(opener);
    struct eplb_segment *next = place_publish("a", PAYLOAD, 0);
    place_word_say(&owner.go_on);
    place_word_hear(&owner.ready);
    assert_int_equal(access(place_path("a"), F_OK), 0);
    eplb_segment_close(next);
    owner_free(&owner);
}

static void a_forked_child_keeps_no_dead_owner_alive(void **state)
{
    (void)state;
    check_that_a_child_keeps_nothing_alive(publish_and_leave_a_child, 1);
    place_empty(NULL);
    check_that_a_child_keeps_nothing_alive(build_and_leave_a_child, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_dead_are_replaced_and_the_living_not, place_empty),
        cmocka_unit_test_teardown(the_stopped_are_not_replaced, place_empty),
        cmocka_unit_test_teardown(a_kill_at_any_moment_is_in_nobodys_way, place_empty),
        cmocka_unit_test_teardown(of_two_at_once_one_is_told, place_empty),
        cmocka_unit_test_teardown(a_forked_child_keeps_no_dead_owner_alive, place_empty),
    };
    return cmocka_run_group_tests(tests, place_make, place_remove);
}
