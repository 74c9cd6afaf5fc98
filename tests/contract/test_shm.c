/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The contract of a process group, kept by `shm`: every rank that runs is a process. */
#include "contract/group_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "eplb/shm.h"
#include "support/children.h"
#include "support/shm_place.h"

struct group {
    struct shm_place place;
    char instance[32];
    pid_t maker;
    uint64_t generation;
    struct eplb_shm *shm;                    /* of no use in a child */
    struct eplb_shm *ranks[MAX_STAGE_RANKS]; /* attached by this process; NULL: not yet */
};

static void *create(const struct contract_request *request)
{
    static int created = 0;
    struct group *group = calloc(1, sizeof *group);
    assert_non_null(group);
    shm_place_open(&group->place);
    snprintf(group->instance, sizeof group->instance, "group%d", created++);
    group->maker = getpid();
    struct eplb_shm_params params;
    eplb_shm_params_init(&params);
    params.instance_name = group->instance;
    params.directory = group->place.path;
    params.num_ranks = request->num_ranks;
    params.max_ops = request->max_ops;
    params.transfer_ring_bytes = request->transfer_bytes;
    struct eplb_error error;
    if (eplb_shm_create(&params, &group->shm, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    group->generation = eplb_shm_generation(group->shm);
    return group;
}

static void destroy(void *made)
{
    struct group *group = made;
    for (int32_t rank = 0; rank < MAX_STAGE_RANKS; rank++)
        eplb_shm_destroy(group->ranks[rank]);
    eplb_shm_destroy(group->shm);
    assert_int_equal(shm_place_count(&group->place), 0);
    shm_place_close(&group->place);
    free(group);
}

static void attach(struct group *group, int32_t rank)
{
    struct eplb_shm_attach_params params;
    eplb_shm_attach_params_init(&params);
    params.instance_name = group->instance;
    params.directory = group->place.path;
    params.generation = group->generation;
    params.rank = rank;
    struct eplb_error error;
    if (eplb_shm_attach(&params, &group->ranks[rank], &error) == EPLB_OK)
        return;
    if (getpid() != group->maker)
        child_fail(error.text);
    fail_msg("%s", error.text);
}

static const struct eplb_group *view(void *made, int32_t rank)
{
    struct group *group = made;
    if (rank == EPLB_NO_RANK)
        return eplb_shm_group(group->shm);
    if (group->ranks[rank] == NULL)
        attach(group, rank);
    return eplb_shm_group(group->ranks[rank]);
}

struct start {
    void (*run)(void *context, int32_t rank);
    void *context;
};

static void enter(void *context, int32_t rank)
{
    const struct start *start = context;
    start->run(start->context, rank);
}

static void run_ranks(void *made, int32_t num_ranks, void (*run)(void *context, int32_t rank), void *context)
{
    struct child children[MAX_STAGE_RANKS];
    struct start start = {.run = run, .context = context};
    const struct eplb_group *engine = view(made, EPLB_NO_RANK);
    int64_t deadline = stage_now() + 2 * PATIENCE_NS;
    for (int32_t rank = 0; rank < num_ranks; rank++)
        child_start(&children[rank], enter, &start, rank);
    for (int32_t rank = 0; rank >= 0;) {
        rank = children_next(children, num_ranks, deadline);
        if (rank >= 0 && children[rank].failed) {
            print_error("rank %d ended with status 0x%x\n", (int)rank, (unsigned)children[rank].status);
            /* The others may wait for it. */
            engine->member_dead(engine->self, rank);
        }
    }
    assert_int_equal(children_finish(children, num_ranks, deadline), 0);
}

int main(void)
{
    const struct contract_maker shm = {
        .name = "shm", .create = create, .destroy = destroy, .view = view, .run_ranks = run_ranks};
    return group_contract_run(&shm);
}
