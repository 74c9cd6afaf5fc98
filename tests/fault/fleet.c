/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "fault/fleet.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "eplb/channel.h"
#include "eplb/shm.h"
#include "fault/crew.h"
#include "fault/rank.h"

#define MS INT64_C(1000000)
#define SPIN_BELOW_NS (MS / 5)

/* For ranks to say what they are doing before the program ends. */
#define LAST_WORDS_NS (200 * MS)

_Static_assert((int)CREW_MAX_RANKS == (int)TEAM_MAX_RANKS, "a crew for every team");

struct team {
    struct fleet_params params;
    struct eplb_shm *shm;
    struct eplb_channel *channels[TEAM_MAX_RANKS];
    struct crew *crew;
    unsigned char *input;               /* struct rank_input and the padding */
    struct eplb_activation_token token; /* of the last activation that was handed out */
    enum standin_mood moods[TEAM_MAX_RANKS][STANDIN_HOOKS];
    bool killed[TEAM_MAX_RANKS]; /* by the test */
    struct eplb_worker_output outputs[TEAM_MAX_RANKS];
    struct rank_result results[TEAM_MAX_RANKS];
    char sentence[CREW_SENTENCE];
};

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

static int32_t num_ranks(const struct team *team)
{
    return team->params.team.shape.ep_size;
}

/* ----------------------------------------------------------------------------------------- create */

void fleet_params_init(struct fleet_params *params, const char *directory, const char *instance,
                       int32_t ranks)
{
    *params = (struct fleet_params){.team = {.tokens = 6,
                                             .top_k = 2,
                                             .traffic = {.seed = 1, .period = 50},
                                             .matrix_bytes = STANDIN_MATRIX_BYTES,
                                             .chunk_bytes = 1000,
                                             .inflight_bytes = 3500,
                                             .transfer_timeout_seconds = 10,
                                             .seed = 1},
                                    .instance = instance,
                                    .directory = directory,
                                    .keep = -1};
    assert_int_equal(eplb_shape_init(&params->team.shape, 3, 16, ranks, 1, NULL), EPLB_OK);
}

static enum eplb_status create_group(struct team *team, struct eplb_error *error)
{
    struct eplb_shm_params params;
    eplb_shm_params_init(&params);
    params.instance_name = team->params.instance;
    params.directory = team->params.directory;
    params.num_ranks = num_ranks(team);
    return eplb_shm_create(&params, &team->shm, error);
}

static enum eplb_status create_channel(struct team *team, int32_t rank, struct eplb_error *error)
{
    const struct team_params *from = &team->params.team;
    const struct rank_setup setup = {.tokens = from->tokens,
                                     .top_k = from->top_k,
                                     .traffic = from->traffic,
                                     .matrix_bytes = from->matrix_bytes,
                                     .chunk_bytes = from->chunk_bytes,
                                     .inflight_bytes = from->inflight_bytes,
                                     .transfer_timeout_seconds = from->transfer_timeout_seconds,
                                     .jitter_ns = from->jitter_ns,
                                     .seed = from->seed};
    struct eplb_channel_params params;
    eplb_channel_params_init(&params);
    params.instance_name = team->params.instance;
    params.directory = team->params.directory;
    params.generation = eplb_shm_generation(team->shm);
    params.shape = from->shape;
    params.ep_rank = rank;
    params.max_input_bytes = sizeof(struct rank_input) + team->params.padding;
    params.max_result_bytes = sizeof(struct rank_result);
    params.setup = &setup;
    params.setup_bytes = sizeof setup;
    return eplb_channel_create(&params, &team->channels[rank], error);
}

static uint64_t beats(void *context, int32_t rank)
{
    const struct team *team = context;
    return eplb_channel_beats(team->channels[rank]);
}

/** What an engine does: whoever is blocked is told. */
static void ended(void *context, int32_t rank)
{
    const struct team *team = context;
    const struct eplb_group *group = eplb_shm_group(team->shm);
    group->member_dead(group->self, rank);
    for (int32_t other = 0; other < num_ranks(team); other++)
        eplb_channel_wake(team->channels[other]);
}

static enum eplb_status create_parts(struct team *team, struct eplb_error *error)
{
    EPLB_TRY(create_group(team, error));
    for (int32_t rank = 0; rank < num_ranks(team); rank++)
        EPLB_TRY(create_channel(team, rank, error));
    const struct crew_params params = {.num_ranks = num_ranks(team),
                                       .instance = team->params.instance,
                                       .directory = team->params.directory,
                                       .generation = eplb_shm_generation(team->shm),
                                       .keep = team->params.keep,
                                       .context = team,
                                       .beats = beats,
                                       .ended = ended};
    return crew_create(&params, &team->crew, error);
}

static void free_parts(struct team *team)
{
    crew_destroy(team->crew);
    for (int32_t rank = 0; rank < num_ranks(team); rank++)
        eplb_channel_destroy(team->channels[rank]);
    eplb_shm_destroy(team->shm);
    free(team->input);
    free(team);
}

enum eplb_status fleet_create(const struct fleet_params *params, struct team **team, struct eplb_error *error)
{
    struct team *created = calloc(1, sizeof *created);
    unsigned char *input = calloc(1, sizeof(struct rank_input) + params->padding);
    assert_non_null(created);
    assert_non_null(input);
    assert_in_range(params->team.shape.ep_size, 1, TEAM_MAX_RANKS);
    created->params = *params;
    created->input = input;
    enum eplb_status status = create_parts(created, error);
    if (status != EPLB_OK) {
        free_parts(created);
        return status;
    }
    *team = created;
    return EPLB_OK;
}

struct team *fleet_start(const struct fleet_params *params)
{
    struct team *team;
    struct eplb_error error;
    if (fleet_create(params, &team, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return team;
}

void fleet_main(int argc, char **argv)
{
    if (argc == CREW_ARGUMENTS && strcmp(argv[1], CREW_RANK) == 0)
        exit(rank_main(argv));
}

/* ------------------------------------------------------------------------------------------- ends */

int64_t team_deadline(void)
{
    return now() + TEAM_PATIENCE_NS;
}

void team_fail(const struct team *team, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    for (int32_t rank = 0; rank < num_ranks(team); rank++)
        crew_signal(team->crew, rank, SIGUSR1);
    /* None of them is to end: the time is theirs. */
    (void)crew_await_ended(team->crew, 0, now() + LAST_WORDS_NS);
    fflush(NULL);
    _Exit(EXIT_FAILURE);
}

static void must(const struct team *team, int32_t rank, enum eplb_status status,
                 const struct eplb_error *error)
{
    if (status != EPLB_OK)
        team_fail(team, "engine, rank %d: %s", rank, error->text);
}

/** Sends a live rank an input, with a command. */
static void give(struct team *team, int32_t rank, const struct eplb_command *command,
                 const struct rank_input *input)
{
    struct eplb_error error;
    memcpy(team->input, input, sizeof *input);
    must(team, rank,
         eplb_channel_submit(team->channels[rank], command, team->input, sizeof *input + team->params.padding,
                             &error),
         &error);
}

void team_destroy(struct team *team)
{
    struct eplb_command command;
    eplb_command_init(&command, UINT64_MAX);
    crew_expect_end(team->crew);
    for (int32_t rank = 0; rank < num_ranks(team); rank++)
        if (!team_is_dead(team, rank))
            give(team, rank, &command, &(struct rank_input){.leave = true});
    if (!crew_await_all(team->crew, team_deadline()))
        team_fail(team, "the ranks do not end");
    for (int32_t rank = 0; rank < num_ranks(team); rank++)
        if (!team->killed[rank] && !crew_ended_well(team->crew, rank))
            team_fail(team, "%s", fleet_report(team, rank));
    free_parts(team);
}

/* ------------------------------------------------------------------------------------------ views */

const struct eplb_shape *team_shape(const struct team *team)
{
    return &team->params.team.shape;
}

const struct eplb_group *team_engine_group(const struct team *team)
{
    return eplb_shm_group(team->shm);
}

bool team_is_dead(const struct team *team, int32_t rank)
{
    return crew_ended_at(team->crew, rank) != 0;
}

int64_t fleet_pid(const struct team *team, int32_t rank)
{
    return crew_pid(team->crew, rank);
}

const char *fleet_report(struct team *team, int32_t rank)
{
    crew_tell(team->crew, rank, team->sentence);
    return team->sentence;
}

int32_t fleet_first_lost(struct team *team)
{
    return crew_first_lost(team->crew);
}

const char *fleet_bereavement(const struct team *team, int32_t rank)
{
    return team->results[rank].bereavement;
}

void team_check_all(const struct team *team, const int32_t *tables, const uint64_t *generations)
{
    uint64_t state = rank_state(team_shape(team), tables, generations);
    for (int32_t rank = 0; rank < num_ranks(team); rank++) {
        const struct rank_result *result = &team->results[rank];
        if (team_is_dead(team, rank))
            continue;
        if (result->state != state)
            team_fail(team, "rank %d runs %016" PRIx64 "; it must run %016" PRIx64, rank, result->state,
                      state);
        if (result->checked != state)
            team_fail(team, "rank %d has not compared the bytes of %016" PRIx64, rank, state);
    }
}

void fleet_check_commands(const struct team *team)
{
    const struct rank_result *first = NULL;
    for (int32_t rank = 0; rank < num_ranks(team); rank++) {
        const struct rank_result *result = &team->results[rank];
        if (team_is_dead(team, rank))
            continue;
        first = first == NULL ? result : first;
        if (result->commands != first->commands || result->commands_hash != first->commands_hash)
            team_fail(team, "rank %d has seen other commands than the first live one", rank);
    }
}

/* --------------------------------------------------------------------------------------- forwards */

void team_submit(struct team *team, const struct eplb_command *command, const struct eplb_dp_batch *batches,
                 bool warmup)
{
    assert_false(warmup);
    if (command->update_layer_id != EPLB_NO_LAYER)
        team->token = command->activation_token;
    for (int32_t rank = 0; rank < num_ranks(team); rank++) {
        struct rank_input input = {.batch = batches[rank]};
        memcpy(input.moods, team->moods[rank], sizeof input.moods);
        if (!team_is_dead(team, rank))
            give(team, rank, command, &input);
    }
}

/** What a manager does: the record decides, and it must not wait for the dead. */
static void mourn(struct team *team)
{
    const struct eplb_group *group = team_engine_group(team);
    bool lost = false;
    for (int32_t rank = 0; rank < num_ranks(team); rank++) {
        bool dead = team_is_dead(team, rank);
        if (dead && !team->killed[rank])
            team_fail(team, "%s", fleet_report(team, rank));
        lost = lost || dead;
    }
    if (lost && team->token.value != 0)
        group->record_abort(group->self, team->token);
}

static void take(struct team *team, int32_t rank, const struct eplb_channel_reply *reply)
{
    if (reply->result_bytes != sizeof team->results[rank])
        team_fail(team, "rank %d: a result of %zu bytes", rank, reply->result_bytes);
    team->outputs[rank] = reply->output;
    memcpy(&team->results[rank], reply->result, sizeof team->results[rank]);
}

/** False when the rank is dead, and died before it answered. */
static bool collect_from(struct team *team, int32_t rank, int64_t deadline)
{
    struct eplb_channel *channel = team->channels[rank];
    struct eplb_channel_reply reply;
    struct eplb_error error;
    int arrived;
    for (;;) {
        mourn(team);
        /* Looked at first: whatever it had answered before it ended is there then. */
        bool dead = team_is_dead(team, rank);
        if (eplb_channel_under_way(channel) == 0)
            return false;
        must(team, rank, eplb_channel_collect(channel, dead ? 0 : deadline, &reply, &arrived, &error),
             &error);
        if (arrived) {
            take(team, rank, &reply);
            return true;
        }
        if (dead)
            return false;
        if (now() > deadline)
            team_fail(team, "rank %d: the output does not come", rank);
    }
}

const struct eplb_worker_output *team_collect(struct team *team)
{
    int64_t deadline = team_deadline();
    for (int32_t rank = 0; rank < num_ranks(team); rank++)
        if (!collect_from(team, rank, deadline))
            team->outputs[rank] = (struct eplb_worker_output){.size = sizeof team->outputs[rank]};
    return team->outputs;
}

/* ----------------------------------------------------------------------------------------- orders */

void fleet_set_mood(struct team *team, int32_t rank, enum standin_hook hook, enum standin_mood mood)
{
    team->moods[rank][hook] = mood;
}

void fleet_signal(struct team *team, int32_t rank, int signal)
{
    crew_signal(team->crew, rank, signal);
}

void fleet_kill(struct team *team, int32_t rank)
{
    team->killed[rank] = true;
    crew_signal(team->crew, rank, SIGKILL);
}

int64_t fleet_await_named(struct team *team, int32_t rank, int64_t deadline)
{
    return crew_await_ended(team->crew, rank, deadline);
}

void fleet_linger(struct team *team, int32_t rank, int64_t ns)
{
    int64_t until = now() + ns;
    /* A sleep cannot be that short. */
    while (ns < SPIN_BELOW_NS && now() < until)
        continue;
    if (now() < until && crew_await_ended(team->crew, rank, until) != 0)
        team_fail(team, "%s", fleet_report(team, rank));
}
