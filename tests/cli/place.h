/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A directory of shared memory of a test's own, and the command run on it.
 */
#ifndef CLI_PLACE_H
#define CLI_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <jansson.h>

#include "cli/command.h"
#include "eplb/shm.h"

enum { MAX_TEXT = 4096, NUM_RANKS = 3 };

/** One directory per test, on /dev/shm. */
struct place {
    char directory[64];
    char flag[96]; /* --shm_directory=... */
};

/** A text that fits into sentences around it. */
struct path {
    char text[200];
};

void place_begin(struct place *place);
void place_end(const struct place *place);

/** The path of a name of this user: what follows "eplb.<uid>.". */
struct path place_path(const struct place *place, const char *rest);

/** Writes a file of any content under such a name. */
void place_write(const struct place *place, const char *rest, const void *bytes, size_t size);

long long place_size_of(const struct place *place, const char *rest);
bool place_has(const struct place *place, const char *rest);

/** A group of NUM_RANKS ranks, of this process. */
struct eplb_shm *place_make_group(const struct place *place, const char *instance);

/** Leaves a group whose maker was killed; returns the maker's pid. */
pid_t place_leave_dead(const struct place *place, const char *instance);

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/** Runs `eplb shm words... --shm_directory=...`; *done is freed with command_free. */
void place_run(struct command_run *done, const struct place *place, const char *const *words);

/** Runs it and compares all that it says; in its output one blank stands for several. */
void place_expect(const struct place *place, const char *const *words, int exit_code, const char *output,
                  const char *errors);

/** Runs it and parses what it printed; fails unless it ends with 0. */
json_t *place_json(const struct place *place, const char *const *words);

/** A member of an object; fails when there is no such number or text. */
json_int_t json_number_of(const json_t *section, const char *key);
const char *json_text_of(const json_t *section, const char *key);

/** Fails unless a line of the output has these words, whatever blanks stand between. */
void expect_line(const char *output, const char *line);

#endif
