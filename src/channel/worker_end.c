/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The worker's end: commands in, outputs out. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/error.h"
#include "channel/end.h"

/** Copies the next request out and judges the copy. */
static enum eplb_status take_request(struct eplb_channel *channel, const struct eplb_channel_place *place,
                                     struct eplb_channel_request *request, struct eplb_error *error)
{
    const struct eplb_channel_limits *limits = &channel->limits;
    struct eplb_channel_request taken = {.input = channel->body};
    uint64_t bytes;
    if (!eplb_channel_copy_out(channel, place, eplb_command_bytes(&limits->shape), limits->max_input_bytes,
                               &bytes))
        EPLB_FAIL(EPLB_INVALID,
                  "rank %d: the input of the forward after %" PRIu64 " has %" PRIu64
                  " bytes; allowed is 0 to %zu",
                  limits->ep_rank, channel->last_seq, bytes, limits->max_input_bytes);
    EPLB_TRY(
        eplb_command_decode(&limits->shape, channel->record, channel->command_rows, &taken.command, error));
    if (taken.command.seq <= channel->last_seq)
        EPLB_FAIL(EPLB_INVALID, "rank %d: the seq after forward %" PRIu64 " is %" PRIu64 "; it must rise",
                  limits->ep_rank, channel->last_seq, taken.command.seq);
    taken.input_bytes = (size_t)bytes;
    *request = taken;
    return EPLB_OK;
}

enum eplb_status eplb_channel_receive(struct eplb_channel *channel, int64_t deadline,
                                      struct eplb_channel_request *request, int *arrived,
                                      struct eplb_error *error)
{
    EPLB_ASSERT(channel->side == EPLB_CHANNEL_WORKER);
    *arrived = 0;
    EPLB_TRY(eplb_channel_check_followed(channel, error));
    uint64_t count = eplb_channel_await(channel, &channel->map.head->submitted, channel->begun, deadline);
    if (count == channel->begun)
        return EPLB_OK;
    struct eplb_error why;
    /* The engine has collected no more than this side has replied to. */
    uint64_t most = channel->ended + EPLB_CHANNEL_DEPTH;
    if (count - channel->begun > most - channel->begun) {
        eplb_fail(&why, EPLB_INVALID,
                  "rank %d: the channel's count of forwards is %" PRIu64 "; allowed is %" PRIu64
                  " to %" PRIu64 ", so the engine cannot be followed any more",
                  channel->limits.ep_rank, count, channel->begun, most);
        return eplb_channel_break(channel, &why, error);
    }
    size_t number = channel->begun % EPLB_CHANNEL_DEPTH;
    if (take_request(channel, &channel->map.requests[number], request, &why) != EPLB_OK)
        return eplb_channel_break(channel, &why, error);
    channel->seqs[number] = request->command.seq;
    channel->last_seq = request->command.seq;
    channel->begun++;
    *arrived = 1;
    return EPLB_OK;
}

enum eplb_status eplb_channel_reply(struct eplb_channel *channel, const struct eplb_worker_output *output,
                                    const void *result, size_t result_bytes, struct eplb_error *error)
{
    EPLB_ASSERT(channel->side == EPLB_CHANNEL_WORKER);
    const struct eplb_channel_limits *limits = &channel->limits;
    if (channel->begun == channel->ended)
        EPLB_FAIL(EPLB_REFUSED, "rank %d: a reply to forward %" PRIu64 ", but no forward is open",
                  limits->ep_rank, output->seq);
    size_t number = channel->ended % EPLB_CHANNEL_DEPTH;
    if (output->seq != channel->seqs[number])
        EPLB_FAIL(EPLB_INVALID, "rank %d: a reply to forward %" PRIu64 "; the oldest open one is %" PRIu64,
                  limits->ep_rank, output->seq, channel->seqs[number]);
    if (output->ep_rank != limits->ep_rank)
        EPLB_FAIL(EPLB_INVALID, "rank %d: a reply to forward %" PRIu64 " from rank %d", limits->ep_rank,
                  output->seq, output->ep_rank);
    if (result_bytes > limits->max_result_bytes)
        EPLB_FAIL(EPLB_INVALID,
                  "rank %d: the result of forward %" PRIu64 " has %zu bytes; allowed is 0 to %zu",
                  limits->ep_rank, output->seq, result_bytes, limits->max_result_bytes);

    const struct eplb_channel_place *place = &channel->map.replies[number];
    eplb_worker_output_encode(&limits->shape, output, place->record);
    eplb_channel_put_body(place, result, result_bytes);
    channel->ended++;
    eplb_channel_announce(channel, &channel->map.head->replied, channel->ended);
    return EPLB_OK;
}
