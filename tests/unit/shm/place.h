/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A directory of segments for one test program, below /dev/shm, and what lies in it.
 */
#ifndef UNIT_SHM_PLACE_H
#define UNIT_SHM_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/layout.h"
#include "shm/segment.h"

enum { PLACE_PATH = 600, PLACE_CONTENT = 3 * EPLB_SEGMENT_ALIGN };

/** Fixtures of a group: make the directory and remove it; of a test: remove all names in it. */
int place_make(void **state);
int place_remove(void **state);
int place_empty(void **state);

const char *place_directory(void);

/** The segment eplb.<uid>.<instance>.group of this directory. */
struct eplb_segment_name place_name(const char *instance);

/** Its path, and the path of the lock. Valid until the next call but three. */
const char *place_path(const char *instance);
const char *place_lock(void);

/** How many names there are, the lock's included. */
int place_count(void);

/** Content of a file. Fails the test when it is larger than PLACE_CONTENT. */
struct place_content {
    unsigned char bytes[PLACE_CONTENT];
    size_t size;
};

void place_write(const char *path, const void *bytes, size_t size);
struct place_content place_read(const char *path);

/** A whole segment of one page of payload, with a header that is right. */
struct place_content place_segment(void);
struct eplb_segment_header *place_header(struct place_content *content);

/** Builds and publishes, or fails the test; 0: the next generation. */
struct eplb_segment *place_publish(const char *instance, size_t payload_bytes, uint64_t generation);

/** Opens, or fails the test. */
struct eplb_segment *place_open(const char *instance);

/** Runs it in a forked child, which exits with what it returns. */
pid_t place_fork(int (*run)(void *argument), void *argument);

/** What a child does that waits for SIGKILL. */
_Noreturn void place_wait_to_be_killed(void);

/** Waits for a child's end; fails the test unless it exited with this code. */
void place_await(pid_t child, int code);

/** Kills a child with SIGKILL and takes its end. */
void place_kill(pid_t child);

/** A pipe over which a child says one byte. */
struct place_word {
    int ends[2];
};

struct place_word place_word_make(void);
void place_word_say(const struct place_word *word);

/** Waits for the byte; fails the test after 20 s. */
void place_word_hear(const struct place_word *word);
void place_word_close(const struct place_word *word);

/** Milliseconds of the monotonic clock. */
int64_t place_now_ms(void);

/** Fails the test, with the sentence, unless the status is the expected one. */
#define place_expect(call, expected, error)                                                  \
    do {                                                                                     \
        enum eplb_status place_status = (call);                                              \
        if (place_status != (expected))                                                      \
            fail_msg("status %d, expected %d: %s", place_status, (expected), (error)->text); \
    } while (0)

#define place_assert_contains(text, part)                     \
    do {                                                      \
        if (strstr((text), (part)) == NULL)                   \
            fail_msg("\"%s\" has no \"%s\"", (text), (part)); \
    } while (0)

#endif
