/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a key of the JSON file is. The file may be the host engine's own, with keys that are none
 * of ours; a misspelt key of ours must not pass for one of those.
 */
#ifndef CONFIG_JSON_KEY_H
#define CONFIG_JSON_KEY_H

#include "eplb/status.h"

enum eplb_json_key {
    EPLB_KEY_OPTION,  /**< Set it; a reserved name is then refused. */
    EPLB_KEY_SOURCES, /**< Written by --dump_config; ignored. */
    EPLB_KEY_HOST,    /**< A well-known key of the host engine; ignored. */
    EPLB_KEY_OTHER,   /**< The host engine's; named once as not used. */
};

/**
 * Tells what a key is. A key that starts with `eplb_`, or differs from one of ours by at most two
 * edits and a fifth of that one's length, is refused as misspelt. A name without that prefix that is
 * only reserved counts as the host's.
 *
 * @return EPLB_OK with *kind set; EPLB_INVALID with key, file and the nearest known name
 */
enum eplb_status eplb_json_key(const char *key, const char *file, enum eplb_json_key *kind,
                               struct eplb_error *error);

#endif
