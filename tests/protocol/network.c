/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "protocol/network.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "protocol/world.h"
#include "transport/decision.h"

/* ----------------------------------------------------------------------------------- operations */

static void describe(const struct world *world, int32_t from, int32_t to, const struct eplb_message_tag *tag,
                     uint64_t attempt, char text[TRACE_LINE])
{
    char chunk[32] = "";
    if (world->settings.chunks > 1)
        snprintf(chunk, sizeof chunk, " chunk %d", tag->chunk);
    snprintf(text, TRACE_LINE, "%d->%d slot %d%s of activation %" PRIu64, from, to, tag->slot, chunk,
             attempt);
}

static void describe_operation(const struct world *world, const struct operation *operation,
                               char text[TRACE_LINE])
{
    int32_t from = operation->send ? operation->rank : operation->peer;
    int32_t to = operation->send ? operation->peer : operation->rank;
    describe(world, from, to, &operation->tag, operation->attempt, text);
}

static struct operation *free_operation(struct network *network)
{
    for (int32_t i = 0; i < MAX_OPERATIONS; i++)
        if (!network->operations[i].used)
            return &network->operations[i];
    fprintf(stderr, "a story may have %d operations\n", MAX_OPERATIONS);
    exit(2);
}

void network_post(struct world *world, int32_t rank, const struct eplb_transfer_action *action,
                  int32_t *pieces)
{
    char text[TRACE_LINE];
    struct operation *operation = free_operation(&world->network);
    *operation = (struct operation){.used = true,
                                    .send = action->type == EPLB_TRANSFER_POST_SEND,
                                    .rank = rank,
                                    .peer = action->peer,
                                    .op = action->op,
                                    .tag = action->tag,
                                    .attempt = action->token.value,
                                    .pieces = pieces};
    describe_operation(world, operation, text);
    trace_rank(&world->trace, rank, "%s posted: %s", operation->send ? "send" : "receive", text);
}

void network_cancel(struct world *world, int32_t rank, struct eplb_op op)
{
    char text[TRACE_LINE];
    for (int32_t i = 0; i < MAX_OPERATIONS; i++) {
        struct operation *operation = &world->network.operations[i];
        if (!operation->used || operation->rank != rank || operation->op.value != op.value)
            continue;
        operation->cancelled = true;
        describe_operation(world, operation, text);
        trace_rank(&world->trace, rank, "cancel of %s asked: %s", operation->send ? "send" : "receive", text);
    }
}

static void end(struct world *world, struct operation *operation, enum eplb_op_result result)
{
    operation->used = false;
    rank_complete(world, operation->rank, operation->op, result);
}

void network_end_cancelled(struct world *world, int32_t rank)
{
    for (int32_t i = 0; i < MAX_OPERATIONS; i++) {
        struct operation *operation = &world->network.operations[i];
        if (operation->used && operation->rank == rank && operation->cancelled)
            end(world, operation, EPLB_OP_CANCELLED);
    }
}

/* ------------------------------------------------------------------------------------- messages */

static bool is_named(const struct message_name *name, int32_t from, int32_t to,
                     const struct eplb_message_tag *tag, uint64_t attempt)
{
    return (name->from < 0 || (name->from == from && name->to == to)) &&
           (name->slot < 0 || name->slot == tag->slot) && (name->chunk < 0 || name->chunk == tag->chunk) &&
           (name->attempt == 0 || name->attempt == attempt);
}

static struct message *free_message(struct network *network)
{
    for (int32_t i = 0; i < MAX_MESSAGES; i++)
        if (!network->messages[i].used)
            return &network->messages[i];
    fprintf(stderr, "a story may have %d messages\n", MAX_MESSAGES);
    exit(2);
}

bool network_leave(struct world *world, const struct message_name *name)
{
    bool any = false;
    for (int32_t i = 0; i < MAX_OPERATIONS; i++) {
        struct operation *send = &world->network.operations[i];
        if (!send->used || !send->send || send->cancelled ||
            !is_named(name, send->rank, send->peer, &send->tag, send->attempt))
            continue;
        *free_message(&world->network) = (struct message){.used = true,
                                                          .from = send->rank,
                                                          .to = send->peer,
                                                          .tag = send->tag,
                                                          .attempt = send->attempt,
                                                          .piece = *send->pieces};
        any = true;
        end(world, send, EPLB_OP_DONE);
    }
    return any;
}

static struct operation *awaiting(struct network *network, const struct message *message)
{
    for (int32_t i = 0; i < MAX_OPERATIONS; i++) {
        struct operation *receive = &network->operations[i];
        if (receive->used && !receive->send && receive->rank == message->to &&
            receive->peer == message->from && receive->tag.token.value == message->tag.token.value &&
            receive->tag.slot == message->tag.slot && receive->tag.chunk == message->tag.chunk)
            return receive;
    }
    return NULL;
}

/** Nothing is posted for it: it waits if it belongs to the attempt under way, else it is dropped. */
static void stray(struct world *world, struct message *message)
{
    char text[TRACE_LINE];
    uint64_t attempt = eplb_executor_core_attempt(world->ranks[message->to].core).value;
    describe(world, message->from, message->to, &message->tag, message->attempt, text);
    message->used = message->kept = message->tag.token.value == attempt;
    if (message->kept)
        trace_rank(&world->trace, message->to, "not awaited yet: %s", text);
    else if (attempt == 0)
        trace_rank(&world->trace, message->to, "dropped, no activation is under way: %s", text);
    else
        trace_rank(&world->trace, message->to, "dropped, activation %" PRIu64 " is under way: %s", attempt,
                   text);
}

bool network_arrive(struct world *world, const struct message_name *name)
{
    bool any = false;
    for (int32_t i = 0; i < MAX_MESSAGES; i++) {
        struct message *message = &world->network.messages[i];
        if (!message->used || world->ranks[message->to].dead ||
            !is_named(name, message->from, message->to, &message->tag, message->attempt))
            continue;
        struct operation *receive = awaiting(&world->network, message);
        if (receive == NULL && message->kept)
            continue;
        any = true;
        if (receive == NULL) {
            stray(world, message);
            continue;
        }
        *receive->pieces = message->piece;
        message->used = false;
        end(world, receive, EPLB_OP_DONE);
    }
    return any;
}

void network_process_ended(struct world *world, int32_t rank)
{
    for (int32_t i = 0; i < MAX_OPERATIONS; i++)
        if (world->network.operations[i].rank == rank)
            world->network.operations[i].used = false;
}

void network_member_dead(struct world *world, int32_t rank)
{
    char text[TRACE_LINE];
    for (int32_t i = 0; i < MAX_OPERATIONS; i++) {
        struct operation *operation = &world->network.operations[i];
        if (!operation->used || operation->peer != rank)
            continue;
        describe_operation(world, operation, text);
        trace_rank(&world->trace, operation->rank, "%s failed: %s", operation->send ? "send" : "receive",
                   text);
        end(world, operation, EPLB_OP_FAILED);
    }
}

/* ------------------------------------------------------------------------------------- the record */

static struct eplb_decision_record record_of(struct world *world)
{
    return (struct eplb_decision_record){
        .word = &world->network.record_word, .votes = &world->network.record_votes, .num_ranks = NUM_RANKS};
}

static void say_decided(struct world *world, struct eplb_activation_token token, bool decided)
{
    if (decided)
        trace_say(&world->trace, "record: activation %" PRIu64 " is %s", token.value,
                  record_read(world, token) == EPLB_COMMIT ? "committed" : "aborted");
}

void record_open(struct world *world, struct eplb_activation_token token)
{
    struct eplb_decision_record record = record_of(world);
    eplb_decision_open(&record, token);
    trace_say(&world->trace, "record: activation %" PRIu64 " is open", token.value);
}

void record_vote(struct world *world, int32_t rank, struct eplb_activation_token token, bool yes)
{
    struct eplb_decision_record record = record_of(world);
    trace_rank(&world->trace, rank, "vote %s on activation %" PRIu64, yes ? "yes" : "no", token.value);
    say_decided(world, token, eplb_decision_vote(&record, token, rank, yes));
}

void record_abort(struct world *world, struct eplb_activation_token token)
{
    struct eplb_decision_record record = record_of(world);
    say_decided(world, token, eplb_decision_abort(&record, token));
}

enum eplb_decision record_read(struct world *world, struct eplb_activation_token token)
{
    struct eplb_decision_record record = record_of(world);
    return eplb_decision_read(&record, token);
}
