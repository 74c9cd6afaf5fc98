/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "live/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/worker.h"
#include "eplb/executor.h"
#include "live/stage.h"
#include "support/allocations.h"

/* Enough for a process and its libraries, and not for a model. */
#define LIMITED_BYTES (64 << 20)

enum { COUNTED_FROM = 10, LINE_BYTES = 1024 };

/** The process is one worker. */
static struct {
    const char *command;
    int32_t rank;
    int log;
    bool activates; /* the forward under way does */
    bool has_held;
} self;

/* ------------------------------------------------------------------------------------- its log */

static void write_line(void *context, const struct eplb_log_record *record)
{
    (void)context;
    char line[LINE_BYTES];
    size_t length = eplb_log_format(record, line, sizeof line);
    length = length < sizeof line ? length : sizeof line - 1;
    line[length++] = '\n';
    if (write(self.log, line, length) != (ssize_t)length)
        _exit(EXIT_FAILURE);
}

/** A line of a worker's own. */
static void say(const char *what, const char *message)
{
    const struct eplb_log_field field = {.key = "message", .type = EPLB_LOG_TEXT, .value.text = message};
    const struct eplb_log_record record = {
        .size = sizeof record, .level = EPLB_LOG_INFO, .prefix = what, .num_fields = 1, .fields = &field};
    write_line(NULL, &record);
}

static const struct eplb_log_sink sink = {.size = sizeof sink, .write = write_line};

/* --------------------------------------------------------------------------------- what it does wrong */

/* The linker sends the worker's calls here. */
enum eplb_status __real_eplb_executor_start_step(struct eplb_executor *executor,
                                                 const struct eplb_command *command,
                                                 struct eplb_error *error);
enum eplb_status __real_eplb_executor_finish_step(struct eplb_executor *executor, struct eplb_error *error);
enum eplb_status __wrap_eplb_executor_start_step(struct eplb_executor *executor,
                                                 const struct eplb_command *command,
                                                 struct eplb_error *error);
enum eplb_status __wrap_eplb_executor_finish_step(struct eplb_executor *executor, struct eplb_error *error);

static bool behaves(const char *command)
{
    return strcmp(self.command, command) == 0;
}

static void count_allocations(uint64_t seq)
{
    if (seq == COUNTED_FROM)
        allocations_reset(0);
    if (seq > COUNTED_FROM && allocations_counted() != 0) {
        fprintf(stderr, "rank %d: %zu allocations before forward %llu\n", (int)self.rank,
                allocations_counted(), (unsigned long long)seq);
        _exit(EXIT_FAILURE);
    }
}

enum eplb_status __wrap_eplb_executor_start_step(struct eplb_executor *executor,
                                                 const struct eplb_command *command, struct eplb_error *error)
{
    self.activates = command->update_layer_id != EPLB_NO_LAYER;
    if (behaves(STAGE_COUNTS))
        count_allocations(command->seq);
    return __real_eplb_executor_start_step(executor, command, error);
}

/** Waits for the signal that every thread of this process blocks. */
static void hold(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, WORKER_RELEASE);
    say(WORKER_HOLDS, "");
    while (sigwaitinfo(&set, NULL) < 0 && errno == EINTR)
        continue;
}

/* Everything is decided and switched then; only this rank does not say so. */
enum eplb_status __wrap_eplb_executor_finish_step(struct eplb_executor *executor, struct eplb_error *error)
{
    enum eplb_status status = __real_eplb_executor_finish_step(executor, error);
    if (behaves(STAGE_HOLDS) && self.rank == 1 && self.activates && !self.has_held) {
        self.has_held = true;
        hold();
    }
    return status;
}

static void limit(void)
{
    const struct rlimit limits = {.rlim_cur = LIMITED_BYTES, .rlim_max = LIMITED_BYTES};
    if (setrlimit(RLIMIT_AS, &limits) != 0)
        _exit(EXIT_FAILURE);
}

int worker_main(int argc, char **argv)
{
    struct eplb_error error = {.status = EPLB_OK};
    if (argc != WORKER_LOG + 1)
        return EXIT_FAILURE;
    self.command = argv[WORKER_COMMAND];
    self.rank = (int32_t)strtol(argv[WORKER_RANK], NULL, 10);
    self.log = open(argv[WORKER_LOG], O_WRONLY | O_APPEND | O_CLOEXEC);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, WORKER_RELEASE);
    if (self.log < 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return EXIT_FAILURE;
    if (behaves(STAGE_LIMITED))
        limit();
    if (behaves(STAGE_WAITS))
        hold();
    const struct eplb_worker_params params = {.instance_name = argv[WORKER_INSTANCE],
                                              .directory = argv[WORKER_DIRECTORY],
                                              .generation = strtoull(argv[WORKER_GENERATION], NULL, 10),
                                              .ep_rank = behaves(STAGE_LOST) ? EPLB_MAX_RANKS - 1 : self.rank,
                                              .log = &sink};
    enum eplb_status status = eplb_worker_run(&params, &error);
    if (status == EPLB_OK)
        return 0;
    say(WORKER_FAILS, error.text);
    fprintf(stderr, "rank %d: %s\n", (int)self.rank, error.text);
    return eplb_status_exit_code(status);
}
