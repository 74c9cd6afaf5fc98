/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eplb/clock.h"
#include "os/bell.h"
#include "os/futex.h"
#include "os/process.h"
#include "os/thread.h"

enum { MS = 1000000, TURNS = 100000, RINGERS = 3 };

static const int64_t patience = INT64_C(30000) * MS;

static int64_t now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

/* ---- futex ---- */

static void another_value_does_not_wait(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    eplb_futex_wait(&word, 2, INT64_MAX);
    eplb_futex_wake(&word);
}

static void a_wait_ends_at_its_deadline_and_not_before(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    int64_t begin = now();
    eplb_futex_wait(&word, 1, 0);
    assert_true(now() - begin < 1000 * MS);
    int64_t deadline = now() + 20 * MS;
    while (now() < deadline)
        eplb_futex_wait(&word, 1, deadline);
    assert_true(now() < deadline + 1000 * MS);
    /* One wait is long: the deadline is a time, not a length. */
    deadline = now() + 20 * MS;
    begin = eplb_thread_cpu_time();
    int waits = 0;
    for (; now() < deadline; waits++)
        eplb_futex_wait(&word, 1, deadline);
    assert_true(waits < 10);
    assert_true(eplb_thread_cpu_time() - begin < 15 * MS);
}

static void a_spin_is_bounded(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    assert_true(eplb_spin(&word, 2, 0));
    assert_true(eplb_spin(&word, 2, patience));
    assert_false(eplb_spin(&word, 1, 0));
    assert_false(eplb_spin(&word, 1, -1));
    int64_t begin = now();
    assert_false(eplb_spin(&word, 1, 2 * MS));
    int64_t took = now() - begin;
    assert_true(took >= 2 * MS && took < 1000 * MS);
}

static void change_word(void *argument)
{
    /* Release: with the spinning thread's acquire. */
    atomic_store_explicit((_Atomic uint32_t *)argument, 2, memory_order_release);
}

static void a_spin_sees_a_change(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    struct eplb_thread thread;
    assert_int_equal(eplb_thread_start(&thread, "changer", change_word, &word, NULL), EPLB_OK);
    assert_true(eplb_spin(&word, 1, patience));
    eplb_thread_join(&thread);
}

static void spinning_pays_only_with_processors_to_spare(void **state)
{
    (void)state;
    int32_t processors = eplb_process_processors();
    assert_true(eplb_spin_default(processors) > 0);
    assert_true(eplb_spin_default(processors) < MS);
    assert_int_equal(eplb_spin_default(processors + 1), 0);
}

/* ---- bell ---- */

/* Two players in turn; each waits for the other's stroke. All in memory that a child shares. */
struct game {
    struct eplb_bell bells[2];
    _Atomic uint32_t strokes; /* relaxed stores and loads: the bell orders them */
    int64_t spin_ns;
};

static struct game *share_game(int64_t spin_ns)
{
    struct game *game = mmap(NULL, sizeof *game, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(game, MAP_FAILED);
    game->spin_ns = spin_ns;
    return game;
}

/* False when the other's stroke does not come: a wake-up was lost. */
static bool await_turn(struct game *game, uint32_t player, uint32_t strokes)
{
    int64_t deadline = now() + patience;
    for (;;) {
        uint32_t heard = eplb_bell_hear(&game->bells[player]);
        if (atomic_load_explicit(&game->strokes, memory_order_relaxed) == strokes)
            return true;
        if (now() >= deadline)
            return false;
        eplb_bell_sleep(&game->bells[player], heard, game->spin_ns, deadline);
    }
}

static bool play(struct game *game, uint32_t player, uint32_t turns)
{
    for (uint32_t turn = 0; turn < turns; turn++) {
        if (!await_turn(game, player, 2 * turn + player))
            return false;
        atomic_store_explicit(&game->strokes, 2 * turn + player + 1, memory_order_relaxed);
        eplb_bell_ring(&game->bells[1 - player]);
    }
    return true;
}

static void play_with_a_child(int64_t spin_ns, uint32_t turns)
{
    int status;
    struct game *game = share_game(spin_ns);
    pid_t child = fork();
    if (child == 0)
        _exit(play(game, 1, turns) ? 0 : 1);
    int64_t begin = now();
    assert_true(play(game, 0, turns));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    print_message("spin of %lld ns: %lld ns for a turn there and back\n", (long long)spin_ns,
                  (long long)((now() - begin) / turns));
    assert_int_equal(atomic_load(&game->strokes), 2 * turns);
    assert_int_equal(atomic_load(&game->bells[0].sleepers), 0);
    assert_int_equal(atomic_load(&game->bells[1].sleepers), 0);
    munmap(game, sizeof *game);
}

static void no_ring_is_missed_between_processes(void **state)
{
    (void)state;
    play_with_a_child(0, TURNS);
    play_with_a_child(eplb_spin_default(2), TURNS);
}

struct ringers {
    struct eplb_bell bell;
    _Atomic uint32_t todo; /* relaxed: the bell orders it */
};

static void ring_often(void *argument)
{
    struct ringers *ringers = argument;
    for (int i = 0; i < TURNS / 10; i++) {
        atomic_fetch_sub_explicit(&ringers->todo, 1, memory_order_relaxed);
        eplb_bell_ring(&ringers->bell);
    }
}

static void the_last_of_many_ringers_is_heard(void **state)
{
    (void)state;
    struct ringers ringers = {.todo = RINGERS * (TURNS / 10)};
    struct eplb_thread threads[RINGERS];
    for (int i = 0; i < RINGERS; i++)
        assert_int_equal(eplb_thread_start(&threads[i], "ringer", ring_often, &ringers, NULL), EPLB_OK);
    int64_t deadline = now() + patience;
    for (;;) {
        uint32_t heard = eplb_bell_hear(&ringers.bell);
        if (atomic_load_explicit(&ringers.todo, memory_order_relaxed) == 0)
            break;
        assert_true(now() < deadline);
        eplb_bell_sleep(&ringers.bell, heard, 0, deadline);
    }
    for (int i = 0; i < RINGERS; i++)
        eplb_thread_join(&threads[i]);
    assert_int_equal(eplb_bell_hear(&ringers.bell), RINGERS * (TURNS / 10));
}

static void a_sleep_ends_at_its_deadline(void **state)
{
    (void)state;
    struct eplb_bell bell = {.rings = 0};
    int64_t deadline = now() + 20 * MS;
    while (now() < deadline)
        eplb_bell_sleep(&bell, eplb_bell_hear(&bell), 0, deadline);
    assert_true(now() < deadline + 1000 * MS);
    assert_int_equal(atomic_load(&bell.sleepers), 0);
    /* A ring since it was heard is not slept over. */
    uint32_t heard = eplb_bell_hear(&bell);
    eplb_bell_ring(&bell);
    eplb_bell_sleep(&bell, heard, 0, INT64_MAX);
    eplb_bell_sleep(&bell, heard, patience, INT64_MAX);
}

static void a_long_spin_ends_at_the_deadline(void **state)
{
    (void)state;
    struct eplb_bell bell = {.rings = 0};
    int64_t begin = now();
    eplb_bell_sleep(&bell, eplb_bell_hear(&bell), patience, begin + 20 * MS);
    assert_true(now() - begin < 1000 * MS);
    eplb_bell_sleep(&bell, eplb_bell_hear(&bell), patience, 0);
    assert_true(now() - begin < 1000 * MS);
}

static void sleep_until_killed(struct eplb_bell *bell)
{
    for (;;)
        eplb_bell_sleep(bell, eplb_bell_hear(bell), 0, INT64_MAX);
}

/* A sleeper that is killed leaves its count: others are woken all the same. */
static void a_killed_sleeper_does_no_harm(void **state)
{
    (void)state;
    int status;
    struct game *game = share_game(0);
    pid_t child = fork();
    if (child == 0)
        sleep_until_killed(&game->bells[1]);
    int64_t deadline = now() + patience;
    while (atomic_load(&game->bells[1].sleepers) == 0)
        assert_true(now() < deadline);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    child = fork();
    if (child == 0)
        _exit(play(game, 1, 100) ? 0 : 1);
    assert_true(play(game, 0, 100));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    munmap(game, sizeof *game);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_value_does_not_wait),
        cmocka_unit_test(a_wait_ends_at_its_deadline_and_not_before),
        cmocka_unit_test(a_spin_is_bounded),
        cmocka_unit_test(a_spin_sees_a_change),
        cmocka_unit_test(spinning_pays_only_with_processors_to_spare),
        cmocka_unit_test(no_ring_is_missed_between_processes),
        cmocka_unit_test(the_last_of_many_ringers_is_heard),
        cmocka_unit_test(a_sleep_ends_at_its_deadline),
        cmocka_unit_test(a_long_spin_ends_at_the_deadline),
        cmocka_unit_test(a_killed_sleeper_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
