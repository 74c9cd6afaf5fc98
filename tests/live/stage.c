/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "live/stage.h"

#include <dirent.h>
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
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "eplb/clock.h"
#include "live/worker.h"

#define MS INT64_C(1000000)
#define LONGEST_WAY_NS (200 * MS)

enum { PHASES = 3 };

/* ------------------------------------------------------------------------------------- a run */

static void free_tables(struct stage *stage)
{
    free(stage->rates);
    free(stage->initial);
    stage->rates = NULL;
    stage->initial = NULL;
}

/** One expert in ten takes a third of the load, and they stand together on the first ranks. */
static void make_rates(struct stage *stage)
{
    const struct eplb_shape *shape = &stage->params.shape;
    size_t layers = (size_t)shape->num_layers;
    size_t experts = (size_t)shape->num_experts;
    stage->rates = malloc(PHASES * layers * experts * sizeof *stage->rates);
    assert_non_null(stage->rates);
    for (size_t phase = 0; phase < PHASES; phase++)
        for (size_t layer = 0; layer < layers; layer++)
            for (size_t expert = 0; expert < experts; expert++) {
                size_t first = (phase * experts / PHASES + layer) % experts;
                size_t place = (expert + experts - first) % experts;
                stage->rates[(phase * layers + layer) * experts + expert] = 1000 / (int64_t)(place + 1) + 1;
            }
    stage->params.skew_rates = stage->rates;
    stage->params.skew_phases = PHASES;
}

void stage_prepare(struct stage *stage)
{
    struct eplb_run_params *params = &stage->params;
    size_t slots = (size_t)params->shape.num_slots;
    free_tables(stage);
    params->model.num_layers = params->shape.num_layers;
    params->model.num_experts = params->shape.num_experts;
    assert_int_equal(eplb_traffic_init(&stage->traffic, &stage->traffic_params, &stage->error), EPLB_OK);
    stage->initial = malloc((size_t)params->shape.num_layers * slots * sizeof *stage->initial);
    assert_non_null(stage->initial);
    for (int32_t layer = 0; layer < params->shape.num_layers; layer++)
        eplb_placement_initial(&params->shape, stage->initial + (size_t)layer * slots);
    params->initial = stage->initial;
    params->traffic = &stage->traffic;
    if (params->routing == EPLB_ROUTING_SKEW)
        make_rates(stage);
}

/**
 * Lets the threads that plan and prepare have a processor, for longer and longer until they had one: with
 * more busy processes than processors, a short run could be over before.
 */
static void give_way(void *context, const struct eplb_run_progress *progress)
{
    struct stage *stage = context;
    const struct eplb_manager_status *manager = progress->manager;
    /* Release: whoever awaits the forward is to see what was logged before it. */
    atomic_store_explicit(&stage->forwards, progress->step, memory_order_release);
    if (manager == NULL || progress->step % 2 != 0)
        return;
    bool waits = manager->policy_running || (manager->preparing_layer != EPLB_NO_LAYER && !manager->ready);
    int64_t longer = stage->way_ns == 0               ? MS
                     : stage->way_ns < LONGEST_WAY_NS ? 2 * stage->way_ns
                                                      : LONGEST_WAY_NS;
    stage->way_ns = waits ? longer : 0;
    if (waits)
        stage_linger(stage->way_ns);
}

static void open_worker_log(struct stage *stage)
{
    stage->worker_log = memfd_create("workers' log", MFD_CLOEXEC);
    assert_true(stage->worker_log >= 0);
    snprintf(stage->worker_log_name, sizeof stage->worker_log_name, "/proc/%d/fd/%d", (int)getpid(),
             stage->worker_log);
}

static void set_params(struct stage *stage, const char *instance, int32_t ranks)
{
    stage->traffic_params =
        (struct eplb_traffic_params){.vocab_size = 256, .prompt_tokens = 6, .new_tokens = 24, .seed = 7};
    stage->params = (struct eplb_run_params){.instance_name = instance,
                                             .directory = stage->place->path,
                                             .worker_path = "/proc/self/exe",
                                             .worker_command = STAGE_WORKER,
                                             .log_name = stage->worker_log_name,
                                             .eplb = true,
                                             .policy = eplb_policy_find("balanced").ops,
                                             .min_peak_load_improvement = 0.02,
                                             .update_interval_steps = 10,
                                             .prepare_timeout_seconds = 30,
                                             .transfer_timeout_seconds = 10,
                                             .transfer_chunk_bytes = 20000,
                                             .transfer_inflight_bytes = 100000,
                                             .silence_timeout_ns = 30000 * MS,
                                             .max_rows = 12,
                                             .num_caches = 8,
                                             .admit_interval = 16,
                                             .busy_ranks = ranks,
                                             .routing = EPLB_ROUTING_SKEW,
                                             .skew_seed = 3,
                                             .skew_period = 60,
                                             .steps = 120,
                                             .window_forwards = 20,
                                             .log = &stage->notes.sink,
                                             .context = stage,
                                             .progress = give_way};
    eplb_model_config_init(&stage->params.model);
    stage->params.model.hidden_size = 32;
    stage->params.model.num_heads = 2;
    stage->params.model.expert_hidden_size = 32;
    stage->params.model.shared_hidden_size = 32;
    stage->params.model.kv_window = 32;
    /* One rank has room for no expert twice. */
    assert_int_equal(eplb_shape_init(&stage->params.shape, 4, 32, ranks, ranks > 1, NULL), EPLB_OK);
}

struct stage *stage_open(const struct shm_place *place, const char *instance, int32_t ranks)
{
    struct stage *stage =
        mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(stage, MAP_FAILED);
    stage->place = place;
    open_worker_log(stage);
    notes_init(&stage->notes);
    set_params(stage, instance, ranks);
    stage_prepare(stage);
    return stage;
}

void stage_close(struct stage *stage)
{
    free_tables(stage);
    /* The notes go with the memory: a child that ran the stage may have been killed with their lock. */
    close(stage->worker_log);
    munmap(stage, sizeof *stage);
}

void stage_reshape(struct stage *stage, int32_t layers, int32_t experts, int32_t redundant)
{
    struct eplb_shape *shape = &stage->params.shape;
    assert_int_equal(eplb_shape_init(shape, layers, experts, shape->ep_size, redundant, &stage->error),
                     EPLB_OK);
    stage_prepare(stage);
}

void stage_turn_off(struct stage *stage)
{
    stage->params.eplb = false;
    stage_reshape(stage, stage->params.shape.num_layers, stage->params.shape.num_experts, 0);
}

enum eplb_status stage_run(struct stage *stage)
{
    atomic_store_explicit(&stage->forwards, 0, memory_order_relaxed);
    stage->way_ns = 0;
    stage->status = eplb_run(&stage->params, &stage->outcome, &stage->error);
    return stage->status;
}

void stage_check_nothing_is_left(const struct stage *stage)
{
    assert_int_equal(shm_place_count(stage->place), 0);
    assert_true(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

void stage_run_well(struct stage *stage)
{
    if (stage_run(stage) != EPLB_OK) {
        char *text = stage_worker_text(stage);
        fputs(text, stderr);
        free(text);
        fail_msg("%s", stage->error.text);
    }
    stage_check_nothing_is_left(stage);
}

/* ------------------------------------------------------------------------------------- logs */

char *stage_worker_text(const struct stage *stage)
{
    off_t size = lseek(stage->worker_log, 0, SEEK_END);
    assert_true(size >= 0);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(stage->worker_log, text, (size_t)size, 0), size);
    text[size] = '\0';
    return text;
}

int stage_worker_lines(const struct stage *stage, const char *text)
{
    char *all = stage_worker_text(stage);
    int count = 0;
    char *rest = NULL;
    for (const char *line = strtok_r(all, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        count += strstr(line, text) != NULL;
    free(all);
    return count;
}

/* ------------------------------------------------------------------------------------- processes */

/** The parent of a process; 0: there is no such process. */
static int64_t parent_of(const char *pid)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    text[size < 0 ? 0 : size] = '\0';
    /* The name before may hold anything but ends with the last bracket. */
    const char *end = strrchr(text, ')');
    return end == NULL ? 0 : strtoll(end + 4, NULL, 10);
}

int stage_children(int64_t parent, int64_t pids[STAGE_MAX_WORKERS])
{
    int count = 0;
    DIR *folder = opendir("/proc");
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && parent_of(entry->d_name) == parent &&
            count < STAGE_MAX_WORKERS)
            pids[count++] = strtoll(entry->d_name, NULL, 10);
    closedir(folder);
    return count;
}

/** The rank on the command line of a worker; -1: it is none, or has not been started wholly. */
static int32_t rank_of(int64_t pid)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        return -1;
    text[size] = '\0';
    const char *word = text;
    if (strncmp(word + strlen(word) + 1, STAGE_WORKER, strlen(STAGE_WORKER)) != 0)
        return -1;
    for (int i = 0; i < WORKER_RANK; i++)
        word += strlen(word) + 1;
    return (int32_t)strtol(word, NULL, 10);
}

int64_t stage_worker(int64_t engine, int32_t rank)
{
    int64_t pids[STAGE_MAX_WORKERS];
    int count = stage_children(engine, pids);
    for (int i = 0; i < count; i++)
        if (rank_of(pids[i]) == rank)
            return pids[i];
    return 0;
}

int64_t stage_await_worker(int64_t engine, int32_t rank, int64_t deadline)
{
    for (;;) {
        int64_t pid = stage_worker(engine, rank);
        if (pid != 0 || eplb_clock_system()->now(NULL) >= deadline)
            return pid;
        stage_linger(MS);
    }
}

void stage_release(int64_t worker)
{
    assert_int_equal(kill((pid_t)worker, WORKER_RELEASE), 0);
}

void stage_linger(int64_t ns)
{
    struct timespec time = {.tv_sec = ns / (1000 * MS), .tv_nsec = ns % (1000 * MS)};
    (void)ppoll(NULL, 0, &time, NULL);
}

void stage_main(int argc, char **argv)
{
    if (argc > 1 && strncmp(argv[1], STAGE_WORKER, strlen(STAGE_WORKER)) == 0)
        exit(worker_main(argc, argv));
}
