/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/thread.h"
#include "shm/lock.h"
#include "support/process.h"
#include "support/unprivileged.h"
#include "unit/shm/place.h"

enum { MS = 1000000 };

static struct eplb_shm_lock take(void)
{
    struct eplb_shm_lock lock;
    struct eplb_error error = {0};
    place_expect(eplb_shm_lock_take(place_directory(), &lock, &error), EPLB_OK, &error);
    return lock;
}

static uint64_t next(struct eplb_shm_lock *lock)
{
    uint64_t generation = 0;
    struct eplb_error error = {0};
    place_expect(eplb_shm_lock_next(lock, &generation, &error), EPLB_OK, &error);
    return generation;
}

static struct eplb_lock_record record_in_file(void)
{
    struct eplb_lock_record record;
    struct place_content content = place_read(place_lock());
    assert_int_equal(content.size, EPLB_LOCK_BYTES);
    memcpy(&record, content.bytes, sizeof record);
    return record;
}

/* ---- what it holds ---- */

static void generations_are_counted_in_the_file(void **state)
{
    (void)state;
    struct stat info;
    mode_t before = umask(0);
    struct eplb_shm_lock lock = take();
    umask(before);
    assert_int_equal(stat(place_lock(), &info), 0);
    assert_int_equal(info.st_mode, S_IFREG | 0600);
    assert_int_equal(next(&lock), 1);
    assert_int_equal(next(&lock), 2);
    eplb_shm_lock_release(&lock);
    lock = take();
    assert_int_equal(lock.record.generation, 2);
    assert_int_equal(next(&lock), 3);
    struct eplb_lock_record record = record_in_file();
    assert_true(record.magic == EPLB_LOCK_MAGIC);
    assert_int_equal(record.version, EPLB_SEGMENT_VERSION);
    assert_int_equal(record.generation, 3);
    assert_int_equal(record.holder_pid, getpid());
    eplb_shm_lock_release(&lock);
    assert_int_equal(record_in_file().generation, 3);
    assert_int_equal(record_in_file().holder_pid, 0);
    assert_int_equal(place_count(), 1);
}

/* Whatever the umask, it is its user's to use. */
static void no_umask_spoils_the_file(void **state)
{
    (void)state;
    const mode_t masks[] = {0777, 0377, 0277, 077, 0};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct stat info;
        mode_t before = umask(masks[i]);
        unprivileged_begin();
        struct eplb_shm_lock lock = take();
        eplb_shm_lock_release(&lock);
        lock = take();
        eplb_shm_lock_release(&lock);
        unprivileged_end();
        umask(before);
        assert_int_equal(stat(place_lock(), &info), 0);
        assert_int_equal(info.st_mode, S_IFREG | 0600);
        assert_int_equal(unlink(place_lock()), 0);
    }
}

static void it_can_be_looked_at(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    assert_int_equal(eplb_shm_lock_check(place_lock(), &error), EPLB_IO);
    assert_int_equal(place_count(), 0);
    struct eplb_shm_lock lock = take();
    place_expect(eplb_shm_lock_check(place_lock(), &error), EPLB_OK, &error);
    eplb_shm_lock_release(&lock);
    place_expect(eplb_shm_lock_check(place_lock(), &error), EPLB_OK, &error);
    place_write(place_lock(), "", 0);
    place_expect(eplb_shm_lock_check(place_lock(), &error), EPLB_OK, &error);
    place_write(place_lock(), "garbage", 7);
    assert_int_equal(eplb_shm_lock_check(place_lock(), &error), EPLB_LAYOUT);
    place_assert_contains(error.text, " has 7 bytes, expected 64; once nothing uses it: rm /");
    assert_int_equal(unlink(place_lock()), 0);
    assert_int_equal(mkfifo(place_lock(), 0600), 0);
    assert_int_equal(eplb_shm_lock_check(place_lock(), &error), EPLB_LAYOUT);
    place_assert_contains(error.text, " is a named pipe, expected a regular file");
}

static void the_last_generation_is_the_last(void **state)
{
    (void)state;
    uint64_t generation;
    struct eplb_error error = {0};
    struct eplb_lock_record record = {
        .magic = EPLB_LOCK_MAGIC, .version = EPLB_SEGMENT_VERSION, .generation = UINT64_MAX - 1};
    place_write(place_lock(), &record, sizeof record);
    struct eplb_shm_lock lock = take();
    assert_true(next(&lock) == UINT64_MAX);
    assert_int_equal(eplb_shm_lock_next(&lock, &generation, &error), EPLB_LAYOUT);
    place_assert_contains(error.text, "has given out its last generation");
    eplb_shm_lock_release(&lock);
}

struct bad {
    const char *sentence;
    size_t size;
    struct eplb_lock_record record;
};

static void other_content_is_refused_and_left(void **state)
{
    (void)state;
    const struct bad bads[] = {
        {"has 63 bytes, expected 64", 63, {EPLB_LOCK_MAGIC, EPLB_SEGMENT_VERSION, 1, 1, {0}}},
        {"begins with 0000000000000000, expected 004b434c424c5045", 64, {.magic = 0}},
        {"is of layout version 1, expected 2", 64, {EPLB_LOCK_MAGIC, 1, 1, 1, {0}}},
    };
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct eplb_shm_lock lock;
        struct eplb_error error = {0};
        char remove[PLACE_PATH];
        size_t files = process_files();
        place_write(place_lock(), &bads[i].record, bads[i].size);
        assert_int_equal(eplb_shm_lock_take(place_directory(), &lock, &error), EPLB_LAYOUT);
        place_assert_contains(error.text, bads[i].sentence);
        snprintf(remove, sizeof remove, "once nothing uses it: rm %s", place_lock());
        place_assert_contains(error.text, remove);
        struct place_content content = place_read(place_lock());
        assert_int_equal(content.size, bads[i].size);
        assert_memory_equal(content.bytes, &bads[i].record, bads[i].size);
        assert_int_equal(process_files(), files);
    }
}

/* ---- what stands under its name ---- */

static void expect_refused(enum eplb_status status, const char *sentence)
{
    struct eplb_shm_lock lock;
    struct eplb_error error = {0};
    place_expect(eplb_shm_lock_take(place_directory(), &lock, &error), status, &error);
    place_assert_contains(error.text, sentence);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    const char *path = place_lock();
    assert_int_equal(symlink("elsewhere", path), 0);
    expect_refused(EPLB_LAYOUT, "is a symbolic link, expected a regular file; once nothing uses it: rm /");
    assert_int_equal(place_count(), 1);
    assert_int_equal(unlink(path), 0);

    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(EPLB_LAYOUT, "is a directory, expected a regular file; once nothing uses it: rm -r /");
    assert_int_equal(rmdir(path), 0);

    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(EPLB_LAYOUT, "is a named pipe, expected a regular file");
    assert_int_equal(unlink(path), 0);

    place_write(path, "", 0);
    assert_int_equal(chmod(path, 0640), 0);
    expect_refused(EPLB_LAYOUT,
                   "has mode 0640, expected 0600: others may hold it; once nothing uses it: rm /");
    assert_int_equal(chmod(path, 0400), 0);
    expect_refused(EPLB_LAYOUT, "has mode 0400, expected 0600; once nothing uses it: rm /");
    unprivileged_begin();
    expect_refused(EPLB_LAYOUT, "has mode 0400, expected 0600; once nothing uses it: rm /");
    unprivileged_end();
    assert_int_equal(chmod(path, 0600), 0);

    assert_int_equal(link(path, place_path("second")), 0);
    expect_refused(EPLB_LAYOUT, "has 2 names, expected one");
    assert_int_equal(unlink(place_path("second")), 0);
    assert_int_equal(place_read(path).size, 0);

    if (geteuid() != 0) {
        print_message("SKIP: only root can give a file away\n");
        return;
    }
    assert_int_equal(chown(path, 65534, 65534), 0);
    expect_refused(EPLB_LAYOUT, "belongs to user 65534, expected user 0, whose name it bears");
}

static void a_missing_directory_is_a_sentence(void **state)
{
    (void)state;
    char longer[400];
    struct eplb_shm_lock lock;
    struct eplb_error error = {0};
    assert_int_equal(eplb_shm_lock_take("/nowhere", &lock, &error), EPLB_IO);
    place_assert_contains(error.text, "cannot be made: No such file or directory: /nowhere/eplb.");
    memset(longer, 'a', sizeof longer);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(eplb_shm_lock_take(longer, &lock, &error), EPLB_INVALID);
    place_assert_contains(error.text, "has 399 bytes, 1 to 255 are allowed: /aaaa");
}

/* ---- who holds it ---- */

struct holder {
    struct place_word has_it;
    const struct place_word *go_on;
};

static int hold_until_killed(void *argument)
{
    struct holder *holder = argument;
    struct eplb_shm_lock lock;
    if (eplb_shm_lock_take(place_directory(), &lock, NULL) != EPLB_OK)
        return 1;
    place_word_say(&holder->has_it);
    place_wait_to_be_killed();
}

static void a_killed_holder_frees_it(void **state)
{
    (void)state;
    struct holder holder = {.has_it = place_word_make()};
    for (int round = 0; round < 20; round++) {
        struct eplb_shm_lock lock;
        struct eplb_error error = {0};
        pid_t child = place_fork(hold_until_killed, &holder);
        place_word_hear(&holder.has_it);
        assert_int_equal(eplb_shm_lock_take_within(place_directory(), 0, &lock, &error), EPLB_RANK_SILENT);
        place_kill(child);
        int64_t begin = place_now_ms();
        lock = take();
        assert_true(place_now_ms() - begin < 1000);
        assert_int_equal(next(&lock), round + 1);
        eplb_shm_lock_release(&lock);
    }
    place_word_close(&holder.has_it);
}

static void a_stopped_holder_is_named(void **state)
{
    (void)state;
    struct holder holder = {.has_it = place_word_make()};
    pid_t child = place_fork(hold_until_killed, &holder);
    place_word_hear(&holder.has_it);
    assert_int_equal(kill(child, SIGSTOP), 0);
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));

    struct eplb_shm_lock lock;
    struct eplb_error error = {0};
    char sentence[PLACE_PATH];
    size_t files = process_files();
    int64_t begin = place_now_ms();
    place_expect(eplb_shm_lock_take_within(place_directory(), 50 * MS, &lock, &error), EPLB_RANK_SILENT,
                 &error);
    int64_t waited = place_now_ms() - begin;
    assert_true(waited >= 49 && waited < 1000);
    snprintf(sentence, sizeof sentence,
             "process %d has not let go of the lock of shared memory for 50 ms (is it stopped?): %s", child,
             place_lock());
    assert_string_equal(error.text, sentence);
    assert_int_equal(process_files(), files);
    assert_true(EPLB_LOCK_PATIENCE_NS == INT64_C(5000) * MS);
    place_kill(child);
    lock = take();
    eplb_shm_lock_release(&lock);
    place_word_close(&holder.has_it);
}

static void wait_for_release(void *argument)
{
    struct eplb_shm_lock *lock = argument;
    *lock = take();
}

/* Stopped between the lock and the signature: not who signed last is named. */
static void one_that_has_not_signed_is_not_named(void **state)
{
    (void)state;
    struct eplb_shm_lock lock = take();
    eplb_shm_lock_release(&lock);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(place_lock(), O_RDWR | O_CLOEXEC);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
    struct eplb_error error = {0};
    char sentence[PLACE_PATH];
    place_expect(eplb_shm_lock_take_within(place_directory(), 0, &lock, &error), EPLB_RANK_SILENT, &error);
    snprintf(sentence, sizeof sentence,
             "a process that has not signed has not let go of the lock of shared memory for 0 ms (is it "
             "stopped?): %s",
             place_lock());
    assert_string_equal(error.text, sentence);
    close(fd);
}

static void a_removed_lock_file_is_made_anew(void **state)
{
    (void)state;
    struct eplb_shm_lock first = take();
    assert_int_equal(next(&first), 1);
    struct eplb_thread thread;
    struct eplb_shm_lock second;
    size_t files = process_files();
    int64_t begin = place_now_ms();
    assert_int_equal(eplb_thread_start(&thread, "waiter", wait_for_release, &second, NULL), EPLB_OK);
    /* Until the waiter has the old file open. */
    while (process_files() == files)
        assert_true(place_now_ms() - begin < 20000);
    assert_int_equal(unlink(place_lock()), 0);
    eplb_shm_lock_release(&first);
    eplb_thread_join(&thread);
    struct stat held;
    struct stat named;
    assert_int_equal(fstat(second.descriptor, &held), 0);
    assert_int_equal(stat(place_lock(), &named), 0);
    assert_int_equal(held.st_ino, named.st_ino);
    eplb_shm_lock_release(&second);
}

enum { THREADS = 3, TURNS = 200 };

struct counter {
    uint64_t value; /* under the lock */
};

static void count_up(void *argument)
{
    struct counter *counter = argument;
    for (int i = 0; i < TURNS; i++) {
        struct eplb_shm_lock lock = take();
        uint64_t generation = next(&lock);
        /* An atomic only so that ThreadSanitizer, which does not know file locks, is content. */
        uint64_t before = __atomic_load_n(&counter->value, __ATOMIC_RELAXED);
        assert_int_equal(generation, before + 1);
        __atomic_store_n(&counter->value, generation, __ATOMIC_RELAXED);
        eplb_shm_lock_release(&lock);
    }
}

static void threads_of_one_process_exclude_each_other(void **state)
{
    (void)state;
    struct counter counter = {.value = 0};
    struct eplb_thread threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(eplb_thread_start(&threads[i], "counter", count_up, &counter, NULL), EPLB_OK);
    for (int i = 0; i < THREADS; i++)
        eplb_thread_join(&threads[i]);
    assert_int_equal(record_in_file().generation, THREADS * TURNS);
}

static int wait_for_word(void *argument)
{
    struct holder *holder = argument;
    place_word_say(&holder->has_it);
    char letter;
    return read(holder->go_on->ends[0], &letter, 1) == 1 ? 0 : 1;
}

/* A child that was forked while the lock was held has its descriptor. */
static void a_forked_child_does_not_keep_it(void **state)
{
    (void)state;
    struct place_word go_on = place_word_make();
    struct holder holder = {.has_it = place_word_make(), .go_on = &go_on};
    struct eplb_shm_lock lock = take();
    pid_t child = place_fork(wait_for_word, &holder);
    place_word_hear(&holder.has_it);
    eplb_shm_lock_release(&lock);
    struct eplb_error error = {0};
    place_expect(eplb_shm_lock_take_within(place_directory(), 0, &lock, &error), EPLB_OK, &error);
    eplb_shm_lock_release(&lock);
    place_word_say(&go_on);
    place_await(child, 0);
    place_word_close(&go_on);
    place_word_close(&holder.has_it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(generations_are_counted_in_the_file, place_empty),
        cmocka_unit_test_teardown(no_umask_spoils_the_file, place_empty),
        cmocka_unit_test_teardown(it_can_be_looked_at, place_empty),
        cmocka_unit_test_teardown(the_last_generation_is_the_last, place_empty),
        cmocka_unit_test_teardown(other_content_is_refused_and_left, place_empty),
        cmocka_unit_test_teardown(other_files_are_refused, place_empty),
        cmocka_unit_test_teardown(a_missing_directory_is_a_sentence, place_empty),
        cmocka_unit_test_teardown(a_killed_holder_frees_it, place_empty),
        cmocka_unit_test_teardown(a_stopped_holder_is_named, place_empty),
        cmocka_unit_test_teardown(one_that_has_not_signed_is_not_named, place_empty),
        cmocka_unit_test_teardown(a_removed_lock_file_is_made_anew, place_empty),
        cmocka_unit_test_teardown(threads_of_one_process_exclude_each_other, place_empty),
        cmocka_unit_test_teardown(a_forked_child_does_not_keep_it, place_empty),
    };
    return cmocka_run_group_tests(tests, place_make, place_remove);
}
