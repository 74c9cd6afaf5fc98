/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "unit/shm/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eplb/clock.h"

enum { PATIENCE_MS = 20000 };

static char directory[64];

int place_make(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/dev/shm/eplb-test-XXXXXX");
    return mkdtemp(directory) == NULL ? -1 : 0;
}

int place_remove(void **state)
{
    place_empty(state);
    return rmdir(directory);
}

const char *place_directory(void)
{
    return directory;
}

static int names(bool remove)
{
    int count = 0;
    DIR *folder = opendir(directory);
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (remove && unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            assert_int_equal(unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR), 0);
    }
    closedir(folder);
    return count;
}

int place_empty(void **state)
{
    (void)state;
    names(true);
    return 0;
}

int place_count(void)
{
    return names(false);
}

struct eplb_segment_name place_name(const char *instance)
{
    return (struct eplb_segment_name){.directory = directory, .instance = instance, .part = "group"};
}

/* Four paths in turn. */
static char *next_path(void)
{
    static char paths[4][PLACE_PATH];
    static int turn;
    turn = (turn + 1) % 4;
    return paths[turn];
}

const char *place_path(const char *instance)
{
    char *path = next_path();
    snprintf(path, PLACE_PATH, "%s/eplb.%u.%s.group", directory, geteuid(), instance);
    return path;
}

const char *place_lock(void)
{
    char *path = next_path();
    snprintf(path, PLACE_PATH, "%s/eplb.%u.lock", directory, geteuid());
    return path;
}

void place_write(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

struct place_content place_read(const char *path)
{
    struct place_content content = {.size = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t size = read(fd, content.bytes, sizeof content.bytes);
    assert_true(size >= 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), size);
    close(fd);
    content.size = (size_t)size;
    return content;
}

struct eplb_segment_header *place_header(struct place_content *content)
{
    return (struct eplb_segment_header *)(void *)content->bytes;
}

struct place_content place_segment(void)
{
    struct place_content content = {.size = 2 * EPLB_SEGMENT_ALIGN};
    struct eplb_segment_header header = {.magic = EPLB_SEGMENT_MAGIC,
                                         .version = EPLB_SEGMENT_VERSION,
                                         .kind = EPLB_SEGMENT_GROUP,
                                         .payload_bytes = EPLB_SEGMENT_ALIGN,
                                         .generation = 7,
                                         .owner_pid = 1234567};
    memcpy(content.bytes, &header, sizeof header);
    memset(content.bytes + EPLB_SEGMENT_ALIGN, 0xa5, EPLB_SEGMENT_ALIGN);
    return content;
}

struct eplb_segment *place_publish(const char *instance, size_t payload_bytes, uint64_t generation)
{
    struct eplb_error error = {0};
    struct eplb_segment *segment = NULL;
    struct eplb_segment_name name = place_name(instance);
    place_expect(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, payload_bytes, &segment, &error), EPLB_OK,
                 &error);
    place_expect(eplb_segment_publish(segment, generation, &error), EPLB_OK, &error);
    return segment;
}

struct eplb_segment *place_open(const char *instance)
{
    struct eplb_error error = {0};
    struct eplb_segment *segment = NULL;
    struct eplb_segment_name name = place_name(instance);
    place_expect(eplb_segment_open(&name, EPLB_SEGMENT_GROUP, 0, 0, &segment, &error), EPLB_OK, &error);
    return segment;
}

pid_t place_fork(int (*run)(void *argument), void *argument)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* A test that fails leaves no child behind. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(run(argument));
    }
    return child;
}

void place_wait_to_be_killed(void)
{
    for (;;)
        pause();
}

void place_await(pid_t child, int code)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

void place_kill(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

struct place_word place_word_make(void)
{
    struct place_word word;
    assert_int_equal(pipe(word.ends), 0);
    return word;
}

void place_word_say(const struct place_word *word)
{
    if (write(word->ends[1], "x", 1) != 1)
        _exit(99);
}

void place_word_hear(const struct place_word *word)
{
    char letter;
    struct pollfd watched = {.fd = word->ends[0], .events = POLLIN};
    assert_int_equal(poll(&watched, 1, PATIENCE_MS), 1);
    assert_int_equal(read(word->ends[0], &letter, 1), 1);
}

void place_word_close(const struct place_word *word)
{
    close(word->ends[0]);
    close(word->ends[1]);
}

int64_t place_now_ms(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context) / 1000000;
}
