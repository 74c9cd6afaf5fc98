/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The two halves of `eplb replay`: recorded load, and recorded events.
 */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "config/command_line.h"

/** `--load`: scores the policy's plans on the windows that come after them. */
enum eplb_status eplb_replay_load(const struct eplb_config *config, struct eplb_error *error);

/** `--events`: runs recorded events through the manager again. */
enum eplb_status eplb_replay_events(const struct eplb_config *config, struct eplb_error *error);

#endif
