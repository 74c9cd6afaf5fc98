/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* What a model refuses, and with which words; what its check finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "migrate/layer_plan.h"
#include "model/model_state.h"
#include "ranks.h"

static const struct eplb_model_config small = {.vocab_size = 32,
                                               .hidden_size = 16,
                                               .num_layers = 2,
                                               .num_heads = 2,
                                               .head_dim = 8,
                                               .kv_window = 4,
                                               .num_experts = 4,
                                               .top_k = 2,
                                               .expert_hidden_size = 8,
                                               .shared_hidden_size = 8,
                                               .seed = 5};

static int64_t count_calls(void *clock)
{
    return 7 * ++*(int64_t *)clock;
}

static void pass_over(void *context, const struct eplb_route_request *request, int32_t *experts)
{
    const int32_t *first = context;
    for (int32_t i = 0; i < request->num_rows * request->top_k; i++)
        experts[i] = first[i % request->top_k];
}

/* ----------------------------------------------------------------------------------------- create */

static void expect_creation_refused(const struct eplb_model_params *params, const char *sentence)
{
    struct eplb_model *model = NULL;
    struct eplb_error error;
    assert_int_equal(eplb_model_create(params, &model, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
    assert_null(model);
}

static void parameters_that_do_not_fit_are_refused(void **state)
{
    static const int32_t illegal[] = {0, 1, 2, 3, 0, 1, 3, 3};
    static const int32_t no_weights[8];
    static const struct eplb_route_source no_source = {.size = sizeof no_source};
    struct ranks ranks;
    (void)state;
    ranks_create(&ranks,
                 &(struct ranks_params){.config = small, .ep_size = 2, .max_rows = 4, .num_caches = 2});
    const struct eplb_model_params good = {.config = small,
                                           .shape = ranks.shape,
                                           .max_rows = 4,
                                           .num_caches = 2,
                                           .group = eplb_threads_group(ranks.threads, 0)};
    struct eplb_model_params bad = good;
    bad.shape.num_layers = 3;
    expect_creation_refused(&bad,
                            "the shape has 3 layers and 4 experts, the model 2 and 4; they must be equal");
    bad = good;
    bad.ep_rank = 2;
    expect_creation_refused(&bad, "ep_rank is 2 of ep_size 2; allowed is 0 to ep_size - 1");
    bad = good;
    bad.ep_rank = 1;
    expect_creation_refused(
        &bad, "the process group is rank 0 of 2, and the model rank 1 of ep_size 2; they must be equal");
    bad = good;
    bad.max_rows = 0;
    expect_creation_refused(&bad, "a model for 0 rows and 2 caches; allowed is 1 and more of each");
    bad = good;
    bad.num_caches = 0;
    expect_creation_refused(&bad, "a model for 4 rows and 0 caches; allowed is 1 and more of each");
    bad = good;
    bad.max_rows = 1 << 29;
    expect_creation_refused(&bad,
                            "with 536870912 rows on each of 2 ranks, 1073741824 copies can leave a rank "
                            "and 2147483648 can arrive; allowed are 2^31 - 1");
    bad = good;
    bad.routes = &no_source;
    expect_creation_refused(&bad, "a model needs a route source table of 24 bytes with choose");
    bad = good;
    bad.initial = illegal;
    struct eplb_model *model = NULL;
    struct eplb_error error;
    assert_int_equal(eplb_model_create(&bad, &model, &error), EPLB_INVALID);
    assert_ptr_equal(strstr(error.text, "the initial table of layer 1 is not legal: "), error.text);
    bad = good;
    bad.replica_routing = (enum eplb_replica_routing)EPLB_NUM_ROUTINGS;
    expect_creation_refused(&bad, "replica routing 5; allowed is 0 to 4");
    bad = good;
    bad.cost_per_active_slot = -1;
    expect_creation_refused(&bad, "a slot costs -1 and a token 0; allowed is 0 and more");
    bad = good;
    bad.initial_weights = no_weights;
    assert_int_equal(eplb_model_create(&bad, &model, &error), EPLB_INVALID);
    assert_ptr_equal(strstr(error.text, "the initial weights of layer 0 are not legal: "), error.text);
    bad = good;
    bad.config.top_k = 5;
    assert_int_equal(eplb_model_create(&bad, &model, &error), EPLB_INVALID);
    ranks_destroy(&ranks);
}

/* ------------------------------------------------------------------------------------------- rows */

struct one_rank {
    struct ranks ranks;
    struct rank_forward *forward;
    uint64_t seq;
};

static void begin(struct one_rank *one)
{
    ranks_create(&one->ranks,
                 &(struct ranks_params){.config = small, .ep_size = 1, .max_rows = 4, .num_caches = 2});
    one->forward = &one->ranks.forwards[0];
    one->seq = 0;
}

static enum eplb_status run(struct one_rank *one, const struct eplb_model_row *rows, int32_t num_rows)
{
    static const uint64_t generations[2];
    const struct eplb_model_batch batch = {
        .seq = ++one->seq, .rows = rows, .num_rows = num_rows, .generations = generations};
    return eplb_model_forward(one->ranks.models[0], &batch, one->forward->samples, &one->forward->num_samples,
                              &one->forward->error);
}

static void expect_row_refused(struct one_rank *one, const struct eplb_model_row *rows, int32_t num_rows,
                               const char *sentence)
{
    one->forward->num_samples = -1;
    assert_int_equal(run(one, rows, num_rows), EPLB_INVALID);
    assert_string_equal(one->forward->error.text, sentence);
    assert_int_equal(one->forward->num_samples, -1);
    for (int32_t i = 0; i < 2 * 4; i++)
        assert_int_equal(eplb_model_prefix(one->ranks.models[0])[i], 0);
}

static struct eplb_model_row row_of(uint64_t sequence, int32_t cache, int32_t position, int32_t token)
{
    return (struct eplb_model_row){.sequence = sequence,
                                   .cache = cache,
                                   .position = position,
                                   .token = token,
                                   .kind = EPLB_TOKEN_PREFILL};
}

static void fields_out_of_range_are_refused(void **state)
{
    struct one_rank one;
    (void)state;
    begin(&one);
    struct eplb_model_row row = row_of(9, 0, 0, 1);
    row.kind = EPLB_TOKEN_PADDING;
    expect_row_refused(&one, &row, 1,
                       "row 0 (sequence 9, position 0) is of kind 0; allowed are 1 (prefill) and 2 (decode)");
    row.kind = 3;
    expect_row_refused(&one, &row, 1,
                       "row 0 (sequence 9, position 0) is of kind 3; allowed are 1 (prefill) and 2 (decode)");
    row = row_of(9, 2, 0, 1);
    expect_row_refused(&one, &row, 1, "row 0 (sequence 9, position 0) has cache 2; it must be in [0, 2)");
    row = row_of(9, -1, 0, 1);
    expect_row_refused(&one, &row, 1, "row 0 (sequence 9, position 0) has cache -1; it must be in [0, 2)");
    row = row_of(9, 0, 0, 32);
    expect_row_refused(
        &one, &row, 1,
        "row 0 (sequence 9, position 0) has token 32; it must be in [0, 32), or -1 for the one "
        "sampled last");
    row = row_of(9, 0, 0, 31);
    row.sample = 2;
    expect_row_refused(&one, &row, 1, "row 0 (sequence 9, position 0) has sample 2; it must be 0 or 1");
    expect_row_refused(&one, &row, 5, "a batch of 5 rows; allowed are 0 to 4");
    expect_row_refused(&one, &row, -1, "a batch of -1 rows; allowed are 0 to 4");
    ranks_destroy(&one.ranks);
}

static void sequences_go_on_without_gaps(void **state)
{
    struct one_rank one;
    (void)state;
    begin(&one);
    struct eplb_model_row rows[4] = {row_of(9, 0, 1, 1)};
    expect_row_refused(
        &one, rows, 1,
        "row 0 (sequence 9, position 1) is for cache 0, which holds nothing; a sequence begins "
        "at position 0");
    rows[0] = row_of(9, 0, 0, 1);
    rows[1] = row_of(9, 0, 2, 1);
    expect_row_refused(
        &one, rows, 2,
        "row 1 (sequence 9, position 2) is for cache 0, which goes on with sequence 9 at position 1");
    /* What was refused has not begun. */
    rows[0] = row_of(9, 0, 1, 1);
    expect_row_refused(
        &one, rows, 1,
        "row 0 (sequence 9, position 1) is for cache 0, which holds nothing; a sequence begins "
        "at position 0");
    rows[0] = row_of(9, 0, 0, 1);
    rows[1] = row_of(9, 0, 1, 1);
    assert_int_equal(run(&one, rows, 2), EPLB_OK);
    assert_int_equal(one.forward->num_samples, 0);
    rows[0] = row_of(8, 0, 2, 1);
    expect_row_refused(
        &one, rows, 1,
        "row 0 (sequence 8, position 2) is for cache 0, which goes on with sequence 9 at position 2");
    rows[0] = row_of(9, 0, 2, 1);
    rows[1] = row_of(7, 0, 0, 1);
    expect_row_refused(
        &one, rows, 2,
        "row 1 (sequence 7, position 0) begins in cache 0, of which the batch has rows already");
    assert_int_equal(run(&one, rows, 1), EPLB_OK);
    ranks_destroy(&one.ranks);
}

/* A number that a position cannot reach in a test's time. */
static void positions_end_at_the_largest(void **state)
{
    struct one_rank one;
    (void)state;
    begin(&one);
    one.ranks.models[0]->caches[0] =
        (struct eplb_model_cache){.sequence = 9, .next = INT32_MAX, .sampled = EPLB_SAMPLED_TOKEN};
    struct eplb_model_row row = row_of(9, 0, INT32_MAX, 1);
    expect_row_refused(&one, &row, 1, "row 0 (sequence 9, position 2147483647) is past the largest position");
    one.ranks.models[0]->caches[0].next--;
    row.position--;
    assert_int_equal(run(&one, &row, 1), EPLB_OK);
    ranks_destroy(&one.ranks);
}

static void the_sampled_token_must_be_there(void **state)
{
    struct one_rank one;
    (void)state;
    begin(&one);
    struct eplb_model_row rows[4] = {row_of(9, 0, 0, EPLB_SAMPLED_TOKEN)};
    expect_row_refused(&one, rows, 1,
                       "row 0 (sequence 9, position 0) wants the token that its sequence sampled last, and "
                       "none is known yet");
    rows[0].token = 3;
    rows[0].sample = 1;
    rows[1] = row_of(9, 0, 1, EPLB_SAMPLED_TOKEN);
    expect_row_refused(&one, rows, 2,
                       "row 1 (sequence 9, position 1) wants the token that its sequence sampled last, and "
                       "none is known yet");
    assert_int_equal(run(&one, rows, 1), EPLB_OK);
    assert_int_equal(one.forward->num_samples, 1);
    assert_int_equal(one.forward->samples[0].sequence, 9);
    assert_int_equal(one.forward->samples[0].position, 0);
    /* The token that is asked for is the one that came out: said outright, it gives the same. */
    int32_t token = one.forward->samples[0].token;
    rows[1].sample = 1;
    assert_int_equal(run(&one, &rows[1], 1), EPLB_OK);
    uint64_t digest = one.forward->samples[0].digest;
    rows[1].token = token;
    assert_int_equal(run(&one, rows, 2), EPLB_OK);
    assert_int_equal(one.forward->num_samples, 2);
    assert_int_equal(one.forward->samples[1].digest, digest);
    /* What this batch samples is not known before it ends, whatever was sampled before. */
    rows[0] = row_of(9, 0, 2, EPLB_SAMPLED_TOKEN);
    rows[0].sample = 1;
    rows[1] = row_of(9, 0, 3, EPLB_SAMPLED_TOKEN);
    expect_row_refused(&one, rows, 2,
                       "row 1 (sequence 9, position 3) wants the token that its sequence sampled last, and "
                       "none is known yet");
    /* A sequence that begins anew has sampled nothing. */
    rows[0] = row_of(10, 0, 0, EPLB_SAMPLED_TOKEN);
    expect_row_refused(&one, rows, 1,
                       "row 0 (sequence 10, position 0) wants the token that its sequence sampled last, and "
                       "none is known yet");
    ranks_destroy(&one.ranks);
}

static void flags_that_are_none_are_refused(void **state)
{
    struct one_rank one;
    static const uint64_t generations[2];
    const struct eplb_model_row row = row_of(9, 0, 0, 1);
    (void)state;
    begin(&one);
    struct eplb_model_batch batch = {
        .seq = 1, .rows = &row, .num_rows = 1, .flags = 2, .generations = generations};
    assert_int_equal(eplb_model_forward(one.ranks.models[0], &batch, one.forward->samples,
                                        &one.forward->num_samples, NULL),
                     EPLB_INVALID);
    assert_int_equal(one.ranks.models[0]->caches[0].next, 0);
    ranks_destroy(&one.ranks);
}

static void counts_are_forgotten(void **state)
{
    struct one_rank one;
    const struct eplb_model_row row = row_of(9, 0, 0, 1);
    (void)state;
    begin(&one);
    assert_int_equal(run(&one, &row, 1), EPLB_OK);
    assert_int_equal(eplb_model_prefix(one.ranks.models[0])[3], small.top_k);
    assert_int_equal(eplb_model_work(one.ranks.models[0])[1].rows, small.top_k);
    eplb_model_forget(one.ranks.models[0]);
    for (int32_t i = 0; i < 2 * 4; i++)
        assert_int_equal(eplb_model_prefix(one.ranks.models[0])[i], 0);
    assert_int_equal(eplb_model_work(one.ranks.models[0])[1].rows, 0);
    ranks_destroy(&one.ranks);
}

/* ------------------------------------------------------------------------------------------ routes */

static void routes_are_looked_at(void **state)
{
    static const int32_t chosen[3][2] = {{2, 4}, {-1, 0}, {3, 3}};
    static const char *const sentences[3] = {"layer 0, row 0: expert 4 was chosen; there are 4",
                                             "layer 0, row 0: expert -1 was chosen; there are 4",
                                             "layer 0, row 0: expert 3 was chosen twice"};
    (void)state;
    for (int32_t i = 0; i < 3; i++) {
        int32_t experts[2];
        struct ranks ranks;
        memcpy(experts, chosen[i], sizeof experts);
        const struct eplb_route_source source = {
            .size = sizeof source, .context = experts, .choose = pass_over};
        ranks_create(&ranks,
                     &(struct ranks_params){
                         .config = small, .ep_size = 1, .max_rows = 4, .num_caches = 2, .routes = &source});
        ranks.forwards[0].rows[0] = row_of(9, 0, 0, 1);
        ranks.forwards[0].num_rows = 1;
        ranks_forward(&ranks);
        assert_int_equal(ranks.forwards[0].status, EPLB_INVALID);
        assert_string_equal(ranks.forwards[0].error.text, sentences[i]);
        eplb_executor_abort_step(ranks.executors[0], &ranks.command, NULL);
        ranks_destroy(&ranks);
    }
}

static void the_work_is_timed(void **state)
{
    struct ranks ranks;
    struct eplb_model *model;
    struct eplb_model_sample samples[4];
    static const uint64_t generations[2];
    const struct eplb_model_row row = row_of(9, 0, 0, 1);
    int64_t calls = 0;
    int32_t num_samples;
    (void)state;
    ranks_create(&ranks,
                 &(struct ranks_params){.config = small, .ep_size = 1, .max_rows = 4, .num_caches = 2});
    const struct eplb_model_params params = {.config = small,
                                             .shape = ranks.shape,
                                             .max_rows = 4,
                                             .num_caches = 1,
                                             .group = eplb_threads_group(ranks.threads, 0),
                                             .clock = &calls,
                                             .cpu_time = count_calls};
    assert_int_equal(eplb_model_create(&params, &model, NULL), EPLB_OK);
    const struct eplb_model_batch batch = {.seq = 1, .rows = &row, .num_rows = 1, .generations = generations};
    assert_int_equal(eplb_model_forward(model, &batch, samples, &num_samples, NULL), EPLB_OK);
    for (int32_t layer = 0; layer < small.num_layers; layer++) {
        assert_int_equal(eplb_model_work(model)[layer].rows, small.top_k);
        assert_int_equal(eplb_model_work(model)[layer].cpu_ns, 7);
        assert_int_equal(eplb_model_work(model)[layer].route_ns, 7);
    }
    assert_int_equal(calls, 4 * small.num_layers);
    eplb_model_destroy(model);
    ranks_destroy(&ranks);
}

/* ---------------------------------------------------------------------------------------- samples */

/* More rows than the buffer of logits has, and more than the window: the same bits as one by one. */
static void every_row_can_be_sampled_from(void **state)
{
    enum { ROWS = 2 * EPLB_SAMPLE_ROWS + 3 };
    struct ranks ranks;
    struct eplb_model *whole, *single;
    struct eplb_model_row rows[ROWS];
    struct eplb_model_sample at_once[ROWS], one[ROWS];
    static const uint64_t generations[2];
    int32_t num_samples;
    (void)state;
    ranks_create(&ranks,
                 &(struct ranks_params){.config = small, .ep_size = 1, .max_rows = 4, .num_caches = 2});
    struct eplb_model_params params = {.config = small,
                                       .shape = ranks.shape,
                                       .max_rows = ROWS,
                                       .num_caches = 1,
                                       .group = eplb_threads_group(ranks.threads, 0)};
    assert_int_equal(eplb_model_create(&params, &whole, NULL), EPLB_OK);
    params.max_rows = 1;
    assert_int_equal(eplb_model_create(&params, &single, NULL), EPLB_OK);
    for (int32_t i = 0; i < ROWS; i++) {
        rows[i] = row_of(9, 0, i, 7 * i % 32);
        rows[i].sample = 1;
    }
    struct eplb_model_batch batch = {.rows = rows, .num_rows = ROWS, .generations = generations};
    assert_int_equal(eplb_model_forward(whole, &batch, at_once, &num_samples, NULL), EPLB_OK);
    assert_int_equal(num_samples, ROWS);
    batch.num_rows = 1;
    for (int32_t i = 0; i < ROWS; i++, batch.rows++) {
        assert_int_equal(eplb_model_forward(single, &batch, one, &num_samples, NULL), EPLB_OK);
        assert_int_equal(num_samples, 1);
        assert_int_equal(at_once[i].position, i);
        assert_int_equal(at_once[i].token, one[0].token);
        assert_int_equal(at_once[i].digest, one[0].digest);
    }
    eplb_model_destroy(whole);
    eplb_model_destroy(single);
    ranks_destroy(&ranks);
}

/* Columns of the unembedding that are the same give logits that are. */
static void ties_go_to_the_lowest(void **state)
{
    struct one_rank one;
    struct eplb_model_row row = row_of(9, 0, 0, 1);
    (void)state;
    begin(&one);
    float *unembedding = one.ranks.models[0]->weights.unembedding;
    row.sample = 1;
    memset(unembedding, 0, eplb_packed_floats(16, 32) * sizeof *unembedding);
    assert_int_equal(run(&one, &row, 1), EPLB_OK);
    assert_int_equal(one.forward->samples[0].token, 0);
    for (int32_t i = 0; i < 16; i++) {
        float weight = one.ranks.models[0]->activations.sample_rows[i];
        unembedding[i * EPLB_PANEL + 5] = weight;
        unembedding[(16 + i) * EPLB_PANEL + 11] = weight;
    }
    assert_int_equal(run(&one, &row, 1), EPLB_OK);
    assert_int_equal(one.forward->samples[0].token, 5);
    ranks_destroy(&one.ranks);
}

/* --------------------------------------------------------------------------------- ranks that disagree */

static void abort_all(struct ranks *ranks)
{
    for (int32_t rank = 0; rank < ranks->params.ep_size; rank++)
        assert_int_equal(eplb_executor_abort_step(ranks->executors[rank], &ranks->command, NULL), EPLB_OK);
    ranks_destroy(ranks);
}

static void another_forward_generation_or_version_is_named(void **state)
{
    char sentence[EPLB_ERROR_TEXT];
    (void)state;
    for (int32_t kind = 0; kind < 3; kind++) {
        struct ranks ranks;
        ranks_create(&ranks,
                     &(struct ranks_params){.config = small, .ep_size = 4, .max_rows = 4, .num_caches = 2});
        ranks.forwards[0].rows[0] = row_of(9, 0, 0, 1);
        ranks.forwards[0].num_rows = 1;
        ranks.forwards[2].seq_ahead = kind == 0 ? 5 : 0;
        ranks.forwards[2].generation_ahead = kind == 1 ? 5 : 0;
        ranks.forwards[2].version_ahead = kind == 2 ? 5 : 0;
        ranks_forward(&ranks);
        for (int32_t rank = 0; rank < 4; rank++) {
            int32_t ours = rank == 2 ? 5 : 0;
            int32_t other = rank == 2 ? 0 : 2;
            if (kind == 0)
                snprintf(sentence, sizeof sentence,
                         "rank %d runs forward %d, layer 0, and rank %d runs forward %d, layer 0", rank,
                         1 + ours, other, 6 - ours);
            else
                snprintf(sentence, sizeof sentence,
                         "forward 1, layer 1: rank %d runs %s %d and rank %d runs %d", rank,
                         kind == 1 ? "generation" : "weight version", ours, other, 5 - ours);
            assert_int_equal(ranks.forwards[rank].status, EPLB_INCONSISTENT);
            assert_string_equal(ranks.forwards[rank].error.text, sentence);
        }
        abort_all(&ranks);
    }
}

/* ------------------------------------------------------------------------------------------- check */

static void expect_finding(const struct eplb_model *model, const int32_t *tables,
                           const uint64_t *fingerprints, const char *sentence)
{
    struct eplb_error error;
    assert_int_equal(eplb_model_check_slots(model, tables, fingerprints, &error), EPLB_VERIFY);
    assert_string_equal(error.text, sentence);
}

static void swap_slots(struct eplb_model *model, int32_t layer, int32_t a, int32_t b)
{
    struct eplb_expert_layout layout = eplb_expert_layout(&model->config);
    const struct eplb_layer_weights *weights = &model->weights.layers[layer];
    for (int64_t i = 0; i < layout.gate_up_floats + layout.down_floats; i++) {
        float *base = i < layout.gate_up_floats ? weights->gate_up : weights->down;
        int64_t width = i < layout.gate_up_floats ? layout.gate_up_floats : layout.down_floats;
        int64_t at = i < layout.gate_up_floats ? i : i - layout.gate_up_floats;
        float kept = base[a * width + at];
        base[a * width + at] = base[b * width + at];
        base[b * width + at] = kept;
    }
}

static void a_slot_with_another_expert_is_found(void **state)
{
    static const int32_t tables[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
    struct ranks ranks;
    uint64_t fingerprints[2 * 4];
    struct eplb_error error;
    (void)state;
    assert_int_equal(eplb_model_expected_fingerprints(&small, fingerprints, &error), EPLB_OK);
    ranks_create(&ranks, &(struct ranks_params){.config = small,
                                                .ep_size = 2,
                                                .redundant = 1,
                                                .max_rows = 4,
                                                .num_caches = 2,
                                                .initial = tables});
    struct eplb_model *model = ranks.models[1];
    assert_int_equal(eplb_model_check_slots(ranks.models[0], tables, fingerprints, &error), EPLB_OK);
    assert_int_equal(eplb_model_check_slots(model, tables, fingerprints, &error), EPLB_OK);
    swap_slots(model, 1, 0, 2);
    expect_finding(model, tables, fingerprints,
                   "layer 1, rank 1: slot 0 must hold expert 1, and holds expert 3 of layer 1");
    swap_slots(model, 1, 0, 2);
    assert_int_equal(eplb_model_check_slots(model, tables, fingerprints, &error), EPLB_OK);
    eplb_expert_fill(&small, 0, 2, model->weights.layers[1].gate_up, model->weights.layers[1].down);
    expect_finding(model, tables, fingerprints,
                   "layer 1, rank 1: slot 0 must hold expert 1, and holds expert 2 of layer 0");
    model->weights.layers[1].down[0] += 1;
    expect_finding(model, tables, fingerprints,
                   "layer 1, rank 1: slot 0 must hold expert 1, and holds none of the model's experts");
    eplb_model_replicas(model, 0)->table.slots[3] = 0;
    expect_finding(model, tables, fingerprints,
                   "layer 0, rank 1: expert 3 is mapped to slot 0; it must be slot 3");
    ranks_destroy(&ranks);
}

/* ------------------------------------------------------------------------------------------- hooks */

struct plan_fixture {
    struct eplb_layer_plan plan;
    void *block;
    _Alignas(8) unsigned char scratch[4096];
};

static void make_plan(struct plan_fixture *f, const struct eplb_model *model, const int32_t *old_table,
                      const int32_t *new_table)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    eplb_layer_plan_take(&arena, &model->shape, &f->plan);
    f->block = eplb_arena_reserve(&arena);
    assert_non_null(f->block);
    eplb_layer_plan_take(&arena, &model->shape, &f->plan);
    assert_true(eplb_placement_diff_scratch(&model->shape) <= sizeof f->scratch);
    eplb_layer_plan_build(&f->plan, &model->shape, model->ep_rank, old_table, new_table, f->scratch);
    f->plan.layer = 1;
    f->plan.weights_epoch = eplb_weights_epoch(model->registered);
}

static void hooks_switch_on_commit_only(void **state)
{
    static const int32_t tables[] = {0, 1, 2, 3, 0, 1, 2, 3};
    static const int32_t moved[] = {0, 1, 2, 3, 2, 1, 0, 3};
    struct plan_fixture f;
    struct ranks ranks;
    struct eplb_error error;
    uint64_t fingerprints[2 * 4];
    (void)state;
    assert_int_equal(eplb_model_expected_fingerprints(&small, fingerprints, &error), EPLB_OK);
    ranks_create(&ranks,
                 &(struct ranks_params){
                     .config = small, .ep_size = 1, .max_rows = 4, .num_caches = 2, .initial = tables});
    struct eplb_model *model = ranks.models[0];
    const struct eplb_model_hooks *hooks = eplb_model_hooks(model);
    const int32_t *map = eplb_model_replicas(model, 1)->table.slots;
    make_plan(&f, model, tables, moved + 4);
    assert_int_equal(hooks->prepare_expert_weight(hooks->context, &f.plan, &error), EPLB_OK);
    assert_int_equal(hooks->start_expert_weight_transfer(hooks->context, &f.plan, &error), EPLB_OK);
    hooks->update_expert_weight(hooks->context, &f.plan, 0);
    assert_int_equal(eplb_model_check_slots(model, tables, fingerprints, &error), EPLB_OK);
    assert_int_equal(map[2], 2);
    hooks->update_expert_weight(hooks->context, &f.plan, 1);
    assert_int_equal(eplb_model_check_slots(model, moved, fingerprints, &error), EPLB_OK);
    assert_int_equal(map[2], 0);
    f.plan.log2phy[1] = 2;
    assert_int_equal(hooks->prepare_expert_weight(hooks->context, &f.plan, &error), EPLB_INCONSISTENT);
    assert_string_equal(error.text,
                        "rank 0, layer 1: the plan's map sends expert 1 to slot 2, which does not hold it");
    f.plan.log2phy[1] = 4;
    assert_int_equal(hooks->prepare_expert_weight(hooks->context, &f.plan, &error), EPLB_INCONSISTENT);
    eplb_arena_free(f.block);
    ranks_destroy(&ranks);
}

/* ------------------------------------------------------------------------------------------- sizes */

static void the_plan_counts_what_is_reserved(void **state)
{
    struct eplb_shape shape;
    (void)state;
    assert_int_equal(eplb_shape_init(&shape, 2, 4, 2, 1, NULL), EPLB_OK);
    size_t rings = (size_t)2 * 3 * 2 * 4 * 2 * 8 * sizeof(float); /* layers, caches, K and V, window, heads */
    size_t states = (3 * sizeof(struct eplb_model_cache) + EPLB_ARENA_ALIGN - 1) / EPLB_ARENA_ALIGN;
    assert_int_equal(eplb_model_kv_bytes(&small, 3), rings + 2 * states * EPLB_ARENA_ALIGN);
    /* A row more on each rank takes at least its copies out, and those that arrive. */
    size_t few = eplb_model_activation_bytes(&small, &shape, EPLB_ROUTING_STATIC, 64);
    size_t many = eplb_model_activation_bytes(&small, &shape, EPLB_ROUTING_STATIC, 128);
    assert_true(many - few >= (size_t)64 * (2 + 2 * 2) * 16 * sizeof(float));
    struct eplb_model_config huge = small;
    huge.kv_window = 65536;
    huge.num_heads = 128;
    huge.head_dim = 256;
    huge.num_layers = 1024;
    assert_int_equal(eplb_model_kv_bytes(&huge, INT32_MAX), SIZE_MAX);
    huge.hidden_size = 8192;
    huge.vocab_size = 65536;
    huge.num_experts = 65536;
    huge.top_k = 64;
    assert_int_equal(eplb_shape_init(&shape, 1024, 65536, 32768, 64, NULL), EPLB_OK);
    assert_int_equal(eplb_model_activation_bytes(&huge, &shape, EPLB_ROUTING_STATIC, INT32_MAX), SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_that_do_not_fit_are_refused),
        cmocka_unit_test(fields_out_of_range_are_refused),
        cmocka_unit_test(sequences_go_on_without_gaps),
        cmocka_unit_test(positions_end_at_the_largest),
        cmocka_unit_test(the_sampled_token_must_be_there),
        cmocka_unit_test(flags_that_are_none_are_refused),
        cmocka_unit_test(counts_are_forgotten),
        cmocka_unit_test(routes_are_looked_at),
        cmocka_unit_test(the_work_is_timed),
        cmocka_unit_test(every_row_can_be_sampled_from),
        cmocka_unit_test(ties_go_to_the_lowest),
        cmocka_unit_test(another_forward_generation_or_version_is_named),
        cmocka_unit_test(a_slot_with_another_expert_is_found),
        cmocka_unit_test(hooks_switch_on_commit_only),
        cmocka_unit_test(the_plan_counts_what_is_reserved),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
