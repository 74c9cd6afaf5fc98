/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/config.h"

#include <stdlib.h>

static void draw_shape(struct sim *sim, struct eplb_shape *shape)
{
    int64_t ranks = sim_between(sim, 2, SIM_RANKS);
    int64_t most = SIM_EXPERTS / ranks;
    int64_t owned = sim_between(sim, 1, most > 4 ? 4 : most);
    int64_t redundant = sim_between(sim, 0, 2);
    int64_t experts = ranks * owned;
    if (owned + redundant > experts)
        redundant = experts - owned;
    if (eplb_shape_init(shape, sim_between(sim, 1, SIM_LAYERS), experts, ranks, redundant, NULL) != EPLB_OK)
        abort();
}

static void draw_options(struct sim *sim, struct sim_config *config)
{
    config->overlap = (int32_t)sim_below(sim, 2);
    config->greedy = sim_chance(sim, 400);
    config->decode_only = sim_chance(sim, 300);
    config->threshold = sim_chance(sim, 500) ? 0.0 : 0.05;
    config->update_interval = sim_chance(sim, 400) ? 0 : sim_between(sim, 20, 150) * SIM_MILLISECOND;
    /* Most timeouts pass only when something is wrong, some are close to what things take. */
    bool short_prepare = sim_chance(sim, 150);
    bool short_transfer = sim_chance(sim, 200);
    config->prepare_timeout =
        (short_prepare ? sim_between(sim, 5, 40) : sim_between(sim, 60, 250)) * SIM_MILLISECOND;
    config->transfer_timeout =
        (short_transfer ? sim_between(sim, 1, 10) : sim_between(sim, 90, 200)) * SIM_MILLISECOND;
    config->faultless = !short_prepare && !short_transfer;
    config->first_token = 1 + (uint64_t)sim_below(sim, 1000);
    config->first_seq = 1 + (uint64_t)sim_below(sim, 1000);
}

static void draw_network(struct sim *sim, struct sim_config *config)
{
    config->words = (int32_t)sim_between(sim, 1, SIM_WORDS);
    config->chunk_words = (int32_t)sim_between(sim, 1, 3);
    config->inflight_bytes = 8 * config->chunk_words * sim_between(sim, 1, 6);
    config->eager = sim_chance(sim, 500);
    config->drops_strays = sim_chance(sim, 500);
    config->polls_in_forward = sim_chance(sim, 500);
    config->message_delay = sim_between(sim, 20, 200) * SIM_MICROSECOND;
}

static void draw_traffic(struct sim *sim, struct sim_config *config)
{
    config->num_forwards = (int32_t)sim_between(sim, 40, 120);
    config->warmup = sim_chance(sim, 300) ? 100 : 0;
    config->prefill = sim_chance(sim, 600) ? (int32_t)sim_between(sim, 20, 250) : 0;
    config->mixed = sim_chance(sim, 500) ? 100 : 0;
    config->empty = sim_chance(sim, 300) ? 100 : 0;
    config->slow_hand_out = sim_chance(sim, 400) ? 200 : 0;
    config->idle = sim_chance(sim, 500) ? 30 : 0;
}

/** A fault that half of the seeds have, at a rate of up to `most`. */
static int32_t draw_rate(struct sim *sim, int64_t most)
{
    return sim_chance(sim, 350) ? (int32_t)sim_between(sim, 1, most) : 0;
}

static void draw_faults(struct sim *sim, struct sim_faults *faults)
{
    faults->drop = draw_rate(sim, 150);
    faults->output_lost = draw_rate(sim, 150);
    faults->output_silence = draw_rate(sim, 30);
    faults->output_twice = draw_rate(sim, 100);
    faults->output_late = draw_rate(sim, 50);
    faults->prefix_corrupt = draw_rate(sim, 100);
    faults->prepare_fail = draw_rate(sim, 100);
    faults->prepare_slow = draw_rate(sim, 100);
    faults->prepare_hang = draw_rate(sim, 20);
    faults->prepare_confused = draw_rate(sim, 100);
    faults->activation_confused = draw_rate(sim, 100);
    faults->materialise_fail = draw_rate(sim, 100);
    faults->reload = draw_rate(sim, 30);
    faults->message_lost = draw_rate(sim, 60);
    faults->message_fail = draw_rate(sim, 60);
    faults->post_refused = draw_rate(sim, 20);
    faults->message_slow = draw_rate(sim, 60);
    faults->policy_fail = draw_rate(sim, 200);
    faults->pause = draw_rate(sim, 60);
}

void sim_config_draw(struct sim *sim, struct sim_config *config)
{
    *config = (struct sim_config){0};
    draw_shape(sim, &config->shape);
    draw_options(sim, config);
    draw_network(sim, config);
    draw_traffic(sim, config);
    if (sim_chance(sim, 800)) {
        draw_faults(sim, &config->faults);
        config->faultless = false;
    }
    config->restart_forward = sim_chance(sim, 200) ? (int32_t)sim_between(sim, 5, config->num_forwards) : 0;
    config->num_deaths = sim_chance(sim, 400) ? 1 + (config->shape.ep_size > 3 && sim_chance(sim, 200)) : 0;
    for (int32_t i = 0; i < config->num_deaths; i++)
        config->death_forwards[i] = (int32_t)sim_between(sim, 5, config->num_forwards);
    config->faultless = config->faultless && config->num_deaths == 0;
    config->deaths_await_activation = sim_chance(sim, 600);
    static const enum eplb_replica_routing routings[] = {
        EPLB_ROUTING_STATIC,   EPLB_ROUTING_STATIC,   EPLB_ROUTING_WEIGHTED, EPLB_ROUTING_BATCH,
        EPLB_ROUTING_ADAPTIVE, EPLB_ROUTING_ADAPTIVE, EPLB_ROUTING_ADAPTIVE, EPLB_ROUTING_ADAPTIVE};
    config->routing = routings[sim_below(sim, sizeof routings / sizeof *routings)];
    config->weights_decay = (double)sim_below(sim, 100) / 100;
    if (!config->faultless)
        config->faults.weights_confused = draw_rate(sim, 200);
    config->shift_trigger = sim_chance(sim, 400) ? (double)sim_between(sim, 1, 12) : 0;
    /* Between two runs there must be room for blocks before a shift and after it. */
    if (config->shift_trigger > 0 && sim_chance(sim, 600)) {
        config->update_interval *= 8;
        config->num_forwards += 60;
    }
    config->min_tokens_per_layer = sim_chance(sim, 200) ? sim_between(sim, 1, 10000) : 0;
}
