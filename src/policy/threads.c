/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The shell around planning: threads that take layers, and the call that may use them.
 */
#include "base/assert.h"
#include "base/error.h"
#include "os/thread.h"
#include "policy/plan.h"

/** A run. Each worker takes layers until there is none left. */
struct crew {
    void (*plan_layer)(void *argument, int32_t worker, int32_t layer);
    void *argument;
    int32_t num_layers;
    struct eplb_mutex lock; /* of what follows */
    int32_t next_layer;
    int32_t next_worker;
};

static int32_t take(struct crew *crew, int32_t *next)
{
    eplb_mutex_lock(&crew->lock);
    int32_t taken = (*next)++;
    eplb_mutex_unlock(&crew->lock);
    return taken;
}

static void work(void *argument)
{
    struct crew *crew = argument;
    int32_t worker = take(crew, &crew->next_worker);
    int32_t layer;
    EPLB_ASSERT(worker < EPLB_MAX_WORKERS);
    while ((layer = take(crew, &crew->next_layer)) < crew->num_layers)
        crew->plan_layer(crew->argument, worker, layer);
}

static void run_alone(const struct crew *crew)
{
    for (int32_t layer = 0; layer < crew->num_layers; layer++)
        crew->plan_layer(crew->argument, 0, layer);
}

static void run_threads(void *context, int32_t num_workers, int32_t num_layers,
                        void (*plan_layer)(void *argument, int32_t worker, int32_t layer), void *argument)
{
    struct eplb_thread threads[EPLB_MAX_WORKERS - 1];
    struct crew crew = {.plan_layer = plan_layer, .argument = argument, .num_layers = num_layers};
    int32_t wanted = (num_workers < num_layers ? num_workers : num_layers) - 1;
    int32_t started = 0;
    EPLB_ASSERT(num_layers >= 1); /* so that no count of layers taken overflows below */
    (void)context;
    EPLB_ASSERT(num_workers >= 1 && num_workers <= EPLB_MAX_WORKERS);
    if (wanted < 1 || eplb_mutex_init(&crew.lock, NULL) != EPLB_OK) {
        run_alone(&crew);
        return;
    }
    /* A system without a further thread to give leaves the layers to those that there are. */
    while (started < wanted &&
           eplb_thread_start(&threads[started], "eplb-plan", work, &crew, NULL) == EPLB_OK)
        started++;
    work(&crew);
    for (int32_t i = 0; i < started; i++)
        eplb_thread_join(&threads[i]);
    EPLB_ASSERT(crew.next_worker == started + 1 && crew.next_layer == num_layers + started + 1);
    eplb_mutex_destroy(&crew.lock);
}

struct eplb_layer_runner eplb_layer_runner_threads(int32_t num_threads)
{
    EPLB_ASSERT(num_threads >= 1 && num_threads <= EPLB_MAX_WORKERS);
    return (struct eplb_layer_runner){
        .size = sizeof(struct eplb_layer_runner), .num_workers = num_threads, .run = run_threads};
}

enum eplb_status eplb_plan(const struct eplb_plan_request *request, void *scratch, struct eplb_plan *plan,
                           struct eplb_error *error)
{
    EPLB_TRY(eplb_plan_check(request, scratch, plan, error));
    struct eplb_layer_runner runner = eplb_layer_runner_threads(eplb_plan_workers(request));
    return eplb_plan_run(request, &runner, scratch, plan, error);
}
