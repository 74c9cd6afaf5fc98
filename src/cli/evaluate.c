/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "cli/routed.h"

/** Placements with their weights, all [L][R][K]. */
struct tables {
    const int32_t *expert_ids;
    const int32_t *weights;
};

struct eplb_evaluator {
    struct eplb_shape shape;
    bool plans;
    struct eplb_planner *planner;
    struct eplb_routed routed;
    int32_t *initial;         /* [L][R][K] */
    int32_t *initial_weights; /* likewise */
    int32_t *weights;         /* likewise, of what is active */
    int64_t *physical;        /* likewise, scratch */
    struct eplb_move *moves;  /* [R * K] scratch */
    void *diff_scratch;
};

static const int32_t *table_of(const struct eplb_evaluator *evaluator, const int32_t *tables, int32_t layer)
{
    return tables + (size_t)layer * (size_t)evaluator->shape.num_slots;
}

/** The weights of the start, given or equal. */
static void start_weights(struct eplb_evaluator *evaluator, const int32_t *given)
{
    const struct eplb_shape *shape = &evaluator->shape;
    size_t slots = (size_t)shape->num_slots;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        int32_t *weights = evaluator->initial_weights + (size_t)layer * slots;
        if (given == NULL)
            eplb_weights_equal(shape, table_of(evaluator, evaluator->initial, layer),
                               evaluator->routed.replicas, weights);
        else
            memcpy(weights, table_of(evaluator, given, layer), slots * sizeof *weights);
    }
    memcpy(evaluator->weights, evaluator->initial_weights,
           (size_t)shape->num_layers * slots * sizeof *evaluator->weights);
}

/** Copies the start from the planner, which has it also when the caller gave none. */
static enum eplb_status allocate(struct eplb_evaluator *evaluator, const struct eplb_evaluator_params *params,
                                 struct eplb_error *error)
{
    const struct eplb_shape *shape = &evaluator->shape;
    size_t slots = (size_t)shape->num_layers * (size_t)shape->num_slots;
    EPLB_TRY(eplb_routed_init(&evaluator->routed, shape, params->planner.replica_routing, error));
    evaluator->initial = calloc(slots, sizeof *evaluator->initial);
    evaluator->initial_weights = calloc(slots, sizeof *evaluator->initial_weights);
    evaluator->weights = calloc(slots, sizeof *evaluator->weights);
    evaluator->physical = calloc(slots, sizeof *evaluator->physical);
    evaluator->moves = calloc((size_t)shape->num_slots, sizeof *evaluator->moves);
    evaluator->diff_scratch = malloc(eplb_placement_diff_scratch(shape));
    if (evaluator->initial == NULL || evaluator->initial_weights == NULL || evaluator->weights == NULL ||
        evaluator->physical == NULL || evaluator->moves == NULL || evaluator->diff_scratch == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to evaluate %d layers with %d slots each", shape->num_layers,
                  shape->num_slots);
    memcpy(evaluator->initial, eplb_planner_active(evaluator->planner), slots * sizeof *evaluator->initial);
    start_weights(evaluator, params->initial_weights);
    return EPLB_OK;
}

enum eplb_status eplb_evaluator_create(const struct eplb_evaluator_params *params,
                                       struct eplb_evaluator **evaluator, struct eplb_error *error)
{
    struct eplb_evaluator *created = calloc(1, sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for an evaluation");
    created->shape = params->planner.shape;
    created->plans = params->plans;
    enum eplb_status status = eplb_planner_create(&params->planner, &created->planner, error);
    if (status == EPLB_OK)
        status = allocate(created, params, error);
    if (status == EPLB_OK)
        *evaluator = created;
    else
        eplb_evaluator_destroy(created);
    return status;
}

void eplb_evaluator_destroy(struct eplb_evaluator *evaluator)
{
    if (evaluator == NULL)
        return;
    eplb_planner_destroy(evaluator->planner);
    eplb_routed_free(&evaluator->routed);
    free(evaluator->initial);
    free(evaluator->initial_weights);
    free(evaluator->weights);
    free(evaluator->physical);
    free(evaluator->moves);
    free(evaluator->diff_scratch);
    free(evaluator);
}

static struct eplb_score score(struct eplb_evaluator *evaluator, struct tables tables, const int64_t *window)
{
    const struct eplb_shape *shape = &evaluator->shape;
    struct eplb_score score = {0};
    double sum = 0;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        double ratio = eplb_routed_ratio(&evaluator->routed, table_of(evaluator, tables.expert_ids, layer),
                                         table_of(evaluator, tables.weights, layer),
                                         window + (size_t)layer * (size_t)shape->num_experts);
        if (ratio <= 0)
            continue;
        sum += ratio;
        score.worst = ratio > score.worst ? ratio : score.worst;
        score.layers++;
    }
    if (score.layers > 0)
        score.mean = sum / score.layers;
    return score;
}

/** How the window fell on the slots that are active. NULL: the planner's own even split. */
static const int64_t *measure(struct eplb_evaluator *evaluator, const int64_t *window)
{
    const struct eplb_shape *shape = &evaluator->shape;
    if (evaluator->routed.routing != EPLB_ROUTING_WEIGHTED || window == NULL)
        return NULL;
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        eplb_routed_split(&evaluator->routed,
                          table_of(evaluator, eplb_planner_active(evaluator->planner), layer),
                          table_of(evaluator, evaluator->weights, layer),
                          window + (size_t)layer * (size_t)shape->num_experts,
                          evaluator->physical + (size_t)layer * (size_t)shape->num_slots);
    return evaluator->physical;
}

static void commit(struct eplb_evaluator *evaluator, int32_t layer, struct eplb_evaluation *evaluation)
{
    const int32_t *active = table_of(evaluator, eplb_planner_active(evaluator->planner), layer);
    const int32_t *candidate = table_of(evaluator, eplb_planner_candidates(evaluator->planner), layer);
    int32_t count =
        eplb_placement_diff(&evaluator->shape, active, candidate, evaluator->diff_scratch, evaluator->moves);
    EPLB_ASSERT(count > 0);
    for (int32_t i = 0; i < count; i++)
        evaluation->from_other_ranks += evaluator->moves[i].kind == EPLB_MOVE_P2P;
    evaluation->moved += count;
    evaluation->published++;
    memcpy(evaluator->weights + (size_t)layer * (size_t)evaluator->shape.num_slots,
           table_of(evaluator, eplb_planner_weights(evaluator->planner), layer),
           (size_t)evaluator->shape.num_slots * sizeof *evaluator->weights);
    eplb_planner_commit_layer(evaluator->planner, layer);
}

enum eplb_status eplb_evaluator_step(struct eplb_evaluator *evaluator, const struct eplb_planner_loads *loads,
                                     const int64_t *next, struct eplb_evaluation *evaluation,
                                     struct eplb_error *error)
{
    struct eplb_planner *planner = evaluator->planner;
    struct eplb_evaluation made = {0};
    struct eplb_planner_loads known = *loads;
    known.logical = evaluator->plans ? loads->logical : NULL;
    known.physical = measure(evaluator, known.logical);
    EPLB_TRY(eplb_planner_plan(planner, &known, error));
    made.same =
        score(evaluator, (struct tables){eplb_planner_candidates(planner), eplb_planner_weights(planner)},
              loads->logical);
    for (int32_t layer = 0; layer < evaluator->shape.num_layers; layer++)
        if (eplb_planner_benefits(planner)[layer].publish)
            commit(evaluator, layer, &made);
    made.next = score(evaluator, (struct tables){eplb_planner_active(planner), evaluator->weights}, next);
    made.initial = score(evaluator, (struct tables){evaluator->initial, evaluator->initial_weights}, next);
    *evaluation = made;
    return EPLB_OK;
}

const int32_t *eplb_evaluator_active(const struct eplb_evaluator *evaluator)
{
    return eplb_planner_active(evaluator->planner);
}

const int32_t *eplb_evaluator_weights(const struct eplb_evaluator *evaluator)
{
    return evaluator->weights;
}

static double mean_of(double sum, int32_t count)
{
    return count > 0 ? sum / count : 0;
}

void eplb_evaluation_sum(const struct eplb_evaluation *evaluations, int32_t count,
                         struct eplb_evaluation_total *total)
{
    struct eplb_evaluation_total sum = {0};
    for (int32_t i = 0; i < count; i++) {
        const struct eplb_evaluation *one = &evaluations[i];
        sum.windows_planned += one->same.layers > 0;
        sum.windows_scored += one->next.layers > 0;
        sum.same += one->same.mean;
        sum.next += one->next.mean;
        sum.initial += one->initial.mean;
        sum.worst_next = one->next.worst > sum.worst_next ? one->next.worst : sum.worst_next;
        sum.published += one->published;
        sum.moved += one->moved;
        sum.from_other_ranks += one->from_other_ranks;
    }
    sum.same = mean_of(sum.same, sum.windows_planned);
    sum.next = mean_of(sum.next, sum.windows_scored);
    sum.initial = mean_of(sum.initial, sum.windows_scored);
    *total = sum;
}
