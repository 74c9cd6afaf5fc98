/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Routed ids (eplb-ids-1): which experts every token of a recording went to, per layer, in order of k.
 *
 * The ids are raw little-endian uint8 or uint16 without a header, in NAME.ids.u8 or NAME.ids.u16; NAME.json
 * beside it, the sidecar, says what they are. Either every step has the same number of sequences (axes step,
 * sequence, layer, k), or there are tokens only (axes token, layer, k): then a token is a step of one
 * sequence.
 */
#ifndef TRACE_IDS_FILE_H
#define TRACE_IDS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"
#include "trace/input.h"

/** Most sequences of a step, and phases of a recording. */
#define EPLB_MAX_IDS_SEQUENCES 1048576
#define EPLB_MAX_IDS_PHASES 1024
/** Room for a phase's name, with its terminating zero. */
#define EPLB_IDS_PHASE_TEXT 64
/** The name of the only phase of a recording whose sidecar names none. */
#define EPLB_IDS_WHOLE "all"

/** A part of a recording whose traffic is of one kind. */
struct eplb_ids_phase {
    char *name;
    int32_t first, end; /* steps [first, end) */
};

struct eplb_ids {
    int32_t num_steps, num_sequences; /* num_sequences is 1 when has_sequences is false */
    int32_t num_layers, top_k, num_experts;
    bool has_sequences;
    bool is_prefill;               /* kind */
    int32_t *layer_ids;            /* [num_layers] ascending: the model's layer numbers */
    struct eplb_ids_phase *phases; /* [num_phases] ascending, together all steps */
    int32_t num_phases;
    uint16_t *experts; /* [num_steps][num_sequences][num_layers][top_k] */
};

/** Whether a path names such a file by its ending. */
bool eplb_ids_is_name(const char *path);

/**
 * Reads the ids and their sidecar. *ids is written on success only; free it with eplb_ids_free.
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the file and the key, or the step, sequence, layer
 *         and k: a missing sidecar, a shape that does not fit the file's size, an id out of range, two equal
 *         ids of one token in one layer; EPLB_IO, EPLB_NO_MEMORY
 */
enum eplb_status eplb_ids_read(const char *path, struct eplb_ids *ids, struct eplb_error *error);

/** The same from contents already in memory; the name of the data ends with .ids.u8 or .ids.u16. */
enum eplb_status eplb_ids_parse(const struct eplb_input *data, const struct eplb_input *sidecar,
                                struct eplb_ids *ids, struct eplb_error *error);

/** The path of the sidecar of such a path, to be freed with free(); NULL: no memory. */
char *eplb_ids_sidecar_path(const char *path);

/** Frees the arrays; a zeroed one is allowed. */
void eplb_ids_free(struct eplb_ids *ids);

/** The top_k experts of one token in one layer row. */
const uint16_t *eplb_ids_at(const struct eplb_ids *ids, int32_t step, int32_t sequence, int32_t layer);

/** The phase of a name; -1 when there is none. */
int32_t eplb_ids_find_phase(const struct eplb_ids *ids, const char *name);

/** Counts how often every expert was chosen in steps [first, end); load receives [num_layers][num_experts].
 */
void eplb_ids_count(const struct eplb_ids *ids, int32_t first, int32_t end, int64_t *load);

/* ---- writing ---- */

/** A recording that is being written. What was appended is readable at any moment, also after a kill. */
struct eplb_ids_writer;

struct eplb_ids_writer_params {
    const char *prefix; /* of NAME.ids.u8 (num_experts <= 256, else .u16) and NAME.json */
    int32_t num_layers, top_k, num_experts;
    const int32_t *layer_ids; /* NULL: 0, 1, ... */
    bool is_prefill;
};

/**
 * Creates both files; existing ones are refused, so that no recording is lost to a mistyped name. The sidecar
 * says axes token, layer, k, and a shape whose first number is -1 while the recording is open: a reader takes
 * as many whole tokens as the file has. When this fails, neither file is left behind.
 *
 * @return EPLB_INVALID when a file is there already or cannot be created; EPLB_IO, EPLB_NO_MEMORY
 */
enum eplb_status eplb_ids_writer_create(const struct eplb_ids_writer_params *params,
                                        struct eplb_ids_writer **writer, struct eplb_error *error);

/**
 * Appends tokens: [num_tokens][num_layers][top_k]. All of them or none; nothing is allocated.
 *
 * @return EPLB_INVALID, naming token, layer and k, when an id is out of range; EPLB_REFUSED when the file
 *         would become larger than a reader takes; EPLB_IO
 */
enum eplb_status eplb_ids_writer_append(struct eplb_ids_writer *writer, const int32_t *experts,
                                        int64_t num_tokens, struct eplb_error *error);

/**
 * Says that the tokens are steps of so many sequences, in order: the final sidecar gets the axes step,
 * sequence, layer, k. It has no effect when their number is no multiple of it.
 */
void eplb_ids_writer_set_sequences(struct eplb_ids_writer *writer, int32_t num_sequences);

/**
 * Writes the final shape, and one phase named EPLB_IDS_WHOLE. The writer is freed whatever happens; on
 * failure the recording stays readable as an open one.
 */
enum eplb_status eplb_ids_writer_close(struct eplb_ids_writer *writer, struct eplb_error *error);

#endif
