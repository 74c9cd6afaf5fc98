/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A switch that leaves a wrong expert in a slot: what --verify is for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "live/stage.h"
#include "live/worker.h"

static void test_a_wrong_slot_is_named(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "inject", 2);
    stage->params.verify = true;
    stage->params.inject = 1;
    assert_int_equal(stage_run(stage), EPLB_VERIFY);
    int32_t rank = stage->outcome.lost_rank;
    assert_in_range(rank, 0, 1);
    assert_non_null(strstr(stage->error.text, ") exited with code 3; "));
    stage_check_nothing_is_left(stage);

    char *text = stage_worker_text(stage);
    const char *line = strstr(text, WORKER_FAILS);
    int layer, on, slot, expert, found, other;
    assert_non_null(line);
    assert_int_equal(sscanf(line,
                            WORKER_FAILS
                            " | message=layer %d, rank %d: slot %d must hold expert %d, and holds "
                            "expert %d of layer %d",
                            &layer, &on, &slot, &expert, &found, &other),
                     6);
    assert_in_range(on, 0, 1);
    assert_int_equal(slot, stage->params.shape.slots_per_rank - 1);
    assert_int_equal(layer, other);
    assert_int_not_equal(expert, found);
    free(text);
    stage_close(stage);
    shm_place_close(&place);
}

/* The same run, looked at only by its results: that the check is what finds it. */
static void test_nobody_looks(void **state)
{
    (void)state;
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "inject", 2);
    stage_run_well(stage);
    uint64_t right = stage->outcome.statistics.digest;
    stage->params.inject = 1;
    stage_run_well(stage);
    assert_int_equal(stage->outcome.slots_checked, 0);
    assert_int_not_equal(stage->outcome.statistics.digest, right);
    stage_close(stage);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    stage_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_slot_is_named),
        cmocka_unit_test(test_nobody_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
