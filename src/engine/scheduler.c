/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/scheduler.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/** One sequence's room on a rank. */
struct place {
    uint64_t sequence;
    int32_t position;      /* of its next row */
    int32_t prompt_length; /* 0: the place is free */
    int32_t decoded_from;  /* position of the first decode row */
    int32_t num_rows;      /* of the whole sequence */
};

/** The caches of one rank whose prompts are not through, oldest first: a ring. */
struct waiting {
    int32_t *caches; /* [num_caches] */
    int32_t first;
    int32_t count;
};

struct eplb_scheduler {
    struct eplb_scheduler_params params;
    struct place *places;        /* [num_ranks * num_caches] */
    struct waiting *waiting;     /* [num_ranks] */
    int32_t *waiting_caches;     /* [num_ranks * num_caches] */
    struct eplb_model_row *rows; /* [num_ranks * max_rows] */
    uint64_t forwards;           /* made */
    uint64_t begun;
    uint64_t finished;
};

enum eplb_status eplb_scheduler_params_check(const struct eplb_scheduler_params *params,
                                             struct eplb_error *error)
{
    EPLB_ASSERT(params->traffic != NULL);
    if (params->num_ranks < 1 || params->num_ranks > EPLB_MAX_RANKS)
        EPLB_FAIL(EPLB_INVALID, "scheduler: num_ranks is %d; allowed is 1 to %d", params->num_ranks,
                  EPLB_MAX_RANKS);
    if (params->num_caches < 1)
        EPLB_FAIL(EPLB_INVALID, "scheduler: num_caches is %d; allowed is 1 or more", params->num_caches);
    if (params->max_rows < params->num_caches)
        EPLB_FAIL(EPLB_INVALID,
                  "scheduler: max_rows is %d; allowed is %d, the number of caches, or more: every running "
                  "sequence has a row in each forward",
                  params->max_rows, params->num_caches);
    if (params->admit_interval < 1)
        EPLB_FAIL(EPLB_INVALID, "scheduler: admit_interval is %d; allowed is 1 or more",
                  params->admit_interval);
    if (params->busy_ranks < 1 || params->busy_ranks > params->num_ranks)
        EPLB_FAIL(EPLB_INVALID, "scheduler: busy_ranks is %d; allowed is 1 to %d, the number of ranks",
                  params->busy_ranks, params->num_ranks);
    int64_t places = (int64_t)params->busy_ranks * params->num_caches;
    if (params->fixed_sequences < 0 || params->fixed_sequences > places)
        EPLB_FAIL(EPLB_INVALID,
                  "scheduler: fixed_sequences is %d; allowed is 0 to %lld, the caches of the busy ranks",
                  params->fixed_sequences, (long long)places);
    return EPLB_OK;
}

struct eplb_scheduler *eplb_scheduler_take(struct eplb_arena *arena,
                                           const struct eplb_scheduler_params *params)
{
    size_t ranks = (size_t)params->num_ranks;
    size_t places = ranks * (size_t)params->num_caches;
    struct eplb_scheduler parts = {.params = *params};
    struct eplb_scheduler *scheduler = eplb_arena_take(arena, 1, sizeof *scheduler);
    parts.places = eplb_arena_take(arena, places, sizeof *parts.places);
    parts.waiting = eplb_arena_take(arena, ranks, sizeof *parts.waiting);
    parts.waiting_caches = eplb_arena_take(arena, places, sizeof *parts.waiting_caches);
    parts.rows = eplb_arena_take(arena, ranks * (size_t)params->max_rows, sizeof *parts.rows);
    if (scheduler != NULL)
        *scheduler = parts;
    return scheduler;
}

void eplb_scheduler_init(struct eplb_scheduler *scheduler, const struct eplb_scheduler_params *params)
{
    EPLB_ASSERT(eplb_scheduler_params_check(params, NULL) == EPLB_OK);
    EPLB_ASSERT(params->num_ranks == scheduler->params.num_ranks &&
                params->num_caches == scheduler->params.num_caches &&
                params->max_rows == scheduler->params.max_rows);
    size_t caches = (size_t)params->num_caches;
    scheduler->params = *params;
    memset(scheduler->places, 0, (size_t)params->num_ranks * caches * sizeof *scheduler->places);
    for (size_t rank = 0; rank < (size_t)params->num_ranks; rank++)
        scheduler->waiting[rank] = (struct waiting){.caches = scheduler->waiting_caches + rank * caches};
    scheduler->forwards = 0;
    scheduler->begun = 0;
    scheduler->finished = 0;
}

static struct place *place_of(const struct eplb_scheduler *scheduler, int32_t rank, int32_t cache)
{
    return &scheduler->places[(size_t)rank * (size_t)scheduler->params.num_caches + (size_t)cache];
}

static void begin(struct eplb_scheduler *scheduler, int32_t rank, int32_t cache)
{
    const struct eplb_traffic *traffic = scheduler->params.traffic;
    struct waiting *waiting = &scheduler->waiting[rank];
    uint64_t sequence = scheduler->begun++;
    int32_t prompt_length = eplb_traffic_prompt_length(traffic, sequence);
    *place_of(scheduler, rank, cache) =
        (struct place){.sequence = sequence,
                       .prompt_length = prompt_length,
                       .decoded_from = prompt_length,
                       .num_rows = prompt_length + eplb_traffic_new_tokens(traffic, sequence) - 1};
    EPLB_ASSERT(waiting->count < scheduler->params.num_caches);
    int64_t last = (int64_t)waiting->first + waiting->count++;
    waiting->caches[last % scheduler->params.num_caches] = cache;
}

/** The sequences of one rank are neighbours. */
static void admit_fixed(struct eplb_scheduler *scheduler)
{
    int64_t sequences = scheduler->params.fixed_sequences;
    int64_t ranks = scheduler->params.busy_ranks;
    for (int32_t rank = 0; rank < ranks; rank++) {
        int32_t count = (int32_t)(sequences * (rank + 1) / ranks - sequences * rank / ranks);
        for (int32_t cache = 0; cache < count; cache++)
            if (place_of(scheduler, rank, cache)->prompt_length == 0)
                *place_of(scheduler, rank, cache) =
                    (struct place){.sequence = scheduler->begun++, .prompt_length = 1, .num_rows = INT32_MAX};
    }
}

static void admit(struct eplb_scheduler *scheduler)
{
    if (scheduler->params.fixed_sequences > 0) {
        admit_fixed(scheduler);
        return;
    }
    for (int32_t cache = 0; cache < scheduler->params.num_caches; cache++)
        for (int32_t rank = 0; rank < scheduler->params.busy_ranks; rank++)
            if (place_of(scheduler, rank, cache)->prompt_length == 0)
                begin(scheduler, rank, cache);
}

/** Writes a sequence's next row. After its last one the place is free. */
static void make_row(struct eplb_scheduler *scheduler, struct place *place, int32_t cache,
                     struct eplb_model_row *row)
{
    bool decode = place->position >= place->decoded_from;
    bool given = place->position < place->prompt_length;
    *row = (struct eplb_model_row){
        .sequence = place->sequence,
        .cache = cache,
        .position = place->position,
        .token = given ? eplb_traffic_token(scheduler->params.traffic, place->sequence, place->position)
                       : EPLB_SAMPLED_TOKEN,
        .kind = decode ? EPLB_TOKEN_DECODE : EPLB_TOKEN_PREFILL,
        .sample = place->position >= place->prompt_length - 1,
    };
    if (++place->position == place->num_rows) {
        *place = (struct place){0};
        scheduler->finished++;
    }
}

static int32_t make_decode(struct eplb_scheduler *scheduler, int32_t rank, struct eplb_model_row *rows)
{
    int32_t count = 0;
    for (int32_t cache = 0; cache < scheduler->params.num_caches; cache++) {
        struct place *place = place_of(scheduler, rank, cache);
        if (place->prompt_length > 0 && place->position >= place->decoded_from)
            make_row(scheduler, place, cache, &rows[count++]);
    }
    return count;
}

static int32_t make_prefill(struct eplb_scheduler *scheduler, int32_t rank, struct eplb_model_row *rows,
                            int32_t room)
{
    struct waiting *waiting = &scheduler->waiting[rank];
    int32_t count = 0;
    while (count < room && waiting->count > 0) {
        int32_t cache = waiting->caches[waiting->first];
        make_row(scheduler, place_of(scheduler, rank, cache), cache, &rows[count]);
        if (rows[count++].sample) {
            waiting->first = (waiting->first + 1) % scheduler->params.num_caches;
            waiting->count--;
        }
    }
    return count;
}

void eplb_scheduler_next(struct eplb_scheduler *scheduler, struct eplb_rank_batch *batches)
{
    int32_t max_rows = scheduler->params.max_rows;
    if (scheduler->forwards++ % (uint32_t)scheduler->params.admit_interval == 0)
        admit(scheduler);
    for (int32_t rank = 0; rank < scheduler->params.num_ranks; rank++) {
        struct eplb_model_row *rows = scheduler->rows + (size_t)rank * (size_t)max_rows;
        /* Decode rows first: a prompt that ends in this forward is decoded from the next one on. */
        int32_t decode = make_decode(scheduler, rank, rows);
        int32_t prefill = make_prefill(scheduler, rank, rows + decode, max_rows - decode);
        batches[rank] =
            (struct eplb_rank_batch){.rows = rows,
                                     .num_rows = decode + prefill,
                                     .tokens = {.prefill_tokens = prefill, .decode_tokens = decode}};
    }
}

uint64_t eplb_scheduler_begun(const struct eplb_scheduler *scheduler)
{
    return scheduler->begun;
}

uint64_t eplb_scheduler_finished(const struct eplb_scheduler *scheduler)
{
    return scheduler->finished;
}
