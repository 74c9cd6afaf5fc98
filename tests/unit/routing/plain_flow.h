/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A textbook maximum flow (Edmonds and Karp 1972) from experts to ranks, with a binary search on the
 * ranks' capacity.
 */
#ifndef ROUTING_PLAIN_FLOW_H
#define ROUTING_PLAIN_FLOW_H

#include "eplb/placement.h"

/** The smallest whole rank capacity that load * factor fits; -1 when memory is short. */
int64_t plain_flow_capacity(const struct eplb_shape *shape, const int32_t *ids, const int64_t *load,
                            int64_t factor);

#endif
