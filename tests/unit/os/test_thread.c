/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "eplb/clock.h"
#include "os/thread.h"
#include "support/death.h"

enum { NUM_THREADS = 4, ROUNDS = 2000, COUNTS = 100000 };

static const int64_t far_away = INT64_MAX / 4;

static int64_t now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

/* ---- threads ---- */

struct visit {
    char name[16];
    int blocks_terminate;
    int blocks_interrupt;
};

static void look_around(void *argument)
{
    struct visit *visit = argument;
    sigset_t mask;
    pthread_getname_np(pthread_self(), visit->name, sizeof visit->name);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    visit->blocks_terminate = sigismember(&mask, SIGTERM);
    visit->blocks_interrupt = sigismember(&mask, SIGINT);
}

static void a_thread_has_its_name_and_takes_no_signals(void **state)
{
    (void)state;
    struct eplb_thread thread;
    struct eplb_error error = {0};
    struct visit visit = {0};
    assert_int_equal(eplb_thread_start(&thread, "eplb-policy", look_around, &visit, &error), EPLB_OK);
    eplb_thread_join(&thread);
    assert_string_equal(visit.name, "eplb-policy");
    assert_true(visit.blocks_terminate);
    assert_true(visit.blocks_interrupt);

    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
    assert_int_equal(eplb_thread_start(&thread, "eplb-a-very-long-name", look_around, &visit, &error),
                     EPLB_OK);
    eplb_thread_join(&thread);
    assert_string_equal(visit.name, "eplb-a-very-lon");
}

static void a_thread_that_cannot_start_says_so(void **state)
{
    (void)state;
    pthread_attr_t usual;
    pthread_attr_t huge;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&huge), 0);
    /* No machine has room for a stack of this size. */
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 60), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    struct eplb_thread thread;
    struct eplb_error error = {0};
    enum eplb_status status = eplb_thread_start(&thread, "eplb-policy", look_around, NULL, &error);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_int_equal(status, EPLB_NO_MEMORY);
    assert_non_null(strstr(error.text, "the thread 'eplb-policy' cannot be created: "));
    pthread_attr_destroy(&huge);
    pthread_attr_destroy(&usual);
}

/* ---- mutexes ---- */

struct tally {
    struct eplb_mutex mutex;
    int64_t total;
};

static void count_up(void *argument)
{
    struct tally *tally = argument;
    for (int i = 0; i < COUNTS; i++) {
        eplb_mutex_lock(&tally->mutex);
        tally->total++;
        eplb_mutex_unlock(&tally->mutex);
    }
}

static void a_mutex_loses_no_count(void **state)
{
    (void)state;
    struct tally tally = {.total = 0};
    struct eplb_thread threads[NUM_THREADS];
    assert_int_equal(eplb_mutex_init(&tally.mutex, NULL), EPLB_OK);
    for (int i = 0; i < NUM_THREADS; i++)
        assert_int_equal(eplb_thread_start(&threads[i], "counter", count_up, &tally, NULL), EPLB_OK);
    for (int i = 0; i < NUM_THREADS; i++)
        eplb_thread_join(&threads[i]);
    assert_int_equal(tally.total, NUM_THREADS * COUNTS);
    eplb_mutex_destroy(&tally.mutex);
}

static void lock_twice(void *argument)
{
    eplb_mutex_lock(argument);
    eplb_mutex_lock(argument);
}

static void unlock_without_a_lock(void *argument)
{
    eplb_mutex_unlock(argument);
}

static void misuse_of_a_mutex_is_found(void **state)
{
    (void)state;
    struct eplb_mutex mutex;
    char errors[8192]; /* ThreadSanitizer adds what it thinks of it */
    assert_int_equal(eplb_mutex_init(&mutex, NULL), EPLB_OK);
    assert_int_equal(death_of(lock_twice, &mutex, errors, sizeof errors), SIGABRT);
    assert_non_null(strstr(errors, "assertion failed"));
    assert_int_equal(death_of(unlock_without_a_lock, &mutex, errors, sizeof errors), SIGABRT);
    assert_non_null(strstr(errors, "assertion failed"));
    eplb_mutex_destroy(&mutex);
}

/* ---- condition variables ---- */

struct table_tennis {
    struct eplb_mutex mutex;
    struct eplb_condition turned;
    int turn;
    int strokes[2];
    int64_t deadline;
    int last_wait;
};

static void set_up(struct table_tennis *game)
{
    *game = (struct table_tennis){.turn = 0};
    assert_int_equal(eplb_mutex_init(&game->mutex, NULL), EPLB_OK);
    assert_int_equal(eplb_condition_init(&game->turned, NULL), EPLB_OK);
}

static void tear_down(struct table_tennis *game)
{
    eplb_condition_destroy(&game->turned);
    eplb_mutex_destroy(&game->mutex);
}

static void play(struct table_tennis *game, int player)
{
    for (int i = 0; i < ROUNDS; i++) {
        eplb_mutex_lock(&game->mutex);
        while (game->turn != player)
            eplb_condition_wait(&game->turned, &game->mutex);
        game->strokes[player]++;
        game->turn = 1 - player;
        eplb_mutex_unlock(&game->mutex);
        eplb_condition_broadcast(&game->turned);
    }
}

static void play_second(void *argument)
{
    play(argument, 1);
}

static void a_condition_passes_the_turn(void **state)
{
    (void)state;
    struct table_tennis game;
    struct eplb_thread second;
    set_up(&game);
    assert_int_equal(eplb_thread_start(&second, "second", play_second, &game, NULL), EPLB_OK);
    play(&game, 0);
    eplb_thread_join(&second);
    assert_int_equal(game.strokes[0], ROUNDS);
    assert_int_equal(game.strokes[1], ROUNDS);
    tear_down(&game);
}

static void wait_for_the_first_turn(void *argument)
{
    struct table_tennis *game = argument;
    eplb_mutex_lock(&game->mutex);
    game->last_wait = 1;
    while (game->turn != 1 && game->last_wait)
        game->last_wait = eplb_condition_wait_until(&game->turned, &game->mutex, game->deadline);
    eplb_mutex_unlock(&game->mutex);
}

static void a_broadcast_ends_a_wait_before_its_deadline(void **state)
{
    (void)state;
    struct table_tennis game;
    struct eplb_thread waiter;
    set_up(&game);
    game.deadline = far_away;
    assert_int_equal(eplb_thread_start(&waiter, "waiter", wait_for_the_first_turn, &game, NULL), EPLB_OK);
    eplb_mutex_lock(&game.mutex);
    game.turn = 1;
    eplb_condition_broadcast(&game.turned);
    eplb_mutex_unlock(&game.mutex);
    eplb_thread_join(&waiter);
    assert_true(game.last_wait);
    tear_down(&game);
}

static void a_wait_ends_at_its_deadline_and_not_before(void **state)
{
    (void)state;
    struct table_tennis game;
    set_up(&game);
    eplb_mutex_lock(&game.mutex);
    assert_false(eplb_condition_wait_until(&game.turned, &game.mutex, 0));
    int64_t deadline = now() + 20000000;
    while (eplb_condition_wait_until(&game.turned, &game.mutex, deadline))
        assert_true(now() < deadline);
    assert_true(now() >= deadline);
    eplb_mutex_unlock(&game.mutex);
    tear_down(&game);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_has_its_name_and_takes_no_signals),
        cmocka_unit_test(a_thread_that_cannot_start_says_so),
        cmocka_unit_test(a_mutex_loses_no_count),
        cmocka_unit_test(misuse_of_a_mutex_is_found),
        cmocka_unit_test(a_condition_passes_the_turn),
        cmocka_unit_test(a_broadcast_ends_a_wait_before_its_deadline),
        cmocka_unit_test(a_wait_ends_at_its_deadline_and_not_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
