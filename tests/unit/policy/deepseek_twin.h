/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * DeepSeek's rules written down plainly: scans instead of trees, no scratch memory of the library.
 */
#ifndef POLICY_DEEPSEEK_TWIN_H
#define POLICY_DEEPSEEK_TWIN_H

#include <stdint.h>

enum { TWIN_MAX = 1024 };

/** What one call makes of one layer. */
struct twin_plan {
    int64_t phy2log[TWIN_MAX];
    int64_t phyrank[TWIN_MAX];
    int64_t logcnt[TWIN_MAX];
};

/** One layer, at most TWIN_MAX slots. groups divides by nodes or the way is global. */
void twin_rebalance(const float *weight, int experts, int replicas, int groups, int nodes, int gpus,
                    struct twin_plan *plan);

#endif
