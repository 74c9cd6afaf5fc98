/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "board.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/lifeline.h"
#include "eplb/clock.h"
#include "os/futex.h"
#include "os/thread.h"
#include "support/process.h"

int64_t board_now(void)
{
    return eplb_clock_system()->now(NULL);
}

struct rlimit board_limit_descriptors(int more)
{
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(STDIN_FILENO);
    assert_true(next >= 0);
    close(next);
    struct rlimit limit = {.rlim_cur = (rlim_t)(next + more), .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

void board_await_threads(size_t count)
{
    int64_t deadline = board_now() + LONG_NS;
    while (process_threads() > count) {
        if (board_now() > deadline)
            fail_msg("%zu threads are left instead of %zu", process_threads(), count);
        sched_yield();
    }
}

bool board_childless(void)
{
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
}

static void do_nothing(void *argument)
{
    (void)argument;
}

int board_set_up(void **state)
{
    (void)state;
    struct eplb_thread thread;
    assert_int_equal(eplb_thread_start(&thread, "first", do_nothing, NULL, NULL), EPLB_OK);
    eplb_thread_join(&thread);
    return 0;
}

/* ------------------------------------------------------------------------------------- memory */

static struct board *map(int descriptor)
{
    void *board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return board == MAP_FAILED ? NULL : board;
}

struct board *board_create(int *descriptor)
{
    *descriptor = memfd_create("board", MFD_CLOEXEC);
    assert_true(*descriptor >= 0);
    assert_int_equal(ftruncate(*descriptor, sizeof(struct board)), 0);
    struct board *board = map(*descriptor);
    assert_non_null(board);
    return board;
}

void board_destroy(struct board *board, int descriptor)
{
    munmap(board, sizeof *board);
    close(descriptor);
}

void board_await_ready(struct board *board, uint32_t count)
{
    int64_t deadline = board_now() + LONG_NS;
    uint32_t seen;
    /* Acquire: what a rank did before it was ready is done. */
    while ((seen = atomic_load_explicit(&board->ready, memory_order_acquire)) < count) {
        if (board_now() > deadline)
            fail_msg("%u of %u ranks are ready", seen, count);
        eplb_futex_wait(&board->ready, seen, deadline);
    }
}

void board_tell_to_leave(struct board *board)
{
    /* Release: it stands for everything that the test did before. */
    atomic_store_explicit(&board->leave, 1, memory_order_release);
    eplb_futex_wake(&board->leave);
}

/* ------------------------------------------------------------------------------------ program */

void board_program_init(struct board_program *program, const char *behaviour, int board, int32_t rank,
                        int other, int64_t engine)
{
    snprintf(program->name, sizeof program->name, "rank");
    snprintf(program->behaviour, sizeof program->behaviour, "%s", behaviour);
    snprintf(program->board, sizeof program->board, "%d", board);
    snprintf(program->rank, sizeof program->rank, "%d", rank);
    snprintf(program->other, sizeof program->other, "%d", other);
    snprintf(program->engine, sizeof program->engine, "%lld", (long long)engine);
    char *arguments[] = {program->name, program->behaviour, program->board,
                         program->rank, program->other,     program->engine,
                         NULL};
    memcpy(program->arguments, arguments, sizeof arguments);
    program->keep[0] = board;
    program->keep[1] = other;
    program->params = (struct eplb_process_params){.path = "/proc/self/exe",
                                                   .arguments = program->arguments,
                                                   .keep = program->keep,
                                                   .num_keep = other < 0 ? 1 : 2};
}

/* --------------------------------------------------------------------------------------- rank */

struct rank {
    struct board *board;
    int32_t number;
    const char *behaviour;
};

static bool behaves(const struct rank *rank, const char *behaviour)
{
    return strcmp(rank->behaviour, behaviour) == 0;
}

static void beat(void *context)
{
    struct rank *rank = context;
    /* Relaxed: only that it moves is read. */
    if (!behaves(rank, BOARD_MUTE))
        atomic_fetch_add_explicit(&rank->board->beats[rank->number], 1, memory_order_relaxed);
}

static int engine_lives(void *context)
{
    return !behaves(context, BOARD_STRANGER);
}

static void orphaned(void *context)
{
    (void)context;
    /* As _exit, which ThreadSanitizer keeps waiting for a second. */
    syscall(SYS_exit_group, BOARD_ORPHAN_CODE);
}

static void start_next(const struct rank *rank, int board, int other)
{
    struct board_program program;
    struct eplb_process process;
    bool last = rank->number + 2 == BOARD_GENERATIONS;
    board_program_init(&program, last ? BOARD_WAIT : BOARD_PARENT, board, rank->number + 1, other, 0);
    if (eplb_process_start(&program.params, &process, NULL) != EPLB_OK)
        _exit(1);
}

static _Noreturn void behave(const struct rank *rank)
{
    struct board *board = rank->board;
    if (behaves(rank, BOARD_STUBBORN))
        signal(SIGTERM, SIG_IGN);
    /* Release: what it did before is seen by who finds it ready. */
    atomic_fetch_add_explicit(&board->ready, 1, memory_order_release);
    eplb_futex_wake(&board->ready);
    if (behaves(rank, BOARD_EXIT))
        _exit(3);
    if (behaves(rank, BOARD_RAISE))
        raise(SIGUSR1);
    /* Acquire: pairs with the release of who tells it. */
    while (atomic_load_explicit(&board->leave, memory_order_acquire) == 0)
        eplb_futex_wait(&board->leave, 0, INT64_MAX);
    _exit(0);
}

int board_main(char **argv)
{
    int descriptor = (int)strtol(argv[2], NULL, 10);
    int64_t engine = strtoll(argv[5], NULL, 10);
    struct rank rank = {
        .board = map(descriptor), .number = (int32_t)strtol(argv[3], NULL, 10), .behaviour = argv[1]};
    struct eplb_lifeline *lifeline;
    if (rank.board == NULL || rank.number < 0 || rank.number >= BOARD_RANKS)
        return 1;
    struct eplb_lifeline_params params = {.engine_pid = engine == 0 ? getppid() : engine,
                                          .beat_interval_ns = 10 * MS,
                                          .context = &rank,
                                          .beat = beat,
                                          .engine_lives = engine_lives,
                                          .orphaned = orphaned};
    if (eplb_lifeline_create(&params, &lifeline, NULL) != EPLB_OK)
        return 1;
    if (behaves(&rank, BOARD_PARENT))
        start_next(&rank, descriptor, (int)strtol(argv[4], NULL, 10));
    behave(&rank);
}
