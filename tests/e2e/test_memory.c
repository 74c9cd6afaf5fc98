/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* B59: what a hundred rebalances take is what was there at the start, and all of it comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "e2e/engine.h"
#include "support/process.h"

/* malloc counts what it keeps for the next call of a size as given out: some blocks of the C library. */
enum { KEPT_BYTES = 16 * 1024 };

static bool has_committed_a_hundred(const struct eplb_manager_status *status)
{
    return status->layers_committed >= 100;
}

static struct engine *start(void)
{
    struct engine_params params;
    engine_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.team.shape, 2, 4, 2, 1, NULL), EPLB_OK);
    params.team.matrix_bytes = (INT64_C(2) << 20) + 5;
    params.team.chunk_bytes = params.team.inflight_bytes = INT64_C(1) << 20;
    params.manager.min_peak_load_improvement = 0;
    return engine_create(&params);
}

/** Active tensors and staging of all ranks. */
static int64_t weight_bytes(const struct engine *engine)
{
    int64_t bytes = 0;
    for (int32_t rank = 0; rank < 2; rank++) {
        struct standin *model = team_model(engine_team(engine), rank);
        bytes += standin_bytes(model) + (int64_t)eplb_weights_staging_bytes(standin_weights(model));
    }
    return bytes;
}

static void test_memory_of_a_hundred_rebalances(void **state)
{
    (void)state;
    /* Once before: what the C library keeps for later threads is there then. */
    engine_destroy(start());
    int64_t heap_before = process_heap_bytes();
    struct engine *engine = start();
    int64_t weights = weight_bytes(engine);
    int64_t heap = process_heap_bytes();
    assert_true(heap - heap_before <= weights + weights / 20);
    for (int32_t i = 0; i < 20; i++)
        engine_forward(engine, ENGINE_DECODE);
    int64_t resident = process_resident_bytes();
    engine_run_until(engine, has_committed_a_hundred, "done with a hundred layers");
    print_message("weights and staging %d KiB, all %d KiB; resident %d KiB more at the end\n",
                  (int)(weights / 1024), (int)((heap - heap_before) / 1024),
                  (int)((process_resident_bytes() - resident) / 1024));
    assert_true(process_heap_bytes() - heap < KEPT_BYTES);
    assert_true(process_resident_bytes() - resident < weights / 20);
    engine_settle(engine);
    engine_destroy(engine);
    assert_true(process_heap_bytes() - heap_before < KEPT_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_of_a_hundred_rebalances)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
