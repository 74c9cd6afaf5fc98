/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What was recorded comes again: of cores in virtual time, and of managers with their threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "eplb/group.h"
#include "os/thread.h"
#include "recorded.h"
#include "support/shm_place.h"

static struct shm_place place;

static int make_place(void **state)
{
    (void)state;
    shm_place_open(&place);
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    shm_place_close(&place);
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[SHM_PLACE_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", place.path, name);
    unlink(path);
    return path;
}

static struct eplb_event_log open_log(const char *path)
{
    struct eplb_event_log log;
    struct eplb_error error;
    if (eplb_event_log_open(path, &log, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return log;
}

static void play(struct eplb_event_log *log, struct eplb_event_replay *replay)
{
    struct eplb_error error;
    if (eplb_event_replay_run(log, NULL, replay, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void expect_identical(const struct eplb_event_replay *replay, uint64_t seed)
{
    if (replay->differs)
        fail_msg("seed %llu: record %llu was '%s', and came as '%s'", (unsigned long long)seed,
                 (unsigned long long)replay->record, replay->recorded, replay->came);
}

/* --------------------------------------------------------------------------------- of cores */

static void a_recorded_core_is_replayed_identically(void **state)
{
    (void)state;
    enum { SEEDS = 300 };
    struct recorded_counts sum = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *path = path_of("core.events");
        struct recorded_counts counts;
        struct eplb_event_replay replay;
        recorded_write(path, seed, 300, &counts);
        struct eplb_event_log log = open_log(path);
        play(&log, &replay);
        expect_identical(&replay, seed);
        assert_true(log.ended && !log.cut);
        assert_int_equal(replay.num_actions, counts.actions);
        assert_int_equal(replay.num_events, counts.events - counts.ticks + counts.acting_ticks);
        struct eplb_manager_status status;
        eplb_manager_core_status(replay.core, replay.now, &status);
        assert_int_equal(status.layers_committed, counts.commits);
        assert_int_equal(status.layers_aborted, counts.aborts);
        assert_int_equal(status.policy_runs, counts.policy_runs);
        sum.commits += counts.commits;
        sum.aborts += counts.aborts;
        sum.deaths += counts.deaths;
        sum.drops += counts.drops;
        sum.stops += counts.stops;
        sum.ticks += counts.ticks;
        sum.acting_ticks += counts.acting_ticks;
        sum.weight_updates += counts.weight_updates;
        sum.tables_with_weights += counts.tables_with_weights;
        eplb_event_replay_free(&replay);
        eplb_event_log_close(&log);
    }
    print_message("%d seeds: %d committed, %d given up, %d dead, %d dropped, %d of %d ticks did something, "
                  "%d stopped\n",
                  SEEDS, (int)sum.commits, (int)sum.aborts, (int)sum.deaths, (int)sum.drops,
                  (int)sum.acting_ticks, (int)sum.ticks, (int)sum.stops);
    assert_true(sum.commits > 1000 && sum.aborts > 500 && sum.deaths > 100 && sum.drops > 1000);
    assert_true(sum.weight_updates > 1000 && sum.tables_with_weights > 500);
    assert_true(sum.stops > 10 && sum.acting_ticks > 20 && sum.acting_ticks * 20 < sum.ticks);
}

/** A run that is killed leaves a part of its file; what is there is replayed. */
static void what_is_left_of_a_killed_run_is_replayed(void **state)
{
    (void)state;
    const char *path = path_of("killed.events");
    struct recorded_counts counts;
    recorded_write(path, 11, 40, &counts);
    struct eplb_event_log log = open_log(path);
    struct eplb_event_replay replay;
    play(&log, &replay);
    expect_identical(&replay, 11);
    uint64_t events = replay.num_events;
    eplb_event_replay_free(&replay);
    eplb_event_log_close(&log);
    FILE *file = fopen(path, "r");
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fclose(file);
    for (long length = size - 1; length > 800; length -= 7) {
        assert_int_equal(truncate(path, length), 0);
        log = open_log(path);
        play(&log, &replay);
        expect_identical(&replay, 11);
        assert_true(log.cut && replay.num_events <= events);
        events = replay.num_events;
        eplb_event_replay_free(&replay);
        eplb_event_log_close(&log);
    }
    assert_true(events < 20);
}

static void another_threshold_or_policy_makes_a_difference(void **state)
{
    (void)state;
    enum { SEEDS = 20 };
    const char *greedy_name = "greedy";
    int by_threshold = 0, by_policy = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *path = path_of("other.events");
        struct recorded_counts counts;
        struct eplb_event_replay replay;
        recorded_write(path, seed, 200, &counts);
        struct eplb_event_log log = open_log(path);
        log.params.min_peak_load_improvement = 0.9;
        play(&log, &replay);
        by_threshold += replay.differs;
        if (replay.differs) {
            assert_non_null(strstr(replay.recorded, ": publish, peak "));
            assert_non_null(strstr(replay.came, ": keep, peak "));
            assert_true(replay.record > 1 && replay.last_seq >= log.params.first_seq);
        }
        eplb_event_replay_free(&replay);
        eplb_event_log_close(&log);
        log = open_log(path);
        bool greedy = strcmp(log.policy, greedy_name) == 0;
        log.params.ops = eplb_policy_find(greedy ? "balanced" : greedy_name).ops;
        play(&log, &replay);
        by_policy += replay.differs;
        eplb_event_replay_free(&replay);
        eplb_event_log_close(&log);
    }
    print_message("of %d runs, %d differ by the threshold and %d by the policy\n", SEEDS, by_threshold,
                  by_policy);
    assert_true(by_threshold > SEEDS / 2 && by_policy > SEEDS / 4);
}

static void other_times_make_a_difference(void **state)
{
    (void)state;
    int differing = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const char *path = path_of("times.events");
        struct recorded_counts counts;
        struct eplb_event_replay replay;
        recorded_write(path, seed, 200, &counts);
        struct eplb_event_log log = open_log(path);
        log.params.update_interval_ns += 20 * RECORDED_SECOND;
        log.params.update_interval_forwards *= 2;
        play(&log, &replay);
        differing += replay.differs;
        if (replay.differs)
            assert_string_equal(replay.recorded, "a policy run asked for");
        eplb_event_replay_free(&replay);
        eplb_event_log_close(&log);
    }
    assert_true(differing > 10);
}

/** A log that lacks what the core did then: another core would have done less. */
static void an_action_that_was_not_recorded_is_found(void **state)
{
    (void)state;
    enum { ACTIONS = 120 };
    static struct recorded run;
    for (uint64_t left_out = 1; left_out <= ACTIONS; left_out++) {
        const char *path = path_of("lacking.events");
        struct eplb_event_writer *writer;
        struct eplb_event_replay replay;
        struct eplb_error error;
        assert_int_equal(eplb_event_writer_create(path, NULL, &writer, &error), EPLB_OK);
        recorded_start(&run, 3, writer);
        run.left_out = left_out;
        recorded_go(&run, 100);
        assert_true(run.counts.actions > ACTIONS);
        recorded_end(&run);
        assert_int_equal(eplb_event_writer_close(writer, &error), EPLB_OK);
        struct eplb_event_log log = open_log(path);
        play(&log, &replay);
        assert_true(replay.differs);
        assert_true(replay.came[0] != '\0' && replay.recorded[0] != '\0');
        assert_int_equal(replay.num_actions, left_out - 1);
        eplb_event_replay_free(&replay);
        eplb_event_log_close(&log);
    }
}

static void an_unknown_policy_is_named(void **state)
{
    (void)state;
    const char *path = path_of("policy.events");
    struct eplb_policy_ops ops = *eplb_policy_find("balanced").ops;
    struct eplb_manager_core_params params = {
        .ops = &ops, .prepare_timeout_ns = 1, .transfer_timeout_ns = 1, .first_token = 1, .first_seq = 1};
    struct eplb_event_writer *writer;
    struct eplb_event_replay replay;
    struct eplb_error error;
    ops.name = "mine";
    assert_int_equal(eplb_shape_init(&params.shape, 1, 4, 2, 1, &error), EPLB_OK);
    assert_int_equal(eplb_event_writer_create(path, NULL, &writer, &error), EPLB_OK);
    eplb_event_writer_start(writer, &params);
    assert_int_equal(eplb_event_writer_close(writer, &error), EPLB_OK);
    struct eplb_event_log log = open_log(path);
    assert_int_equal(eplb_event_replay_run(&log, NULL, &replay, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "policy.events was recorded with the policy 'mine'"));
    eplb_event_replay_free(&replay);
    log.params.ops = &ops;
    play(&log, &replay);
    expect_identical(&replay, 0);
    eplb_event_replay_free(&replay);
    eplb_event_log_close(&log);
}

/* ------------------------------------------------------------------------------- of managers */

struct noted {
    uint64_t opened, aborted;
};

static void note_open(void *self, struct eplb_activation_token token)
{
    ((struct noted *)self)->opened = token.value;
}

static void note_abort(void *self, struct eplb_activation_token token)
{
    ((struct noted *)self)->aborted = token.value;
}

/** A manager with its thread, its clock, and workers of a seed. */
struct live {
    struct noted noted;
    struct eplb_group group;
    struct eplb_manager *manager;
    struct workers workers;
    uint64_t next_seq;
    uint64_t flights[2];
    int num_flights;
    int32_t overlap;
    int deaths, drops;
    enum eplb_status stopped;
    struct eplb_dp_batch batches[WORKER_RANKS];
};

static void live_start(struct live *live, uint64_t seed, struct eplb_event_writer *writer)
{
    struct eplb_manager_params params;
    struct eplb_error error;
    memset(live, 0, sizeof *live);
    live->group = (struct eplb_group){.size = sizeof live->group,
                                      .self = &live->noted,
                                      .num_ranks = WORKER_RANKS,
                                      .record_open = note_open,
                                      .record_abort = note_abort};
    eplb_manager_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, WORKER_LAYERS, WORKER_EXPERTS, WORKER_RANKS, 1, &error),
                     EPLB_OK);
    params.ops = eplb_policy_find(seed % 2 == 0 ? "balanced" : "greedy").ops;
    params.update_interval_seconds = 0;
    params.update_interval_steps = seed % 3 == 0 ? 20 : 0;
    params.overlap = (int32_t)(seed / 2 % 2);
    params.first_seq = seed;
    params.first_token = 10 * seed;
    params.group = &live->group;
    params.observer = eplb_event_writer_observer(writer);
    live->overlap = params.overlap;
    live->next_seq = params.first_seq;
    workers_init(&live->workers, seed, NULL);
    if (eplb_manager_create(&params, &live->manager, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

static void live_submit(struct live *live)
{
    struct eplb_command command;
    struct eplb_error error;
    workers_batches(&live->workers, live->batches);
    const struct eplb_forward forward = {.size = sizeof forward,
                                         .seq = live->next_seq++,
                                         .batches = live->batches,
                                         .num_batches = WORKER_RANKS,
                                         .warmup = workers_chance(&live->workers, 3)};
    live->stopped = eplb_manager_submit(live->manager, &forward, &command, &error);
    if (live->stopped != EPLB_OK)
        return;
    if (workers_chance(&live->workers, 6)) {
        live->drops++;
        live->stopped = eplb_manager_dropped(live->manager, forward.seq, &error);
        return;
    }
    workers_take(&live->workers, &command);
    live->flights[live->num_flights++] = forward.seq;
}

static void live_collect(struct live *live)
{
    struct eplb_error error;
    uint64_t seq = live->flights[0];
    live->flights[0] = live->flights[1];
    live->num_flights--;
    live->stopped =
        eplb_manager_outputs(live->manager, seq, workers_outputs(&live->workers, seq), WORKER_RANKS, &error);
}

static void live_kill(void *argument)
{
    struct live *live = argument;
    for (int32_t rank = 0; rank < WORKER_RANKS; rank++)
        if (live->workers.dead[rank])
            eplb_manager_rank_dead(live->manager, rank);
}

/** Until so many layers were committed and so many forwards run, or for very long. */
static void live_go(struct live *live, uint64_t commits)
{
    struct eplb_manager_status status = {0};
    for (int i = 0; i < 20000 && live->stopped == EPLB_OK && (i < 200 || status.layers_committed < commits);
         i++) {
        if (live->num_flights <= live->overlap)
            live_submit(live);
        if (live->stopped == EPLB_OK && live->num_flights > 0 &&
            (live->num_flights > live->overlap || workers_chance(&live->workers, 40)))
            live_collect(live);
        eplb_manager_status(live->manager, &status);
    }
}

/** A rank dies, and another thread tells of it, while forwards go on. */
static void live_die(struct live *live, uint64_t seed)
{
    struct eplb_thread thread;
    struct eplb_error error;
    if (seed % 2 == 0 || live->stopped != EPLB_OK)
        return;
    live->workers.dead[seed % WORKER_RANKS] = true;
    live->deaths++;
    assert_int_equal(eplb_thread_start(&thread, "supervisor", live_kill, live, &error), EPLB_OK);
    live_go(live, 0);
    eplb_thread_join(&thread);
}

static void a_manager_is_replayed_identically(void **state)
{
    (void)state;
    enum { SEEDS = 20 };
    int deaths = 0, drops = 0, stops = 0;
    uint64_t commits = 0, aborts = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *path = path_of("live.events");
        static struct live live;
        static int32_t table[WORKER_RANKS * WORKER_SLOTS];
        struct eplb_manager_status told, replayed;
        struct eplb_event_writer *writer;
        struct eplb_event_replay replay;
        struct eplb_error error;
        assert_int_equal(eplb_event_writer_create(path, NULL, &writer, &error), EPLB_OK);
        live_start(&live, seed, writer);
        live_go(&live, 8);
        live_die(&live, seed);
        eplb_manager_status(live.manager, &told);
        struct eplb_event_log log;
        uint64_t hashes[WORKER_LAYERS];
        uint64_t generations[WORKER_LAYERS];
        struct eplb_shape shape;
        eplb_shape_init(&shape, WORKER_LAYERS, WORKER_EXPERTS, WORKER_RANKS, 1, &error);
        for (int layer = 0; layer < WORKER_LAYERS; layer++) {
            generations[layer] = eplb_manager_placement(live.manager, layer, table);
            hashes[layer] = eplb_placement_hash(&shape, table);
        }
        eplb_manager_destroy(live.manager);
        assert_int_equal(eplb_event_writer_close(writer, &error), EPLB_OK);
        log = open_log(path);
        play(&log, &replay);
        expect_identical(&replay, seed);
        assert_true(log.ended);
        eplb_manager_core_status(replay.core, replay.now, &replayed);
        assert_int_equal(replayed.layers_committed, told.layers_committed);
        assert_int_equal(replayed.layers_aborted, told.layers_aborted);
        assert_int_equal(replayed.samples_taken, told.samples_taken);
        assert_int_equal(replayed.samples_lacking, told.samples_lacking);
        assert_int_equal(replayed.num_dead, told.num_dead);
        for (int layer = 0; layer < WORKER_LAYERS; layer++) {
            assert_int_equal(eplb_manager_core_generation(replay.core, layer), generations[layer]);
            assert_true(eplb_placement_hash(&shape, eplb_manager_core_tables(replay.core) +
                                                        layer * WORKER_RANKS * WORKER_SLOTS) ==
                        hashes[layer]);
        }
        commits += told.layers_committed;
        aborts += told.layers_aborted;
        deaths += live.deaths;
        drops += live.drops;
        stops += live.stopped != EPLB_OK;
        eplb_event_replay_free(&replay);
        eplb_event_log_close(&log);
    }
    print_message("%d managers: %d committed, %d given up, %d dead, %d dropped, %d stopped\n", SEEDS,
                  (int)commits, (int)aborts, deaths, drops, stops);
    assert_true(commits > 100 && aborts > 10 && deaths > 5 && drops > 100);
}

static void an_observer_of_another_size_is_refused(void **state)
{
    (void)state;
    struct eplb_manager_observer observer = {.size = 3};
    struct eplb_manager_params params;
    struct eplb_manager *manager = NULL;
    struct eplb_error error;
    struct noted noted = {0, 0};
    const struct eplb_group group = {.size = sizeof group,
                                     .self = &noted,
                                     .num_ranks = 2,
                                     .record_open = note_open,
                                     .record_abort = note_abort};
    eplb_manager_params_init(&params);
    assert_null(params.observer);
    assert_int_equal(eplb_shape_init(&params.shape, 1, 4, 2, 1, &error), EPLB_OK);
    params.group = &group;
    params.observer = &observer;
    assert_int_equal(eplb_manager_create(&params, &manager, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "eplb_manager_observer.size is 3"));
    /* One that wants to see nothing is none. */
    observer.size = sizeof observer;
    assert_int_equal(eplb_manager_create(&params, &manager, &error), EPLB_OK);
    eplb_manager_rank_dead(manager, 0);
    eplb_manager_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_core_is_replayed_identically),
        cmocka_unit_test(what_is_left_of_a_killed_run_is_replayed),
        cmocka_unit_test(another_threshold_or_policy_makes_a_difference),
        cmocka_unit_test(other_times_make_a_difference),
        cmocka_unit_test(an_action_that_was_not_recorded_is_found),
        cmocka_unit_test(an_unknown_policy_is_named),
        cmocka_unit_test(a_manager_is_replayed_identically),
        cmocka_unit_test(an_observer_of_another_size_is_refused),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
