/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The engine's end: commands out, outputs in. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/error.h"
#include "channel/end.h"

int32_t eplb_channel_under_way(const struct eplb_channel *channel)
{
    return (int32_t)(channel->begun - channel->ended);
}

enum eplb_status eplb_channel_submit(struct eplb_channel *channel, const struct eplb_command *command,
                                     const void *input, size_t input_bytes, struct eplb_error *error)
{
    EPLB_ASSERT(channel->side == EPLB_CHANNEL_ENGINE);
    const struct eplb_channel_limits *limits = &channel->limits;
    EPLB_TRY(eplb_channel_check_followed(channel, error));
    if (command->seq <= channel->last_seq)
        EPLB_FAIL(EPLB_INVALID, "rank %d: forward %" PRIu64 " after forward %" PRIu64 "; numbers must rise",
                  limits->ep_rank, command->seq, channel->last_seq);
    if (input_bytes > limits->max_input_bytes)
        EPLB_FAIL(EPLB_INVALID,
                  "rank %d: the input of forward %" PRIu64 " has %zu bytes; allowed is 0 to %zu",
                  limits->ep_rank, command->seq, input_bytes, limits->max_input_bytes);
    if (channel->begun - channel->ended == EPLB_CHANNEL_DEPTH)
        EPLB_FAIL(EPLB_REFUSED,
                  "rank %d: forward %" PRIu64 " while %d are under way; no more than that are allowed",
                  limits->ep_rank, command->seq, EPLB_CHANNEL_DEPTH);

    size_t number = channel->begun % EPLB_CHANNEL_DEPTH;
    const struct eplb_channel_place *place = &channel->map.requests[number];
    eplb_command_encode(&limits->shape, command, place->record);
    eplb_channel_put_body(place, input, input_bytes);
    channel->seqs[number] = command->seq;
    channel->last_seq = command->seq;
    channel->begun++;
    eplb_channel_announce(channel, &channel->map.head->submitted, channel->begun);
    return EPLB_OK;
}

/** The count of replies is below what was collected, or above what was submitted. */
static enum eplb_status refuse_count(struct eplb_channel *channel, uint64_t count, struct eplb_error *error)
{
    struct eplb_error why;
    eplb_fail(&why, EPLB_INVALID,
              "rank %d: the channel's count of replies is %" PRIu64 "; allowed is %" PRIu64 " to %" PRIu64
              ", so the worker cannot be followed any more",
              channel->limits.ep_rank, count, channel->ended, channel->begun);
    return eplb_channel_break(channel, &why, error);
}

/** Copies a reply out and judges the copy. */
static enum eplb_status take_reply(struct eplb_channel *channel, const struct eplb_channel_place *place,
                                   uint64_t seq, struct eplb_channel_reply *reply, struct eplb_error *error)
{
    const struct eplb_channel_limits *limits = &channel->limits;
    struct eplb_channel_reply taken = {.result = channel->body};
    struct eplb_error why;
    uint64_t bytes;
    if (!eplb_channel_copy_out(channel, place, eplb_worker_output_bytes(&limits->shape),
                               limits->max_result_bytes, &bytes))
        EPLB_FAIL(EPLB_INVALID,
                  "reply of rank %d to forward %" PRIu64 ": a result of %" PRIu64
                  " bytes; allowed is 0 to %zu",
                  limits->ep_rank, seq, bytes, limits->max_result_bytes);
    if (eplb_worker_output_decode(&limits->shape, channel->record, channel->prefix, channel->generations,
                                  channel->weight_versions, &taken.output, &why) != EPLB_OK)
        EPLB_FAIL(EPLB_INVALID, "reply of rank %d to forward %" PRIu64 ": %s", limits->ep_rank, seq,
                  why.text);
    if (taken.output.ep_rank != limits->ep_rank)
        EPLB_FAIL(EPLB_INVALID, "reply of rank %d to forward %" PRIu64 ": its ep_rank is %d", limits->ep_rank,
                  seq, taken.output.ep_rank);
    if (taken.output.seq != seq)
        EPLB_FAIL(EPLB_INVALID, "reply of rank %d to forward %" PRIu64 ": its seq is %" PRIu64,
                  limits->ep_rank, seq, taken.output.seq);
    taken.result_bytes = (size_t)bytes;
    *reply = taken;
    return EPLB_OK;
}

enum eplb_status eplb_channel_collect(struct eplb_channel *channel, int64_t deadline,
                                      struct eplb_channel_reply *reply, int *arrived,
                                      struct eplb_error *error)
{
    EPLB_ASSERT(channel->side == EPLB_CHANNEL_ENGINE);
    *arrived = 0;
    EPLB_TRY(eplb_channel_check_followed(channel, error));
    uint64_t count = eplb_channel_await(channel, &channel->map.head->replied, channel->ended, deadline);
    if (count == channel->ended)
        return EPLB_OK;
    if (count - channel->ended > channel->begun - channel->ended)
        return refuse_count(channel, count, error);

    size_t number = channel->ended % EPLB_CHANNEL_DEPTH;
    channel->ended++;
    *arrived = 1;
    return take_reply(channel, &channel->map.replies[number], channel->seqs[number], reply, error);
}
