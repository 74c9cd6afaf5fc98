/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/windows.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/bench.h"
#include "trace/workload.h"

enum { ROWS = 1000000, PATH_TEXT = 4096 };

const struct eplb_bench_workload eplb_bench_workloads[2] = {
    {"lognormal:1.0", eplb_workload_lognormal, 1.0},
    {"zipf:1.1", eplb_workload_zipf, 1.1},
};

void eplb_bench_make_windows(const struct eplb_bench_workload *workload, int32_t num_windows,
                             int32_t num_layers, int32_t num_experts, struct eplb_load *load)
{
    struct eplb_error error;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 1);
    if (eplb_load_init(load, num_windows, num_layers, num_experts, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    for (int32_t window = 0; window < num_windows; window++)
        for (int32_t layer = 0; layer < num_layers; layer++) {
            int64_t *row = eplb_load_row(load, window, layer);
            enum eplb_status status;
            if (window == 0) {
                status = workload->make(&prng, num_experts, workload->spread, ROWS, row, &error);
            } else {
                memcpy(row, eplb_load_row(load, window - 1, layer), (size_t)num_experts * sizeof *row);
                status = eplb_workload_drift(&prng, num_experts, 0.1, row, &error);
            }
            if (status != EPLB_OK)
                eplb_bench_fail(error.text);
        }
}

int eplb_bench_read_windows(const char *data, const char *file, struct eplb_load *load)
{
    char path[PATH_TEXT];
    struct eplb_error error;
    if (data == NULL)
        return 0;
    if (snprintf(path, sizeof path, "%s/%s", data, file) >= (int)sizeof path)
        eplb_bench_fail("the name of the folder of recordings is too long");
    if (access(path, F_OK) != 0)
        return 0;
    if (eplb_load_read(path, load, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    return 1;
}
