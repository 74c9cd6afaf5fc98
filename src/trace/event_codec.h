/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Records of an event log and their bytes. trace/event_log.h describes the file.
 */
#ifndef TRACE_EVENT_CODEC_H
#define TRACE_EVENT_CODEC_H

#include "eplb/manager.h"
#include "manager/core.h"
#include "trace/event_bytes.h"
#include "trace/event_log.h"

/** First byte of a record's body. An event's is its type after the first one, an action's likewise. */
enum eplb_event_record {
    EPLB_RECORD_HEADER = 1,
    EPLB_RECORD_END = 2,
    EPLB_RECORD_EVENT = 16,
    EPLB_RECORD_ACTION = 32,
};

enum {
    EPLB_NUM_EVENTS = EPLB_MANAGER_WEIGHTS_DONE + 1,
    EPLB_NUM_ACTIONS = EPLB_MANAGER_SOLVE_WEIGHTS + 1,
    EPLB_EVENT_MAGIC = 16,         /* bytes of the format's name at the start of a file */
    EPLB_EVENT_FRAME = 8,          /* bytes before a record's body: the length, and its complement */
    EPLB_EVENT_CHECK = 8,          /* bytes after it */
    EPLB_MAX_EVENT_SLOTS = 1 << 24 /* slots of all layers of a log */
};

/** The time of a log's last event at most, and its intervals: sums of two of them are no overflow. */
#define EPLB_MAX_EVENT_TIME (INT64_C(1) << 61)

extern const unsigned char eplb_event_magic[EPLB_EVENT_MAGIC];

/**
 * Continues the check value over a record's body. Each step maps different values to different ones, so a
 * single changed word is always found; the value after a record tells all that came before it as well.
 */
uint64_t eplb_event_check(uint64_t check, const unsigned char *body, size_t length);

/** What both ends follow from record to record, so that a record need only say what is new. */
struct eplb_event_codec {
    struct eplb_shape shape;
    int64_t now;                       /* of the last event */
    struct eplb_worker_levels *levels; /* [R] of the rank's last output that was there */
    uint64_t *generations;             /* [R][L] likewise */
    uint64_t *versions;                /* [R][L] of the weights, likewise */
};

/** EPLB_INVALID for a shape that is too large for a log; EPLB_NO_MEMORY. */
enum eplb_status eplb_event_codec_init(struct eplb_event_codec *codec, const struct eplb_shape *shape,
                                       struct eplb_error *error);

/** A zeroed one is allowed. */
void eplb_event_codec_free(struct eplb_event_codec *codec);

/** Bytes of the largest record of outputs. */
size_t eplb_event_outputs_bytes(const struct eplb_shape *shape);

/* Encoding appends the body of a record. */
void eplb_header_encode(const struct eplb_manager_core_params *params, struct eplb_binary *bytes);
void eplb_event_encode(struct eplb_event_codec *codec, const struct eplb_manager_event *event, int64_t now,
                       struct eplb_binary *bytes);
void eplb_action_encode(const struct eplb_shape *shape, const struct eplb_manager_action *action,
                        struct eplb_binary *bytes);

/** Outputs of an event: as many as there are ranks at most. */
void eplb_outputs_encode(struct eplb_event_codec *codec, const struct eplb_manager_event *event,
                         struct eplb_binary *bytes);

/** A command, with its forward. */
void eplb_event_command_encode(const struct eplb_shape *shape, const struct eplb_command *command,
                               struct eplb_binary *bytes);

/** The solved weights of an event. */
void eplb_event_weights_encode(const struct eplb_shape *shape, const struct eplb_manager_event *event,
                               struct eplb_binary *bytes);

/** Where what is decoded lies. All arrays are owned. */
struct eplb_event_rooms {
    struct eplb_worker_output *outputs; /* [R] */
    int64_t *prefixes;                  /* [R][L][K] */
    struct eplb_dp_batch *batches;      /* [max_batches] */
    size_t max_batches;
    struct eplb_benefit *benefits; /* [L] */
    uint64_t *candidate_hashes;    /* [L] */
    int32_t *command_rows;         /* [EPLB_COMMAND_ROWS][num_slots] */
    unsigned char *record;         /* of a command, as the wire has it */
    struct eplb_command command;
    struct eplb_weight_update *updates; /* [L] */
    int32_t *weights;                   /* [L][num_slots] of these */
    struct eplb_error error;            /* of a stop */
    char reason[EPLB_ERROR_TEXT];
};

enum eplb_status eplb_event_rooms_init(struct eplb_event_rooms *rooms, const struct eplb_shape *shape,
                                       struct eplb_error *error);
void eplb_event_rooms_free(struct eplb_event_rooms *rooms);

/*
 * Decoding takes a body whose check was right, and still believes nothing: what a log says goes into the
 * manager's core, which trusts its shell. EPLB_INVALID with what is wrong, without the place.
 */

/** The policy's name goes to `policy`; arrays are allocated and in params, for the caller to free. */
enum eplb_status eplb_header_decode(struct eplb_cursor *cursor, struct eplb_manager_core_params *params,
                                    char policy[EPLB_EVENT_POLICY_TEXT], struct eplb_error *error);
enum eplb_status eplb_event_decode(struct eplb_event_codec *codec, struct eplb_event_rooms *rooms,
                                   struct eplb_cursor *cursor, enum eplb_manager_event_type type,
                                   struct eplb_logged *logged, struct eplb_error *error);
enum eplb_status eplb_action_decode(const struct eplb_shape *shape, struct eplb_event_rooms *rooms,
                                    struct eplb_cursor *cursor, enum eplb_manager_action_type type,
                                    struct eplb_logged *logged, struct eplb_error *error);
enum eplb_status eplb_event_command_decode(const struct eplb_shape *shape, struct eplb_event_rooms *rooms,
                                           struct eplb_cursor *cursor, struct eplb_error *error);

/** What is not whole is remembered by the cursor. */
void eplb_event_weights_decode(const struct eplb_shape *shape, struct eplb_event_rooms *rooms,
                               struct eplb_cursor *cursor, struct eplb_manager_event *event);
enum eplb_status eplb_outputs_decode(struct eplb_event_codec *codec, struct eplb_event_rooms *rooms,
                                     struct eplb_cursor *cursor, struct eplb_manager_event *event,
                                     struct eplb_error *error);

#endif
