/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Writes the routed ids of a run to a recording (eplb-ids-1) that `--routing=trace` replays.
 *
 * The tokens of a forward follow each other in the order of their sequences, whatever ranks had them.
 * When every forward had the same sequences, one token of each, the recording has a sequence axis;
 * else its tokens follow each other without one.
 */
#ifndef ENGINE_RECORDER_H
#define ENGINE_RECORDER_H

#include <stdbool.h>

#include "engine/records.h"

struct eplb_recorder;

struct eplb_recorder_params {
    const char *prefix;
    struct eplb_shape shape;
    int32_t top_k;
    int32_t max_rows;         /* of each rank */
    bool is_decode;           /* all tokens are decode tokens */
    const int32_t *layer_ids; /* [num_layers]; NULL: 0, 1, ... */
};

/** Creates the files, refusing to replace any: as eplb_ids_writer_create. */
enum eplb_status eplb_recorder_create(const struct eplb_recorder_params *params,
                                      struct eplb_recorder **recorder, struct eplb_error *error);

/** Appends a forward: routed is [ep_size]. EPLB_IO, EPLB_REFUSED as eplb_ids_writer_append. Allocates
 * nothing. */
enum eplb_status eplb_recorder_add(struct eplb_recorder *recorder, const struct eplb_routed *routed,
                                   struct eplb_error *error);

/** Finishes the recording and frees the recorder, whatever happens; NULL is allowed. */
enum eplb_status eplb_recorder_close(struct eplb_recorder *recorder, struct eplb_error *error);

#endif
