/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* B58, B60: everything is reserved at the start, and no plan leaves anything behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "expert.h"
#include "migrate/layer_plan.h"
#include "migrate/transfer.h"
#include "support/tables.h"
#include "support/allocations.h"

enum { CYCLES = 10000 };

static const struct expert_sizes sizes = {{33, 5, 1}, 8};
static const int32_t table_a[] = {0, 1, 2, 2, 3, 0};
static const int32_t table_b[] = {0, 3, 2, 1, 2, 0};

static void creation_allocates_once_or_says_so(void **state)
{
    (void)state;
    static unsigned char data[3][5];
    struct eplb_tensor tensor = {.size = sizeof tensor,
                                 .name = "w",
                                 .data = data,
                                 .first_dimension = 3,
                                 .bytes_per_expert = 5,
                                 .per_expert = EPLB_PER_EXPERT_YES};
    struct eplb_weights_params params = {
        .size = sizeof params, .shape = tables_shape(4, 2, 1), .num_tensors = 1, .tensors = &tensor};
    struct eplb_weights *weights = NULL;
    struct eplb_error error;
    allocations_reset(1);
    assert_int_equal(eplb_weights_create(&params, &weights, &error), EPLB_NO_MEMORY);
    assert_int_equal(allocations_counted(), 1);
    assert_string_equal(error.text, "no memory for staging of 3 slots with 1 tensors");
    assert_null(weights);
    allocations_reset(0);
    assert_int_equal(eplb_weights_create(&params, &weights, &error), EPLB_OK);
    assert_int_equal(allocations_counted(), 1);
    eplb_weights_destroy(weights);
}

/* Rank 0 of two. Its messages are taken and answered at once. */
struct fixture {
    struct eplb_shape shape;
    struct expert_model model;
    struct eplb_layer_plan plan;
    void *plan_memory;
    void *scratch;
    struct eplb_transfer *transfer;
    int64_t messages;
};

static void init_fixture(struct fixture *f)
{
    static const struct eplb_transfer_limits limits = {8, 16, 1000};
    struct eplb_arena arena;
    *f = (struct fixture){.shape = tables_shape(4, 2, 1)};
    expert_model_init(&f->model, &f->shape, 0, &sizes, table_a);
    eplb_arena_init(&arena, NULL, 0);
    eplb_layer_plan_take(&arena, &f->shape, &f->plan);
    f->plan_memory = eplb_arena_block(arena.used);
    f->scratch = malloc(eplb_placement_diff_scratch(&f->shape));
    void *memory = eplb_arena_block(eplb_transfer_size(&f->shape, 39, &limits));
    assert_true(f->plan_memory != NULL && f->scratch != NULL && memory != NULL);
    eplb_arena_init(&arena, f->plan_memory, arena.used);
    eplb_layer_plan_take(&arena, &f->shape, &f->plan);
    f->transfer = eplb_transfer_init(memory, &f->shape, 0, 39, &limits);
}

static void free_fixture(struct fixture *f)
{
    expert_model_destroy(&f->model);
    eplb_arena_free(f->plan_memory);
    eplb_arena_free(f->transfer);
    free(f->scratch);
}

static void step(struct fixture *f, struct eplb_transfer_event event)
{
    struct eplb_transfer_action action;
    eplb_transfer_step(f->transfer, &event, 0);
    while (eplb_transfer_next(f->transfer, &action)) {
        struct eplb_part parts[EPLB_MAX_PARTS];
        if (action.type != EPLB_TRANSFER_POST_SEND && action.type != EPLB_TRANSFER_POST_RECV)
            continue;
        enum eplb_side side = action.type == EPLB_TRANSFER_POST_SEND ? EPLB_SIDE_ACTIVE : EPLB_SIDE_STAGING;
        assert_true(eplb_weights_parts(f->model.weights, 0, side, action.local_slot, action.offset,
                                       action.bytes, parts) > 0);
        struct eplb_transfer_event done = {.type = EPLB_TRANSFER_COMPLETED,
                                           .completion = {action.op, EPLB_OP_DONE}};
        eplb_transfer_step(f->transfer, &done, 0);
        f->messages++;
    }
}

static void cycle(struct fixture *f, uint64_t token, const int32_t *old_ids, const int32_t *new_ids,
                  enum eplb_decision decision)
{
    eplb_layer_plan_build(&f->plan, &f->shape, 0, old_ids, new_ids, f->scratch);
    f->plan.layer = 0;
    f->plan.weights_epoch = eplb_weights_epoch(f->model.weights);
    step(f, (struct eplb_transfer_event){.type = EPLB_TRANSFER_BEGIN, .token = {token}, .plan = &f->plan});
    assert_int_equal(eplb_weights_materialise(f->model.weights, &f->plan, NULL), EPLB_OK);
    step(f, (struct eplb_transfer_event){.type = EPLB_TRANSFER_MATERIALISED, .token = {token}, .ok = true});
    step(f,
         (struct eplb_transfer_event){.type = EPLB_TRANSFER_DECIDED, .token = {token}, .decision = decision});
    assert_int_equal(eplb_transfer_state(f->transfer), EPLB_TRANSFER_DONE);
    if (decision == EPLB_COMMIT)
        eplb_weights_activate(f->model.weights, &f->plan);
}

static void cycles_allocate_nothing(void **state)
{
    (void)state;
    struct fixture f;
    init_fixture(&f);
    allocations_reset(1);
    for (uint64_t i = 0; i < CYCLES; i++)
        cycle(&f, 1 + i, i % 2 == 0 ? table_a : table_b, i % 2 == 0 ? table_b : table_a, EPLB_COMMIT);
    for (uint64_t i = 0; i < CYCLES; i++)
        cycle(&f, 1 + CYCLES + i, table_a, table_b, EPLB_ABORT);
    assert_int_equal(allocations_counted(), 0);
    allocations_reset(0);
    /* From a to b one expert comes and one goes, five chunks each; back, the same. */
    assert_int_equal(f.messages, 2 * CYCLES * 10);
    free_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation_allocates_once_or_says_so),
        cmocka_unit_test(cycles_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
