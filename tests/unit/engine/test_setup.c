/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The setup of a worker: where its fields are, exact refusals, and many damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "engine/layout.h"
#include "engine/records.h"
#include "wire/bytes.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* Two layers of four experts over two ranks with a redundant slot each; two phases of rates. */
enum { LAYERS = 2, EXPERTS = 4, RANKS = 2, SLOTS = 6, PHASES = 2, TRIES = 300000 };
enum { RATES = PHASES * LAYERS * EXPERTS };
enum { SIZE = EPLB_SETUP_ARRAYS + RATES * 8 + LAYERS * SLOTS * 4, INITIAL = EPLB_SETUP_ARRAYS + RATES * 8 };

static const int64_t rates[RATES] = {1, 2, 3, 4, 5, 0, 0, 6, 7, 8, 9, 10, 0, 0, 11, INT64_C(1) << 61};
static const int32_t initial[LAYERS * SLOTS] = {0, 1, 2, 2, 3, 0, 3, 2, 1, 0, 1, 2};

/** A record, aligned. */
union record {
    uint64_t alignment;
    unsigned char bytes[SIZE + 64];
};

static struct eplb_shape make_shape(void)
{
    struct eplb_shape shape;
    assert_int_equal(eplb_shape_init(&shape, LAYERS, EXPERTS, RANKS, 1, NULL), EPLB_OK);
    return shape;
}

static struct eplb_run_setup example(void)
{
    struct eplb_run_setup setup = {
        .max_rows = 64,
        .num_caches = 16,
        .eplb = 1,
        .transfer_timeout_seconds = 10,
        .transfer_chunk_bytes = 4096,
        .transfer_inflight_bytes = 65536,
        .engine_pid = 4711,
        .verify = 1,
        .routing = EPLB_ROUTING_SKEW,
        .skew_seed = 0x1112131415161718,
        .skew_period = 500,
        .skew_phases = PHASES,
        .skew_rates = rates,
        .initial = initial,
        .cost_per_token = 1,
    };
    eplb_model_config_init(&setup.model);
    setup.model.num_layers = LAYERS;
    setup.model.num_experts = EXPERTS;
    setup.model.top_k = 2;
    setup.model.seed = 0x0102030405060708;
    return setup;
}

static void encode(const struct eplb_run_setup *setup, union record *record)
{
    struct eplb_shape shape = make_shape();
    memset(record, 0xa5, sizeof *record);
    eplb_setup_encode(setup, &shape, record->bytes);
}

static enum eplb_status decode(const union record *record, size_t size, struct eplb_run_setup *setup,
                               struct eplb_error *error)
{
    struct eplb_shape shape = make_shape();
    return eplb_setup_decode(record->bytes, size, &shape, setup, error);
}

static void the_fields_are_where_the_layout_says(void **state)
{
    (void)state;
    union record record;
    struct eplb_run_setup setup = example();
    struct eplb_shape shape = make_shape();
    assert_int_equal(eplb_setup_bytes(&setup, &shape), SIZE);
    encode(&setup, &record);
    static const uint64_t wide[6] = {0x0102030405060708, 0x1112131415161718, 500, 4096, 65536, 4711};
    static const int32_t numbers[26] = {256, 64, 2, 4, 16, 128, 4, 2, 128, 64, 2, 1, 64,
                                        16,  1,  0, 0, 10, 1,   0, 1, 2,   0,  0, 0, 0};
    for (size_t i = 0; i < LENGTH(wide); i++)
        assert_int_equal(eplb_get_u64(record.bytes + 8 * i), wide[i]);
    for (size_t i = 0; i < LENGTH(numbers); i++)
        assert_int_equal(eplb_get_i32(record.bytes + 48 + 4 * i), numbers[i]);
    for (size_t i = 0; i < RATES; i++)
        assert_int_equal(eplb_get_i64(record.bytes + 184 + 8 * i), rates[i]);
    for (size_t i = 0; i < LAYERS * SLOTS; i++)
        assert_int_equal(eplb_get_i32(record.bytes + 312 + 4 * i), initial[i]);
    assert_int_equal(eplb_get_u64(record.bytes + 152), 0);
    static const int32_t replicas[6] = {0, 0, 1, 0, 0, 0};
    for (size_t i = 0; i < LENGTH(replicas); i++)
        assert_int_equal(eplb_get_i32(record.bytes + 160 + 4 * i), replicas[i]);
    assert_int_equal(record.bytes[SIZE], 0xa5);
}

static void assert_setups_equal(const struct eplb_run_setup *a, const struct eplb_run_setup *b)
{
    assert_memory_equal(&a->model, &b->model, sizeof a->model);
    assert_int_equal(a->max_rows, b->max_rows);
    assert_int_equal(a->num_caches, b->num_caches);
    assert_int_equal(a->eplb, b->eplb);
    assert_int_equal(a->decode_only_load, b->decode_only_load);
    assert_int_equal(a->fused_mc2, b->fused_mc2);
    assert_int_equal(a->transfer_timeout_seconds, b->transfer_timeout_seconds);
    assert_int_equal(a->transfer_chunk_bytes, b->transfer_chunk_bytes);
    assert_int_equal(a->transfer_inflight_bytes, b->transfer_inflight_bytes);
    assert_int_equal(a->engine_pid, b->engine_pid);
    assert_int_equal(a->verify, b->verify);
    assert_int_equal(a->inject, b->inject);
    assert_int_equal(a->routing, b->routing);
    assert_int_equal(a->skew_seed, b->skew_seed);
    assert_int_equal(a->skew_period, b->skew_period);
    assert_int_equal(a->skew_phases, b->skew_phases);
    assert_int_equal(a->replica_routing, b->replica_routing);
    assert_int_equal(a->cost_per_active_slot, b->cost_per_active_slot);
    assert_int_equal(a->cost_per_token, b->cost_per_token);
    assert_memory_equal(a->initial, b->initial, sizeof initial);
    assert_int_equal(a->initial_weights == NULL, b->initial_weights == NULL);
    if (a->initial_weights != NULL)
        assert_memory_equal(a->initial_weights, b->initial_weights, sizeof initial);
    assert_int_equal(a->node_of_rank == NULL, b->node_of_rank == NULL);
    if (a->node_of_rank != NULL)
        assert_memory_equal(a->node_of_rank, b->node_of_rank, RANKS * sizeof *a->node_of_rank);
    if (b->skew_phases > 0)
        assert_memory_equal(a->skew_rates, b->skew_rates,
                            sizeof *rates * LAYERS * EXPERTS * (size_t)b->skew_phases);
    else
        assert_null(a->skew_rates);
}

static void setups_come_back(void **state)
{
    (void)state;
    union record record;
    struct eplb_shape shape = make_shape();
    for (int i = 0; i < 4; i++) {
        struct eplb_run_setup sent = example();
        struct eplb_run_setup received;
        sent.skew_phases = i % 2 + 1;
        sent.inject = i / 2;
        sent.decode_only_load = 1;
        if (i == 3) {
            sent.routing = EPLB_ROUTING_MODEL;
            sent.skew_phases = 0;
            sent.skew_rates = NULL;
        }
        encode(&sent, &record);
        assert_int_equal(decode(&record, eplb_setup_bytes(&sent, &shape), &received, NULL), EPLB_OK);
        assert_setups_equal(&received, &sent);
        /* Borrowed, not copied. */
        assert_in_range((uintptr_t)received.initial, (uintptr_t)record.bytes,
                        (uintptr_t)record.bytes + sizeof record);
    }
}

struct damage {
    size_t offset;
    size_t bytes;
    uint64_t value;
    const char *text;
};

#define MINUS_1 UINT64_MAX
#define THIS_RUN "; this run has 2, 4, 2 and 1"

static const struct damage damages[] = {
    {EPLB_SETUP_NUM_LAYERS, 4, 3, "setup: 3 layers, 4 experts, 2 ranks and 1 redundant slots each" THIS_RUN},
    {EPLB_SETUP_NUM_EXPERTS, 4, 8, "setup: 2 layers, 8 experts, 2 ranks and 1 redundant slots each" THIS_RUN},
    {EPLB_SETUP_EP_SIZE, 4, 4, "setup: 2 layers, 4 experts, 4 ranks and 1 redundant slots each" THIS_RUN},
    {EPLB_SETUP_REDUNDANT_EXPERTS_NUM, 4, MINUS_1,
     "setup: 2 layers, 4 experts, 2 ranks and -1 redundant slots each" THIS_RUN},
    {EPLB_SETUP_MAX_ROWS, 4, 0, "setup: max_rows is 0; allowed is 1 to 2147483647"},
    {EPLB_SETUP_NUM_CACHES, 4, 0, "setup: num_caches is 0; allowed is 1 to 64"},
    {EPLB_SETUP_NUM_CACHES, 4, 65, "setup: num_caches is 65; allowed is 1 to 64"},
    {EPLB_SETUP_EPLB, 4, 2, "setup: eplb is 2; allowed is 0 to 1"},
    {EPLB_SETUP_DECODE_ONLY_LOAD, 4, MINUS_1, "setup: decode_only_load is -1; allowed is 0 to 1"},
    {EPLB_SETUP_FUSED_MC2, 4, 1, "setup: fused_mc2 is 1; allowed is 0 to 0"},
    {EPLB_SETUP_TRANSFER_TIMEOUT_SECONDS, 4, 0,
     "setup: transfer_timeout_seconds is 0; allowed is 1 to 2147483647"},
    {EPLB_SETUP_TRANSFER_CHUNK_BYTES, 8, 0,
     "setup: transfer_chunk_bytes is 0; allowed is 1 to 9223372036854775807"},
    {EPLB_SETUP_TRANSFER_INFLIGHT_BYTES, 8, 4095,
     "setup: transfer_inflight_bytes is 4095; allowed is 4096 to 9223372036854775807"},
    {EPLB_SETUP_ENGINE_PID, 8, 0, "setup: engine_pid is 0; allowed is 1 to 2147483647"},
    {EPLB_SETUP_ENGINE_PID, 8, UINT64_C(1) << 32,
     "setup: engine_pid is 4294967296; allowed is 1 to 2147483647"},
    {EPLB_SETUP_VERIFY, 4, 2, "setup: verify is 2; allowed is 0 to 1"},
    {EPLB_SETUP_INJECT, 4, 2, "setup: inject is 2; allowed is 0 to 1"},
    {EPLB_SETUP_REPLICA_ROUTING, 4, 5, "setup: replica_routing is 5; allowed is 0 to 4"},
    {EPLB_SETUP_REPLICA_ROUTING, 4, MINUS_1, "setup: replica_routing is 4294967295; allowed is 0 to 4"},
    {EPLB_SETUP_COST_PER_ACTIVE_SLOT, 4, MINUS_1,
     "setup: cost_per_active_slot is -1; allowed is 0 to 2147483647"},
    {EPLB_SETUP_COST_PER_TOKEN, 4, 0, "setup: cost_per_token is 0; allowed is 1 to 2147483647"},
    {EPLB_SETUP_HAS_WEIGHTS, 4, 2,
     "setup: has_weights is 2, has_nodes 0 and reserved 0; allowed are 0 or 1 of the first two, and 0"},
    {EPLB_SETUP_HAS_NODES, 4, MINUS_1,
     "setup: has_weights is 0, has_nodes 4294967295 and reserved 0; allowed are 0 or 1 of the first two, and "
     "0"},
    {EPLB_SETUP_RESERVED, 4, 1,
     "setup: has_weights is 0, has_nodes 0 and reserved 1; allowed are 0 or 1 of the first two, and 0"},
    {EPLB_SETUP_HAS_WEIGHTS, 4, 1, "setup: 360 bytes; this shape and 2 phases need 408"},
    {EPLB_SETUP_HAS_NODES, 4, 1, "setup: 360 bytes; this shape and 2 phases need 368"},
    {EPLB_SETUP_ROUTING, 4, 3, "setup: routing is 3; allowed is 0 to 2"},
    {EPLB_SETUP_ROUTING, 4, 2, "setup: skew_phases is 2; allowed is 0 to 0"},
    {EPLB_SETUP_TRACE_SEQUENCES, 4, 1, "setup: trace_sequences is 1; allowed is 0 to 0"},
    {EPLB_SETUP_TRACE_REPEAT, 4, 1, "setup: trace_repeat is 1; allowed is 0 to 0"},
    {EPLB_SETUP_RECORD, 4, 2, "setup: record is 2; allowed is 0 to 1"},
    {EPLB_SETUP_TRACE_DIGEST, 8, 1, "setup: there is a recording, and routing is 1"},
    {EPLB_SETUP_TRACE_PATH_BYTES, 4, 1, "setup: 360 bytes; this shape and 2 phases need 361"},
    {EPLB_SETUP_TRACE_PATH_BYTES, 4, 4097,
     "setup: the recording's path takes 4097 bytes; allowed is at most 4096"},
    {EPLB_SETUP_ROUTING, 4, 0, "setup: skew_phases is 2; allowed is 0 to 0"},
    {EPLB_SETUP_SKEW_PHASES, 4, 0, "setup: skew_phases is 0; allowed is 1 to 65536"},
    {EPLB_SETUP_SKEW_PHASES, 4, 65537, "setup: skew_phases is 65537; allowed is 1 to 65536"},
    {EPLB_SETUP_SKEW_PHASES, 4, 65536, "setup: 360 bytes; this shape and 65536 phases need 4194536"},
    {EPLB_SETUP_ARRAYS + 8, 8, MINUS_1,
     "setup: phase 0, layer 0, expert 1: rate -1; allowed is 0 or more, and at most 2^62 for the layer's "
     "sum"},
    {EPLB_SETUP_ARRAYS + 14 * 8, 8, (UINT64_C(1) << 61), NULL},
    {EPLB_SETUP_ARRAYS + 14 * 8, 8, (UINT64_C(1) << 61) + 1,
     "setup: phase 1, layer 1, expert 3: rate 2305843009213693952; allowed is 0 or more, and at most 2^62 "
     "for "
     "the layer's sum"},
    {EPLB_SETUP_ARRAYS + 14 * 8, 8, 0,
     "setup: phase 1, layer 1: 1 rates are positive; at least 2, the top_k, are needed"},
    {INITIAL + 4, 4, 0,
     "setup: the table of layer 0 is not legal: rank 0 slot 1 repeats expert 0; a rank may hold an expert "
     "once"},
    {INITIAL + 9 * 4, 4, 4,
     "setup: the table of layer 1 is not legal: rank 1 slot 0 holds expert 4; allowed is 0 to 3"},
    {INITIAL + 4, 4, 3,
     "setup: the table of layer 0 is not legal: expert 1 is on no rank; every one of the 4 experts needs a "
     "slot"},
};

static void setups_are_refused_with_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(damages); i++) {
        union record record;
        struct eplb_run_setup good = example();
        struct eplb_run_setup setup = {.engine_pid = 99};
        struct eplb_error error;
        encode(&good, &record);
        for (size_t byte = 0; byte < damages[i].bytes; byte++)
            record.bytes[damages[i].offset + byte] = (unsigned char)(damages[i].value >> (8 * byte));
        enum eplb_status status = decode(&record, SIZE, &setup, &error);
        assert_int_equal(status, damages[i].text == NULL ? EPLB_OK : EPLB_INVALID);
        if (status == EPLB_OK)
            continue;
        assert_string_equal(error.text, damages[i].text);
        assert_int_equal(setup.engine_pid, 99);
    }
}

/* ---- with a recording ---- */

static struct eplb_run_setup recorded_example(void)
{
    struct eplb_run_setup setup = example();
    setup.routing = EPLB_ROUTING_TRACE;
    setup.skew_phases = 0;
    setup.skew_rates = NULL;
    setup.trace_path = "a/b.ids.u8";
    setup.trace_digest = 0x2122232425262728;
    setup.trace_sequences = 128;
    setup.trace_repeat = 3;
    setup.record = 1;
    return setup;
}

static void a_recording_comes_back(void **state)
{
    (void)state;
    union record record;
    struct eplb_shape shape = make_shape();
    struct eplb_run_setup sent = recorded_example();
    struct eplb_run_setup received;
    struct eplb_error error;
    const size_t path = EPLB_SETUP_ARRAYS + LAYERS * SLOTS * 4;
    assert_int_equal(eplb_setup_bytes(&sent, &shape), path + 11);
    encode(&sent, &record);
    assert_int_equal(decode(&record, path + 11, &received, NULL), EPLB_OK);
    assert_setups_equal(&received, &sent);
    assert_string_equal(received.trace_path, "a/b.ids.u8");
    assert_int_equal(received.trace_digest, 0x2122232425262728);
    assert_int_equal(received.trace_sequences, 128);
    assert_int_equal(received.trace_repeat, 3);
    assert_int_equal(received.record, 1);

    record.bytes[path + 3] = 0;
    assert_int_equal(decode(&record, path + 11, &received, &error), EPLB_INVALID);
    assert_string_equal(error.text, "setup: the recording's path of 11 bytes does not end with the record");
    record.bytes[path + 3] = 'x';
    record.bytes[path + 10] = 'x';
    assert_int_equal(decode(&record, path + 11, &received, &error), EPLB_INVALID);
    eplb_put_u32(record.bytes + EPLB_SETUP_TRACE_PATH_BYTES, 0);
    assert_int_equal(decode(&record, path, &received, &error), EPLB_INVALID);
    assert_string_equal(error.text, "setup: the recording's path takes 0 bytes; allowed is 2 to 4096");
    sent.trace_sequences = 0;
    assert_int_equal(eplb_setup_check(&sent, &shape, &error), EPLB_INVALID);
    assert_string_equal(error.text, "setup: trace_sequences is 0; allowed is 1 to 1048576");
}

/* ---- with weights and nodes ---- */

static void weights_and_nodes_come_back(void **state)
{
    static const int32_t nodes[RANKS] = {7, -7};
    static const int32_t half = EPLB_WEIGHT_UNIT / 2;
    int32_t weights[LAYERS * SLOTS];
    union record record;
    struct eplb_shape shape = make_shape();
    struct eplb_run_setup sent = example();
    struct eplb_run_setup received;
    struct eplb_error error;
    (void)state;
    for (size_t i = 0; i < LENGTH(weights); i++)
        weights[i] = half;
    weights[1] = weights[4] = weights[6] = weights[9] = EPLB_WEIGHT_UNIT;
    weights[0] -= 9;
    weights[5] += 9;
    sent.replica_routing = EPLB_ROUTING_BATCH;
    sent.cost_per_active_slot = 20;
    sent.cost_per_token = 3;
    sent.initial_weights = weights;
    sent.node_of_rank = nodes;
    assert_int_equal(eplb_setup_bytes(&sent, &shape), SIZE + 56);
    encode(&sent, &record);
    assert_int_equal(decode(&record, SIZE + 56, &received, NULL), EPLB_OK);
    assert_setups_equal(&received, &sent);
    assert_int_equal(eplb_get_i32(record.bytes + SIZE), half - 9);
    assert_int_equal(eplb_get_i32(record.bytes + SIZE + 48), 7);
    eplb_put_u32(record.bytes + SIZE + 4 * 7, 0);
    assert_int_equal(decode(&record, SIZE + 56, &received, &error), EPLB_INVALID);
    assert_string_equal(error.text, "setup: layer 1, slot 1: weight 0; allowed is 1 to 1048576");
    weights[7] = EPLB_WEIGHT_UNIT + 1;
    assert_int_equal(eplb_setup_check(&sent, &shape, &error), EPLB_INVALID);
}

/* What the engine asks before it encodes gives the sentences that a worker would give. */
static void setups_are_checked_before_they_are_sent(void **state)
{
    (void)state;
    struct eplb_shape shape = make_shape();
    struct eplb_run_setup setup = example();
    struct eplb_error error;
    assert_int_equal(eplb_setup_check(&setup, &shape, NULL), EPLB_OK);
    setup.transfer_inflight_bytes = 4095;
    assert_int_equal(eplb_setup_check(&setup, &shape, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "setup: transfer_inflight_bytes is 4095; allowed is 4096 to 9223372036854775807");
    setup = example();
    setup.model.top_k = 5;
    assert_int_equal(eplb_setup_check(&setup, &shape, &error), EPLB_INVALID);
    setup.model.top_k = 3;
    assert_int_equal(eplb_setup_check(&setup, &shape, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "setup: phase 0, layer 1: 2 rates are positive; at least 3, the top_k, are needed");
    setup = example();
    setup.model.num_layers = 3;
    assert_int_equal(eplb_setup_check(&setup, &shape, &error), EPLB_INVALID);
    setup = example();
    setup.initial = initial + 1;
    assert_int_equal(eplb_setup_check(&setup, &shape, &error), EPLB_INVALID);
}

/* The model's own check has the numbers of the model: one of each end is enough here. */
static void the_model_is_checked(void **state)
{
    (void)state;
    static const size_t offsets[] = {EPLB_SETUP_VOCAB_SIZE,         EPLB_SETUP_HIDDEN_SIZE,
                                     EPLB_SETUP_NUM_HEADS,          EPLB_SETUP_HEAD_DIM,
                                     EPLB_SETUP_KV_WINDOW,          EPLB_SETUP_TOP_K,
                                     EPLB_SETUP_EXPERT_HIDDEN_SIZE, EPLB_SETUP_SHARED_HIDDEN_SIZE};
    for (size_t i = 0; i < LENGTH(offsets); i++) {
        union record record;
        struct eplb_run_setup good = example();
        struct eplb_run_setup setup = {.engine_pid = 99};
        struct eplb_error error;
        encode(&good, &record);
        eplb_put_u32(record.bytes + offsets[i], (uint32_t)-1);
        assert_int_equal(decode(&record, SIZE, &setup, &error), EPLB_INVALID);
        assert_non_null(strstr(error.text, "is -1; allowed is"));
        assert_int_equal(setup.engine_pid, 99);
    }
}

static void setups_of_another_length_are_refused(void **state)
{
    (void)state;
    union record record;
    struct eplb_run_setup good = example();
    struct eplb_run_setup setup;
    struct eplb_shape shape = make_shape();
    struct eplb_error error;
    encode(&good, &record);
    for (size_t length = 0; length < SIZE + 60; length++) {
        /* Of exactly this size, so that a sanitizer sees a byte too far. */
        unsigned char *copy = aligned_alloc(8, (length + 8) / 8 * 8);
        assert_non_null(copy);
        memcpy(copy, record.bytes, length);
        assert_int_equal(eplb_setup_decode(copy, length, &shape, &setup, &error),
                         length == SIZE ? EPLB_OK : EPLB_INVALID);
        free(copy);
    }
    assert_int_equal(decode(&record, 183, &setup, &error), EPLB_INVALID);
    assert_string_equal(error.text, "setup: 183 bytes; at least 184 are needed");
    assert_int_equal(decode(&record, SIZE - 1, &setup, &error), EPLB_INVALID);
    assert_string_equal(error.text, "setup: 359 bytes; this shape and 2 phases need 360");
}

/* A setup is refused, or it is the one record of what was read from it. */
static void damaged_setups_are_refused_or_exact(void **state)
{
    (void)state;
    struct eplb_prng prng;
    struct eplb_shape shape = make_shape();
    const uint64_t seed = 20240705;
    int taken = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    eplb_prng_seed(&prng, seed);
    for (int i = 0; i < TRIES; i++) {
        union record record;
        union record again;
        struct eplb_run_setup setup = example();
        encode(&setup, &record);
        if (eplb_prng_below(&prng, 20) == 0)
            for (size_t byte = 0; byte < SIZE; byte++)
                record.bytes[byte] = (unsigned char)eplb_prng_next(&prng);
        for (uint64_t edits = 1 + eplb_prng_below(&prng, 3); edits > 0; edits--) {
            uint32_t value = (uint32_t)eplb_prng_next(&prng);
            eplb_put_u32(record.bytes + 4 * eplb_prng_below(&prng, SIZE / 4),
                         eplb_prng_below(&prng, 4) == 0 ? value : value % 10 - 2);
        }
        if (decode(&record, SIZE, &setup, NULL) != EPLB_OK)
            continue;
        taken++;
        assert_int_equal(eplb_setup_bytes(&setup, &shape), SIZE);
        encode(&setup, &again);
        assert_memory_equal(again.bytes, record.bytes, SIZE);
    }
    assert_in_range(taken, TRIES / 20, TRIES / 10 * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fields_are_where_the_layout_says),
        cmocka_unit_test(setups_come_back),
        cmocka_unit_test(setups_are_refused_with_a_sentence),
        cmocka_unit_test(a_recording_comes_back),
        cmocka_unit_test(weights_and_nodes_come_back),
        cmocka_unit_test(setups_are_checked_before_they_are_sent),
        cmocka_unit_test(the_model_is_checked),
        cmocka_unit_test(setups_of_another_length_are_refused),
        cmocka_unit_test(damaged_setups_are_refused_or_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
