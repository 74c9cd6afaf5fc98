/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "sim/group.h"

#include <inttypes.h>
#include <string.h>

#include "sim/world.h"

/* An event names an operation by its place and its serial, so that it never acts on a later use. */
enum { PLACE_BITS = 8 };
_Static_assert(SIM_OPS <= 1 << PLACE_BITS, "a place fits its bits");

static uint64_t name_of(const struct sim_group *group, const struct sim_op *op)
{
    return (uint64_t)op->serial << PLACE_BITS | (uint64_t)(op - group->ops);
}

static struct sim_op *op_of(struct sim_group *group, uint64_t name)
{
    struct sim_op *op = &group->ops[name & ((1u << PLACE_BITS) - 1)];
    return op->used && op->serial == name >> PLACE_BITS ? op : NULL;
}

static bool is_same_tag(const struct eplb_message_tag *a, const struct eplb_message_tag *b)
{
    return a->token.value == b->token.value && a->slot == b->slot && a->chunk == b->chunk;
}

static int64_t draw_delay(struct world *world)
{
    struct sim *sim = &world->sim;
    if (!world->engine.calm && sim_chance(sim, world->config.faults.message_slow))
        return sim_below(sim, world->config.transfer_timeout * 3 / 2);
    return sim_below(sim, world->config.message_delay);
}

/* -------------------------------------------------------------------------------- completions */

static void complete(struct world *world, struct sim_op *op, enum eplb_op_result result)
{
    struct sim_group *group = &world->group;
    int32_t *count = &group->num_completions[op->rank];
    if (*count == SIM_COMPLETIONS)
        sim_fail(&world->sim, "group", "rank %d polls too rarely", op->rank);
    group->completions[op->rank][(*count)++] = (struct eplb_completion){op->op, result};
    op->used = false;
    if (result == EPLB_OP_FAILED)
        SIM_COUNT(&world->sim, MESSAGES_FAILED);
    if (result == EPLB_OP_CANCELLED)
        SIM_COUNT(&world->sim, CANCELLED);
}

static void complete_done(struct world *world, int32_t rank, uint64_t name)
{
    struct sim_op *op = op_of(&world->group, name);
    (void)rank;
    if (op != NULL)
        complete(world, op, EPLB_OP_DONE);
}

static void complete_failed(struct world *world, int32_t rank, uint64_t name)
{
    struct sim_op *op = op_of(&world->group, name);
    (void)rank;
    if (op != NULL)
        complete(world, op, EPLB_OP_FAILED);
}

/** The other side stays posted, as if this one never had been. */
static void unmatch(struct sim_group *group, struct sim_op *op)
{
    if (op->partner < 0)
        return;
    group->ops[op->partner].partner = -1;
    op->partner = -1;
}

static void complete_cancelled(struct world *world, int32_t rank, uint64_t name)
{
    struct sim_op *op = op_of(&world->group, name);
    (void)rank;
    if (op == NULL || op->ending)
        return;
    unmatch(&world->group, op);
    complete(world, op, EPLB_OP_CANCELLED);
}

/** Whether the next message breaks: its side fails, after a delay, and the other stays posted. */
static bool breaks(struct world *world, struct sim_op *op)
{
    bool peer_dead = world->group.dead[op->peer];
    if (!peer_dead && (world->engine.calm || !sim_chance(&world->sim, world->config.faults.message_fail)))
        return false;
    op->ending = true;
    sim_after(&world->sim, draw_delay(world), SIM_NOBODY, complete_failed, name_of(&world->group, op));
    return true;
}

static bool gets_lost(struct world *world)
{
    if (world->engine.calm || !sim_chance(&world->sim, world->config.faults.message_lost))
        return false;
    SIM_COUNT(&world->sim, MESSAGES_LOST);
    return true;
}

static void write_words(struct world *world, struct sim_op *receive, const uint64_t *words, uint64_t attempt)
{
    SIM_COUNT(&world->sim, MESSAGES);
    if (receive->cancelling)
        SIM_COUNT(&world->sim, MESSAGES_LATE);
    SIM_TRACE(&world->sim, "group", SIM_NOBODY,
              "chunk %d of slot %d, token %" PRIu64 ": rank %d -> rank %d%s", receive->tag.chunk,
              receive->tag.slot, attempt, receive->peer, receive->rank,
              receive->cancelling ? " (under cancellation)" : "");
    memcpy(receive->words, words, (size_t)receive->count * sizeof *words);
    sim_check_staging_write(world, receive->rank, receive->local_slot, receive->attempt, attempt);
}

/* --------------------------------------------------------------------------- the meeting network */

static struct sim_op *find_other_side(struct sim_group *group, const struct sim_op *op)
{
    for (int32_t i = 0; i < SIM_OPS; i++) {
        struct sim_op *other = &group->ops[i];
        if (other->used && other->send != op->send && other->rank == op->peer && other->peer == op->rank &&
            other->partner < 0 && !other->ending && is_same_tag(&other->tag, &op->tag))
            return other;
    }
    return NULL;
}

static void move_message(struct world *world, int32_t rank, uint64_t name)
{
    struct sim_group *group = &world->group;
    struct sim_op *send = op_of(group, name);
    (void)rank;
    if (send == NULL || send->ending || send->partner < 0)
        return;
    struct sim_op *receive = &group->ops[send->partner];
    if (breaks(world, send) || breaks(world, receive)) {
        unmatch(group, send);
        return;
    }
    write_words(world, receive, send->words, send->attempt);
    send->ending = receive->ending = true;
    sim_after(&world->sim, draw_delay(world), SIM_NOBODY, complete_done, name);
    sim_after(&world->sim, draw_delay(world), SIM_NOBODY, complete_done, name_of(group, receive));
}

static void meet(struct world *world, struct sim_op *op)
{
    struct sim_group *group = &world->group;
    struct sim_op *other = find_other_side(group, op);
    if (other == NULL || gets_lost(world))
        return;
    op->partner = (int32_t)(other - group->ops);
    other->partner = (int32_t)(op - group->ops);
    sim_after(&world->sim, draw_delay(world), SIM_NOBODY, move_message,
              name_of(group, op->send ? op : other));
}

/* ----------------------------------------------------------------------------- the eager network */

static struct sim_message *take_message(struct world *world)
{
    struct sim_group *group = &world->group;
    for (int32_t i = 0; i < SIM_MESSAGES; i++)
        if (!group->messages[i].used)
            return &group->messages[i];
    /* Full of what nobody awaits: any of it may go. */
    for (int32_t i = 0; i < SIM_MESSAGES; i++) {
        struct sim_message *message = &group->messages[group->num_replaced++ % SIM_MESSAGES];
        if (message->waiting)
            return message;
    }
    sim_fail(&world->sim, "group", "%d messages are on their way", SIM_MESSAGES);
}

static void deliver(struct world *world, struct sim_op *receive, struct sim_message *message)
{
    write_words(world, receive, message->words, message->attempt);
    message->used = false;
    receive->ending = true;
    sim_after(&world->sim, draw_delay(world), SIM_NOBODY, complete_done, name_of(&world->group, receive));
}

static void arrive(struct world *world, int32_t rank, uint64_t place)
{
    struct sim_group *group = &world->group;
    struct sim_message *message = &group->messages[place];
    (void)rank;
    for (int32_t i = 0; i < SIM_OPS; i++) {
        struct sim_op *op = &group->ops[i];
        if (op->used && !op->send && !op->ending && op->rank == message->to && op->peer == message->from &&
            is_same_tag(&op->tag, &message->tag)) {
            deliver(world, op, message);
            return;
        }
    }
    message->waiting = true;
}

static void leave(struct world *world, int32_t rank, uint64_t name)
{
    struct sim_group *group = &world->group;
    struct sim_op *send = op_of(group, name);
    (void)rank;
    if (send == NULL || send->ending || breaks(world, send))
        return;
    send->ending = true;
    sim_after(&world->sim, draw_delay(world), SIM_NOBODY, complete_done, name);
    if (gets_lost(world))
        return;
    struct sim_message *message = take_message(world);
    *message = (struct sim_message){.used = true,
                                    .from = send->rank,
                                    .to = send->peer,
                                    .tag = send->tag,
                                    .attempt = send->attempt,
                                    .count = send->count};
    memcpy(message->words, send->words, (size_t)send->count * sizeof *send->words);
    sim_after(&world->sim, draw_delay(world), SIM_NOBODY, arrive, (uint64_t)(message - group->messages));
}

static void look_into_mailbox(struct world *world, int32_t rank, uint64_t name)
{
    struct sim_group *group = &world->group;
    struct sim_op *receive = op_of(group, name);
    (void)rank;
    if (receive == NULL || receive->ending)
        return;
    for (int32_t i = 0; i < SIM_MESSAGES; i++) {
        struct sim_message *message = &group->messages[i];
        if (message->used && message->waiting && message->to == receive->rank &&
            message->from == receive->peer && is_same_tag(&message->tag, &receive->tag)) {
            deliver(world, receive, message);
            return;
        }
    }
}

static void drop_strays(struct world *world, int32_t rank, struct eplb_activation_token current)
{
    for (int32_t i = 0; i < SIM_MESSAGES; i++) {
        struct sim_message *message = &world->group.messages[i];
        if (!message->used || !message->waiting || message->to != rank ||
            message->tag.token.value == current.value)
            continue;
        if (!message->stray)
            SIM_COUNT(&world->sim, MESSAGES_STRAY);
        message->stray = true;
        if (world->config.drops_strays)
            message->used = false;
    }
}

/* ----------------------------------------------------------------------------------- operations */

static struct sim_op *take_op(struct world *world)
{
    for (int32_t i = 0; i < SIM_OPS; i++)
        if (!world->group.ops[i].used)
            return &world->group.ops[i];
    sim_fail(&world->sim, "group", "%d operations are outstanding", SIM_OPS);
}

/** The bytes in flight of a rank and direction stay within their bound. */
static void check_bound(struct world *world, const struct sim_op *op)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < SIM_OPS; i++) {
        const struct sim_op *other = &world->group.ops[i];
        if (other->used && other->rank == op->rank && other->send == op->send)
            bytes += 8 * other->count;
    }
    if (bytes > world->config.inflight_bytes)
        sim_fail(&world->sim, "staging", "rank %d has %lld bytes in flight, allowed are %lld", op->rank,
                 (long long)bytes, (long long)world->config.inflight_bytes);
}

bool sim_group_post(struct world *world, int32_t rank, const struct eplb_transfer_action *action,
                    uint64_t *words)
{
    struct sim_group *group = &world->group;
    if (!world->engine.calm && sim_chance(&world->sim, world->config.faults.post_refused)) {
        SIM_COUNT(&world->sim, POSTS_REFUSED);
        return false;
    }
    struct sim_op *op = take_op(world);
    *op = (struct sim_op){.used = true,
                          .serial = ++group->num_posts,
                          .rank = rank,
                          .peer = action->peer,
                          .send = action->type == EPLB_TRANSFER_POST_SEND,
                          .tag = action->tag,
                          .attempt = action->token.value,
                          .op = action->op,
                          .local_slot = action->local_slot,
                          .words = words,
                          .count = (int32_t)(action->bytes / 8),
                          .partner = -1};
    check_bound(world, op);
    if (group->dead[op->peer] && breaks(world, op))
        return true;
    if (!world->config.eager)
        meet(world, op);
    else
        sim_after(&world->sim, draw_delay(world), SIM_NOBODY, op->send ? leave : look_into_mailbox,
                  name_of(group, op));
    return true;
}

void sim_group_cancel(struct world *world, int32_t rank, struct eplb_op op)
{
    struct sim_group *group = &world->group;
    for (int32_t i = 0; i < SIM_OPS; i++) {
        struct sim_op *found = &group->ops[i];
        if (!found->used || found->rank != rank || found->op.value != op.value || found->cancelling)
            continue;
        found->cancelling = true;
        sim_after(&world->sim, draw_delay(world), SIM_NOBODY, complete_cancelled, name_of(group, found));
    }
}

int32_t sim_group_poll(struct world *world, int32_t rank, struct eplb_activation_token current,
                       struct eplb_completion completions[SIM_COMPLETIONS])
{
    struct sim_group *group = &world->group;
    int32_t count = group->num_completions[rank];
    memcpy(completions, group->completions[rank], (size_t)count * sizeof *completions);
    group->num_completions[rank] = 0;
    drop_strays(world, rank, current);
    return count;
}

void sim_group_process_ended(struct world *world, int32_t rank)
{
    struct sim_group *group = &world->group;
    for (int32_t i = 0; i < SIM_OPS; i++) {
        struct sim_op *op = &group->ops[i];
        if (!op->used || op->rank != rank)
            continue;
        unmatch(group, op);
        op->used = false;
    }
}

void sim_group_member_dead(struct world *world, int32_t rank)
{
    struct sim_group *group = &world->group;
    group->dead[rank] = true;
    for (int32_t i = 0; i < SIM_OPS; i++) {
        struct sim_op *op = &group->ops[i];
        if (op->used && op->peer == rank && !op->ending)
            breaks(world, op);
    }
}

int32_t sim_group_outstanding(const struct sim_group *group, int32_t rank, uint64_t attempt)
{
    int32_t count = 0;
    for (int32_t i = 0; i < SIM_OPS; i++)
        count += group->ops[i].used && group->ops[i].rank == rank && group->ops[i].attempt == attempt;
    return count;
}

/* --------------------------------------------------------------------------- the decision record */

static bool decide(struct world *world, struct eplb_activation_token token, enum eplb_decision decision,
                   const char *by, int32_t rank)
{
    struct sim_group *group = &world->group;
    if (group->record_token != token.value || group->decision != EPLB_UNDECIDED)
        return false;
    group->decision = decision;
    SIM_TRACE(&world->sim, by, rank, "record of activation %" PRIu64 ": %s", token.value,
              decision == EPLB_COMMIT ? "COMMIT" : "ABORT");
    sim_check_decided(world, token.value, decision);
    return true;
}

void sim_record_open(struct world *world, struct eplb_activation_token token)
{
    struct sim_group *group = &world->group;
    sim_check_record_open(world, token.value);
    group->record_token = token.value;
    group->decision = EPLB_UNDECIDED;
    memset(group->voted, 0, sizeof group->voted);
    memset(group->voted_yes, 0, sizeof group->voted_yes);
}

void sim_record_vote(struct world *world, int32_t rank, struct eplb_activation_token token, bool yes)
{
    struct sim_group *group = &world->group;
    sim_check_vote(world, rank, token.value, yes);
    if (!yes)
        SIM_COUNT(&world->sim, VOTES_NO);
    if (group->record_token != token.value || group->voted[rank])
        return;
    group->voted[rank] = true;
    group->voted_yes[rank] = yes;
    if (!yes) {
        decide(world, token, EPLB_ABORT, "rank", rank);
        return;
    }
    for (int32_t other = 0; other < world->config.shape.ep_size; other++)
        if (!group->voted_yes[other])
            return;
    decide(world, token, EPLB_COMMIT, "rank", rank);
}

bool sim_record_abort(struct world *world, struct eplb_activation_token token)
{
    return decide(world, token, EPLB_ABORT, "group", SIM_NOBODY);
}

enum eplb_decision sim_record_read(const struct sim_group *group, struct eplb_activation_token token)
{
    return group->record_token == token.value ? group->decision : EPLB_UNDECIDED;
}
