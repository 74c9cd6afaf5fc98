/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "migrate/transfer.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/planted.h"

/* The key of an operation: its place in a table, the direction, and a count of all posts, so that a
   completion of an earlier attempt never names an operation of this one. */
enum { PLACE_BITS = 8, DIRECTION_BITS = 1, COUNT_SHIFT = PLACE_BITS + DIRECTION_BITS };
_Static_assert(EPLB_TRANSFER_MAX_OPS <= 1 << PLACE_BITS, "a place fits its bits of the key");

enum direction { SEND = 0, RECEIVE = 1, NUM_DIRECTIONS };

static const int64_t never = INT64_MAX;

struct operation {
    struct eplb_op op;
    int64_t bytes; /* 0: the place is free */
    bool cancel_asked;
};

/* This rank's messages in one direction. */
struct queue {
    struct operation *operations; /* [max_ops] */
    int32_t *free_places;         /* [max_ops] a stack; its height is max_ops - num_outstanding */
    int32_t num_outstanding;
    int64_t bytes_outstanding;
    int32_t move;  /* next to post: index into the plan's moves, their number when all are posted */
    int32_t chunk; /* of that move */
};

struct eplb_transfer {
    struct eplb_shape shape;
    int32_t ep_rank;
    int64_t expert_bytes;
    struct eplb_transfer_limits limits;
    int32_t max_ops;
    uint32_t num_posts;

    enum eplb_transfer_state state;
    struct eplb_activation_token token;
    const struct eplb_layer_plan *plan; /* NULL: no part in the exchange */
    bool materialising;                 /* the hook has not returned: staging is still being written */
    bool failed;                        /* the vote is no */
    bool voted_yes;
    bool given_up;
    bool vote_due; /* actions to be taken */
    bool abort_due;
    int64_t deadline;
    enum eplb_decision decision;
    enum eplb_reason reason; /* the first */
    struct queue queues[NUM_DIRECTIONS];
};

int32_t eplb_transfer_chunks(int64_t expert_bytes, int64_t chunk_bytes)
{
    EPLB_ASSERT(expert_bytes > 0 && chunk_bytes > 0);
    int64_t chunks = (expert_bytes - 1) / chunk_bytes + 1;
    EPLB_ASSERT(chunks <= INT32_MAX);
    return (int32_t)chunks;
}

enum eplb_status eplb_transfer_limits_check(const struct eplb_transfer_limits *limits, int64_t expert_bytes,
                                            struct eplb_error *error)
{
    EPLB_ASSERT(expert_bytes > 0);
    if (limits->chunk_bytes <= 0)
        EPLB_FAIL(EPLB_INVALID, "a transfer chunk of %lld bytes is not > 0", (long long)limits->chunk_bytes);
    if (limits->inflight_bytes < limits->chunk_bytes)
        EPLB_FAIL(EPLB_INVALID, "%lld bytes in flight are fewer than one transfer chunk of %lld",
                  (long long)limits->inflight_bytes, (long long)limits->chunk_bytes);
    if (limits->timeout_ns <= 0)
        EPLB_FAIL(EPLB_INVALID, "a transfer timeout of %lld ns is not > 0", (long long)limits->timeout_ns);
    if ((expert_bytes - 1) / limits->chunk_bytes >= INT32_MAX)
        EPLB_FAIL(EPLB_INVALID, "an expert of %lld bytes has more than 2^31 - 1 transfer chunks of %lld",
                  (long long)expert_bytes, (long long)limits->chunk_bytes);
    return EPLB_OK;
}

static struct eplb_transfer *lay_out(struct eplb_arena *arena, const struct eplb_shape *shape,
                                     int64_t expert_bytes, const struct eplb_transfer_limits *limits)
{
    int64_t most = (int64_t)shape->num_slots * eplb_transfer_chunks(expert_bytes, limits->chunk_bytes);
    struct eplb_transfer layout = {.shape = *shape, .expert_bytes = expert_bytes, .limits = *limits};
    struct eplb_transfer *transfer = eplb_arena_take(arena, 1, sizeof *transfer);
    layout.max_ops = most < EPLB_TRANSFER_MAX_OPS ? (int32_t)most : EPLB_TRANSFER_MAX_OPS;
    layout.deadline = never;
    for (int d = 0; d < NUM_DIRECTIONS; d++) {
        struct queue *queue = &layout.queues[d];
        queue->operations = eplb_arena_take(arena, (size_t)layout.max_ops, sizeof *queue->operations);
        queue->free_places = eplb_arena_take(arena, (size_t)layout.max_ops, sizeof *queue->free_places);
    }
    if (transfer != NULL)
        *transfer = layout;
    return transfer;
}

size_t eplb_transfer_size(const struct eplb_shape *shape, int64_t expert_bytes,
                          const struct eplb_transfer_limits *limits)
{
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    lay_out(&arena, shape, expert_bytes, limits);
    EPLB_ASSERT(!arena.overflow);
    return arena.used;
}

static void forget_operations(struct eplb_transfer *transfer)
{
    for (int d = 0; d < NUM_DIRECTIONS; d++) {
        struct queue *queue = &transfer->queues[d];
        queue->num_outstanding = 0;
        queue->bytes_outstanding = 0;
        for (int32_t place = 0; place < transfer->max_ops; place++) {
            queue->operations[place] = (struct operation){.bytes = 0};
            queue->free_places[place] = transfer->max_ops - 1 - place;
        }
    }
}

struct eplb_transfer *eplb_transfer_init(void *memory, const struct eplb_shape *shape, int32_t ep_rank,
                                         int64_t expert_bytes, const struct eplb_transfer_limits *limits)
{
    EPLB_ASSERT(ep_rank >= 0 && ep_rank < shape->ep_size);
    EPLB_ASSERT(limits->chunk_bytes > 0 && limits->inflight_bytes >= limits->chunk_bytes);
    EPLB_ASSERT(limits->timeout_ns > 0);
    struct eplb_arena arena;
    eplb_arena_init(&arena, memory, eplb_transfer_size(shape, expert_bytes, limits));
    struct eplb_transfer *transfer = lay_out(&arena, shape, expert_bytes, limits);
    EPLB_ASSERT(transfer != NULL && !arena.overflow);
    transfer->ep_rank = ep_rank;
    forget_operations(transfer);
    return transfer;
}

static void set_state(struct eplb_transfer *transfer, enum eplb_transfer_state state)
{
    static const unsigned from[] = {
        [EPLB_TRANSFER_EXCHANGING] = 1u << EPLB_TRANSFER_IDLE | 1u << EPLB_TRANSFER_DONE,
        [EPLB_TRANSFER_VOTED] = 1u << EPLB_TRANSFER_EXCHANGING,
        [EPLB_TRANSFER_CANCELLING] = 1u << EPLB_TRANSFER_EXCHANGING | 1u << EPLB_TRANSFER_VOTED,
        [EPLB_TRANSFER_DONE] = 1u << EPLB_TRANSFER_CANCELLING,
    };
    EPLB_ASSERT((from[state] >> transfer->state & 1) != 0);
    transfer->state = state;
}

static int32_t num_outstanding(const struct eplb_transfer *transfer)
{
    return transfer->queues[SEND].num_outstanding + transfer->queues[RECEIVE].num_outstanding;
}

static int32_t num_moves(const struct eplb_transfer *transfer)
{
    return transfer->plan == NULL ? 0 : transfer->plan->num_moves;
}

/* Whether a move is a message of this rank in a direction. */
static bool is_own(const struct eplb_transfer *transfer, const struct eplb_move *move,
                   enum direction direction)
{
    int32_t end = direction == SEND ? move->source_slot : move->slot;
    return move->kind == EPLB_MOVE_P2P && end / transfer->shape.slots_per_rank == transfer->ep_rank;
}

static void skip_to_own(struct eplb_transfer *transfer, enum direction direction)
{
    struct queue *queue = &transfer->queues[direction];
    int32_t count = num_moves(transfer);
    while (queue->move < count && !is_own(transfer, &transfer->plan->moves[queue->move], direction))
        queue->move++;
}

static bool all_posted(const struct eplb_transfer *transfer)
{
    int32_t count = num_moves(transfer);
    return transfer->queues[SEND].move == count && transfer->queues[RECEIVE].move == count;
}

static void note_reason(struct eplb_transfer *transfer, enum eplb_reason reason)
{
    EPLB_ASSERT(reason != EPLB_REASON_NONE);
    if (transfer->reason == EPLB_REASON_NONE)
        transfer->reason = reason;
}

static void fail(struct eplb_transfer *transfer, enum eplb_reason reason)
{
    note_reason(transfer, reason);
    transfer->failed = true;
}

static void start(struct eplb_transfer *transfer, const struct eplb_transfer_event *event)
{
    EPLB_ASSERT(event->token.value != 0 && event->token.value != transfer->token.value);
    EPLB_ASSERT(num_outstanding(transfer) == 0 || EPLB_PLANTED(STAGING_REUSED_EARLY));
    bool begins = event->type == EPLB_TRANSFER_BEGIN;
    EPLB_ASSERT(event->plan != NULL || !begins);
    forget_operations(transfer); /* there are none, but with the bug planted */
    transfer->token = event->token;
    transfer->plan = begins ? event->plan : NULL;
    transfer->materialising = begins;
    transfer->failed = transfer->voted_yes = transfer->given_up = false;
    transfer->decision = EPLB_UNDECIDED;
    transfer->reason = EPLB_REASON_NONE;
    for (int d = 0; d < NUM_DIRECTIONS; d++) {
        transfer->queues[d].move = transfer->queues[d].chunk = 0;
        skip_to_own(transfer, (enum direction)d);
    }
    set_state(transfer, EPLB_TRANSFER_EXCHANGING);
    if (!begins)
        fail(transfer, event->reason);
}

static void start_deadline(struct eplb_transfer *transfer, int64_t now)
{
    if (transfer->deadline == never && transfer->decision == EPLB_UNDECIDED &&
        __builtin_add_overflow(now, transfer->limits.timeout_ns, &transfer->deadline))
        transfer->deadline = never;
}

static void complete(struct eplb_transfer *transfer, const struct eplb_completion *completion)
{
    uint32_t key = completion->op.value;
    int32_t place = (int32_t)(key & ((1u << PLACE_BITS) - 1));
    struct queue *queue = &transfer->queues[key >> PLACE_BITS & 1];
    if (place >= transfer->max_ops || queue->operations[place].bytes == 0 ||
        queue->operations[place].op.value != key)
        return;
    if (completion->result != EPLB_OP_DONE && transfer->decision == EPLB_UNDECIDED)
        fail(transfer, EPLB_REASON_TRANSFER_FAILED);
    EPLB_ASSERT(queue->num_outstanding > 0);
    queue->num_outstanding--;
    queue->bytes_outstanding -= queue->operations[place].bytes;
    EPLB_ASSERT(queue->bytes_outstanding >= 0);
    queue->operations[place].bytes = 0;
    queue->free_places[transfer->max_ops - 1 - queue->num_outstanding] = place;
}

static void decide(struct eplb_transfer *transfer, enum eplb_decision decision)
{
    if (decision == EPLB_UNDECIDED || transfer->decision != EPLB_UNDECIDED)
        return;
    transfer->decision = decision;
    transfer->deadline = never;
    transfer->vote_due = transfer->abort_due = false;
    if (decision == EPLB_COMMIT) {
        EPLB_ASSERT(transfer->voted_yes && all_posted(transfer) && num_outstanding(transfer) == 0);
        transfer->reason = EPLB_REASON_NONE;
    } else {
        note_reason(transfer, EPLB_REASON_ABORTED_BY_ANOTHER);
    }
    set_state(transfer, EPLB_TRANSFER_CANCELLING);
}

/* The deadline asks the record and takes no decision of its own: another rank may have committed. */
static void judge_deadline(struct eplb_transfer *transfer, int64_t now)
{
    if (now < transfer->deadline)
        return;
    EPLB_ASSERT(transfer->state == EPLB_TRANSFER_EXCHANGING || transfer->state == EPLB_TRANSFER_VOTED);
    transfer->deadline = never;
    transfer->abort_due = true;
    note_reason(transfer, EPLB_REASON_DEADLINE);
    if (EPLB_PLANTED(KEEP_BY_OWN_CLOCK))
        decide(transfer, EPLB_ABORT);
}

static void judge(struct eplb_transfer *transfer, int64_t now)
{
    bool complete_now = !transfer->materialising && all_posted(transfer) && num_outstanding(transfer) == 0;
    if (transfer->state == EPLB_TRANSFER_EXCHANGING && (transfer->failed || complete_now)) {
        transfer->voted_yes = !transfer->failed;
        transfer->vote_due = true;
        set_state(transfer, EPLB_TRANSFER_VOTED);
    }
    judge_deadline(transfer, now);
    bool idle = !transfer->materialising && num_outstanding(transfer) == 0;
    if (transfer->state == EPLB_TRANSFER_CANCELLING && (idle || EPLB_PLANTED(STAGING_REUSED_EARLY)))
        set_state(transfer, EPLB_TRANSFER_DONE);
}

static void take_part(struct eplb_transfer *transfer, const struct eplb_transfer_event *event, int64_t now)
{
    switch (event->type) {
    case EPLB_TRANSFER_MATERIALISED:
        EPLB_ASSERT(transfer->materialising);
        transfer->materialising = false;
        if (!event->ok)
            fail(transfer, event->reason);
        break;
    case EPLB_TRANSFER_GIVE_UP:
        transfer->given_up = true;
        fail(transfer, event->reason);
        start_deadline(transfer, now);
        break;
    case EPLB_TRANSFER_FINISH:
        start_deadline(transfer, now);
        break;
    case EPLB_TRANSFER_DECIDED:
        decide(transfer, event->decision);
        break;
    case EPLB_TRANSFER_BEGIN:
    case EPLB_TRANSFER_NO_PLAN:
    case EPLB_TRANSFER_COMPLETED:
        EPLB_ASSERT(false);
    }
}

void eplb_transfer_step(struct eplb_transfer *transfer, const struct eplb_transfer_event *event, int64_t now)
{
    bool present = event->token.value == transfer->token.value && transfer->state != EPLB_TRANSFER_DONE;
    if (event->type == EPLB_TRANSFER_BEGIN || event->type == EPLB_TRANSFER_NO_PLAN)
        start(transfer, event);
    else if (event->type == EPLB_TRANSFER_COMPLETED)
        complete(transfer, &event->completion);
    else if (present && transfer->state != EPLB_TRANSFER_IDLE)
        take_part(transfer, event, now);
    judge(transfer, now);
}

static int64_t chunk_bytes(const struct eplb_transfer *transfer, const struct queue *queue)
{
    int64_t rest = transfer->expert_bytes - queue->chunk * transfer->limits.chunk_bytes;
    EPLB_ASSERT(rest > 0);
    return rest < transfer->limits.chunk_bytes ? rest : transfer->limits.chunk_bytes;
}

static bool may_post(const struct eplb_transfer *transfer, enum direction direction)
{
    const struct queue *queue = &transfer->queues[direction];
    bool exchanging = transfer->state == EPLB_TRANSFER_EXCHANGING || transfer->state == EPLB_TRANSFER_VOTED;
    return exchanging && !transfer->materialising && !transfer->given_up &&
           queue->move < num_moves(transfer) && queue->num_outstanding < transfer->max_ops &&
           queue->bytes_outstanding <= transfer->limits.inflight_bytes - chunk_bytes(transfer, queue);
}

static struct operation *take_place(struct eplb_transfer *transfer, enum direction direction, int64_t bytes)
{
    struct queue *queue = &transfer->queues[direction];
    EPLB_ASSERT(queue->num_outstanding < transfer->max_ops);
    int32_t place = queue->free_places[transfer->max_ops - 1 - queue->num_outstanding];
    struct operation *operation = &queue->operations[place];
    EPLB_ASSERT(operation->bytes == 0 && bytes > 0);
    uint32_t key = ++transfer->num_posts << COUNT_SHIFT | (uint32_t)direction << PLACE_BITS | (uint32_t)place;
    *operation = (struct operation){.op = {key}, .bytes = bytes};
    queue->num_outstanding++;
    queue->bytes_outstanding += bytes;
    return operation;
}

static void post(struct eplb_transfer *transfer, enum direction direction,
                 struct eplb_transfer_action *action)
{
    struct queue *queue = &transfer->queues[direction];
    const struct eplb_move *move = &transfer->plan->moves[queue->move];
    int32_t slots = transfer->shape.slots_per_rank;
    int32_t own = direction == SEND ? move->source_slot : move->slot;
    int32_t other = direction == SEND ? move->slot : move->source_slot;
    EPLB_ASSERT(own / slots == transfer->ep_rank && other / slots != transfer->ep_rank);
    action->type = direction == SEND ? EPLB_TRANSFER_POST_SEND : EPLB_TRANSFER_POST_RECV;
    action->peer = other / slots;
    action->tag = (struct eplb_message_tag){transfer->token, move->slot, queue->chunk};
    if (EPLB_PLANTED(MESSAGE_WITHOUT_TOKEN))
        action->tag.token.value = 0;
    action->layer = transfer->plan->layer;
    action->local_slot = own % slots;
    action->offset = queue->chunk * transfer->limits.chunk_bytes;
    action->bytes = chunk_bytes(transfer, queue);
    action->op = take_place(transfer, direction, action->bytes)->op;
    if (++queue->chunk == eplb_transfer_chunks(transfer->expert_bytes, transfer->limits.chunk_bytes)) {
        queue->chunk = 0;
        queue->move++;
        skip_to_own(transfer, direction);
    }
}

static bool next_cancel(struct eplb_transfer *transfer, struct eplb_transfer_action *action)
{
    if (transfer->decision == EPLB_UNDECIDED || num_outstanding(transfer) == 0)
        return false;
    for (int d = 0; d < NUM_DIRECTIONS; d++) {
        for (int32_t place = 0; place < transfer->max_ops; place++) {
            struct operation *operation = &transfer->queues[d].operations[place];
            if (operation->bytes == 0 || operation->cancel_asked)
                continue;
            operation->cancel_asked = true;
            action->type = EPLB_TRANSFER_CANCEL;
            action->op = operation->op;
            return true;
        }
    }
    return false;
}

static bool next_post(struct eplb_transfer *transfer, struct eplb_transfer_action *action)
{
    /* Receives first: a message that finds its receive posted needs no room in between. */
    if (may_post(transfer, RECEIVE))
        post(transfer, RECEIVE, action);
    else if (may_post(transfer, SEND))
        post(transfer, SEND, action);
    else
        return false;
    return true;
}

bool eplb_transfer_next(struct eplb_transfer *transfer, struct eplb_transfer_action *action)
{
    *action = (struct eplb_transfer_action){.token = transfer->token};
    if (transfer->vote_due) {
        transfer->vote_due = false;
        action->type = EPLB_TRANSFER_VOTE;
        action->yes = transfer->voted_yes;
        return true;
    }
    if (transfer->abort_due) {
        transfer->abort_due = false;
        action->type = EPLB_TRANSFER_ABORT_RECORD;
        return true;
    }
    return next_cancel(transfer, action) || next_post(transfer, action);
}

enum eplb_transfer_state eplb_transfer_state(const struct eplb_transfer *transfer)
{
    return transfer->state;
}

int64_t eplb_transfer_deadline(const struct eplb_transfer *transfer)
{
    return transfer->deadline;
}

enum eplb_decision eplb_transfer_decision(const struct eplb_transfer *transfer)
{
    return transfer->decision;
}

enum eplb_reason eplb_transfer_reason(const struct eplb_transfer *transfer)
{
    return transfer->reason;
}

int64_t eplb_transfer_bytes_sending(const struct eplb_transfer *transfer)
{
    return transfer->queues[SEND].bytes_outstanding;
}

int64_t eplb_transfer_bytes_receiving(const struct eplb_transfer *transfer)
{
    return transfer->queues[RECEIVE].bytes_outstanding;
}
