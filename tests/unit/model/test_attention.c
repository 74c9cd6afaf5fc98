/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Attention against a twin in double precision, with absolute positions and the whole history. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "model/attention.h"

enum { HEADS = 2, DIM = 16, WIDTH = HEADS * DIM, LENGTH = 40, CACHES = 3, LAYERS = 2 };

struct fixture {
    struct eplb_model_config config;
    struct eplb_attention attention;
    void *block;
    float rows[LENGTH][3 * WIDTH];
};

static void take(struct eplb_arena *arena, struct fixture *f)
{
    eplb_attention_take_rings(arena, &f->config, CACHES, &f->attention);
    eplb_attention_take_scratch(arena, &f->config, &f->attention);
}

static void init(struct fixture *f, int32_t window)
{
    struct eplb_arena arena;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 5);
    eplb_model_config_init(&f->config);
    f->config.num_layers = LAYERS;
    f->config.num_heads = HEADS;
    f->config.head_dim = DIM;
    f->config.kv_window = window;
    eplb_arena_init(&arena, NULL, 0);
    take(&arena, f);
    f->block = eplb_arena_reserve(&arena);
    assert_non_null(f->block);
    take(&arena, f);
    eplb_attention_init(&f->config, CACHES, &f->attention);
    for (int32_t row = 0; row < LENGTH; row++)
        for (int32_t i = 0; i < 3 * WIDTH; i++)
            f->rows[row][i] = (float)(3 * eplb_prng_real(&prng) - 1.5);
}

static double turned(const float *x, int32_t i, int32_t position)
{
    int32_t half = DIM / 2;
    double angle = position * pow(10000, -(double)(i % half) / half);
    return i < half ? x[i] * cos(angle) - x[i + half] * sin(angle)
                    : x[i] * cos(angle) + x[i - half] * sin(angle);
}

static double score(const struct fixture *f, int32_t head, int32_t position, int32_t other)
{
    double sum = 0;
    for (int32_t i = 0; i < DIM; i++)
        sum += turned(&f->rows[position][head * DIM], i, position) *
               turned(&f->rows[other][WIDTH + head * DIM], i, other);
    return sum / sqrt(DIM);
}

static double expected(const struct fixture *f, int32_t position, int32_t head, int32_t i)
{
    double sum = 0, all = 0;
    for (int32_t other = 0; other <= position; other++) {
        if (other <= position - f->config.kv_window)
            continue;
        double share = exp(score(f, head, position, other));
        sum += share * f->rows[other][2 * WIDTH + head * DIM + i];
        all += share;
    }
    return sum / all;
}

static void attends_to_the_window_at_the_right_distances(void **state)
{
    static const int32_t windows[] = {1, 2, 7, 16, LENGTH, 2 * LENGTH};
    (void)state;
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        struct fixture f;
        float out[WIDTH];
        init(&f, windows[w]);
        for (int32_t position = 0; position < LENGTH; position++) {
            eplb_attention_row(&f.attention, 1, 2, position, f.rows[position], out);
            for (int32_t i = 0; i < WIDTH; i++)
                assert_true(fabs(out[i] - expected(&f, position, i / DIM, i % DIM)) < 2e-5);
        }
        eplb_arena_free(f.block);
    }
}

/* Layers and caches have rings of their own: what runs beside a sequence does not change its bits. */
static void sequences_do_not_meet(void **state)
{
    struct fixture alone, beside;
    (void)state;
    init(&alone, 7);
    init(&beside, 7);
    for (int32_t position = 0; position < LENGTH; position++) {
        float out[WIDTH], same[WIDTH], other[WIDTH];
        eplb_attention_row(&alone.attention, 0, 1, position, alone.rows[position], out);
        for (int32_t layer = 0; layer < LAYERS; layer++)
            for (int32_t cache = 0; cache < CACHES; cache++)
                if (layer != 0 || cache != 1)
                    eplb_attention_row(&beside.attention, layer, cache, position,
                                       beside.rows[(position + layer + 2 * cache) % LENGTH], other);
        eplb_attention_row(&beside.attention, 0, 1, position, beside.rows[position], same);
        assert_memory_equal(out, same, sizeof out);
    }
    eplb_arena_free(alone.block);
    eplb_arena_free(beside.block);
}

/* What an earlier sequence left in a cache is never seen by the next one. */
static void a_cache_is_used_again(void **state)
{
    struct fixture fresh, used;
    (void)state;
    init(&fresh, 7);
    init(&used, 7);
    float out[WIDTH], same[WIDTH];
    for (int32_t position = 0; position < 20; position++)
        eplb_attention_row(&used.attention, 0, 0, position, used.rows[39 - position], same);
    for (int32_t position = 0; position < LENGTH; position++) {
        eplb_attention_row(&fresh.attention, 0, 0, position, fresh.rows[position], out);
        eplb_attention_row(&used.attention, 0, 0, position, used.rows[position], same);
        assert_memory_equal(out, same, sizeof out);
    }
    eplb_arena_free(fresh.block);
    eplb_arena_free(used.block);
}

/* Far from the beginning the angles are still those of the distances. */
static void positions_have_no_end(void **state)
{
    enum { FAR = 2000000000 };
    struct fixture f;
    float near[WIDTH], far[WIDTH];
    (void)state;
    init(&f, 8);
    assert_int_equal(FAR % 8, 0);
    for (int32_t position = 0; position < LENGTH; position++)
        eplb_attention_row(&f.attention, 0, 0, position, f.rows[position], near);
    for (int32_t position = 0; position < LENGTH; position++)
        eplb_attention_row(&f.attention, 0, 1, FAR + position, f.rows[position], far);
    assert_memory_equal(near, far, sizeof near);
    eplb_arena_free(f.block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attends_to_the_window_at_the_right_distances),
        cmocka_unit_test(sequences_do_not_meet),
        cmocka_unit_test(a_cache_is_used_again),
        cmocka_unit_test(positions_have_no_end),
    };
    return cmocka_run_group_tests_name("model_attention", tests, NULL, NULL);
}
