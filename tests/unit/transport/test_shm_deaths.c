/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Ranks that are killed in the middle of whatever they do: as soon as the group is told, nobody waits for
 * them any more. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/clock.h"
#include "eplb/shm.h"
#include "support/children.h"
#include "support/shm_place.h"

enum { RANKS = 4, KILLS = 50, MOST_STEPS = 150, MOST_BYTES = 48 * 1024, MOST_TURNS = 10 };

#define SECOND INT64_C(1000000000)
#define PATIENCE_NS (60 * SECOND)

/* What a rank does in a step; the same kind on all of them. */
enum kind { BARRIER, EXCHANGE, TRANSFER, VOTE, KINDS };

static const char *const kind_names[KINDS] = {"barriers", "exchanges", "transfers", "votes"};

/* What the processes share beside the group. */
struct scene {
    uint64_t seed;
    struct eplb_shm_attach_params attach;
    _Atomic uint64_t steps[RANKS]; /* begun */
    _Atomic int kinds[RANKS];      /* what it is at */
    _Atomic uint64_t open;         /* token of the record */
    _Atomic uint64_t decided[RANKS][2];
    _Atomic int64_t buried_at; /* 0: not yet */
    _Atomic int64_t ended_at[RANKS];
};

struct rank {
    struct scene *scene;
    const struct eplb_group *group;
    struct eplb_prng plan; /* gives all ranks the same numbers */
    uint64_t step;
    unsigned char from[RANKS][MOST_BYTES];
    unsigned char to[RANKS][MOST_BYTES];
};

static int64_t time_now(void)
{
    const struct eplb_clock *clock = eplb_clock_system();
    return clock->now(clock->context);
}

/* ---- one rank: each returns false when it has noticed a death ---- */

static bool went_well(enum eplb_status status)
{
    if (status != EPLB_OK && status != EPLB_RANK_DEAD)
        child_fail("an operation failed, but for no death");
    return status == EPLB_OK;
}

static bool meet(struct rank *rank)
{
    return went_well(rank->group->barrier(rank->group->self, NULL));
}

static bool exchange(struct rank *rank)
{
    struct eplb_part send[RANKS];
    struct eplb_part receive[RANKS];
    size_t sizes[RANKS][RANKS];
    for (int32_t from = 0; from < RANKS; from++)
        for (int32_t to = 0; to < RANKS; to++)
            sizes[from][to] = (size_t)eplb_prng_below(&rank->plan, MOST_BYTES);
    for (int32_t other = 0; other < RANKS; other++) {
        send[other] = (struct eplb_part){rank->from[other], sizes[rank->group->rank][other]};
        receive[other] = (struct eplb_part){rank->to[other], sizes[other][rank->group->rank]};
    }
    return went_well(rank->group->all_to_all(rank->group->self, send, receive, NULL));
}

/* Rank 0 opens in the engine's place. */
static bool open_record(struct rank *rank)
{
    const struct eplb_group *group = rank->group;
    const struct eplb_activation_token token = {rank->step};
    if (group->rank == 0) {
        group->record_open(group->self, token);
        atomic_store(&rank->scene->open, token.value);
    }
    return meet(rank);
}

/* Polls until the two operations of a transfer have ended; gives them up when the record is aborted, as
 * it is after a death: a living peer may have left then. */
static bool finish_transfer(struct rank *rank, struct eplb_activation_token token)
{
    const struct eplb_group *group = rank->group;
    bool done = true;
    int64_t deadline = time_now() + PATIENCE_NS;
    for (size_t ended = 0; ended < 2;) {
        struct eplb_completion completions[2];
        size_t count = group->poll(group->self, token, completions, 2);
        for (size_t i = 0; i < count; i++)
            done = done && completions[i].result == EPLB_OP_DONE;
        ended += count;
        if (time_now() > deadline)
            child_fail("a transfer did not end");
        if (ended < 2 && group->record_read(group->self, token) == EPLB_ABORT) {
            group->cancel(group->self, (struct eplb_op){0});
            group->cancel(group->self, (struct eplb_op){1});
        } else if (ended < 2) {
            group->wait(group->self, deadline);
        }
    }
    return done;
}

/* To the next, from the one before. */
static bool transfer(struct rank *rank)
{
    const struct eplb_group *group = rank->group;
    const struct eplb_activation_token token = {rank->step};
    const struct eplb_message_tag tag = {.token = token};
    const size_t size = (size_t)eplb_prng_below(&rank->plan, MOST_BYTES);
    const struct eplb_part send = {rank->from[0], size};
    const struct eplb_part receive = {rank->to[0], size};
    const int32_t next = (group->rank + 1) % RANKS;
    const int32_t before = (group->rank + RANKS - 1) % RANKS;
    if (!open_record(rank))
        return false;
    atomic_store(&rank->scene->kinds[group->rank], TRANSFER);
    if (group->post_send(group->self, next, &tag, &send, 1, (struct eplb_op){0}) != EPLB_OK ||
        group->post_recv(group->self, before, &tag, &receive, 1, (struct eplb_op){1}) != EPLB_OK)
        child_fail("a post was refused");
    return finish_transfer(rank, token) && meet(rank);
}

static bool vote(struct rank *rank)
{
    const struct eplb_group *group = rank->group;
    const struct eplb_activation_token token = {rank->step};
    if (!open_record(rank))
        return false;
    atomic_store(&rank->scene->kinds[group->rank], VOTE);
    group->record_vote(group->self, token, 1);
    int64_t deadline = time_now() + PATIENCE_NS;
    enum eplb_decision decision = EPLB_UNDECIDED;
    while (decision == EPLB_UNDECIDED) {
        struct eplb_completion completion;
        if (time_now() > deadline)
            child_fail("a vote did not end");
        (void)group->poll(group->self, token, &completion, 1);
        decision = group->record_read(group->self, token);
        if (decision == EPLB_UNDECIDED)
            group->wait(group->self, deadline);
    }
    atomic_store(&rank->scene->decided[group->rank][0], token.value);
    atomic_store(&rank->scene->decided[group->rank][1], decision);
    /* The next record is not opened before all have read this one. */
    return meet(rank);
}

static bool take_step(struct rank *rank)
{
    enum kind kind = (enum kind)eplb_prng_below(&rank->plan, KINDS);
    atomic_store(&rank->scene->kinds[rank->group->rank], kind == EXCHANGE ? EXCHANGE : BARRIER);
    atomic_store(&rank->scene->steps[rank->group->rank], ++rank->step);
    switch (kind) {
    case BARRIER:
        return meet(rank);
    case EXCHANGE:
        return exchange(rank);
    case TRANSFER:
        return transfer(rank);
    default:
        return vote(rank);
    }
}

static void live(void *context, int32_t index)
{
    static struct rank rank;
    struct eplb_error error;
    struct eplb_shm *shm;
    rank.scene = context;
    struct eplb_shm_attach_params attach = rank.scene->attach;
    attach.rank = index;
    if (eplb_shm_attach(&attach, &shm, &error) != EPLB_OK)
        child_fail(error.text);
    rank.group = eplb_shm_group(shm);
    eplb_prng_seed(&rank.plan, rank.scene->seed);
    while (take_step(&rank))
        continue;
    atomic_store(&rank.scene->ended_at[index], time_now());
    /* A death stays one: nothing that needs all ranks is begun any more. */
    if (atomic_load(&rank.scene->buried_at) == 0)
        child_fail("a death was noticed before it was told");
    if (meet(&rank) || exchange(&rank))
        child_fail("a collective went on without a rank");
    eplb_shm_destroy(shm);
}

/* ---- the engine ---- */

/* Kills the victim while it does something of that kind, or soon after, when it has made some steps. */
static void kill_it(struct scene *scene, struct child *children, int32_t victim, enum kind kind,
                    struct eplb_prng *prng)
{
    uint64_t step = 1 + eplb_prng_below(prng, MOST_STEPS);
    int64_t deadline = time_now() + PATIENCE_NS;
    while (atomic_load(&scene->steps[victim]) < step || atomic_load(&scene->kinds[victim]) != (int)kind) {
        sched_yield();
        assert_true(time_now() < deadline);
    }
    for (uint64_t turns = eplb_prng_below(prng, MOST_TURNS); turns > 0; turns--)
        sched_yield();
    child_kill(&children[victim]);
    /* Whoever ends first; nobody else should. */
    assert_int_equal(children_next(children, RANKS, deadline), victim);
    assert_int_equal(children[victim].status, SIGKILL);
}

/* As the engine does: the mark first, so that the record which is open then is the last one. */
static void bury(struct scene *scene, const struct eplb_group *engine, int32_t victim)
{
    atomic_store(&scene->buried_at, time_now());
    engine->member_dead(engine->self, victim);
    engine->record_abort(engine->self, (struct eplb_activation_token){atomic_load(&scene->open)});
}

/* Who has read the last record has read the same, the dead one included. */
static void assert_one_decision(struct scene *scene)
{
    uint64_t token = atomic_load(&scene->open);
    uint64_t decision = EPLB_UNDECIDED;
    for (int32_t rank = 0; rank < RANKS; rank++) {
        if (atomic_load(&scene->decided[rank][0]) != token)
            continue;
        if (decision != EPLB_UNDECIDED)
            assert_int_equal(atomic_load(&scene->decided[rank][1]), decision);
        decision = atomic_load(&scene->decided[rank][1]);
    }
}

/* Returns how long the slowest survivor took. */
static int64_t run_until_a_kill(struct scene *scene, uint64_t seed, int *kinds)
{
    struct shm_place place;
    struct eplb_shm *maker;
    struct eplb_shm_params params;
    struct eplb_prng prng;
    shm_place_open(&place);
    eplb_shm_params_init(&params);
    params.directory = place.path;
    params.num_ranks = RANKS;
    params.transfer_ring_bytes = 4096;
    params.collective_ring_bytes = 1024;
    assert_int_equal(eplb_shm_create(&params, &maker, NULL), EPLB_OK);
    memset(scene, 0, sizeof *scene);
    scene->seed = seed;
    eplb_shm_attach_params_init(&scene->attach);
    scene->attach.directory = place.path;
    scene->attach.generation = eplb_shm_generation(maker);
    struct child children[RANKS];
    for (int32_t rank = 0; rank < RANKS; rank++)
        child_start(&children[rank], live, scene, rank);

    eplb_prng_seed(&prng, seed);
    int32_t victim = (int32_t)eplb_prng_below(&prng, RANKS);
    kill_it(scene, children, victim, (enum kind)(seed % KINDS), &prng);
    kinds[atomic_load(&scene->kinds[victim])]++;
    bury(scene, eplb_shm_group(maker), victim);
    /* The one that was killed is the only one that failed. */
    assert_int_equal(children_finish(children, RANKS, time_now() + PATIENCE_NS), 1);
    assert_one_decision(scene);
    int64_t slowest = 0;
    for (int32_t rank = 0; rank < RANKS; rank++) {
        int64_t took = atomic_load(&scene->ended_at[rank]) - atomic_load(&scene->buried_at);
        if (rank != victim && took > slowest)
            slowest = took;
    }
    eplb_shm_destroy(maker);
    assert_int_equal(shm_place_count(&place), 0);
    shm_place_close(&place);
    return slowest;
}

static void nobody_waits_for_the_dead(void **state)
{
    (void)state;
    int kinds[KINDS] = {0};
    int64_t slowest = 0;
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene != MAP_FAILED);
    print_message("seeds 1 to %d\n", KILLS);
    for (uint64_t seed = 1; seed <= KILLS; seed++) {
        int64_t took = run_until_a_kill(scene, seed, kinds);
        if (took >= SECOND)
            fail_msg("seed %llu: a survivor waited %lld ns", (unsigned long long)seed, (long long)took);
        slowest = took > slowest ? took : slowest;
    }
    print_message("the slowest survivor took %lld us; killed in", (long long)(slowest / 1000));
    for (int kind = 0; kind < KINDS; kind++)
        print_message(" %d %s", kinds[kind], kind_names[kind]);
    print_message("\n");
    /* All must have been common, or the test says little. */
    for (int kind = 0; kind < KINDS; kind++)
        assert_in_range(kinds[kind], KILLS / 25, KILLS);
    munmap(scene, sizeof *scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_for_the_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
