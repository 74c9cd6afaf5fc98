/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "engine/layout.h"
#include "engine/records.h"
#include "model/recording.h"
#include "wire/bytes.h"

/* The arrays of a setup are used where they lie in the record. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a machine with little-endian integers");
_Static_assert(EPLB_SETUP_ARRAYS % sizeof(int64_t) == 0, "the rates are aligned");

/* The int32 members and where they are. */
#define SETUP_NUMBERS(NUMBER)                                  \
    NUMBER(model.vocab_size, VOCAB_SIZE)                       \
    NUMBER(model.hidden_size, HIDDEN_SIZE)                     \
    NUMBER(model.num_layers, NUM_LAYERS)                       \
    NUMBER(model.num_heads, NUM_HEADS)                         \
    NUMBER(model.head_dim, HEAD_DIM)                           \
    NUMBER(model.kv_window, KV_WINDOW)                         \
    NUMBER(model.num_experts, NUM_EXPERTS)                     \
    NUMBER(model.top_k, TOP_K)                                 \
    NUMBER(model.expert_hidden_size, EXPERT_HIDDEN_SIZE)       \
    NUMBER(model.shared_hidden_size, SHARED_HIDDEN_SIZE)       \
    NUMBER(max_rows, MAX_ROWS)                                 \
    NUMBER(num_caches, NUM_CACHES)                             \
    NUMBER(eplb, EPLB)                                         \
    NUMBER(decode_only_load, DECODE_ONLY_LOAD)                 \
    NUMBER(fused_mc2, FUSED_MC2)                               \
    NUMBER(transfer_timeout_seconds, TRANSFER_TIMEOUT_SECONDS) \
    NUMBER(verify, VERIFY)                                     \
    NUMBER(inject, INJECT)                                     \
    NUMBER(skew_phases, SKEW_PHASES)                           \
    NUMBER(trace_sequences, TRACE_SEQUENCES)                   \
    NUMBER(trace_repeat, TRACE_REPEAT)                         \
    NUMBER(record, RECORD)                                     \
    NUMBER(cost_per_active_slot, COST_PER_ACTIVE_SLOT)         \
    NUMBER(cost_per_token, COST_PER_TOKEN)

static size_t rates_of_phase(const struct eplb_shape *shape)
{
    return (size_t)shape->num_layers * (size_t)shape->num_experts;
}

static size_t initial_offset(const struct eplb_shape *shape, int32_t phases)
{
    return EPLB_SETUP_ARRAYS + (size_t)phases * rates_of_phase(shape) * sizeof(int64_t);
}

static size_t table_bytes(const struct eplb_shape *shape)
{
    return (size_t)shape->num_layers * (size_t)shape->num_slots * sizeof(int32_t);
}

static size_t weights_offset(const struct eplb_shape *shape, int32_t phases)
{
    return initial_offset(shape, phases) + table_bytes(shape);
}

/** What the record holds behind the initial tables. */
struct extras {
    bool weights, nodes;
};

static struct extras extras_of(const struct eplb_run_setup *setup)
{
    return (struct extras){setup->initial_weights != NULL, setup->node_of_rank != NULL};
}

static size_t nodes_offset(const struct eplb_shape *shape, int32_t phases, struct extras extras)
{
    return weights_offset(shape, phases) + (extras.weights ? table_bytes(shape) : 0);
}

/** Also the size of a setup without a recording. Phases are within their range: nothing here passes 2^63. */
static size_t path_offset(const struct eplb_shape *shape, int32_t phases, struct extras extras)
{
    EPLB_ASSERT(phases >= 0 && phases <= EPLB_MAX_SKEW_PHASES);
    return nodes_offset(shape, phases, extras) +
           (extras.nodes ? (size_t)shape->ep_size * sizeof(int32_t) : 0);
}

static size_t path_bytes(const struct eplb_run_setup *setup)
{
    return setup->trace_path == NULL ? 0 : strlen(setup->trace_path) + 1;
}

/* -------------------------------------------------------------------------------------- checks */

/** The same shape for both: a setup of another run is recognised before its arrays are looked at. */
static enum eplb_status check_shape(const struct eplb_run_setup *setup, int32_t ep_size, int32_t redundant,
                                    const struct eplb_shape *shape, struct eplb_error *error)
{
    if (setup->model.num_layers != shape->num_layers || setup->model.num_experts != shape->num_experts ||
        ep_size != shape->ep_size || redundant != shape->redundant_experts_num)
        EPLB_FAIL(
            EPLB_INVALID,
            "setup: %d layers, %d experts, %d ranks and %d redundant slots each; this run has %d, %d, %d "
            "and %d",
            setup->model.num_layers, setup->model.num_experts, ep_size, redundant, shape->num_layers,
            shape->num_experts, shape->ep_size, shape->redundant_experts_num);
    return EPLB_OK;
}

struct range {
    const char *name;
    int64_t value, low, high;
};

static enum eplb_status check_numbers(const struct eplb_run_setup *setup, struct eplb_error *error)
{
    int32_t phases_from = setup->routing == EPLB_ROUTING_SKEW ? 1 : 0;
    int32_t phases_to = setup->routing == EPLB_ROUTING_SKEW ? EPLB_MAX_SKEW_PHASES : 0;
    bool trace = setup->routing == EPLB_ROUTING_TRACE;
    const struct range ranges[] = {
        {"max_rows", setup->max_rows, 1, INT32_MAX},
        {"num_caches", setup->num_caches, 1, setup->max_rows},
        {"eplb", setup->eplb, 0, 1},
        {"decode_only_load", setup->decode_only_load, 0, 1},
        {"fused_mc2", setup->fused_mc2, 0, 0},
        {"transfer_timeout_seconds", setup->transfer_timeout_seconds, 1, INT32_MAX},
        {"transfer_chunk_bytes", setup->transfer_chunk_bytes, 1, INT64_MAX},
        {"transfer_inflight_bytes", setup->transfer_inflight_bytes, setup->transfer_chunk_bytes, INT64_MAX},
        {"engine_pid", setup->engine_pid, 1, INT32_MAX},
        {"verify", setup->verify, 0, 1},
        {"inject", setup->inject, 0, 1},
        {"routing", setup->routing, EPLB_ROUTING_MODEL, EPLB_ROUTING_TRACE},
        {"skew_phases", setup->skew_phases, phases_from, phases_to},
        {"trace_sequences", setup->trace_sequences, trace ? 1 : 0, trace ? EPLB_MAX_REPLAYED : 0},
        {"trace_repeat", setup->trace_repeat, trace ? 1 : 0, trace ? INT32_MAX : 0},
        {"record", setup->record, 0, 1},
        {"replica_routing", setup->replica_routing, EPLB_ROUTING_STATIC, EPLB_ROUTING_BATCH},
        {"cost_per_active_slot", setup->cost_per_active_slot, 0, INT32_MAX},
        {"cost_per_token", setup->cost_per_token, 1, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            EPLB_FAIL(EPLB_INVALID, "setup: %s is %lld; allowed is %lld to %lld", ranges[i].name,
                      (long long)ranges[i].value, (long long)ranges[i].low, (long long)ranges[i].high);
    return EPLB_OK;
}

/** As eplb_skewed_routes_create, which would tell it later. */
static enum eplb_status check_rates(const struct eplb_run_setup *setup, int32_t phase, int32_t layer,
                                    const int64_t *rates, struct eplb_error *error)
{
    int64_t sum = 0;
    int32_t positive = 0;
    for (int32_t expert = 0; expert < setup->model.num_experts; expert++) {
        if (rates[expert] < 0 || rates[expert] > EPLB_MAX_LOAD - sum)
            EPLB_FAIL(
                EPLB_INVALID,
                "setup: phase %d, layer %d, expert %d: rate %lld; allowed is 0 or more, and at most 2^62 "
                "for the layer's sum",
                phase, layer, expert, (long long)rates[expert]);
        sum += rates[expert];
        positive += rates[expert] > 0;
    }
    if (positive < setup->model.top_k)
        EPLB_FAIL(EPLB_INVALID,
                  "setup: phase %d, layer %d: %d rates are positive; at least %d, the top_k, are needed",
                  phase, layer, positive, setup->model.top_k);
    return EPLB_OK;
}

/** That an expert's weights add up to the unit takes memory to see: the model looks, and the manager. */
static enum eplb_status check_weights(const struct eplb_run_setup *setup, const struct eplb_shape *shape,
                                      struct eplb_error *error)
{
    const int32_t *weight = setup->initial_weights;
    for (int32_t layer = 0; weight != NULL && layer < shape->num_layers; layer++)
        for (int32_t slot = 0; slot < shape->num_slots; slot++, weight++)
            if (*weight < 1 || *weight > EPLB_WEIGHT_UNIT)
                EPLB_FAIL(EPLB_INVALID, "setup: layer %d, slot %d: weight %d; allowed is 1 to %d", layer,
                          slot, *weight, EPLB_WEIGHT_UNIT);
    return EPLB_OK;
}

static enum eplb_status check_arrays(const struct eplb_run_setup *setup, const struct eplb_shape *shape,
                                     struct eplb_error *error)
{
    size_t phase_rates = rates_of_phase(shape);
    for (int32_t phase = 0; phase < setup->skew_phases; phase++)
        for (int32_t layer = 0; layer < shape->num_layers; layer++)
            EPLB_TRY(check_rates(setup, phase, layer,
                                 setup->skew_rates + (size_t)phase * phase_rates +
                                     (size_t)layer * (size_t)shape->num_experts,
                                 error));
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        struct eplb_error table;
        const int32_t *ids = setup->initial + (size_t)layer * (size_t)shape->num_slots;
        if (eplb_placement_check(shape, ids, &table) != EPLB_OK)
            EPLB_FAIL(EPLB_INVALID, "setup: the table of layer %d is not legal: %s", layer, table.text);
    }
    return check_weights(setup, shape, error);
}

static enum eplb_status check_path(const struct eplb_run_setup *setup, struct eplb_error *error)
{
    size_t bytes = path_bytes(setup);
    if (setup->routing != EPLB_ROUTING_TRACE && (bytes > 0 || setup->trace_digest != 0))
        EPLB_FAIL(EPLB_INVALID, "setup: there is a recording, and routing is %d", (int)setup->routing);
    if (setup->routing == EPLB_ROUTING_TRACE && (bytes < 2 || bytes > EPLB_MAX_TRACE_PATH))
        EPLB_FAIL(EPLB_INVALID, "setup: the recording's path takes %zu bytes; allowed is 2 to %d", bytes,
                  EPLB_MAX_TRACE_PATH);
    return EPLB_OK;
}

enum eplb_status eplb_setup_check(const struct eplb_run_setup *setup, const struct eplb_shape *shape,
                                  struct eplb_error *error)
{
    EPLB_TRY(check_shape(setup, shape->ep_size, shape->redundant_experts_num, shape, error));
    EPLB_TRY(eplb_model_config_check(&setup->model, error));
    EPLB_TRY(check_numbers(setup, error));
    EPLB_TRY(check_path(setup, error));
    return check_arrays(setup, shape, error);
}

/* ------------------------------------------------------------------------------ encode, decode */

size_t eplb_setup_bytes(const struct eplb_run_setup *setup, const struct eplb_shape *shape)
{
    return path_offset(shape, setup->skew_phases, extras_of(setup)) + path_bytes(setup);
}

static void put_extras(const struct eplb_run_setup *setup, const struct eplb_shape *shape,
                       unsigned char *record)
{
    const struct extras extras = extras_of(setup);
    eplb_put_u32(record + EPLB_SETUP_REPLICA_ROUTING, (uint32_t)setup->replica_routing);
    eplb_put_u32(record + EPLB_SETUP_HAS_WEIGHTS, extras.weights);
    eplb_put_u32(record + EPLB_SETUP_HAS_NODES, extras.nodes);
    eplb_put_u32(record + EPLB_SETUP_RESERVED, 0);
    if (extras.weights)
        memcpy(record + weights_offset(shape, setup->skew_phases), setup->initial_weights,
               table_bytes(shape));
    if (extras.nodes)
        memcpy(record + nodes_offset(shape, setup->skew_phases, extras), setup->node_of_rank,
               (size_t)shape->ep_size * sizeof *setup->node_of_rank);
}

void eplb_setup_encode(const struct eplb_run_setup *setup, const struct eplb_shape *shape, void *bytes)
{
    unsigned char *record = bytes;
    EPLB_ASSERT(eplb_setup_check(setup, shape, NULL) == EPLB_OK);
#define PUT_NUMBER(member, name) eplb_put_u32(record + EPLB_SETUP_##name, (uint32_t)setup->member);
    SETUP_NUMBERS(PUT_NUMBER)
#undef PUT_NUMBER
    eplb_put_u32(record + EPLB_SETUP_EP_SIZE, (uint32_t)shape->ep_size);
    eplb_put_u32(record + EPLB_SETUP_REDUNDANT_EXPERTS_NUM, (uint32_t)shape->redundant_experts_num);
    eplb_put_u32(record + EPLB_SETUP_ROUTING, (uint32_t)setup->routing);
    eplb_put_u64(record + EPLB_SETUP_MODEL_SEED, setup->model.seed);
    eplb_put_u64(record + EPLB_SETUP_SKEW_SEED, setup->skew_seed);
    eplb_put_u64(record + EPLB_SETUP_SKEW_PERIOD, setup->skew_period);
    eplb_put_u64(record + EPLB_SETUP_TRANSFER_CHUNK_BYTES, (uint64_t)setup->transfer_chunk_bytes);
    eplb_put_u64(record + EPLB_SETUP_TRANSFER_INFLIGHT_BYTES, (uint64_t)setup->transfer_inflight_bytes);
    eplb_put_u64(record + EPLB_SETUP_ENGINE_PID, (uint64_t)setup->engine_pid);

    size_t initial = initial_offset(shape, setup->skew_phases);
    if (setup->skew_phases > 0)
        memcpy(record + EPLB_SETUP_ARRAYS, setup->skew_rates, initial - EPLB_SETUP_ARRAYS);
    memcpy(record + initial, setup->initial, table_bytes(shape));
    put_extras(setup, shape, record);
    size_t path = path_offset(shape, setup->skew_phases, extras_of(setup));
    eplb_put_u32(record + EPLB_SETUP_TRACE_PATH_BYTES, (uint32_t)path_bytes(setup));
    eplb_put_u64(record + EPLB_SETUP_TRACE_DIGEST, setup->trace_digest);
    if (setup->trace_path != NULL)
        memcpy(record + path, setup->trace_path, path_bytes(setup));
}

/** Everything but the arrays. */
static struct eplb_run_setup get_setup(const unsigned char *record)
{
    struct eplb_run_setup setup = {
        .model.seed = eplb_get_u64(record + EPLB_SETUP_MODEL_SEED),
        .transfer_chunk_bytes = eplb_get_i64(record + EPLB_SETUP_TRANSFER_CHUNK_BYTES),
        .transfer_inflight_bytes = eplb_get_i64(record + EPLB_SETUP_TRANSFER_INFLIGHT_BYTES),
        .engine_pid = eplb_get_i64(record + EPLB_SETUP_ENGINE_PID),
        .routing = (enum eplb_routing)eplb_get_u32(record + EPLB_SETUP_ROUTING),
        .replica_routing = (enum eplb_replica_routing)eplb_get_u32(record + EPLB_SETUP_REPLICA_ROUTING),
        .skew_seed = eplb_get_u64(record + EPLB_SETUP_SKEW_SEED),
        .skew_period = eplb_get_u64(record + EPLB_SETUP_SKEW_PERIOD),
        .trace_digest = eplb_get_u64(record + EPLB_SETUP_TRACE_DIGEST),
    };
#define GET_NUMBER(member, name) setup.member = eplb_get_i32(record + EPLB_SETUP_##name);
    SETUP_NUMBERS(GET_NUMBER)
#undef GET_NUMBER
    return setup;
}

/** Which arrays there are beside the initial tables. */
static enum eplb_status get_extras(const unsigned char *record, struct extras *extras,
                                   struct eplb_error *error)
{
    uint32_t weights = eplb_get_u32(record + EPLB_SETUP_HAS_WEIGHTS);
    uint32_t nodes = eplb_get_u32(record + EPLB_SETUP_HAS_NODES);
    uint32_t reserved = eplb_get_u32(record + EPLB_SETUP_RESERVED);
    if (weights > 1 || nodes > 1 || reserved != 0)
        EPLB_FAIL(
            EPLB_INVALID,
            "setup: has_weights is %lu, has_nodes %lu and reserved %lu; allowed are 0 or 1 of the first "
            "two, and 0",
            (unsigned long)weights, (unsigned long)nodes, (unsigned long)reserved);
    *extras = (struct extras){weights == 1, nodes == 1};
    return EPLB_OK;
}

/** Finds the path behind the arrays, if there is one; the record ends with it. */
static enum eplb_status get_path(const unsigned char *record, size_t size, const struct eplb_shape *shape,
                                 struct extras extras, struct eplb_run_setup *setup, struct eplb_error *error)
{
    uint32_t bytes = eplb_get_u32(record + EPLB_SETUP_TRACE_PATH_BYTES);
    size_t path = path_offset(shape, setup->skew_phases, extras);
    if (bytes > EPLB_MAX_TRACE_PATH)
        EPLB_FAIL(EPLB_INVALID, "setup: the recording's path takes %lu bytes; allowed is at most %d",
                  (unsigned long)bytes, EPLB_MAX_TRACE_PATH);
    if (size != path + bytes)
        EPLB_FAIL(EPLB_INVALID, "setup: %zu bytes; this shape and %d phases need %zu", size,
                  setup->skew_phases, path + bytes);
    if (bytes == 0)
        return EPLB_OK;
    if (memchr(record + path, '\0', bytes) != record + path + bytes - 1)
        EPLB_FAIL(EPLB_INVALID, "setup: the recording's path of %lu bytes does not end with the record",
                  (unsigned long)bytes);
    setup->trace_path = (const char *)record + path;
    return EPLB_OK;
}

enum eplb_status eplb_setup_decode(const void *bytes, size_t size, const struct eplb_shape *shape,
                                   struct eplb_run_setup *setup, struct eplb_error *error)
{
    const unsigned char *record = bytes;
    EPLB_ASSERT((uintptr_t)bytes % sizeof(int64_t) == 0);
    if (size < EPLB_SETUP_ARRAYS)
        EPLB_FAIL(EPLB_INVALID, "setup: %zu bytes; at least %d are needed", size, EPLB_SETUP_ARRAYS);
    struct eplb_run_setup decoded = get_setup(record);
    EPLB_TRY(check_shape(&decoded, eplb_get_i32(record + EPLB_SETUP_EP_SIZE),
                         eplb_get_i32(record + EPLB_SETUP_REDUNDANT_EXPERTS_NUM), shape, error));
    EPLB_TRY(eplb_model_config_check(&decoded.model, error));
    EPLB_TRY(check_numbers(&decoded, error));
    struct extras extras;
    EPLB_TRY(get_extras(record, &extras, error));
    EPLB_TRY(get_path(record, size, shape, extras, &decoded, error));
    EPLB_TRY(check_path(&decoded, error));
    if (decoded.skew_phases > 0)
        decoded.skew_rates = (const int64_t *)(const void *)(record + EPLB_SETUP_ARRAYS);
    decoded.initial = (const int32_t *)(const void *)(record + initial_offset(shape, decoded.skew_phases));
    if (extras.weights)
        decoded.initial_weights =
            (const int32_t *)(const void *)(record + weights_offset(shape, decoded.skew_phases));
    if (extras.nodes)
        decoded.node_of_rank =
            (const int32_t *)(const void *)(record + nodes_offset(shape, decoded.skew_phases, extras));
    EPLB_TRY(check_arrays(&decoded, shape, error));
    *setup = decoded;
    return EPLB_OK;
}
