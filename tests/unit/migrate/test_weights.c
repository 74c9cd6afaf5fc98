/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Registration, staging, and what activation leaves in the tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/migrate.h"
#include "expert.h"
#include "migrate/layer_plan.h"
#include "migrate/transfer.h"
#include "support/tables.h"

enum { LAYERS = 2, TENSORS = 4, SLOTS = 3 };

/* Two layers of a weight, a scale, a value derived of it, and a router; 6 experts on 3 ranks, 1 extra slot.
 */
struct model {
    unsigned char w[LAYERS][SLOTS][7];
    float scale[LAYERS][SLOTS];
    float alpha[LAYERS][SLOTS][3];
    unsigned char router[LAYERS][50];
    struct eplb_tensor tensors[LAYERS][TENSORS];
    struct eplb_weights_params params;
};

static struct eplb_tensor tensor(const char *name, void *data, int64_t first, int64_t bytes,
                                 enum eplb_per_expert per_expert)
{
    return (struct eplb_tensor){.size = sizeof(struct eplb_tensor),
                                .name = name,
                                .data = data,
                                .first_dimension = first,
                                .bytes_per_expert = bytes,
                                .per_expert = per_expert};
}

static void init_model(struct model *m)
{
    *m = (struct model){.params = {.size = sizeof m->params,
                                   .shape = tables_shape(6, 3, 1),
                                   .ep_rank = 1,
                                   .num_tensors = TENSORS,
                                   .tensors = &m->tensors[0][0],
                                   .expert_bytes = 7 + 4 + 12}};
    m->params.shape.num_layers = LAYERS;
    for (int layer = 0; layer < LAYERS; layer++) {
        struct eplb_tensor *row = m->tensors[layer];
        row[0] = tensor("w", m->w[layer], SLOTS, 7, EPLB_PER_EXPERT_YES);
        row[1] = tensor("scale", m->scale[layer], SLOTS, 4, EPLB_PER_EXPERT_YES);
        row[2] = tensor("alpha", m->alpha[layer], SLOTS, 12, EPLB_PER_EXPERT_YES);
        row[3] = tensor("router", m->router[layer], 50, 50, EPLB_PER_EXPERT_NO);
    }
}

static void assert_refused(const struct model *m, const char *text)
{
    struct eplb_weights *weights = NULL;
    struct eplb_error error = {0};
    assert_int_equal(eplb_weights_create(&m->params, &weights, &error), EPLB_INVALID);
    assert_null(weights);
    assert_string_equal(error.text, text);
}

static void a_wrong_call_is_refused(void **state)
{
    (void)state;
    struct model m;
    char text[200];
    init_model(&m);
    m.params.size = 8;
    snprintf(text, sizeof text, "eplb_weights_params.size is 8; this library's is %zu", sizeof m.params);
    assert_refused(&m, text);
    init_model(&m);
    m.params.shape.num_experts = 7;
    assert_refused(
        &m, "num_experts 7 is not divisible by ep_size 3: every rank must own the same number of experts");
    init_model(&m);
    m.params.shape.redundant_experts_num = 2;
    assert_refused(&m,
                   "eplb_weights_params.shape has 3 slots per rank and 9 slots; 6 experts on 3 ranks with 2 "
                   "redundant have 4 and 12");
    init_model(&m);
    m.params.ep_rank = 3;
    assert_refused(&m, "ep_rank 3 is not in [0, 3)");
    m.params.ep_rank = -1;
    assert_refused(&m, "ep_rank -1 is not in [0, 3)");
    init_model(&m);
    m.params.num_tensors = 0;
    assert_refused(&m, "0 tensors per layer are not in [1, 16]");
    m.params.num_tensors = 17;
    assert_refused(&m, "17 tensors per layer are not in [1, 16]");
    init_model(&m);
    m.params.tensors = NULL;
    assert_refused(&m, "the list of tensors is missing");
    init_model(&m);
    m.tensors[1][2].size = 4;
    snprintf(text, sizeof text, "layer 1, tensor 2: eplb_tensor.size is 4; this library's is %zu",
             sizeof(struct eplb_tensor));
    assert_refused(&m, text);
}

/* B50: nothing is guessed from a shape, and nothing is left out silently. */
static void a_wrong_tensor_is_refused(void **state)
{
    (void)state;
    struct model m;
    init_model(&m);
    m.tensors[0][3].name = NULL;
    assert_refused(&m, "layer 0, tensor 3 has no name");
    init_model(&m);
    m.tensors[0][3].name = "";
    assert_refused(&m, "layer 0, tensor 3 has no name");
    init_model(&m);
    m.tensors[0][1].per_expert = EPLB_PER_EXPERT_UNSAID;
    assert_refused(&m, "layer 0, tensor 1 (scale) does not say whether it is per expert: per_expert is 0");
    m.tensors[0][1].per_expert = (enum eplb_per_expert)3;
    assert_refused(&m, "layer 0, tensor 1 (scale) does not say whether it is per expert: per_expert is 3");
    static const int64_t wrong[] = {6, 2, 1, 0, -1};
    static const char *const sentences[] = {
        "layer 0, tensor 1 (scale) is per expert with first dimension 6; slots_per_rank is 3",
        "layer 0, tensor 1 (scale) is per expert with first dimension 2; slots_per_rank is 3",
        "layer 0, tensor 1 (scale) is per expert with first dimension 1; slots_per_rank is 3",
        "layer 0, tensor 1 (scale) is per expert with first dimension 0; slots_per_rank is 3",
        "layer 0, tensor 1 (scale) is per expert with first dimension -1; slots_per_rank is 3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        init_model(&m);
        m.tensors[0][1].first_dimension = wrong[i];
        assert_refused(&m, sentences[i]);
    }
    init_model(&m);
    m.tensors[0][3].first_dimension = -2;
    assert_refused(&m, "layer 0, tensor 3 (router) has first dimension -2; allowed is 0 (a scalar) and more");
    init_model(&m);
    m.tensors[1][0].data = NULL;
    assert_refused(&m, "layer 1, tensor 0 (w) has no address");
    init_model(&m);
    m.tensors[0][0].bytes_per_expert = 0;
    assert_refused(&m, "layer 0, tensor 0 (w) has 0 bytes per expert; allowed is 1 and more");
    init_model(&m);
    m.tensors[0][0].bytes_per_expert = INT64_MAX;
    assert_refused(&m,
                   "layer 0, tensor 0 (w): 3 times 9223372036854775807 bytes reach beyond the end of memory");
}

static void a_wrong_set_is_refused(void **state)
{
    (void)state;
    struct model m;
    init_model(&m);
    m.tensors[1][1].name = "bias";
    assert_refused(&m, "layer 1, tensor 1 (bias) is scale in layer 0; all layers have the same tensors");
    init_model(&m);
    m.tensors[1][1].per_expert = EPLB_PER_EXPERT_NO;
    assert_refused(&m, "layer 1, tensor 1 (scale) is per expert in one layer and not in another");
    init_model(&m);
    m.tensors[1][0].bytes_per_expert = 6;
    assert_refused(
        &m, "layer 1, tensor 0 (w) has 6 bytes per expert, but 7 in layer 0; staging serves all layers");
    init_model(&m);
    m.tensors[0][2].name = m.tensors[1][2].name = "w";
    assert_refused(&m, "tensors 0 and 2 have the same first 31 bytes of name, w");
    init_model(&m);
    m.tensors[1][0].data = m.w[0];
    assert_refused(&m, "layer 0, tensor 0 (w) and layer 1, tensor 0 (w) share memory");
    init_model(&m);
    m.tensors[0][3].data = (unsigned char *)m.alpha[0] + 35;
    assert_refused(&m, "layer 0, tensor 2 (alpha) and layer 0, tensor 3 (router) share memory");
    init_model(&m);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int t = 0; t < TENSORS; t++)
            m.tensors[layer][t].per_expert = EPLB_PER_EXPERT_NO;
    assert_refused(&m, "none of the 4 tensors of a layer is per expert");
    init_model(&m);
    m.tensors[0][1].per_expert = m.tensors[1][1].per_expert = EPLB_PER_EXPERT_NO;
    assert_refused(&m,
                   "an expert has 23 bytes, but its registered tensors add up to 19: the list lacks a tensor "
                   "or has one too many");
}

/* Tensors of any shape that are said not to move, one router for both layers among them. */
static void what_never_moves_may_have_any_shape(void **state)
{
    (void)state;
    static const int64_t firsts[] = {0, 1, SLOTS, 6, 288};
    struct eplb_weights *weights;
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        struct model m;
        init_model(&m);
        m.tensors[0][3].first_dimension = m.tensors[1][3].first_dimension = firsts[i];
        m.tensors[1][3].data = m.router[0];
        assert_int_equal(eplb_weights_create(&m.params, &weights, NULL), EPLB_OK);
        assert_int_equal(eplb_weights_staging_tensors(weights), 3);
        eplb_weights_destroy(weights);
    }
    eplb_weights_destroy(NULL);
}

struct lines {
    int count;
    char last[200];
};

static void collect(void *context, const struct eplb_log_record *record)
{
    struct lines *lines = context;
    lines->count++;
    eplb_log_format(record, lines->last, sizeof lines->last);
}

/* B58: the sizes of what is reserved are said at start. */
static void staging_mirrors_the_per_expert_tensors(void **state)
{
    (void)state;
    struct model m;
    struct lines lines = {0};
    struct eplb_log_sink sink = {.size = sizeof sink, .context = &lines, .write = collect};
    struct eplb_weights *weights;
    init_model(&m);
    m.params.log = &sink;
    assert_int_equal(eplb_weights_create(&m.params, &weights, NULL), EPLB_OK);
    assert_int_equal(eplb_weights_expert_bytes(weights), 23);
    assert_memory_equal(eplb_weights_shape(weights), &m.params.shape, sizeof m.params.shape);
    assert_int_equal(eplb_weights_ep_rank(weights), 1);
    /* 3 slots of 7, 4 and 12 bytes, each tensor padded to a cache line. */
    assert_int_equal(eplb_weights_staging_bytes(weights), 3 * 64);
    assert_int_equal(eplb_weights_epoch(weights), 1);
    assert_int_equal(lines.count, 1);
    assert_string_equal(lines.last, "EPLB staging reservation warmed | rank=1 | bytes=192 | tensors=3");
    eplb_weights_destroy(weights);
}

static void assert_part(struct eplb_part part, const void *data, size_t size)
{
    assert_ptr_equal(part.data, data);
    assert_int_equal(part.size, size);
}

static void a_message_runs_through_all_tensors_of_a_slot(void **state)
{
    (void)state;
    struct model m;
    struct eplb_part p[EPLB_MAX_PARTS];
    struct eplb_part s[EPLB_MAX_PARTS];
    struct eplb_weights *weights;
    init_model(&m);
    assert_int_equal(eplb_weights_create(&m.params, &weights, NULL), EPLB_OK);
    assert_int_equal(eplb_weights_parts(weights, 1, EPLB_SIDE_ACTIVE, 2, 0, 23, p), 3);
    assert_part(p[0], m.w[1][2], 7);
    assert_part(p[1], &m.scale[1][2], 4);
    assert_part(p[2], m.alpha[1][2], 12);
    assert_int_equal(eplb_weights_parts(weights, 0, EPLB_SIDE_ACTIVE, 0, 6, 6, p), 3);
    assert_part(p[0], &m.w[0][0][6], 1);
    assert_part(p[1], &m.scale[0][0], 4);
    assert_part(p[2], m.alpha[0][0], 1);
    assert_int_equal(eplb_weights_parts(weights, 0, EPLB_SIDE_ACTIVE, 1, 11, 12, p), 1);
    assert_part(p[0], m.alpha[0][1], 12);
    assert_int_equal(eplb_weights_parts(weights, 0, EPLB_SIDE_ACTIVE, 1, 22, 1, p), 1);
    assert_part(p[0], (unsigned char *)m.alpha[0][1] + 11, 1);
    assert_int_equal(eplb_weights_parts(weights, 0, EPLB_SIDE_ACTIVE, 1, 0, 7, p), 1);
    /* Staging has one place for all layers, and slots in it lie as in the tensors. */
    assert_int_equal(eplb_weights_parts(weights, 0, EPLB_SIDE_STAGING, 0, 0, 23, p), 3);
    assert_int_equal(eplb_weights_parts(weights, 1, EPLB_SIDE_STAGING, 2, 0, 23, s), 3);
    assert_ptr_equal((unsigned char *)p[0].data + 14, s[0].data);
    assert_ptr_equal((unsigned char *)p[1].data + 8, s[1].data);
    assert_ptr_equal((unsigned char *)p[2].data + 24, s[2].data);
    eplb_weights_destroy(weights);
}

/* All ranks' models in one process; messages are carried by hand. */
struct cluster {
    struct eplb_shape shape;
    struct expert_model models[8];
    struct eplb_layer_plan plans[8];
    void *memory;
    void *scratch;
};

static void init_cluster(struct cluster *c, const struct eplb_shape *shape, const struct expert_sizes *sizes,
                         const int32_t *tables)
{
    struct eplb_arena arena;
    *c = (struct cluster){.shape = *shape};
    eplb_arena_init(&arena, NULL, 0);
    for (int32_t r = 0; r < shape->ep_size; r++)
        eplb_layer_plan_take(&arena, shape, &c->plans[r]);
    c->memory = eplb_arena_block(arena.used);
    c->scratch = malloc(eplb_placement_diff_scratch(shape));
    assert_true(c->memory != NULL && c->scratch != NULL);
    eplb_arena_init(&arena, c->memory, arena.used);
    for (int32_t r = 0; r < shape->ep_size; r++) {
        eplb_layer_plan_take(&arena, shape, &c->plans[r]);
        expert_model_init(&c->models[r], shape, r, sizes, tables);
    }
}

static void free_cluster(struct cluster *c)
{
    for (int32_t r = 0; r < c->shape.ep_size; r++)
        expert_model_destroy(&c->models[r]);
    eplb_arena_free(c->memory);
    free(c->scratch);
}

static void plan_all(struct cluster *c, int32_t layer, const int32_t *old_ids, const int32_t *new_ids)
{
    for (int32_t r = 0; r < c->shape.ep_size; r++) {
        eplb_layer_plan_build(&c->plans[r], &c->shape, r, old_ids, new_ids, c->scratch);
        c->plans[r].layer = layer;
        c->plans[r].weights_epoch = eplb_weights_epoch(c->models[r].weights);
    }
}

/* One message, chunk by chunk; both sides cut it at the same places but lie apart in memory. */
static void carry(struct cluster *c, int32_t layer, const struct eplb_move *move)
{
    int32_t slots = c->shape.slots_per_rank;
    const struct eplb_weights *from = c->models[move->source_slot / slots].weights;
    const struct eplb_weights *to = c->models[move->slot / slots].weights;
    int64_t bytes = eplb_weights_expert_bytes(from);
    for (int64_t offset = 0; offset < bytes; offset += 5) {
        struct eplb_part source[EPLB_MAX_PARTS];
        struct eplb_part target[EPLB_MAX_PARTS];
        int64_t chunk = bytes - offset < 5 ? bytes - offset : 5;
        size_t count = eplb_weights_parts(from, layer, EPLB_SIDE_ACTIVE, move->source_slot % slots, offset,
                                          chunk, source);
        assert_int_equal(
            eplb_weights_parts(to, layer, EPLB_SIDE_STAGING, move->slot % slots, offset, chunk, target),
            count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(source[i].size, target[i].size);
            memcpy(target[i].data, source[i].data, source[i].size);
        }
    }
}

static void migrate(struct cluster *c, int32_t layer, const int32_t *old_ids, const int32_t *new_ids)
{
    plan_all(c, layer, old_ids, new_ids);
    for (int32_t r = 0; r < c->shape.ep_size; r++)
        assert_int_equal(eplb_weights_materialise(c->models[r].weights, &c->plans[r], NULL), EPLB_OK);
    for (int32_t i = 0; i < c->plans[0].num_moves; i++)
        if (c->plans[0].moves[i].kind == EPLB_MOVE_P2P)
            carry(c, layer, &c->plans[0].moves[i]);
    for (int32_t r = 0; r < c->shape.ep_size; r++)
        eplb_weights_activate(c->models[r].weights, &c->plans[r]);
}

static void assert_layer(const struct cluster *c, int32_t layer, const int32_t *expert_ids)
{
    for (int32_t r = 0; r < c->shape.ep_size; r++) {
        int32_t wrong = expert_model_wrong_slot(&c->models[r], layer, expert_ids);
        if (wrong >= 0)
            fail_msg("layer %d, rank %d, slot %d holds something else", layer, r, wrong);
    }
}

/* B54 as well: the shared expert's tensor is checked with the slots. */
static void slots_hold_what_the_table_says(void **state)
{
    (void)state;
    static const struct expert_sizes sizes = {{33, 17, 4, 3, 4, 1}, 100};
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 50);
    for (int i = 0; i < 20; i++) {
        int32_t ranks = 2 + (int32_t)eplb_prng_below(&prng, 7);
        struct eplb_shape shape = tables_shape(ranks * 3, ranks, (int32_t)eplb_prng_below(&prng, 3));
        int32_t tables[2][8 * 5];
        int32_t next[8 * 5];
        struct cluster c;
        shape.num_layers = 2;
        for (int layer = 0; layer < 2; layer++)
            eplb_placement_initial(&shape, tables[0] + layer * shape.num_slots);
        init_cluster(&c, &shape, &sizes, tables[0]);
        int32_t *rows[] = {tables[0], tables[0] + shape.num_slots};
        for (int j = 0; j < 10; j++) {
            int32_t layer = (int32_t)eplb_prng_below(&prng, 2);
            memcpy(next, rows[layer], (size_t)shape.num_slots * sizeof *next);
            tables_stir(&prng, &shape, next,
                        1 + (int32_t)eplb_prng_below(&prng, 3u * (uint64_t)shape.num_slots));
            migrate(&c, layer, rows[layer], next);
            memcpy(rows[layer], next, (size_t)shape.num_slots * sizeof *next);
            assert_layer(&c, 0, rows[0]);
            assert_layer(&c, 1, rows[1]);
        }
        free_cluster(&c);
    }
}

/* How many of a rank's unchanged slots were copied into staging. */
static int32_t staged_unchanged(const struct eplb_weights *weights, const struct eplb_layer_plan *plan,
                                int32_t slots)
{
    int32_t count = 0;
    for (int32_t slot = 0; slot < slots; slot++) {
        struct eplb_part part[EPLB_MAX_PARTS];
        int changed = 0;
        for (int32_t i = 0; i < plan->num_moves; i++)
            changed |= plan->moves[i].slot == slot;
        eplb_weights_parts(weights, 0, EPLB_SIDE_STAGING, slot, 0, 9, part);
        static const unsigned char untouched[9] = {0};
        count += !changed && memcmp(part[0].data, untouched, 9) != 0;
    }
    return count;
}

/* Fewer than half of the slots: those slots. Half and more: the whole pending tensor. */
static void half_of_the_slots_is_the_whole(void **state)
{
    (void)state;
    static const struct expert_sizes sizes = {{9}, 1};
    static const struct {
        int32_t experts;
        int32_t new_ids[10]; /* rank 0's slots first; rank 1 changes with it */
        int32_t unchanged_staged;
    } cases[] = {
        {8, {1, 0, 2, 3, 4, 5, 6, 7}, 2},        /* 2 of 4 */
        {8, {4, 1, 2, 3, 0, 5, 6, 7}, 0},        /* 1 of 4 */
        {10, {1, 0, 2, 3, 4, 5, 6, 7, 8, 9}, 0}, /* 2 of 5 */
        {10, {1, 2, 0, 3, 4, 5, 6, 7, 8, 9}, 2}, /* 3 of 5 */
        {8, {0, 1, 2, 3, 4, 5, 6, 7}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eplb_shape shape = tables_shape(cases[i].experts, 2, 0);
        int32_t initial[10];
        struct cluster c;
        eplb_placement_initial(&shape, initial);
        init_cluster(&c, &shape, &sizes, initial);
        migrate(&c, 0, initial, cases[i].new_ids);
        assert_int_equal(staged_unchanged(c.models[0].weights, &c.plans[0], shape.slots_per_rank),
                         cases[i].unchanged_staged);
        assert_layer(&c, 0, cases[i].new_ids);
        free_cluster(&c);
    }
}

/* B49: weight, scale and what is derived of the scale, one migration after the other. */
static void derived_values_go_with_their_expert(void **state)
{
    (void)state;
    enum { EXPERTS = 4, RANKS = 2, PER_RANK = 3, ROUNDS = 200 };
    struct eplb_shape shape = tables_shape(EXPERTS, RANKS, 1);
    float w[RANKS][PER_RANK], scale[RANKS][PER_RANK], alpha[RANKS][PER_RANK];
    struct eplb_weights *weights[RANKS];
    struct cluster c = {.shape = shape};
    int32_t old_ids[RANKS * PER_RANK], new_ids[RANKS * PER_RANK];
    static const struct expert_sizes unused = {{1}, 1};
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 49);
    eplb_placement_initial(&shape, old_ids);
    init_cluster(&c, &shape, &unused, old_ids);
    for (int r = 0; r < RANKS; r++) {
        for (int s = 0; s < PER_RANK; s++) {
            w[r][s] = (float)(10 * old_ids[r * PER_RANK + s]);
            scale[r][s] = (float)(1 + old_ids[r * PER_RANK + s]) / 8.0F;
            alpha[r][s] = 3.0F * scale[r][s];
        }
        struct eplb_tensor tensors[] = {
            tensor("w", w[r], PER_RANK, sizeof(float), EPLB_PER_EXPERT_YES),
            tensor("scale", scale[r], PER_RANK, sizeof(float), EPLB_PER_EXPERT_YES),
            tensor("alpha", alpha[r], PER_RANK, sizeof(float), EPLB_PER_EXPERT_YES)};
        struct eplb_weights_params params = {
            .size = sizeof params, .shape = shape, .ep_rank = r, .num_tensors = 3, .tensors = tensors};
        assert_int_equal(eplb_weights_create(&params, &weights[r], NULL), EPLB_OK);
        eplb_weights_destroy(c.models[r].weights);
        c.models[r].weights = weights[r];
    }
    for (int round = 0; round < ROUNDS; round++) {
        tables_random(&prng, &shape, new_ids);
        migrate(&c, 0, old_ids, new_ids);
        memcpy(old_ids, new_ids, sizeof old_ids);
        for (int r = 0; r < RANKS; r++) {
            for (int s = 0; s < PER_RANK; s++) {
                assert_true(w[r][s] == (float)(10 * new_ids[r * PER_RANK + s]));
                assert_true(alpha[r][s] == 3.0F * (float)(1 + new_ids[r * PER_RANK + s]) / 8.0F);
                assert_true(alpha[r][s] == 3.0F * scale[r][s]);
            }
        }
    }
    free_cluster(&c);
}

/* B34: one value per slot, reached through the map. */
static int routed(const struct cluster *c, const unsigned char values[2][2], int32_t expert)
{
    int32_t slot = c->plans[0].log2phy[expert];
    return values[slot / 2][slot % 2];
}

static void a_reload_goes_by_the_active_table(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    static const int32_t before[] = {0, 1, 2, 3};
    static const int32_t after[] = {0, 2, 1, 3};
    static const unsigned char weights_of[] = {110, 120, 130, 140};
    static const struct expert_sizes unused = {{1}, 1};
    unsigned char values[2][2] = {{10, 20}, {30, 40}};
    struct cluster c;
    struct eplb_tensor tensors[2];
    init_cluster(&c, &shape, &unused, before);
    for (int32_t r = 0; r < 2; r++) {
        tensors[r] = tensor("w", values[r], 2, 1, EPLB_PER_EXPERT_YES);
        struct eplb_weights_params params = {
            .size = sizeof params, .shape = shape, .ep_rank = r, .num_tensors = 1, .tensors = &tensors[r]};
        eplb_weights_destroy(c.models[r].weights);
        assert_int_equal(eplb_weights_create(&params, &c.models[r].weights, NULL), EPLB_OK);
    }
    migrate(&c, 0, before, after);
    for (int32_t e = 0; e < 4; e++)
        assert_int_equal(routed(&c, values, e), 10 * (e + 1));
    plan_all(&c, 0, after, before);
    for (int32_t slot = 0; slot < 4; slot++)
        values[slot / 2][slot % 2] = weights_of[after[slot]];
    for (int32_t r = 0; r < 2; r++)
        assert_int_equal(eplb_weights_reregister(c.models[r].weights, 0, 0, &tensors[r], NULL), EPLB_OK);
    /* The plan was made for what is gone: it does not even reach staging. */
    struct eplb_error error;
    struct eplb_part staged[EPLB_MAX_PARTS];
    eplb_weights_parts(c.models[0].weights, 0, EPLB_SIDE_STAGING, 1, 0, 1, staged);
    unsigned char was = *(unsigned char *)staged[0].data;
    assert_int_equal(eplb_weights_materialise(c.models[0].weights, &c.plans[0], &error), EPLB_REFUSED);
    assert_string_equal(error.text, "layer 0: a tensor was registered again after the plan was made");
    assert_int_equal(*(unsigned char *)staged[0].data, was);
    plan_all(&c, 0, after, after);
    for (int32_t e = 0; e < 4; e++)
        assert_int_equal(routed(&c, values, e), weights_of[e]);
    migrate(&c, 0, after, before);
    for (int32_t e = 0; e < 4; e++)
        assert_int_equal(routed(&c, values, e), weights_of[e]);
    free_cluster(&c);
}

/* B51: a tensor moves to another address with its layer, or nothing of the layer moves. */
static void storage_may_be_replaced(void **state)
{
    (void)state;
    struct model m;
    unsigned char elsewhere[SLOTS][7];
    struct eplb_weights *weights;
    struct eplb_part p[EPLB_MAX_PARTS];
    init_model(&m);
    assert_int_equal(eplb_weights_create(&m.params, &weights, NULL), EPLB_OK);
    struct eplb_tensor replacement = tensor("w", elsewhere, SLOTS, 7, EPLB_PER_EXPERT_YES);
    assert_int_equal(eplb_weights_reregister(weights, 1, 0, &replacement, NULL), EPLB_OK);
    assert_int_equal(eplb_weights_epoch(weights), 2);
    eplb_weights_parts(weights, 1, EPLB_SIDE_ACTIVE, 2, 0, 7, p);
    assert_part(p[0], elsewhere[2], 7);
    eplb_weights_parts(weights, 0, EPLB_SIDE_ACTIVE, 2, 0, 7, p);
    assert_part(p[0], m.w[0][2], 7);
    eplb_weights_destroy(weights);
}

static enum eplb_status refuse_post(void *self, int32_t peer, const struct eplb_message_tag *tag,
                                    const struct eplb_part *parts, size_t num_parts, struct eplb_op op)
{
    (void)self, (void)peer, (void)tag, (void)parts, (void)num_parts, (void)op;
    fail_msg("nothing is posted from memory that may be gone");
    return EPLB_OK;
}

static void a_tensor_that_does_not_fit_stops_its_layer(void **state)
{
    (void)state;
    static const int32_t table[] = {0, 1, 2, 2, 3, 4, 4, 5, 0};
    struct model m;
    struct eplb_error error;
    struct eplb_weights *weights;
    struct eplb_part p[EPLB_MAX_PARTS];
    init_model(&m);
    assert_int_equal(eplb_weights_create(&m.params, &weights, NULL), EPLB_OK);
    struct eplb_tensor larger = tensor("w", m.w[1], SLOTS, 8, EPLB_PER_EXPERT_YES);
    assert_int_equal(eplb_weights_reregister(weights, 1, 0, &larger, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 1, tensor 0 (w) has 8 bytes per expert, but 7 in layer 0; staging "
                                    "serves all layers");
    assert_int_equal(eplb_weights_epoch(weights), 2);
    struct eplb_layer_plan plan = {.layer = 1, .weights_epoch = 2, .expert_ids = (int32_t *)(uintptr_t)table};
    assert_int_equal(eplb_weights_materialise(weights, &plan, &error), EPLB_REFUSED);
    assert_string_equal(error.text,
                        "layer 1, tensor 0 (w) has no storage: its last registration was refused");
    assert_int_equal(eplb_weights_parts(weights, 1, EPLB_SIDE_ACTIVE, 0, 0, 1, p), 0);
    struct eplb_group group = {
        .size = sizeof group, .rank = 1, .num_ranks = 3, .post_send = refuse_post, .post_recv = refuse_post};
    struct eplb_transfer_action send = {.type = EPLB_TRANSFER_POST_SEND, .layer = 1, .bytes = 1};
    assert_int_equal(eplb_transfer_run_action(&send, &group, weights), EPLB_REFUSED);

    plan.layer = 0;
    assert_int_equal(eplb_weights_materialise(weights, &plan, &error), EPLB_OK);
    struct eplb_tensor fits = tensor("w", m.w[1], SLOTS, 7, EPLB_PER_EXPERT_YES);
    assert_int_equal(eplb_weights_reregister(weights, 1, 0, &fits, &error), EPLB_OK);
    plan.layer = 1;
    plan.weights_epoch = 3;
    assert_int_equal(eplb_weights_materialise(weights, &plan, &error), EPLB_OK);
    eplb_weights_destroy(weights);
}

static void a_wrong_replacement_is_refused(void **state)
{
    (void)state;
    struct model m;
    init_model(&m);
    const struct {
        int32_t layer, index;
        struct eplb_tensor tensor;
        uint64_t epoch;
        const char *text;
    } cases[] = {
        {2, 0, m.tensors[0][0], 1, "layer 2 is not in [0, 2)"},
        {-1, 0, m.tensors[0][0], 1, "layer -1 is not in [0, 2)"},
        {1, 4, m.tensors[0][0], 1, "layer 1: tensor 4 is not in [0, 4)"},
        {1, -1, m.tensors[0][0], 1, "layer 1: tensor -1 is not in [0, 4)"},
        {1, 0, m.tensors[1][1], 2,
         "layer 1, tensor 0 (scale) is w in layer 0; all layers have the same tensors"},
        {1, 0, m.tensors[0][0], 2, "layer 1, tensor 0 (w) shares memory with layer 0, tensor 0 (w)"},
        {1, 0, tensor("w", m.w[1], SLOTS, 7, EPLB_PER_EXPERT_NO), 2,
         "layer 1, tensor 0 (w) is per expert in one layer and not in another"},
        {1, 0, tensor("w", m.w[1], 6, 7, EPLB_PER_EXPERT_YES), 2,
         "layer 1, tensor 0 (w) is per expert with first dimension 6; slots_per_rank is 3"},
        {1, 0, tensor("w", NULL, SLOTS, 7, EPLB_PER_EXPERT_YES), 2, "layer 1, tensor 0 (w) has no address"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eplb_weights *weights;
        struct eplb_error error;
        assert_int_equal(eplb_weights_create(&m.params, &weights, NULL), EPLB_OK);
        assert_int_equal(
            eplb_weights_reregister(weights, cases[i].layer, cases[i].index, &cases[i].tensor, &error),
            EPLB_INVALID);
        assert_string_equal(error.text, cases[i].text);
        assert_int_equal(eplb_weights_epoch(weights), cases[i].epoch);
        eplb_weights_destroy(weights);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_call_is_refused),
        cmocka_unit_test(a_wrong_tensor_is_refused),
        cmocka_unit_test(a_wrong_set_is_refused),
        cmocka_unit_test(what_never_moves_may_have_any_shape),
        cmocka_unit_test(staging_mirrors_the_per_expert_tensors),
        cmocka_unit_test(a_message_runs_through_all_tensors_of_a_slot),
        cmocka_unit_test(slots_hold_what_the_table_says),
        cmocka_unit_test(half_of_the_slots_is_the_whole),
        cmocka_unit_test(derived_values_go_with_their_expert),
        cmocka_unit_test(a_reload_goes_by_the_active_table),
        cmocka_unit_test(storage_may_be_replaced),
        cmocka_unit_test(a_tensor_that_does_not_fit_stops_its_layer),
        cmocka_unit_test(a_wrong_replacement_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
