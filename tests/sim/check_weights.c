/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

#include "sim/world.h"

static const char checker[] = "weights";

static size_t row_bytes(const struct world *world)
{
    return (size_t)world->config.shape.num_slots * sizeof(int32_t);
}

static struct sim_weights *find(struct world *world, int32_t layer, uint64_t generation, uint64_t version)
{
    struct sim_weights *entries = world->checks.weights.entries[layer];
    for (int32_t i = 0; i < SIM_BOOK_WEIGHTS; i++)
        if (entries[i].known && entries[i].generation == generation && entries[i].version == version)
            return &entries[i];
    return NULL;
}

/** Notes what a version is; of a version that no rank was given, what it is now. */
void sim_book_weights(struct world *world, int32_t layer, uint64_t generation, uint64_t version,
                      const int32_t *weights)
{
    struct sim_weights_book *book = &world->checks.weights;
    struct sim_weights *entry = find(world, layer, generation, version);
    if (entry == NULL)
        entry = &book->entries[layer][book->next[layer]++ % SIM_BOOK_WEIGHTS];
    entry->known = true;
    entry->generation = generation;
    entry->version = version;
    memcpy(entry->weights, weights, row_bytes(world));
}

/** Another manager goes on from what the ranks run. */
void sim_book_weights_restart(struct world *world)
{
    struct sim_weights_book *book = &world->checks.weights;
    const uint64_t *versions = eplb_executor_core_versions(world->ranks[0].core);
    for (int32_t layer = 0; layer < world->config.shape.num_layers; layer++) {
        book->sent[layer] = versions[layer];
        book->dropped[layer] = 0;
    }
}

/* ----------------------------------------------------------------------------------- commands */

static bool is_boundary(const struct world *world, const struct sim_forward *forward)
{
    for (int32_t i = 0; i < world->config.shape.ep_size; i++)
        if (forward->batches[i].prefill_tokens != 0)
            return false;
    return true;
}

static void check_update(struct world *world, const struct sim_forward *forward,
                         const struct eplb_weight_update *update)
{
    struct sim_checks *checks = &world->checks;
    struct sim_weights_book *book = &checks->weights;
    int32_t layer = update->layer;
    int32_t scratch[SIM_EXPERTS];
    const int32_t *table = sim_book_table(world, layer, checks->committed[layer]);
    if (update->generation != checks->committed[layer])
        sim_fail(&world->sim, checker, "weights for generation %" PRIu64 " of layer %d, which has %" PRIu64,
                 update->generation, layer, checks->committed[layer]);
    if (layer == checks->activation.layer)
        sim_fail(&world->sim, checker, "forward %" PRIu64 " has weights for layer %d, which activates",
                 forward->seq, layer);
    if (update->version != book->sent[layer] + 1)
        sim_fail(&world->sim, checker,
                 "forward %" PRIu64 " has weights of version %" PRIu64 " for layer %d after version %" PRIu64,
                 forward->seq, update->version, layer, book->sent[layer]);
    if (eplb_weights_check(&world->config.shape, table, update->weights, scratch, NULL) != EPLB_OK)
        sim_fail(&world->sim, checker, "forward %" PRIu64 " has weights for layer %d that are not legal",
                 forward->seq, layer);
    if (book->dropped[layer] == update->version)
        SIM_COUNT(&world->sim, WEIGHTS_AGAIN);
    book->dropped[layer] = 0;
    book->sent[layer] = update->version;
    book->carriers[layer] = forward->seq;
    sim_book_weights(world, layer, update->generation, update->version, update->weights);
}

static void check_activation(struct world *world, const struct eplb_command *command)
{
    const struct sim_weights_book *book = &world->checks.weights;
    const struct sim_engine *engine = &world->engine;
    for (int32_t i = 0; command->update_layer_id != EPLB_NO_LAYER && i < engine->num_flights; i++)
        if (engine->flights[i] == book->carriers[command->update_layer_id])
            SIM_COUNT(&world->sim, WEIGHTS_IN_FLIGHT);
}

void sim_check_weights_submitted(struct world *world, struct sim_forward *forward,
                                 const struct eplb_command *command)
{
    struct sim *sim = &world->sim;
    enum eplb_replica_routing routing = world->config.routing;
    bool with_table = routing == EPLB_ROUTING_WEIGHTED || routing == EPLB_ROUTING_ADAPTIVE;
    int32_t count = command->num_weight_updates;
    if (command->prepare_layer_id != EPLB_NO_LAYER && (command->replica_weights != NULL) != with_table)
        sim_fail(sim, checker, "prepare %" PRIu64 " comes %s weights", command->prepare_token.value,
                 with_table ? "without" : "with");
    if (command->replica_weights != NULL)
        SIM_COUNT(sim, WEIGHTS_WITH_TABLE);
    check_activation(world, command);
    if (count > 0 && (routing != EPLB_ROUTING_ADAPTIVE || forward->warmup || world->checks.num_dead > 0))
        sim_fail(sim, checker, "forward %" PRIu64 " must not have weights and has some", forward->seq);
    for (int32_t i = 0; i < count; i++) {
        const struct eplb_weight_update *update = &command->weight_updates[i];
        SIM_TRACE(sim, "manager", SIM_NOBODY,
                  "weights for layer %d, generation %" PRIu64 ", version %" PRIu64, update->layer,
                  update->generation, update->version);
        check_update(world, forward, update);
        forward->weights[i] = *update;
    }
    forward->num_weights = count;
    sim->counts[SIM_COUNT_WEIGHTS] += (uint64_t)count;
    if (!is_boundary(world, forward))
        sim->counts[SIM_COUNT_WEIGHTS_IN_PREFILL] += (uint64_t)count;
}

void sim_check_weights_dropped(struct world *world, const struct sim_forward *forward)
{
    struct sim_weights_book *book = &world->checks.weights;
    for (int32_t i = 0; i < forward->num_weights; i++) {
        const struct eplb_weight_update *update = &forward->weights[i];
        SIM_COUNT(&world->sim, WEIGHTS_LOST);
        if (update->generation != world->checks.committed[update->layer])
            continue;
        if (update->version == book->sent[update->layer]) {
            book->sent[update->layer]--;
            book->dropped[update->layer] = update->version;
        } else {
            SIM_COUNT(&world->sim, WEIGHTS_LOST_OLDER);
        }
    }
}

void sim_check_weights_committed(struct world *world, int32_t layer)
{
    world->checks.weights.sent[layer] = 0;
    world->checks.weights.dropped[layer] = 0;
}

void sim_check_weights_done(struct world *world)
{
    const struct sim_engine *engine = &world->engine;
    for (int32_t i = 0; i < engine->num_solved; i++) {
        if (engine->solved[i].layer == world->checks.activation.layer)
            SIM_COUNT(&world->sim, WEIGHTS_WAITING);
        if (engine->solved[i].generation != world->checks.committed[engine->solved[i].layer])
            SIM_COUNT(&world->sim, WEIGHTS_OVERTAKEN);
    }
}

/* -------------------------------------------------------------------------------------- ranks */

/** A rank runs weights that are legal for its table, and those that were sent as this version. */
static void check_layer(struct world *world, int32_t rank, int32_t layer, const struct sim_forward *forward)
{
    const struct sim_model *model = &world->ranks[rank].model;
    uint64_t generation = model->generations[layer];
    uint64_t version = model->versions[layer];
    const struct sim_weights *sent = find(world, layer, generation, version);
    int32_t scratch[SIM_EXPERTS];
    struct eplb_error error;
    if (eplb_weights_check(&world->config.shape, model->tables[layer], model->weights[layer], scratch,
                           &error) != EPLB_OK)
        sim_fail(&world->sim, checker, "rank %d, layer %d, forward %" PRIu64 ": %s", rank, layer,
                 forward->seq, error.text);
    bool is_first = generation == 0 && version == 0;
    if (!is_first && sent == NULL)
        sim_fail(&world->sim, checker,
                 "rank %d runs layer %d under version %" PRIu64 " of generation %" PRIu64
                 ", which was never sent",
                 rank, layer, version, generation);
    if (sent != NULL && memcmp(sent->weights, model->weights[layer], row_bytes(world)) != 0)
        sim_fail(&world->sim, checker,
                 "rank %d, layer %d: the weights are not version %" PRIu64 " of generation %" PRIu64, rank,
                 layer, version, generation);
    for (int32_t other = 0; other < world->config.shape.ep_size; other++)
        if (forward->read[other] && forward->versions[other][layer] != version)
            sim_fail(&world->sim, checker,
                     "forward %" PRIu64 ", layer %d: rank %d runs version %" PRIu64
                     " of the weights and rank %d version %" PRIu64,
                     forward->seq, layer, other, forward->versions[other][layer], rank, version);
}

/** When a rank enters a forward. */
void sim_check_weights_forward(struct world *world, int32_t rank, struct sim_forward *forward)
{
    for (int32_t layer = 0; layer < world->config.shape.num_layers; layer++)
        check_layer(world, rank, layer, forward);
}

/** No row of an expert got lost or came twice between the ranks. */
void sim_check_weights_rows(struct world *world, const struct sim_forward *forward)
{
    const struct eplb_shape *shape = &world->config.shape;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int32_t *table = sim_book_table(world, layer, forward->generations[0][layer]);
        int64_t balance[SIM_EXPERTS] = {0};
        for (int32_t source = 0; source < shape->ep_size; source++)
            for (int32_t expert = 0; expert < shape->num_experts; expert++)
                balance[expert] += forward->rows[layer][source][expert];
        for (int32_t slot = 0; slot < shape->num_slots; slot++)
            balance[table[slot]] -=
                forward->counts[slot / shape->slots_per_rank][layer][slot % shape->slots_per_rank];
        for (int32_t expert = 0; expert < shape->num_experts; expert++)
            if (balance[expert] != 0)
                sim_fail(&world->sim, checker,
                         "forward %" PRIu64 ", layer %d: %" PRId64 " rows of expert %d got lost",
                         forward->seq, layer, balance[expert], expert);
    }
}

/** When it is quiet all ranks run what was sent last, unless a death kept that from being handed out. */
void sim_check_weights_end(struct world *world)
{
    const struct sim_checks *checks = &world->checks;
    for (int32_t layer = 0; layer < world->config.shape.num_layers; layer++) {
        uint64_t version = checks->weights.sent[layer];
        if (world->engine.stopping || layer == checks->activation.layer)
            continue;
        if (checks->weights.dropped[layer] != 0)
            sim_fail(&world->sim, checker, "layer %d: version %" PRIu64 " was dropped and never came again",
                     layer, checks->weights.dropped[layer]);
        for (int32_t rank = 0; rank < world->config.shape.ep_size; rank++)
            if (eplb_executor_core_versions(world->ranks[rank].core)[layer] != version)
                sim_fail(&world->sim, checker,
                         "layer %d: rank %d runs version %" PRIu64 " where %" PRIu64 " was sent", layer, rank,
                         eplb_executor_core_versions(world->ranks[rank].core)[layer], version);
    }
}
