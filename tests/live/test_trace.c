/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Runs that follow a recording, and record themselves: every token goes where the recording says, whatever
 * the ranks and whatever layers switch meanwhile.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "engine/trace.h"
#include "eplb/clock.h"
#include "live/act.h"
#include "live/stage.h"

#define PATIENCE_NS INT64_C(60000000000)

enum { STEPS = 30, RECORDED = 3, LAYERS = 4, EXPERTS = 32, TOP_K = 2, SEED = 20251130 };

/** Two recordings of the same ids, which run takes one of, and where it records itself. */
struct files {
    char folder[48];
    char steps[64], tokens[64];
    char prefix[64], recorded[80], events[80], sidecar[80];
};

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_sidecar(const char *ids, const char *axes, const char *shape, const char *phases)
{
    char path[80];
    char text[512];
    snprintf(path, sizeof path, "%.*s.json", (int)(strlen(ids) - strlen(".ids.u8")), ids);
    int length =
        snprintf(text, sizeof text,
                 "{\"format\": \"eplb-ids-1\", \"axes\": [%s, \"layer\", \"k\"], \"shape\": [%s, %d, %d], "
                 "\"dtype\": \"uint8\", \"num_experts\": %d, \"top_k\": %d, \"layer_ids\": [1, 2, 5, 9], "
                 "\"phases\": [%s], \"kind\": \"decode\"}\n",
                 axes, shape, LAYERS, TOP_K, EXPERTS, TOP_K, phases);
    write_file(path, text, (size_t)length);
}

/** Six experts in ten choices are of eight neighbours, which are others in the second phase. */
static void make_ids(unsigned char ids[STEPS * RECORDED][LAYERS][TOP_K])
{
    struct eplb_prng prng;
    eplb_prng_seed(&prng, SEED);
    for (size_t token = 0; token < STEPS * RECORDED; token++)
        for (size_t layer = 0; layer < LAYERS; layer++)
            for (size_t k = 0; k < TOP_K; k++) {
                size_t first = (token / RECORDED < 18 ? 0 : 16) + 4 * layer;
                unsigned char *id = &ids[token][layer][k];
                do
                    *id = (unsigned char)(eplb_prng_below(&prng, 10) < 6
                                              ? (first + eplb_prng_below(&prng, 8)) % EXPERTS
                                              : eplb_prng_below(&prng, EXPERTS));
                while (k > 0 && *id == ids[token][layer][0]);
            }
}

static void files_open(struct files *files)
{
    unsigned char ids[STEPS * RECORDED][LAYERS][TOP_K];
    print_message("seed %d\n", SEED);
    *files = (struct files){.folder = "/dev/shm/eplb-live-trace-XXXXXX"};
    assert_non_null(mkdtemp(files->folder));
    snprintf(files->steps, sizeof files->steps, "%s/s.ids.u8", files->folder);
    snprintf(files->tokens, sizeof files->tokens, "%s/t.ids.u8", files->folder);
    snprintf(files->prefix, sizeof files->prefix, "%s/run", files->folder);
    snprintf(files->recorded, sizeof files->recorded, "%s.ids.u8", files->prefix);
    snprintf(files->events, sizeof files->events, "%s.events", files->prefix);
    snprintf(files->sidecar, sizeof files->sidecar, "%s.json", files->prefix);
    make_ids(ids);
    write_file(files->steps, ids, sizeof ids);
    write_file(files->tokens, ids, sizeof ids);
    write_sidecar(
        files->steps, "\"step\", \"sequence\"", "30, 3",
        "{\"name\": \"a\", \"first\": 0, \"end\": 18}, {\"name\": \"b\", \"first\": 18, \"end\": 30}");
    write_sidecar(
        files->tokens, "\"token\"", "90",
        "{\"name\": \"a\", \"first\": 0, \"end\": 54}, {\"name\": \"b\", \"first\": 54, \"end\": 90}");
}

static void remove_recorded(const struct files *files)
{
    assert_int_equal(unlink(files->recorded), 0);
    assert_int_equal(unlink(files->sidecar), 0);
    (void)unlink(files->events);
}

static void files_close(const struct files *files)
{
    static const char *const names[] = {"s.ids.u8", "s.json", "t.ids.u8", "t.json"};
    char path[80];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", files->folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(files->folder), 0);
}

/** How a recording is replayed. */
struct play {
    const char *path;
    int32_t ranks, sequences, repeat;
    uint64_t steps;
};

/** Makes the stage's run follow the recording, which is opened too. */
static struct stage *open_stage(const struct shm_place *place, const struct play *play,
                                struct eplb_trace *trace)
{
    struct stage *stage = stage_open(place, "trace", play->ranks);
    struct eplb_run_params *params = &stage->params;
    assert_int_equal(eplb_trace_open(play->path, trace, NULL), EPLB_OK);
    trace->recording.sequences = play->sequences;
    trace->recording.repeat = play->repeat;
    params->model.top_k = TOP_K;
    params->routing = EPLB_ROUTING_TRACE;
    params->skew_phases = 0;
    params->skew_rates = NULL;
    params->trace_path = play->path;
    params->trace_digest = trace->digest;
    params->trace_sequences = play->sequences;
    params->trace_repeat = play->repeat;
    params->num_caches = params->max_rows = (play->sequences - 1) / play->ranks + 1;
    params->steps = play->steps;
    params->decode_only_load = true;
    stage_prepare(stage);
    return stage;
}

/** The routes that a run recorded are those of the recording, and nothing else. */
static void check_recorded(const struct files *files, const struct play *play,
                           const struct eplb_recording *recording)
{
    struct eplb_ids ids;
    assert_int_equal(eplb_ids_read(files->recorded, &ids, NULL), EPLB_OK);
    assert_true(ids.has_sequences && !ids.is_prefill);
    assert_int_equal(ids.num_steps, play->steps);
    assert_int_equal(ids.num_sequences, play->sequences);
    for (int32_t step = 0; step < ids.num_steps; step++)
        for (int32_t sequence = 0; sequence < ids.num_sequences; sequence++) {
            struct eplb_recorded_place place = eplb_recording_place(recording, (uint64_t)sequence, step);
            size_t token = (size_t)place.step * (size_t)recording->num_sequences + (size_t)place.sequence;
            assert_memory_equal(eplb_ids_at(&ids, step, sequence, 0),
                                recording->experts + token * LAYERS * TOP_K,
                                LAYERS * TOP_K * sizeof(uint16_t));
        }
    eplb_ids_free(&ids);
}

static int outcomes_told;

static void count_outcome(void *context, const struct eplb_outcome *outcome)
{
    (void)context;
    outcomes_told++;
    assert_in_range(outcome->layer, 0, LAYERS - 1);
    assert_true(outcome->generation > 0 && outcome->forwards > 0);
    assert_true(outcome->measured >= outcome->mean && outcome->even >= outcome->mean &&
                outcome->predicted >= outcome->mean * 0.999);
}

/** A run with balancing, which is recorded, and one without: the same to the last bit. */
static void check_play(const struct files *files, const struct play *play, bool overlap)
{
    struct shm_place place;
    struct eplb_trace trace;
    shm_place_open(&place);
    struct stage *stage = open_stage(&place, play, &trace);
    stage->params.verify = true;
    stage->params.overlap = overlap;
    stage->params.record = files->prefix;
    stage->params.switched = count_outcome;
    outcomes_told = 0;
    stage_run_well(stage);
    const struct eplb_run_outcome *outcome = &stage->outcome;
    uint64_t digest = outcome->statistics.digest;
    print_message("%d ranks, %d sequences: %llu layers switched, %d outcomes\n", play->ranks, play->sequences,
                  (unsigned long long)outcome->manager.layers_committed, outcomes_told);
    assert_int_equal(outcome->statistics.forwards, play->steps);
    assert_int_equal(outcome->statistics.tokens, play->steps * (uint64_t)play->sequences);
    assert_true(outcome->manager.layers_committed >= 2);
    assert_true(outcomes_told >= 1 && (uint64_t)outcomes_told <= outcome->manager.layers_committed);
    check_recorded(files, play, &trace.recording);
    struct stat events;
    assert_int_equal(stat(files->events, &events), 0);
    assert_true(events.st_size > 1000);
    remove_recorded(files);

    stage->params.verify = false;
    stage->params.record = NULL;
    stage_turn_off(stage);
    stage_run_well(stage);
    assert_int_equal(stage->outcome.statistics.digest, digest);
    eplb_trace_close(&trace);
    stage_close(stage);
    shm_place_close(&place);
}

/* Each phase twice, in copies that wrap, and once more from the beginning. */
static void test_steps(void **state)
{
    (void)state;
    struct files files;
    files_open(&files);
    for (int32_t ranks = 2; ranks <= 4; ranks += 2) {
        const struct play play = {
            .path = files.steps, .ranks = ranks, .sequences = 14, .repeat = 2, .steps = 80};
        check_play(&files, &play, ranks == 4);
    }
    files_close(&files);
}

/* Ninety tokens in seven streams: of seven and of five. */
static void test_tokens(void **state)
{
    (void)state;
    struct files files;
    files_open(&files);
    const struct play play = {.path = files.tokens, .ranks = 2, .sequences = 7, .repeat = 4, .steps = 70};
    check_play(&files, &play, false);
    files_close(&files);
}

/* What a run recorded of itself is a recording: played with its own number of sequences it is the same run.
 */
static void test_again(void **state)
{
    (void)state;
    struct files files;
    struct shm_place place;
    struct eplb_trace trace;
    files_open(&files);
    shm_place_open(&place);
    struct play play = {.path = files.steps, .ranks = 2, .sequences = 9, .repeat = 1, .steps = 30};
    struct stage *stage = open_stage(&place, &play, &trace);
    stage->params.record = files.prefix;
    stage_run_well(stage);
    uint64_t digest = stage->outcome.statistics.digest;
    eplb_trace_close(&trace);
    stage_close(stage);

    play.path = files.recorded;
    play.ranks = 4;
    stage = open_stage(&place, &play, &trace);
    assert_int_equal(eplb_recording_forwards(&trace.recording), 30);
    stage_run_well(stage);
    assert_int_equal(stage->outcome.statistics.digest, digest);
    eplb_trace_close(&trace);
    stage_close(stage);
    remove_recorded(&files);
    shm_place_close(&place);
    files_close(&files);
}

/* The router's own routes are recorded as well: prompts and all, one token after another. */
static void test_router(void **state)
{
    (void)state;
    struct files files;
    struct shm_place place;
    struct eplb_ids ids;
    files_open(&files);
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "trace", 2);
    stage->params.routing = EPLB_ROUTING_MODEL;
    stage->params.skew_phases = 0;
    stage->params.skew_rates = NULL;
    stage->params.record = files.prefix;
    stage->params.steps = 40;
    stage_run_well(stage);
    assert_int_equal(eplb_ids_read(files.recorded, &ids, NULL), EPLB_OK);
    assert_false(ids.has_sequences);
    assert_true(ids.is_prefill);
    assert_true((uint64_t)ids.num_steps >= stage->outcome.statistics.tokens);
    eplb_ids_free(&ids);
    remove_recorded(&files);
    stage_close(stage);
    shm_place_close(&place);
    files_close(&files);
}

/* Workers see that they read another recording than the engine did. */
static void test_another_file(void **state)
{
    (void)state;
    struct files files;
    struct shm_place place;
    struct eplb_trace trace;
    files_open(&files);
    shm_place_open(&place);
    const struct play play = {.path = files.steps, .ranks = 2, .sequences = 6, .repeat = 1, .steps = 30};
    struct stage *stage = open_stage(&place, &play, &trace);
    stage->params.trace_digest++;
    assert_int_equal(stage_run(stage), EPLB_INVALID);
    assert_true(stage_worker_lines(stage, "s.ids.u8 is not as it was when the run began") >= 1);
    stage_check_nothing_is_left(stage);
    eplb_trace_close(&trace);
    stage_close(stage);
    shm_place_close(&place);
    files_close(&files);
}

/* An engine that is killed leaves what it recorded: whole tokens of whole forwards. */
static void test_killed(void **state)
{
    (void)state;
    struct files files;
    struct shm_place place;
    struct eplb_trace trace;
    struct child engine;
    struct eplb_ids ids;
    files_open(&files);
    shm_place_open(&place);
    const struct play play = {.path = files.steps, .ranks = 2, .sequences = 6, .repeat = 1, .steps = 0};
    struct stage *stage = open_stage(&place, &play, &trace);
    stage->params.record = files.prefix;
    act_start_engine(&engine, stage);
    act_await_forwards(stage, 25);
    assert_int_equal(kill(engine.pid, SIGKILL), 0);
    assert_int_equal(children_next(&engine, 1, eplb_clock_system()->now(NULL) + PATIENCE_NS), 0);
    assert_int_equal(eplb_ids_read(files.recorded, &ids, NULL), EPLB_OK);
    assert_false(ids.has_sequences);
    assert_true(ids.num_steps >= 25 * play.sequences);
    for (int32_t token = 0; token < ids.num_steps; token++) {
        struct eplb_recorded_place place_of = eplb_recording_place(
            &trace.recording, (uint64_t)(token % play.sequences), token / play.sequences);
        size_t recorded = (size_t)place_of.step * RECORDED + (size_t)place_of.sequence;
        assert_memory_equal(eplb_ids_at(&ids, token, 0, 0),
                            trace.recording.experts + recorded * LAYERS * TOP_K,
                            LAYERS * TOP_K * sizeof(uint16_t));
    }
    eplb_ids_free(&ids);
    eplb_trace_close(&trace);
    remove_recorded(&files);
    stage_close(stage);
    shm_place_close(&place);
    files_close(&files);
}

int main(int argc, char **argv)
{
    stage_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),  cmocka_unit_test(test_tokens),       cmocka_unit_test(test_again),
        cmocka_unit_test(test_router), cmocka_unit_test(test_another_file), cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
