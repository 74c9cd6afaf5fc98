/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The contract of a process group, kept by `threads`. */
#include "contract/group_stage.h"
#include "contract/rank_threads.h"
#include "eplb/threads.h"

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

int main(void)
{
    const struct contract_maker threads = {
        .name = "threads", .create = create, .destroy = destroy, .view = view, .run_ranks = run_rank_threads};
    return group_contract_run(&threads);
}
