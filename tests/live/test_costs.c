/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* What a run reserves, logs and refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "live/stage.h"
#include "support/allocations.h"

/* ---- nothing is allocated once it runs ---- */

/** An inner progress, and what was allocated between the tenth forward and the last one. */
struct counting {
    struct stage *stage;
    void (*progress)(void *context, const struct eplb_run_progress *progress);
    size_t allocations;
};

static void count(void *context, const struct eplb_run_progress *progress)
{
    struct counting *counting = context;
    counting->progress(counting->stage, progress);
    if (progress->step == 10)
        allocations_reset(0);
    counting->allocations = allocations_counted();
}

static void test_nothing_is_allocated(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "costs", 2);
    struct counting counting = {.stage = stage, .progress = stage->params.progress};
    stage->params.context = &counting;
    stage->params.progress = count;
    stage->params.worker_command = STAGE_COUNTS;
    stage->params.verify = true;
    stage->params.overlap = 1;
    stage_run_well(stage);
    assert_true(stage->outcome.manager.layers_committed >= 2);
    assert_int_equal(counting.allocations, 0);
    stage_close(stage);
    shm_place_close(&place);
}

/* ---- the log ---- */

/** Lines of the engine's log and of the workers', with every key that a line must have. */
static void expect_engine_line(struct stage *stage, const char *text)
{
    if (notes_count(&stage->notes, text) == 0)
        fail_msg("the engine has not logged \"%s\":\n%s", text, stage->notes.text);
}

static void expect_worker_lines(const struct stage *stage, const char *text, int count)
{
    int found = stage_worker_lines(stage, text);
    if (found != count)
        fail_msg("%d workers' lines have \"%s\", and not %d", found, text, count);
}

static void check_engine_log(struct stage *stage)
{
    expect_engine_line(stage,
                       "EPLB manager start | policy=balanced | num_layers=4 | ep_size=2 | slots_per_rank=17");
    expect_engine_line(stage, "EPLB rebalance | policy=balanced | policy_ms=");
    expect_engine_line(stage, " | layers_to_update=4 | num_layers=4");
    expect_engine_line(stage, "EPLB placement benefit | layer=3 | policy=balanced | current_peak=");
    expect_engine_line(stage, " | candidate_peak=");
    expect_engine_line(stage, " | improvement=");
    expect_engine_line(stage, " | threshold=0.02 | verdict=publish");
    expect_engine_line(stage, "EPLB layer committed | layer=0 | generation=1");
    assert_int_equal(notes_count(&stage->notes, "EPLB warning"), 0);
}

static void check_worker_log(const struct stage *stage)
{
    int switched = (int)stage->outcome.manager.layers_committed;
    char *text = stage_worker_text(stage);
    expect_worker_lines(stage, "EPLB memory plan | rank=1 | weights=", 1);
    expect_worker_lines(stage, " | graph_pool=0 | ", 2);
    expect_worker_lines(stage, "EPLB staging reservation warmed | rank=0 | bytes=", 1);
    expect_worker_lines(stage, " | tensors=2", 2);
    expect_worker_lines(
        stage, "prepare_expert_weight | layer=0 | rank=1 | prepare_token=1 | table_size=34 | ms=", 1);
    expect_worker_lines(stage, "materialize_expert_weight | layer=0 | rank=1 | activation_token=2 | ms=", 1);
    expect_worker_lines(
        stage,
        "update_expert_weight | layer=0 | rank=1 | activation_token=2 | mc2_mode=0 | changed_slots=", 1);
    expect_worker_lines(stage, "materialize_expert_weight", 2 * switched);
    expect_worker_lines(stage, " | outcome=switched | reason=none", 2 * switched);
    assert_non_null(strstr(text, " | p2p_messages="));
    assert_non_null(strstr(text, " | transfer_ms="));
    assert_non_null(strstr(text, " | activation_ms="));
    assert_non_null(strstr(text, " | total_ms="));
    free(text);
}

static void test_log(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "costs", 2);
    stage_run_well(stage);
    check_engine_log(stage);
    check_worker_log(stage);
    stage_close(stage);

    stage = stage_open(&place, "costs", 2);
    stage_turn_off(stage);
    stage_run_well(stage);
    assert_string_equal(stage->notes.text, "");
    expect_worker_lines(stage, "EPLB memory plan | rank=", 2);
    expect_worker_lines(stage, " | redundant_slots=0 | staging=0 | ", 2);
    expect_worker_lines(stage, "", 2);
    stage_close(stage);
    shm_place_close(&place);
}

/* ---- refusals ---- */

static void expect_refusal(struct stage *stage, const char *sentence)
{
    assert_int_equal(stage_run(stage), EPLB_INVALID);
    if (strstr(stage->error.text, sentence) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", sentence, stage->error.text);
    stage_check_nothing_is_left(stage);
    assert_int_equal(stage->outcome.lost_rank, EPLB_NO_RANK);
    assert_int_equal(stage_worker_lines(stage, ""), 0);
}

#define REFUSED(member, value, sentence)                     \
    do {                                                     \
        const struct eplb_run_params before = stage->params; \
        stage->params.member = (value);                      \
        expect_refusal(stage, sentence);                     \
        stage->params = before;                              \
    } while (0)

static void test_refusals(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "costs", 2);
    REFUSED(overlap, 2, "overlap is 2; allowed is 0 or 1");
    REFUSED(window_forwards, 0, "a window of 0 forwards; allowed is 1 or more");
    REFUSED(policy, NULL, "and a policy");
    REFUSED(eplb, false, "redundant_experts_num is 1; without balancing there are no redundant slots");
    REFUSED(silence_timeout_ns, INT64_C(10000000000),
            "a rank counts as silent after 10000 ms, and the transfer "
            "timeout is 10 s; the first must be longer");
    REFUSED(transfer_timeout_seconds, 0, "the transfer timeout is 0 s");
    REFUSED(transfer_inflight_bytes, 1, "setup: transfer_inflight_bytes is 1; allowed is 20000 to ");
    REFUSED(num_caches, 13, "setup: num_caches is 13; allowed is 1 to 12");
    REFUSED(admit_interval, 0, "admit_interval is 0");
    REFUSED(busy_ranks, 3, "busy_ranks is 3");
    REFUSED(model.top_k, 33, "top_k is 33; with num_experts 32, allowed is 1 to 32");
    REFUSED(model.num_layers, 5, "setup: 5 layers");
    REFUSED(fused_mc2, 1, "setup: fused_mc2 is 1; allowed is 0 to 0");
    REFUSED(skew_phases, 0, "setup: skew_phases is 0; allowed is 1 to ");
    REFUSED(min_peak_load_improvement, 1.5, "1.5");
    REFUSED(update_interval_seconds, -1, "update interval -1 s");
    REFUSED(instance_name, "a/b", "a/b");
    stage->initial[3] = stage->initial[4];
    expect_refusal(stage, "setup: the table of layer 0 is not legal: ");
    stage_close(stage);
    stage = stage_open(&place, "costs", 1);
    expect_refusal(stage, "ep_size is 1; balancing needs 2 ranks or more");
    stage_close(stage);
    shm_place_close(&place);
}

/* One rank alone has nobody to share with, and serves all the same. */
static void test_one_rank(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "costs", 1);
    stage_turn_off(stage);
    stage_run_well(stage);
    assert_int_equal(stage->outcome.statistics.forwards, 120);
    assert_true(stage->outcome.statistics.tokens > 0);
    assert_true(stage->outcome.statistics.last_window.mean == 1);
    stage_close(stage);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    stage_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_allocated),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
