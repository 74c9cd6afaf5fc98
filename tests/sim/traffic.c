/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/traffic.h"

enum stretch { DECODE, PREFILL, MIXED, EMPTY, WARMUP };

static void draw_stretch(struct world *world)
{
    struct sim *sim = &world->sim;
    const struct sim_config *config = &world->config;
    struct sim_engine *engine = &world->engine;
    engine->stretch = DECODE;
    engine->stretch_left = (int32_t)sim_between(sim, 1, 12);
    if (engine->calm)
        return;
    if (sim_chance(sim, config->prefill)) {
        engine->stretch = PREFILL;
        engine->stretch_left = (int32_t)sim_between(sim, 1, 60);
    } else if (sim_chance(sim, config->mixed)) {
        engine->stretch = MIXED;
    } else if (sim_chance(sim, config->empty)) {
        engine->stretch = EMPTY;
    } else if (sim_chance(sim, config->warmup)) {
        engine->stretch = WARMUP;
        engine->stretch_left = (int32_t)sim_between(sim, 1, 3);
    }
}

static struct eplb_dp_batch draw_batch(struct sim *sim, enum stretch stretch)
{
    struct eplb_dp_batch batch = {0, 0};
    if (stretch == EMPTY || sim_chance(sim, 150))
        return batch;
    if (stretch == PREFILL || (stretch == MIXED && sim_chance(sim, 500)))
        batch.prefill_tokens = sim_between(sim, 1, 200);
    if (stretch != PREFILL)
        batch.decode_tokens = sim_between(sim, 1, 64);
    return batch;
}

/** Few experts of a layer get much, the others little. */
static void draw_heat(struct sim *sim, const struct sim_config *config, int32_t heat[SIM_EXPERTS])
{
    for (int32_t expert = 0; expert < config->shape.num_experts; expert++)
        heat[expert] = (int32_t)(sim_chance(sim, 250) ? sim_between(sim, 20, 60) : sim_between(sim, 1, 8));
}

static void draw_rows(struct world *world, struct sim_forward *forward, int32_t source)
{
    const struct sim_config *config = &world->config;
    const struct eplb_dp_batch *batch = &forward->batches[source];
    int64_t counted = batch->decode_tokens + (config->decode_only ? 0 : batch->prefill_tokens);
    for (int32_t layer = 0; layer < config->shape.num_layers; layer++) {
        uint64_t noise = eplb_prng_next(&world->sim.prng);
        for (int32_t expert = 0; expert < config->shape.num_experts; expert++)
            forward->rows[layer][source][expert] = counted == 0
                                                       ? 0
                                                       : counted * world->engine.heat[layer][expert] / 8 +
                                                             (int64_t)(noise >> (4 * expert % 64) & 3);
    }
}

void sim_traffic_draw(struct world *world, struct sim_forward *forward)
{
    struct sim *sim = &world->sim;
    struct sim_engine *engine = &world->engine;
    if (engine->stretch_left == 0)
        draw_stretch(world);
    engine->stretch_left--;
    for (int32_t layer = 0; layer < world->config.shape.num_layers; layer++)
        if (engine->num_submitted == 0 || (!engine->calm && sim_chance(sim, 60)))
            draw_heat(sim, &world->config, engine->heat[layer]);
    forward->warmup = engine->stretch == WARMUP;
    for (int32_t source = 0; source < world->config.shape.ep_size; source++) {
        forward->batches[source] = draw_batch(sim, (enum stretch)engine->stretch);
        draw_rows(world, forward, source);
    }
}
