/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A toy forward over the stand-in model of all ranks, in the manner of EP level 1: every rank routes
 * its own tokens, maps them by its own log2phy, and gives rows and slots to all; the ranks that own the
 * slots compute; the owners of the tokens combine in k order. What comes out must not depend on the
 * placement, and what is counted must be what was routed.
 */
#ifndef E2E_TOY_H
#define E2E_TOY_H

#include "eplb/group.h"
#include "eplb/load.h"
#include "eplb/manager.h"
#include "support/standin.h"

/** Which experts the tokens want: a few neighbours of a hot one. */
struct toy_traffic {
    uint64_t seed;
    uint64_t period; /* forwards until other experts are hot; 0: never, and every forward is the same */
};

struct toy_params {
    struct eplb_shape shape;
    int32_t ep_rank;
    int32_t tokens; /* rows of every rank's batch; those that are not real are padding */
    int32_t top_k;  /* divides num_experts */
    struct toy_traffic traffic;
    const struct eplb_group *group;
    const struct standin *model;
};

struct toy;

enum eplb_status toy_create(const struct toy_params *params, struct toy **toy, struct eplb_error *error);

/** NULL is allowed. */
void toy_destroy(struct toy *toy);

/**
 * Runs a forward. All ranks call it with the same seq.
 *
 * @param own         this rank's batch; prefill and decode tokens together are at most `tokens`
 * @param flags       0 or EPLB_FORWARD_WARMUP
 * @param generations [num_layers] of this rank; every other rank's must be the same
 * @return EPLB_OK; EPLB_RANK_DEAD; EPLB_INCONSISTENT with a sentence for another forward or
 *         generation on a rank, or a wrong output
 */
enum eplb_status toy_forward(struct toy *toy, uint64_t seq, const struct eplb_dp_batch *own, unsigned flags,
                             const uint64_t *generations, struct eplb_error *error);

/** The counts of the last forward, [num_layers][slots_per_rank] inclusive prefix sums. */
const int64_t *toy_prefix(const struct toy *toy);

/** Sets them to zero: of a forward that is not run. */
void toy_forget(struct toy *toy);

/** The expert that a token's k-th choice is. */
int32_t toy_route(const struct eplb_shape *shape, int32_t top_k, const struct toy_traffic *traffic,
                  uint64_t seq, int32_t source, int32_t token, int32_t layer, int32_t k);

#endif
