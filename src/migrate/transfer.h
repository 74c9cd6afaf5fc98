/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The transfer core: one rank's part in one activation attempt, from the first message to the
 * report. Pure: events and the time in, actions out.
 *
 *   IDLE -> EXCHANGING -> VOTED -> CANCELLING -> DONE -> (the next attempt) EXCHANGING
 *
 * EXCHANGING  once the local experts are staged, messages are posted in ascending (slot, chunk)
 *             order on both sides, bytes in flight bounded separately for sends and receives. The
 *             lowest unfinished message of the whole group heads both its sender's and its
 *             receiver's queue, so it can always be posted: no deadlock, whatever the cycle.
 * VOTED       this rank voted (yes: it materialised and all its own transfers are complete; no:
 *             something failed) and watches the record. After a no it keeps exchanging until the
 *             record is decided, so that peers are not left waiting by its silence.
 * CANCELLING  the record is decided; outstanding operations are cancelled and awaited, and so is
 *             the hook that fills staging.
 * DONE        nothing of this token is outstanding: the outcome may be reported.
 *
 * Shorter ways: a token without a plan goes from IDLE to VOTED, and a record that others decided
 * takes EXCHANGING to CANCELLING without a vote.
 *
 * Only the record decides. The deadline and a failed operation lead to a no or to an abort of the
 * record, never to an outcome of their own.
 */
#ifndef MIGRATE_TRANSFER_H
#define MIGRATE_TRANSFER_H

#include <stdbool.h>

#include "eplb/group.h"
#include "eplb/migrate.h"

/** Most sends, and most receives, that one rank has outstanding: a group must take that many. */
#define EPLB_TRANSFER_MAX_OPS 256

struct eplb_transfer_limits {
    int64_t chunk_bytes;    /* > 0 */
    int64_t inflight_bytes; /* >= chunk_bytes, for sends and for receives each */
    int64_t timeout_ns;     /* > 0, from entry into finish_step */
};

enum eplb_transfer_state {
    EPLB_TRANSFER_IDLE,
    EPLB_TRANSFER_EXCHANGING,
    EPLB_TRANSFER_VOTED,
    EPLB_TRANSFER_CANCELLING,
    EPLB_TRANSFER_DONE,
};

/**
 * BEGIN and NO_PLAN start an attempt and are legal when IDLE or DONE. The others belong to the
 * attempt of their token (COMPLETED to that of its operation) and are ignored when that is not the
 * present one or is DONE: a late completion, a finish_step after the outcome.
 */
enum eplb_transfer_event_type {
    EPLB_TRANSFER_BEGIN,        /* a plan and a token; one MATERIALISED must follow */
    EPLB_TRANSFER_NO_PLAN,      /* a token without a plan: vote no, take no part */
    EPLB_TRANSFER_MATERIALISED, /* `ok`: staging holds the local experts; the exchange starts, ok or not */
    EPLB_TRANSFER_FINISH,       /* finish_step was entered: the deadline runs from now */
    EPLB_TRANSFER_COMPLETED,    /* an operation ended */
    EPLB_TRANSFER_DECIDED,      /* the record was read: `decision` may be EPLB_UNDECIDED, then time passed */
    EPLB_TRANSFER_GIVE_UP,      /* abort_step: vote no unless voted, post no more; as FINISH otherwise */
};

struct eplb_transfer_event {
    enum eplb_transfer_event_type type;
    struct eplb_activation_token token;
    const struct eplb_layer_plan *plan; /* BEGIN; must stay until DONE */
    enum eplb_reason reason;            /* NO_PLAN, MATERIALISED (not ok), GIVE_UP: why the vote is no */
    bool ok;                            /* MATERIALISED */
    struct eplb_completion completion;  /* COMPLETED */
    enum eplb_decision decision;        /* DECIDED */
};

enum eplb_transfer_action_type {
    EPLB_TRANSFER_POST_SEND,
    EPLB_TRANSFER_POST_RECV,
    EPLB_TRANSFER_CANCEL,
    EPLB_TRANSFER_VOTE,         /* `yes` */
    EPLB_TRANSFER_ABORT_RECORD, /* the deadline passed undecided */
};

struct eplb_transfer_action {
    enum eplb_transfer_action_type type;
    struct eplb_activation_token token; /* the attempt */
    struct eplb_op op;                  /* POST_*, CANCEL */
    int32_t peer;                       /* POST_* */
    struct eplb_message_tag tag;        /* POST_* */
    int32_t layer;                      /* POST_* */
    int32_t local_slot;                 /* POST_SEND: active slot; POST_RECV: staging slot */
    int64_t offset;                     /* POST_*: of the expert's message */
    int64_t bytes;                      /* POST_* */
    bool yes;                           /* VOTE */
};

struct eplb_transfer;

/** Checks limits that options gave; an expert may have at most 2^31 - 1 chunks. */
enum eplb_status eplb_transfer_limits_check(const struct eplb_transfer_limits *limits, int64_t expert_bytes,
                                            struct eplb_error *error);

/** Bytes of one transfer core; its memory is reserved once and reused by every attempt. */
size_t eplb_transfer_size(const struct eplb_shape *shape, int64_t expert_bytes,
                          const struct eplb_transfer_limits *limits);

/** Makes a transfer core in eplb_transfer_size bytes aligned to 64. The limits passed their check. */
struct eplb_transfer *eplb_transfer_init(void *memory, const struct eplb_shape *shape, int32_t ep_rank,
                                         int64_t expert_bytes, const struct eplb_transfer_limits *limits);

/**
 * One event. Actions are then taken with eplb_transfer_next until it returns false; the caller does
 * each before the next event. Posting may be refused by the group: feed that back as a completion
 * with EPLB_OP_FAILED, at once or after the other actions.
 */
void eplb_transfer_step(struct eplb_transfer *transfer, const struct eplb_transfer_event *event, int64_t now);

/** Takes the next action; false when there is none. */
bool eplb_transfer_next(struct eplb_transfer *transfer, struct eplb_transfer_action *action);

enum eplb_transfer_state eplb_transfer_state(const struct eplb_transfer *transfer);

/** When time alone brings an action: feed DECIDED (read the record) then. INT64_MAX: never. */
int64_t eplb_transfer_deadline(const struct eplb_transfer *transfer);

/** The record's decision once it was read; EPLB_UNDECIDED before. */
enum eplb_decision eplb_transfer_decision(const struct eplb_transfer *transfer);

/** Why this rank voted no or the attempt was kept; EPLB_REASON_NONE otherwise. */
enum eplb_reason eplb_transfer_reason(const struct eplb_transfer *transfer);

/** Bytes posted and not completed: sends and receives. */
int64_t eplb_transfer_bytes_sending(const struct eplb_transfer *transfer);
int64_t eplb_transfer_bytes_receiving(const struct eplb_transfer *transfer);

/** Number of chunks of a message: 10 MiB + 1 byte in chunks of 4 MiB are 3. */
int32_t eplb_transfer_chunks(int64_t expert_bytes, int64_t chunk_bytes);

/**
 * Does an action with a real group: posts the memory that `weights` names, cancels, votes.
 *
 * @return EPLB_OK; the group's status, or EPLB_REFUSED when the memory's registration was refused:
 *         then nothing was posted, and the core is to be told so with EPLB_OP_FAILED
 */
enum eplb_status eplb_transfer_run_action(const struct eplb_transfer_action *action,
                                          const struct eplb_group *group, const struct eplb_weights *weights);

#endif
