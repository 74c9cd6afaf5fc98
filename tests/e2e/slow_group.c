/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "e2e/slow_group.h"

static void note_post(struct slow_group *slow, struct eplb_op op)
{
    int32_t index = slow->num_operations++;
    slow->operations[index].op = op;
    slow->operations[index].due = atomic_load(&slow->clock.now) + slow->delay_ns;
    slow->operations[index].ended = false;
    slow->posts++;
}

static enum eplb_status post_send(void *self, int32_t to, const struct eplb_message_tag *tag,
                                  const struct eplb_part *parts, size_t num_parts, struct eplb_op op)
{
    struct slow_group *slow = self;
    if (slow->num_operations == SLOW_OPERATIONS)
        return EPLB_REFUSED;
    enum eplb_status status = slow->inner->post_send(slow->inner->self, to, tag, parts, num_parts, op);
    if (status == EPLB_OK)
        note_post(slow, op);
    return status;
}

static enum eplb_status post_recv(void *self, int32_t from, const struct eplb_message_tag *tag,
                                  const struct eplb_part *parts, size_t num_parts, struct eplb_op op)
{
    struct slow_group *slow = self;
    if (slow->num_operations == SLOW_OPERATIONS)
        return EPLB_REFUSED;
    enum eplb_status status = slow->inner->post_recv(slow->inner->self, from, tag, parts, num_parts, op);
    if (status == EPLB_OK)
        note_post(slow, op);
    return status;
}

static void note_end(struct slow_group *slow, const struct eplb_completion *completion)
{
    for (int32_t i = 0; i < slow->num_operations; i++)
        if (slow->operations[i].op.value == completion->op.value) {
            slow->operations[i].ended = true;
            slow->operations[i].result = completion->result;
        }
}

/** Ends inside are kept back until they are due. */
static size_t poll(void *self, struct eplb_activation_token current, struct eplb_completion *completions,
                   size_t capacity)
{
    struct slow_group *slow = self;
    struct eplb_completion inside[SLOW_OPERATIONS];
    size_t count = slow->inner->poll(slow->inner->self, current, inside, SLOW_OPERATIONS);
    for (size_t i = 0; i < count; i++)
        note_end(slow, &inside[i]);
    int64_t now = atomic_load(&slow->clock.now);
    size_t given = 0;
    for (int32_t i = 0; i < slow->num_operations && given < capacity;) {
        if (!slow->operations[i].ended || slow->operations[i].due > now) {
            i++;
            continue;
        }
        completions[given++] = (struct eplb_completion){slow->operations[i].op, slow->operations[i].result};
        slow->operations[i] = slow->operations[--slow->num_operations];
    }
    return given;
}

/** When all that is missing is time, time passes. */
static void wait(void *self, int64_t deadline)
{
    struct slow_group *slow = self;
    int64_t due = INT64_MAX;
    for (int32_t i = 0; i < slow->num_operations; i++)
        if (slow->operations[i].ended && slow->operations[i].due < due)
            due = slow->operations[i].due;
    if (due == INT64_MAX)
        slow->inner->wait(slow->inner->self, deadline);
    else if (due > atomic_load(&slow->clock.now))
        atomic_store(&slow->clock.now, due);
}

static void cancel(void *self, struct eplb_op op)
{
    const struct slow_group *slow = self;
    slow->inner->cancel(slow->inner->self, op);
}

static void record_vote(void *self, struct eplb_activation_token token, int yes)
{
    struct slow_group *slow = self;
    slow->early_votes += yes && slow->num_operations > 0;
    slow->inner->record_vote(slow->inner->self, token, yes);
}

static void record_abort(void *self, struct eplb_activation_token token)
{
    const struct slow_group *slow = self;
    slow->inner->record_abort(slow->inner->self, token);
}

static enum eplb_decision record_read(void *self, struct eplb_activation_token token)
{
    const struct slow_group *slow = self;
    return slow->inner->record_read(slow->inner->self, token);
}

void slow_group_init(struct slow_group *slow, const struct eplb_group *inner, int64_t delay_ns)
{
    *slow = (struct slow_group){.inner = inner, .delay_ns = delay_ns};
    slow->group = (struct eplb_group){.size = sizeof slow->group,
                                      .self = slow,
                                      .rank = inner->rank,
                                      .num_ranks = inner->num_ranks,
                                      .max_ops = SLOW_OPERATIONS,
                                      .post_send = post_send,
                                      .post_recv = post_recv,
                                      .poll = poll,
                                      .wait = wait,
                                      .cancel = cancel,
                                      .record_vote = record_vote,
                                      .record_abort = record_abort,
                                      .record_read = record_read};
    hand_clock_init(&slow->clock);
}
