/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Batches by hand, and long random runs against a plain twin that sorts where the scheduler queues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/prng.h"
#include "engine/scheduler.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { MAX_RANKS = 6, MAX_CACHES = 9, NUM_RUNS = 300, NUM_FORWARDS = 400 };

struct bench {
    struct eplb_traffic traffic;
    struct eplb_scheduler_params params;
    struct eplb_scheduler *scheduler; /* owns the block that it stands at the start of */
    struct eplb_rank_batch batches[MAX_RANKS];
};

static void bench_open(struct bench *bench, const struct eplb_traffic_params *traffic,
                       const struct eplb_scheduler_params *params)
{
    struct eplb_arena arena;
    assert_int_equal(eplb_traffic_init(&bench->traffic, traffic, NULL), EPLB_OK);
    bench->params = *params;
    bench->params.traffic = &bench->traffic;
    assert_int_equal(eplb_scheduler_params_check(&bench->params, NULL), EPLB_OK);
    eplb_arena_init(&arena, NULL, 0);
    assert_null(eplb_scheduler_take(&arena, &bench->params));
    size_t measured = arena.used;
    void *block = eplb_arena_reserve(&arena);
    assert_non_null(block);
    memset(block, 0xa5, measured);
    bench->scheduler = eplb_scheduler_take(&arena, &bench->params);
    assert_ptr_equal(bench->scheduler, block);
    assert_int_equal(arena.used, measured);
    assert_int_equal(arena.overflow, 0);
    eplb_scheduler_init(bench->scheduler, &bench->params);
}

static void bench_close(struct bench *bench)
{
    eplb_arena_free(bench->scheduler);
}

static void bench_next(struct bench *bench)
{
    memset(bench->batches, 0xa5, sizeof bench->batches);
    eplb_scheduler_next(bench->scheduler, bench->batches);
}

/* -------------------------------------------------------------------------------------- by hand */

static void refusals_name_the_parameter(void **state)
{
    (void)state;
    const struct {
        int32_t num_ranks, num_caches, max_rows, admit_interval, busy_ranks;
        const char *sentence;
    } cases[] = {
        {0, 1, 1, 1, 1, "scheduler: num_ranks is 0; allowed is 1 to 65536"},
        {65537, 1, 1, 1, 1, "scheduler: num_ranks is 65537; allowed is 1 to 65536"},
        {2, 0, 1, 1, 1, "scheduler: num_caches is 0; allowed is 1 or more"},
        {2, 5, 4, 1, 1,
         "scheduler: max_rows is 4; allowed is 5, the number of caches, or more: every running sequence has "
         "a "
         "row in each forward"},
        {2, 4, 4, 0, 1, "scheduler: admit_interval is 0; allowed is 1 or more"},
        {2, 4, 4, 1, 0, "scheduler: busy_ranks is 0; allowed is 1 to 2, the number of ranks"},
        {2, 4, 4, 1, 3, "scheduler: busy_ranks is 3; allowed is 1 to 2, the number of ranks"},
    };
    struct eplb_traffic traffic;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        const struct eplb_scheduler_params params = {.num_ranks = cases[i].num_ranks,
                                                     .num_caches = cases[i].num_caches,
                                                     .max_rows = cases[i].max_rows,
                                                     .admit_interval = cases[i].admit_interval,
                                                     .busy_ranks = cases[i].busy_ranks,
                                                     .traffic = &traffic};
        struct eplb_error error;
        assert_int_equal(eplb_scheduler_params_check(&params, &error), EPLB_INVALID);
        assert_string_equal(error.text, cases[i].sentence);
    }
}

struct expected_row {
    uint64_t sequence;
    int32_t cache, position;
    uint8_t kind, sample;
};

static void assert_batch(const struct bench *bench, int32_t rank, const struct expected_row *rows,
                         int32_t num_rows)
{
    const struct eplb_rank_batch *batch = &bench->batches[rank];
    int64_t decode = 0;
    assert_int_equal(batch->num_rows, num_rows);
    for (int32_t i = 0; i < num_rows; i++) {
        const struct eplb_model_row *row = &batch->rows[i];
        assert_int_equal(row->sequence, rows[i].sequence);
        assert_int_equal(row->cache, rows[i].cache);
        assert_int_equal(row->position, rows[i].position);
        assert_int_equal(row->kind, rows[i].kind);
        assert_int_equal(row->sample, rows[i].sample);
        decode += row->kind == EPLB_TOKEN_DECODE;
    }
    assert_int_equal(batch->tokens.decode_tokens, decode);
    assert_int_equal(batch->tokens.prefill_tokens, num_rows - decode);
}

#define PREFILL EPLB_TOKEN_PREFILL
#define DECODE EPLB_TOKEN_DECODE
#define ASSERT_BATCH(rank, ...)                                            \
    assert_batch(&bench, rank, (const struct expected_row[]){__VA_ARGS__}, \
                 (int32_t)LENGTH(((const struct expected_row[]){__VA_ARGS__})))

/* Three ranks, of which two are busy; prompts of 3 or 4 tokens and 2 more: 4 or 5 rows a sequence. */
static void a_run_by_hand(void **state)
{
    (void)state;
    struct bench bench;
    uint64_t seed = 0;
    struct eplb_traffic traffic;
    /* A seed whose first prompts are of 4, 3, 4 and 3 tokens, each with 2 tokens to follow. */
    for (bool found = false; !found; seed += !found) {
        const struct eplb_traffic_params params = {
            .vocab_size = 256, .prompt_tokens = 4, .new_tokens = 2, .seed = seed};
        found = true;
        assert_int_equal(eplb_traffic_init(&traffic, &params, NULL), EPLB_OK);
        for (uint64_t n = 0; n < 4; n++)
            found = found && eplb_traffic_new_tokens(&traffic, n) == 2 &&
                    eplb_traffic_prompt_length(&traffic, n) == (n % 2 == 0 ? 4 : 3);
    }
    const struct eplb_scheduler_params params = {
        .num_ranks = 3, .num_caches = 2, .max_rows = 5, .admit_interval = 4, .busy_ranks = 2};
    bench_open(&bench, &traffic.params, &params);

    bench_next(&bench);
    assert_int_equal(eplb_scheduler_begun(bench.scheduler), 4);
    ASSERT_BATCH(0, {0, 0, 0, PREFILL, 0}, {0, 0, 1, PREFILL, 0}, {0, 0, 2, PREFILL, 0},
                 {0, 0, 3, PREFILL, 1}, {2, 1, 0, PREFILL, 0});
    ASSERT_BATCH(1, {1, 0, 0, PREFILL, 0}, {1, 0, 1, PREFILL, 0}, {1, 0, 2, PREFILL, 1},
                 {3, 1, 0, PREFILL, 0}, {3, 1, 1, PREFILL, 0});
    assert_int_equal(bench.batches[2].num_rows, 0);
    assert_int_equal(bench.batches[0].rows[2].token, eplb_traffic_token(&traffic, 0, 2));

    bench_next(&bench);
    ASSERT_BATCH(0, {0, 0, 4, DECODE, 1}, {2, 1, 1, PREFILL, 0}, {2, 1, 2, PREFILL, 0},
                 {2, 1, 3, PREFILL, 1});
    ASSERT_BATCH(1, {1, 0, 3, DECODE, 1}, {3, 1, 2, PREFILL, 1});
    assert_int_equal(bench.batches[0].rows[0].token, EPLB_SAMPLED_TOKEN);
    assert_int_equal(eplb_scheduler_finished(bench.scheduler), 2);

    bench_next(&bench);
    ASSERT_BATCH(0, {2, 1, 4, DECODE, 1});
    ASSERT_BATCH(1, {3, 1, 3, DECODE, 1});
    assert_int_equal(eplb_scheduler_begun(bench.scheduler), 4);
    assert_int_equal(eplb_scheduler_finished(bench.scheduler), 4);

    bench_next(&bench);
    for (int32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(bench.batches[rank].num_rows, 0);
        assert_int_equal(bench.batches[rank].tokens.prefill_tokens, 0);
        assert_int_equal(bench.batches[rank].tokens.decode_tokens, 0);
    }
    bench_next(&bench);
    assert_int_equal(eplb_scheduler_begun(bench.scheduler), 8);
    assert_int_equal(bench.batches[1].rows[0].sequence, 5);
    bench_close(&bench);
}

/* With the lowest cache first, cache 1 would wait for ever: cache 0 takes all rows, is done and begins again.
 */
static void nobody_waits_for_ever(void **state)
{
    (void)state;
    struct bench bench;
    const struct eplb_traffic_params traffic = {.vocab_size = 256, .prompt_tokens = 2, .new_tokens = 1};
    const struct eplb_scheduler_params params = {
        .num_ranks = 1, .num_caches = 2, .max_rows = 2, .admit_interval = 1, .busy_ranks = 1};
    bench_open(&bench, &traffic, &params);
    for (int i = 0; i < 1000; i++)
        bench_next(&bench);
    uint64_t begun = eplb_scheduler_begun(bench.scheduler);
    assert_true(begun > 1000);
    assert_in_range(eplb_scheduler_finished(bench.scheduler), begun - 2, begun);
    bench_close(&bench);
}

/** Of 10000 forwards those with decode rows and no prefill rows. */
static int all_decode(int32_t admit_interval)
{
    struct bench bench;
    int count = 0;
    const struct eplb_traffic_params traffic = {
        .vocab_size = 256, .prompt_tokens = 32, .new_tokens = 96, .seed = 3};
    const struct eplb_scheduler_params params = {
        .num_ranks = 4, .num_caches = 8, .max_rows = 64, .admit_interval = admit_interval, .busy_ranks = 4};
    bench_open(&bench, &traffic, &params);
    for (int i = 0; i < 10000; i++) {
        int64_t prefill = 0;
        int64_t decode = 0;
        bench_next(&bench);
        for (int32_t rank = 0; rank < 4; rank++) {
            prefill += bench.batches[rank].tokens.prefill_tokens;
            decode += bench.batches[rank].tokens.decode_tokens;
        }
        count += prefill == 0 && decode > 0;
    }
    bench_close(&bench);
    return count;
}

/* Eight prompts of 24 tokens on average need four forwards of 64 rows, often fewer. */
static void most_forwards_are_decode_throughout(void **state)
{
    (void)state;
    assert_in_range(all_decode(16), 7500, 10000);
    assert_in_range(all_decode(32), 8700, 10000);
    assert_in_range(all_decode(64), 9300, 10000);
    assert_in_range(all_decode(1), 0, 8000);
}

/* ------------------------------------------------------------------------------------- the twin */

struct twin_place {
    bool taken;
    uint64_t sequence;
    int32_t position;
};

struct twin {
    const struct eplb_scheduler_params *params;
    struct twin_place places[MAX_RANKS][MAX_CACHES];
    uint64_t forwards, begun, finished;
};

static int32_t prompt_of(const struct twin *twin, const struct twin_place *place)
{
    return eplb_traffic_prompt_length(twin->params->traffic, place->sequence);
}

static void twin_admit(struct twin *twin)
{
    for (int32_t i = 0; i < twin->params->num_caches * twin->params->busy_ranks; i++) {
        struct twin_place *place = &twin->places[i % twin->params->busy_ranks][i / twin->params->busy_ranks];
        if (!place->taken)
            *place = (struct twin_place){.taken = true, .sequence = twin->begun++};
    }
}

static void expect_row(struct twin *twin, struct twin_place *place, int32_t cache,
                       const struct eplb_model_row *row)
{
    int32_t prompt = prompt_of(twin, place);
    bool decode = place->position >= prompt;
    assert_int_equal(row->sequence, place->sequence);
    assert_int_equal(row->cache, cache);
    assert_int_equal(row->position, place->position);
    assert_int_equal(row->kind, decode ? EPLB_TOKEN_DECODE : EPLB_TOKEN_PREFILL);
    assert_int_equal(row->sample, place->position >= prompt - 1);
    assert_int_equal(row->token,
                     decode ? EPLB_SAMPLED_TOKEN
                            : eplb_traffic_token(twin->params->traffic, place->sequence, place->position));
    place->position++;
    if (place->position == prompt + eplb_traffic_new_tokens(twin->params->traffic, place->sequence) - 1) {
        place->taken = false;
        twin->finished++;
    }
}

/** The cache with the oldest prompt that is not through; -1 when there is none. */
static int32_t oldest(const struct twin *twin, int32_t rank)
{
    int32_t found = -1;
    for (int32_t cache = 0; cache < twin->params->num_caches; cache++) {
        const struct twin_place *place = &twin->places[rank][cache];
        if (place->taken && place->position < prompt_of(twin, place) &&
            (found < 0 || place->sequence < twin->places[rank][found].sequence))
            found = cache;
    }
    return found;
}

static void expect_batch(struct twin *twin, int32_t rank, const struct eplb_rank_batch *batch)
{
    int32_t row = 0;
    bool decoding[MAX_CACHES];
    for (int32_t cache = 0; cache < twin->params->num_caches; cache++) {
        struct twin_place *place = &twin->places[rank][cache];
        decoding[cache] = place->taken && place->position >= prompt_of(twin, place);
    }
    for (int32_t cache = 0; cache < twin->params->num_caches; cache++) {
        if (!decoding[cache])
            continue;
        assert_true(row < batch->num_rows);
        expect_row(twin, &twin->places[rank][cache], cache, &batch->rows[row++]);
    }
    assert_int_equal(batch->tokens.decode_tokens, row);
    for (int32_t cache; row < twin->params->max_rows && (cache = oldest(twin, rank)) >= 0; row++) {
        assert_true(row < batch->num_rows);
        expect_row(twin, &twin->places[rank][cache], cache, &batch->rows[row]);
    }
    assert_int_equal(batch->num_rows, row);
    assert_int_equal(batch->tokens.prefill_tokens + batch->tokens.decode_tokens, row);
}

static void twin_expect(struct twin *twin, struct bench *bench)
{
    if (twin->forwards % (uint64_t)twin->params->admit_interval == 0)
        twin_admit(twin);
    twin->forwards++;
    for (int32_t rank = 0; rank < twin->params->num_ranks; rank++)
        expect_batch(twin, rank, &bench->batches[rank]);
    assert_int_equal(eplb_scheduler_begun(bench->scheduler), twin->begun);
    assert_int_equal(eplb_scheduler_finished(bench->scheduler), twin->finished);
}

static int32_t draw(struct eplb_prng *prng, int32_t low, int32_t high)
{
    return low + (int32_t)eplb_prng_below(prng, (uint64_t)(high - low) + 1);
}

static void random_runs_are_as_the_twin_has_them(void **state)
{
    (void)state;
    uint64_t finished = 0;
    for (uint64_t seed = 1; seed <= NUM_RUNS; seed++) {
        struct eplb_prng prng;
        struct bench bench;
        eplb_prng_seed(&prng, seed);
        const struct eplb_traffic_params traffic = {.vocab_size = 256,
                                                    .prompt_tokens = draw(&prng, 1, 40),
                                                    .new_tokens = draw(&prng, 1, 30),
                                                    .seed = seed};
        struct eplb_scheduler_params params = {.num_ranks = draw(&prng, 1, MAX_RANKS),
                                               .num_caches = draw(&prng, 1, MAX_CACHES),
                                               .admit_interval = draw(&prng, 1, 20)};
        params.max_rows = params.num_caches + draw(&prng, 0, 1) * draw(&prng, 0, 50);
        params.busy_ranks = draw(&prng, 1, params.num_ranks);
        print_message("seed %llu\n", (unsigned long long)seed);
        bench_open(&bench, &traffic, &params);
        struct twin twin = {.params = &bench.params};
        for (int forward = 0; forward < NUM_FORWARDS; forward++) {
            bench_next(&bench);
            twin_expect(&twin, &bench);
        }
        finished += twin.finished;
        bench_close(&bench);
    }
    assert_true(finished > 10000);
}

/* ---- sequences are the same whatever serves them ---- */

enum { WATCHED = 40, MAX_ROWS_OF_ONE = 64 };

struct served {
    int32_t num_rows[WATCHED];
    struct eplb_model_row rows[WATCHED][MAX_ROWS_OF_ONE];
};

static void serve(const struct eplb_scheduler_params *params, struct served *served)
{
    struct bench bench;
    const struct eplb_traffic_params traffic = {
        .vocab_size = 256, .prompt_tokens = 30, .new_tokens = 20, .seed = 11, .topic_sequences = 10};
    memset(served, 0, sizeof *served);
    bench_open(&bench, &traffic, params);
    /* Sequences end in another order than they begin: at most one of each place is not done. */
    uint64_t places = (uint64_t)(params->num_caches * params->busy_ranks);
    while (eplb_scheduler_finished(bench.scheduler) < WATCHED + 20 * places) {
        bench_next(&bench);
        for (int32_t rank = 0; rank < params->num_ranks; rank++)
            for (int32_t i = 0; i < bench.batches[rank].num_rows; i++) {
                struct eplb_model_row row = bench.batches[rank].rows[i];
                if (row.sequence >= WATCHED)
                    continue;
                row.cache = 0;
                assert_in_range(served->num_rows[row.sequence], 0, MAX_ROWS_OF_ONE - 1);
                served->rows[row.sequence][served->num_rows[row.sequence]++] = row;
            }
    }
    bench_close(&bench);
}

static void sequences_do_not_depend_on_ranks_and_caches(void **state)
{
    (void)state;
    static struct served one;
    static struct served other;
    const struct eplb_scheduler_params params[] = {
        {.num_ranks = 1, .num_caches = 1, .max_rows = 1, .admit_interval = 1, .busy_ranks = 1},
        {.num_ranks = 4, .num_caches = 8, .max_rows = 64, .admit_interval = 16, .busy_ranks = 4},
        {.num_ranks = 6, .num_caches = 3, .max_rows = 5, .admit_interval = 3, .busy_ranks = 2},
    };
    serve(&params[0], &one);
    for (int32_t n = 0; n < WATCHED; n++)
        assert_in_range(one.num_rows[n], 24, 49);
    for (size_t i = 1; i < LENGTH(params); i++) {
        serve(&params[i], &other);
        for (int32_t n = 0; n < WATCHED; n++) {
            assert_int_equal(other.num_rows[n], one.num_rows[n]);
            for (int32_t row = 0; row < one.num_rows[n]; row++) {
                assert_int_equal(other.rows[n][row].sequence, n);
                assert_int_equal(other.rows[n][row].position, row);
                assert_int_equal(other.rows[n][row].token, one.rows[n][row].token);
                assert_int_equal(other.rows[n][row].kind, one.rows[n][row].kind);
                assert_int_equal(other.rows[n][row].sample, one.rows[n][row].sample);
            }
        }
    }
}

/* A second start over used memory is as the first. */
static void a_scheduler_starts_again(void **state)
{
    (void)state;
    struct bench bench;
    const struct eplb_traffic_params traffic = {.vocab_size = 256, .prompt_tokens = 9, .new_tokens = 9};
    const struct eplb_scheduler_params params = {
        .num_ranks = 2, .num_caches = 3, .max_rows = 4, .admit_interval = 2, .busy_ranks = 2};
    bench_open(&bench, &traffic, &params);
    for (int start = 0; start < 3; start++) {
        struct twin twin = {.params = &bench.params};
        for (int forward = 0; forward < 101; forward++) {
            bench_next(&bench);
            twin_expect(&twin, &bench);
        }
        eplb_scheduler_init(bench.scheduler, &bench.params);
        assert_int_equal(eplb_scheduler_begun(bench.scheduler), 0);
        assert_int_equal(eplb_scheduler_finished(bench.scheduler), 0);
    }
    bench_close(&bench);
}

/* ----------------------------------------------------------------------------- fixed sequences */

/* Five sequences on two of three ranks: blocks of two and three, decode rows from the first one on, no others
 * ever. */
static void fixed_sequences_last(void **state)
{
    (void)state;
    struct bench bench;
    const struct eplb_traffic_params traffic = {.vocab_size = 256, .prompt_tokens = 9, .new_tokens = 2};
    const struct eplb_scheduler_params params = {.num_ranks = 3,
                                                 .num_caches = 3,
                                                 .max_rows = 3,
                                                 .admit_interval = 2,
                                                 .busy_ranks = 2,
                                                 .fixed_sequences = 5};
    bench_open(&bench, &traffic, &params);
    for (int32_t forward = 0; forward < 100; forward++) {
        bench_next(&bench);
        ASSERT_BATCH(0, {0, 0, forward, DECODE, 1}, {1, 1, forward, DECODE, 1});
        ASSERT_BATCH(1, {2, 0, forward, DECODE, 1}, {3, 1, forward, DECODE, 1}, {4, 2, forward, DECODE, 1});
        assert_int_equal(bench.batches[2].num_rows, 0);
        for (int32_t rank = 0; rank < 2; rank++)
            for (int32_t i = 0; i < bench.batches[rank].num_rows; i++) {
                const struct eplb_model_row *row = &bench.batches[rank].rows[i];
                assert_int_equal(row->token, forward > 0
                                                 ? EPLB_SAMPLED_TOKEN
                                                 : eplb_traffic_token(&bench.traffic, row->sequence, 0));
            }
    }
    assert_int_equal(eplb_scheduler_begun(bench.scheduler), 5);
    assert_int_equal(eplb_scheduler_finished(bench.scheduler), 0);
    bench_close(&bench);
}

/* Every sequence has one place, and no rank more than its share. */
static void fixed_sequences_are_dealt_in_blocks(void **state)
{
    (void)state;
    const struct eplb_traffic_params traffic = {.vocab_size = 256, .prompt_tokens = 1, .new_tokens = 1};
    for (int32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int32_t sequences = 1; sequences <= ranks * MAX_CACHES; sequences++) {
            struct bench bench;
            uint64_t next = 0;
            const int32_t share = (sequences - 1) / ranks + 1;
            const struct eplb_scheduler_params params = {.num_ranks = ranks,
                                                         .num_caches = share,
                                                         .max_rows = share,
                                                         .admit_interval = 1,
                                                         .busy_ranks = ranks,
                                                         .fixed_sequences = sequences};
            bench_open(&bench, &traffic, &params);
            bench_next(&bench);
            for (int32_t rank = 0; rank < ranks; rank++)
                for (int32_t i = 0; i < bench.batches[rank].num_rows; i++)
                    assert_int_equal(bench.batches[rank].rows[i].sequence, next++);
            assert_int_equal(next, sequences);
            bench_close(&bench);
        }
}

static void too_many_fixed_sequences_are_refused(void **state)
{
    (void)state;
    struct eplb_traffic traffic;
    struct eplb_error error;
    struct eplb_scheduler_params params = {.num_ranks = 4,
                                           .num_caches = 3,
                                           .max_rows = 3,
                                           .admit_interval = 1,
                                           .busy_ranks = 2,
                                           .fixed_sequences = 6,
                                           .traffic = &traffic};
    assert_int_equal(eplb_scheduler_params_check(&params, NULL), EPLB_OK);
    params.fixed_sequences = 7;
    assert_int_equal(eplb_scheduler_params_check(&params, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "scheduler: fixed_sequences is 7; allowed is 0 to 6, the caches of the busy ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_the_parameter),
        cmocka_unit_test(a_run_by_hand),
        cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test(most_forwards_are_decode_throughout),
        cmocka_unit_test(random_runs_are_as_the_twin_has_them),
        cmocka_unit_test(sequences_do_not_depend_on_ranks_and_caches),
        cmocka_unit_test(a_scheduler_starts_again),
        cmocka_unit_test(fixed_sequences_last),
        cmocka_unit_test(fixed_sequences_are_dealt_in_blocks),
        cmocka_unit_test(too_many_fixed_sequences_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
