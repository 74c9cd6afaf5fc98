/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb worker INSTANCE DIRECTORY GENERATION RANK LOG`: one EP rank of `eplb run`, which starts it.
 */
#include "cli/cli.h"

#include "base/error.h"
#include "cli/run_log.h"
#include "config/number.h"
#include "engine/worker.h"

enum { INSTANCE, DIRECTORY, GENERATION, RANK, LOG, NUM_ARGUMENTS };

static enum eplb_status read_arguments(int argc, char **argv, struct eplb_worker_params *params,
                                       struct eplb_error *error)
{
    int64_t generation;
    int64_t rank;
    if (argc != NUM_ARGUMENTS || !eplb_integer_read(argv[GENERATION], &generation) || generation < 1 ||
        !eplb_integer_read(argv[RANK], &rank) || rank < 0 || rank > INT32_MAX)
        EPLB_FAIL(EPLB_USAGE,
                  "eplb run starts its workers itself; there is nothing to be done by hand with eplb "
                  "worker (see eplb run --help)");
    *params = (struct eplb_worker_params){.instance_name = argv[INSTANCE],
                                          .directory = argv[DIRECTORY],
                                          .generation = (uint64_t)generation,
                                          .ep_rank = (int32_t)rank};
    return EPLB_OK;
}

static enum eplb_status work(int argc, char **argv, struct eplb_error *error)
{
    struct eplb_worker_params params;
    struct eplb_run_log log;
    EPLB_TRY(read_arguments(argc, argv, &params, error));
    EPLB_TRY(eplb_run_log_open(argv[LOG], &log, error));
    params.log = &log.sink;
    enum eplb_status status = eplb_worker_run(&params, error);
    eplb_run_log_close(&log);
    return status;
}

int eplb_cli_worker(int argc, char **argv)
{
    struct eplb_error error = {0};
    return work(argc, argv, &error) == EPLB_OK ? 0 : eplb_cli_fail(&error);
}
