/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#include "sim/world.h"

/** A manager takes over: it knows what the ranks run, and nothing else. */
void sim_book_restart(struct world *world, uint64_t first_token)
{
    struct sim_checks *checks = &world->checks;
    checks->prepare.layer = EPLB_NO_LAYER;
    checks->activation.layer = EPLB_NO_LAYER;
    checks->last_layer = EPLB_NO_LAYER;
    checks->last_token = first_token - 1;
    checks->book.record_token = 0;
    checks->timer_armed = checks->sample_since_run = checks->shifted = false;
    checks->window_samples = checks->shifts = 0;
    checks->window_rows = 0;
    checks->num_published = checks->num_finished = 0;
    memset(&checks->open, 0, sizeof checks->open);
    memset(&checks->closed, 0, sizeof checks->closed);
    memcpy(checks->committed, checks->book.generations, sizeof checks->committed);
}

void sim_book_init(struct world *world)
{
    struct sim_checks *checks = &world->checks;
    sim_book_restart(world, world->config.first_token);
    for (int32_t layer = 0; layer < world->config.shape.num_layers; layer++)
        eplb_placement_initial(&world->config.shape, checks->book.tables[layer][0]);
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        checks->ranks[rank].resolved = true;
}

static struct sim_plan *find_plan(struct sim_book *book, uint64_t prepare_token)
{
    for (int32_t i = 0; i < SIM_BOOK_PLANS; i++)
        if (book->plans[i].token == prepare_token)
            return &book->plans[i];
    return NULL;
}

const struct sim_plan *sim_book_plan(struct world *world, uint64_t prepare_token)
{
    const struct sim_plan *plan = find_plan(&world->checks.book, prepare_token);
    if (plan == NULL)
        sim_fail(&world->sim, "book", "nothing is known of prepare %" PRIu64, prepare_token);
    return plan;
}

void sim_book_note_plan(struct world *world, const struct eplb_command *command, bool confused)
{
    struct sim_book *book = &world->checks.book;
    struct sim_plan *plan = find_plan(book, command->prepare_token.value);
    if (plan == NULL)
        plan = &book->plans[book->num_plans++ % SIM_BOOK_PLANS];
    plan->token = command->prepare_token.value;
    plan->layer = command->prepare_layer_id;
    plan->confused = confused;
    plan->built = false;
    size_t bytes = (size_t)world->config.shape.num_slots * sizeof *command->expert_ids;
    int32_t scratch[SIM_EXPERTS];
    memcpy(plan->table, command->expert_ids, bytes);
    if (command->replica_weights != NULL)
        memcpy(plan->weights, command->replica_weights, bytes);
    else
        eplb_weights_equal(&world->config.shape, plan->table, scratch, plan->weights);
}

const int32_t *sim_book_table(struct world *world, int32_t layer, uint64_t generation)
{
    const struct sim_book *book = &world->checks.book;
    if (generation > book->generations[layer] || generation + SIM_BOOK_TABLES <= book->generations[layer])
        sim_fail(&world->sim, "book", "layer %d runs generation %" PRIu64 ", records have decided %" PRIu64,
                 layer, generation, book->generations[layer]);
    return book->tables[layer][generation % SIM_BOOK_TABLES];
}

void sim_check_record_open(struct world *world, uint64_t token)
{
    struct sim_checks *checks = &world->checks;
    if (token <= checks->book.record_token)
        sim_fail(&world->sim, "record", "a record is opened for %" PRIu64 " after %" PRIu64, token,
                 checks->book.record_token);
    for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
        if (!world->ranks[rank].dead && !checks->ranks[rank].resolved)
            sim_fail(&world->sim, "record",
                     "a record is opened for %" PRIu64 " while rank %d has not reported %" PRIu64, token,
                     rank, checks->ranks[rank].token);
    checks->book.record_token = token;
    checks->book.record_layer = EPLB_NO_LAYER;
}

void sim_check_decided(struct world *world, uint64_t token, enum eplb_decision decision)
{
    struct sim_book *book = &world->checks.book;
    if (decision != EPLB_COMMIT)
        return;
    if (book->record_token != token || book->record_layer == EPLB_NO_LAYER)
        sim_fail(&world->sim, "record", "activation %" PRIu64 " commits and was never handed out", token);
    int32_t layer = book->record_layer;
    uint64_t generation = ++book->generations[layer];
    const struct sim_plan *plan = sim_book_plan(world, book->record_prepare);
    memcpy(book->tables[layer][generation % SIM_BOOK_TABLES], plan->table, sizeof plan->table);
    sim_book_weights(world, layer, generation, 0, plan->weights);
}
