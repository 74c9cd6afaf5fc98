/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A worker process of `eplb run`: one EP rank. It attaches the run's group and its channel, makes its
 * part of the model, and serves forwards until the engine says that there are no more, or is gone.
 */
#ifndef ENGINE_WORKER_H
#define ENGINE_WORKER_H

#include <stdint.h>

#include "eplb/log.h"
#include "eplb/status.h"

struct eplb_worker_params {
    const char *instance_name;
    const char *directory;
    uint64_t generation; /* of the run */
    int32_t ep_rank;
    const struct eplb_log_sink *log;
};

/**
 * Runs the worker in this process, which does nothing else.
 *
 * @return EPLB_OK after the engine's last word; else the status and sentence with which the process
 *         should end. When the engine's process has ended, this one ends too, from wherever it is
 *         (exit code of EPLB_RANK_DEAD)
 */
enum eplb_status eplb_worker_run(const struct eplb_worker_params *params, struct eplb_error *error);

#endif
