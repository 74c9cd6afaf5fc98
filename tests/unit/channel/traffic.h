/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Forwards whose every byte follows from their number, so that both sides know what must have come. Used
 * in processes and threads of their own, too: nothing here ends a test by itself.
 */
#ifndef CHANNEL_TRAFFIC_H
#define CHANNEL_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eplb/channel.h"

enum {
    TRAFFIC_LAYERS = 3,
    TRAFFIC_EXPERTS = 8,
    TRAFFIC_RANKS = 4,
    TRAFFIC_SLOTS_PER_RANK = 3,
    TRAFFIC_SLOTS = TRAFFIC_RANKS * TRAFFIC_SLOTS_PER_RANK,
    TRAFFIC_RANK = 2,
    TRAFFIC_BYTES = 4096, /* most of an input or a result */
};

struct traffic {
    struct eplb_shape shape;
    int32_t expert_ids[TRAFFIC_SLOTS];
    int64_t prefix[TRAFFIC_LAYERS * TRAFFIC_SLOTS_PER_RANK];
    uint64_t generations[TRAFFIC_LAYERS];
    unsigned char bytes[TRAFFIC_BYTES];
    struct eplb_command command;
    struct eplb_worker_output output;
};

void traffic_init(struct traffic *traffic);

/** The command of a forward: in turn empty, with a prepare, with an activation, with both. Until the next. */
const struct eplb_command *traffic_command(struct traffic *traffic, uint64_t seq);

/** The worker's output: in turn all levels that there are. Until the next. */
const struct eplb_worker_output *traffic_output(struct traffic *traffic, uint64_t seq);

/** Bytes of a forward's input, or result, of one value each. Until the next. */
const void *traffic_bytes(struct traffic *traffic, uint64_t seq, size_t size);

/** Whether these are a forward's bytes, none of them from another one. */
bool traffic_bytes_are(const void *bytes, uint64_t seq, size_t size);

/** Bytes of the input of a forward in a test with inputs of several lengths. */
size_t traffic_size(uint64_t seq);

/** Submits forward `seq` with an input of that size. */
enum eplb_status traffic_submit(struct traffic *traffic, struct eplb_channel *engine, uint64_t seq,
                                size_t size, struct eplb_error *error);

/** Replies to forward `seq` with a result of that size. */
enum eplb_status traffic_reply(struct traffic *traffic, struct eplb_channel *worker, uint64_t seq,
                               size_t size, struct eplb_error *error);

/** Whether what came is forward `seq` with an input of that size, in all that it says. */
bool traffic_request_is(struct traffic *traffic, const struct eplb_channel_request *request, uint64_t seq,
                        size_t size);
bool traffic_reply_is(struct traffic *traffic, const struct eplb_channel_reply *reply, uint64_t seq,
                      size_t size);

/** A time `ms` from now, for a deadline. */
int64_t traffic_in_ms(int64_t ms);

#endif
