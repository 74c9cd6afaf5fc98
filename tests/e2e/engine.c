/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "e2e/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_FLIGHTS = 2 };

/** What the engine remembers of a forward that is in flight. */
struct flight {
    uint64_t seq;
    int64_t counted_tokens; /* real ones of all ranks; 0 for a warm-up */
};

struct engine {
    struct team *team;
    struct eplb_manager *manager;
    struct eplb_manager_params params;
    struct eplb_shape shape;
    int32_t overlap, tokens, top_k;
    uint64_t submitted, collected; /* handed out, of these collected */
    uint64_t seq;                  /* last one, dropped ones included */
    struct flight flights[MAX_FLIGHTS];
    enum engine_fate fates[TEAM_MAX_RANKS];
    struct eplb_worker_output outputs[TEAM_MAX_RANKS];  /* as the manager is told */
    struct eplb_worker_output previous[TEAM_MAX_RANKS]; /* as the ranks gave them; size 0: none yet */
    int64_t *prefixes;                                  /* [R][L][slots_per_rank] of previous */
    uint64_t *generations;                              /* [R][L] of previous */
};

void engine_params_init(struct engine_params *params)
{
    team_params_init(&params->team);
    eplb_manager_params_init(&params->manager);
    params->manager.update_interval_seconds = 0;
}

static void create_manager(struct engine *engine, const struct eplb_manager_params *params)
{
    struct eplb_error error;
    engine->params = *params;
    engine->params.shape = engine->shape;
    engine->params.overlap = engine->overlap;
    engine->params.group = team_engine_group(engine->team);
    if (eplb_manager_create(&engine->params, &engine->manager, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    engine->seq = engine->params.first_seq - 1;
}

struct engine *engine_create(const struct engine_params *params)
{
    struct engine *engine = calloc(1, sizeof *engine);
    assert_non_null(engine);
    engine->shape = params->team.shape;
    engine->overlap = params->team.overlap;
    engine->tokens = params->team.tokens;
    engine->top_k = params->team.top_k;
    size_t ranks = (size_t)engine->shape.ep_size;
    size_t layers = (size_t)engine->shape.num_layers;
    engine->prefixes =
        calloc(ranks * layers * (size_t)engine->shape.slots_per_rank, sizeof *engine->prefixes);
    engine->generations = calloc(ranks * layers, sizeof *engine->generations);
    assert_non_null(engine->prefixes);
    assert_non_null(engine->generations);
    engine->team = team_create(&params->team);
    create_manager(engine, &params->manager);
    return engine;
}

void engine_destroy(struct engine *engine)
{
    engine_drain(engine);
    eplb_manager_destroy(engine->manager);
    team_destroy(engine->team);
    free(engine->generations);
    free(engine->prefixes);
    free(engine);
}

void engine_stop_manager(struct engine *engine)
{
    eplb_manager_destroy(engine->manager);
    engine->manager = NULL;
}

void engine_replace_manager(struct engine *engine, const struct eplb_manager_params *params)
{
    assert_int_equal(engine->submitted, engine->collected);
    engine_stop_manager(engine);
    create_manager(engine, params);
}

struct team *engine_team(const struct engine *engine)
{
    return engine->team;
}

struct eplb_manager *engine_manager(const struct engine *engine)
{
    return engine->manager;
}

/* ------------------------------------------------------------------------------------- forwards */

struct eplb_dp_batch engine_batch(const struct engine *engine, enum engine_traffic traffic, uint64_t seq,
                                  int32_t rank)
{
    int64_t some = 1 + (rank + (int64_t)seq) % engine->tokens;
    bool one = rank == (int32_t)(seq % (uint64_t)engine->shape.ep_size);
    bool decodes = traffic == ENGINE_DECODE || traffic == ENGINE_WARMUP ||
                   (traffic == ENGINE_SPARSE && rank == 0) || (traffic == ENGINE_MIXED && !one);
    bool prefills = traffic == ENGINE_PREFILL || (traffic == ENGINE_MIXED && one);
    return (struct eplb_dp_batch){.prefill_tokens = prefills ? some : 0, .decode_tokens = decodes ? some : 0};
}

static struct eplb_command ask(struct engine *engine, enum engine_traffic traffic,
                               struct eplb_dp_batch batches[TEAM_MAX_RANKS])
{
    struct eplb_command command;
    struct eplb_error error;
    engine->seq++;
    for (int32_t rank = 0; rank < engine->shape.ep_size; rank++)
        batches[rank] = engine_batch(engine, traffic, engine->seq, rank);
    const struct eplb_forward forward = {.size = sizeof forward,
                                         .seq = engine->seq,
                                         .batches = batches,
                                         .num_batches = engine->shape.ep_size,
                                         .warmup = traffic == ENGINE_WARMUP};
    if (eplb_manager_submit(engine->manager, &forward, &command, &error) != EPLB_OK)
        team_fail(engine->team, "%s", error.text);
    assert_int_equal(command.seq, engine->seq);
    return command;
}

struct eplb_command engine_submit(struct engine *engine, enum engine_traffic traffic)
{
    struct eplb_dp_batch batches[TEAM_MAX_RANKS];
    struct eplb_command command = ask(engine, traffic, batches);
    struct flight *flight = &engine->flights[engine->submitted++ % MAX_FLIGHTS];
    *flight = (struct flight){.seq = engine->seq};
    for (int32_t rank = 0; rank < engine->shape.ep_size && traffic != ENGINE_WARMUP; rank++)
        flight->counted_tokens += batches[rank].prefill_tokens + batches[rank].decode_tokens;
    team_submit(engine->team, &command, batches, traffic == ENGINE_WARMUP);
    return command;
}

struct eplb_command engine_drop(struct engine *engine, enum engine_traffic traffic)
{
    struct eplb_dp_batch batches[TEAM_MAX_RANKS];
    struct eplb_error error;
    struct eplb_command command = ask(engine, traffic, batches);
    if (eplb_manager_dropped(engine->manager, engine->seq, &error) != EPLB_OK)
        team_fail(engine->team, "%s", error.text);
    return command;
}

/** Every token's top_k choices are counted, each once, on whichever rank has the slot. */
static void check_counts(const struct engine *engine, const struct flight *flight,
                         const struct eplb_worker_output *given)
{
    int32_t slots = engine->shape.slots_per_rank;
    for (int32_t layer = 0; layer < engine->shape.num_layers; layer++) {
        int64_t counted = 0;
        for (int32_t rank = 0; rank < engine->shape.ep_size; rank++) {
            if (given[rank].prefix == NULL)
                return;
            assert_int_equal(given[rank].seq, flight->seq);
            counted += given[rank].prefix[layer * slots + slots - 1];
        }
        assert_int_equal(counted, flight->counted_tokens * engine->top_k);
    }
}

static void remember(struct engine *engine, int32_t rank, const struct eplb_worker_output *given)
{
    size_t layers = (size_t)engine->shape.num_layers;
    size_t counts = layers * (size_t)engine->shape.slots_per_rank;
    struct eplb_worker_output *kept = &engine->previous[rank];
    *kept = *given;
    if (given->prefix == NULL)
        return;
    int64_t *prefix = engine->prefixes + (size_t)rank * counts;
    uint64_t *generations = engine->generations + (size_t)rank * layers;
    memcpy(prefix, given->prefix, counts * sizeof *prefix);
    memcpy(generations, given->generations, layers * sizeof *generations);
    kept->prefix = prefix;
    kept->generations = generations;
}

const struct eplb_worker_output *engine_collect(struct engine *engine)
{
    struct eplb_error error;
    const struct flight *flight = &engine->flights[engine->collected++ % MAX_FLIGHTS];
    const struct eplb_worker_output *given = team_collect(engine->team);
    check_counts(engine, flight, given);
    for (int32_t rank = 0; rank < engine->shape.ep_size; rank++) {
        engine->outputs[rank] = engine->fates[rank] == ENGINE_REPEATED ? engine->previous[rank] : given[rank];
        if (engine->fates[rank] == ENGINE_LOST)
            engine->outputs[rank].prefix = NULL;
    }
    if (engine->manager != NULL && eplb_manager_outputs(engine->manager, flight->seq, engine->outputs,
                                                        engine->shape.ep_size, &error) != EPLB_OK)
        team_fail(engine->team, "%s", error.text);
    for (int32_t rank = 0; rank < engine->shape.ep_size; rank++)
        remember(engine, rank, &given[rank]);
    return given;
}

struct eplb_command engine_forward(struct engine *engine, enum engine_traffic traffic)
{
    struct eplb_command command = engine_submit(engine, traffic);
    if (team_in_flight(engine->team) > engine->overlap)
        engine_collect(engine);
    return command;
}

void engine_drain(struct engine *engine)
{
    while (team_in_flight(engine->team) > 0)
        engine_collect(engine);
}

/* --------------------------------------------------------------------------------------- faults */

void engine_set_fate(struct engine *engine, int32_t rank, enum engine_fate fate)
{
    engine->fates[rank] = fate;
}

void engine_kill(struct engine *engine, int32_t rank)
{
    team_kill(engine->team, rank);
    eplb_manager_rank_dead(engine->manager, rank);
}

/* ------------------------------------------------------------------------------------ conditions */

struct eplb_manager_status engine_status(const struct engine *engine)
{
    struct eplb_manager_status status;
    eplb_manager_status(engine->manager, &status);
    return status;
}

bool engine_is_ready(const struct eplb_manager_status *status)
{
    return status->ready;
}

bool engine_is_quiet(const struct eplb_manager_status *status)
{
    return status->activating_layer == EPLB_NO_LAYER;
}

bool engine_has_committed(const struct eplb_manager_status *status)
{
    return status->layers_committed > 0;
}

void engine_run_until(struct engine *engine, bool (*holds)(const struct eplb_manager_status *status),
                      const char *what)
{
    int64_t deadline = team_deadline();
    struct eplb_manager_status status = engine_status(engine);
    while (!holds(&status)) {
        engine_forward(engine, ENGINE_DECODE);
        engine_drain(engine);
        status = engine_status(engine);
        if (eplb_clock_system()->now(NULL) > deadline)
            team_fail(engine->team, "the manager never is %s", what);
    }
}

void engine_settle(struct engine *engine)
{
    size_t slots = (size_t)engine->shape.num_slots;
    engine_drain(engine);
    engine_run_until(engine, engine_is_quiet, "quiet");
    int32_t *tables = calloc((size_t)engine->shape.num_layers * slots, sizeof *tables);
    assert_non_null(tables);
    for (int32_t layer = 0; layer < engine->shape.num_layers; layer++) {
        uint64_t generation = eplb_manager_placement(engine->manager, layer, tables + (size_t)layer * slots);
        for (int32_t rank = 0; rank < engine->shape.ep_size; rank++)
            if (!team_is_dead(engine->team, rank))
                assert_int_equal(eplb_executor_generations(team_executor(engine->team, rank))[layer],
                                 generation);
    }
    team_check(engine->team, tables);
    free(tables);
}
