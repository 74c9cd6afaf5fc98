/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "manager/state.h"

#include <inttypes.h>

static struct eplb_rank_report report_of(struct eplb_manager_core *core,
                                         const struct eplb_worker_output *output, const struct flight *flight)
{
    struct eplb_rank_report report = {.prefix = output->prefix,
                                      .generations = output->generations,
                                      .weight_versions = output->weight_versions,
                                      .num_layers = output->num_layers,
                                      .slots_per_rank = output->slots_per_rank};
    (void)core;
    (void)flight;
#if EPLB_TEST_BUILD
    if (EPLB_PLANTED(SAMPLE_TAGGED_AT_SUBMISSION))
        report.generations = flight->generations;
#endif
    return report;
}

static void note_taken(struct eplb_manager_core *core, const struct flight *flight, int64_t counted_rows,
                       int64_t now)
{
    core->sample_since_run = true;
    core->weights.sample_since_solve = core->weights.sample_since_solve || counted_rows > 0;
    core->last_sample_at = now;
    if (counted_rows > 0 && !core->timer_armed)
        eplb_round_arm_timer(core, now);
    eplb_measure_forward(core, flight, now);
    eplb_early_sample(core, counted_rows);
}

bool eplb_samples_take(struct eplb_manager_core *core, const struct eplb_manager_event *event,
                       const struct flight *flight, int64_t now)
{
    int32_t ranks = event->num_outputs < core->shape.ep_size ? event->num_outputs : core->shape.ep_size;
    for (int32_t rank = 0; rank < ranks; rank++) {
        core->reports[rank] = report_of(core, &event->outputs[rank], flight);
        if (!eplb_manager_has_output(event, rank))
            core->reports[rank].prefix = NULL;
    }
    struct eplb_sample sample = {.ranks = core->reports, .num_ranks = event->num_outputs};
    struct eplb_sample_result result = {0};
    struct eplb_error error;
    /* A warm-up forward's counts never matter; that ranks run it under different tables does. */
    enum eplb_status status = flight->warmup
                                  ? eplb_aggregator_check_generations(core->aggregator, &sample, &error)
                                  : eplb_aggregator_add(core->aggregator, &sample, &result, &error);
    if (status == EPLB_INCONSISTENT) {
        eplb_manager_stop(core, status, "forward %" PRIu64 ": %s", event->seq, error.text);
        return false;
    }
    if (status == EPLB_OK && result.taken)
        note_taken(core, flight, result.counted_rows, now);
    return true;
}
