/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Where the parts of a channel are in its memory: the same sum of the same sizes on both sides.
 */
#ifndef CHANNEL_MAP_H
#define CHANNEL_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "channel/layout.h"
#include "eplb/placement.h"
#include "eplb/status.h"

/** Largest input, result and setup, each: far from where sums of sizes would end. */
#define EPLB_CHANNEL_MAX_BYTES (UINT64_C(1) << 40)

/** What both sides agree on. */
struct eplb_channel_limits {
    struct eplb_shape shape;
    int32_t ep_rank;
    size_t max_input_bytes;
    size_t max_result_bytes;
    size_t setup_bytes;
};

/** EPLB_INVALID with a sentence when a value is out of range, or the shape is not eplb_shape_init's. */
enum eplb_status eplb_channel_limits_check(const struct eplb_channel_limits *limits,
                                           struct eplb_error *error);

/** A request or a reply in shared memory. */
struct eplb_channel_place {
    struct eplb_channel_slot *slot;
    unsigned char *record; /* encoded command or output */
    unsigned char *body;   /* input or result */
};

struct eplb_channel_map {
    struct eplb_channel_head *head;
    unsigned char *setup;
    struct eplb_channel_place requests[EPLB_CHANNEL_DEPTH];
    struct eplb_channel_place replies[EPLB_CHANNEL_DEPTH];
};

/** Bytes that a channel needs, for limits that were checked. */
size_t eplb_channel_map_bytes(const struct eplb_channel_limits *limits);

/** The map of memory (cache-line aligned) of eplb_channel_map_bytes(limits) bytes. */
struct eplb_channel_map eplb_channel_map_make(void *memory, const struct eplb_channel_limits *limits);

/** Writes the limits into the head of a channel. */
void eplb_channel_facts_write(struct eplb_channel_facts *facts, const struct eplb_channel_limits *limits);

/**
 * Reads the limits from the head of a channel that another process has made: believed only when every
 * value is in its range and what they need is what there is.
 *
 * @param memory cache-line aligned; whatever it holds
 * @param bytes  its size, which may be rounded up by less than EPLB_SEGMENT_ALIGN
 * @return EPLB_OK; EPLB_LAYOUT with the value and what is allowed
 */
enum eplb_status eplb_channel_facts_read(const void *memory, size_t bytes, struct eplb_channel_limits *limits,
                                         struct eplb_error *error);

#endif
