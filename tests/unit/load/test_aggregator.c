/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Samples, generations, windows and history, with exact values. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/load.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { MAX_RANKS = 8 };

/* Collects the warnings of one test. */
struct warnings {
    int count;
    char last[600];
};

static void collect(void *context, const struct eplb_log_record *record)
{
    struct warnings *warnings = context;
    assert_int_equal(record->level, EPLB_LOG_WARNING);
    warnings->count++;
    eplb_log_format(record, warnings->last, sizeof warnings->last);
}

/* An aggregator with its sink, and a sample whose ranks all have room for a report. */
struct fixture {
    struct eplb_shape shape;
    struct warnings warnings;
    struct eplb_log_sink sink;
    struct eplb_aggregator *aggregator;
    int64_t prefix[MAX_RANKS][64];
    uint64_t generations[MAX_RANKS][64];
    struct eplb_rank_report ranks[MAX_RANKS];
    struct eplb_sample sample;
    struct eplb_sample_result result;
    struct eplb_error error;
};

static struct fixture *set_up(int64_t layers, int64_t experts, int64_t ranks, int64_t redundant,
                              int32_t overlap)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(eplb_shape_init(&f->shape, layers, experts, ranks, redundant, NULL), EPLB_OK);
    f->sink = (struct eplb_log_sink){.size = sizeof f->sink, .context = &f->warnings, .write = collect};
    int32_t table[64];
    for (int32_t l = 0; l < f->shape.num_layers; l++)
        eplb_placement_initial(&f->shape, table + l * f->shape.num_slots);
    assert_int_equal(eplb_aggregator_create(&f->shape, overlap, table, NULL, &f->sink, &f->aggregator, NULL),
                     EPLB_OK);
    for (int r = 0; r < MAX_RANKS; r++)
        f->ranks[r] = (struct eplb_rank_report){.prefix = f->prefix[r],
                                                .generations = f->generations[r],
                                                .num_layers = f->shape.num_layers,
                                                .slots_per_rank = f->shape.slots_per_rank};
    f->sample = (struct eplb_sample){.ranks = f->ranks, .num_ranks = f->shape.ep_size};
    return f;
}

static void tear_down(struct fixture *f)
{
    eplb_aggregator_destroy(f->aggregator);
    free(f);
}

/* Writes the report of one layer from the counts [ep_size][slots_per_rank] and its generation. */
static void report(struct fixture *f, int32_t layer, uint64_t generation, const int64_t *counts)
{
    size_t n = (size_t)f->shape.slots_per_rank;
    for (int32_t r = 0; r < f->shape.ep_size; r++) {
        f->generations[r][layer] = generation;
        int64_t *row = f->prefix[r] + (size_t)layer * n;
        assert_int_equal(eplb_prefix_encode(counts + (size_t)r * n, n, row, NULL), EPLB_OK);
    }
}

static enum eplb_status add(struct fixture *f)
{
    f->result = (struct eplb_sample_result){.taken = -1, .counted_rows = -1};
    f->error.text[0] = '\0';
    return eplb_aggregator_add(f->aggregator, &f->sample, &f->result, &f->error);
}

static void add_taken(struct fixture *f, int64_t counted_rows)
{
    assert_int_equal(add(f), EPLB_OK);
    assert_int_equal(f->result.taken, 1);
    assert_int_equal(f->result.counted_rows, counted_rows);
}

static void assert_loads(const int64_t *actual, const int64_t *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(actual[i], expected[i]);
}

/* The sample must be refused with this sentence, one warning and one more refusal, and no other effect. */
static void assert_refused(struct fixture *f, const char *text)
{
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    size_t logical_bytes = (size_t)(f->shape.num_layers * f->shape.num_experts) * sizeof(int64_t);
    size_t physical_bytes = (size_t)(f->shape.num_layers * f->shape.num_slots) * sizeof(int64_t);
    int64_t logical[64];
    int64_t physical[64];
    char line[700];
    struct eplb_sample_counters before = *eplb_aggregator_counters(f->aggregator);
    uint64_t num_samples = open->num_samples;
    int warnings = f->warnings.count;
    memcpy(logical, open->logical, logical_bytes);
    memcpy(physical, open->physical, physical_bytes);

    assert_int_equal(add(f), EPLB_REFUSED);
    assert_string_equal(f->error.text, text);
    assert_int_equal(f->result.taken, -1);
    assert_memory_equal(logical, open->logical, logical_bytes);
    assert_memory_equal(physical, open->physical, physical_bytes);
    assert_int_equal(open->num_samples, num_samples);
    before.refused++;
    assert_memory_equal(eplb_aggregator_counters(f->aggregator), &before, sizeof before);
    assert_int_equal(f->warnings.count, warnings + 1);
    snprintf(line, sizeof line, "EPLB warning | message=%s", text);
    assert_string_equal(f->warnings.last, line);
}

static void create_refuses(void **state)
{
    (void)state;
    struct eplb_shape shape;
    struct eplb_aggregator *aggregator = NULL;
    struct eplb_error error;
    const int32_t tables[2][4] = {{0, 1, 2, 3}, {0, 1, 2, 2}};
    assert_int_equal(eplb_shape_init(&shape, 2, 4, 2, 0, NULL), EPLB_OK);
    assert_int_equal(eplb_aggregator_create(&shape, 63, tables[0], NULL, NULL, &aggregator, &error),
                     EPLB_INVALID);
    assert_string_equal(error.text, "overlap 63 is not in [0, 62]");
    assert_int_equal(eplb_aggregator_create(&shape, -1, tables[0], NULL, NULL, &aggregator, &error),
                     EPLB_INVALID);
    assert_int_equal(eplb_aggregator_create(&shape, 1, tables[0], NULL, NULL, &aggregator, &error),
                     EPLB_INVALID);
    assert_memory_equal(error.text, "layer 1: ", 9);
    assert_null(aggregator);
    eplb_aggregator_destroy(NULL);
}

static void starts_empty(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 4, 2, 1, 1);
    const int32_t table[] = {0, 1, 2, 2, 3, 0};
    const struct eplb_window *windows[] = {eplb_aggregator_open(f->aggregator),
                                           eplb_aggregator_closed(f->aggregator)};
    for (size_t i = 0; i < LENGTH(windows); i++) {
        assert_int_equal(windows[i]->size, sizeof(struct eplb_window));
        assert_loads(windows[i]->logical, (const int64_t[]){0, 0, 0, 0}, 4);
        assert_loads(windows[i]->physical, (const int64_t[]){0, 0, 0, 0, 0, 0}, 6);
        assert_memory_equal(windows[i]->expert_ids, table, sizeof table);
        assert_int_equal(windows[i]->generations[0], 0);
        assert_int_equal(windows[i]->num_samples, 0);
    }
    assert_int_equal(eplb_aggregator_history_length(f->aggregator), 0);
    assert_null(eplb_aggregator_history(f->aggregator, 0, 0));
    assert_int_equal(eplb_aggregator_counters(f->aggregator)->size, sizeof(struct eplb_sample_counters));
    tear_down(f);
}

/* Replicas add up to their expert: the table is [[0,1,2],[2,3,0]]. */
static void adds_to_both_views(void **state)
{
    (void)state;
    struct fixture *f = set_up(2, 4, 2, 1, 1);
    const int64_t first[] = {400, 2, 3, 4, 5, 200};
    const int64_t second[] = {0, 0, 0, 0, 0, 7};
    report(f, 0, 0, first);
    report(f, 1, 0, second);
    add_taken(f, 621);
    report(f, 1, 0, first);
    add_taken(f, 1228);
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    assert_loads(open->logical, (const int64_t[]){1200, 4, 14, 10, 607, 2, 7, 5}, 8);
    assert_loads(open->physical, (const int64_t[]){800, 4, 6, 8, 10, 400, 400, 2, 3, 4, 5, 207}, 12);
    assert_int_equal(open->num_samples, 2);
    assert_int_equal(eplb_aggregator_counters(f->aggregator)->taken, 2);
    assert_int_equal(f->warnings.count, 0);
    tear_down(f);
}

/* B08: of two copies one got 400 tokens and the other 200, as the sources sent them; nothing is evened out.
 */
static void uneven_copies_stay_uneven(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 8, 8, 1, 0);
    report(f, 0, 0, (const int64_t[]){400, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200});
    add_taken(f, 600);
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    assert_loads(open->logical, (const int64_t[]){600, 0, 0, 0, 0, 0, 0, 0}, 8);
    assert_loads(open->physical, (const int64_t[]){400, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200}, 16);
    tear_down(f);
}

/* B16: 64-bit counters neither wrap nor lose a token. */
static void counts_are_exact(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 3, 1, 0, 0);
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    report(f, 0, 0, (const int64_t[]){3000000000, 3000000000, 3000000000});
    assert_int_equal(f->prefix[0][2], 9000000000);
    add_taken(f, 9000000000);
    assert_loads(open->logical, (const int64_t[]){3000000000, 3000000000, 3000000000}, 3);
    eplb_aggregator_close_window(f->aggregator);
    report(f, 0, 0, (const int64_t[]){16777216, 0, 0});
    add_taken(f, 16777216);
    report(f, 0, 0, (const int64_t[]){1, 0, 0});
    add_taken(f, 1);
    assert_loads(open->logical, (const int64_t[]){16777217, 0, 0}, 3);
    tear_down(f);
}

/* B17 */
static void falling_prefix_is_refused(void **state)
{
    (void)state;
    struct fixture *f = set_up(2, 6, 2, 0, 0);
    report(f, 0, 0, (const int64_t[]){10, 15, 5, 1, 2, 3});
    report(f, 1, 0, (const int64_t[]){1, 1, 1, 1, 1, 1});
    add_taken(f, 42);
    const int64_t falling[] = {10, 8, 30};
    memcpy(f->prefix[1] + 3, falling, sizeof falling);
    assert_refused(f, "sample refused: rank 1, layer 1, slot 1: prefix sum 8 is below 10, the sum before it");
    f->prefix[1][3] = -1;
    assert_refused(f, "sample refused: rank 1, layer 1, slot 0: prefix sum -1 is below 0, the sum before it");
    /* The difference wraps to +1, and must not pass for a count. */
    f->prefix[1][3] = 0;
    f->prefix[1][4] = INT64_MAX;
    f->prefix[1][5] = INT64_MIN;
    assert_refused(f, "sample refused: rank 1, layer 1, slot 2: prefix sum -9223372036854775808 is below "
                      "9223372036854775807, the sum before it");
    assert_loads(eplb_aggregator_open(f->aggregator)->physical, (const int64_t[]){10, 15, 5, 1, 2, 3}, 6);
    tear_down(f);
}

/* B20, the window's half: warm-up forwards report zeros; the first counted token tells itself. */
static void warmup_samples_add_nothing(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 2, 2, 0, 1);
    for (int i = 0; i < 3; i++) {
        report(f, 0, 0, (const int64_t[]){0, 0});
        add_taken(f, 0);
    }
    report(f, 0, 0, (const int64_t[]){4, 6});
    add_taken(f, 10);
    assert_loads(eplb_aggregator_open(f->aggregator)->logical, (const int64_t[]){4, 6}, 2);
    tear_down(f);
}

/* B22, B23: sizes as the workers declare them. */
static void wrong_sizes_are_refused(void **state)
{
    (void)state;
    struct fixture *f = set_up(2, 6, 2, 0, 0);
    report(f, 0, 0, (const int64_t[]){5, 6, 7, 0, 0, 0});
    f->ranks[1].slots_per_rank = 4;
    assert_refused(f, "sample refused: rank 1 reports 4 slots in every layer, not 3");
    f->ranks[1].slots_per_rank = 3;
    f->ranks[0].num_layers = 1;
    assert_refused(f, "sample refused: rank 0 reports 1 layers, not 2");
    f->ranks[0].num_layers = 2;
    f->ranks[0].generations = NULL;
    assert_refused(f, "sample refused: rank 0 reports no generation of any layer");
    tear_down(f);
}

/* B55 */
static void wrong_number_of_reports_is_refused(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 4, 4, 0, 0);
    f->sample.num_ranks = 3;
    assert_refused(f, "sample refused: 3 ranks report, not 4");
    f->sample.num_ranks = 5;
    assert_refused(f, "sample refused: 5 ranks report, not 4");
    tear_down(f);
}

static void a_lacking_output_gives_no_sample(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 2, 2, 0, 0);
    report(f, 0, 0, (const int64_t[]){3, 4});
    f->ranks[1].prefix = NULL;
    f->ranks[1].generations = NULL;
    f->ranks[1].num_layers = 0;
    assert_int_equal(add(f), EPLB_OK);
    assert_int_equal(f->result.taken, 0);
    assert_int_equal(f->result.counted_rows, 0);
    assert_loads(eplb_aggregator_open(f->aggregator)->logical, (const int64_t[]){0, 0}, 2);
    assert_int_equal(eplb_aggregator_open(f->aggregator)->num_samples, 0);
    assert_int_equal(eplb_aggregator_counters(f->aggregator)->lacking, 1);
    assert_int_equal(eplb_aggregator_counters(f->aggregator)->taken, 0);
    assert_int_equal(f->warnings.count, 0);
    tear_down(f);
}

static void disagreeing_ranks_stop_the_run(void **state)
{
    (void)state;
    struct fixture *f = set_up(2, 3, 3, 0, 0);
    report(f, 0, 0, (const int64_t[]){1, 2, 3});
    report(f, 1, 0, (const int64_t[]){1, 2, 3});
    f->generations[2][1] = 1;
    assert_int_equal(add(f), EPLB_INCONSISTENT);
    assert_string_equal(f->error.text,
                        "layer 1: rank 0 ran the forward under generation 0, rank 2 under generation 1");
    /* A rank that lacks hides nothing of the others. */
    f->ranks[0].prefix = NULL;
    assert_int_equal(add(f), EPLB_INCONSISTENT);
    assert_string_equal(f->error.text,
                        "layer 1: rank 1 ran the forward under generation 0, rank 2 under generation 1");
    assert_loads(eplb_aggregator_open(f->aggregator)->logical, (const int64_t[]){0, 0, 0, 0, 0, 0}, 6);
    assert_int_equal(eplb_aggregator_counters(f->aggregator)->refused, 0);
    assert_int_equal(eplb_aggregator_counters(f->aggregator)->lacking, 0);
    assert_int_equal(f->warnings.count, 0);
    tear_down(f);
}

/* An entry may reach 2^62; one row more is refused, also where only replicas together pass it. */
static void the_window_stays_below_its_limit(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 2, 2, 1, 0); /* [[0,1],[1,0]] */
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    report(f, 0, 0, (const int64_t[]){EPLB_MAX_LOAD - 1, 5, EPLB_MAX_LOAD - 5, 1});
    add_taken(f, INT64_MAX);
    assert_loads(open->logical, (const int64_t[]){EPLB_MAX_LOAD, EPLB_MAX_LOAD}, 2);
    report(f, 0, 0, (const int64_t[]){0, 0, 0, 1});
    assert_refused(
        f, "sample refused: rank 1, layer 0, slot 1: 1 rows would carry the window's load of expert 0 "
           "from 4611686018427387904 past 2^62");
    report(f, 0, 0, (const int64_t[]){0, 0, 0, 0});
    add_taken(f, 0);
    eplb_aggregator_close_window(f->aggregator);
    report(f, 0, 0, (const int64_t[]){INT64_MAX, 0, 0, 0});
    assert_refused(
        f, "sample refused: rank 0, layer 0, slot 0: 9223372036854775807 rows would carry the window's "
           "load of expert 0 from 0 past 2^62");
    report(f, 0, 0, (const int64_t[]){EPLB_MAX_LOAD, 0, 0, 1});
    assert_refused(
        f, "sample refused: rank 1, layer 0, slot 1: 1 rows would carry the window's load of expert 0 "
           "from 4611686018427387904 past 2^62");
    tear_down(f);
}

static const int32_t v1[] = {0, 1, 2, 3};
static const int32_t v2[] = {0, 2, 1, 3};
static const int64_t loads[] = {10, 20, 30, 40};

/* B26: a sample of layout V1 that arrives after the commit of V2. */
static void an_old_sample_is_read_through_its_own_table(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 4, 2, 0, 1);
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    assert_memory_equal(open->expert_ids, v1, sizeof v1);
    assert_int_equal(eplb_aggregator_commit(f->aggregator, 0, v2, NULL), EPLB_OK);
    assert_memory_equal(open->expert_ids, v2, sizeof v2);
    assert_int_equal(open->generations[0], 1);
    report(f, 0, 0, loads);
    add_taken(f, 100);
    assert_loads(open->logical, (const int64_t[]){10, 20, 30, 40}, 4);
    assert_loads(open->physical, (const int64_t[]){0, 0, 0, 0}, 4);
    report(f, 0, 1, loads);
    add_taken(f, 100);
    assert_loads(open->logical, (const int64_t[]){20, 50, 50, 80}, 4);
    assert_loads(open->physical, (const int64_t[]){10, 20, 30, 40}, 4);
    tear_down(f);
}

static void a_commit_restarts_one_layers_physical_load(void **state)
{
    (void)state;
    struct fixture *f = set_up(2, 4, 2, 0, 0);
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    report(f, 0, 0, loads);
    report(f, 1, 0, loads);
    add_taken(f, 200);
    assert_int_equal(eplb_aggregator_commit(f->aggregator, 1, v2, NULL), EPLB_OK);
    assert_loads(open->logical, (const int64_t[]){10, 20, 30, 40, 10, 20, 30, 40}, 8);
    assert_loads(open->physical, (const int64_t[]){10, 20, 30, 40, 0, 0, 0, 0}, 8);
    assert_int_equal(open->generations[0], 0);
    assert_int_equal(open->generations[1], 1);
    tear_down(f);
}

/* With overlap 1 three generations are kept: after three commits 3, 2 and 1. */
static void only_the_last_generations_count(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 4, 2, 0, 1);
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    const int32_t tables[3][4] = {{0, 2, 1, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(eplb_aggregator_commit(f->aggregator, 0, tables[i], NULL), EPLB_OK);
    const struct {
        uint64_t generation;
        int64_t rows;
        int64_t logical[4];
    } cases[] = {
        {0, 0, {0, 0, 0, 0}},       {1, 100, {10, 30, 20, 40}}, {2, 100, {50, 60, 40, 50}},
        {3, 100, {80, 70, 80, 70}}, {4, 0, {80, 70, 80, 70}},   {UINT64_MAX, 0, {80, 70, 80, 70}},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        report(f, 0, cases[i].generation, loads);
        add_taken(f, cases[i].rows);
        assert_loads(open->logical, cases[i].logical, 4);
    }
    assert_loads(open->physical, loads, 4);
    assert_int_equal(eplb_aggregator_counters(f->aggregator)->taken, LENGTH(cases));
    tear_down(f);
}

/* A manager that starts over living workers: what was before its first generation it never knew. */
static void generations_may_start_above_zero(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 4, 2, 0, 1);
    const uint64_t first = 7;
    eplb_aggregator_destroy(f->aggregator);
    assert_int_equal(eplb_aggregator_create(&f->shape, 1, v1, &first, &f->sink, &f->aggregator, NULL),
                     EPLB_OK);
    report(f, 0, 6, loads);
    add_taken(f, 0);
    report(f, 0, 7, loads);
    add_taken(f, 100);
    assert_int_equal(eplb_aggregator_commit(f->aggregator, 0, v2, NULL), EPLB_OK);
    assert_int_equal(eplb_aggregator_open(f->aggregator)->generations[0], 8);
    report(f, 0, 7, loads);
    add_taken(f, 100);
    assert_loads(eplb_aggregator_open(f->aggregator)->logical, (const int64_t[]){20, 40, 60, 80}, 4);
    tear_down(f);
}

static void commit_refuses(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 4, 2, 0, 1);
    const int32_t illegal[] = {0, 1, 2, 2};
    const uint64_t largest = UINT64_MAX;
    report(f, 0, 0, loads);
    add_taken(f, 100);
    assert_int_equal(eplb_aggregator_commit(f->aggregator, 1, v2, &f->error), EPLB_INVALID);
    assert_string_equal(f->error.text, "layer 1 is not in [0, 1)");
    assert_int_equal(eplb_aggregator_commit(f->aggregator, -1, v2, &f->error), EPLB_INVALID);
    assert_int_equal(eplb_aggregator_commit(f->aggregator, 0, illegal, &f->error), EPLB_INVALID);
    assert_memory_equal(f->error.text, "layer 0: ", 9);
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    assert_int_equal(open->generations[0], 0);
    assert_memory_equal(open->expert_ids, v1, sizeof v1);
    assert_loads(open->physical, loads, 4);
    eplb_aggregator_destroy(f->aggregator);
    assert_int_equal(eplb_aggregator_create(&f->shape, 1, v1, &largest, NULL, &f->aggregator, NULL), EPLB_OK);
    assert_int_equal(eplb_aggregator_commit(f->aggregator, 0, v2, &f->error), EPLB_INVALID);
    assert_string_equal(f->error.text, "layer 0: generation 18446744073709551615 is the largest there is");
    tear_down(f);
}

/* The closed window stays as it was, whatever happens to the open one. */
static void a_closed_window_stays(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 4, 2, 0, 1);
    const struct eplb_window *open = eplb_aggregator_open(f->aggregator);
    const struct eplb_window *closed = eplb_aggregator_closed(f->aggregator);
    report(f, 0, 0, loads);
    add_taken(f, 100);
    add_taken(f, 100);
    eplb_aggregator_close_window(f->aggregator);
    assert_loads(open->logical, (const int64_t[]){0, 0, 0, 0}, 4);
    assert_loads(open->physical, (const int64_t[]){0, 0, 0, 0}, 4);
    assert_int_equal(open->num_samples, 0);
    add_taken(f, 100);
    assert_int_equal(eplb_aggregator_commit(f->aggregator, 0, v2, NULL), EPLB_OK);
    assert_loads(closed->logical, (const int64_t[]){20, 40, 60, 80}, 4);
    assert_loads(closed->physical, (const int64_t[]){20, 40, 60, 80}, 4);
    assert_memory_equal(closed->expert_ids, v1, sizeof v1);
    assert_int_equal(closed->generations[0], 0);
    assert_int_equal(closed->num_samples, 2);
    assert_loads(open->physical, (const int64_t[]){0, 0, 0, 0}, 4);
    eplb_aggregator_close_window(f->aggregator);
    assert_loads(closed->logical, loads, 4);
    assert_loads(closed->physical, (const int64_t[]){0, 0, 0, 0}, 4);
    assert_memory_equal(closed->expert_ids, v2, sizeof v2);
    assert_int_equal(closed->generations[0], 1);
    assert_int_equal(closed->num_samples, 1);
    tear_down(f);
}

static void history_keeps_sixteen_windows(void **state)
{
    (void)state;
    struct fixture *f = set_up(2, 2, 2, 0, 0);
    for (int64_t w = 0; w < 40; w++) {
        report(f, 0, 0, (const int64_t[]){w, 2 * w});
        report(f, 1, 0, (const int64_t[]){1000 + w, 1});
        add_taken(f, 1001 + 4 * w);
        eplb_aggregator_close_window(f->aggregator);
        int32_t length = w < 15 ? (int32_t)w + 1 : 16;
        assert_int_equal(eplb_aggregator_history_length(f->aggregator), length);
        for (int32_t i = 0; i < length; i++) {
            int64_t old = w - length + 1 + i;
            assert_loads(eplb_aggregator_history(f->aggregator, i, 0), (const int64_t[]){old, 2 * old}, 2);
            assert_loads(eplb_aggregator_history(f->aggregator, i, 1), (const int64_t[]){1000 + old, 1}, 2);
        }
        assert_null(eplb_aggregator_history(f->aggregator, length, 0));
    }
    assert_null(eplb_aggregator_history(f->aggregator, -1, 0));
    assert_null(eplb_aggregator_history(f->aggregator, 0, 2));
    assert_null(eplb_aggregator_history(f->aggregator, 0, -1));
    assert_ptr_equal(eplb_aggregator_history(f->aggregator, 15, 0),
                     eplb_aggregator_closed(f->aggregator)->logical);
    tear_down(f);
}

/* B23: a rank whose hook counts nothing is named once per window, and only when others had traffic. */
static void silent_ranks_are_named_at_close(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 6, 3, 0, 0);
    report(f, 0, 0, (const int64_t[]){0, 0, 0, 0, 0, 0});
    add_taken(f, 0);
    eplb_aggregator_close_window(f->aggregator);
    assert_int_equal(f->warnings.count, 0);
    report(f, 0, 0, (const int64_t[]){0, 1, 0, 0, 0, 0});
    add_taken(f, 1);
    report(f, 0, 0, (const int64_t[]){0, 0, 0, 0, 0, 1});
    add_taken(f, 1);
    assert_int_equal(f->warnings.count, 0);
    eplb_aggregator_close_window(f->aggregator);
    assert_int_equal(f->warnings.count, 1);
    assert_string_equal(f->warnings.last,
                        "EPLB warning | message=EP rank 1 reported only zeros in a window of 2 "
                        "samples while other ranks had traffic");
    report(f, 0, 0, (const int64_t[]){1, 0, 1, 0, 1, 0});
    add_taken(f, 3);
    eplb_aggregator_close_window(f->aggregator);
    assert_int_equal(f->warnings.count, 1);
    tear_down(f);
}

/* What another thread may do while samples and commits go on; a race detector watches. */
static void *sum_closed_window(void *argument)
{
    const struct fixture *f = argument;
    int64_t *sum = malloc(sizeof *sum);
    assert_non_null(sum);
    *sum = 0;
    for (int i = 0; i < 200; i++) {
        const struct eplb_window *closed = eplb_aggregator_closed(f->aggregator);
        const int64_t *history = eplb_aggregator_history(f->aggregator, 0, 0);
        for (size_t e = 0; e < 4; e++)
            *sum += closed->logical[e] + closed->physical[e] + history[e] + closed->expert_ids[e];
    }
    return sum;
}

static void a_policy_thread_may_read_the_closed_window(void **state)
{
    (void)state;
    struct fixture *f = set_up(1, 4, 2, 0, 1);
    report(f, 0, 0, loads);
    add_taken(f, 100);
    eplb_aggregator_close_window(f->aggregator);
    pthread_t thread;
    void *sum;
    assert_int_equal(pthread_create(&thread, NULL, sum_closed_window, f), 0);
    for (uint64_t i = 0; i < 200; i++) {
        report(f, 0, i, loads);
        add_taken(f, 100);
        assert_int_equal(eplb_aggregator_commit(f->aggregator, 0, i % 2 == 0 ? v2 : v1, NULL), EPLB_OK);
    }
    assert_int_equal(pthread_join(thread, &sum), 0);
    assert_int_equal(*(int64_t *)sum, 200 * (3 * 100 + 6));
    free(sum);
    tear_down(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_refuses),
        cmocka_unit_test(starts_empty),
        cmocka_unit_test(adds_to_both_views),
        cmocka_unit_test(uneven_copies_stay_uneven),
        cmocka_unit_test(counts_are_exact),
        cmocka_unit_test(falling_prefix_is_refused),
        cmocka_unit_test(warmup_samples_add_nothing),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(wrong_number_of_reports_is_refused),
        cmocka_unit_test(a_lacking_output_gives_no_sample),
        cmocka_unit_test(disagreeing_ranks_stop_the_run),
        cmocka_unit_test(the_window_stays_below_its_limit),
        cmocka_unit_test(an_old_sample_is_read_through_its_own_table),
        cmocka_unit_test(a_commit_restarts_one_layers_physical_load),
        cmocka_unit_test(only_the_last_generations_count),
        cmocka_unit_test(generations_may_start_above_zero),
        cmocka_unit_test(commit_refuses),
        cmocka_unit_test(a_closed_window_stays),
        cmocka_unit_test(history_keeps_sixteen_windows),
        cmocka_unit_test(silent_ranks_are_named_at_close),
        cmocka_unit_test(a_policy_thread_may_read_the_closed_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
