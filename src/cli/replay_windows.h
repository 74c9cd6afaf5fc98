/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A recording cut into windows.
 */
#ifndef CLI_REPLAY_WINDOWS_H
#define CLI_REPLAY_WINDOWS_H

#include "config/command_line.h"
#include "trace/load_file.h"

/** Zeroed before it is read; free it with eplb_replay_windows_free, also on failure. */
struct eplb_replay_windows {
    struct eplb_load
        load;          /* each step is a window: step_ids are those of its first step, and so is the label */
    int64_t *last_ids; /* [num_steps] the id of each window's last step */
};

/**
 * Reads the file of --load as windows of --window steps each; without it, as many as the file has steps, and
 * for routed ids as many as they have phases. Says what is doubtful, and which steps are left over.
 *
 * @return EPLB_OK with at least two windows; EPLB_INVALID with a sentence when there are fewer, and otherwise
 *         as eplb_load_read and eplb_load_sum
 */
enum eplb_status eplb_replay_windows_read(const struct eplb_config *config,
                                          struct eplb_replay_windows *windows, struct eplb_error *error);

void eplb_replay_windows_free(struct eplb_replay_windows *windows);

#endif
