/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/moe.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "model/arithmetic.h"
#include "model/gemm.h"

/** Rows that a slot computes at a time: enough to make weights worth their way from memory. */
enum { TILE_ROWS = 256 };

/**
 * What precedes the rows of one source for one destination: always the same size. It tells of the
 * destination's slots; with routing `batch`, where no rank knows them before it has heard from all, of
 * the experts, and every destination hears the same.
 */
struct head {
    uint64_t seq;
    uint64_t generation;
    uint64_t version;
    int32_t layer;
    int32_t source;
    struct eplb_row_count rows[]; /* [head_rows] */
};

struct eplb_moe {
    struct eplb_moe_params params;
    eplb_gemm_kernel *gemm;
    int32_t head_rows; /* slots_per_rank; with batch, num_experts */
    size_t head_bytes;
    int32_t most_from_one; /* rows that one source can send to one rank */
    int32_t tile_rows;
    unsigned char *heads_out;  /* [ep_size][head_bytes] */
    unsigned char *heads_in;   /* [ep_size][head_bytes] */
    struct eplb_part *send;    /* [ep_size] */
    struct eplb_part *receive; /* [ep_size] */

    struct eplb_chooser chooser;
    const struct eplb_row_count **wanted; /* [ep_size] what the heads tell of experts */

    /* As a source of rows. Rows of one destination lie together, in the order of its slots. */
    int32_t *next;      /* [num_slots] where the slot's next row stands in `outgoing` */
    int32_t *first_out; /* [ep_size + 1] where a destination's rows begin */
    int32_t *places;    /* [max_rows][top_k] where a row's copies stand */
    float *outgoing;    /* [max_rows * top_k][hidden] rows, later the experts' outputs */

    /* As the owner of experts. Rows of one source lie together, in the order in which they came. */
    int32_t *first_in; /* [ep_size + 1] where a source's rows begin */
    int32_t *cursor;   /* [ep_size] */
    int32_t *order;    /* [arrivals] places of the rows, slot by slot */
    int64_t *rows;     /* [slots_per_rank] of all sources */
    int64_t *counted;  /* [slots_per_rank] */
    float *arrived;    /* [arrivals][hidden] rows, later the experts' outputs */
    float *tile;       /* [tile_rows][hidden] */
    float *gate_up;    /* [tile_rows][2 * expert_hidden] */
    float *inner;      /* [tile_rows][expert_hidden] */

    struct eplb_moe_work work;
};

/* ----------------------------------------------------------------------------------------- sizes */

/** A row's experts are different ones, and so are their slots. */
static size_t copies_on_one_rank(const struct eplb_moe_params *params)
{
    int32_t top_k = params->config.top_k;
    int32_t slots = params->shape.slots_per_rank;
    return (size_t)(top_k < slots ? top_k : slots);
}

int64_t eplb_moe_most_arrivals(const struct eplb_moe_params *params)
{
    return (int64_t)params->shape.ep_size * params->max_rows * (int64_t)copies_on_one_rank(params);
}

static int32_t head_rows_of(const struct eplb_moe_params *params)
{
    return params->routing == EPLB_ROUTING_BATCH ? params->shape.num_experts : params->shape.slots_per_rank;
}

static size_t head_bytes_of(const struct eplb_moe_params *params)
{
    return sizeof(struct head) + (size_t)head_rows_of(params) * sizeof(struct eplb_row_count);
}

static struct eplb_choose_params choose_params(const struct eplb_moe_params *params)
{
    return (struct eplb_choose_params){.shape = params->shape,
                                       .ep_rank = params->ep_rank,
                                       .max_rows = params->max_rows,
                                       .top_k = params->config.top_k,
                                       .routing = params->routing,
                                       .cost_per_active_slot = params->cost_per_active_slot,
                                       .cost_per_token = params->cost_per_token};
}

static int32_t tile_rows_of(const struct eplb_moe_params *params)
{
    int64_t most = (int64_t)params->shape.ep_size * params->max_rows;
    return most < TILE_ROWS ? (int32_t)most : TILE_ROWS;
}

static void take_source(struct eplb_arena *arena, const struct eplb_moe_params *params, struct eplb_moe *moe)
{
    size_t slots = (size_t)params->shape.num_slots;
    size_t copies = (size_t)params->max_rows * (size_t)params->config.top_k;
    const struct eplb_choose_params choose = choose_params(params);
    eplb_chooser_take(arena, &choose, &moe->chooser);
    moe->wanted = eplb_arena_take(arena, (size_t)params->shape.ep_size, sizeof *moe->wanted);
    moe->next = eplb_arena_take(arena, slots, sizeof *moe->next);
    moe->first_out = eplb_arena_take(arena, (size_t)params->shape.ep_size + 1, sizeof *moe->first_out);
    moe->places = eplb_arena_take(arena, copies, sizeof *moe->places);
    moe->outgoing = eplb_arena_take(arena, copies, (size_t)params->config.hidden_size * sizeof(float));
}

static void take_owner(struct eplb_arena *arena, const struct eplb_moe_params *params, struct eplb_moe *moe)
{
    size_t ranks = (size_t)params->shape.ep_size;
    size_t slots = (size_t)params->shape.slots_per_rank;
    size_t arrivals = (size_t)eplb_moe_most_arrivals(params);
    size_t tile = (size_t)tile_rows_of(params);
    size_t inner = (size_t)params->config.expert_hidden_size;
    size_t row = (size_t)params->config.hidden_size * sizeof(float);
    moe->first_in = eplb_arena_take(arena, ranks + 1, sizeof *moe->first_in);
    moe->cursor = eplb_arena_take(arena, ranks, sizeof *moe->cursor);
    moe->order = eplb_arena_take(arena, arrivals, sizeof *moe->order);
    moe->rows = eplb_arena_take(arena, slots, sizeof *moe->rows);
    moe->counted = eplb_arena_take(arena, slots, sizeof *moe->counted);
    moe->arrived = eplb_arena_take(arena, arrivals, row);
    moe->tile = eplb_arena_take(arena, tile, row);
    moe->gate_up = eplb_arena_take(arena, tile, 2 * inner * sizeof(float));
    moe->inner = eplb_arena_take(arena, tile, inner * sizeof(float));
}

struct eplb_moe *eplb_moe_take(struct eplb_arena *arena, const struct eplb_moe_params *params)
{
    size_t ranks = (size_t)params->shape.ep_size;
    struct eplb_moe parts = {.head_bytes = head_bytes_of(params)};
    struct eplb_moe *moe = eplb_arena_take(arena, 1, sizeof *moe);
    parts.heads_out = eplb_arena_take(arena, ranks, parts.head_bytes);
    parts.heads_in = eplb_arena_take(arena, ranks, parts.head_bytes);
    parts.send = eplb_arena_take(arena, ranks, sizeof *parts.send);
    parts.receive = eplb_arena_take(arena, ranks, sizeof *parts.receive);
    take_source(arena, params, &parts);
    take_owner(arena, params, &parts);
    if (moe != NULL)
        *moe = parts;
    return moe;
}

void eplb_moe_init(struct eplb_moe *moe, const struct eplb_moe_params *params)
{
    EPLB_ASSERT(params->max_rows >= 1 && eplb_moe_most_arrivals(params) <= INT32_MAX);
    EPLB_ASSERT((int64_t)params->max_rows * params->config.top_k <= INT32_MAX);
    const struct eplb_choose_params choose = choose_params(params);
    moe->params = *params;
    moe->head_rows = head_rows_of(params);
    eplb_chooser_init(&moe->chooser, &choose);
    moe->gemm = eplb_gemm();
    moe->most_from_one = params->max_rows * (int32_t)copies_on_one_rank(params);
    moe->tile_rows = tile_rows_of(params);
    moe->work = (struct eplb_moe_work){0};
}

/* ------------------------------------------------------------------------------- choosing, sorting */

/** Global slots ascend by destination, so one sum over all of them gives every place. */
static void find_places(struct eplb_moe *moe)
{
    const struct eplb_shape *shape = &moe->params.shape;
    int32_t place = 0;
    for (int32_t slot = 0; slot < shape->num_slots; slot++) {
        if (slot % shape->slots_per_rank == 0)
            moe->first_out[slot / shape->slots_per_rank] = place;
        moe->next[slot] = place;
        place += moe->chooser.sent[slot].rows;
    }
    moe->first_out[shape->ep_size] = place;
}

static void copy_rows(struct eplb_moe *moe, const struct eplb_moe_call *call)
{
    int32_t top_k = moe->params.config.top_k;
    size_t hidden = (size_t)moe->params.config.hidden_size;
    for (int32_t row = 0; row < call->num_rows; row++) {
        size_t first = (size_t)row * (size_t)top_k;
        for (size_t i = first; i < first + (size_t)top_k; i++) {
            moe->places[i] = moe->next[moe->chooser.slots[i]]++;
            memcpy(moe->outgoing + (size_t)moe->places[i] * hidden, call->x + (size_t)row * hidden,
                   hidden * sizeof *call->x);
        }
    }
}

static struct eplb_choose_call choice_of(const struct eplb_moe_call *call)
{
    return (struct eplb_choose_call){.seq = call->seq,
                                     .layer = call->layer,
                                     .replicas = call->replicas,
                                     .num_rows = call->num_rows,
                                     .experts = call->experts,
                                     .counted = call->counted};
}

static int64_t cpu_time(const struct eplb_moe *moe)
{
    return moe->params.cpu_time == NULL ? 0 : moe->params.cpu_time(moe->params.clock);
}

/** Chooses by the table, which needs to know of no other rank. */
static void choose_alone(struct eplb_moe *moe, const struct eplb_moe_call *call)
{
    const struct eplb_choose_call choice = choice_of(call);
    if (moe->params.routing == EPLB_ROUTING_BATCH)
        return;
    int64_t begin = cpu_time(moe);
    eplb_choose_by_table(&moe->chooser, &choice);
    moe->work.route_ns = cpu_time(moe) - begin;
}

/* ---------------------------------------------------------------------------------- what is coming */

static struct head *head_at(const struct eplb_moe *moe, unsigned char *heads, int32_t rank)
{
    return (struct head *)(void *)(heads + (size_t)rank * moe->head_bytes);
}

static enum eplb_status exchange(struct eplb_moe *moe, struct eplb_error *error)
{
    const struct eplb_group *group = moe->params.group;
    return group->all_to_all(group->self, moe->send, moe->receive, error);
}

static enum eplb_status exchange_heads(struct eplb_moe *moe, const struct eplb_moe_call *call,
                                       struct eplb_error *error)
{
    size_t rows = (size_t)moe->head_rows;
    for (int32_t rank = 0; rank < moe->params.shape.ep_size; rank++) {
        struct head *head = head_at(moe, moe->heads_out, rank);
        const struct eplb_row_count *told = moe->params.routing == EPLB_ROUTING_BATCH
                                                ? moe->chooser.wanted
                                                : moe->chooser.sent + (size_t)rank * rows;
        *head = (struct head){.seq = call->seq,
                              .generation = call->generation,
                              .version = call->replicas->version,
                              .layer = call->layer,
                              .source = moe->params.ep_rank};
        memcpy(head->rows, told, rows * sizeof *head->rows);
        moe->send[rank] = (struct eplb_part){head, moe->head_bytes};
        moe->receive[rank] = (struct eplb_part){head_at(moe, moe->heads_in, rank), moe->head_bytes};
    }
    return exchange(moe, error);
}

/** Who runs another forward, or under another placement, would send rows to slots that hold other experts. */
static enum eplb_status check_agreement(const struct eplb_moe *moe, const struct eplb_moe_call *call,
                                        const struct head *head, int32_t source, struct eplb_error *error)
{
    if (head->source != source)
        EPLB_FAIL(EPLB_INCONSISTENT,
                  "forward %" PRIu64 ", layer %d: rank %d got from rank %d what says that it is from rank %d",
                  call->seq, call->layer, moe->params.ep_rank, source, head->source);
    if (head->seq != call->seq || head->layer != call->layer)
        EPLB_FAIL(EPLB_INCONSISTENT,
                  "rank %d runs forward %" PRIu64 ", layer %d, and rank %d runs forward %" PRIu64
                  ", layer %d",
                  moe->params.ep_rank, call->seq, call->layer, source, head->seq, head->layer);
    const struct {
        const char *name;
        uint64_t ours, theirs;
    } numbers[] = {
        {"generation", call->generation, head->generation},
        {"weight version", call->replicas->version, head->version},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].ours != numbers[i].theirs)
            EPLB_FAIL(EPLB_INCONSISTENT,
                      "forward %" PRIu64 ", layer %d: rank %d runs %s %" PRIu64 " and rank %d runs %" PRIu64,
                      call->seq, call->layer, moe->params.ep_rank, numbers[i].name, numbers[i].ours, source,
                      numbers[i].theirs);
    return EPLB_OK;
}

/** What a peer says of its rows decides what is read and written here, so it is believed within bounds only.
 */
static enum eplb_status check_rows(const struct eplb_moe *moe, const struct eplb_moe_call *call,
                                   const struct head *head, int32_t source, struct eplb_error *error)
{
    int64_t most = (int64_t)moe->params.max_rows * moe->params.config.top_k;
    int64_t sum = 0;
    for (int32_t i = 0; i < moe->head_rows; i++) {
        const struct eplb_row_count *from = &head->rows[i];
        sum += from->rows;
        if (from->rows >= 0 && from->rows <= moe->params.max_rows && from->counted >= 0 &&
            from->counted <= from->rows)
            continue;
        if (moe->params.routing == EPLB_ROUTING_BATCH)
            EPLB_FAIL(EPLB_INCONSISTENT,
                      "forward %" PRIu64 ", layer %d: rank %d announces %d rows, %d of them counted, for "
                      "expert %d; allowed are 0 to %d rows",
                      call->seq, call->layer, source, from->rows, from->counted, i, moe->params.max_rows);
        EPLB_FAIL(EPLB_INCONSISTENT,
                  "forward %" PRIu64 ", layer %d: rank %d announces %d rows, %d of them counted, for "
                  "slot %d of rank %d; allowed are 0 to %d rows",
                  call->seq, call->layer, source, from->rows, from->counted, i, moe->params.ep_rank,
                  moe->params.max_rows);
    }
    if (moe->params.routing == EPLB_ROUTING_BATCH && sum > most)
        EPLB_FAIL(EPLB_INCONSISTENT,
                  "forward %" PRIu64 ", layer %d: rank %d announces %" PRId64
                  " rows for all experts; allowed are up to %" PRId64,
                  call->seq, call->layer, source, sum, most);
    return EPLB_OK;
}

static enum eplb_status check_heads(struct eplb_moe *moe, const struct eplb_moe_call *call,
                                    struct eplb_error *error)
{
    for (int32_t source = 0; source < moe->params.shape.ep_size; source++) {
        const struct head *head = head_at(moe, moe->heads_in, source);
        EPLB_TRY(check_agreement(moe, call, head, source, error));
        EPLB_TRY(check_rows(moe, call, head, source, error));
    }
    return EPLB_OK;
}

/** What arrives from each source, slot by slot; with batch, this is where the slots are chosen. */
static void find_arrivals(struct eplb_moe *moe, const struct eplb_moe_call *call)
{
    const struct eplb_shape *shape = &moe->params.shape;
    const struct eplb_choose_call choice = choice_of(call);
    size_t slots = (size_t)shape->slots_per_rank;
    for (int32_t source = 0; source < shape->ep_size; source++)
        moe->wanted[source] = head_at(moe, moe->heads_in, source)->rows;
    if (moe->params.routing == EPLB_ROUTING_BATCH) {
        int64_t begin = cpu_time(moe);
        eplb_choose_by_batch(&moe->chooser, &choice, moe->wanted);
        moe->work.route_ns = cpu_time(moe) - begin;
        return;
    }
    for (int32_t source = 0; source < shape->ep_size; source++)
        memcpy(moe->chooser.arrives + (size_t)source * slots, moe->wanted[source],
               slots * sizeof *moe->chooser.arrives);
}

static const struct eplb_row_count *arrivals_of(const struct eplb_moe *moe, int32_t source)
{
    return moe->chooser.arrives + (size_t)source * (size_t)moe->params.shape.slots_per_rank;
}

static enum eplb_status place_arrivals(struct eplb_moe *moe, const struct eplb_moe_call *call,
                                       struct eplb_error *error)
{
    moe->first_in[0] = 0;
    for (int32_t source = 0; source < moe->params.shape.ep_size; source++) {
        const struct eplb_row_count *arrives = arrivals_of(moe, source);
        int64_t sum = 0;
        for (int32_t slot = 0; slot < moe->params.shape.slots_per_rank; slot++)
            sum += arrives[slot].rows;
        if (sum > moe->most_from_one)
            EPLB_FAIL(EPLB_INCONSISTENT,
                      "forward %" PRIu64 ", layer %d: rank %d announces %" PRId64
                      " rows for rank %d; allowed are up to %d",
                      call->seq, call->layer, source, sum, moe->params.ep_rank, moe->most_from_one);
        moe->first_in[source + 1] = moe->first_in[source] + (int32_t)sum;
    }
    return EPLB_OK;
}

static enum eplb_status count_load(struct eplb_moe *moe, const struct eplb_moe_call *call,
                                   struct eplb_error *error)
{
    for (int32_t slot = 0; slot < moe->params.shape.slots_per_rank; slot++) {
        moe->rows[slot] = moe->counted[slot] = 0;
        for (int32_t source = 0; source < moe->params.shape.ep_size; source++) {
            const struct eplb_row_count *from = &arrivals_of(moe, source)[slot];
            moe->rows[slot] += from->rows;
            moe->counted[slot] += from->counted;
        }
    }
    return eplb_counter_add_received(moe->params.counter, call->layer, moe->rows, moe->counted, error);
}

/** The rows of a source are grouped by slot, those of a slot are spread over the sources. */
static void find_order(struct eplb_moe *moe)
{
    int32_t ranks = moe->params.shape.ep_size;
    int32_t count = 0;
    memcpy(moe->cursor, moe->first_in, (size_t)ranks * sizeof *moe->cursor);
    for (int32_t slot = 0; slot < moe->params.shape.slots_per_rank; slot++)
        for (int32_t source = 0; source < ranks; source++) {
            int32_t rows = arrivals_of(moe, source)[slot].rows;
            for (int32_t i = 0; i < rows; i++)
                moe->order[count++] = moe->cursor[source]++;
        }
    EPLB_ASSERT(count == moe->first_in[ranks]);
}

/* -------------------------------------------------------------------------------- rows there and back */

static struct eplb_part rows_between(const struct eplb_moe *moe, float *rows, const int32_t *firsts,
                                     int32_t rank)
{
    size_t hidden = (size_t)moe->params.config.hidden_size;
    return (struct eplb_part){rows + (size_t)firsts[rank] * hidden,
                              (size_t)(firsts[rank + 1] - firsts[rank]) * hidden * sizeof *rows};
}

static enum eplb_status dispatch(struct eplb_moe *moe, struct eplb_error *error)
{
    for (int32_t rank = 0; rank < moe->params.shape.ep_size; rank++) {
        moe->send[rank] = rows_between(moe, moe->outgoing, moe->first_out, rank);
        moe->receive[rank] = rows_between(moe, moe->arrived, moe->first_in, rank);
    }
    return exchange(moe, error);
}

/** The outputs stand where the rows stood, on both sides. */
static enum eplb_status combine(struct eplb_moe *moe, struct eplb_error *error)
{
    for (int32_t rank = 0; rank < moe->params.shape.ep_size; rank++) {
        moe->send[rank] = rows_between(moe, moe->arrived, moe->first_in, rank);
        moe->receive[rank] = rows_between(moe, moe->outgoing, moe->first_out, rank);
    }
    return exchange(moe, error);
}

static void add_outputs(const struct eplb_moe *moe, const struct eplb_moe_call *call)
{
    int32_t hidden = moe->params.config.hidden_size;
    size_t top_k = (size_t)moe->params.config.top_k;
    for (size_t row = 0; row < (size_t)call->num_rows; row++)
        for (size_t i = row * top_k; i < (row + 1) * top_k; i++)
            eplb_add_scaled(call->gates[i], moe->outgoing + (size_t)moe->places[i] * (size_t)hidden, hidden,
                            call->y + row * (size_t)hidden);
}

/* --------------------------------------------------------------------------------------- computing */

/** Computes one slot's rows in [0, tile_rows], taken from and put back to where they arrived. */
static void compute_tile(const struct eplb_moe *moe, const struct eplb_moe_call *call, int32_t slot,
                         const int32_t *places, int32_t rows)
{
    int32_t hidden = moe->params.config.hidden_size;
    int32_t inner = moe->params.config.expert_hidden_size;
    size_t row_floats = (size_t)hidden;
    struct eplb_expert_layout layout = eplb_expert_layout(&moe->params.config);
    for (int32_t i = 0; i < rows; i++)
        memcpy(moe->tile + (size_t)i * row_floats, moe->arrived + (size_t)places[i] * row_floats,
               row_floats * sizeof *moe->tile);
    moe->gemm(moe->tile, rows, hidden, call->weights->gate_up + slot * layout.gate_up_floats, 2 * inner,
              moe->gate_up);
    for (int32_t i = 0; i < rows; i++) {
        const float *gate = moe->gate_up + 2 * (size_t)i * (size_t)inner;
        eplb_gated(gate, gate + inner, inner, moe->inner + (size_t)i * (size_t)inner);
    }
    moe->gemm(moe->inner, rows, inner, call->weights->down + slot * layout.down_floats, hidden, moe->tile);
    for (int32_t i = 0; i < rows; i++)
        memcpy(moe->arrived + (size_t)places[i] * row_floats, moe->tile + (size_t)i * row_floats,
               row_floats * sizeof *moe->tile);
}

static void compute(struct eplb_moe *moe, const struct eplb_moe_call *call)
{
    const int32_t *places = moe->order;
    for (int32_t slot = 0; slot < moe->params.shape.slots_per_rank; slot++) {
        int32_t left = (int32_t)moe->rows[slot];
        while (left > 0) {
            int32_t rows = left < moe->tile_rows ? left : moe->tile_rows;
            compute_tile(moe, call, slot, places, rows);
            places += rows;
            left -= rows;
        }
    }
}

enum eplb_status eplb_moe_run(struct eplb_moe *moe, const struct eplb_moe_call *call,
                              struct eplb_error *error)
{
    EPLB_ASSERT(call->layer >= 0 && call->layer < moe->params.config.num_layers);
    const struct eplb_choose_call choice = choice_of(call);
    EPLB_TRY(eplb_choose_count(&moe->chooser, &choice, error));
    choose_alone(moe, call);
    EPLB_TRY(exchange_heads(moe, call, error));
    EPLB_TRY(check_heads(moe, call, error));
    find_arrivals(moe, call);
    EPLB_TRY(place_arrivals(moe, call, error));
    find_places(moe);
    copy_rows(moe, call);
    EPLB_TRY(dispatch(moe, error));
    EPLB_TRY(count_load(moe, call, error));
    find_order(moe);
    int64_t begin = cpu_time(moe);
    compute(moe, call);
    moe->work.cpu_ns = cpu_time(moe) - begin;
    moe->work.rows = moe->first_in[moe->params.shape.ep_size];
    EPLB_TRY(combine(moe, error));
    add_outputs(moe, call);
    return EPLB_OK;
}

struct eplb_moe_work eplb_moe_work(const struct eplb_moe *moe)
{
    return moe->work;
}
