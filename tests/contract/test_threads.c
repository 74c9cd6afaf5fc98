/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The contract of a process group, kept by `threads`. */
#include "contract/group_stage.h"
#include "eplb/threads.h"
#include "os/thread.h"

static void *create(const struct contract_request *request)
{
    struct eplb_threads_params params;
    eplb_threads_params_init(&params);
    params.num_ranks = request->num_ranks;
    params.max_ops = request->max_ops;
    params.transfer_ring_bytes = request->transfer_bytes;
    struct eplb_threads *threads;
    assert_int_equal(eplb_threads_create(&params, &threads, NULL), EPLB_OK);
    return threads;
}

static void destroy(void *made)
{
    eplb_threads_destroy(made);
}

static const struct eplb_group *view(void *made, int32_t rank)
{
    return eplb_threads_group(made, rank);
}

struct start {
    struct eplb_thread thread;
    void (*run)(void *context, int32_t rank);
    void *context;
    int32_t rank;
};

static void enter(void *argument)
{
    const struct start *start = argument;
    start->run(start->context, start->rank);
}

static void run_ranks(int32_t num_ranks, void (*run)(void *context, int32_t rank), void *context)
{
    struct start starts[MAX_STAGE_RANKS];
    for (int32_t rank = 0; rank < num_ranks; rank++) {
        starts[rank] = (struct start){.run = run, .context = context, .rank = rank};
        assert_int_equal(eplb_thread_start(&starts[rank].thread, "rank", enter, &starts[rank], NULL),
                         EPLB_OK);
    }
    for (int32_t rank = 0; rank < num_ranks; rank++)
        eplb_thread_join(&starts[rank].thread);
}

int main(void)
{
    const struct contract_maker threads = {
        .name = "threads", .create = create, .destroy = destroy, .view = view, .run_ranks = run_ranks};
    return group_contract_run(&threads);
}
