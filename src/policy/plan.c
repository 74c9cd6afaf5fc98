/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/plan.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/error.h"
#include "policy/layer_plan.h"
#include "policy/policies.h"

/**
 * A call. It lies in the scratch memory that the caller gave, at its first address of the right alignment:
 *
 *   | pad | initial | works | of worker 0 | of worker 1 | ... | pad |
 */
struct call {
    struct eplb_layer_rules rules;
    const struct eplb_plan_request *request;
    struct eplb_plan *plan;
    const int64_t *history[EPLB_MAX_POLICY_WINDOWS]; /* where each window begins */
    const int64_t *parts[EPLB_MAX_POLICY_WINDOWS];
    int32_t *initial; /* [R][K] */
    struct eplb_layer_work *works;
};

void eplb_plan_request_init(struct eplb_plan_request *request)
{
    *request = (struct eplb_plan_request){
        .size = sizeof *request, .policy = &eplb_policy_balanced, .min_improvement = 0.05, .num_threads = 1};
    eplb_policy_settings_init(&request->settings);
}

void eplb_plan_init(struct eplb_plan *plan)
{
    *plan = (struct eplb_plan){.size = sizeof *plan};
}

int32_t eplb_plan_workers(const struct eplb_plan_request *request)
{
    int32_t layers = request->shape.num_layers;
    return request->num_threads < layers ? request->num_threads : layers;
}

static struct eplb_layer_rules rules_of(const struct eplb_plan_request *request)
{
    return (struct eplb_layer_rules){.shape = request->shape,
                                     .ops = request->policy,
                                     .settings = request->settings,
                                     .threshold = request->min_improvement,
                                     .max_moves = request->max_moves,
                                     .routing = request->replica_routing,
                                     .cost = request->cost};
}

/* -------------------------------------------------------------------------------------- checks */

/** What must be right before the size of the scratch memory can be told. */
static enum eplb_status check_sizes(const struct eplb_plan_request *request, struct eplb_error *error)
{
    if (request->size != sizeof *request)
        EPLB_FAIL(EPLB_INVALID, "eplb_plan_request.size is %zu; this library's is %zu", request->size,
                  sizeof *request);
    if (request->num_threads < 1 || request->num_threads > EPLB_MAX_WORKERS)
        EPLB_FAIL(EPLB_INVALID, "eplb_plan_request.num_threads is %d; allowed is 1 to %d",
                  request->num_threads, EPLB_MAX_WORKERS);
    if ((int)request->replica_routing < 0 || request->replica_routing >= EPLB_NUM_ROUTINGS)
        EPLB_FAIL(EPLB_INVALID, "eplb_plan_request.replica_routing is %d; allowed is 0 to %d",
                  (int)request->replica_routing, EPLB_NUM_ROUTINGS - 1);
    const struct eplb_layer_rules rules = rules_of(request);
    return eplb_layer_rules_check(&rules, "eplb_plan_request", "min_improvement", error);
}

static enum eplb_status check_layer(const struct eplb_plan_request *request, int32_t layer,
                                    struct eplb_error *error)
{
    const struct eplb_shape *shape = &request->shape;
    size_t row = (size_t)layer * (size_t)shape->num_slots;
    struct eplb_error reason;
    EPLB_TRY(eplb_layer_loads_check(layer, "expert",
                                    request->load + (size_t)layer * (size_t)shape->num_experts,
                                    shape->num_experts, error));
    if (request->physical != NULL)
        EPLB_TRY(eplb_layer_loads_check(layer, "slot", request->physical + row, shape->num_slots, error));
    if (request->active != NULL && eplb_placement_check(shape, request->active + row, &reason) != EPLB_OK)
        EPLB_FAIL(EPLB_INVALID, "active table, layer %d: %s", layer, reason.text);
    return EPLB_OK;
}

/** Windows before this one, or pieces of it: as many layers each as there are in all. */
static enum eplb_status check_windows(const struct eplb_plan_request *request, const char *what,
                                      const int64_t *windows, int32_t count, struct eplb_error *error)
{
    const struct eplb_shape *shape = &request->shape;
    if (count < 0 || count > EPLB_MAX_POLICY_WINDOWS || (count > 0 && windows == NULL))
        EPLB_FAIL(EPLB_INVALID, "eplb_plan_request.num_%s is %d%s; allowed is 0 to %d", what, count,
                  windows == NULL ? ", and there are none" : "", EPLB_MAX_POLICY_WINDOWS);
    size_t experts = (size_t)shape->num_experts;
    for (int32_t i = 0; i < count * shape->num_layers; i++)
        EPLB_TRY(eplb_layer_loads_check(i % shape->num_layers, "expert", windows + (size_t)i * experts,
                                        shape->num_experts, error));
    return EPLB_OK;
}

enum eplb_status eplb_plan_check(const struct eplb_plan_request *request, const void *scratch,
                                 const struct eplb_plan *plan, struct eplb_error *error)
{
    EPLB_TRY(check_sizes(request, error));
    if (plan->size != sizeof *plan)
        EPLB_FAIL(EPLB_INVALID, "eplb_plan.size is %zu; this library's is %zu", plan->size, sizeof *plan);
    if (request->load == NULL)
        EPLB_FAIL(EPLB_INVALID, "eplb_plan_request.load is NULL; it is the load to plan for");
    if (plan->expert_ids == NULL)
        EPLB_FAIL(EPLB_INVALID, "eplb_plan.expert_ids is NULL; the placements are written there");
    if (plan->expert_ids == request->active)
        EPLB_FAIL(EPLB_INVALID, "eplb_plan.expert_ids is eplb_plan_request.active; the plan needs both");
    if (scratch == NULL)
        EPLB_FAIL(EPLB_INVALID, "eplb_plan was given no scratch memory; it needs eplb_plan_scratch bytes");
    for (int32_t layer = 0; layer < request->shape.num_layers; layer++)
        EPLB_TRY(check_layer(request, layer, error));
    EPLB_TRY(check_windows(request, "history", request->history, request->num_history, error));
    return check_windows(request, "parts", request->parts, request->num_parts, error);
}

/* ------------------------------------------------------------------------------------- scratch */

static void layout(struct call *call, struct eplb_arena *arena, const struct eplb_plan_request *request)
{
    int32_t workers = eplb_plan_workers(request);
    EPLB_ASSERT(workers >= 1 && workers <= EPLB_MAX_WORKERS);
    call->initial = eplb_arena_take(arena, (size_t)request->shape.num_slots, sizeof *call->initial);
    call->works = eplb_arena_take(arena, (size_t)workers, sizeof *call->works);
    for (int32_t worker = 0; worker < workers; worker++) {
        struct eplb_layer_work work;
        eplb_layer_work_layout(&work, arena, &call->rules);
        if (call->works != NULL)
            call->works[worker] = work;
    }
}

size_t eplb_plan_scratch(const struct eplb_plan_request *request)
{
    struct eplb_arena arena;
    if (check_sizes(request, NULL) != EPLB_OK)
        return SIZE_MAX;
    struct call call = {.rules = rules_of(request)};
    eplb_arena_init(&arena, NULL, 0);
    layout(&call, &arena, request);
    return arena.overflow || arena.used > SIZE_MAX - EPLB_ARENA_ALIGN ? SIZE_MAX
                                                                      : arena.used + EPLB_ARENA_ALIGN;
}

/* --------------------------------------------------------------------------------------- plans */

static void plan_layer(void *argument, int32_t worker, int32_t layer)
{
    const struct call *call = argument;
    const struct eplb_plan_request *request = call->request;
    const struct eplb_shape *shape = &call->rules.shape;
    struct eplb_plan *plan = call->plan;
    EPLB_ASSERT(layer >= 0 && layer < shape->num_layers);
    EPLB_ASSERT(worker >= 0 && worker < eplb_plan_workers(request));
    size_t experts = (size_t)layer * (size_t)shape->num_experts;
    size_t slots = (size_t)layer * (size_t)shape->num_slots;
    struct eplb_layer_work *work = &call->works[worker];
    struct eplb_plan_layer *figures = plan->layers == NULL ? NULL : &plan->layers[layer];
    const struct eplb_layer_task task = {
        .layer = layer,
        .layer_id = layer,
        .load = request->load + experts,
        .history = call->history,
        .num_history = request->num_history,
        .parts = call->parts,
        .num_parts = request->num_parts,
        .active = request->active == NULL ? call->initial : request->active + slots,
        .physical = request->physical == NULL ? NULL : request->physical + slots,
        .expert_ids = plan->expert_ids + slots,
        .weights = plan->weights == NULL ? NULL : plan->weights + slots};
    eplb_layer_plan(&call->rules, work, &task, figures);
    if (figures != NULL)
        figures->balance = eplb_balance_of(shape, task.expert_ids, task.load, work->replicas);
    if (plan->replicas != NULL)
        eplb_placement_replicas(shape, task.expert_ids, plan->replicas + experts);
}

static void find_windows(const struct eplb_shape *shape, const int64_t *rows, int32_t count,
                         const int64_t **windows)
{
    EPLB_ASSERT(count >= 0 && count <= EPLB_MAX_POLICY_WINDOWS);
    for (int32_t i = 0; i < count; i++)
        windows[i] = rows + (size_t)i * (size_t)shape->num_layers * (size_t)shape->num_experts;
}

enum eplb_status eplb_plan_run(const struct eplb_plan_request *request,
                               const struct eplb_layer_runner *runner, void *scratch, struct eplb_plan *plan,
                               struct eplb_error *error)
{
    size_t past = (uintptr_t)scratch % EPLB_ARENA_ALIGN;
    unsigned char *memory = scratch;
    EPLB_ASSERT(scratch != NULL && plan->expert_ids != request->active);
    struct call call = {.rules = rules_of(request), .request = request, .plan = plan};
    struct eplb_arena arena;
    find_windows(&request->shape, request->history, request->num_history, call.history);
    find_windows(&request->shape, request->parts, request->num_parts, call.parts);
    eplb_arena_init(&arena, memory + (past == 0 ? 0 : EPLB_ARENA_ALIGN - past),
                    eplb_plan_scratch(request) - EPLB_ARENA_ALIGN);
    layout(&call, &arena, request);
    EPLB_ASSERT(!arena.overflow && runner->num_workers == eplb_plan_workers(request));
    if (request->active == NULL)
        eplb_placement_initial(&request->shape, call.initial);
    runner->run(runner->context, runner->num_workers, request->shape.num_layers, plan_layer, &call);
    return eplb_layer_first_failure(call.works, runner->num_workers, error);
}
