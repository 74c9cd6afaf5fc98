/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Memory, descriptors and room that run out: a sentence, nothing left behind, nothing of others touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/listing.h"
#include "shm/lock.h"
#include "shm/reserve.h"
#include "shm/segment.h"
#include "support/allocations.h"
#include "support/process.h"
#include "unit/shm/place.h"

enum { SKIPPED = 77, PAGE = 4096, SMALL_TMPFS = 65536, MIB = 1 << 20 };

/* For children, which must not jump into the parent's tests. */
#define CHECK(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            print_error("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, error.text); \
            return 1;                                                                   \
        }                                                                               \
    } while (0)

/* Runs it in a child; skips the test when the child says so. */
static void in_child(int (*run)(void *argument), void *argument)
{
    int status;
    pid_t child = place_fork(run, argument);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static enum eplb_status build(const char *instance, size_t bytes, struct eplb_segment **segment,
                              struct eplb_error *error)
{
    struct eplb_segment_name name = place_name(instance);
    return eplb_segment_build(&name, EPLB_SEGMENT_GROUP, bytes, segment, error);
}

static enum eplb_status open_any(const char *instance, struct eplb_segment **segment,
                                 struct eplb_error *error)
{
    struct eplb_segment_name name = place_name(instance);
    return eplb_segment_open(&name, EPLB_SEGMENT_GROUP, 0, 0, segment, error);
}

/* ---- address space: a sanitizer needs it itself ---- */

#if !SANITIZED

static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1)
        _exit(1);
    fclose(file);
    return (rlim_t)pages * PAGE;
}

static int have_no_room_to_map(void *argument)
{
    (void)argument;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    struct rlimit limit = {.rlim_cur = address_space() + MIB, .rlim_max = RLIM_INFINITY};
    size_t files = process_files();
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(open_any("a", &segment, &error) == EPLB_NO_MEMORY);
    CHECK(strstr(error.text, "shared memory of 16781312 bytes cannot be mapped: Cannot allocate memory: /") !=
          NULL);
    CHECK(build("b", 16 * MIB, &segment, &error) == EPLB_NO_MEMORY);
    CHECK(process_files() == files);
    limit.rlim_cur = RLIM_INFINITY;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(open_any("a", &segment, &error) == EPLB_OK);
    CHECK(((unsigned char *)eplb_segment_payload(segment))[16 * MIB - 1] == 0x33);
    CHECK(eplb_segment_owner_lives(segment));
    eplb_segment_close(segment);
    return 0;
}

static void an_opener_without_room_harms_nobody(void **state)
{
    (void)state;
    struct eplb_segment *owner = place_publish("a", 16 * MIB, 0);
    memset(eplb_segment_payload(owner), 0x33, 16 * MIB);
    in_child(have_no_room_to_map, NULL);
    assert_int_equal(((unsigned char *)eplb_segment_payload(owner))[16 * MIB - 1], 0x33);
    assert_int_equal(place_count(), 2);
    struct eplb_segment *opener = place_open("a");
    assert_true(eplb_segment_owner_lives(opener));
    eplb_segment_close(opener);
    eplb_segment_close(owner);
}

#endif

/* ---- descriptors ---- */

enum { FAILED_OPENS = 5000, FEW_FILES = 64 };

static int fail_to_open(void *argument)
{
    (void)argument;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    struct rlimit limit = {.rlim_cur = FEW_FILES, .rlim_max = FEW_FILES};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    size_t files = process_files();
    for (int i = 0; i < FAILED_OPENS; i++) {
        CHECK(open_any("missing", &segment, &error) == EPLB_INVALID);
        CHECK(open_any("old", &segment, &error) == EPLB_LAYOUT);
        CHECK(open_any("dead", &segment, &error) == EPLB_REFUSED);
    }
    CHECK(process_files() == files);
    return 0;
}

static void failed_opens_leak_nothing(void **state)
{
    (void)state;
    struct place_content content = place_segment();
    place_write(place_path("dead"), content.bytes, content.size);
    place_header(&content)->version = 1;
    place_write(place_path("old"), content.bytes, content.size);
    in_child(fail_to_open, NULL);
}

static int limit_files(rlim_t limit)
{
    struct rlimit files = {.rlim_cur = limit, .rlim_max = 1024};
    return setrlimit(RLIMIT_NOFILE, &files);
}

/* Each call of a step gets one descriptor more than the one before, until it has enough. */
static int run_out_of_descriptors(void *argument)
{
    (void)argument;
    enum { STEPS = 3 };
    const int least_failures[STEPS] = {2, 3, 3};
    struct eplb_error error = {0};
    struct eplb_segment *segment = NULL;
    struct eplb_segment *opener = NULL;
    size_t files = process_files();
    for (int step = 0; step < STEPS; step++) {
        enum eplb_status status = EPLB_IO;
        int failures = 0;
        for (rlim_t limit = 3; status == EPLB_IO; limit++) {
            CHECK(limit_files(limit) == 0);
            if (step == 0)
                status = build("a", PAGE, &segment, &error);
            else if (step == 1)
                status = eplb_segment_publish(segment, 0, &error);
            else
                status = open_any("a", &opener, &error);
            failures += status == EPLB_IO;
        }
        CHECK(status == EPLB_OK && failures >= least_failures[step]);
    }
    eplb_segment_close(opener);
    eplb_segment_close(segment);
    CHECK(limit_files(1024) == 0);
    CHECK(process_files() == files);
    return 0;
}

static void a_lack_of_descriptors_is_a_sentence(void **state)
{
    (void)state;
    in_child(run_out_of_descriptors, NULL);
    assert_int_equal(place_count(), 1);
}

/* ---- allocations ---- */

static void a_lack_of_memory_is_a_status(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    struct eplb_segment *segment = NULL;
    struct eplb_segment *owner = place_publish("a", PAGE, 0);
    struct eplb_segment_info *infos;
    size_t count;
    size_t files = process_files();
    allocations_reset(1);
    enum eplb_status built = build("b", PAGE, &segment, &error);
    enum eplb_status opened = open_any("a", &segment, &error);
    enum eplb_status listed = eplb_segment_list(place_directory(), &infos, &count, &error);
    allocations_reset(0);
    assert_int_equal(built, EPLB_NO_MEMORY);
    assert_int_equal(opened, EPLB_NO_MEMORY);
    assert_int_equal(listed, EPLB_NO_MEMORY);
    assert_int_equal(process_files(), files);
    assert_int_equal(place_count(), 2);
    assert_true(eplb_segment_owner_lives(owner));
    eplb_segment_close(owner);
}

/* ---- room ---- */

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t written = write(fd, text, strlen(text));
    close(fd);
    return written == (ssize_t)strlen(text) ? 0 : -1;
}

/* A view of the mounts of its own, as root or as a user who may be root of his own. */
static int leave_mounts(void)
{
    char users[64];
    char groups[64];
    snprintf(users, sizeof users, "%u %u 1", geteuid(), geteuid());
    snprintf(groups, sizeof groups, "%u %u 1", getegid(), getegid());
    if (unshare(CLONE_NEWNS) == 0)
        return 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || write_text("/proc/self/uid_map", users) != 0 ||
        write_text("/proc/self/setgroups", "deny") != 0)
        return -1;
    return write_text("/proc/self/gid_map", groups);
}

/* 0 when the directory of this program is a small tmpfs from now on, for this process alone. */
static int mount_small(void)
{
    if (leave_mounts() != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("eplb", place_directory(), "tmpfs", 0, "size=64k") != 0) {
        print_message("SKIP: no small tmpfs can be mounted here\n");
        return -1;
    }
    return 0;
}

static int names(void)
{
    int count = 0;
    DIR *folder = opendir(place_directory());
    if (folder == NULL)
        return -1;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static size_t room(void)
{
    struct statvfs space;
    return statvfs(place_directory(), &space) == 0 ? (size_t)(space.f_bavail * space.f_frsize) : SIZE_MAX;
}

/* Takes all room there is. */
static int fill(const char *path)
{
    static const char page[PAGE];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    while (write(fd, page, sizeof page) == sizeof page)
        ;
    close(fd);
    return room() == 0 ? 0 : -1;
}

static int ask_for_too_much(void *argument)
{
    (void)argument;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    char sentence[PLACE_PATH + 200];
    if (mount_small() != 0)
        return SKIPPED;
    CHECK(build("a", MIB, &segment, &error) == EPLB_IO);
    snprintf(sentence, sizeof sentence,
             "shared memory of %d bytes cannot be reserved, %d bytes are free: No space left on device: %s",
             MIB + PAGE, SMALL_TMPFS - PAGE, place_path("a"));
    CHECK(strcmp(error.text, sentence) == 0);
    CHECK(names() == 1 && room() == SMALL_TMPFS - PAGE);

    /* What fits to the last page is had, and every byte can be written. */
    CHECK(build("a", SMALL_TMPFS - 2 * PAGE, &segment, &error) == EPLB_OK);
    CHECK(room() == 0);
    memset(eplb_segment_payload(segment), 1, eplb_segment_payload_bytes(segment));
    CHECK(eplb_segment_publish(segment, 0, &error) == EPLB_OK);
    struct eplb_segment *other;
    CHECK(build("b", 1, &other, &error) == EPLB_IO);
    CHECK(strstr(error.text, "shared memory of 8192 bytes cannot be reserved, 0 bytes are free: ") != NULL);
    eplb_segment_close(segment);
    CHECK(names() == 1 && room() == SMALL_TMPFS - PAGE);
    return 0;
}

static void too_little_room_is_a_sentence(void **state)
{
    (void)state;
    in_child(ask_for_too_much, NULL);
}

/* A segment whose owner is dead, of so many bytes. */
static int leave_dead(const char *instance, size_t bytes)
{
    struct place_content content = place_segment();
    place_header(&content)->payload_bytes = bytes - PAGE;
    int fd = open(place_path(instance), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    bool done = posix_fallocate(fd, 0, (off_t)bytes) == 0 && write(fd, content.bytes, PAGE) == PAGE;
    close(fd);
    return done ? 0 : -1;
}

static int start_again(void *argument)
{
    (void)argument;
    enum { MOST = SMALL_TMPFS * 3 / 4 };
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    char sentence[200];
    if (mount_small() != 0)
        return SKIPPED;
    /* Both do not fit. */
    CHECK(leave_dead("a", MOST) == 0);
    CHECK(build("a", MOST - PAGE, &segment, &error) == EPLB_OK);
    CHECK(eplb_segment_publish(segment, 0, &error) == EPLB_OK);
    eplb_segment_close(segment);

    /* What is dead under other names is told, and left. */
    CHECK(leave_dead("b", PAGE * 4) == 0 && leave_dead("c", PAGE * 5) == 0);
    CHECK(build("a", MOST, &segment, &error) == EPLB_IO);
    snprintf(sentence, sizeof sentence, "; dead segments hold %d bytes, which eplb shm clean removes",
             PAGE * 9);
    CHECK(strstr(error.text, " bytes are free: No space left on device: ") != NULL);
    CHECK(strstr(error.text, sentence) != NULL);
    CHECK(names() == 3);
    return 0;
}

static void a_restart_needs_its_memory_once(void **state)
{
    (void)state;
    in_child(start_again, NULL);
}

/* The lock's file is missing, then empty: neither can be written. */
static int clean_where_it_is_full(void *argument)
{
    (void)argument;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    bool removed = false;
    if (mount_small() != 0)
        return SKIPPED;
    CHECK(leave_dead("a", PAGE * 2) == 0 && leave_dead("b", PAGE * 2) == 0 && leave_dead("c", PAGE * 2) == 0);
    CHECK(fill(place_path("filler")) == 0);
    CHECK(eplb_segment_remove_dead(place_path("a"), &removed, &error) == EPLB_OK && removed);
    CHECK(fill(place_path("filler2")) == 0);
    CHECK(truncate(place_lock(), 0) == 0 && fill(place_path("filler3")) == 0);
    CHECK(eplb_segment_remove_dead(place_path("b"), &removed, &error) == EPLB_OK && removed);
    CHECK(fill(place_path("filler4")) == 0);
    CHECK(truncate(place_lock(), 0) == 0 && fill(place_path("filler5")) == 0);
    CHECK(unlink(place_path("filler4")) == 0);
    CHECK(build("c", PAGE, &segment, &error) == EPLB_OK);
    CHECK(eplb_segment_publish(segment, 0, &error) == EPLB_OK);
    eplb_segment_close(segment);
    return 0;
}

static void a_full_place_can_be_cleaned(void **state)
{
    (void)state;
    in_child(clean_where_it_is_full, NULL);
}

static int have_no_room_for_the_lock(void *argument)
{
    (void)argument;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    if (mount_small() != 0)
        return SKIPPED;
    CHECK(build("a", PAGE, &segment, &error) == EPLB_OK);
    CHECK(truncate(place_lock(), 0) == 0);
    CHECK(fill(place_path("filler")) == 0);
    CHECK(eplb_segment_publish(segment, 0, &error) == EPLB_IO);
    CHECK(strstr(error.text,
                 "the lock of shared memory cannot be written: No space left on device: /dev/shm/") != NULL);
    /* The empty file that stays counts as a new one. */
    CHECK(unlink(place_path("filler")) == 0);
    CHECK(eplb_segment_publish(segment, 0, &error) == EPLB_OK);
    CHECK(eplb_segment_generation(segment) == 1);
    eplb_segment_close(segment);
    return 0;
}

static void no_room_for_the_lock_is_a_sentence(void **state)
{
    (void)state;
    in_child(have_no_room_for_the_lock, NULL);
}

static int miss_proc(void *argument)
{
    (void)argument;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    if (mount_small() != 0)
        return SKIPPED;
    if (mount("none", "/proc", "tmpfs", 0, NULL) != 0) {
        print_message("SKIP: nothing can be mounted over /proc here\n");
        return SKIPPED;
    }
    CHECK(build("a", PAGE, &segment, &error) == EPLB_IO);
    CHECK(strstr(error.text, "the lock of shared memory cannot be given its name through /proc/self/fd/") !=
          NULL);
    CHECK(strstr(error.text, ": No such file or directory (is /proc mounted?): /dev/shm/") != NULL);
    CHECK(names() == 0);
    CHECK(umount("/proc") == 0);
    CHECK(build("a", PAGE, &segment, &error) == EPLB_OK);
    CHECK(mount("none", "/proc", "tmpfs", 0, NULL) == 0);
    CHECK(eplb_segment_publish(segment, 0, &error) == EPLB_IO);
    CHECK(strstr(error.text, "shared memory cannot be given its name through /proc/self/fd/") != NULL);
    eplb_segment_close(segment);
    CHECK(build("a", PAGE, &segment, &error) == EPLB_IO);
    CHECK(strstr(error.text, "shared memory cannot be opened through /proc/self/fd/") != NULL);
    CHECK(leave_dead("a", PAGE * 2) == 0);
    CHECK(open_any("a", &segment, &error) == EPLB_IO);
    CHECK(strstr(error.text, "shared memory cannot be read through /proc/self/fd/") != NULL);
    CHECK(strstr(error.text, ": No such file or directory (is /proc mounted?): /dev/shm/") != NULL);
    return 0;
}

static void a_missing_proc_is_named(void **state)
{
    (void)state;
    in_child(miss_proc, NULL);
}

/* A limit that ends who passes it: asked before. */
static int meet_a_limit(void *argument)
{
    (void)argument;
    struct eplb_error error = {0};
    struct eplb_segment *segment;
    struct stat info;
    struct rlimit limit = {.rlim_cur = MIB, .rlim_max = MIB};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(build("a", 2 * MIB, &segment, &error) == EPLB_IO);
    CHECK(strstr(error.text,
                 "shared memory of 2101248 bytes cannot be reserved, files of this process may have "
                 "1048576 (RLIMIT_FSIZE): /") != NULL);
    int fd = open(place_directory(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK(eplb_shm_reserve(fd, 2 * MIB, "file", &error) == EPLB_IO);
    CHECK(fstat(fd, &info) == 0 && info.st_size == 0 && info.st_blocks == 0);
    CHECK(eplb_shm_reserve(fd, MIB, "file", &error) == EPLB_OK);
    CHECK(fstat(fd, &info) == 0 && info.st_size == MIB && info.st_blocks == MIB / 512);
    close(fd);
    /* Not even the lock's file may be written. */
    limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    struct eplb_shm_lock lock;
    uint64_t generation;
    CHECK(eplb_shm_lock_take(place_directory(), &lock, &error) == EPLB_OK);
    CHECK(eplb_shm_lock_next(&lock, &generation, &error) == EPLB_IO);
    CHECK(strstr(error.text, "the lock of shared memory cannot be written: File too large: /") != NULL);
    eplb_shm_lock_release(&lock);
    return 0;
}

static void a_limit_of_sizes_is_a_sentence(void **state)
{
    (void)state;
    in_child(meet_a_limit, NULL);
    assert_int_equal(place_count(), 1);
}

/* Larger than one step of the reservation. */
static void every_byte_is_reserved(void **state)
{
    (void)state;
    enum { SIZE = 17 * MIB + PAGE };
    struct eplb_error error = {0};
    struct stat info;
    int fd = open(place_directory(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    place_expect(eplb_shm_reserve(fd, SIZE, "file", &error), EPLB_OK, &error);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, SIZE);
    assert_int_equal(info.st_blocks, SIZE / 512);
    close(fd);
}

/* Only asked, never tried: where a tmpfs is as large as the memory, the kernel would kill somebody. */
static void more_than_the_machine_has_is_refused(void **state)
{
    (void)state;
    struct eplb_error error = {0};
    assert_int_equal(eplb_shm_check_memory(PAGE, "path", &error), EPLB_OK);
    assert_int_equal(eplb_shm_check_memory(SIZE_MAX / 2, "path", &error), EPLB_IO);
    place_assert_contains(error.text, "shared memory of 9223372036854775807 bytes cannot be reserved, ");
    place_assert_contains(error.text, " bytes are free: Cannot allocate memory: path");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#if !SANITIZED
        cmocka_unit_test_teardown(an_opener_without_room_harms_nobody, place_empty),
#endif
        cmocka_unit_test_teardown(failed_opens_leak_nothing, place_empty),
        cmocka_unit_test_teardown(a_lack_of_descriptors_is_a_sentence, place_empty),
        cmocka_unit_test_teardown(a_lack_of_memory_is_a_status, place_empty),
        cmocka_unit_test_teardown(too_little_room_is_a_sentence, place_empty),
        cmocka_unit_test_teardown(a_restart_needs_its_memory_once, place_empty),
        cmocka_unit_test_teardown(a_full_place_can_be_cleaned, place_empty),
        cmocka_unit_test_teardown(a_missing_proc_is_named, place_empty),
        cmocka_unit_test_teardown(no_room_for_the_lock_is_a_sentence, place_empty),
        cmocka_unit_test_teardown(a_limit_of_sizes_is_a_sentence, place_empty),
        cmocka_unit_test(every_byte_is_reserved),
        cmocka_unit_test(more_than_the_machine_has_is_refused),
    };
    return cmocka_run_group_tests(tests, place_make, place_remove);
}
