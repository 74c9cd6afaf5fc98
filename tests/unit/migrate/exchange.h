/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Attempts of a whole group: one transfer core, and the tensors of one layer, per rank, over the
 * model network. Order, delays and faults are drawn from the seed; what must hold is checked from
 * outside, and the first thing that does not is the violation.
 */
#ifndef MIGRATE_EXCHANGE_H
#define MIGRATE_EXCHANGE_H

#include "migrate/transfer.h"
#include "network.h"

enum { EXCHANGE_VIOLATION = 256 };

struct exchange_params {
    uint64_t seed;
    struct eplb_shape shape; /* of one layer */
    struct eplb_transfer_limits limits;
    int64_t expert_bytes; /* > 0: only sizes travel; 0: the tensors that the seed draws */
    int32_t num_attempts;
    bool faults;
    bool all_change; /* the new table differs from the old one in every slot */
};

struct exchange_result {
    int32_t commits, aborts, deaths;
    int32_t kept_for[EPLB_REASON_STORAGE_CHANGED + 1]; /* ranks that kept, by reason */
    int64_t messages, bytes;
    int64_t most_sending, most_receiving; /* bytes in flight of one rank */
    char violation[EXCHANGE_VIOLATION];   /* "" when all is well */
};

/** Draws shape, limits and faults from a seed; tensors are real. */
struct exchange_params exchange_draw(uint64_t seed);

void exchange_run(const struct exchange_params *params, struct exchange_result *result);

#endif
