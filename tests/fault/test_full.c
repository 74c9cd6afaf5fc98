/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Shared memory that is nearly full: a start that does not fit is a sentence, and leaves nothing. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fault/wanderer.h"
#include "support/children.h"
#include "support/shm_place.h"

enum { RANKS = 4, SKIPPED = 77, PAGE = 4096, PLENTY = 64 << 20, MANY = 1000, STEPS = 24, SEED = 20240512 };

#define PATIENCE_NS (INT64_C(60) * 1000000000)

/* ---- a small file system of the process's own ---- */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t written = write(fd, text, strlen(text));
    close(fd);
    return written == (ssize_t)strlen(text);
}

/** As root, or as a user who may be root of his own. */
static bool leave_mounts(void)
{
    char users[64];
    char groups[64];
    snprintf(users, sizeof users, "%u %u 1", geteuid(), geteuid());
    snprintf(groups, sizeof groups, "%u %u 1", getegid(), getegid());
    if (unshare(CLONE_NEWNS) == 0)
        return true;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", groups);
}

static bool mount_small(const char *path)
{
    return leave_mounts() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("eplb", path, "tmpfs", 0, "size=4k") == 0;
}

/** Gives it room for so many bytes and files. */
static void resize(const char *path, size_t bytes, size_t files)
{
    char options[64];
    snprintf(options, sizeof options, "size=%zu,nr_inodes=%zu", bytes, files);
    if (mount("eplb", path, "tmpfs", MS_REMOUNT, options) != 0)
        child_fail("the file system cannot be given another size");
}

static size_t bytes_in_use(const char *path)
{
    struct statvfs space;
    if (statvfs(path, &space) != 0)
        child_fail("the file system does not say how full it is");
    return (size_t)(space.f_blocks - space.f_bfree) * space.f_frsize;
}

/* ---- starts ---- */

static enum eplb_status try_to_start(const struct shm_place *place, struct team **team,
                                     struct eplb_error *error)
{
    struct fleet_params params;
    fleet_params_init(&params, place->path, "full", RANKS);
    return fleet_create(&params, team, error);
}

/** What a start needs, told by one that has all it wants. */
static size_t bytes_of_a_start(const struct shm_place *place)
{
    struct team *team;
    struct eplb_error error;
    resize(place->path, PLENTY, MANY);
    if (try_to_start(place, &team, &error) != EPLB_OK)
        child_fail(error.text);
    size_t bytes = bytes_in_use(place->path);
    team_destroy(team);
    return bytes;
}

/** Whether it starts; if not, it says so in a sentence and has given everything back. */
static bool starts(const struct shm_place *place)
{
    struct team *team;
    struct eplb_error error;
    struct wanderer wanderer;
    size_t before = bytes_in_use(place->path);
    enum eplb_status status = try_to_start(place, &team, &error);
    if (status == EPLB_OK) {
        wanderer_init(&wanderer, team, SEED, false);
        wanderer_begin(&wanderer);
        wanderer_round(&wanderer);
        team_destroy(team);
        wanderer_destroy(&wanderer);
        return true;
    }
    if (status != EPLB_IO || strstr(error.text, "No space left on device") == NULL ||
        strstr(error.text, place->path) == NULL)
        child_fail(error.text);
    if (shm_place_count(place) != 0)
        child_fail("a start that failed has left a name");
    if (bytes_in_use(place->path) > before)
        child_fail("a start that failed has left memory");
    return false;
}

/** Every size up to just too small is refused, and what is enough is enough. */
static void meet_every_bound(const struct shm_place *place)
{
    size_t need = bytes_of_a_start(place);
    print_message("a start needs %zu bytes\n", need);
    for (size_t step = 1; step <= STEPS; step++) {
        size_t bytes = step < STEPS ? need * step / STEPS / PAGE * PAGE : need - PAGE;
        resize(place->path, bytes < PAGE ? PAGE : bytes, MANY);
        if (starts(place))
            child_fail("it has started with too little memory");
    }
    resize(place->path, need, MANY);
    if (!starts(place))
        child_fail("it does not start with just enough memory");
    /* The root has one, and the lock. */
    for (size_t files = 2; files < 2 + RANKS + 1; files++) {
        resize(place->path, 2 * need, files);
        if (starts(place))
            child_fail("it has started with too few files");
    }
}

static void run_small(void *context, int32_t index)
{
    (void)index;
    const struct shm_place *place = context;
    if (!mount_small(place->path))
        _exit(SKIPPED);
    meet_every_bound(place);
}

static void test_full(void **state)
{
    (void)state;
    struct shm_place place;
    struct child child;
    print_message("seed %d\n", SEED);
    shm_place_open(&place);
    child_start(&child, run_small, &place, 0);
    assert_int_equal(children_next(&child, 1, eplb_clock_system()->now(NULL) + PATIENCE_NS), 0);
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
    if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == SKIPPED) {
        print_message("SKIP: no small tmpfs can be mounted here\n");
        skip();
    }
    assert_int_equal(child.status, 0);
}

int main(int argc, char **argv)
{
    fleet_main(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
