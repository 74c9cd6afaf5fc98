/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The decision record: one attempt's outcome, written once.
 *
 * The word holds the token and its state, so a single compare-and-swap decides, and can decide only
 * for the token that it was meant for. Votes are one bit per rank, 32 to a word beside the low half
 * of the token, so a vote that comes late cannot count for another token either.
 */
#ifndef TRANSPORT_DECISION_H
#define TRANSPORT_DECISION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "eplb/group.h"

/** Votes in one word: the other half names the token. */
#define EPLB_VOTES_PER_WORD 32

/** The record in shared memory; all zeros before the first token. Made on the fly by whoever uses it. */
struct eplb_decision_record {
    _Atomic uint64_t *word; /* token * 4 + enum eplb_decision */
    _Atomic uint64_t
        *votes; /* [eplb_decision_vote_words(num_ranks)] low token half * 2^32 + a bit per rank */
    int32_t num_ranks;
};

/** Words that the votes of so many ranks need. */
int32_t eplb_decision_vote_words(int32_t num_ranks);

/** Opens the record for a token, undecided and without votes. One caller at a time. */
void eplb_decision_open(const struct eplb_decision_record *record, struct eplb_activation_token token);

/**
 * Counts a rank's vote. The last yes commits, a no aborts; a second vote of the rank, and a vote for
 * a token that is not open, change nothing.
 *
 * @return whether this call decided
 */
bool eplb_decision_vote(const struct eplb_decision_record *record, struct eplb_activation_token token,
                        int32_t rank, bool yes);

/** Aborts unless decided, or another token is open. Returns whether this call decided. */
bool eplb_decision_abort(const struct eplb_decision_record *record, struct eplb_activation_token token);

/** What the record says of the token; EPLB_UNDECIDED for another one. */
enum eplb_decision eplb_decision_read(const struct eplb_decision_record *record,
                                      struct eplb_activation_token token);

#endif
