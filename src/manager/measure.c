/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a migration costs, measured while serving: from the times of events and from nothing else, so that a
 * recording gives the same figures again.
 */
#include "manager/state.h"

/* Of what is known already, so much is kept when something new is measured. */
static const double KEPT_OF_TRANSFERS = 7.0 / 8;
static const double KEPT_OF_FORWARDS = 63.0 / 64;

static double seconds_of(int64_t ns)
{
    return (double)ns / 1e9;
}

static void add(struct measured *measured, double kept, double amount, double seconds)
{
    measured->amount = measured->amount * kept + amount;
    measured->seconds = measured->seconds * kept + seconds;
}

/** Tokens of the slowest rank, summed over the layers: one waits for it in each of them. */
static double tokens_waited_for(const struct eplb_manager_core *core)
{
    const struct eplb_shape *shape = &core->shape;
    double sum = 0;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        int64_t most = 0;
        size_t last = (size_t)(layer + 1) * (size_t)shape->slots_per_rank - 1;
        for (int32_t rank = 0; rank < shape->ep_size; rank++) {
            EPLB_ASSERT(core->reports[rank].prefix != NULL);
            int64_t tokens = core->reports[rank].prefix[last];
            most = tokens > most ? tokens : most;
        }
        sum += (double)most;
    }
    return sum;
}

void eplb_measure_forward(struct eplb_manager_core *core, const struct flight *flight, int64_t now)
{
    struct measures *measures = &core->measures;
    /* With overlap the forward waited for the one before it. */
    int64_t began = flight->submitted_at;
    if (measures->last_output_at != NEVER && measures->last_output_at > began)
        began = measures->last_output_at;
    double tokens = tokens_waited_for(core);
    if (now > began && tokens > 0)
        add(&measures->forwards, KEPT_OF_FORWARDS, tokens, seconds_of(now - began));
}

void eplb_measure_output(struct eplb_manager_core *core, int64_t now)
{
    core->measures.last_output_at = now;
}

void eplb_measure_activation(struct eplb_manager_core *core, int32_t received, int64_t wait_ns)
{
    if (received > 0 && wait_ns > 0 && core->params.expert_bytes > 0)
        add(&core->measures.transfers, KEPT_OF_TRANSFERS,
            (double)received * (double)core->params.expert_bytes, seconds_of(wait_ns));
}

struct eplb_migration_cost eplb_measure_cost(const struct eplb_manager_core *core,
                                             const struct eplb_window *window)
{
    const struct eplb_manager_core_params *params = &core->params;
    const struct measures *measures = &core->measures;
    struct eplb_migration_cost cost = {.expert_bytes = params->expert_bytes,
                                       .bytes_per_second = params->bytes_per_second,
                                       .num_forwards = (double)window->num_samples,
                                       .max_break_even_forwards = params->max_break_even_forwards};
    if (cost.bytes_per_second <= 0 && measures->transfers.seconds > 0)
        cost.bytes_per_second = measures->transfers.amount / measures->transfers.seconds;
    if (measures->forwards.amount > 0)
        cost.seconds_per_token = measures->forwards.seconds / measures->forwards.amount;
    return cost;
}
