/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A model of a process group for one test thread: what happens next is drawn from a seed. Sends
 * are eager (the message travels on its own) or wait for their receive, deliveries and completions
 * come in any order, messages of old attempts linger, ranks die.
 */
#ifndef MIGRATE_NETWORK_H
#define MIGRATE_NETWORK_H

#include <stdbool.h>

#include "base/prng.h"
#include "eplb/group.h"

struct network;

/* Chances in percent. */
struct network_params {
    int32_t num_ranks;
    unsigned eager;   /* that a send does not wait for its receive */
    unsigned lose;    /* that an eager message never arrives */
    unsigned refuse;  /* that a post is refused */
    bool late_cancel; /* a cancelled operation may still complete */
};

struct network *network_create(const struct network_params *params, struct eplb_prng *prng);
void network_destroy(struct network *network);

/** One rank's view; its post, poll, cancel and record operations work, the blocking ones are absent. */
const struct eplb_group *network_group(struct network *network, int32_t rank);

/** As the group's posts, without memory: only sizes travel. */
enum eplb_status network_post(struct network *network, int32_t rank, bool send, int32_t peer,
                              const struct eplb_message_tag *tag, int64_t bytes, struct eplb_op op);

/** Lets one random thing happen; false when nothing can. */
bool network_progress(struct network *network);

/** The attempt that the memory of a rank belongs to now; 0 for none. */
void network_set_attempt(struct network *network, int32_t rank, uint64_t token);

/** Ends a rank: what it posted and what others posted for it fails, its vote will not come. */
void network_kill(struct network *network, int32_t rank);

/** Operations of a rank that have not ended. */
int32_t network_outstanding(const struct network *network, int32_t rank);

/** Messages and bytes that arrived so far. */
int64_t network_messages(const struct network *network);
int64_t network_bytes(const struct network *network);

/** What went wrong first; "" when nothing did. */
const char *network_violation(const struct network *network);

#endif
