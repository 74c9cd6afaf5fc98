/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "fault/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "fault/wanderer.h"
#include "os/signals.h"

#define MS INT64_C(1000000)
#define PATIENCE_NS (20000 * MS)

/** The arguments behind it: directory, instance, seed, the pipe's end. */
#define ENGINE_ARGUMENT "--engine"

enum { ARGUMENTS = 6, WORD = 96 };

/** Over the pipe: one whenever a stage is reached. */
struct news {
    int32_t stage;
    int32_t unused;
    int64_t ranks[ENGINE_RANKS];
};

static int64_t now(void)
{
    return eplb_clock_system()->now(NULL);
}

/* -------------------------------------------------------------------------------- in its process */

static void tell(int pipe, enum engine_stage stage, const struct team *team)
{
    struct news news = {.stage = (int32_t)stage};
    for (int32_t rank = 0; team != NULL && rank < ENGINE_RANKS; rank++)
        news.ranks[rank] = fleet_pid(team, rank);
    if (write(pipe, &news, sizeof news) != sizeof news)
        exit(EXIT_FAILURE);
}

static void work(struct team *team, uint64_t seed, int pipe)
{
    struct wanderer wanderer;
    int count;
    wanderer_init(&wanderer, team, seed, false);
    if (eplb_signals_caught(&count) == 0)
        wanderer_begin(&wanderer);
    for (bool told = false; eplb_signals_caught(&count) == 0; told = true) {
        wanderer_round(&wanderer);
        if (!told)
            tell(pipe, ENGINE_WORKS, team);
    }
    wanderer_destroy(&wanderer);
}

static int run(char **argv)
{
    struct fleet_params params;
    struct team *team;
    struct eplb_error error;
    int descriptor;
    int count;
    int pipe = (int)strtol(argv[5], NULL, 10);
    uint64_t seed = strtoull(argv[4], NULL, 10);
    /* Dies with its test; and has a group of its own, as what a terminal starts. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || setpgid(0, 0) != 0)
        return EXIT_FAILURE;
    if (eplb_signals_catch(&descriptor, &error) != EPLB_OK)
        return EXIT_FAILURE;
    tell(pipe, ENGINE_CATCHES, NULL);
    fleet_params_init(&params, argv[2], argv[3], ENGINE_RANKS);
    params.team.seed = seed;
    params.keep = pipe;
    enum eplb_status status = fleet_create(&params, &team, &error);
    if (status != EPLB_OK) {
        fprintf(stderr, "engine: %s\n", error.text);
        return eplb_status_exit_code(status);
    }
    tell(pipe, ENGINE_HAS_RANKS, team);
    work(team, seed, pipe);
    team_destroy(team);
    return 128 + eplb_signals_caught(&count);
}

void engine_main(int argc, char **argv)
{
    fleet_main(argc, argv);
    if (argc == ARGUMENTS && strcmp(argv[1], ENGINE_ARGUMENT) == 0)
        exit(run(argv));
}

/* ----------------------------------------------------------------------------------- in the test */

void engine_start(struct engine *engine, const char *directory, const char *instance, uint64_t seed)
{
    char words[ARGUMENTS][WORD];
    char *arguments[ARGUMENTS + 1] = {NULL};
    int ends[2];
    struct eplb_error error;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    snprintf(words[0], WORD, "engine");
    snprintf(words[1], WORD, ENGINE_ARGUMENT);
    snprintf(words[2], WORD, "%s", directory);
    snprintf(words[3], WORD, "%s", instance);
    snprintf(words[4], WORD, "%" PRIu64, seed);
    snprintf(words[5], WORD, "%d", ends[1]);
    for (int i = 0; i < ARGUMENTS; i++)
        arguments[i] = words[i];
    const struct eplb_process_params params = {
        .path = "/proc/self/exe", .arguments = arguments, .keep = &ends[1], .num_keep = 1};
    *engine = (struct engine){.news = ends[0]};
    enum eplb_status status = eplb_process_start(&params, &engine->process, &error);
    close(ends[1]);
    if (status != EPLB_OK)
        fail_msg("%s", error.text);
}

/** Reads one piece of news; -1 when there is none yet, 0 when there will be none. */
static ssize_t read_news(struct engine *engine)
{
    struct news news;
    ssize_t got = read(engine->news, &news, sizeof news);
    assert_true(got == 0 || got == sizeof news || (got < 0 && errno == EAGAIN));
    if (got > 0) {
        engine->stage = (enum engine_stage)news.stage;
        memcpy(engine->ranks, news.ranks, sizeof news.ranks);
    }
    return got;
}

static bool await_news(const struct engine *engine, int64_t deadline)
{
    struct pollfd watched = {.fd = engine->news, .events = POLLIN};
    int64_t left = deadline - now();
    return poll(&watched, 1, left <= 0 ? 0 : (int)(left / MS) + 1) > 0;
}

void engine_look(struct engine *engine)
{
    while (read_news(engine) > 0)
        continue;
}

void engine_await(struct engine *engine, enum engine_stage stage)
{
    int64_t deadline = now() + PATIENCE_NS;
    while (engine->stage < stage) {
        assert_true(await_news(engine, deadline));
        if (read_news(engine) == 0)
            fail_msg("the engine has ended in stage %d", engine->stage);
    }
}

void engine_linger(struct engine *engine, int64_t ns)
{
    struct eplb_process_end end;
    char text[EPLB_PROCESS_END_TEXT];
    if (eplb_process_wait(&engine->process, now() + ns, &end))
        fail_msg("the engine %s", eplb_process_end_text(&end, text));
}

struct eplb_process_end engine_await_end(struct engine *engine)
{
    struct eplb_process_end end = {.exit_code = 0};
    assert_true(eplb_process_wait(&engine->process, now() + PATIENCE_NS, &end));
    return end;
}

bool engine_await_gone(struct engine *engine, int64_t deadline)
{
    for (ssize_t got = -1; got != 0;) {
        if (!await_news(engine, deadline)) {
            kill(-(pid_t)engine->process.pid, SIGKILL);
            return false;
        }
        got = read_news(engine);
    }
    close(engine->news);
    return true;
}
