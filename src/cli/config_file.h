/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Options from a JSON file, which may be the configuration of the engine around us.
 */
#ifndef CLI_CONFIG_FILE_H
#define CLI_CONFIG_FILE_H

#include "config/command_line.h"

/** Room for the list of keys that are not ours. */
#define EPLB_UNUSED_KEYS_TEXT 512

/**
 * Sets options from the file; flags that were given win. path must live as long as the config.
 *
 * @param unused receives the keys that are the host engine's own, separated by ", "; "" for none
 * @return EPLB_OK; EPLB_INVALID and others with a sentence that names file, key, value and rule
 */
enum eplb_status eplb_config_file_read(const char *path, struct eplb_config *config,
                                       char unused[EPLB_UNUSED_KEYS_TEXT], struct eplb_error *error);

#endif
