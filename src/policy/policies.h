/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The built-in policies, one file each. Adding one: its file, its line here, its row in policies.c.
 */
#ifndef POLICY_POLICIES_H
#define POLICY_POLICIES_H

#include "eplb/policy.h"

extern const struct eplb_policy_ops eplb_policy_balanced;
extern const struct eplb_policy_ops eplb_policy_deepseek;
extern const struct eplb_policy_ops eplb_policy_greedy;
extern const struct eplb_policy_ops eplb_policy_minmax;
extern const struct eplb_policy_ops eplb_policy_robust;

#endif
