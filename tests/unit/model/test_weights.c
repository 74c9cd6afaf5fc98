/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "floats.h"
#include "model/arithmetic.h"
#include "model/gemm.h"
#include "model/weights.h"

enum { EP_SIZE = 4, REDUNDANT = 1 };

/* One rank's weights in memory of their own. */
struct rank {
    struct eplb_model_config config;
    struct eplb_shape shape;
    struct eplb_model_weights weights;
    int32_t *tables;
    void *block;
    size_t bytes;
};

static void make_rank(const struct eplb_model_config *config, struct rank *rank)
{
    struct eplb_error error;
    struct eplb_arena arena;
    rank->config = *config;
    assert_int_equal(
        eplb_shape_init(&rank->shape, config->num_layers, config->num_experts, EP_SIZE, REDUNDANT, &error),
        EPLB_OK);
    rank->tables = malloc((size_t)config->num_layers * (size_t)rank->shape.num_slots * sizeof *rank->tables);
    assert_non_null(rank->tables);
    for (int32_t layer = 0; layer < config->num_layers; layer++)
        eplb_placement_initial(&rank->shape, rank->tables + layer * rank->shape.num_slots);
    eplb_arena_init(&arena, NULL, 0);
    eplb_model_weights_take(&arena, config, rank->shape.slots_per_rank, &rank->weights);
    rank->bytes = arena.used;
    rank->block = eplb_arena_reserve(&arena);
    assert_non_null(rank->block);
    memset(rank->block, 0xa5, rank->bytes);
    eplb_model_weights_take(&arena, config, rank->shape.slots_per_rank, &rank->weights);
    assert_int_equal(arena.used, rank->bytes);
}

static void fill_rank(struct rank *rank, int32_t ep_rank)
{
    eplb_model_weights_fill(&rank->config, &rank->shape, ep_rank, rank->tables, &rank->weights);
}

static void discard(struct rank *rank)
{
    eplb_arena_free(rank->block);
    free(rank->tables);
}

static struct eplb_model_config small(void)
{
    struct eplb_model_config config;
    eplb_model_config_init(&config);
    return config;
}

static const float *gate_up_of(const struct rank *rank, int32_t layer, int32_t slot)
{
    return rank->weights.layers[layer].gate_up + slot * eplb_expert_layout(&rank->config).gate_up_floats;
}

static const float *down_of(const struct rank *rank, int32_t layer, int32_t slot)
{
    return rank->weights.layers[layer].down + slot * eplb_expert_layout(&rank->config).down_floats;
}

static uint64_t fingerprint_of(const struct rank *rank, int32_t layer, int32_t slot)
{
    return eplb_expert_fingerprint(&rank->config, gate_up_of(rank, layer, slot), down_of(rank, layer, slot));
}

/* A scratch expert, for comparison with those in slots. */
static uint64_t made_alone(const struct eplb_model_config *config, int32_t layer, int32_t expert)
{
    struct eplb_expert_layout layout = eplb_expert_layout(config);
    float *gate_up = malloc((size_t)layout.gate_up_floats * sizeof *gate_up);
    float *down = malloc((size_t)layout.down_floats * sizeof *down);
    assert_non_null(gate_up);
    assert_non_null(down);
    eplb_expert_fill(config, layer, expert, gate_up, down);
    uint64_t fingerprint = eplb_expert_fingerprint(config, gate_up, down);
    free(down);
    free(gate_up);
    return fingerprint;
}

static void an_expert_is_the_same_in_every_slot_and_rank(void **state)
{
    (void)state;
    struct eplb_model_config config = small();
    struct rank rank;
    make_rank(&config, &rank);
    for (int32_t ep_rank = 0; ep_rank < EP_SIZE; ep_rank++) {
        fill_rank(&rank, ep_rank);
        for (int32_t layer = 0; layer < config.num_layers; layer++)
            for (int32_t slot = 0; slot < rank.shape.slots_per_rank; slot++) {
                int32_t global = ep_rank * rank.shape.slots_per_rank + slot;
                int32_t expert = rank.tables[layer * rank.shape.num_slots + global];
                assert_true(fingerprint_of(&rank, layer, slot) == made_alone(&config, layer, expert));
            }
    }
    discard(&rank);
}

static void tables_say_what_a_slot_holds(void **state)
{
    (void)state;
    struct eplb_model_config config = small();
    struct rank rank;
    make_rank(&config, &rank);
    int32_t *ids = rank.tables + 2 * rank.shape.num_slots + rank.shape.slots_per_rank;
    ids[0] = 13;
    ids[1] = 2;
    fill_rank(&rank, 1);
    assert_true(fingerprint_of(&rank, 2, 0) == made_alone(&config, 2, 13));
    assert_true(fingerprint_of(&rank, 2, 1) == made_alone(&config, 2, 2));
    assert_true(fingerprint_of(&rank, 1, 0) == made_alone(&config, 1, 4));
    discard(&rank);
}

static void what_is_no_expert_is_the_same_on_all_ranks(void **state)
{
    (void)state;
    struct eplb_model_config config = small();
    struct rank one;
    struct rank other;
    make_rank(&config, &one);
    make_rank(&config, &other);
    fill_rank(&one, 0);
    fill_rank(&other, EP_SIZE - 1);
    struct eplb_expert_layout layout = eplb_expert_layout(&config);
    size_t slots = (size_t)one.shape.slots_per_rank;
    for (int32_t layer = 0; layer < config.num_layers; layer++) {
        memset(one.weights.layers[layer].gate_up, 0, slots * (size_t)layout.gate_up_floats * sizeof(float));
        memset(one.weights.layers[layer].down, 0, slots * (size_t)layout.down_floats * sizeof(float));
        memset(other.weights.layers[layer].gate_up, 0, slots * (size_t)layout.gate_up_floats * sizeof(float));
        memset(other.weights.layers[layer].down, 0, slots * (size_t)layout.down_floats * sizeof(float));
    }
    /* The layers' structs hold addresses, which differ; the rest of both blocks must not. */
    memset(one.weights.layers, 0, (size_t)config.num_layers * sizeof *one.weights.layers);
    memset(other.weights.layers, 0, (size_t)config.num_layers * sizeof *other.weights.layers);
    assert_int_equal(one.bytes, other.bytes);
    assert_memory_equal(one.block, other.block, one.bytes);
    discard(&other);
    discard(&one);
}

/* Counts of exact repetitions among numbers that should all differ. */
static void experts_layers_and_seeds_differ(void **state)
{
    (void)state;
    enum { SEEDS = 2, LAYERS = 4, EXPERTS = 16, ALL = SEEDS * LAYERS * EXPERTS };
    struct eplb_model_config config = small();
    uint64_t seen[ALL];
    int count = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        config.seed = (uint64_t)seed;
        for (int32_t layer = 0; layer < LAYERS; layer++)
            for (int32_t expert = 0; expert < EXPERTS; expert++) {
                seen[count] = made_alone(&config, layer, expert);
                for (int i = 0; i < count; i++)
                    assert_true(seen[i] != seen[count]);
                count++;
            }
    }
    assert_int_equal(count, ALL);
}

/* Mean and deviation of the columns that there are, in the deviation that is wanted. */
static void check_spread(const float *packed, int32_t inner, int32_t outer, double deviation)
{
    double sum = 0;
    double squares = 0;
    double count = (double)inner * outer;
    for (int32_t column = 0; column < (outer + EPLB_PANEL - 1) / EPLB_PANEL * EPLB_PANEL; column++)
        for (int32_t i = 0; i < inner; i++) {
            float value = packed[(column / EPLB_PANEL * inner + i) * EPLB_PANEL + column % EPLB_PANEL];
            assert_true(fabs((double)value) < deviation * 1.7321);
            assert_true(column < outer ? value != 0 : value == 0);
            sum += (double)value / deviation;
            squares += (double)value * (double)value / deviation / deviation;
        }
    /* Four standard errors of the mean, and of the variance of a uniform number. */
    assert_true(fabs(sum / count) < 4 / sqrt(count));
    assert_true(fabs(squares / count - 1) < 4 * sqrt(0.8 / count));
}

static void matrices_keep_a_row_at_its_size(void **state)
{
    (void)state;
    struct eplb_model_config config = small();
    config.num_experts = 12;
    struct rank rank;
    make_rank(&config, &rank);
    fill_rank(&rank, 0);
    for (int32_t i = 0; i < config.num_layers; i++) {
        const struct eplb_layer_weights *layer = &rank.weights.layers[i];
        check_spread(layer->query_key_value, 64, 192, 1 / sqrt(64));
        check_spread(layer->attention_out, 64, 64, 0.25 / sqrt(64));
        check_spread(layer->router, 64, 12, 2 / sqrt(64));
        check_spread(layer->shared_gate_up, 64, 128, 1 / sqrt(64));
        check_spread(layer->shared_down, 64, 64, 0.5 / sqrt(64));
        check_spread(gate_up_of(&rank, i, 3), 64, 256, 1 / sqrt(64));
        check_spread(down_of(&rank, i, 3), 128, 64, 0.5 / sqrt(128));
        for (int32_t k = 0; k < config.hidden_size; k++)
            assert_true(layer->attention_norm[k] == 1 && layer->moe_norm[k] == 1);
    }
    for (int32_t k = 0; k < config.hidden_size; k++)
        assert_true(rank.weights.final_norm[k] == 1);
    discard(&rank);
}

static double product(const float *x, const float *y, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)y[i];
    return sum / count;
}

static void embeddings_cluster_by_class(void **state)
{
    (void)state;
    struct eplb_model_config config = small();
    config.hidden_size = 1024;
    config.num_layers = 1;
    config.vocab_size = 600;
    struct rank rank;
    make_rank(&config, &rank);
    fill_rank(&rank, 0);
    static const struct {
        int32_t token;
        int32_t other;
        int alike;
    } pairs[] = {{'a', 'z', 1}, {'a', 'A', 0}, {'0', '9', 1}, {'0', '/', 0}, {'A', 'Z', 1}, {' ', '\n', 1},
                 {'.', '"', 1}, {'{', '+', 1}, {'.', '{', 0}, {200, 255, 1}, {127, 1, 1},   {127, 128, 0},
                 {255, 256, 0}, {256, 511, 1}, {511, 512, 0}, {'a', '0', 0}, {' ', '.', 0}, {'a', ' ', 0}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const float *x = rank.weights.embedding + (size_t)pairs[i].token * 1024;
        const float *y = rank.weights.embedding + (size_t)pairs[i].other * 1024;
        assert_true(fabs(product(x, x, 1024) - 1) < 0.2);
        assert_true(fabs(product(x, y, 1024) - (pairs[i].alike ? 0.5 : 0)) < 0.2);
    }
    /* In roots of the row's length: the class brings that of 3/8, the token itself loses that of 1/16. */
    float *packed = rank.weights.unembedding;
    float *logits = malloc(600 * sizeof *logits);
    assert_non_null(logits);
    eplb_gemm()(rank.weights.embedding + (size_t)'a' * 1024, 1, 1024, packed, 600, logits);
    assert_true(fabs((double)logits['z'] - 32 * sqrt(3.0 / 8)) < 4);
    assert_true(fabs((double)logits['a'] - 32 * (sqrt(3.0 / 8) - 0.25)) < 4);
    assert_true(fabs((double)logits['0']) < 4 && fabs((double)logits[300]) < 4);
    free(logits);
    discard(&rank);
}

static void count_by_router(const struct rank *rank, int32_t layer, const char *text, int *counts)
{
    int32_t hidden = rank->config.hidden_size;
    const struct eplb_layer_weights *weights = &rank->weights.layers[layer];
    for (; *text != '\0'; text++) {
        float x[64];
        float logits[16];
        int32_t ids[2];
        float values[2];
        eplb_rms_norm(rank->weights.embedding + (size_t)(unsigned char)*text * (size_t)hidden,
                      weights->moe_norm, hidden, x);
        eplb_gemm()(x, 1, hidden, weights->router, 16, logits);
        eplb_top_k(logits, 16, 2, ids, values);
        counts[ids[0]]++;
        counts[ids[1]]++;
    }
}

/* The share of routes that two kinds of text have in common. */
static double overlap(const double *x, const double *y)
{
    double sum = 0;
    for (int expert = 0; expert < 16; expert++)
        sum += x[expert] < y[expert] ? x[expert] : y[expert];
    return sum;
}

/* What a demonstration needs: one kind of text makes some experts hot, another kind others. */
static void routing_is_uneven_and_follows_the_kind_of_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "when the ship had left the harbour and the evening wind came up, nobody on board spoke a word",
        "1024 4096 17.25 33.1; 2048 8192 18.75 34.9; 512 1024 12.5 30.07; 99 201 3.14159 2.71828 55",
        "\xd0\xb2\xd0\xb5\xd1\x82\xd0\xb5\xd1\x80 \xd0\xb4\xd1\x83\xd0\xbb \xd1\x81 \xd0\xbc\xd0\xbe\xd1\x80",
    };
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    struct eplb_model_config config = small();
    struct rank rank;
    make_rank(&config, &rank);
    fill_rank(&rank, 0);
    for (int32_t layer = 0; layer < config.num_layers; layer++) {
        double shares[TEXTS][16];
        for (int text = 0; text < TEXTS; text++) {
            int counts[16] = {0};
            double hottest = 0;
            count_by_router(&rank, layer, texts[text], counts);
            for (int expert = 0; expert < 16; expert++) {
                shares[text][expert] = counts[expert] / (2.0 * (double)strlen(texts[text]));
                hottest = fmax(hottest, shares[text][expert]);
            }
            assert_true(hottest > 3.0 / 16);
            for (int other = 0; other < text; other++)
                assert_true(overlap(shares[text], shares[other]) < 0.6);
        }
    }
    discard(&rank);
}

static void memory_is_aligned_and_slots_lie_together(void **state)
{
    (void)state;
    struct eplb_model_config config = small();
    struct rank rank;
    make_rank(&config, &rank);
    const struct eplb_layer_weights *layer = &rank.weights.layers[3];
    assert_int_equal((uintptr_t)layer->router % EPLB_ARENA_ALIGN, 0);
    assert_int_equal((uintptr_t)layer->gate_up % EPLB_ARENA_ALIGN, 0);
    assert_non_null(layer->shared_gate_up);
    assert_int_equal(eplb_expert_layout(&config).gate_up_floats, 64 * 256);
    assert_int_equal(eplb_expert_layout(&config).down_floats, 128 * 64);
    assert_true(layer->down >= layer->gate_up + rank.shape.slots_per_rank * 64 * 256);
    assert_true((const unsigned char *)(layer->down + rank.shape.slots_per_rank * 128 * 64) <=
                (const unsigned char *)rank.block + rank.bytes);
    discard(&rank);
    config.shared_hidden_size = 0;
    make_rank(&config, &rank);
    assert_null(rank.weights.layers[3].shared_gate_up);
    assert_null(rank.weights.layers[3].shared_down);
    fill_rank(&rank, 2);
    discard(&rank);
}

static void a_fingerprint_sees_every_float(void **state)
{
    (void)state;
    enum { GATE_UP = 8 * 16, DOWN = 8 * 16 };
    struct eplb_model_config config = small();
    config.hidden_size = 8;
    config.expert_hidden_size = 8;
    float floats[GATE_UP + DOWN];
    eplb_expert_fill(&config, 0, 0, floats, floats + GATE_UP);
    uint64_t whole = eplb_expert_fingerprint(&config, floats, floats + GATE_UP);
    assert_true(whole == eplb_expert_fingerprint(&config, floats, floats + GATE_UP));
    for (int i = 0; i < GATE_UP + DOWN; i++) {
        float kept = floats[i];
        floats[i] = -kept;
        assert_true(eplb_expert_fingerprint(&config, floats, floats + GATE_UP) != whole);
        floats[i] = nextafterf(kept, 2);
        assert_true(eplb_expert_fingerprint(&config, floats, floats + GATE_UP) != whole);
        floats[i] = kept;
    }
    for (int i = 8; i < GATE_UP; i++) {
        float kept = floats[i];
        floats[i] = floats[i - 8];
        floats[i - 8] = kept;
        assert_true(eplb_expert_fingerprint(&config, floats, floats + GATE_UP) != whole);
        floats[i - 8] = floats[i];
        floats[i] = kept;
    }
    assert_true(eplb_expert_fingerprint(&config, floats + GATE_UP, floats) != whole);
}

/* The bits of one machine and compiler, which all others must give. */
static void bits_are_the_committed_ones(void **state)
{
    (void)state;
    struct eplb_model_config config = small();
    config.num_experts = 12;
    config.vocab_size = 257;
    struct rank rank;
    make_rank(&config, &rank);
    fill_rank(&rank, 1);
    const struct eplb_model_weights *all = &rank.weights;
    const float *words = all->unembedding;
    const float *qkv = all->layers[2].query_key_value;
    const float *router = all->layers[2].router;
    assert_int_equal(floats_digest(all->embedding, 257 * 64), UINT64_C(0x2bbe8c6bf440d1e4));
    assert_int_equal(floats_digest(words, eplb_packed_floats(64, 257)), UINT64_C(0x1aa06891e3241f4c));
    assert_int_equal(floats_digest(qkv, eplb_packed_floats(64, 192)), UINT64_C(0xdaf54c3f3583bd8c));
    assert_int_equal(floats_digest(router, eplb_packed_floats(64, 12)), UINT64_C(0xc7eb6e54f12cb43c));
    assert_int_equal(fingerprint_of(&rank, 2, 1), UINT64_C(0xf8e76ec61b994443));
    assert_int_equal(fingerprint_of(&rank, 3, 0), UINT64_C(0xa004c38cb4796e52));
    discard(&rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expert_is_the_same_in_every_slot_and_rank),
        cmocka_unit_test(tables_say_what_a_slot_holds),
        cmocka_unit_test(what_is_no_expert_is_the_same_on_all_ranks),
        cmocka_unit_test(experts_layers_and_seeds_differ),
        cmocka_unit_test(matrices_keep_a_row_at_its_size),
        cmocka_unit_test(embeddings_cluster_by_class),
        cmocka_unit_test(routing_is_uneven_and_follows_the_kind_of_text),
        cmocka_unit_test(memory_is_aligned_and_slots_lie_together),
        cmocka_unit_test(a_fingerprint_sees_every_float),
        cmocka_unit_test(bits_are_the_committed_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
