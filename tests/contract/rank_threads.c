/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "contract/rank_threads.h"

#include "contract/group_stage.h"
#include "os/thread.h"

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

void run_rank_threads(void *made, int32_t num_ranks, void (*run)(void *context, int32_t rank), void *context)
{
    (void)made;
    struct start starts[MAX_STAGE_RANKS];
    for (int32_t rank = 0; rank < num_ranks; rank++) {
        starts[rank] = (struct start){.run = run, .context = context, .rank = rank};
        assert_int_equal(eplb_thread_start(&starts[rank].thread, "rank", enter, &starts[rank], NULL),
                         EPLB_OK);
    }
    for (int32_t rank = 0; rank < num_ranks; rank++)
        eplb_thread_join(&starts[rank].thread);
}
