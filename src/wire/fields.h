/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Parts of a command's record, for those who write it in another form too.
 */
#ifndef WIRE_FIELDS_H
#define WIRE_FIELDS_H

#include "eplb/wire.h"

/**
 * Writes the fields of a command from its first up to EPLB_COMMAND_NUM_REPLICA_WEIGHTS, which is not
 * written: whom it names, its tokens, and the length of its table.
 */
void eplb_command_put_fields(const struct eplb_command *command, unsigned char *record);

/** Writes a row of slots, i32 [num_slots]. */
void eplb_row_put(const struct eplb_shape *shape, const int32_t *row, unsigned char *bytes);

#endif
