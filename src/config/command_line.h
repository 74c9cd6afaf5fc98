/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A command's configuration, and flags as gflags spells them.
 */
#ifndef CONFIG_COMMAND_LINE_H
#define CONFIG_COMMAND_LINE_H

#include "config/option.h"

struct eplb_config {
    enum eplb_command_id command;
    struct eplb_options options;
    struct eplb_command_options own;
    const char *operand; /* the argument that is no option; NULL when not given */
    bool given[EPLB_NUM_BUILT_OPTIONS]; /* as flags, by their ids */
};

void eplb_config_init(struct eplb_config *config, enum eplb_command_id command);

/**
 * Parses what follows the command's name: `--name=value`, `--name value`, `--name` and `--noname`
 * for bools, one or two dashes, `--` ends the options. A repeated flag's last value wins. A bool
 * takes its value only after `=`; for the others a next argument that starts with two dashes is
 * no value. A command whose row has a word for it takes one argument that is no option.
 *
 * @param argv  argc texts, borrowed for as long as the config
 * @return EPLB_OK; EPLB_USAGE for an unknown flag (with the nearest known one), one of another
 *         command, a missing value, an argument that is no option; otherwise as eplb_options_set.
 *         On failure *config is unchanged.
 */
enum eplb_status eplb_config_parse(struct eplb_config *config, int argc, char *const *argv,
                                   struct eplb_error *error);

/**
 * Refuses the value of a text option that the command found wrong, with the sentence of the table.
 *
 * @param id a TEXT row whose field is not NULL
 */
enum eplb_status eplb_config_refuse(const struct eplb_config *config, int id, struct eplb_error *error);

#endif
