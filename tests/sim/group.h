/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The modelled process group: messages matched by (source, destination, tag), and the decision
 * record. It keeps the contract of include/eplb/group.h and uses all the freedom that this leaves.
 *
 * Two networks. Meeting: a message moves some time after both of its sides were posted. Eager: it
 * leaves when its send is posted, and waits in the receiver's mailbox for its receive; what nobody
 * awaits any more is dropped by a poll, or stays. In both, a cancelled operation may still be
 * written until its completion, and the sides of a lost message stay posted until they are cancelled.
 */
#ifndef SIM_GROUP_H
#define SIM_GROUP_H

#include "migrate/transfer.h"
#include "sim/config.h"

enum { SIM_OPS = 256, SIM_MESSAGES = 256, SIM_COMPLETIONS = 128, SIM_CHUNK_WORDS = 3 };

/** A side of a message, from its post to its completion. */
struct sim_op {
    bool used;
    uint32_t serial; /* of this use, so that an event that comes late knows better */
    int32_t rank;
    int32_t peer;
    bool send;
    struct eplb_message_tag tag;
    uint64_t attempt; /* what it really belongs to, whatever the tag says */
    struct eplb_op op;
    int32_t local_slot;
    uint64_t *words;
    int32_t count;
    int32_t partner; /* meeting: the other side while they are matched, else -1 */
    bool ending;     /* moved or failed: a cancel comes too late */
    bool cancelling;
};

/** Eager: content on its way, or waiting in the mailbox. */
struct sim_message {
    bool used;
    bool waiting;
    bool stray; /* seen waiting during another attempt */
    int32_t from;
    int32_t to;
    struct eplb_message_tag tag;
    uint64_t attempt;
    uint64_t words[SIM_CHUNK_WORDS];
    int32_t count;
};

struct sim_group {
    struct sim_op ops[SIM_OPS];
    uint32_t num_posts;
    struct sim_message messages[SIM_MESSAGES];
    uint32_t num_replaced; /* messages that made room */
    struct eplb_completion completions[SIM_RANKS][SIM_COMPLETIONS];
    int32_t num_completions[SIM_RANKS];
    bool dead[SIM_RANKS]; /* as told */

    uint64_t record_token;
    enum eplb_decision decision;
    bool voted[SIM_RANKS];
    bool voted_yes[SIM_RANKS];
};

/** Posts the action's send or receive over these words; false: refused, nothing was posted. */
bool sim_group_post(struct world *world, int32_t rank, const struct eplb_transfer_action *action,
                    uint64_t *words);

void sim_group_cancel(struct world *world, int32_t rank, struct eplb_op op);

/** Takes the rank's completions. */
int32_t sim_group_poll(struct world *world, int32_t rank, struct eplb_activation_token current,
                       struct eplb_completion completions[SIM_COMPLETIONS]);

/** The process has ended: what it had posted stays as it is and gets nothing more. */
void sim_group_process_ended(struct world *world, int32_t rank);

/** The group is told: operations that involve the rank fail. */
void sim_group_member_dead(struct world *world, int32_t rank);

/** Operations of a rank for an attempt whose memory may still be touched. */
int32_t sim_group_outstanding(const struct sim_group *group, int32_t rank, uint64_t attempt);

void sim_record_open(struct world *world, struct eplb_activation_token token);
void sim_record_vote(struct world *world, int32_t rank, struct eplb_activation_token token, bool yes);

/** Returns whether this call decided. */
bool sim_record_abort(struct world *world, struct eplb_activation_token token);
enum eplb_decision sim_record_read(const struct sim_group *group, struct eplb_activation_token token);

#endif
