/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The network of a story, and the decision record. Messages are matched by their tag; a send is done
 * when its message has left, and the story says when that is and when it arrives.
 */
#ifndef PROTOCOL_NETWORK_H
#define PROTOCOL_NETWORK_H

#include <stdatomic.h>

#include "migrate/transfer.h"

enum { MAX_CHUNKS = 4, MAX_OPERATIONS = 32, MAX_MESSAGES = 32 };

struct world;

/** One side of a message, posted and not ended. */
struct operation {
    bool used;
    bool send;
    bool cancelled; /* asked for; ends when its rank polls */
    int32_t rank, peer;
    struct eplb_op op;
    struct eplb_message_tag tag;
    uint64_t attempt;
    int32_t *pieces; /* what is sent, or where it goes */
};

/** What has left and not arrived, or arrived and is not awaited yet. */
struct message {
    bool used;
    bool kept; /* arrived; its receive is not posted yet */
    int32_t from, to;
    struct eplb_message_tag tag;
    uint64_t attempt;
    int32_t piece;
};

struct network {
    struct operation operations[MAX_OPERATIONS];
    struct message messages[MAX_MESSAGES];
    _Atomic uint64_t record_word;
    _Atomic uint64_t record_votes;
};

/** Which messages a story speaks of. */
struct message_name {
    int32_t from, to;
    int32_t slot;     /* -1: any */
    int32_t chunk;    /* -1: any */
    uint64_t attempt; /* 0: any */
};

/** A posted operation, in words: send 0->1 slot 3 of activation 2. */
void network_post(struct world *world, int32_t rank, const struct eplb_transfer_action *action,
                  int32_t *pieces);
void network_cancel(struct world *world, int32_t rank, struct eplb_op op);

/** Ends the rank's cancelled operations. */
void network_end_cancelled(struct world *world, int32_t rank);

/** Lets the posted messages of that name leave, and those under way arrive. False: there is none. */
bool network_leave(struct world *world, const struct message_name *name);
bool network_arrive(struct world *world, const struct message_name *name);

/** The rank's process ended: its operations are gone. */
void network_process_ended(struct world *world, int32_t rank);

/** The rank is known to be dead: the others' operations with it fail. */
void network_member_dead(struct world *world, int32_t rank);

/* The record. */

void record_open(struct world *world, struct eplb_activation_token token);
void record_vote(struct world *world, int32_t rank, struct eplb_activation_token token, bool yes);
void record_abort(struct world *world, struct eplb_activation_token token);
enum eplb_decision record_read(struct world *world, struct eplb_activation_token token);

#endif
