/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Test programs that start themselves again as a rank: how a rank behaves, and the memory that ranks
 * and test share.
 */
#ifndef UNIT_ENGINE_BOARD_H
#define UNIT_ENGINE_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "os/process.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

/* A bound for what takes milliseconds: only a hang comes near it. */
#define LONG_NS (30 * SECOND)

enum { BOARD_RANKS = 16, BOARD_ORPHAN_CODE = 17, BOARD_GENERATIONS = 3 };

struct board {
    _Atomic uint32_t ready; /* ranks that are where they want to be; a futex */
    _Atomic uint32_t leave; /* a futex: 1 tells ranks that wait to exit with 0 */
    _Atomic uint64_t beats[BOARD_RANKS];
};

/** Before the first test: with the first thread, ThreadSanitizer starts one of its own, which stays. */
int board_set_up(void **state);

/** Memory on a descriptor that ranks inherit, and where it is mapped here. */
struct board *board_create(int *descriptor);
void board_destroy(struct board *board, int descriptor);

/** Waits until so many ranks are ready; fails the test after LONG_NS. */
void board_await_ready(struct board *board, uint32_t count);

void board_tell_to_leave(struct board *board);

/** How a rank behaves once it is ready. */
#define BOARD_WAIT "wait"         /* beats, blocked on a futex, until it is told to leave */
#define BOARD_STUBBORN "stubborn" /* the same, and ignores SIGTERM */
#define BOARD_MUTE "mute"         /* the same as wait, and never beats */
#define BOARD_EXIT "exit"         /* exits with code 3 */
#define BOARD_RAISE "raise"       /* ends by SIGUSR1 */
#define BOARD_PARENT "parent" /* waits, and has started the next of BOARD_GENERATIONS, whose engine it is */
#define BOARD_STRANGER "stranger" /* waits, and is told by its own look that its engine is gone */

/** A program's arguments, and what it inherits. Stays where it is while the program is started. */
struct board_program {
    struct eplb_process_params params;
    char *arguments[7];
    char name[16], behaviour[16], board[16], rank[16], other[16], engine[24];
    int keep[2];
};

/**
 * @param other  one more descriptor that the rank inherits; -1: none
 * @param engine pid that its lifeline is tied to; 0: its parent's
 */
void board_program_init(struct board_program *program, const char *behaviour, int board, int32_t rank,
                        int other, int64_t engine);

/** What main does when it was given arguments: is a rank. */
int board_main(char **argv);

int64_t board_now(void);

/** From now on this process may open so many descriptors more. Returns the limit before. */
struct rlimit board_limit_descriptors(int more);

/** Waits until this process has no more than so many threads: one that was joined may still be leaving. */
void board_await_threads(size_t count);

/** This process has no child any more, running or not reaped. */
bool board_childless(void);

#endif
