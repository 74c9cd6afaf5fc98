/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Loads for benches of plans: windows of all layers, made up or recorded.
 */
#ifndef SUPPORT_WINDOWS_H
#define SUPPORT_WINDOWS_H

#include <stdint.h>

#include "base/prng.h"
#include "trace/load_file.h"

/** What made-up windows are made of. */
struct eplb_bench_workload {
    const char *name;
    enum eplb_status (*make)(struct eplb_prng *prng, int32_t num_experts, double spread, int64_t tokens,
                             int64_t *load, struct eplb_error *error);
    double spread;
};

/** lognormal:1.0 and zipf:1.1. */
extern const struct eplb_bench_workload eplb_bench_workloads[2];

/**
 * Made-up windows, a million rows a layer: the first from the workload, each later one the one before it
 * with every share changed by about 10 %. Ends the bench when that fails. Free with eplb_load_free.
 */
void eplb_bench_make_windows(const struct eplb_bench_workload *workload, int32_t num_windows,
                             int32_t num_layers, int32_t num_experts, struct eplb_load *load);

/**
 * The windows of `data`/`file`, steps as the file has them. Returns 0 when there is no such file; ends
 * the bench when it cannot be read.
 */
int eplb_bench_read_windows(const char *data, const char *file, struct eplb_load *load);

#endif
