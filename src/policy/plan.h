/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Inside eplb_plan: its checks, and the plan itself with whatever runner.
 */
#ifndef POLICY_PLAN_H
#define POLICY_PLAN_H

#include "eplb/plan.h"

/** Checks everything that eplb_plan is given. EPLB_INVALID with a sentence; nothing is written. */
enum eplb_status eplb_plan_check(const struct eplb_plan_request *request, const void *scratch,
                                 const struct eplb_plan *plan, struct eplb_error *error);

/** Threads that plan a request's layers: no more than there are layers. */
int32_t eplb_plan_workers(const struct eplb_plan_request *request);

/** Plans what was checked. The runner has eplb_plan_workers workers. */
enum eplb_status eplb_plan_run(const struct eplb_plan_request *request,
                               const struct eplb_layer_runner *runner, void *scratch, struct eplb_plan *plan,
                               struct eplb_error *error);

#endif
