/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A process of the group that has lost its mind: it writes anything anywhere into the shared memory, much
 * of it nearly right, while two ranks do all that ranks do. Operations may fail; but nothing is written
 * outside of a receive's parts, nothing crashes, and once the process was buried, nothing waits. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/clock.h"
#include "eplb/shm.h"
#include "shm/segment.h"
#include "support/children.h"
#include "support/shm_place.h"
#include "transport/shm_payload.h"

enum {
    RANKS = 3,
    MAD = 2, /* the last one; it never attaches */
    MAX_OPS = 8,
    MOST_BYTES = 3000,
    GUARD = 64,
    TRIES = 150,
    SCRIBBLES = 8000,
    TAGS = 3, /* so few that sends and receives meet */
};

#define SECOND INT64_C(1000000000)
#define PATIENCE_NS (30 * SECOND)

/* How things ended, for all ranks and tries. */
enum count {
    BARRIER_OK,
    EXCHANGE_OK,
    EXCHANGE_SENSELESS,
    DEAD,
    OP_DONE,
    OP_CANCELLED,
    OP_FAILED,
    COMMITTED,
    COUNTS
};

static const char *const count_names[COUNTS] = {
    "barriers passed", "exchanges done",       "exchanges without sense", "collectives with a dead",
    "operations done", "operations cancelled", "operations failed",       "commits read"};

struct scene {
    uint64_t seed;
    struct eplb_shm_attach_params attach;
    _Atomic int attached; /* ranks */
    _Atomic int stop;
    _Atomic uint64_t counts[COUNTS];
};

static int64_t time_now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

/* ---- a rank in its right mind ---- */

struct rank {
    struct scene *scene;
    const struct eplb_group *group;
    struct eplb_prng prng;
    unsigned char source[MOST_BYTES];
    unsigned char memory[MAX_OPS][GUARD + MOST_BYTES + GUARD];
};

static uint64_t below(struct rank *rank, uint64_t count)
{
    return eplb_prng_below(&rank->prng, count);
}

static void count(struct rank *rank, enum count what)
{
    atomic_fetch_add(&rank->scene->counts[what], 1);
}

static void count_status(struct rank *rank, enum eplb_status status, enum count ok)
{
    if (status == EPLB_OK)
        count(rank, ok);
    else if (status == EPLB_RANK_DEAD)
        count(rank, DEAD);
    else if (status == EPLB_INCONSISTENT)
        count(rank, EXCHANGE_SENSELESS);
    else
        child_fail("a collective failed in a way that it has not");
}

/* Whether all but the parts of receives, of the given sizes, is as it was. */
static void check_memory(const struct rank *rank, const size_t *sizes)
{
    for (size_t op = 0; op < MAX_OPS; op++)
        for (size_t i = 0; i < sizeof rank->memory[op]; i++)
            if ((i < GUARD || i >= GUARD + sizes[op]) && rank->memory[op][i] != 0xee)
                child_fail("memory outside of a receive's parts was written");
    for (size_t i = 0; i < MOST_BYTES; i++)
        if (rank->source[i] != (unsigned char)i)
            child_fail("memory that is sent was written");
}

static void exchange(struct rank *rank)
{
    struct eplb_part send[RANKS];
    struct eplb_part receive[RANKS];
    size_t sizes[MAX_OPS] = {0};
    memset(rank->memory, 0xee, sizeof rank->memory);
    for (int32_t other = 0; other < RANKS; other++) {
        /* Mostly what the others expect. */
        size_t size = below(rank, 32) == 0 ? (size_t)below(rank, MOST_BYTES) : 700;
        sizes[other] = size;
        send[other] = (struct eplb_part){rank->source, size};
        receive[other] = (struct eplb_part){rank->memory[other] + GUARD, size};
    }
    count_status(rank, rank->group->all_to_all(rank->group->self, send, receive, NULL), EXCHANGE_OK);
    check_memory(rank, sizes);
}

static size_t collect(struct rank *rank, struct eplb_activation_token token)
{
    static const enum count counts[] = {OP_DONE, OP_CANCELLED, OP_FAILED};
    struct eplb_completion completions[MAX_OPS];
    size_t ended = rank->group->poll(rank->group->self, token, completions, MAX_OPS);
    for (size_t i = 0; i < ended; i++)
        count(rank, counts[completions[i].result]);
    return ended;
}

/* Some messages, for some time; then all are given up, and end at once. */
static void transfer(struct rank *rank)
{
    const struct eplb_group *group = rank->group;
    const struct eplb_activation_token token = {1 + below(rank, 2)};
    size_t sizes[MAX_OPS] = {0};
    size_t left = MAX_OPS;
    memset(rank->memory, 0xee, sizeof rank->memory);
    for (uint32_t op = 0; op < MAX_OPS; op++) {
        const struct eplb_message_tag tag = {token, (int32_t)below(rank, TAGS), 0};
        const size_t size = below(rank, 8) == 0 ? (size_t)below(rank, MOST_BYTES) : 1500;
        const int32_t other = (int32_t)below(rank, RANKS);
        enum eplb_status status;
        if (op % 2 == 0) {
            sizes[op] = size;
            const struct eplb_part part = {rank->memory[op] + GUARD, size};
            status = group->post_recv(group->self, other, &tag, &part, 1, (struct eplb_op){op});
        } else {
            const struct eplb_part part = {rank->source, size};
            status = group->post_send(group->self, other, &tag, &part, 1, (struct eplb_op){op});
        }
        if (status != EPLB_OK)
            child_fail("a post was refused");
    }
    for (uint64_t polls = below(rank, 60); polls > 0 && left > 0; polls--) {
        left -= collect(rank, token);
        if (below(rank, 4) == 0)
            group->wait(group->self, time_now() + 50000);
    }
    for (uint32_t op = 0; op < MAX_OPS; op++)
        group->cancel(group->self, (struct eplb_op){op});
    if (collect(rank, token) != left)
        child_fail("an operation that was given up did not end");
    check_memory(rank, sizes);
}

static void decide(struct rank *rank)
{
    const struct eplb_group *group = rank->group;
    const struct eplb_activation_token token = {1 + below(rank, 3)};
    if (below(rank, 4) == 0)
        group->record_open(group->self, token);
    if (below(rank, 16) == 0)
        group->record_abort(group->self, token);
    group->record_vote(group->self, token, below(rank, 8) != 0);
    enum eplb_decision decision = group->record_read(group->self, token);
    if (decision != EPLB_UNDECIDED && decision != EPLB_COMMIT && decision != EPLB_ABORT)
        child_fail("a decision is none");
    if (decision == EPLB_COMMIT)
        count(rank, COMMITTED);
}

static void be_a_rank(struct scene *scene, int32_t index)
{
    static struct rank rank;
    struct eplb_error error;
    struct eplb_shm *shm;
    struct eplb_shm_attach_params attach = scene->attach;
    attach.rank = index;
    if (eplb_shm_attach(&attach, &shm, &error) != EPLB_OK)
        child_fail(error.text);
    atomic_fetch_add(&scene->attached, 1);
    rank.scene = scene;
    rank.group = eplb_shm_group(shm);
    eplb_prng_seed(&rank.prng, scene->seed * RANKS + (uint64_t)index);
    for (size_t i = 0; i < MOST_BYTES; i++)
        rank.source[i] = (unsigned char)i;
    while (atomic_load(&scene->stop) == 0)
        switch (below(&rank, 8)) {
        case 0:
            count_status(&rank, rank.group->barrier(rank.group->self, NULL), BARRIER_OK);
            break;
        case 1:
        case 2:
            exchange(&rank);
            break;
        case 3:
        case 4:
            decide(&rank);
            break;
        default:
            transfer(&rank);
        }
    if (rank.group->barrier(rank.group->self, NULL) != EPLB_RANK_DEAD)
        child_fail("a barrier waits for a buried process");
    eplb_shm_destroy(shm);
}

/* ---- the mad one ---- */

struct mad {
    struct eplb_mesh mesh;
    unsigned char *mapping; /* with the segment's header */
    size_t bytes;
    struct eplb_prng prng;
    uint64_t sanity; /* one in so many numbers is nonsense */
    struct answer {
        uint64_t ticket;
        uint64_t offset; /* of the next fragment */
    } answers[MAD][MAX_OPS];
};

static uint64_t any(struct mad *mad, uint64_t count_of)
{
    return eplb_prng_below(&mad->prng, count_of);
}

static bool slips(struct mad *mad)
{
    return any(mad, mad->sanity) == 0;
}

/* A number that may mean something, or nothing. */
static uint64_t some_number(struct mad *mad)
{
    switch (any(mad, 5)) {
    case 0:
        return any(mad, 4);
    case 1:
        return UINT64_MAX - any(mad, 4);
    case 2:
        return UINT64_C(1) << any(mad, 64);
    case 3:
        return any(mad, 20) * 64;
    default:
        return eplb_prng_next(&mad->prng) >> any(mad, 64);
    }
}

static void write_words(struct mad *mad)
{
    /* Mostly the payload's first part, where the words are; at times the rest: rings, the header. */
    size_t first = any(mad, 16) == 0 ? 0 : EPLB_SEGMENT_ALIGN;
    size_t room = any(mad, 2) == 0 ? 2048 : mad->bytes - first;
    for (uint64_t words = 1 + any(mad, 3); words > 0; words--) {
        uint64_t value = some_number(mad);
        size_t size = any(mad, 2) == 0 ? 4 : 8;
        memcpy(mad->mapping + first + (size_t)any(mad, room / 8) * 8, &value, size);
    }
}

static void write_a_stretch(struct mad *mad)
{
    size_t begin = (size_t)any(mad, mad->bytes);
    size_t length = (size_t)any(mad, mad->bytes - begin) % 1024;
    for (size_t i = 0; i < length; i++)
        mad->mapping[begin + i] = (unsigned char)any(mad, 256);
}

static bool is_empty(const struct eplb_pipe_end *pipe)
{
    return atomic_load(&pipe->positions->written) == atomic_load(&pipe->positions->read);
}

/* A fragment, where the reader looks next, and mostly no longer than it says. */
static void put_fragment(struct mad *mad, struct eplb_pipe_end pipe, struct eplb_fragment *fragment)
{
    uint64_t read = atomic_load(&pipe.positions->read);
    if (!is_empty(&pipe) && !slips(mad))
        return;
    if (slips(mad))
        fragment->length = (uint32_t)some_number(mad);
    if (slips(mad))
        fragment->length = (uint32_t)any(mad, pipe.capacity);
    if (slips(mad))
        fragment->offset = some_number(mad);
    if (slips(mad))
        fragment->want = (uint32_t)some_number(mad);
    size_t at = (size_t)read % pipe.capacity / 64 * 64;
    memcpy(pipe.ring + at, fragment, sizeof *fragment);
    uint64_t padded = ((uint64_t)fragment->length + 63) / 64 * 64;
    atomic_store(&pipe.positions->written, slips(mad) ? some_number(mad) : read + 64 + padded);
    eplb_mesh_ring(&mad->mesh, (int32_t)any(mad, MAD));
}

/* Takes part in an exchange: answers what has come, in its round, by as much. */
static void answer_exchange(struct mad *mad)
{
    int32_t to = (int32_t)any(mad, MAD);
    struct eplb_pipe_end from_it = eplb_mesh_collective_pipe(&mad->mesh, to, MAD);
    struct eplb_fragment fragment;
    struct eplb_pipe_end to_it = eplb_mesh_collective_pipe(&mad->mesh, MAD, to);
    uint64_t read = atomic_load(&from_it.positions->read);
    if ((is_empty(&from_it) || !is_empty(&to_it)) && !slips(mad))
        return;
    memcpy(&fragment, from_it.ring + (size_t)read % from_it.capacity / 64 * 64, sizeof fragment);
    if (slips(mad))
        fragment.message += any(mad, 3);
    if (slips(mad))
        fragment.size = some_number(mad);
    if (slips(mad))
        fragment.length = 0;
    atomic_store(&from_it.positions->read, atomic_load(&from_it.positions->written));
    put_fragment(mad, to_it, &fragment);
}

/* Answers a want of the other's, be it for somebody else, with its next fragment. */
static void answer_want(struct mad *mad)
{
    enum { LONGEST = 448 };
    int32_t to = (int32_t)any(mad, MAD);
    int32_t index = (int32_t)any(mad, MAX_OPS);
    struct answer *answer = &mad->answers[to][index];
    struct eplb_mesh_want *want = eplb_mesh_want(&mad->mesh, to, index);
    struct eplb_pipe_end pipe = eplb_mesh_transfer_pipe(&mad->mesh, MAD, to);
    struct eplb_fragment fragment = {.message = atomic_load(&want->ticket),
                                     .token = atomic_load(&want->token),
                                     .size = atomic_load(&want->size),
                                     .want = (uint32_t)index};
    if ((fragment.message == 0 || !is_empty(&pipe)) && !slips(mad))
        return;
    if (answer->ticket != fragment.message)
        *answer = (struct answer){.ticket = fragment.message};
    fragment.offset = answer->offset;
    uint64_t left = fragment.size - fragment.offset;
    fragment.length = left < LONGEST ? (uint32_t)left : LONGEST;
    answer->offset += fragment.length;
    if (slips(mad))
        fragment.size = some_number(mad);
    /* Right but for its end, or for its place: often, as it is more tempting than other nonsense. */
    if (any(mad, 16) == 0)
        fragment.length = LONGEST;
    else if (any(mad, 16) == 0 && fragment.size > LONGEST)
        fragment.offset = any(mad, fragment.size - LONGEST);
    put_fragment(mad, pipe, &fragment);
}

/* Wants something of the other, or says that somebody else does. */
static void want_something(struct mad *mad)
{
    int32_t from = (int32_t)any(mad, MAD);
    int32_t who = slips(mad) ? (int32_t)any(mad, RANKS) : MAD;
    struct eplb_mesh_want *want = eplb_mesh_want(&mad->mesh, who, (int32_t)any(mad, MAX_OPS));
    struct eplb_mesh_link *link = eplb_mesh_link(&mad->mesh, from, who);
    atomic_store(&want->token, 1 + any(mad, 2));
    atomic_store(&want->slot, (uint32_t)any(mad, TAGS));
    atomic_store(&want->chunk, 0);
    atomic_store(&want->from, slips(mad) ? (uint32_t)some_number(mad) : (uint32_t)from);
    atomic_store(&want->size, slips(mad) ? some_number(mad) : 1500);
    atomic_store(&want->ticket, some_number(mad));
    atomic_store(&mad->mesh.members[who].num_wants, any(mad, 4) == 0 ? UINT32_MAX : MAX_OPS);
    atomic_fetch_add(&link->announced, 1);
    atomic_store(&link->transfer.read, atomic_load(&link->transfer.written));
    eplb_mesh_ring(&mad->mesh, from);
}

/* What sleepers and voters stand on. */
static void spoil_the_head(struct mad *mad)
{
    struct eplb_mesh_member *member = &mad->mesh.members[any(mad, RANKS)];
    switch (any(mad, 6)) {
    case 0:
        atomic_store(&member->bell, (uint32_t)some_number(mad));
        break;
    case 1:
        atomic_store(&member->sleepers, (uint32_t)some_number(mad));
        break;
    case 2:
        atomic_store(&mad->mesh.head->decision, some_number(mad));
        break;
    case 3:
        atomic_store(&mad->mesh.votes[0], some_number(mad));
        break;
    default:
        /* Dead for a moment. */
        atomic_store(&mad->mesh.deaths[0], slips(mad) ? some_number(mad) : 0);
    }
}

/* Votes, and comes to barriers, though not as often as it should. */
static void play_a_part(struct mad *mad)
{
    const struct eplb_decision_record record = eplb_mesh_decision(&mad->mesh);
    if (slips(mad))
        spoil_the_head(mad);
    (void)eplb_decision_vote(&record, (struct eplb_activation_token){1 + any(mad, 3)}, MAD, true);
    atomic_fetch_add(&mad->mesh.head->arrivals, any(mad, 3));
    eplb_mesh_ring_all(&mad->mesh);
}

static void wake_nobody(void *context, int32_t rank, _Atomic uint32_t *bell)
{
    (void)context, (void)rank, (void)bell;
}

static void be_mad(const struct scene *scene)
{
    static struct mad mad;
    const struct eplb_segment_name name = {
        .directory = scene->attach.directory, .instance = "eplb", .part = "group"};
    const struct eplb_waker waker = {.wake = wake_nobody};
    struct eplb_segment *segment;
    struct eplb_mesh_limits limits;
    if (eplb_segment_open(&name, EPLB_SEGMENT_GROUP, scene->attach.generation, 0, &segment, NULL) != EPLB_OK)
        child_fail("the group is not there");
    unsigned char *payload = eplb_segment_payload(segment);
    size_t bytes = eplb_segment_payload_bytes(segment);
    if (eplb_shm_payload_limits(payload, bytes, "", &limits, NULL) != EPLB_OK)
        child_fail("the group is not one");
    mad.mesh = eplb_shm_payload_at(payload, &limits, &waker).mesh;
    mad.mapping = payload - EPLB_SEGMENT_ALIGN;
    mad.bytes = EPLB_SEGMENT_ALIGN + bytes;
    eplb_prng_seed(&mad.prng, scene->seed);
    mad.sanity = UINT64_C(4) << any(&mad, 16);
    void (*const acts[])(struct mad *) = {answer_exchange, answer_exchange, answer_want,
                                          answer_want,     want_something,  play_a_part};
    /* Who comes later is refused, or not: that is another test's. */
    while (atomic_load(&scene->attached) < MAD)
        sched_yield();
    for (int i = 0; i < SCRIBBLES; i++) {
        if (slips(&mad) && any(&mad, 2) == 0)
            write_words(&mad);
        else if (slips(&mad) && any(&mad, 8) == 0)
            write_a_stretch(&mad);
        else
            acts[any(&mad, sizeof acts / sizeof *acts)](&mad);
        if (any(&mad, 2) == 0)
            sched_yield();
    }
}

/* ---- all of them ---- */

static void live(void *context, int32_t index)
{
    if (index == MAD)
        be_mad(context);
    else
        be_a_rank(context, index);
}

static void try_it(struct scene *scene, uint64_t seed)
{
    struct shm_place place;
    struct eplb_shm *maker;
    struct eplb_shm_params params;
    shm_place_open(&place);
    eplb_shm_params_init(&params);
    params.directory = place.path;
    params.num_ranks = RANKS;
    params.max_ops = MAX_OPS;
    params.transfer_ring_bytes = 1024;
    params.collective_ring_bytes = 2048;
    assert_int_equal(eplb_shm_create(&params, &maker, NULL), EPLB_OK);
    scene->seed = seed;
    eplb_shm_attach_params_init(&scene->attach);
    scene->attach.directory = place.path;
    scene->attach.generation = eplb_shm_generation(maker);
    /* A short look before sleeping, in every other try. */
    scene->attach.spin_ns = seed % 2 == 0 ? 0 : 2000;
    atomic_store(&scene->attached, 0);
    atomic_store(&scene->stop, 0);
    struct child children[RANKS];
    int64_t deadline = time_now() + PATIENCE_NS;
    for (int32_t index = 0; index < RANKS; index++)
        child_start(&children[index], live, scene, index);
    /* The ranks have no reason to end before. */
    if (children_next(children, RANKS, deadline) != MAD || children[MAD].failed)
        fail_msg("seed %llu: a rank ended first", (unsigned long long)seed);
    const struct eplb_group *engine = eplb_shm_group(maker);
    engine->member_dead(engine->self, MAD);
    atomic_store(&scene->stop, 1);
    if (children_finish(children, RANKS, time_now() + 5 * SECOND) != 0)
        fail_msg("seed %llu", (unsigned long long)seed);
    eplb_shm_destroy(maker);
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
}

/* EPLB_HOSTILE_TRIES: how many, in place of the usual number. */
static void a_mad_process_harms_nobody_else(void **state)
{
    (void)state;
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene != MAP_FAILED);
    const char *wanted = getenv("EPLB_HOSTILE_TRIES");
    uint64_t tries = wanted == NULL ? TRIES : strtoull(wanted, NULL, 10);
    print_message("seeds 0 to %llu\n", (unsigned long long)tries - 1);
    for (uint64_t seed = 0; seed < tries; seed++)
        try_it(scene, seed);
    for (int i = 0; i < COUNTS; i++)
        print_message("%llu %s\n", (unsigned long long)atomic_load(&scene->counts[i]), count_names[i]);
    /* Each must have been there, or the test says little. */
    for (int i = 0; i < COUNTS; i++)
        assert_true(atomic_load(&scene->counts[i]) > 0);
    munmap(scene, sizeof *scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mad_process_harms_nobody_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
