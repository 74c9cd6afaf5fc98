/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "e2e/director.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void director_init(struct director *director, struct team *team)
{
    const struct eplb_shape *shape = team_shape(team);
    size_t layers = (size_t)shape->num_layers;
    size_t slots = (size_t)shape->num_slots;
    *director = (struct director){.team = team, .shape = *shape};
    director->tables = calloc((layers + 2) * slots, sizeof *director->tables);
    director->generations = calloc(layers, sizeof *director->generations);
    assert_non_null(director->tables);
    director->scratch = malloc(eplb_placement_diff_scratch(shape));
    assert_non_null(director->generations);
    assert_non_null(director->scratch);
    director->prepared_table = director->tables + layers * slots;
    director->activated_table = director->prepared_table + slots;
    for (size_t layer = 0; layer < layers; layer++)
        eplb_placement_initial(shape, director->tables + layer * slots);
}

void director_destroy(struct director *director)
{
    free(director->scratch);
    free(director->generations);
    free(director->tables);
}

static int32_t *table_of(const struct director *director, int32_t layer)
{
    return director->tables + (size_t)layer * (size_t)director->shape.num_slots;
}

const int32_t *director_table(const struct director *director, int32_t layer)
{
    return table_of(director, layer);
}

static struct eplb_command *open_command(struct director *director)
{
    if (!director->open)
        eplb_command_init(&director->command, ++director->seq);
    director->open = true;
    return &director->command;
}

static void count_moves(struct director *director, int32_t layer)
{
    struct eplb_move moves[TEAM_MAX_SLOTS];
    director->moves = eplb_placement_diff(&director->shape, table_of(director, layer),
                                          director->prepared_table, director->scratch, moves);
    director->messages = 0;
    for (int64_t i = 0; i < director->moves; i++)
        director->messages += moves[i].kind == EPLB_MOVE_P2P;
}

void director_prepare(struct director *director, int32_t layer, const int32_t *table)
{
    struct eplb_command *command = open_command(director);
    memcpy(director->prepared_table, table, (size_t)director->shape.num_slots * sizeof *table);
    director->prepared_layer = layer;
    director->prepared_token = ++director->token;
    command->prepare_layer_id = layer;
    command->prepare_token.value = director->prepared_token;
    command->base_generation = director->generations[layer];
    command->base_hash = eplb_placement_hash(&director->shape, table_of(director, layer));
    command->expert_ids = director->prepared_table;
    command->num_expert_ids = director->shape.num_slots;
    count_moves(director, layer);
}

void director_activate_token(struct director *director, int32_t layer, uint64_t prepare_token)
{
    const struct eplb_group *engine = team_engine_group(director->team);
    struct eplb_command *command = open_command(director);
    command->update_layer_id = layer;
    command->activation_token.value = ++director->token;
    command->update_prepare_token.value = prepare_token;
    engine->record_open(engine->self, command->activation_token);
}

void director_activate(struct director *director)
{
    memcpy(director->activated_table, director->prepared_table,
           (size_t)director->shape.num_slots * sizeof *director->prepared_table);
    director_activate_token(director, director->prepared_layer, director->prepared_token);
}

void director_submit(struct director *director)
{
    static const struct eplb_dp_batch batches[TEAM_MAX_RANKS] = {
        {.decode_tokens = 4}, {.decode_tokens = 1}, {.decode_tokens = 6}, {.decode_tokens = 0},
        {.decode_tokens = 3}, {.decode_tokens = 5}, {.decode_tokens = 2}, {.decode_tokens = 6},
    };
    team_submit(director->team, open_command(director), batches, false);
    director->open = false;
}

const struct eplb_worker_output *director_collect(struct director *director)
{
    return team_collect(director->team);
}

const struct eplb_worker_output *director_forward(struct director *director)
{
    director_submit(director);
    return director_collect(director);
}

enum eplb_prepare_status director_await_prepared(struct director *director)
{
    int64_t deadline = team_deadline();
    for (;;) {
        const struct eplb_worker_output *outputs = director_forward(director);
        enum eplb_prepare_status status = EPLB_PREPARE_NONE;
        bool running = false;
        for (int32_t rank = 0; rank < director->shape.ep_size; rank++) {
            if (outputs[rank].prefix == NULL)
                continue;
            const struct eplb_worker_levels *levels = &outputs[rank].levels;
            assert_int_equal(levels->prepare_token.value, director->prepared_token);
            running = running || levels->prepare_status == EPLB_PREPARE_RUNNING;
            if (levels->prepare_status > status)
                status = levels->prepare_status;
        }
        if (!running)
            return status;
        if (eplb_clock_system()->now(NULL) > deadline)
            team_fail(director->team, "prepare_token %d stays unfinished", (int)director->prepared_token);
    }
}

enum eplb_activation_outcome director_outcome(struct director *director,
                                              const struct eplb_worker_output *outputs)
{
    int32_t layer = director->command.update_layer_id;
    enum eplb_activation_outcome outcome = EPLB_ACTIVATION_NONE;
    for (int32_t rank = 0; rank < director->shape.ep_size; rank++) {
        if (outputs[rank].prefix == NULL)
            continue;
        const struct eplb_worker_levels *levels = &outputs[rank].levels;
        assert_int_equal(levels->activation_token.value, director->command.activation_token.value);
        assert_int_not_equal(levels->activation_outcome, EPLB_ACTIVATION_NONE);
        if (outcome != EPLB_ACTIVATION_NONE)
            assert_int_equal(levels->activation_outcome, outcome);
        outcome = levels->activation_outcome;
    }
    if (outcome == EPLB_ACTIVATION_SWITCHED) {
        memcpy(table_of(director, layer), director->activated_table,
               (size_t)director->shape.num_slots * sizeof *director->tables);
        director->generations[layer]++;
    }
    return outcome;
}

void director_move(struct director *director, int32_t layer, const int32_t *table)
{
    director_prepare(director, layer, table);
    assert_int_equal(director_await_prepared(director), EPLB_PREPARE_OK);
    director_activate(director);
    assert_int_equal(director_outcome(director, director_forward(director)), EPLB_ACTIVATION_SWITCHED);
    director_check(director);
}

void director_check(const struct director *director)
{
    team_check_all(director->team, director->tables, director->generations);
}
