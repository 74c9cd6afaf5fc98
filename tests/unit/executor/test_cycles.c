/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Many activations one after the other: no allocation, no thread, no growth; right weights throughout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/prng.h"
#include "support/allocations.h"
#include "support/process.h"
#include "worker.h"

enum { CYCLES = 10000, TEAM_CYCLES = 500 };

static void one_cycle(struct worker *worker, const struct eplb_group *engine, uint64_t token, bool commit)
{
    static const int32_t tables[2][4] = {{0, 1, 2, 3}, {1, 0, 3, 2}};
    int32_t layer = (int32_t)(token % WORKER_LAYERS);
    const int32_t *now = eplb_executor_tables(worker->executor) + layer * worker->shape.num_slots;
    struct eplb_command command = worker_prepare(worker, token, layer, tables[now[0] == 0]);
    worker_forward(worker, &command);
    assert_int_equal(worker_await_prepare(worker, token), EPLB_PREPARE_OK);
    engine->record_open(engine->self, (struct eplb_activation_token){token});
    if (!commit)
        engine->record_abort(engine->self, (struct eplb_activation_token){token});
    command = worker_activate(worker, token, layer, token);
    worker_forward(worker, &command);
    struct eplb_worker_levels levels = worker_levels(worker);
    assert_int_equal(levels.activation_token.value, token);
    assert_int_equal(levels.activation_outcome, commit ? EPLB_ACTIVATION_SWITCHED : EPLB_ACTIVATION_KEPT);
}

static void run_cycles(bool commit)
{
    struct eplb_threads *threads = worker_group(1);
    const struct eplb_group *engine = eplb_threads_group(threads, EPLB_NO_RANK);
    struct worker worker;
    worker_init(&worker, threads, 0, 1);
    worker_create(&worker);
    for (uint64_t token = 1; token <= 100; token++)
        one_cycle(&worker, engine, token, commit);

    size_t threads_before = process_threads();
    size_t files_before = process_files();
    int64_t bytes_before = process_resident_bytes();
    size_t allocations_before = allocations_counted();
    for (uint64_t token = 101; token <= CYCLES; token++)
        one_cycle(&worker, engine, token, commit);
    assert_int_equal(allocations_counted() - allocations_before, 0);
    assert_int_equal(process_threads(), threads_before);
    assert_int_equal(process_files(), files_before);
    /* A sanitizer keeps notes of its own. */
    assert_true(SANITIZED || process_resident_bytes() - bytes_before < 256 * 1024);
    assert_int_equal(commit ? worker.commits : worker.drops, CYCLES);
    worker_check_weights(&worker);
    worker_destroy(&worker);
    eplb_threads_destroy(threads);
}

static void test_plan_and_activate(void **state)
{
    (void)state;
    run_cycles(true);
}

static void test_plan_and_abort(void **state)
{
    (void)state;
    run_cycles(false);
}

/* A counter that counts nothing would make the two tests above pass. */
static void test_the_counter_counts(void **state)
{
    (void)state;
    size_t before = allocations_counted();
    struct eplb_threads *threads = worker_group(1);
    assert_true(allocations_counted() > before);
    eplb_threads_destroy(threads);
}

/* ------------------------------------------------------------------------------------- a team */

enum { TEAM = 4 };

struct member {
    struct worker worker;
    struct eplb_thread thread;
    const struct eplb_threads *threads;
    int32_t rank;
};

static void move_on(struct member *member)
{
    const struct eplb_group *group = eplb_threads_group(member->threads, member->rank);
    assert_int_equal(group->barrier(group->self, NULL), EPLB_OK);
}

/* All ranks draw the same tables. Odd cycles are aborted by one rank that fails to materialise. */
static void run_member(void *argument)
{
    struct member *member = argument;
    struct worker *worker = &member->worker;
    const struct eplb_group *engine = eplb_threads_group(member->threads, EPLB_NO_RANK);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 3);
    for (uint64_t token = 1; token <= TEAM_CYCLES; token++) {
        int32_t table[WORKER_EXPERTS] = {0, 1, 2, 3};
        for (uint64_t i = 3; i > 0; i--) {
            uint64_t j = eplb_prng_below(&prng, i + 1);
            int32_t expert = table[i];
            table[i] = table[j];
            table[j] = expert;
        }
        int32_t layer = (int32_t)eplb_prng_below(&prng, WORKER_LAYERS);
        bool fails = token % 2 != 0;
        struct eplb_command command = worker_prepare(worker, token, layer, table);
        worker_forward(worker, &command);
        assert_int_equal(worker_await_prepare(worker, token), EPLB_PREPARE_OK);
        move_on(member);
        if (member->rank == 0)
            engine->record_open(engine->self, (struct eplb_activation_token){token});
        move_on(member);
        if (member->rank == (int32_t)(token % TEAM))
            worker_set_moods(worker, WORKER_WORKS, fails ? WORKER_FAILS : WORKER_WORKS, WORKER_WORKS);
        command = worker_activate(worker, token, layer, token);
        worker_forward(worker, &command);
        assert_int_equal(worker_levels(worker).activation_outcome,
                         fails ? EPLB_ACTIVATION_KEPT : EPLB_ACTIVATION_SWITCHED);
        worker_set_moods(worker, WORKER_WORKS, WORKER_WORKS, WORKER_WORKS);
        worker_check_weights(worker);
    }
}

static void test_a_team_switches_as_one(void **state)
{
    (void)state;
    static struct member members[TEAM];
    struct eplb_threads *threads = worker_group(TEAM);
    print_message("seed 3\n");
    for (int32_t rank = 0; rank < TEAM; rank++) {
        struct member *member = &members[rank];
        member->threads = threads;
        member->rank = rank;
        worker_init(&member->worker, threads, rank, TEAM);
        member->worker.params.transfer_chunk_bytes = 10;
        member->worker.params.transfer_timeout_seconds = 20;
        worker_create(&member->worker);
    }
    for (int32_t rank = 0; rank < TEAM; rank++)
        assert_int_equal(eplb_thread_start(&members[rank].thread, "rank", run_member, &members[rank], NULL),
                         EPLB_OK);
    for (int32_t rank = 0; rank < TEAM; rank++)
        eplb_thread_join(&members[rank].thread);
    const int32_t *tables = eplb_executor_tables(members[0].worker.executor);
    for (int32_t rank = 0; rank < TEAM; rank++) {
        const struct worker *worker = &members[rank].worker;
        assert_int_equal(worker->commits, TEAM_CYCLES / 2);
        assert_int_equal(worker->drops, TEAM_CYCLES / 2);
        assert_memory_equal(eplb_executor_tables(worker->executor), tables,
                            WORKER_LAYERS * WORKER_EXPERTS * sizeof *tables);
    }
    for (int32_t rank = 0; rank < TEAM; rank++)
        worker_destroy(&members[rank].worker);
    eplb_threads_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_counter_counts),
        cmocka_unit_test(test_plan_and_activate),
        cmocka_unit_test(test_plan_and_abort),
        cmocka_unit_test(test_a_team_switches_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
