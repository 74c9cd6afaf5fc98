/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The plain twins of `balanced` and `greedy`: 128-bit arithmetic and scans over all ranks. They plan what
 * does not fit the fast road, give the same tables where it does, and tests hold the two side by side.
 */
#ifndef POLICY_PLAIN_H
#define POLICY_PLAIN_H

#include "eplb/policy.h"

extern const struct eplb_policy_ops eplb_plain_balanced;
extern const struct eplb_policy_ops eplb_plain_greedy;

#endif
