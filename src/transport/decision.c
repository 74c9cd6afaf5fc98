/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/decision.h"

#include "base/assert.h"

enum { STATE_BITS = 2, STATE_MASK = 3 };

/** Tries to set a bit: each that fails is another voter's success. More are a peer's nonsense. */
enum { MOST_TRIES = 1000 };

static uint64_t word_of(struct eplb_activation_token token, enum eplb_decision decision)
{
    return token.value << STATE_BITS | (uint64_t)decision;
}

static uint64_t no_votes(struct eplb_activation_token token)
{
    return token.value << EPLB_VOTES_PER_WORD;
}

/** Whether a word of votes belongs to the token, as far as its half can say. */
static bool belongs_to(uint64_t votes, struct eplb_activation_token token)
{
    return (votes ^ no_votes(token)) >> EPLB_VOTES_PER_WORD == 0;
}

/** Whether a record can be about it: 0 is none, and a larger one would be cut in the word. */
static bool is_token(struct eplb_activation_token token)
{
    return token.value >= 1 && token.value <= EPLB_MAX_TOKEN;
}

static uint64_t bit_of(int32_t rank)
{
    EPLB_ASSERT(rank >= 0);
    return UINT64_C(1) << (rank % EPLB_VOTES_PER_WORD);
}

/** The word's value when all its ranks have voted yes; the last word may have fewer. */
static uint64_t all_votes(const struct eplb_decision_record *record, struct eplb_activation_token token,
                          int32_t word)
{
    EPLB_ASSERT(word >= 0 && word < eplb_decision_vote_words(record->num_ranks));
    int32_t ranks = record->num_ranks - word * EPLB_VOTES_PER_WORD;
    uint64_t bits = ranks >= EPLB_VOTES_PER_WORD ? UINT32_MAX : (UINT64_C(1) << ranks) - 1;
    return no_votes(token) | bits;
}

int32_t eplb_decision_vote_words(int32_t num_ranks)
{
    return (num_ranks + EPLB_VOTES_PER_WORD - 1) / EPLB_VOTES_PER_WORD;
}

void eplb_decision_open(const struct eplb_decision_record *record, struct eplb_activation_token token)
{
    EPLB_ASSERT(is_token(token));
    /* Relaxed: nobody looks at the votes of a token before it stands in the word. */
    for (int32_t i = 0; i < eplb_decision_vote_words(record->num_ranks); i++)
        atomic_store_explicit(&record->votes[i], no_votes(token), memory_order_relaxed);
    /* Release: whoever finds the token in the word finds its votes empty. */
    atomic_store_explicit(record->word, word_of(token, EPLB_UNDECIDED), memory_order_release);
}

static bool decide(const struct eplb_decision_record *record, struct eplb_activation_token token,
                   enum eplb_decision decision)
{
    EPLB_ASSERT(is_token(token) && decision != EPLB_UNDECIDED);
    uint64_t expected = word_of(token, EPLB_UNDECIDED);
    /* Release on success: who reads the outcome sees all that was done before it was reached, by the
     * other voters too, whose votes this thread has acquired. Relaxed on failure: nothing is read. */
    return atomic_compare_exchange_strong_explicit(record->word, &expected, word_of(token, decision),
                                                   memory_order_release, memory_order_relaxed);
}

/** Sets the rank's bit; false when the word belongs to another token by now, or the bit was set. */
static bool set_bit(_Atomic uint64_t *votes, struct eplb_activation_token token, int32_t rank)
{
    /* Relaxed: the exchange below decides whether the value still holds. */
    uint64_t seen = atomic_load_explicit(votes, memory_order_relaxed);
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        if (!belongs_to(seen, token) || (seen & bit_of(rank)) != 0)
            return false;
        /* Sequentially consistent, as the loads of has_all_votes: of two last voters, each in a word of
         * its own, at least one must see the other's vote, or nobody would commit. */
        if (atomic_compare_exchange_strong_explicit(votes, &seen, seen | bit_of(rank), memory_order_seq_cst,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}

static bool has_all_votes(const struct eplb_decision_record *record, struct eplb_activation_token token)
{
    for (int32_t i = 0; i < eplb_decision_vote_words(record->num_ranks); i++)
        /* Sequentially consistent: see set_bit. */
        if (atomic_load_explicit(&record->votes[i], memory_order_seq_cst) != all_votes(record, token, i))
            return false;
    return true;
}

static bool has_voted_yes(const _Atomic uint64_t *votes, struct eplb_activation_token token, int32_t rank)
{
    /* Relaxed: a rank asks about its own vote. */
    uint64_t seen = atomic_load_explicit(votes, memory_order_relaxed);
    return belongs_to(seen, token) && (seen & bit_of(rank)) != 0;
}

bool eplb_decision_vote(const struct eplb_decision_record *record, struct eplb_activation_token token,
                        int32_t rank, bool yes)
{
    EPLB_ASSERT(rank >= 0 && rank < record->num_ranks);
    if (!is_token(token))
        return false;
    /* Acquire: pairs with eplb_decision_open; the votes of the token that stands here are its own. */
    if (atomic_load_explicit(record->word, memory_order_acquire) != word_of(token, EPLB_UNDECIDED))
        return false;
    _Atomic uint64_t *votes = &record->votes[rank / EPLB_VOTES_PER_WORD];
    if (!yes)
        return !has_voted_yes(votes, token, rank) && decide(record, token, EPLB_ABORT);
    return set_bit(votes, token, rank) && has_all_votes(record, token) && decide(record, token, EPLB_COMMIT);
}

bool eplb_decision_abort(const struct eplb_decision_record *record, struct eplb_activation_token token)
{
    return is_token(token) && decide(record, token, EPLB_ABORT);
}

enum eplb_decision eplb_decision_read(const struct eplb_decision_record *record,
                                      struct eplb_activation_token token)
{
    /* Acquire: pairs with the release of decide. */
    uint64_t word = atomic_load_explicit(record->word, memory_order_acquire);
    if (word >> STATE_BITS != token.value)
        return EPLB_UNDECIDED;
    uint64_t decision = word & STATE_MASK;
    /* The word is shared: a state that does not exist is a peer's nonsense, and decides nothing. */
    return decision > EPLB_ABORT ? EPLB_UNDECIDED : (enum eplb_decision)decision;
}
