/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "config/json_key.h"

#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "config/option.h"
#include "config/text.h"

enum { MAX_EDITS = 2, SHARE_OF_LENGTH = 5 };

#define KEY(name, ...) #name,
static const char *const our_keys[] = {EPLB_ENGINE_OPTIONS(KEY) EPLB_RESERVED_OPTIONS(KEY)};
enum { NUM_KEYS = sizeof our_keys / sizeof our_keys[0], NUM_BUILT_KEYS = EPLB_NUM_ENGINE_OPTIONS };

/** Sizes of other kinds of parallelism, near ep_size in spelling only. */
static const char *const host_keys[] = {"cp_size", "dp_size", "etp_size", "mp_size",
                                        "pp_size", "sp_size", "tp_size"};

static bool is_one_of(const char *key, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static bool has_our_prefix(const char *key)
{
    return strncmp(key, "eplb_", 5) == 0;
}

/** A name without our prefix that is reserved for later may well be the host engine's own by now. */
static bool is_ours(const char *key)
{
    return is_one_of(key, our_keys, has_our_prefix(key) ? NUM_KEYS : NUM_BUILT_KEYS);
}

static bool is_misspelt(const char *key)
{
    if (has_our_prefix(key))
        return true;
    for (size_t i = 0; i < NUM_BUILT_KEYS; i++) {
        size_t distance = eplb_edit_distance(key, our_keys[i]);
        if (distance <= MAX_EDITS && distance * SHARE_OF_LENGTH <= strlen(our_keys[i]))
            return true;
    }
    return false;
}

static enum eplb_status refuse(const char *key, const char *file, struct eplb_error *error)
{
    char shown_key[EPLB_SHOWN_TEXT];
    char shown_file[EPLB_SHOWN_TEXT];
    eplb_text_shown(shown_key, key);
    eplb_text_shown(shown_file, file);
    EPLB_FAIL(EPLB_INVALID, "unknown key \"%s\" (file %s); the nearest known name is %s", shown_key,
              shown_file, our_keys[eplb_nearest(key, our_keys, NUM_KEYS)]);
}

enum eplb_status eplb_json_key(const char *key, const char *file, enum eplb_json_key *kind,
                               struct eplb_error *error)
{
    if (strcmp(key, "sources") == 0)
        *kind = EPLB_KEY_SOURCES;
    else if (is_ours(key))
        *kind = EPLB_KEY_OPTION;
    else if (is_one_of(key, host_keys, sizeof host_keys / sizeof host_keys[0]))
        *kind = EPLB_KEY_HOST;
    else if (is_misspelt(key))
        return refuse(key, file, error);
    else
        *kind = EPLB_KEY_OTHER;
    return EPLB_OK;
}
