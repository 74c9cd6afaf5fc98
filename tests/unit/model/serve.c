/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "serve.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/clock.h"
#include "support/tables.h"

enum { NOBODY = -1, FIRST_NUMBER = 1000 };

/** How far a sequence is. */
struct progress {
    int32_t rows;    /* given to the model */
    int32_t samples; /* got back */
};

struct server {
    const struct serve_params *params;
    struct ranks ranks;
    struct eplb_prng prng;
    struct serve_sequence *sequences;
    struct progress progress[SERVE_MAX_SEQUENCES];
    int32_t count, begun, finished;
    int32_t *holders; /* [ep_size][num_caches] sequence, or NOBODY */
    struct serve_counts counts;

    int32_t *tables; /* [num_layers][num_slots] */
    int32_t new_table[RANKS_MAX_SLOTS];
    int32_t new_weights[RANKS_MAX_SLOTS];
    int32_t updates[RANKS_MAX_LAYERS][RANKS_MAX_SLOTS];
    uint64_t versions[RANKS_MAX_LAYERS];
    int32_t moving_layer;
    uint64_t token, prepare_token;
    uint64_t *fingerprints;
};

static int32_t below(struct server *server, int32_t bound)
{
    return (int32_t)eplb_prng_below(&server->prng, (uint64_t)bound);
}

void serve_draw(uint64_t seed, int32_t vocab_size, int32_t count, struct serve_sequence *sequences)
{
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    assert_in_range(count, 1, SERVE_MAX_SEQUENCES);
    for (int32_t i = 0; i < count; i++) {
        sequences[i] = (struct serve_sequence){.length = 1 + (int32_t)eplb_prng_below(&prng, 30),
                                               .decoded = 1 + (int32_t)eplb_prng_below(&prng, 12)};
        for (int32_t j = 0; j < sequences[i].length; j++)
            sequences[i].prompt[j] = (int32_t)eplb_prng_below(&prng, (uint64_t)vocab_size);
    }
}

void serve_naively(const struct eplb_model_config *config, int32_t count, struct serve_sequence *sequences)
{
    struct naive *naive = naive_create(config);
    for (int32_t i = 0; i < count; i++)
        naive_run(naive, sequences[i].prompt, sequences[i].length, sequences[i].decoded,
                  sequences[i].samples);
    naive_destroy(naive);
}

/* ---------------------------------------------------------------------------------------- batches */

static struct eplb_model_row next_row(struct server *server, int32_t number, int32_t cache)
{
    const struct serve_sequence *sequence = &server->sequences[number];
    int32_t position = server->progress[number].rows++;
    bool is_prompt = position < sequence->length;
    return (struct eplb_model_row){.sequence = FIRST_NUMBER + (uint64_t)number,
                                   .cache = cache,
                                   .position = position,
                                   .token = is_prompt ? sequence->prompt[position] : EPLB_SAMPLED_TOKEN,
                                   .kind = is_prompt ? EPLB_TOKEN_PREFILL : EPLB_TOKEN_DECODE,
                                   .sample = position >= sequence->length - 1};
}

/** Adds a piece of a prompt, or one token. */
static void add_rows(struct server *server, struct rank_forward *forward, int32_t number, int32_t cache)
{
    int32_t left = server->sequences[number].length - server->progress[number].rows;
    int32_t room = server->params->ranks.max_rows - forward->num_rows;
    int32_t rows = left > 0 ? 1 + below(server, left) : 1;
    for (int32_t i = 0; i < rows && i < room; i++)
        forward->rows[forward->num_rows++] = next_row(server, number, cache);
}

static void fill_rank(struct server *server, int32_t rank)
{
    struct rank_forward *forward = &server->ranks.forwards[rank];
    int32_t caches = server->params->ranks.num_caches;
    int32_t *holders = server->holders + rank * caches;
    forward->num_rows = 0;
    if (below(server, 5) == 0)
        return;
    for (int32_t cache = 0; cache < caches; cache++) {
        if (holders[cache] == NOBODY && server->begun < server->count)
            holders[cache] = server->begun++;
        if (holders[cache] != NOBODY && below(server, 6) != 0)
            add_rows(server, forward, holders[cache], cache);
    }
}

static void take_sample(struct server *server, int32_t rank, const struct eplb_model_sample *sample)
{
    int32_t number = (int32_t)(sample->sequence - FIRST_NUMBER);
    assert_in_range(number, 0, server->count - 1);
    struct serve_sequence *sequence = &server->sequences[number];
    int32_t index = server->progress[number].samples++;
    assert_int_equal(sample->position, sequence->length - 1 + index);
    assert_true(index < sequence->decoded);
    sequence->samples[index] = *sample;
    if (index + 1 < sequence->decoded)
        return;
    server->finished++;
    for (int32_t cache = 0; cache < server->params->ranks.num_caches; cache++) {
        int32_t *holder = &server->holders[rank * server->params->ranks.num_caches + cache];
        *holder = *holder == number ? NOBODY : *holder;
    }
}

/* ----------------------------------------------------------------------------------------- counts */

static void check_layer(const struct server *server, int32_t layer, int64_t rows, int64_t counted)
{
    int64_t computed = 0;
    int32_t top_k = server->params->ranks.config.top_k;
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++)
        computed += eplb_model_work(server->ranks.models[rank])[layer].rows;
    assert_int_equal(computed, rows * top_k);
    assert_int_equal(ranks_counted(&server->ranks, layer), counted * top_k);
}

static void check_counts(struct server *server)
{
    int64_t prefill = 0, decode = 0, idle = 0;
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++) {
        const struct rank_forward *forward = &server->ranks.forwards[rank];
        idle += forward->num_rows == 0;
        for (int32_t row = 0; row < forward->num_rows; row++) {
            prefill += forward->rows[row].kind == EPLB_TOKEN_PREFILL;
            decode += forward->rows[row].kind == EPLB_TOKEN_DECODE;
        }
    }
    int64_t counted = server->params->ranks.decode_only_load ? decode : decode + prefill;
    if (server->ranks.flags == EPLB_FORWARD_WARMUP)
        counted = 0;
    for (int32_t layer = 0; layer < server->ranks.shape.num_layers; layer++)
        check_layer(server, layer, prefill + decode, counted);
    server->counts.empty += prefill + decode > 0 ? idle : 0;
    server->counts.mixed += prefill > 0 && decode > 0;
    server->counts.not_counted += prefill + decode - counted;
}

/* ------------------------------------------------------------------------------------------ moves */

static int32_t *table_of(const struct server *server, int32_t layer)
{
    return server->tables + layer * server->ranks.shape.num_slots;
}

static void check_slots(const struct server *server)
{
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++) {
        struct eplb_error error;
        if (eplb_model_check_slots(server->ranks.models[rank], server->tables, server->fingerprints,
                                   &error) != EPLB_OK)
            fail_msg("%s", error.text);
    }
}

/** Any weights: equal ones, of which each replica gives the next one a part. */
static void draw_weights(struct server *server, const int32_t *table, int32_t *weights)
{
    const struct eplb_shape *shape = &server->ranks.shape;
    int32_t scratch[RANKS_MAX_SLOTS];
    eplb_weights_equal(shape, table, scratch, weights);
    for (int32_t expert = 0; expert < shape->num_experts; expert++)
        scratch[expert] = NOBODY;
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        int32_t before = scratch[table[slot]];
        int32_t part = before == NOBODY ? 0 : below(server, weights[before]);
        weights[slot] += part;
        if (before != NOBODY)
            weights[before] -= part;
        scratch[table[slot]] = slot;
    }
}

/** New weights for some layers, but not for one that switches. */
static void add_updates(struct server *server)
{
    struct eplb_command *command = &server->ranks.command;
    for (int32_t layer = 0; server->params->reweighs && layer < server->ranks.shape.num_layers; layer++) {
        if (layer == command->update_layer_id || below(server, 3) > 0)
            continue;
        draw_weights(server, table_of(server, layer), server->updates[layer]);
        server->versions[layer] += 1 + (uint64_t)below(server, 2);
        command->weight_updates[command->num_weight_updates++] = (struct eplb_weight_update){
            .layer = layer,
            .generation = eplb_executor_generations(server->ranks.executors[0])[layer],
            .version = server->versions[layer],
            .weights = server->updates[layer]};
        server->counts.reweighed++;
    }
}

/** Every rank, and its model, have the weights that they were told. */
static void check_versions(const struct server *server)
{
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++)
        for (int32_t layer = 0; layer < server->ranks.shape.num_layers; layer++) {
            assert_int_equal(eplb_executor_weight_versions(server->ranks.executors[rank])[layer],
                             server->versions[layer]);
            assert_int_equal(eplb_model_replicas(server->ranks.models[rank], layer)->version,
                             server->versions[layer]);
        }
}

static void add_prepare(struct server *server, int32_t layer)
{
    struct eplb_command *command = &server->ranks.command;
    memcpy(server->new_table, table_of(server, layer),
           (size_t)server->ranks.shape.num_slots * sizeof *server->new_table);
    tables_stir(&server->prng, &server->ranks.shape, server->new_table, 1 + below(server, 20));
    server->moving_layer = layer;
    server->prepare_token = ++server->token;
    command->prepare_layer_id = layer;
    command->prepare_token.value = server->prepare_token;
    command->base_generation = eplb_executor_generations(server->ranks.executors[0])[layer];
    command->base_hash = eplb_placement_hash(&server->ranks.shape, table_of(server, layer));
    command->expert_ids = server->new_table;
    if (server->params->reweighs) {
        draw_weights(server, server->new_table, server->new_weights);
        command->replica_weights = server->new_weights;
    }
    command->num_expert_ids = server->ranks.shape.num_slots;
}

static void add_activation(struct server *server)
{
    const struct eplb_group *engine = ranks_engine(&server->ranks);
    struct eplb_command *command = &server->ranks.command;
    command->update_layer_id = server->moving_layer;
    command->update_prepare_token.value = server->prepare_token;
    command->activation_token.value = ++server->token;
    engine->record_open(engine->self, command->activation_token);
}

static bool is_prepared(const struct server *server)
{
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++) {
        const struct eplb_worker_levels *levels = &server->ranks.forwards[rank].output.levels;
        assert_int_equal(levels->prepare_token.value, server->prepare_token);
        assert_int_not_equal(levels->prepare_status, EPLB_PREPARE_FAILED);
        if (levels->prepare_status != EPLB_PREPARE_OK)
            return false;
    }
    return true;
}

/* --------------------------------------------------------------------------------------- forwards */

static void begin_forward(struct server *server)
{
    eplb_command_init(&server->ranks.command, (uint64_t)++server->counts.forwards);
    server->ranks.flags = server->params->warmups && below(server, 3) == 0 ? EPLB_FORWARD_WARMUP : 0;
}

static void run_forward(struct server *server)
{
    ranks_forward(&server->ranks);
    ranks_expect_ok(&server->ranks);
    check_counts(server);
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++)
        for (int32_t i = 0; i < server->ranks.forwards[rank].num_samples; i++)
            take_sample(server, rank, &server->ranks.forwards[rank].samples[i]);
}

static void run_batch(struct server *server)
{
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++)
        fill_rank(server, rank);
    add_updates(server);
    run_forward(server);
}

static void run_empty(struct server *server)
{
    begin_forward(server);
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++)
        server->ranks.forwards[rank].num_rows = 0;
    run_forward(server);
}

/** A layer is prepared beside one batch and switched beside the next one. */
static void move_layer(struct server *server, int32_t layer)
{
    int64_t deadline = eplb_clock_system()->now(NULL) + INT64_C(60000000000);
    begin_forward(server);
    add_prepare(server, layer);
    run_batch(server);
    while (!is_prepared(server)) {
        assert_true(eplb_clock_system()->now(NULL) < deadline);
        run_empty(server);
    }
    begin_forward(server);
    add_activation(server);
    run_batch(server);
    for (int32_t rank = 0; rank < server->ranks.params.ep_size; rank++)
        assert_int_equal(server->ranks.forwards[rank].output.levels.activation_outcome,
                         EPLB_ACTIVATION_SWITCHED);
    memcpy(table_of(server, layer), server->new_table,
           (size_t)server->ranks.shape.num_slots * sizeof *server->new_table);
    server->counts.switches++;
    server->versions[layer] = 0;
    check_versions(server);
    check_slots(server);
}

/* ------------------------------------------------------------------------------------------ serve */

static void make_tables(struct server *server, const struct eplb_shape *shape)
{
    server->tables = calloc((size_t)(shape->num_layers * shape->num_slots), sizeof *server->tables);
    assert_non_null(server->tables);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        int32_t *table = server->tables + layer * shape->num_slots;
        eplb_placement_initial(shape, table);
        if (server->params->random_start)
            tables_random(&server->prng, shape, table);
    }
}

static void create(struct server *server)
{
    struct ranks_params ranks = server->params->ranks;
    struct eplb_shape shape;
    struct eplb_error error;
    size_t caches = (size_t)(ranks.ep_size * ranks.num_caches);
    eplb_prng_seed(&server->prng, server->params->seed);
    if (eplb_shape_init(&shape, ranks.config.num_layers, ranks.config.num_experts, ranks.ep_size,
                        ranks.redundant, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    make_tables(server, &shape);
    ranks.initial = server->params->random_start ? server->tables : NULL;
    ranks_create(&server->ranks, &ranks);
    server->holders = calloc(caches, sizeof *server->holders);
    server->fingerprints =
        calloc((size_t)(shape.num_layers * shape.num_experts), sizeof *server->fingerprints);
    assert_non_null(server->holders);
    assert_non_null(server->fingerprints);
    for (size_t i = 0; i < caches; i++)
        server->holders[i] = NOBODY;
    assert_int_equal(eplb_model_expected_fingerprints(&ranks.config, server->fingerprints, &error), EPLB_OK);
}

struct serve_counts serve(const struct serve_params *params, int32_t count, struct serve_sequence *sequences)
{
    struct server *server = calloc(1, sizeof *server);
    assert_non_null(server);
    server->params = params;
    server->sequences = sequences;
    server->count = count;
    create(server);
    check_slots(server);
    for (int32_t layer = 0; server->finished < count; layer++) {
        if (params->moves) {
            move_layer(server, layer % params->ranks.config.num_layers);
        } else {
            begin_forward(server);
            run_batch(server);
        }
    }
    check_slots(server);
    check_versions(server);
    struct serve_counts counts = server->counts;
    ranks_destroy(&server->ranks);
    free(server->fingerprints);
    free(server->holders);
    free(server->tables);
    free(server);
    return counts;
}

void serve_compare(uint64_t seed, int32_t count, const struct serve_sequence *got,
                   const struct serve_sequence *expected)
{
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(got[i].decoded, expected[i].decoded);
        for (int32_t j = 0; j < got[i].decoded; j++) {
            const struct eplb_model_sample *a = &got[i].samples[j];
            const struct eplb_model_sample *b = &expected[i].samples[j];
            if (a->token != b->token || a->digest != b->digest)
                fail_msg("seed %" PRIu64 ": sequence %d, token %d is %d (%016" PRIx64
                         "); it must be %d (%016" PRIx64 ")",
                         seed, i, j, a->token, a->digest, b->token, b->digest);
        }
    }
}
