/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "exchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "expert.h"
#include "migrate/layer_plan.h"
#include "support/tables.h"

/* Where a rank is in its forward. */
enum stage { WAITING, STAGING, FORWARD, FINISHING, RESOLVED, DEAD };

/* What goes wrong for a rank in one attempt. */
enum fault { NO_FAULT, LACKS_PLAN, FAILS, HANGS, GIVES_UP, DIES, SLOW, NUM_FAULTS };

struct rank {
    struct eplb_transfer *transfer;
    struct expert_model model; /* weights NULL: sizes only */
    struct eplb_layer_plan plan;
    enum stage stage;
    enum fault fault;
    bool materialised;
};

struct exchange {
    const struct exchange_params *params;
    struct exchange_result *result;
    struct eplb_prng prng;
    struct network *network;
    struct rank *ranks;
    int32_t *old_ids;
    int32_t *new_ids;
    void *scratch;
    void *plans;
    struct eplb_activation_token token;
    bool someone_died;
    int64_t now;
};

__attribute__((format(printf, 2, 3))) static void violate(struct exchange *x, const char *format, ...)
{
    char text[EXCHANGE_VIOLATION / 2];
    va_list arguments;
    if (x->result->violation[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(x->result->violation, EXCHANGE_VIOLATION, "attempt %llu: %s", (unsigned long long)x->token.value,
             text);
}

static uint64_t below(struct exchange *x, uint64_t bound)
{
    return eplb_prng_below(&x->prng, bound);
}

static void step(struct exchange *x, int32_t r, struct eplb_transfer_event event);

static void do_action(struct exchange *x, int32_t r, const struct eplb_transfer_action *action)
{
    struct rank *rank = &x->ranks[r];
    const struct eplb_group *group = network_group(x->network, r);
    bool posts = action->type == EPLB_TRANSFER_POST_SEND || action->type == EPLB_TRANSFER_POST_RECV;
    enum eplb_status status;
    if (action->type == EPLB_TRANSFER_VOTE && action->yes && !rank->materialised)
        violate(x, "rank %d votes yes and has not materialised", r);
    if (posts && rank->model.weights == NULL)
        status = network_post(x->network, r, action->type == EPLB_TRANSFER_POST_SEND, action->peer,
                              &action->tag, action->bytes, action->op);
    else
        status = eplb_transfer_run_action(action, group, rank->model.weights);
    if (status != EPLB_OK)
        step(x, r,
             (struct eplb_transfer_event){.type = EPLB_TRANSFER_COMPLETED,
                                          .completion = {action->op, EPLB_OP_FAILED}});
}

static void check_bounds(struct exchange *x, int32_t r)
{
    const struct rank *rank = &x->ranks[r];
    struct exchange_result *result = x->result;
    int64_t sending = eplb_transfer_bytes_sending(rank->transfer);
    int64_t receiving = eplb_transfer_bytes_receiving(rank->transfer);
    if (sending > x->params->limits.inflight_bytes || receiving > x->params->limits.inflight_bytes)
        violate(x, "rank %d has %lld and %lld bytes in flight", r, (long long)sending, (long long)receiving);
    result->most_sending = sending > result->most_sending ? sending : result->most_sending;
    result->most_receiving = receiving > result->most_receiving ? receiving : result->most_receiving;
}

static void step(struct exchange *x, int32_t r, struct eplb_transfer_event event)
{
    struct rank *rank = &x->ranks[r];
    struct eplb_transfer_action action;
    event.token = x->token;
    eplb_transfer_step(rank->transfer, &event, x->now);
    while (eplb_transfer_next(rank->transfer, &action)) {
        do_action(x, r, &action);
        check_bounds(x, r);
    }
    if (rank->stage != RESOLVED && rank->stage != WAITING &&
        eplb_transfer_state(rank->transfer) == EPLB_TRANSFER_DONE) {
        rank->stage = RESOLVED;
        if (network_outstanding(x->network, r) > 0)
            violate(x, "rank %d is done with %d operations outstanding", r,
                    network_outstanding(x->network, r));
        network_set_attempt(x->network, r, 0);
    }
}

static void begin(struct exchange *x, int32_t r)
{
    struct rank *rank = &x->ranks[r];
    network_set_attempt(x->network, r, x->token.value);
    rank->stage = rank->fault == LACKS_PLAN ? FORWARD : STAGING;
    step(x, r,
         (struct eplb_transfer_event){
             .type = rank->fault == LACKS_PLAN ? EPLB_TRANSFER_NO_PLAN : EPLB_TRANSFER_BEGIN,
             .plan = rank->fault == LACKS_PLAN ? NULL : &rank->plan,
             .reason = rank->fault == LACKS_PLAN ? EPLB_REASON_NO_PLAN : EPLB_REASON_NONE});
}

static void materialise(struct exchange *x, int32_t r)
{
    struct rank *rank = &x->ranks[r];
    bool decided = eplb_transfer_decision(rank->transfer) != EPLB_UNDECIDED;
    if (rank->fault == HANGS && !decided)
        return;
    if (rank->fault == SLOW && below(x, 64) != 0)
        return;
    rank->materialised = rank->fault != FAILS;
    if (rank->materialised && rank->model.weights != NULL)
        assert_int_equal(eplb_weights_materialise(rank->model.weights, &rank->plan, NULL), EPLB_OK);
    rank->stage = FORWARD;
    step(x, r,
         (struct eplb_transfer_event){.type = EPLB_TRANSFER_MATERIALISED,
                                      .ok = rank->materialised,
                                      .reason = EPLB_REASON_HOOK_FAILED});
}

static void die(struct exchange *x, int32_t r)
{
    x->ranks[r].stage = DEAD;
    x->someone_died = true;
    x->result->deaths++;
    network_kill(x->network, r);
}

/* The forward ends: finish_step, or one of the ways in which it does not. */
static void finish(struct exchange *x, int32_t r)
{
    struct rank *rank = &x->ranks[r];
    bool gives_up = rank->fault == GIVES_UP || x->someone_died;
    rank->stage = FINISHING;
    step(x, r,
         (struct eplb_transfer_event){.type = gives_up ? EPLB_TRANSFER_GIVE_UP : EPLB_TRANSFER_FINISH,
                                      .reason = EPLB_REASON_STEP_ABORTED});
}

static void poll(struct exchange *x, int32_t r)
{
    const struct eplb_group *group = network_group(x->network, r);
    struct eplb_completion completions[4];
    size_t count = group->poll(group->self, x->token, completions, 1 + below(x, 4));
    for (size_t i = 0; i < count; i++)
        step(x, r,
             (struct eplb_transfer_event){.type = EPLB_TRANSFER_COMPLETED, .completion = completions[i]});
    step(x, r,
         (struct eplb_transfer_event){.type = EPLB_TRANSFER_DECIDED,
                                      .decision = group->record_read(group->self, x->token)});
}

static void move_rank(struct exchange *x, int32_t r)
{
    struct rank *rank = &x->ranks[r];
    if (rank->stage == RESOLVED || rank->stage == DEAD)
        return;
    if (rank->fault == DIES && below(x, 20) == 0)
        die(x, r);
    else if (rank->stage == WAITING)
        begin(x, r);
    else if (rank->stage == STAGING && below(x, 2) == 0)
        materialise(x, r);
    else if (rank->stage == FORWARD && below(x, 8) == 0)
        finish(x, r);
    else
        poll(x, r);
}

static bool all_resolved(const struct exchange *x)
{
    for (int32_t r = 0; r < x->params->shape.ep_size; r++)
        if (x->ranks[r].stage != RESOLVED && x->ranks[r].stage != DEAD)
            return false;
    return true;
}

/* What a supervisor does about a dead rank, and that it takes its time. */
static void supervise(struct exchange *x)
{
    const struct eplb_group *group = network_group(x->network, 0);
    if (x->someone_died && below(x, 200) == 0)
        group->record_abort(group->self, x->token);
}

static void draw_table(struct exchange *x)
{
    const struct eplb_shape *shape = &x->params->shape;
    if (x->params->all_change) {
        /* Every rank gets the experts of the next one. */
        for (int32_t slot = 0; slot < shape->num_slots; slot++)
            x->new_ids[slot] = x->old_ids[(slot + shape->slots_per_rank) % shape->num_slots];
        return;
    }
    memcpy(x->new_ids, x->old_ids, (size_t)shape->num_slots * sizeof *x->new_ids);
    tables_stir(&x->prng, shape, x->new_ids, 1 + (int32_t)below(x, 4 * (uint64_t)shape->num_slots));
}

static void start_attempt(struct exchange *x)
{
    const struct eplb_shape *shape = &x->params->shape;
    const struct eplb_group *group = network_group(x->network, 0);
    draw_table(x);
    x->token.value++;
    group->record_open(group->self, x->token);
    for (int32_t r = 0; r < shape->ep_size; r++) {
        struct rank *rank = &x->ranks[r];
        rank->plan.layer = 0;
        rank->plan.weights_epoch = 1;
        eplb_layer_plan_build(&rank->plan, shape, r, x->old_ids, x->new_ids, x->scratch);
        rank->stage = WAITING;
        rank->materialised = false;
        rank->fault = NO_FAULT;
        if (x->params->faults && below(x, 3 * (uint64_t)shape->ep_size) == 0)
            rank->fault = (enum fault)below(x, NUM_FAULTS);
        /* Where all hang, no forward ends and no deadline runs: that is for the manager to report. */
        if (rank->fault == HANGS && r == 0)
            rank->fault = SLOW;
    }
}

static void check_rank(struct exchange *x, int32_t r, enum eplb_decision decision)
{
    struct rank *rank = &x->ranks[r];
    if (eplb_transfer_decision(rank->transfer) != decision) {
        violate(x, "rank %d takes another outcome than the record", r);
        return;
    }
    enum eplb_reason reason = eplb_transfer_reason(rank->transfer);
    if ((decision == EPLB_COMMIT) != (reason == EPLB_REASON_NONE))
        violate(x, "rank %d has outcome %d with reason %d", r, (int)decision, (int)reason);
    x->result->kept_for[reason] += decision == EPLB_ABORT;
    if (rank->model.weights == NULL)
        return;
    if (decision == EPLB_COMMIT) {
        int32_t wrong = expert_model_wrong_staging(&rank->model, &rank->plan);
        if (wrong >= 0)
            violate(x, "rank %d, slot %d: staging is not what the plan says", r, wrong);
        eplb_weights_activate(rank->model.weights, &rank->plan);
    }
    if (expert_model_wrong_slot(&rank->model, 0, decision == EPLB_COMMIT ? x->new_ids : x->old_ids) >= 0)
        violate(x, "rank %d holds other weights than its table", r);
}

static void end_attempt(struct exchange *x)
{
    const struct eplb_group *group = network_group(x->network, 0);
    enum eplb_decision decision = group->record_read(group->self, x->token);
    for (int32_t r = 0; r < x->params->shape.ep_size; r++) {
        if (decision == EPLB_COMMIT && !x->ranks[r].materialised)
            violate(x, "committed, but rank %d did not materialise", r);
        if (x->ranks[r].stage == RESOLVED)
            check_rank(x, r, decision);
    }
    if (decision == EPLB_COMMIT)
        memcpy(x->old_ids, x->new_ids, (size_t)x->params->shape.num_slots * sizeof *x->old_ids);
    x->result->commits += decision == EPLB_COMMIT;
    x->result->aborts += decision == EPLB_ABORT;
}

static void run_attempt(struct exchange *x)
{
    enum { MOST_STEPS = 1000000 };
    const struct eplb_shape *shape = &x->params->shape;
    start_attempt(x);
    for (int32_t i = 0; !all_resolved(x) && x->result->violation[0] == '\0'; i++) {
        if (i == MOST_STEPS)
            violate(x, "not resolved after %d steps", i);
        x->now += (int64_t)below(x, 3);
        supervise(x);
        if (below(x, 2) == 0)
            network_progress(x->network);
        else
            move_rank(x, (int32_t)below(x, (uint64_t)shape->ep_size));
        if (network_violation(x->network)[0] != '\0')
            violate(x, "%s", network_violation(x->network));
    }
    end_attempt(x);
}

static void set_up(struct exchange *x)
{
    static const struct expert_sizes all_sizes[] = {{{7, 5, 1}, 9},
                                                    {{64}, 1},
                                                    {{33, 17, 4, 3, 4}, 100},
                                                    {{1}, 3},
                                                    {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 2}};
    const struct exchange_params *params = x->params;
    const struct eplb_shape *shape = &params->shape;
    const struct expert_sizes *sizes = &all_sizes[below(x, sizeof all_sizes / sizeof *all_sizes)];
    size_t table_bytes = (size_t)shape->num_slots * sizeof(int32_t);
    x->old_ids = malloc(table_bytes);
    x->new_ids = malloc(table_bytes);
    x->scratch = malloc(eplb_placement_diff_scratch(shape));
    x->ranks = calloc((size_t)shape->ep_size, sizeof *x->ranks);
    assert_true(x->old_ids != NULL && x->new_ids != NULL && x->scratch != NULL && x->ranks != NULL);
    eplb_placement_initial(shape, x->old_ids);
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    for (int32_t r = 0; r < shape->ep_size; r++)
        eplb_layer_plan_take(&arena, shape, &x->ranks[r].plan);
    x->plans = eplb_arena_block(arena.used);
    assert_non_null(x->plans);
    eplb_arena_init(&arena, x->plans, arena.used);
    for (int32_t r = 0; r < shape->ep_size; r++) {
        struct rank *rank = &x->ranks[r];
        eplb_layer_plan_take(&arena, shape, &rank->plan);
        int64_t bytes = params->expert_bytes;
        if (bytes == 0) {
            expert_model_init(&rank->model, shape, r, sizes, x->old_ids);
            bytes = eplb_weights_expert_bytes(rank->model.weights);
        }
        assert_int_equal(eplb_transfer_limits_check(&params->limits, bytes, NULL), EPLB_OK);
        void *memory = eplb_arena_block(eplb_transfer_size(shape, bytes, &params->limits));
        assert_non_null(memory);
        rank->transfer = eplb_transfer_init(memory, shape, r, bytes, &params->limits);
    }
}

static void tear_down(struct exchange *x)
{
    for (int32_t r = 0; r < x->params->shape.ep_size; r++) {
        if (x->ranks[r].model.weights != NULL)
            expert_model_destroy(&x->ranks[r].model);
        eplb_arena_free(x->ranks[r].transfer);
    }
    network_destroy(x->network);
    eplb_arena_free(x->plans);
    free(x->ranks);
    free(x->scratch);
    free(x->new_ids);
    free(x->old_ids);
}

void exchange_run(const struct exchange_params *params, struct exchange_result *result)
{
    *result = (struct exchange_result){0};
    struct exchange x = {.params = params, .result = result};
    eplb_prng_seed(&x.prng, params->seed);
    struct network_params network = {.num_ranks = params->shape.ep_size,
                                     .eager = (unsigned)below(&x, 3) * 50,
                                     .late_cancel = below(&x, 2) == 0};
    if (params->faults && below(&x, 4) == 0)
        network.lose = 5;
    if (params->faults && below(&x, 4) == 0)
        network.refuse = 2;
    x.network = network_create(&network, &x.prng);
    set_up(&x);
    for (int32_t i = 0; i < params->num_attempts && !x.someone_died && result->violation[0] == '\0'; i++)
        run_attempt(&x);
    result->messages = network_messages(x.network);
    result->bytes = network_bytes(x.network);
    tear_down(&x);
}

struct exchange_params exchange_draw(uint64_t seed)
{
    struct eplb_prng prng;
    eplb_prng_seed(&prng, ~seed);
    int32_t ranks = 2 + (int32_t)eplb_prng_below(&prng, 5);
    int32_t experts = ranks * (1 + (int32_t)eplb_prng_below(&prng, 4));
    int32_t redundant = (int32_t)eplb_prng_below(&prng, 3);
    if (experts / ranks + redundant > experts)
        redundant = experts - experts / ranks;
    int64_t chunk = 1 + (int64_t)eplb_prng_below(&prng, 40);
    return (struct exchange_params){.seed = seed,
                                    .shape = tables_shape(experts, ranks, redundant),
                                    .limits = {.chunk_bytes = chunk,
                                               .inflight_bytes = chunk + (int64_t)eplb_prng_below(&prng, 100),
                                               .timeout_ns = eplb_prng_below(&prng, 4) == 0
                                                                 ? 1 + (int64_t)eplb_prng_below(&prng, 2000)
                                                                 : 20000},
                                    .num_attempts = 4,
                                    .faults = eplb_prng_below(&prng, 4) != 0};
}
