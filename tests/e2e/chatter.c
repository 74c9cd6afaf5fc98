/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "e2e/chatter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/prng.h"
#include "eplb/clock.h"
#include "os/thread.h"

/* Larger than a ring of the group: such a message comes in pieces. */
enum { LONGEST = 20000 };

struct chatter {
    const struct eplb_group *group;
    uint64_t seed;
    int64_t jitter_ns;
    struct eplb_prng prng;            /* of the delays */
    struct eplb_part *send, *receive; /* [R], LONGEST bytes each */
    struct eplb_thread thread;

    struct eplb_mutex lock; /* everything below */
    struct eplb_condition changed;
    uint64_t wanted, done; /* rounds */
    bool stopping;
    struct eplb_error error; /* the first */
};

/** The generator of what one rank sends to another in a round, which both can make. */
static struct eplb_prng stream(const struct chatter *chatter, uint64_t round, int32_t from, int32_t to)
{
    struct eplb_prng prng;
    uint64_t pair = (uint64_t)(from * chatter->group->num_ranks + to);
    eplb_prng_seed(&prng, chatter->seed + round * 1000003 + pair);
    return prng;
}

/** Mostly short, some longer than a ring. */
static size_t draw_size(struct eplb_prng *prng)
{
    uint64_t longest = LONGEST >> eplb_prng_below(prng, 12);
    return (size_t)eplb_prng_below(prng, longest + 1);
}

static void fill(struct eplb_prng *prng, struct eplb_part *part)
{
    part->size = draw_size(prng);
    memset(part->data, (int)eplb_prng_below(prng, 256), part->size);
}

static enum eplb_status check(const struct chatter *chatter, uint64_t round, int32_t from,
                              struct eplb_error *error)
{
    const struct eplb_part *part = &chatter->receive[from];
    const unsigned char *bytes = part->data;
    struct eplb_prng prng = stream(chatter, round, from, chatter->group->rank);
    (void)draw_size(&prng);
    unsigned char expected = (unsigned char)eplb_prng_below(&prng, 256);
    if (part->size > 0 && (bytes[0] != expected || memcmp(bytes, bytes + 1, part->size - 1) != 0))
        EPLB_FAIL(EPLB_INCONSISTENT, "round %" PRIu64 ": what came from rank %d is not what it sent", round,
                  from);
    return EPLB_OK;
}

static enum eplb_status run_round(struct chatter *chatter, uint64_t round, struct eplb_error *error)
{
    const struct eplb_group *group = chatter->group;
    for (int32_t other = 0; other < group->num_ranks; other++) {
        struct eplb_prng out = stream(chatter, round, group->rank, other);
        struct eplb_prng in = stream(chatter, round, other, group->rank);
        fill(&out, &chatter->send[other]);
        chatter->receive[other].size = draw_size(&in);
    }
    EPLB_TRY(group->all_to_all(group->self, chatter->send, chatter->receive, error));
    for (int32_t other = 0; other < group->num_ranks; other++)
        EPLB_TRY(check(chatter, round, other, error));
    return EPLB_OK;
}

/** With the lock held. */
static void wait_a_little(struct chatter *chatter)
{
    if (chatter->jitter_ns == 0)
        return;
    int64_t wait = (int64_t)eplb_prng_below(&chatter->prng, (uint64_t)chatter->jitter_ns);
    int64_t end = eplb_clock_system()->now(NULL) + wait;
    while (!chatter->stopping && eplb_condition_wait_until(&chatter->changed, &chatter->lock, end))
        continue;
}

static void run(void *argument)
{
    struct chatter *chatter = argument;
    eplb_mutex_lock(&chatter->lock);
    while (!chatter->stopping) {
        if (chatter->done == chatter->wanted) {
            eplb_condition_wait(&chatter->changed, &chatter->lock);
            continue;
        }
        wait_a_little(chatter);
        uint64_t round = chatter->done;
        eplb_mutex_unlock(&chatter->lock);
        struct eplb_error error = {.status = EPLB_OK};
        (void)run_round(chatter, round, &error);
        eplb_mutex_lock(&chatter->lock);
        if (chatter->error.status == EPLB_OK)
            chatter->error = error;
        chatter->done++;
        eplb_condition_broadcast(&chatter->changed);
    }
    eplb_mutex_unlock(&chatter->lock);
}

static enum eplb_status allocate(struct chatter *chatter, struct eplb_error *error)
{
    size_t ranks = (size_t)chatter->group->num_ranks;
    chatter->send = calloc(ranks, sizeof *chatter->send);
    chatter->receive = calloc(ranks, sizeof *chatter->receive);
    bool lacks = chatter->send == NULL || chatter->receive == NULL;
    for (size_t rank = 0; rank < ranks && !lacks; rank++) {
        chatter->send[rank].data = malloc(LONGEST);
        chatter->receive[rank].data = malloc(LONGEST);
        lacks = chatter->send[rank].data == NULL || chatter->receive[rank].data == NULL;
    }
    if (lacks)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a rank's chatter");
    return EPLB_OK;
}

static void release(struct chatter *chatter)
{
    for (int32_t rank = 0; rank < chatter->group->num_ranks; rank++) {
        if (chatter->send != NULL)
            free(chatter->send[rank].data);
        if (chatter->receive != NULL)
            free(chatter->receive[rank].data);
    }
    free(chatter->send);
    free(chatter->receive);
    free(chatter);
}

enum eplb_status chatter_create(const struct eplb_group *group, uint64_t seed, int64_t jitter_ns,
                                struct chatter **chatter, struct eplb_error *error)
{
    struct chatter *created = calloc(1, sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a rank's chatter");
    created->group = group;
    created->seed = seed;
    created->jitter_ns = jitter_ns;
    eplb_prng_seed(&created->prng, seed + (uint64_t)group->rank);
    enum eplb_status status = allocate(created, error);
    if (status == EPLB_OK)
        status = eplb_mutex_init(&created->lock, error);
    if (status != EPLB_OK)
        goto undo_memory;
    status = eplb_condition_init(&created->changed, error);
    if (status != EPLB_OK)
        goto undo_lock;
    status = eplb_thread_start(&created->thread, "chatter", run, created, error);
    if (status != EPLB_OK)
        goto undo_condition;
    *chatter = created;
    return EPLB_OK;
undo_condition:
    eplb_condition_destroy(&created->changed);
undo_lock:
    eplb_mutex_destroy(&created->lock);
undo_memory:
    release(created);
    return status;
}

void chatter_destroy(struct chatter *chatter)
{
    if (chatter == NULL)
        return;
    eplb_mutex_lock(&chatter->lock);
    chatter->stopping = true;
    eplb_condition_broadcast(&chatter->changed);
    eplb_mutex_unlock(&chatter->lock);
    eplb_thread_join(&chatter->thread);
    eplb_condition_destroy(&chatter->changed);
    eplb_mutex_destroy(&chatter->lock);
    release(chatter);
}

void chatter_begin(struct chatter *chatter, uint64_t rounds)
{
    eplb_mutex_lock(&chatter->lock);
    chatter->wanted += rounds;
    eplb_condition_broadcast(&chatter->changed);
    eplb_mutex_unlock(&chatter->lock);
}

enum eplb_status chatter_await(struct chatter *chatter, struct eplb_error *error)
{
    eplb_mutex_lock(&chatter->lock);
    while (chatter->done < chatter->wanted)
        eplb_condition_wait(&chatter->changed, &chatter->lock);
    struct eplb_error first = chatter->error;
    eplb_mutex_unlock(&chatter->lock);
    if (first.status != EPLB_OK)
        *error = first;
    return first.status;
}
