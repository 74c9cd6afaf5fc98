/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the files of `eplb shm` share.
 */
#ifndef CLI_SHM_H
#define CLI_SHM_H

#include "cli/report.h"
#include "shm/listing.h"
#include "shm/peek.h"

/** "group", "channel"; "-" for a number that is no kind. */
const char *eplb_shm_kind(uint32_t kind);

/** "live", "dead", "foreign". */
const char *eplb_shm_state(enum eplb_segment_state state);

/** Whether the owner's process is seen from here: "alive", "gone", "not to be told". */
const char *eplb_shm_seen(const struct eplb_process_id *owner);

/** `eplb shm inspect`: shows what `operand` names. EPLB_LAYOUT for what is foreign, after it was shown. */
enum eplb_status eplb_shm_inspect(const char *directory, const char *operand, bool json,
                                  struct eplb_error *error);

/** Tells the payload of a group, or of a channel. EPLB_LAYOUT when its sizes contradict the file's. */
enum eplb_status eplb_shm_report_group(struct eplb_report *report, const struct eplb_segment_info *info,
                                       const struct eplb_peek *peek, struct eplb_error *error);
enum eplb_status eplb_shm_report_channel(struct eplb_report *report, const struct eplb_segment_info *info,
                                         const struct eplb_peek *peek, struct eplb_error *error);

#endif
