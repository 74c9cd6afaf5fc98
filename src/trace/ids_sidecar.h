/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The sidecar of routed ids: what the bytes beside it are.
 */
#ifndef TRACE_IDS_SIDECAR_H
#define TRACE_IDS_SIDECAR_H

#include "trace/ids_file.h"
#include "trace/input.h"

/** Bytes of one id by the ending of the path: 1, 2, or 0 when it names no routed ids. */
size_t eplb_ids_item_bytes(const char *path);

/**
 * Fills everything of *ids but the experts, and checks that the shape fits the size of the data; nothing
 * is allocated by a shape that does not. On failure *ids is left for the caller to free.
 *
 * @param data       of the ids only name and size are looked at
 * @param item_bytes by the ending of the data's name
 */
enum eplb_status eplb_ids_parse_sidecar(const struct eplb_input *sidecar, const struct eplb_input *data,
                                        size_t item_bytes, struct eplb_ids *ids, struct eplb_error *error);

#endif
