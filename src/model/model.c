/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A model's memory: what it needs, and how it comes and goes. */
#include "model/model.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "model/model_state.h"

/* ----------------------------------------------------------------------------------------- layout */

static void take_rows(struct eplb_arena *arena, const struct eplb_model_config *config, int32_t max_rows,
                      struct eplb_activations *at)
{
    size_t rows = (size_t)max_rows;
    size_t hidden = (size_t)config->hidden_size * sizeof(float);
    size_t heads = (size_t)config->num_heads * (size_t)config->head_dim * sizeof(float);
    size_t shared = (size_t)config->shared_hidden_size * sizeof(float);
    size_t top_k = (size_t)config->top_k;
    at->x = eplb_arena_take(arena, rows, hidden);
    at->h = eplb_arena_take(arena, rows, hidden);
    at->y = eplb_arena_take(arena, rows, hidden);
    at->qkv = eplb_arena_take(arena, rows, 3 * heads);
    at->attended = eplb_arena_take(arena, rows, heads);
    at->shared_gate_up = eplb_arena_take(arena, rows, 2 * shared);
    at->shared_inner = eplb_arena_take(arena, rows, shared);
    at->router_logits = eplb_arena_take(arena, rows, (size_t)config->num_experts * sizeof(float));
    at->experts = eplb_arena_take(arena, rows, top_k * sizeof *at->experts);
    at->gates = eplb_arena_take(arena, rows, top_k * sizeof *at->gates);
    at->kinds = eplb_arena_take(arena, rows, sizeof *at->kinds);
    at->counted = eplb_arena_take(arena, rows, sizeof *at->counted);
    at->tokens = eplb_arena_take(arena, rows, sizeof *at->tokens);
    at->sampled = eplb_arena_take(arena, rows, sizeof *at->sampled);
}

static struct eplb_moe_params moe_params(const struct eplb_model_config *config,
                                         const struct eplb_shape *shape, enum eplb_replica_routing routing,
                                         int32_t max_rows)
{
    return (struct eplb_moe_params){
        .config = *config, .shape = *shape, .max_rows = max_rows, .routing = routing};
}

/** What a forward needs. The sizes in `parts` are filled, the addresses are not. */
static void take_activations(struct eplb_arena *arena, struct eplb_model *parts)
{
    const struct eplb_model_config *config = &parts->config;
    const struct eplb_replicas_params replicas = parts->replicas.params;
    const struct eplb_moe_params moe = moe_params(config, &parts->shape, replicas.routing, parts->max_rows);
    size_t layers = (size_t)config->num_layers;
    size_t samples = (size_t)parts->sample_rows;
    struct eplb_activations *at = &parts->activations;
    take_rows(arena, config, parts->max_rows, at);
    at->sample_rows = eplb_arena_take(arena, samples, (size_t)config->hidden_size * sizeof(float));
    at->sample_logits = eplb_arena_take(arena, samples, (size_t)config->vocab_size * sizeof(float));
    eplb_attention_take_scratch(arena, config, &parts->attention);
    parts->moe = eplb_moe_take(arena, &moe);
    eplb_replicas_take(arena, &replicas, &parts->replicas);
    parts->expected_memory = eplb_arena_take(arena, 1, eplb_route_table_size(&parts->shape));
    parts->prefix =
        eplb_arena_take(arena, layers * (size_t)parts->shape.slots_per_rank, sizeof *parts->prefix);
    parts->work = eplb_arena_take(arena, layers, sizeof *parts->work);
}

static void take_caches(struct eplb_arena *arena, struct eplb_model *parts)
{
    parts->caches = eplb_arena_take(arena, (size_t)parts->num_caches, sizeof *parts->caches);
    parts->pending = eplb_arena_take(arena, (size_t)parts->num_caches, sizeof *parts->pending);
    eplb_attention_take_rings(arena, &parts->config, parts->num_caches, &parts->attention);
}

static struct eplb_model sizes_of(const struct eplb_model_config *config, const struct eplb_shape *shape,
                                  enum eplb_replica_routing routing, int32_t max_rows, int32_t num_caches)
{
    return (struct eplb_model){.config = *config,
                               .shape = *shape,
                               .replicas.params = {.shape = *shape, .routing = routing},
                               .max_rows = max_rows,
                               .num_caches = num_caches,
                               .sample_rows = max_rows < EPLB_SAMPLE_ROWS ? max_rows : EPLB_SAMPLE_ROWS};
}

/* struct | weights | caches, rings | activations */
static struct eplb_model *lay_out(struct eplb_arena *arena, const struct eplb_model_params *params)
{
    struct eplb_model parts = sizes_of(&params->config, &params->shape, params->replica_routing,
                                       params->max_rows, params->num_caches);
    struct eplb_model *model = eplb_arena_take(arena, 1, sizeof *model);
    eplb_model_weights_take(arena, &params->config, params->shape.slots_per_rank, &parts.weights);
    take_caches(arena, &parts);
    take_activations(arena, &parts);
    if (model != NULL)
        *model = parts;
    return model;
}

size_t eplb_model_activation_bytes(const struct eplb_model_config *config, const struct eplb_shape *shape,
                                   enum eplb_replica_routing routing, int32_t max_rows)
{
    struct eplb_arena arena;
    struct eplb_model parts = sizes_of(config, shape, routing, max_rows, 0);
    eplb_arena_init(&arena, NULL, 0);
    take_activations(&arena, &parts);
    return arena.overflow ? SIZE_MAX : arena.used;
}

size_t eplb_model_kv_bytes(const struct eplb_model_config *config, int32_t num_caches)
{
    struct eplb_arena arena;
    struct eplb_model parts = {.config = *config, .num_caches = num_caches};
    eplb_arena_init(&arena, NULL, 0);
    take_caches(&arena, &parts);
    return arena.overflow ? SIZE_MAX : arena.used;
}

/* ------------------------------------------------------------------------------------- parameters */

static enum eplb_status check_shape(const struct eplb_model_params *params, struct eplb_error *error)
{
    const struct eplb_model_config *config = &params->config;
    const struct eplb_shape *shape = &params->shape;
    const struct eplb_group *group = params->group;
    if (shape->num_layers != config->num_layers || shape->num_experts != config->num_experts)
        EPLB_FAIL(EPLB_INVALID,
                  "the shape has %d layers and %d experts, the model %d and %d; they must be equal",
                  shape->num_layers, shape->num_experts, config->num_layers, config->num_experts);
    if (params->ep_rank < 0 || params->ep_rank >= shape->ep_size)
        EPLB_FAIL(EPLB_INVALID, "ep_rank is %d of ep_size %d; allowed is 0 to ep_size - 1", params->ep_rank,
                  shape->ep_size);
    if (group == NULL || group->size < sizeof *group || group->all_to_all == NULL)
        EPLB_FAIL(EPLB_INVALID, "a model needs a process group table of %zu bytes with all_to_all",
                  sizeof *group);
    if (group->num_ranks != shape->ep_size || group->rank != params->ep_rank)
        EPLB_FAIL(
            EPLB_INVALID,
            "the process group is rank %d of %d, and the model rank %d of ep_size %d; they must be equal",
            group->rank, group->num_ranks, params->ep_rank, shape->ep_size);
    return EPLB_OK;
}

static enum eplb_status check_batches(const struct eplb_model_params *params, struct eplb_error *error)
{
    if (params->max_rows < 1 || params->num_caches < 1)
        EPLB_FAIL(EPLB_INVALID, "a model for %d rows and %d caches; allowed is 1 and more of each",
                  params->max_rows, params->num_caches);
    const struct eplb_moe_params moe =
        moe_params(&params->config, &params->shape, params->replica_routing, params->max_rows);
    int64_t copies = (int64_t)params->max_rows * params->config.top_k;
    int64_t arrivals = eplb_moe_most_arrivals(&moe);
    if (copies > INT32_MAX || arrivals > INT32_MAX)
        EPLB_FAIL(
            EPLB_INVALID,
            "with %d rows on each of %d ranks, %lld copies can leave a rank and %lld can arrive; allowed "
            "are 2^31 - 1",
            params->max_rows, params->shape.ep_size, (long long)copies, (long long)arrivals);
    return EPLB_OK;
}

static enum eplb_status check_routing(const struct eplb_model_params *params, struct eplb_error *error)
{
    if (params->replica_routing < EPLB_ROUTING_STATIC || params->replica_routing > EPLB_ROUTING_BATCH)
        EPLB_FAIL(EPLB_INVALID, "replica routing %d; allowed is 0 to %d", (int)params->replica_routing,
                  EPLB_NUM_ROUTINGS - 1);
    if (params->cost_per_active_slot < 0 || params->cost_per_token < 0)
        EPLB_FAIL(EPLB_INVALID, "a slot costs %d and a token %d; allowed is 0 and more",
                  params->cost_per_active_slot, params->cost_per_token);
    return EPLB_OK;
}

static enum eplb_status check_initial(const struct eplb_model_params *params, struct eplb_error *error)
{
    for (int32_t layer = 0; params->initial != NULL && layer < params->shape.num_layers; layer++) {
        struct eplb_error reason;
        const int32_t *table = params->initial + (size_t)layer * (size_t)params->shape.num_slots;
        if (eplb_placement_check(&params->shape, table, &reason) != EPLB_OK)
            EPLB_FAIL(EPLB_INVALID, "the initial table of layer %d is not legal: %s", layer, reason.text);
    }
    return EPLB_OK;
}

static enum eplb_status check_params(const struct eplb_model_params *params, struct eplb_error *error)
{
    EPLB_TRY(eplb_model_config_check(&params->config, error));
    EPLB_TRY(check_shape(params, error));
    EPLB_TRY(check_batches(params, error));
    EPLB_TRY(check_routing(params, error));
    if (params->routes != NULL &&
        (params->routes->size < sizeof *params->routes || params->routes->choose == NULL))
        EPLB_FAIL(EPLB_INVALID, "a model needs a route source table of %zu bytes with choose",
                  sizeof *params->routes);
    return check_initial(params, error);
}

/* ----------------------------------------------------------------------------------- registration */

enum { MOST_TENSORS = 9 };
_Static_assert(MOST_TENSORS <= EPLB_MAX_TENSORS, "all tensors of a layer can be registered");

/** 0 for a matrix that the model does not have. */
static int64_t matrix_floats(int32_t inner, int32_t outer)
{
    return inner == 0 || outer == 0 ? 0 : (int64_t)eplb_packed_floats(inner, outer);
}

/** Describes a layer's tensors; returns how many there are. */
static int32_t describe(const struct eplb_model *model, int32_t layer, struct eplb_tensor *tensors)
{
    const struct eplb_model_config *config = &model->config;
    const struct eplb_layer_weights *weights = &model->weights.layers[layer];
    struct eplb_expert_layout expert = eplb_expert_layout(config);
    int32_t hidden = config->hidden_size;
    int32_t shared = config->shared_hidden_size;
    int32_t heads = config->num_heads * config->head_dim;
    int64_t slots = model->shape.slots_per_rank;
    const struct {
        const char *name;
        float *data;
        int64_t first, floats;
        enum eplb_per_expert per_expert;
    } rows[MOST_TENSORS] = {
        {"expert_gate_up", weights->gate_up, slots, expert.gate_up_floats, EPLB_PER_EXPERT_YES},
        {"expert_down", weights->down, slots, expert.down_floats, EPLB_PER_EXPERT_YES},
        {"router", weights->router, hidden, matrix_floats(hidden, config->num_experts), EPLB_PER_EXPERT_NO},
        {"attention_norm", weights->attention_norm, hidden, hidden, EPLB_PER_EXPERT_NO},
        {"query_key_value", weights->query_key_value, hidden, matrix_floats(hidden, 3 * heads),
         EPLB_PER_EXPERT_NO},
        {"attention_out", weights->attention_out, heads, matrix_floats(heads, hidden), EPLB_PER_EXPERT_NO},
        {"moe_norm", weights->moe_norm, hidden, hidden, EPLB_PER_EXPERT_NO},
        {"shared_gate_up", weights->shared_gate_up, hidden, matrix_floats(hidden, 2 * shared),
         EPLB_PER_EXPERT_NO},
        {"shared_down", weights->shared_down, shared, matrix_floats(shared, hidden), EPLB_PER_EXPERT_NO},
    };
    int32_t count = shared > 0 ? MOST_TENSORS : MOST_TENSORS - 2;
    for (int32_t i = 0; i < count; i++)
        tensors[i] = (struct eplb_tensor){.size = sizeof *tensors,
                                          .name = rows[i].name,
                                          .data = rows[i].data,
                                          .first_dimension = rows[i].first,
                                          .bytes_per_expert = rows[i].floats * (int64_t)sizeof(float),
                                          .per_expert = rows[i].per_expert};
    return count;
}

static enum eplb_status register_weights(struct eplb_model *model, const struct eplb_log_sink *log,
                                         struct eplb_error *error)
{
    struct eplb_arena arena;
    size_t layers = (size_t)model->shape.num_layers;
    eplb_arena_init(&arena, NULL, 0);
    (void)eplb_arena_take(&arena, layers * MOST_TENSORS, sizeof(struct eplb_tensor));
    struct eplb_tensor *tensors = eplb_arena_reserve(&arena);
    if (tensors == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the descriptions of %d layers", model->shape.num_layers);
    int32_t count = 0;
    for (int32_t layer = 0; layer < model->shape.num_layers; layer++)
        count += describe(model, layer, tensors + count);
    const struct eplb_weights_params params = {.size = sizeof params,
                                               .shape = model->shape,
                                               .ep_rank = model->ep_rank,
                                               .num_tensors = count / model->shape.num_layers,
                                               .tensors = tensors,
                                               .expert_bytes = eplb_model_expert_bytes(&model->config),
                                               .log = log};
    enum eplb_status status = eplb_weights_create(&params, &model->registered, error);
    eplb_arena_free(tensors);
    return status;
}

/* ----------------------------------------------------------------------------------------- create */

static enum eplb_status check_replica_weights(const struct eplb_shape *shape, const int32_t *tables,
                                              const int32_t *weights, struct eplb_error *error)
{
    struct eplb_arena arena;
    struct eplb_error reason;
    eplb_arena_init(&arena, NULL, 0);
    (void)eplb_arena_take(&arena, (size_t)shape->num_experts, sizeof(int32_t));
    int32_t *scratch = eplb_arena_reserve(&arena);
    if (scratch == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the replicas of %d experts", shape->num_experts);
    enum eplb_status status = EPLB_OK;
    for (int32_t layer = 0; status == EPLB_OK && layer < shape->num_layers; layer++) {
        size_t first = (size_t)layer * (size_t)shape->num_slots;
        status = eplb_weights_check(shape, tables + first, weights + first, scratch, &reason);
        if (status != EPLB_OK)
            status = eplb_fail(error, status, "the initial weights of layer %d are not legal: %s", layer,
                               reason.text);
    }
    eplb_arena_free(scratch);
    return status;
}

/** Makes the experts' weights and the replica tables. */
static enum eplb_status load(struct eplb_model *model, const int32_t *tables, const int32_t *weights,
                             struct eplb_error *error)
{
    if (weights != NULL)
        EPLB_TRY(check_replica_weights(&model->shape, tables, weights, error));
    eplb_model_weights_fill(&model->config, &model->shape, model->ep_rank, tables, &model->weights);
    for (int32_t layer = 0; layer < model->shape.num_layers; layer++) {
        size_t first = (size_t)layer * (size_t)model->shape.num_slots;
        eplb_replicas_set(&model->replicas, layer, tables + first, weights == NULL ? NULL : weights + first);
    }
    return EPLB_OK;
}

static enum eplb_status load_initial(struct eplb_model *model, const int32_t *weights,
                                     struct eplb_error *error)
{
    struct eplb_arena arena;
    size_t layers = (size_t)model->shape.num_layers;
    size_t slots = (size_t)model->shape.num_slots;
    eplb_arena_init(&arena, NULL, 0);
    (void)eplb_arena_take(&arena, layers * slots, sizeof(int32_t));
    int32_t *tables = eplb_arena_reserve(&arena);
    if (tables == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the tables of %zu layers with %zu slots", layers, slots);
    for (size_t layer = 0; layer < layers; layer++)
        eplb_placement_initial(&model->shape, tables + layer * slots);
    enum eplb_status status = load(model, tables, weights, error);
    eplb_arena_free(tables);
    return status;
}

static void init_parts(struct eplb_model *model, const struct eplb_model_params *params)
{
    struct eplb_moe_params moe =
        moe_params(&params->config, &params->shape, params->replica_routing, params->max_rows);
    const int32_t cost_per_token = params->cost_per_token == 0 ? 1 : params->cost_per_token;
    const struct eplb_replicas_params replicas = {.shape = params->shape,
                                                  .ep_rank = params->ep_rank,
                                                  .routing = params->replica_routing,
                                                  .node_of_rank = params->node_of_rank};
    model->ep_rank = params->ep_rank;
    model->decode_only_load = params->decode_only_load;
    model->routes = params->routes == NULL ? eplb_route_by_router() : params->routes;
    model->gemm = eplb_gemm();
    model->hooks = eplb_model_hooks_over(model);
    eplb_replicas_init(&model->replicas, &replicas);
    moe.ep_rank = params->ep_rank;
    moe.cost_per_active_slot = params->cost_per_active_slot;
    moe.cost_per_token = cost_per_token;
    moe.group = params->group;
    moe.counter = model->counter;
    moe.clock = params->clock;
    moe.cpu_time = params->cpu_time;
    eplb_moe_init(model->moe, &moe);
    eplb_attention_init(&params->config, params->num_caches, &model->attention);
}

static enum eplb_status fill(struct eplb_model *model, const struct eplb_model_params *params,
                             struct eplb_error *error)
{
    EPLB_TRY(eplb_counter_create(&params->shape, params->ep_rank, &model->counter, error));
    init_parts(model, params);
    if (params->initial == NULL)
        EPLB_TRY(load_initial(model, params->initial_weights, error));
    else
        EPLB_TRY(load(model, params->initial, params->initial_weights, error));
    return params->fixed ? EPLB_OK : register_weights(model, params->log, error);
}

enum eplb_status eplb_model_create(const struct eplb_model_params *params, struct eplb_model **model,
                                   struct eplb_error *error)
{
    EPLB_TRY(check_params(params, error));
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    (void)lay_out(&arena, params);
    void *block = eplb_arena_reserve(&arena);
    if (block == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "rank %d: no memory for a model of %zu bytes", params->ep_rank, arena.used);
    struct eplb_model *created = lay_out(&arena, params);
    EPLB_ASSERT(created == block && !arena.overflow);
    enum eplb_status status = fill(created, params, error);
    if (status != EPLB_OK) {
        eplb_model_destroy(created);
        return status;
    }
    *model = created;
    return EPLB_OK;
}

void eplb_model_destroy(struct eplb_model *model)
{
    if (model == NULL)
        return;
    eplb_weights_destroy(model->registered);
    eplb_counter_destroy(model->counter);
    eplb_arena_free(model);
}

/* ------------------------------------------------------------------------------------------ views */

struct eplb_weights *eplb_model_registered(struct eplb_model *model)
{
    return model->registered;
}

const struct eplb_model_hooks *eplb_model_hooks(const struct eplb_model *model)
{
    return &model->hooks;
}

const struct eplb_replica_layer *eplb_model_replicas(const struct eplb_model *model, int32_t layer)
{
    EPLB_ASSERT(layer >= 0 && layer < model->shape.num_layers);
    return &model->replicas.layers[layer];
}

const int64_t *eplb_model_prefix(const struct eplb_model *model)
{
    return model->prefix;
}

void eplb_model_forget(struct eplb_model *model)
{
    memset(model->prefix, 0,
           (size_t)model->shape.num_layers * (size_t)model->shape.slots_per_rank * sizeof *model->prefix);
    memset(model->work, 0, (size_t)model->shape.num_layers * sizeof *model->work);
}

const struct eplb_moe_work *eplb_model_work(const struct eplb_model *model)
{
    return model->work;
}
