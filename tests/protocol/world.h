/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The world of a story: a manager core, three executor cores, the network between them, and the
 * decision record. Nothing happens in it but what the story says, one thing at a time.
 *
 * 3 ranks with 2 slots each hold the experts 0 1 | 1 2 | 2 0 of every layer. One expert of each layer
 * is hot, at first expert 0; then the balanced policy wants 0 1 | 1 0 | 2 0: slot 3 changes, and one
 * expert travels from rank 0 to rank 1.
 */
#ifndef PROTOCOL_WORLD_H
#define PROTOCOL_WORLD_H

#include "executor/core.h"
#include "manager/core.h"
#include "protocol/network.h"
#include "protocol/trace.h"

enum {
    NUM_RANKS = 3,
    NUM_EXPERTS = 3,
    LOCAL_SLOTS = 2,
    NUM_SLOTS = NUM_RANKS * LOCAL_SLOTS,
    MAX_LAYERS = 4,
    MAX_FORWARDS = 64,
    RECORD_BYTES = 512, /* of an encoded command or output */
};

/** What a story may set before anything happens. */
struct settings {
    int32_t layers;
    int32_t overlap;
    int32_t chunks; /* messages of one expert */
    bool adaptive;  /* routing by weights that the manager renews; else static */
    int64_t interval;
    int64_t prepare_timeout;
    int64_t transfer_timeout;
};

/** One forward: its command as every rank reads it, and the outputs as the engine gets them. */
struct forward {
    char batches[NUM_RANKS + 1]; /* a letter per DP rank */
    bool warmup;
    bool dropped;
    bool processed;
    unsigned char command[RECORD_BYTES];
    bool begun[NUM_RANKS];
    bool reported[NUM_RANKS];
    unsigned char outputs[NUM_RANKS][RECORD_BYTES];
};

enum rank_state {
    RANK_IDLE,
    RANK_FORWARD,
    RANK_FINISHING, /* in finish_step or abort_step */
};

struct rank {
    struct eplb_executor_core *core;
    enum rank_state state;
    bool dead;
    uint64_t seq;                /* the forward it runs, or ran last */
    struct eplb_layer_plan *job; /* the background thread's */
    int64_t counts[MAX_LAYERS][LOCAL_SLOTS];
    /* What the memory holds: pieces of experts, see piece_of. */
    int32_t active[MAX_LAYERS][LOCAL_SLOTS][MAX_CHUNKS];
    int32_t staging[LOCAL_SLOTS][MAX_CHUNKS];
};

struct engine {
    struct eplb_manager_core *manager;
    struct eplb_log_sink log;
    uint64_t last_seq;
    struct eplb_manager_status status; /* as shown last */
    struct eplb_worker_levels seen[NUM_RANKS];
};

struct world {
    struct settings settings;
    struct eplb_shape shape;
    int64_t now;
    int32_t hot[MAX_LAYERS];
    struct engine engine;
    struct rank ranks[NUM_RANKS];
    struct network network;
    struct forward forwards[MAX_FORWARDS]; /* by number */
    struct trace trace;
};

/** One chunk of an expert of a layer, as a number that tells them all apart. */
static inline int32_t piece_of(int32_t layer, int32_t expert, int32_t chunk)
{
    return (layer * NUM_EXPERTS + expert) * MAX_CHUNKS + chunk;
}

/** Writes a table as text: 0 1 | 1 2 | 2 0. */
void table_text(const int32_t *table, char text[TRACE_LINE]);

/* engine.c */

void engine_init(struct world *world);
void engine_destroy(struct world *world);

/** Submits a forward; base_generation, unless 0, replaces that of its prepare on the way to the ranks. */
void engine_submit(struct world *world, const char *batches, bool warmup, uint64_t base_generation);
void engine_drop(struct world *world, uint64_t seq);

/** Processes the outputs of the oldest forward; those of the ranks that lack are lost. */
void engine_output(struct world *world, const bool lacking[NUM_RANKS]);
void engine_policy(struct world *world, bool fails);

/** A solve ended: `percent` of an expert's rows for its first replica, the rest evenly for the others. */
void engine_solved(struct world *world, int32_t layer, int32_t expert, int32_t percent, uint64_t generation);
void engine_tick(struct world *world);
void engine_dead(struct world *world, int32_t rank);

/** Another manager takes the workers over as they are. No forward is in flight. */
void engine_restart(struct world *world);

/** Writes down the open window of a layer; what everybody runs. */
void engine_show_window(struct world *world, int32_t layer);
void engine_show_state(struct world *world);

/* rank.c */

void rank_init(struct world *world, int32_t rank);

/** What the rank's thread does. Each is written down as impossible when it is. */
void rank_start(struct world *world, int32_t rank, bool materialise_ok);
void rank_finish(struct world *world, int32_t rank);
void rank_abort(struct world *world, int32_t rank);

/** Looks at cancelled operations and the record. */
void rank_poll(struct world *world, int32_t rank);

/** What the background thread does. */
void rank_begin_prepare(struct world *world, int32_t rank);
void rank_end_prepare(struct world *world, int32_t rank, bool ok);

/** The process ends. */
void rank_die(struct world *world, int32_t rank);

/** An operation of the rank ended. */
void rank_complete(struct world *world, int32_t rank, struct eplb_op op, enum eplb_op_result result);

/** Writes down which plans the rank holds. */
void rank_show_plans(struct world *world, int32_t rank);

/** Whether there is something for the rank to do, for lines that speak of all ranks. */
bool rank_can_start(const struct world *world, int32_t rank);
bool rank_can_finish(const struct world *world, int32_t rank);
bool rank_can_prepare(const struct world *world, int32_t rank);
bool rank_can_poll(const struct world *world, int32_t rank);

#endif
