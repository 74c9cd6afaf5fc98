/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Recordings of a run's routes: the order of tokens, the axes, and what is left when a run is killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/recorder.h"
#include "trace/ids_file.h"

enum { LAYERS = 2, EXPERTS = 8, RANKS = 2, TOP_K = 2, ROW_IDS = LAYERS * TOP_K, MAX_ROWS = 3 };

struct bench {
    char folder[64];
    char prefix[80], path[96];
    struct eplb_recorder_params params;
    struct eplb_recorder *recorder;
    struct eplb_routed_row rows[RANKS][MAX_ROWS];
    uint16_t experts[RANKS][MAX_ROWS * ROW_IDS];
    struct eplb_routed routed[RANKS];
};

static void bench_open(struct bench *bench)
{
    *bench = (struct bench){.folder = "/dev/shm/eplb-recorder-XXXXXX"};
    assert_non_null(mkdtemp(bench->folder));
    snprintf(bench->prefix, sizeof bench->prefix, "%s/run", bench->folder);
    snprintf(bench->path, sizeof bench->path, "%s.ids.u8", bench->prefix);
    bench->params = (struct eplb_recorder_params){
        .prefix = bench->prefix, .top_k = TOP_K, .max_rows = MAX_ROWS, .is_decode = true};
    assert_int_equal(eplb_shape_init(&bench->params.shape, LAYERS, EXPERTS, RANKS, 0, NULL), EPLB_OK);
    for (int32_t rank = 0; rank < RANKS; rank++)
        bench->routed[rank] =
            (struct eplb_routed){.rows = bench->rows[rank], .experts = bench->experts[rank]};
    assert_int_equal(eplb_recorder_create(&bench->params, &bench->recorder, NULL), EPLB_OK);
}

static void bench_close(struct bench *bench)
{
    char sidecar[96];
    snprintf(sidecar, sizeof sidecar, "%s.json", bench->prefix);
    assert_int_equal(unlink(bench->path), 0);
    assert_int_equal(unlink(sidecar), 0);
    assert_int_equal(rmdir(bench->folder), 0);
}

/** A row whose ids tell its sequence and position. */
static void put(struct bench *bench, int32_t rank, uint64_t sequence, int32_t position)
{
    struct eplb_routed *routed = &bench->routed[rank];
    uint16_t *ids = routed->experts + (size_t)routed->num_rows * ROW_IDS;
    routed->rows[routed->num_rows++] = (struct eplb_routed_row){.sequence = sequence, .position = position};
    for (size_t i = 0; i < ROW_IDS; i++)
        ids[i] = (uint16_t)((sequence + 2 * (uint64_t)position + (i % TOP_K == 0 ? 0 : 4)) % EXPERTS);
}

static void add(struct bench *bench)
{
    assert_int_equal(eplb_recorder_add(bench->recorder, bench->routed, NULL), EPLB_OK);
    for (int32_t rank = 0; rank < RANKS; rank++)
        bench->routed[rank].num_rows = 0;
}

static void assert_token(const struct eplb_ids *ids, int32_t step, int32_t sequence, uint64_t number,
                         int32_t position)
{
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        const uint16_t *found = eplb_ids_at(ids, step, sequence, layer);
        uint64_t first = (number + 2 * (uint64_t)position) % EXPERTS;
        assert_int_equal(found[0], first);
        assert_int_equal(found[1], (first + 4) % EXPERTS);
    }
}

/* Whatever ranks had them, and in whatever order: a step has the tokens of all sequences, in their order. */
static void even_forwards_have_a_sequence_axis(void **state)
{
    (void)state;
    struct bench bench;
    struct eplb_ids ids;
    bench_open(&bench);
    for (int32_t step = 0; step < 3; step++) {
        put(&bench, step % 2, 30, step);
        put(&bench, step % 2, 2, step);
        put(&bench, (step + 1) % 2, 5, step);
        add(&bench);
    }
    assert_int_equal(eplb_recorder_close(bench.recorder, NULL), EPLB_OK);
    assert_int_equal(eplb_ids_read(bench.path, &ids, NULL), EPLB_OK);
    assert_true(ids.has_sequences && !ids.is_prefill);
    assert_int_equal(ids.num_steps, 3);
    assert_int_equal(ids.num_sequences, 3);
    static const uint64_t numbers[] = {2, 5, 30};
    for (int32_t step = 0; step < 3; step++)
        for (int32_t i = 0; i < 3; i++)
            assert_token(&ids, step, i, numbers[i], step);
    eplb_ids_free(&ids);
    bench_close(&bench);
}

/** Ends a recording whose forwards were not all of the same sequences. */
static void assert_tokens(struct bench *bench, int32_t tokens)
{
    struct eplb_ids ids;
    assert_int_equal(eplb_recorder_close(bench->recorder, NULL), EPLB_OK);
    assert_int_equal(eplb_ids_read(bench->path, &ids, NULL), EPLB_OK);
    assert_false(ids.has_sequences);
    assert_int_equal(ids.num_steps, tokens);
    eplb_ids_free(&ids);
    bench_close(bench);
}

static void other_sequences_are_tokens(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench);
    put(&bench, 0, 1, 0);
    put(&bench, 1, 2, 0);
    add(&bench);
    put(&bench, 0, 1, 1);
    put(&bench, 1, 3, 0);
    add(&bench);
    assert_tokens(&bench, 4);
}

static void prompts_are_tokens_in_order(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench);
    put(&bench, 1, 4, 0);
    put(&bench, 1, 4, 1);
    put(&bench, 0, 3, 7);
    add(&bench);
    put(&bench, 1, 4, 2);
    add(&bench);
    add(&bench);
    struct eplb_ids ids;
    /* Readable while it is written, and so when its writer was killed. */
    assert_int_equal(eplb_ids_read(bench.path, &ids, NULL), EPLB_OK);
    assert_int_equal(ids.num_steps, 4);
    assert_token(&ids, 0, 0, 3, 7);
    for (int32_t i = 1; i < 4; i++)
        assert_token(&ids, i, 0, 4, i - 1);
    eplb_ids_free(&ids);
    assert_tokens(&bench, 4);
}

/* A file that is there already may be somebody's recording. */
static void nothing_is_replaced(void **state)
{
    (void)state;
    struct bench bench;
    struct eplb_recorder *second = NULL;
    struct eplb_error error;
    bench_open(&bench);
    assert_int_equal(eplb_recorder_create(&bench.params, &second, &error), EPLB_INVALID);
    assert_non_null(strstr(error.text, "is there already"));
    assert_null(second);
    put(&bench, 0, 1, 0);
    add(&bench);
    struct eplb_ids ids;
    assert_int_equal(eplb_recorder_close(bench.recorder, NULL), EPLB_OK);
    assert_int_equal(eplb_ids_read(bench.path, &ids, NULL), EPLB_OK);
    assert_int_equal(ids.num_steps, 1);
    eplb_ids_free(&ids);
    assert_int_equal(eplb_recorder_close(NULL, NULL), EPLB_OK);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_forwards_have_a_sequence_axis),
        cmocka_unit_test(other_sequences_are_tokens),
        cmocka_unit_test(prompts_are_tokens_in_order),
        cmocka_unit_test(nothing_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
