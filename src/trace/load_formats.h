/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The readers behind eplb_load_parse, one per format. Each checks all sizes against the input
 * before it allocates by them, and leaves a failed load for the caller to free.
 */
#ifndef TRACE_LOAD_FORMATS_H
#define TRACE_LOAD_FORMATS_H

#include "trace/load_file.h"

/** What may be read as a load, for sentences that refuse something else. */
#define EPLB_LOAD_FORMATS                                                                                   \
    "JSON with \"format\":\"eplb-load-1\", CSV with the header step,label,layer,e0,e1,.., NumPy .npy, and " \
    "routed ids NAME.ids.u8 or NAME.ids.u16 with NAME.json"

enum eplb_status eplb_load_parse_json(const struct eplb_input *input, struct eplb_load *load,
                                      struct eplb_error *error);
enum eplb_status eplb_load_parse_csv(const struct eplb_input *input, struct eplb_load *load,
                                     struct eplb_error *error);
enum eplb_status eplb_load_parse_npy(const struct eplb_input *input, struct eplb_load *load,
                                     struct eplb_error *error);

/** Routed ids, which lie in two files: the one reader that takes a path. *load is written on success only. */
enum eplb_status eplb_load_read_ids(const char *path, struct eplb_load *load, struct eplb_error *error);

#endif
