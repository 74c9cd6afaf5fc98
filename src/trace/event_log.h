/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Event logs (eplb-events-1): everything that a manager's core was told, in order and with its time, and what
 * it did about it. With it a run can be repeated decision by decision: trace/event_replay.h.
 *
 * The file: 16 bytes "eplb-events-1\n" and zeros; then records. A record is
 *
 *   u32 length of the body, u32 its bitwise complement, the body, u64 check
 *
 * little-endian; the check goes over this body and all that came before it. The first record is the header:
 * everything that the core was made with. Then events and actions, each action behind the event that it
 * answers; at last the end. A body begins with a byte that says what it is; numbers are varints unless said
 * otherwise, times in nanoseconds since the event before.
 *
 *    1 header         u32 layers, experts, ranks, redundant; f64 threshold; u64 update interval in ns, in
 *                     forwards, prepare timeout, transfer timeout, first token, first forward; then overlap,
 *                     policy (a text), a byte with a bit for each of these that follows, in this order but
 *                     for bit 3, which comes first: 0, i32 tables; 1, u64 generations; 2, i32 layer ids;
 *                     3, groups, nodes, most moves of a layer, most forwards to break-even, bytes of an
 *                     expert, f64 bytes per second, which are 1, 1 and 0 without it; 4, a byte for the
 *                     replica routing and the f64 decay of the recent load; 5, u64 versions of the weights;
 *                     6, i32 weights; 7, the f64 shift trigger and the least tokens per layer
 *    2 end            nothing: the recorder was closed
 *   16 submit         time, forward, warm-up, number of batches, prefill and decode tokens of each
 *   17 dropped        time, forward
 *   18 outputs        time, forward, number of outputs, and per output what eplb_outputs_encode says
 *   19 policy done    time, status, reason (a text), byte 1 when per layer there follow f64 current peak,
 *                     candidate peak, improvement, a byte (1 sets changed, 2 publish), u64 hash of the
 *                     candidate
 *   20 rank dead      time, rank
 *   21 tick           time
 *   22 weights done   time, number of layers; of each layer row, generation, version (0), a weight per slot
 *   32 command        forward; byte 0 for an empty one. Byte 1 for one without weights, before the first 60
 *                     bytes of its wire record, four zeros, and its i32 table. Byte 2 for one with weights:
 *                     the same, byte 1 when a weight per slot of the table follows, and updates as in 22
 *   33 open record    token
 *   34 abort record   token
 *   35 run policy     nothing
 *   36 committed      layer row, generation, wait in ns, u64 hash of the table
 *   37 aborted        layer row, reason
 *   38 stop           status, sentence (a text)
 *   39 solve weights  nothing
 *
 * A tick that the core did nothing about is left out: it changed nothing.
 *
 * A run that was killed leaves whole records and perhaps a part of one; a reader stops before it and says so.
 */
#ifndef TRACE_EVENT_LOG_H
#define TRACE_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eplb/log.h"
#include "eplb/manager.h"
#include "manager/core.h"

/** Room for a policy's name, with its terminating zero. */
#define EPLB_EVENT_POLICY_TEXT 64

/* ---- writing ---- */

/**
 * Writes a log from what an observer sees. All its functions are called by one thread at a time, which the
 * manager's lock sees to.
 */
struct eplb_event_writer;

/**
 * Creates the file; an existing one is refused, so that no recording is lost to a mistyped name.
 *
 * @param path for instance PREFIX.events
 * @param log  gets the one warning when the recording cannot go on (the disk is full, say); outlives the
 *             writer, and must not call the manager that is recorded. NULL: nobody is told
 * @return EPLB_OK; EPLB_INVALID, EPLB_IO, EPLB_NO_MEMORY
 */
enum eplb_status eplb_event_writer_create(const char *path, const struct eplb_log_sink *log,
                                          struct eplb_event_writer **writer, struct eplb_error *error);

/**
 * For eplb_manager_params.observer, of one manager. `start` writes the header; everything is reserved then.
 * What an event says is in the file before the core takes it. A write that fails ends the recording, with
 * whole records only, and never the run.
 */
const struct eplb_manager_observer *eplb_event_writer_observer(struct eplb_event_writer *writer);

/** The same for a core without a shell: in place of the observer's `start`. */
void eplb_event_writer_start(struct eplb_event_writer *writer, const struct eplb_manager_core_params *params);

/**
 * Writes the end and frees the writer, whatever happens. After the manager's destruction, which still tells
 * of events. NULL is allowed.
 *
 * @return EPLB_OK; why the recording is not whole, if it is not
 */
enum eplb_status eplb_event_writer_close(struct eplb_event_writer *writer, struct eplb_error *error);

/* ---- reading ---- */

struct eplb_event_source; /* inside */

/** A log that is being read. */
struct eplb_event_log {
    const char *name;                       /* of the file, for messages; borrowed of the path */
    char policy[EPLB_EVENT_POLICY_TEXT];    /* its name */
    struct eplb_manager_core_params params; /* without logs; ops NULL when there is no such policy here */
    uint64_t num_records;                   /* read so far, the header too */
    bool ended;                             /* the end was read */
    bool cut;                               /* the file ends within a record, or without an end */
    struct eplb_event_source *source;
};

enum eplb_logged_kind { EPLB_LOGGED_NOTHING, EPLB_LOGGED_EVENT, EPLB_LOGGED_ACTION };

/** One record. What it points to is valid until the next one is read. */
struct eplb_logged {
    enum eplb_logged_kind kind;        /* NOTHING: there is no further record */
    uint64_t number;                   /* of the record; the header is 0 */
    int64_t now;                       /* EVENT: in ns since the first */
    struct eplb_manager_event event;   /* without candidates */
    struct eplb_manager_action action; /* without expert_ids */
    const uint64_t *candidate_hashes;  /* POLICY_DONE with benefits: [num_layers] */
    uint64_t table_hash;               /* COMMITTED */
    const unsigned char *body;         /* as it is in the file */
    size_t length;
};

/**
 * Reads a file and its header.
 *
 * @param log to be closed with eplb_event_log_close; written on success only
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the file: not such a log, cut off in its header,
 *         damaged; EPLB_IO, EPLB_NO_MEMORY
 */
enum eplb_status eplb_event_log_open(const char *path, struct eplb_event_log *log, struct eplb_error *error);

/** A zeroed one is allowed. */
void eplb_event_log_close(struct eplb_event_log *log);

/** Reads the next record. EPLB_INVALID with file, record and byte when it is damaged or makes no sense. */
enum eplb_status eplb_event_log_next(struct eplb_event_log *log, struct eplb_logged *logged,
                                     struct eplb_error *error);

#endif
