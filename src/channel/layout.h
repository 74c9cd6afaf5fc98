/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the payload of a channel's segment holds, both for processes and in docs/SHM_LAYOUT.md. No change
 * without a change of the segment's version.
 *
 *   | head | setup | request 0 | request 1 | reply 0 | reply 1 |
 *
 * A request is a slot, an encoded command and an input; a reply is a slot, an encoded output and a
 * result. Each of these parts has room for the longest and begins on a cache line of its own.
 *
 * Forward number n, counted from 0 over the channel's life, uses request and reply n mod
 * EPLB_CHANNEL_DEPTH. There are two counters only. That a request slot may be written again, the engine
 * knows from its own count of collected replies; that a reply slot may, the worker knows from the
 * submission of the forward that uses it next, which the engine makes after it has collected.
 *
 * Everything starts as zeros: no command, no reply, no beat, nobody's.
 */
#ifndef CHANNEL_LAYOUT_H
#define CHANNEL_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "eplb/channel.h"
#include "os/bell.h"

static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics work between processes only without a lock");
static_assert(ATOMIC_INT_LOCK_FREE == 2, "32-bit atomics work between processes only without a lock");

/** What the shared parts are aligned to, so that no line is written by both sides unless it must be. */
#define EPLB_CHANNEL_LINE 64

static_assert(EPLB_ARENA_ALIGN == EPLB_CHANNEL_LINE, "an arena aligns what is shared to cache lines");

/** Written before the segment has its name, and never again. */
struct eplb_channel_facts {
    int32_t num_layers;
    int32_t num_experts;
    int32_t ep_size;
    int32_t redundant_experts_num;
    int32_t ep_rank;
    uint32_t depth; /* EPLB_CHANNEL_DEPTH */
    uint64_t max_input_bytes;
    uint64_t max_result_bytes;
    uint64_t setup_bytes;
    uint64_t reserved[2]; /* zeros */
};

static_assert(offsetof(struct eplb_channel_facts, num_layers) == 0, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, num_experts) == 4, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, ep_size) == 8, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, redundant_experts_num) == 12, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, ep_rank) == 16, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, depth) == 20, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, max_input_bytes) == 24, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, max_result_bytes) == 32, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, setup_bytes) == 40, "layout of a channel");
static_assert(offsetof(struct eplb_channel_facts, reserved) == 48, "layout of a channel");
static_assert(sizeof(struct eplb_channel_facts) == EPLB_CHANNEL_LINE, "layout of a channel");

/** Where one side waits. */
struct eplb_channel_seat {
    _Alignas(EPLB_CHANNEL_LINE) struct eplb_bell bell; /* rung by the other side, slept on by this one */
    _Atomic uint64_t wakes;                            /* raised by the other side to end a wait */
};

static_assert(sizeof(struct eplb_bell) == 8, "layout of a channel");
static_assert(offsetof(struct eplb_bell, sleepers) == 4, "layout of a channel");
static_assert(offsetof(struct eplb_channel_seat, wakes) == 8, "layout of a channel");
static_assert(sizeof(struct eplb_channel_seat) == EPLB_CHANNEL_LINE, "layout of a channel");

/** The two sides, as indices of seats. */
enum eplb_channel_side {
    EPLB_CHANNEL_ENGINE = 0,
    EPLB_CHANNEL_WORKER = 1,
};

struct eplb_channel_head {
    struct eplb_channel_facts facts;
    _Alignas(EPLB_CHANNEL_LINE) _Atomic uint64_t claim;     /* pid of the worker; 0: nobody yet */
    _Alignas(EPLB_CHANNEL_LINE) _Atomic uint64_t beats;     /* raised by the worker */
    struct eplb_channel_seat seats[2];                      /* by enum eplb_channel_side */
    _Alignas(EPLB_CHANNEL_LINE) _Atomic uint64_t submitted; /* forwards; stored by the engine only */
    _Alignas(EPLB_CHANNEL_LINE) _Atomic uint64_t replied;   /* forwards; stored by the worker only */
};

static_assert(offsetof(struct eplb_channel_head, facts) == 0, "layout of a channel");
static_assert(offsetof(struct eplb_channel_head, claim) == 64, "layout of a channel");
static_assert(offsetof(struct eplb_channel_head, beats) == 128, "layout of a channel");
static_assert(offsetof(struct eplb_channel_head, seats) == 192, "layout of a channel");
static_assert(offsetof(struct eplb_channel_head, submitted) == 320, "layout of a channel");
static_assert(offsetof(struct eplb_channel_head, replied) == 384, "layout of a channel");
static_assert(sizeof(struct eplb_channel_head) == 448, "layout of a channel");

/** The start of a request or a reply. The record after it has a fixed size, what follows that has this. */
struct eplb_channel_slot {
    _Alignas(EPLB_CHANNEL_LINE) _Atomic uint64_t body_bytes; /* of the input, or of the result */
};

static_assert(offsetof(struct eplb_channel_slot, body_bytes) == 0, "layout of a channel");
static_assert(sizeof(struct eplb_channel_slot) == EPLB_CHANNEL_LINE, "layout of a channel");

#endif
