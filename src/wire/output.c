/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/wire.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"
#include "wire/layout.h"
#include "wire/levels.h"

static size_t num_prefixes(const struct eplb_shape *shape)
{
    return (size_t)shape->num_layers * (size_t)shape->slots_per_rank;
}

static size_t versions_offset(const struct eplb_shape *shape)
{
    return EPLB_OUTPUT_GENERATIONS + (size_t)shape->num_layers * sizeof(uint64_t);
}

static size_t prefix_offset(const struct eplb_shape *shape)
{
    return EPLB_OUTPUT_GENERATIONS + 2 * (size_t)shape->num_layers * sizeof(uint64_t);
}

size_t eplb_worker_output_bytes(const struct eplb_shape *shape)
{
    return prefix_offset(shape) + num_prefixes(shape) * sizeof(int64_t);
}

static bool is_reason(enum eplb_reason reason)
{
    switch (reason) {
#define REASON_CASE(name, value, text) case EPLB_REASON_##name:
        EPLB_REASON_MAP(REASON_CASE)
#undef REASON_CASE
        return true;
    }
    return false;
}

/** One of the two levels of a worker, as far as they are alike. */
struct level {
    const char *what;      /* "prepare" or "activation" */
    const char *state;     /* how its state is called */
    uint64_t token;        /* 0 exactly when value is 0 */
    uint32_t value;        /* its state */
    uint32_t max_value;    /* the largest known one */
    uint32_t failed_value; /* the one that has a reason */
    enum eplb_reason reason;
};

static enum eplb_status check_level(const struct eplb_worker_output *output, const struct level *level,
                                    struct eplb_error *error)
{
    unsigned long long seq = output->seq;
    int rank = output->ep_rank;
    if (level->value > level->max_value)
        EPLB_FAIL(EPLB_INVALID, "output of rank %d for forward %llu: %s %s %u; allowed is 0 to %u", rank, seq,
                  level->what, level->state, level->value, level->max_value);
    if (level->token > EPLB_MAX_TOKEN)
        EPLB_FAIL(EPLB_INVALID, "output of rank %d for forward %llu: %s token %llu; allowed is 0 to %llu",
                  rank, seq, level->what, (unsigned long long)level->token,
                  (unsigned long long)EPLB_MAX_TOKEN);
    if ((level->token == 0) != (level->value == 0))
        EPLB_FAIL(EPLB_INVALID,
                  "output of rank %d for forward %llu: %s token %llu with %s %u; both are 0 or none is", rank,
                  seq, level->what, (unsigned long long)level->token, level->state, level->value);
    if (!is_reason(level->reason))
        EPLB_FAIL(EPLB_INVALID, "output of rank %d for forward %llu: %s reason %u is not known", rank, seq,
                  level->what, (unsigned)level->reason);
    if ((level->value == level->failed_value) != (level->reason != EPLB_REASON_NONE))
        EPLB_FAIL(EPLB_INVALID,
                  "output of rank %d for forward %llu: %s %s %u with reason %u (%s); exactly %s %u has one",
                  rank, seq, level->what, level->state, level->value, (unsigned)level->reason,
                  eplb_reason_text(level->reason), level->state, level->failed_value);
    return EPLB_OK;
}

enum eplb_status eplb_worker_levels_check(const struct eplb_worker_output *output, struct eplb_error *error)
{
    const struct eplb_worker_levels *levels = &output->levels;
    const struct level prepare = {.what = "prepare",
                                  .state = "status",
                                  .token = levels->prepare_token.value,
                                  .value = (uint32_t)levels->prepare_status,
                                  .max_value = EPLB_PREPARE_FAILED,
                                  .failed_value = EPLB_PREPARE_FAILED,
                                  .reason = levels->prepare_reason};
    const struct level activation = {.what = "activation",
                                     .state = "outcome",
                                     .token = levels->activation_token.value,
                                     .value = (uint32_t)levels->activation_outcome,
                                     .max_value = EPLB_ACTIVATION_KEPT,
                                     .failed_value = EPLB_ACTIVATION_KEPT,
                                     .reason = levels->activation_reason};
    EPLB_TRY(check_level(output, &prepare, error));
    return check_level(output, &activation, error);
}

static enum eplb_status check_output(const struct eplb_shape *shape, const struct eplb_worker_output *output,
                                     struct eplb_error *error)
{
    unsigned long long seq = output->seq;
    int rank = output->ep_rank;
    if (rank < 0 || rank >= shape->ep_size)
        EPLB_FAIL(EPLB_INVALID, "output of rank %d for forward %llu; allowed is rank 0 to %d", rank, seq,
                  shape->ep_size - 1);
    if (seq == 0)
        EPLB_FAIL(EPLB_INVALID, "output of rank %d for forward 0; forwards are numbered from 1", rank);
    if (output->num_layers != shape->num_layers || output->slots_per_rank != shape->slots_per_rank)
        EPLB_FAIL(
            EPLB_INVALID,
            "output of rank %d for forward %llu: counts of %d layers with %d slots each; this run has %d "
            "layers with %d slots",
            rank, seq, output->num_layers, output->slots_per_rank, shape->num_layers, shape->slots_per_rank);
    return eplb_worker_levels_check(output, error);
}

void eplb_worker_output_encode(const struct eplb_shape *shape, const struct eplb_worker_output *output,
                               void *bytes)
{
    EPLB_ASSERT(output->size == sizeof *output);
    EPLB_ASSERT(output->prefix != NULL && output->generations != NULL);
    EPLB_ASSERT(check_output(shape, output, NULL) == EPLB_OK);
    unsigned char *record = bytes;
    const struct eplb_worker_levels *levels = &output->levels;
    eplb_put_u64(record + EPLB_OUTPUT_SEQ, output->seq);
    eplb_put_u64(record + EPLB_OUTPUT_PREPARE_TOKEN, levels->prepare_token.value);
    eplb_put_u64(record + EPLB_OUTPUT_ACTIVATION_TOKEN, levels->activation_token.value);
    eplb_put_u32(record + EPLB_OUTPUT_EP_RANK, (uint32_t)output->ep_rank);
    eplb_put_u32(record + EPLB_OUTPUT_NUM_LAYERS, (uint32_t)output->num_layers);
    eplb_put_u32(record + EPLB_OUTPUT_SLOTS_PER_RANK, (uint32_t)output->slots_per_rank);
    eplb_put_u32(record + EPLB_OUTPUT_PREPARE_STATUS, (uint32_t)levels->prepare_status);
    eplb_put_u32(record + EPLB_OUTPUT_PREPARE_REASON, (uint32_t)levels->prepare_reason);
    eplb_put_u32(record + EPLB_OUTPUT_ACTIVATION_OUTCOME, (uint32_t)levels->activation_outcome);
    eplb_put_u32(record + EPLB_OUTPUT_ACTIVATION_REASON, (uint32_t)levels->activation_reason);
    eplb_put_u32(record + EPLB_OUTPUT_RESERVED, 0);
    unsigned char *versions = record + versions_offset(shape);
    for (size_t layer = 0; layer < (size_t)shape->num_layers; layer++) {
        eplb_put_u64(record + EPLB_OUTPUT_GENERATIONS + layer * sizeof(uint64_t), output->generations[layer]);
        eplb_put_u64(versions + layer * sizeof(uint64_t),
                     output->weight_versions == NULL ? 0 : output->weight_versions[layer]);
    }
    for (size_t i = 0; i < num_prefixes(shape); i++)
        eplb_put_u64(record + prefix_offset(shape) + i * sizeof(int64_t), (uint64_t)output->prefix[i]);
}

enum eplb_status eplb_worker_output_decode(const struct eplb_shape *shape, const void *bytes, int64_t *prefix,
                                           uint64_t *generations, uint64_t *weight_versions,
                                           struct eplb_worker_output *output, struct eplb_error *error)
{
    const unsigned char *record = bytes;
    struct eplb_worker_output decoded = {
        .size = sizeof decoded,
        .seq = eplb_get_u64(record + EPLB_OUTPUT_SEQ),
        .ep_rank = eplb_get_i32(record + EPLB_OUTPUT_EP_RANK),
        .num_layers = eplb_get_i32(record + EPLB_OUTPUT_NUM_LAYERS),
        .slots_per_rank = eplb_get_i32(record + EPLB_OUTPUT_SLOTS_PER_RANK),
        .prefix = prefix,
        .generations = generations,
        .weight_versions = weight_versions,
        .levels = {
            .prepare_token = {eplb_get_u64(record + EPLB_OUTPUT_PREPARE_TOKEN)},
            .prepare_status = (enum eplb_prepare_status)eplb_get_u32(record + EPLB_OUTPUT_PREPARE_STATUS),
            .prepare_reason = (enum eplb_reason)eplb_get_u32(record + EPLB_OUTPUT_PREPARE_REASON),
            .activation_token = {eplb_get_u64(record + EPLB_OUTPUT_ACTIVATION_TOKEN)},
            .activation_outcome =
                (enum eplb_activation_outcome)eplb_get_u32(record + EPLB_OUTPUT_ACTIVATION_OUTCOME),
            .activation_reason = (enum eplb_reason)eplb_get_u32(record + EPLB_OUTPUT_ACTIVATION_REASON),
        }};
    EPLB_TRY(check_output(shape, &decoded, error));
    uint32_t reserved = eplb_get_u32(record + EPLB_OUTPUT_RESERVED);
    if (reserved != 0)
        EPLB_FAIL(EPLB_INVALID, "output of rank %d for forward %llu: the reserved word is %u; it must be 0",
                  decoded.ep_rank, (unsigned long long)decoded.seq, (unsigned)reserved);
    const unsigned char *versions = record + versions_offset(shape);
    for (size_t layer = 0; layer < (size_t)shape->num_layers; layer++) {
        generations[layer] = eplb_get_u64(record + EPLB_OUTPUT_GENERATIONS + layer * sizeof(uint64_t));
        weight_versions[layer] = eplb_get_u64(versions + layer * sizeof(uint64_t));
    }
    for (size_t i = 0; i < num_prefixes(shape); i++)
        prefix[i] = eplb_get_i64(record + prefix_offset(shape) + i * sizeof(int64_t));
    *output = decoded;
    return EPLB_OK;
}
