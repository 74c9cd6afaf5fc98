/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The decision record: one outcome per token, the same for all. */
#include "contract/group_stage.h"

#include <sched.h>
#include <stdatomic.h>

static void open_ranks(struct stage *stage, void **state, int32_t num_ranks)
{
    const struct contract_request request = {.num_ranks = num_ranks, .max_ops = 1, .transfer_bytes = 256};
    stage_open(stage, *state, &request);
}

static struct eplb_activation_token token_of(uint64_t value)
{
    return (struct eplb_activation_token){value};
}

static void vote(const struct stage *stage, int32_t rank, uint64_t token, int yes)
{
    stage->ranks[rank]->record_vote(stage->ranks[rank]->self, token_of(token), yes);
}

/* What the record says, which must be the same for all ranks and the engine. */
static enum eplb_decision decision(const struct stage *stage, uint64_t token)
{
    enum eplb_decision said = stage->engine->record_read(stage->engine->self, token_of(token));
    for (int32_t rank = 0; rank < stage->num_ranks; rank++)
        assert_int_equal(stage->ranks[rank]->record_read(stage->ranks[rank]->self, token_of(token)), said);
    return said;
}

static void open_record(const struct stage *stage, uint64_t token)
{
    stage->engine->record_open(stage->engine->self, token_of(token));
    assert_int_equal(decision(stage, token), EPLB_UNDECIDED);
}

static void abort_record(const struct stage *stage, int32_t rank, uint64_t token)
{
    const struct eplb_group *group = rank == EPLB_NO_RANK ? stage->engine : stage->ranks[rank];
    group->record_abort(group->self, token_of(token));
}

/* ---- one after the other ---- */

static void the_last_yes_commits(void **state)
{
    for (int32_t num_ranks = 1; num_ranks <= MAX_STAGE_RANKS; num_ranks++) {
        struct stage stage;
        open_ranks(&stage, state, num_ranks);
        for (uint64_t token = 1; token <= 3; token++) {
            open_record(&stage, token);
            for (int32_t i = 0; i < num_ranks; i++) {
                assert_int_equal(decision(&stage, token), EPLB_UNDECIDED);
                vote(&stage, (i + (int32_t)token) % num_ranks, token, 1);
            }
            assert_int_equal(decision(&stage, token), EPLB_COMMIT);
        }
        stage_close(&stage);
    }
}

static void a_no_aborts_whenever_it_comes(void **state)
{
    struct stage stage;
    open_ranks(&stage, state, 4);
    for (int32_t yes_before = 0; yes_before < 4; yes_before++) {
        uint64_t token = 10 + (uint64_t)yes_before;
        open_record(&stage, token);
        for (int32_t rank = 0; rank < yes_before; rank++)
            vote(&stage, rank, token, 1);
        assert_int_equal(decision(&stage, token), EPLB_UNDECIDED);
        vote(&stage, yes_before, token, 0);
        assert_int_equal(decision(&stage, token), EPLB_ABORT);
        for (int32_t rank = 0; rank < 4; rank++)
            vote(&stage, rank, token, 1);
        assert_int_equal(decision(&stage, token), EPLB_ABORT);
    }
    stage_close(&stage);
}

static void a_rank_has_one_vote(void **state)
{
    struct stage stage;
    open_ranks(&stage, state, 2);
    open_record(&stage, 1);
    vote(&stage, 0, 1, 1);
    vote(&stage, 0, 1, 1);
    assert_int_equal(decision(&stage, 1), EPLB_UNDECIDED);
    vote(&stage, 0, 1, 0);
    assert_int_equal(decision(&stage, 1), EPLB_UNDECIDED);
    vote(&stage, 1, 1, 1);
    assert_int_equal(decision(&stage, 1), EPLB_COMMIT);
    vote(&stage, 1, 1, 0);
    assert_int_equal(decision(&stage, 1), EPLB_COMMIT);
    stage_close(&stage);
}

static void an_abort_needs_no_vote_and_undoes_no_commit(void **state)
{
    struct stage stage;
    open_ranks(&stage, state, 2);
    for (int32_t who = EPLB_NO_RANK; who < 2; who++) {
        uint64_t token = (uint64_t)(who + 5);
        open_record(&stage, token);
        vote(&stage, 0, token, 1);
        abort_record(&stage, who, token);
        abort_record(&stage, who, token);
        assert_int_equal(decision(&stage, token), EPLB_ABORT);
        vote(&stage, 1, token, 1);
        assert_int_equal(decision(&stage, token), EPLB_ABORT);
    }
    open_record(&stage, 20);
    vote(&stage, 0, 20, 1);
    vote(&stage, 1, 20, 1);
    abort_record(&stage, EPLB_NO_RANK, 20);
    assert_int_equal(decision(&stage, 20), EPLB_COMMIT);
    stage_close(&stage);
}

static void other_tokens_change_nothing(void **state)
{
    /* The last one differs from 7 in its upper half only; 0 and the largest possible value are no tokens. */
    static const uint64_t others[] = {0, 1, 6, 8, EPLB_MAX_TOKEN, UINT64_MAX, 7 + (UINT64_C(1) << 32)};
    struct stage stage;
    open_ranks(&stage, state, 2);
    /* Before the first record is opened, too. */
    for (size_t i = 0; i < LENGTH(others); i++) {
        vote(&stage, 0, others[i], 0);
        abort_record(&stage, 1, others[i]);
        assert_int_equal(decision(&stage, others[i]), EPLB_UNDECIDED);
    }
    open_record(&stage, 7);
    vote(&stage, 0, 7, 1);
    for (size_t i = 0; i < LENGTH(others); i++) {
        vote(&stage, 1, others[i], 1);
        vote(&stage, 1, others[i], 0);
        abort_record(&stage, EPLB_NO_RANK, others[i]);
        assert_int_equal(decision(&stage, 7), EPLB_UNDECIDED);
        assert_int_equal(decision(&stage, others[i]), EPLB_UNDECIDED);
    }
    vote(&stage, 1, 7, 1);
    assert_int_equal(decision(&stage, 7), EPLB_COMMIT);

    /* A new token starts without the votes of the old one, which is gone. */
    open_record(&stage, 8);
    assert_int_equal(decision(&stage, 7), EPLB_UNDECIDED);
    vote(&stage, 0, 8, 1);
    vote(&stage, 1, 7, 0);
    assert_int_equal(decision(&stage, 8), EPLB_UNDECIDED);
    vote(&stage, 1, 8, 1);
    assert_int_equal(decision(&stage, 8), EPLB_COMMIT);
    open_record(&stage, EPLB_MAX_TOKEN);
    vote(&stage, 0, EPLB_MAX_TOKEN, 0);
    assert_int_equal(decision(&stage, EPLB_MAX_TOKEN), EPLB_ABORT);
    stage_close(&stage);
}

static void a_death_decides_nothing_by_itself(void **state)
{
    struct stage stage;
    open_ranks(&stage, state, 2);
    open_record(&stage, 1);
    vote(&stage, 0, 1, 1);
    stage.engine->member_dead(stage.engine->self, 1);
    assert_int_equal(decision(&stage, 1), EPLB_UNDECIDED);
    abort_record(&stage, EPLB_NO_RANK, 1);
    assert_int_equal(decision(&stage, 1), EPLB_ABORT);
    stage_close(&stage);
}

/* ---- all at once ---- */

enum { RACE_RANKS = 4, RACE_ROUNDS = 100000 };

/* Shared by the ranks; what a rank did and saw in the round. */
struct race {
    _Atomic uint64_t open; /* the token under way */
    _Atomic int finished;  /* ranks that have noted what they saw */
    _Atomic int voted_yes[RACE_RANKS];
    _Atomic int aborted[RACE_RANKS];
    _Atomic int seen[RACE_RANKS];
    _Atomic int outcomes[3]; /* rounds by outcome */
};

static bool wait_for_token(const struct race *race, uint64_t token)
{
    int64_t deadline = stage_now() + PATIENCE_NS;
    while (atomic_load(&race->open) != token) {
        sched_yield();
        if (stage_now() > deadline)
            return false;
    }
    return true;
}

static bool wait_for_finish(const struct race *race)
{
    int64_t deadline = stage_now() + PATIENCE_NS;
    while (atomic_load(&race->finished) != RACE_RANKS) {
        sched_yield();
        if (stage_now() > deadline)
            return false;
    }
    return true;
}

/* Votes, perhaps aborts, perhaps votes for the token before; then reads until there is a decision. */
static void take_part(struct stage_rank *rank, struct race *race, uint64_t token)
{
    const struct eplb_group *group = rank->group;
    int yes = eplb_prng_below(&rank->prng, 6) != 0;
    int aborts = eplb_prng_below(&rank->prng, 10) == 0;
    atomic_store(&race->voted_yes[group->rank], yes);
    atomic_store(&race->aborted[group->rank], aborts);
    stage_dawdle(&rank->prng, 1);
    if (aborts && eplb_prng_below(&rank->prng, 2) == 0)
        group->record_abort(group->self, token_of(token));
    if (eplb_prng_below(&rank->prng, 4) == 0)
        group->record_vote(group->self, token_of(token - 1), 0);
    group->record_vote(group->self, token_of(token), yes);
    if (aborts)
        group->record_abort(group->self, token_of(token));
    enum eplb_decision seen = group->record_read(group->self, token_of(token));
    int64_t deadline = stage_now() + PATIENCE_NS;
    while (seen == EPLB_UNDECIDED && stage_now() < deadline) {
        sched_yield();
        seen = group->record_read(group->self, token_of(token));
    }
    atomic_store(&race->seen[group->rank], (int)seen);
    atomic_fetch_add(&race->finished, 1);
}

/* Whether what all ranks saw is one outcome, and one that their votes explain. */
static bool is_explained(struct race *race)
{
    int seen = atomic_load(&race->seen[0]);
    bool all_yes = true;
    bool any_abort = false;
    for (int rank = 0; rank < RACE_RANKS; rank++) {
        if (atomic_load(&race->seen[rank]) != seen)
            return false;
        all_yes = all_yes && atomic_load(&race->voted_yes[rank]);
        any_abort = any_abort || atomic_load(&race->aborted[rank]);
    }
    atomic_fetch_add(&race->outcomes[seen], 1);
    return seen == EPLB_COMMIT ? all_yes : seen == EPLB_ABORT && (!all_yes || any_abort);
}

/* Rank 0 also does what the engine does: opens, and checks the round when all have finished. */
static void race_for_the_record(struct stage_rank *rank)
{
    struct race *race = rank->shared;
    const struct eplb_group *group = rank->group;
    for (uint64_t token = 1; token <= RACE_ROUNDS; token++) {
        if (group->rank != 0) {
            RANK_CHECK(rank, wait_for_token(race, token));
            take_part(rank, race, token);
            continue;
        }
        atomic_store(&race->finished, 0);
        group->record_open(group->self, token_of(token));
        atomic_store(&race->open, token);
        take_part(rank, race, token);
        RANK_CHECK(rank, wait_for_finish(race));
        RANK_CHECK(rank, is_explained(race));
        group->record_abort(group->self, token_of(token));
        RANK_CHECK(rank,
                   (int)group->record_read(group->self, token_of(token)) == atomic_load(&race->seen[0]));
    }
}

static void of_all_that_race_one_decides(void **state)
{
    struct stage stage;
    struct race *race = stage_memory(sizeof *race);
    const struct contract_request request = {.num_ranks = RACE_RANKS, .max_ops = 1, .transfer_bytes = 256};
    stage_open_apart(&stage, *state, &request);
    stage_run(&stage, race_for_the_record, 7, race);
    assert_int_equal(race->outcomes[EPLB_UNDECIDED], 0);
    assert_int_equal(race->outcomes[EPLB_COMMIT] + race->outcomes[EPLB_ABORT], RACE_ROUNDS);
    assert_in_range(race->outcomes[EPLB_COMMIT], RACE_ROUNDS / 5, RACE_ROUNDS * 4 / 5);
    stage_close(&stage);
    stage_release(race, sizeof *race);
}

int group_records_run(const struct contract_maker *maker)
{
    void *given = (void *)(uintptr_t)maker;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(the_last_yes_commits, given),
        cmocka_unit_test_prestate(a_no_aborts_whenever_it_comes, given),
        cmocka_unit_test_prestate(a_rank_has_one_vote, given),
        cmocka_unit_test_prestate(an_abort_needs_no_vote_and_undoes_no_commit, given),
        cmocka_unit_test_prestate(other_tokens_change_nothing, given),
        cmocka_unit_test_prestate(a_death_decides_nothing_by_itself, given),
        cmocka_unit_test_prestate(of_all_that_race_one_decides, given),
    };
    return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
