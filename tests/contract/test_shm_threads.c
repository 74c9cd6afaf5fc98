/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The contract of a process group, kept by the views of `shm` when ranks are threads over one mapping:
 * what ThreadSanitizer can look at. */
#include "contract/group_stage.h"
#include "contract/rank_threads.h"
#include "transport/shm_views.h"

struct group {
    size_t bytes;
    void *payload;
    struct eplb_shm *views[MAX_STAGE_RANKS + 1]; /* the engine's last */
};

static void *create(const struct contract_request *request)
{
    /* Looking before sleeping has its turn here, however few processors there are. */
    enum { SPIN_NS = 2000 };
    static struct group group;
    const struct eplb_mesh_limits limits = {request->num_ranks, request->max_ops, request->transfer_bytes,
                                            16 * 1024};
    group = (struct group){0};
    assert_int_equal(eplb_shm_payload_size(&limits, &group.bytes, NULL), EPLB_OK);
    group.payload = stage_memory(group.bytes);
    eplb_shm_payload_format(group.payload, &limits);
    for (int32_t rank = EPLB_NO_RANK; rank < request->num_ranks; rank++) {
        struct eplb_shm **view = &group.views[rank == EPLB_NO_RANK ? MAX_STAGE_RANKS : rank];
        assert_int_equal(eplb_shm_view_make(group.payload, &limits, rank, SPIN_NS, view, NULL), EPLB_OK);
    }
    return &group;
}

static void destroy(void *made)
{
    struct group *group = made;
    for (size_t i = 0; i < LENGTH(group->views); i++)
        eplb_shm_destroy(group->views[i]);
    stage_release(group->payload, group->bytes);
}

static const struct eplb_group *view(void *made, int32_t rank)
{
    const struct group *group = made;
    return eplb_shm_group(group->views[rank == EPLB_NO_RANK ? MAX_STAGE_RANKS : rank]);
}

int main(void)
{
    const struct contract_maker shm = {.name = "shm over one mapping",
                                       .create = create,
                                       .destroy = destroy,
                                       .view = view,
                                       .run_ranks = run_rank_threads};
    return group_contract_run(&shm);
}
