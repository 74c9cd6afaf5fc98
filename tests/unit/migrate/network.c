/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_RANKS = 64, MAX_OPERATIONS = 4096, MAX_MESSAGES = 4096 };

struct operation {
    int32_t rank;
    int32_t peer;
    struct eplb_message_tag tag;
    struct eplb_op op;
    struct eplb_part parts[EPLB_MAX_PARTS];
    size_t num_parts;
    int64_t bytes;
    uint64_t attempt; /* of the rank when it was posted */
    enum eplb_op_result result;
    bool send, eager, cancelled, ended;
};

/* On its way, sent eagerly. */
struct message {
    int32_t from, to;
    struct eplb_message_tag tag;
    int64_t bytes;
    unsigned char *content; /* NULL: only a size */
};

struct record {
    struct eplb_activation_token token;
    int32_t num_yes;
    bool voted[MAX_RANKS];
    enum eplb_decision decision;
};

struct member {
    struct network *network;
    struct eplb_group group;
    uint64_t attempt;
    bool dead;
};

struct network {
    struct network_params params;
    struct eplb_prng *prng;
    struct member members[MAX_RANKS];
    struct operation operations[MAX_OPERATIONS];
    int32_t num_operations;
    struct message messages[MAX_MESSAGES];
    int32_t num_messages;
    struct record record;
    int64_t arrived_messages, arrived_bytes;
    char violation[200];
};

__attribute__((format(printf, 2, 3))) static void violate(struct network *network, const char *format, ...)
{
    va_list arguments;
    if (network->violation[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(network->violation, sizeof network->violation, format, arguments);
    va_end(arguments);
}

static bool chance(struct network *network, unsigned percent)
{
    return percent > 0 && eplb_prng_below(network->prng, 100) < percent;
}

static bool same_tag(const struct eplb_message_tag *a, const struct eplb_message_tag *b)
{
    return a->token.value == b->token.value && a->slot == b->slot && a->chunk == b->chunk;
}

static void gather(const struct operation *send, unsigned char *content)
{
    for (size_t i = 0; i < send->num_parts; content += send->parts[i].size, i++)
        memcpy(content, send->parts[i].data, send->parts[i].size);
}

static void scatter(const struct operation *receive, const unsigned char *content)
{
    for (size_t i = 0; i < receive->num_parts; content += receive->parts[i].size, i++)
        memcpy(receive->parts[i].data, content, receive->parts[i].size);
}

static void end(struct operation *operation, enum eplb_op_result result)
{
    assert_false(operation->ended);
    operation->ended = true;
    operation->result = result;
}

static void arrive(struct network *network, struct operation *receive, const struct message *message)
{
    uint64_t attempt = network->members[receive->rank].attempt;
    if (receive->attempt != attempt)
        violate(network, "rank %d: staging of attempt %llu is written by one of attempt %llu", receive->rank,
                (unsigned long long)attempt, (unsigned long long)receive->attempt);
    if (receive->bytes != message->bytes) {
        violate(network, "rank %d: a message of %lld bytes meets a receive of %lld", receive->rank,
                (long long)message->bytes, (long long)receive->bytes);
        end(receive, EPLB_OP_FAILED);
        return;
    }
    if (message->content != NULL && receive->num_parts > 0)
        scatter(receive, message->content);
    network->arrived_messages++;
    network->arrived_bytes += message->bytes;
    end(receive, EPLB_OP_DONE);
}

static struct message message_of(const struct operation *send)
{
    struct message message = {send->rank, send->peer, send->tag, send->bytes, NULL};
    if (send->num_parts > 0) {
        message.content = malloc((size_t)send->bytes);
        assert_non_null(message.content);
        gather(send, message.content);
    }
    return message;
}

static struct operation *find_receive(struct network *network, const struct operation *send)
{
    for (int32_t i = 0; i < network->num_operations; i++) {
        struct operation *receive = &network->operations[i];
        if (!receive->send && !receive->ended && receive->rank == send->peer && receive->peer == send->rank &&
            same_tag(&receive->tag, &send->tag))
            return receive;
    }
    return NULL;
}

static void remove_message(struct network *network, int32_t index)
{
    free(network->messages[index].content);
    network->messages[index] = network->messages[--network->num_messages];
}

static bool progress_receive(struct network *network, struct operation *receive)
{
    for (int32_t i = 0; i < network->num_messages; i++) {
        const struct message *message = &network->messages[i];
        if (message->to != receive->rank || message->from != receive->peer ||
            !same_tag(&message->tag, &receive->tag))
            continue;
        arrive(network, receive, message);
        remove_message(network, i);
        return true;
    }
    return false;
}

static bool progress_send(struct network *network, struct operation *send)
{
    struct operation *receive = find_receive(network, send);
    if (receive == NULL && !send->eager)
        return false;
    struct message message = message_of(send);
    if (receive != NULL) {
        arrive(network, receive, &message);
        free(message.content);
    } else if (chance(network, network->params.lose)) {
        free(message.content);
    } else {
        assert_true(network->num_messages < MAX_MESSAGES);
        network->messages[network->num_messages++] = message;
    }
    end(send, EPLB_OP_DONE);
    return true;
}

static bool progress(struct network *network, struct operation *operation)
{
    if (operation->ended)
        return false;
    if (network->members[operation->rank].dead || network->members[operation->peer].dead) {
        end(operation, EPLB_OP_FAILED);
        return true;
    }
    if (operation->cancelled && (!network->params.late_cancel || chance(network, 50))) {
        end(operation, EPLB_OP_CANCELLED);
        return true;
    }
    bool done = operation->send ? progress_send(network, operation) : progress_receive(network, operation);
    return done || operation->cancelled;
}

bool network_progress(struct network *network)
{
    if (network->num_operations == 0)
        return false;
    int32_t first = (int32_t)eplb_prng_below(network->prng, (uint64_t)network->num_operations);
    for (int32_t i = 0; i < network->num_operations; i++)
        if (progress(network, &network->operations[(first + i) % network->num_operations]))
            return true;
    return false;
}

static enum eplb_status post(struct network *network, const struct operation *operation)
{
    if (chance(network, network->params.refuse))
        return EPLB_REFUSED;
    for (int32_t i = 0; i < network->num_operations; i++)
        if (network->operations[i].rank == operation->rank &&
            network->operations[i].op.value == operation->op.value)
            violate(network, "rank %d: operation %u is posted twice", operation->rank, operation->op.value);
    assert_true(network->num_operations < MAX_OPERATIONS);
    struct operation *posted = &network->operations[network->num_operations++];
    *posted = *operation;
    posted->attempt = network->members[operation->rank].attempt;
    posted->eager = operation->send && chance(network, network->params.eager);
    return EPLB_OK;
}

enum eplb_status network_post(struct network *network, int32_t rank, bool send, int32_t peer,
                              const struct eplb_message_tag *tag, int64_t bytes, struct eplb_op op)
{
    struct operation operation = {
        .rank = rank, .peer = peer, .send = send, .tag = *tag, .op = op, .bytes = bytes};
    return post(network, &operation);
}

static enum eplb_status post_parts(struct member *member, bool send, int32_t peer,
                                   const struct eplb_message_tag *tag, const struct eplb_part *parts,
                                   size_t num_parts, struct eplb_op op)
{
    struct operation operation = {
        .rank = member->group.rank, .peer = peer, .send = send, .tag = *tag, .op = op};
    assert_in_range(num_parts, 1, EPLB_MAX_PARTS);
    for (size_t i = 0; i < num_parts; i++) {
        assert_true(parts[i].size > 0);
        operation.parts[operation.num_parts++] = parts[i];
        operation.bytes += (int64_t)parts[i].size;
    }
    return post(member->network, &operation);
}

static enum eplb_status post_send(void *self, int32_t to, const struct eplb_message_tag *tag,
                                  const struct eplb_part *parts, size_t num_parts, struct eplb_op op)
{
    return post_parts(self, true, to, tag, parts, num_parts, op);
}

static enum eplb_status post_recv(void *self, int32_t from, const struct eplb_message_tag *tag,
                                  const struct eplb_part *parts, size_t num_parts, struct eplb_op op)
{
    return post_parts(self, false, from, tag, parts, num_parts, op);
}

static bool is_posted(const struct network *network, const struct message *message)
{
    for (int32_t i = 0; i < network->num_operations; i++) {
        const struct operation *receive = &network->operations[i];
        if (!receive->send && !receive->ended && receive->rank == message->to &&
            receive->peer == message->from && same_tag(&receive->tag, &message->tag))
            return true;
    }
    return false;
}

static void drop_strays(struct network *network, int32_t rank, struct eplb_activation_token current)
{
    for (int32_t i = network->num_messages - 1; i >= 0; i--) {
        const struct message *message = &network->messages[i];
        if (message->to == rank && message->tag.token.value != current.value && !is_posted(network, message))
            remove_message(network, i);
    }
}

static size_t poll(void *self, struct eplb_activation_token current, struct eplb_completion *completions,
                   size_t capacity)
{
    const struct member *member = self;
    struct network *network = member->network;
    size_t count = 0;
    drop_strays(network, member->group.rank, current);
    for (int32_t i = network->num_operations - 1; i >= 0 && count < capacity; i--) {
        struct operation *operation = &network->operations[i];
        if (operation->rank != member->group.rank || !operation->ended || chance(network, 30))
            continue;
        completions[count++] = (struct eplb_completion){operation->op, operation->result};
        *operation = network->operations[--network->num_operations];
    }
    return count;
}

static void cancel(void *self, struct eplb_op op)
{
    const struct member *member = self;
    for (int32_t i = 0; i < member->network->num_operations; i++) {
        struct operation *operation = &member->network->operations[i];
        if (operation->rank == member->group.rank && operation->op.value == op.value)
            operation->cancelled = true;
    }
}

static void record_open(void *self, struct eplb_activation_token token)
{
    const struct member *member = self;
    member->network->record = (struct record){.token = token};
}

static void record_vote(void *self, struct eplb_activation_token token, int yes)
{
    const struct member *member = self;
    struct network *network = member->network;
    struct record *record = &network->record;
    int32_t rank = member->group.rank;
    if (token.value != record->token.value)
        return;
    if (record->voted[rank])
        violate(network, "rank %d votes twice on %llu", rank, (unsigned long long)token.value);
    if (yes && network_outstanding(network, rank) > 0)
        violate(network, "rank %d votes yes with %d operations outstanding", rank,
                network_outstanding(network, rank));
    record->voted[rank] = true;
    record->num_yes += yes;
    if (record->decision == EPLB_UNDECIDED && !yes)
        record->decision = EPLB_ABORT;
    if (record->decision == EPLB_UNDECIDED && record->num_yes == network->params.num_ranks)
        record->decision = EPLB_COMMIT;
}

static void record_abort(void *self, struct eplb_activation_token token)
{
    struct record *record = &((const struct member *)self)->network->record;
    if (token.value == record->token.value && record->decision == EPLB_UNDECIDED)
        record->decision = EPLB_ABORT;
}

static enum eplb_decision record_read(void *self, struct eplb_activation_token token)
{
    const struct record *record = &((const struct member *)self)->network->record;
    return token.value == record->token.value ? record->decision : EPLB_UNDECIDED;
}

struct network *network_create(const struct network_params *params, struct eplb_prng *prng)
{
    assert_in_range(params->num_ranks, 1, MAX_RANKS);
    struct network *network = calloc(1, sizeof *network);
    assert_non_null(network);
    network->params = *params;
    network->prng = prng;
    for (int32_t rank = 0; rank < params->num_ranks; rank++) {
        struct member *member = &network->members[rank];
        member->network = network;
        member->group = (struct eplb_group){.size = sizeof member->group,
                                            .self = member,
                                            .rank = rank,
                                            .num_ranks = params->num_ranks,
                                            .post_send = post_send,
                                            .post_recv = post_recv,
                                            .poll = poll,
                                            .cancel = cancel,
                                            .record_open = record_open,
                                            .record_vote = record_vote,
                                            .record_abort = record_abort,
                                            .record_read = record_read};
    }
    return network;
}

void network_destroy(struct network *network)
{
    while (network->num_messages > 0)
        remove_message(network, 0);
    free(network);
}

const struct eplb_group *network_group(struct network *network, int32_t rank)
{
    return &network->members[rank].group;
}

void network_set_attempt(struct network *network, int32_t rank, uint64_t token)
{
    network->members[rank].attempt = token;
}

void network_kill(struct network *network, int32_t rank)
{
    network->members[rank].dead = true;
}

int32_t network_outstanding(const struct network *network, int32_t rank)
{
    int32_t count = 0;
    for (int32_t i = 0; i < network->num_operations; i++)
        count += network->operations[i].rank == rank && !network->operations[i].ended;
    return count;
}

int64_t network_messages(const struct network *network)
{
    return network->arrived_messages;
}

int64_t network_bytes(const struct network *network)
{
    return network->arrived_bytes;
}

const char *network_violation(const struct network *network)
{
    return network->violation;
}
