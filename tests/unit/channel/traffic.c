/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "traffic.h"

#include <string.h>

#include "eplb/clock.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

void traffic_init(struct traffic *traffic)
{
    *traffic = (struct traffic){.command = {.size = 0}};
    (void)eplb_shape_init(&traffic->shape, TRAFFIC_LAYERS, TRAFFIC_EXPERTS, TRAFFIC_RANKS, 1, NULL);
}

const struct eplb_command *traffic_command(struct traffic *traffic, uint64_t seq)
{
    struct eplb_command *command = &traffic->command;
    eplb_command_init(command, seq);
    if (seq % 4 == 1 || seq % 4 == 3) {
        command->prepare_layer_id = (int32_t)(seq % TRAFFIC_LAYERS);
        command->prepare_token.value = 2 * seq;
        command->base_generation = seq * 3;
        command->base_hash = seq * UINT64_C(0x9e3779b97f4a7c15);
        eplb_placement_initial(&traffic->shape, traffic->expert_ids);
        /* Another legal table: the two slots of a rank's own experts in the order that the number says. */
        if (seq % 8 >= 4) {
            int32_t first = traffic->expert_ids[0];
            traffic->expert_ids[0] = traffic->expert_ids[1];
            traffic->expert_ids[1] = first;
        }
        command->expert_ids = traffic->expert_ids;
        command->num_expert_ids = TRAFFIC_SLOTS;
    }
    if (seq % 4 >= 2) {
        command->update_layer_id = (int32_t)((seq + 1) % TRAFFIC_LAYERS);
        command->activation_token.value = seq;
        command->update_prepare_token.value = 2 * seq - 1;
    }
    return command;
}

const struct eplb_worker_output *traffic_output(struct traffic *traffic, uint64_t seq)
{
    for (size_t i = 0; i < LENGTH(traffic->prefix); i++)
        traffic->prefix[i] = (int64_t)(seq * 1000 + i);
    for (size_t i = 0; i < LENGTH(traffic->generations); i++)
        traffic->generations[i] = seq * 10 + i;
    enum eplb_prepare_status prepare = (enum eplb_prepare_status)(seq % 4);
    enum eplb_activation_outcome activation = (enum eplb_activation_outcome)(seq / 4 % 3);
    traffic->output = (struct eplb_worker_output){
        .size = sizeof traffic->output,
        .seq = seq,
        .ep_rank = TRAFFIC_RANK,
        .num_layers = TRAFFIC_LAYERS,
        .slots_per_rank = TRAFFIC_SLOTS_PER_RANK,
        .prefix = traffic->prefix,
        .generations = traffic->generations,
        .levels = {
            .prepare_token = {prepare == EPLB_PREPARE_NONE ? 0 : seq},
            .prepare_status = prepare,
            .prepare_reason = prepare == EPLB_PREPARE_FAILED ? EPLB_REASON_HOOK_FAILED : EPLB_REASON_NONE,
            .activation_token = {activation == EPLB_ACTIVATION_NONE ? 0 : seq + 1},
            .activation_outcome = activation,
            .activation_reason = activation == EPLB_ACTIVATION_KEPT ? EPLB_REASON_DEADLINE : EPLB_REASON_NONE,
        }};
    return &traffic->output;
}

/* Forwards that use the same slot one after the other have different values. */
static unsigned char value_of(uint64_t seq)
{
    return (unsigned char)(seq / EPLB_CHANNEL_DEPTH + seq * 101);
}

const void *traffic_bytes(struct traffic *traffic, uint64_t seq, size_t size)
{
    memset(traffic->bytes, value_of(seq), size);
    return traffic->bytes;
}

bool traffic_bytes_are(const void *bytes, uint64_t seq, size_t size)
{
    const unsigned char *first = bytes;
    /* All bytes are like their successor, and the first is right. */
    return size == 0 || (first[0] == value_of(seq) && memcmp(first, first + 1, size - 1) == 0);
}

size_t traffic_size(uint64_t seq)
{
    return seq % 3 == 0 ? 0 : (size_t)(seq * 977 % (TRAFFIC_BYTES + 1));
}

enum eplb_status traffic_submit(struct traffic *traffic, struct eplb_channel *engine, uint64_t seq,
                                size_t size, struct eplb_error *error)
{
    return eplb_channel_submit(engine, traffic_command(traffic, seq), traffic_bytes(traffic, seq, size), size,
                               error);
}

enum eplb_status traffic_reply(struct traffic *traffic, struct eplb_channel *worker, uint64_t seq,
                               size_t size, struct eplb_error *error)
{
    return eplb_channel_reply(worker, traffic_output(traffic, seq), traffic_bytes(traffic, seq, size), size,
                              error);
}

bool traffic_request_is(struct traffic *traffic, const struct eplb_channel_request *request, uint64_t seq,
                        size_t size)
{
    const struct eplb_command *expected = traffic_command(traffic, seq);
    const struct eplb_command *actual = &request->command;
    bool same_table = actual->num_expert_ids == expected->num_expert_ids &&
                      (expected->num_expert_ids == 0 ||
                       memcmp(actual->expert_ids, expected->expert_ids, sizeof traffic->expert_ids) == 0);
    return same_table && actual->size == sizeof *actual && actual->seq == seq &&
           actual->prepare_layer_id == expected->prepare_layer_id &&
           actual->prepare_token.value == expected->prepare_token.value &&
           actual->base_generation == expected->base_generation && actual->base_hash == expected->base_hash &&
           actual->update_layer_id == expected->update_layer_id &&
           actual->activation_token.value == expected->activation_token.value &&
           actual->update_prepare_token.value == expected->update_prepare_token.value &&
           request->input_bytes == size && traffic_bytes_are(request->input, seq, size);
}

bool traffic_reply_is(struct traffic *traffic, const struct eplb_channel_reply *reply, uint64_t seq,
                      size_t size)
{
    const struct eplb_worker_output *expected = traffic_output(traffic, seq);
    const struct eplb_worker_output *actual = &reply->output;
    const struct eplb_worker_levels *levels = &actual->levels;
    return actual->size == sizeof *actual && actual->seq == seq && actual->ep_rank == TRAFFIC_RANK &&
           actual->num_layers == TRAFFIC_LAYERS && actual->slots_per_rank == TRAFFIC_SLOTS_PER_RANK &&
           memcmp(actual->prefix, expected->prefix, sizeof traffic->prefix) == 0 &&
           memcmp(actual->generations, expected->generations, sizeof traffic->generations) == 0 &&
           levels->prepare_token.value == expected->levels.prepare_token.value &&
           levels->prepare_status == expected->levels.prepare_status &&
           levels->prepare_reason == expected->levels.prepare_reason &&
           levels->activation_token.value == expected->levels.activation_token.value &&
           levels->activation_outcome == expected->levels.activation_outcome &&
           levels->activation_reason == expected->levels.activation_reason && reply->result_bytes == size &&
           traffic_bytes_are(reply->result, seq, size);
}

int64_t traffic_in_ms(int64_t ms)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context) + ms * 1000000;
}
