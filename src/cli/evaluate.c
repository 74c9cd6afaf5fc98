/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

struct eplb_evaluator {
    struct eplb_shape shape;
    bool plans;
    struct eplb_planner *planner;
    int32_t *initial;        /* [L][R][K] */
    int32_t *replicas;       /* [E] scratch */
    struct eplb_move *moves; /* [R * K] scratch */
    void *diff_scratch;
};

static const int32_t *table_of(const struct eplb_evaluator *evaluator, const int32_t *tables, int32_t layer)
{
    return tables + (size_t)layer * (size_t)evaluator->shape.num_slots;
}

/** Copies the start from the planner, which has it also when the caller gave none. */
static enum eplb_status allocate(struct eplb_evaluator *evaluator, struct eplb_error *error)
{
    const struct eplb_shape *shape = &evaluator->shape;
    size_t row = (size_t)shape->num_slots * sizeof *evaluator->initial;
    evaluator->initial = calloc((size_t)shape->num_layers, row);
    evaluator->replicas = calloc((size_t)shape->num_experts, sizeof *evaluator->replicas);
    evaluator->moves = calloc((size_t)shape->num_slots, sizeof *evaluator->moves);
    evaluator->diff_scratch = malloc(eplb_placement_diff_scratch(shape));
    if (evaluator->initial == NULL || evaluator->replicas == NULL || evaluator->moves == NULL ||
        evaluator->diff_scratch == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to evaluate %d layers with %d slots each", shape->num_layers,
                  shape->num_slots);
    memcpy(evaluator->initial, eplb_planner_active(evaluator->planner), (size_t)shape->num_layers * row);
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
        status = allocate(created, error);
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
    free(evaluator->initial);
    free(evaluator->replicas);
    free(evaluator->moves);
    free(evaluator->diff_scratch);
    free(evaluator);
}

static struct eplb_score score(struct eplb_evaluator *evaluator, const int32_t *tables, const int64_t *window)
{
    const struct eplb_shape *shape = &evaluator->shape;
    struct eplb_score score = {0};
    double sum = 0;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int64_t *load = window + (size_t)layer * (size_t)shape->num_experts;
        struct eplb_balance balance =
            eplb_balance_of(shape, table_of(evaluator, tables, layer), load, evaluator->replicas);
        if (balance.mean <= 0)
            continue;
        double ratio = balance.peak / balance.mean;
        sum += ratio;
        score.worst = ratio > score.worst ? ratio : score.worst;
        score.layers++;
    }
    if (score.layers > 0)
        score.mean = sum / score.layers;
    return score;
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
    eplb_planner_commit_layer(evaluator->planner, layer);
}

enum eplb_status eplb_evaluator_step(struct eplb_evaluator *evaluator, const int64_t *window,
                                     const int64_t *next, struct eplb_evaluation *evaluation,
                                     struct eplb_error *error)
{
    struct eplb_planner *planner = evaluator->planner;
    struct eplb_evaluation made = {0};
    EPLB_TRY(eplb_planner_rebalance(planner, evaluator->plans ? window : NULL, NULL, error));
    made.same = score(evaluator, eplb_planner_candidates(planner), window);
    for (int32_t layer = 0; layer < evaluator->shape.num_layers; layer++)
        if (eplb_planner_benefits(planner)[layer].publish)
            commit(evaluator, layer, &made);
    made.next = score(evaluator, eplb_planner_active(planner), next);
    made.initial = score(evaluator, evaluator->initial, next);
    *evaluation = made;
    return EPLB_OK;
}

const int32_t *eplb_evaluator_active(const struct eplb_evaluator *evaluator)
{
    return eplb_planner_active(evaluator->planner);
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
