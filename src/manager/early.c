/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The round that starts before the interval ends, because the traffic shifted.
 *
 *   quiet: blocks of samples are tested --> shifted: the window restarts, tokens are waited for --> round
 *     ^                                                                                               |
 *     +-----------------------------------------------------------------------------------------------+
 *
 * In a round nothing is tested, and after it a whole block under the new placements comes first.
 */
#include <stdio.h>
#include <string.h>

#include "manager/state.h"

void eplb_early_layout(struct eplb_arena *arena, const struct eplb_manager_core_params *params,
                       struct early *early)
{
    if (params->shift_trigger > 0)
        eplb_shift_layout(arena, &params->shape, &early->test);
}

void eplb_early_start(struct eplb_manager_core *core)
{
    if (core->params.shift_trigger > 0)
        eplb_shift_start(&core->early.test, &core->shape, core->params.shift_trigger,
                         core->params.min_peak_load_improvement);
}

static struct eplb_shift_counts counts_of(const struct eplb_manager_core *core)
{
    const struct eplb_window *open = eplb_aggregator_open(core->aggregator);
    return (struct eplb_shift_counts){open->logical, open->physical, open->weight_versions};
}

/** Largest by mean rank load that the last policy run left a layer at, by its own window; 0: unknown. */
static double promised_balance(const struct eplb_manager_core *core, int32_t layer)
{
    const struct eplb_window *planned = eplb_aggregator_closed(core->aggregator);
    const struct eplb_benefit *benefit = &eplb_planner_benefits(core->planner)[layer];
    bool moved = eplb_manager_core_generation(core, layer) != planned->generations[layer];
    size_t row = eplb_manager_row(core, layer);
    double total = 0;
    for (int32_t i = 0; i < core->shape.num_slots; i++)
        total += (double)planned->physical[row + (size_t)i];
    double peak = moved ? benefit->candidate_peak : benefit->current_peak;
    return total > 0 ? peak * core->shape.ep_size / total : 0;
}

/** The last round is over: what its plans were made from is what they promise. */
static void take_promises(struct eplb_manager_core *core)
{
    const int64_t *load = eplb_aggregator_closed(core->aggregator)->logical;
    for (int32_t layer = 0; layer < core->shape.num_layers; layer++)
        eplb_shift_promise(&core->early.test, layer, load + (size_t)layer * (size_t)core->shape.num_experts,
                           promised_balance(core, layer));
    core->early.promised_run = core->totals.policy_runs;
}

static void begin_block(struct eplb_manager_core *core)
{
    const struct eplb_shift_counts counts = counts_of(core);
    eplb_shift_begin(&core->early.test, &counts);
    core->early.testing = true;
    core->early.block = (struct early_count){0};
}

/** The window, whichever way it ended, is followed by an empty one. */
static void close_window(struct eplb_manager_core *core)
{
    eplb_aggregator_close_window(core->aggregator);
    core->early.window = (struct early_count){0};
    core->early.testing = false;
}

static void log_shift(const struct eplb_manager_core *core, const struct eplb_shift_verdict *verdict)
{
    enum { LONGEST_NAME = 12 };
    const struct eplb_shift *test = &core->early.test;
    char layers[512] = "";
    size_t length = 0;
    for (int32_t layer = 0; layer < core->shape.num_layers && length + LONGEST_NAME < sizeof layers; layer++)
        if (test->departed[layer])
            length += (size_t)snprintf(layers + length, sizeof layers - length, "%s%d",
                                       length == 0 ? "" : ",", eplb_manager_layer_id(core, layer));
    EPLB_LOG(core->params.log, TRAFFIC_SHIFT, EPLB_VALUE_INT(verdict->departed),
             EPLB_VALUE_INT(verdict->judged), EPLB_VALUE_TEXT(layers),
             EPLB_VALUE_INT(eplb_manager_layer_id(core, verdict->worst)),
             EPLB_VALUE_REAL(test->score[verdict->worst]), EPLB_VALUE_REAL(test->promised[verdict->worst]),
             EPLB_VALUE_REAL(test->measured[verdict->worst]));
}

static void end_block(struct eplb_manager_core *core)
{
    const struct eplb_shift_counts counts = counts_of(core);
    const struct eplb_shift_verdict verdict = eplb_shift_end(&core->early.test, &counts);
    if (!verdict.shifted) {
        begin_block(core);
        return;
    }
    log_shift(core, &verdict);
    core->totals.shifts++;
    core->early.shifted = true;
    /* Neither the window until now nor those before it weigh on the plan. */
    core->early.past = 0;
    close_window(core);
}

static void add(struct early_count *count, int64_t rows)
{
    count->samples++;
    count->rows = rows > INT64_MAX - count->rows ? INT64_MAX : count->rows + rows;
}

void eplb_early_sample(struct eplb_manager_core *core, int64_t rows)
{
    struct early *early = &core->early;
    add(&early->window, rows);
    if (core->params.shift_trigger <= 0 || core->round || early->shifted || core->num_dead > 0)
        return;
    if (!early->testing) {
        if (early->promised_run != core->totals.policy_runs)
            take_promises(core);
        begin_block(core);
        return;
    }
    add(&early->block, rows);
    if (eplb_shift_is_block(&early->test, early->block.samples, early->block.rows))
        end_block(core);
}

bool eplb_early_has_tokens(const struct eplb_manager_core *core)
{
    const struct early *early = &core->early;
    int64_t asked = core->params.min_tokens_per_layer;
    if (asked == 0 && early->shifted)
        asked = (int64_t)EPLB_SHIFT_PLAN_ROWS * core->shape.num_experts;
    return early->window.rows / core->shape.num_layers >= asked &&
           (!early->shifted || early->window.samples >= EPLB_SHIFT_SAMPLES);
}

void eplb_early_round(struct eplb_manager_core *core)
{
    struct early *early = &core->early;
    close_window(core);
    early->shifted = false;
    early->num_history = early->past;
    early->past += early->past < EPLB_HISTORY_WINDOWS - 1;
}
