/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "config/command_line.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/nearest.h"
#include "config/text.h"

enum { MAX_FLAG = 128 };

static const struct eplb_source from_flag = {.kind = EPLB_SOURCE_FLAG};

/** One flag taken apart. */
struct flag {
    char name[MAX_FLAG]; /* without dashes, cut: no option's name is that long */
    const char *value;   /* after `=`; NULL when there is none */
    const struct eplb_option *option;
    bool negated; /* --noname */
};

void eplb_config_init(struct eplb_config *config, enum eplb_command_id command)
{
    *config = (struct eplb_config){.command = command};
    enum eplb_status status = eplb_options_init(&config->options, sizeof config->options, NULL);
    EPLB_ASSERT(status == EPLB_OK);
    eplb_option_store_defaults(EPLB_NUM_ENGINE_OPTIONS, EPLB_NUM_BUILT_OPTIONS, &config->own);
}

static void split(const char *argument, struct flag *flag)
{
    *flag = (struct flag){0};
    const char *name = argument + (argument[1] == '-' ? 2 : 1);
    size_t length = strcspn(name, "=");
    if (name[length] == '=')
        flag->value = name + length + 1;
    if (length >= MAX_FLAG)
        length = MAX_FLAG - 1;
    memcpy(flag->name, name, length);
}

static enum eplb_status refuse_unknown(enum eplb_command_id command, const char *name,
                                       struct eplb_error *error)
{
    const char *names[EPLB_NUM_OPTIONS];
    size_t count = 0;
    for (int i = 0; i < EPLB_NUM_OPTIONS; i++) {
        const struct eplb_option *option = eplb_option_row(i);
        /* `eplb --ep_siz=8` lacks the command first of all, but say what was meant. */
        if (command == EPLB_COMMAND_TOP || eplb_option_is_of(option, command))
            names[count++] = option->name;
    }
    char shown[EPLB_SHOWN_TEXT];
    eplb_text_shown(shown, name);
    EPLB_FAIL(EPLB_USAGE, "unknown option --%s of %s; the nearest known name is --%s", shown,
              eplb_command_name(command), names[eplb_nearest(name, names, count)]);
}

/** Finds the option that a flag names. */
static enum eplb_status resolve(enum eplb_command_id command, struct flag *flag, struct eplb_error *error)
{
    flag->option = eplb_option_find(flag->name);
    if (flag->option == NULL && strncmp(flag->name, "no", 2) == 0) {
        flag->option = eplb_option_find(flag->name + 2);
        flag->negated = true;
    }
    if (flag->option == NULL)
        return refuse_unknown(command, flag->name, error);
    const struct eplb_option *option = flag->option;
    if (eplb_option_is_reserved(option))
        return eplb_option_refuse_reserved(option, from_flag, error);
    if (!eplb_option_is_of(option, command))
        EPLB_FAIL(EPLB_USAGE, "option --%s belongs to %s, not to %s", option->name, eplb_option_owner(option),
                  eplb_command_name(command));
    if (flag->negated && option->type != EPLB_TYPE_BOOL)
        EPLB_FAIL(EPLB_USAGE, "option --%s is not true or false, so there is no --no%s", option->name,
                  option->name);
    if (flag->negated && flag->value != NULL)
        EPLB_FAIL(EPLB_USAGE, "--no%s takes no value; write --%s=VALUE", option->name, option->name);
    return EPLB_OK;
}

/** Finds the value of a resolved flag; *used counts the arguments that follow it and belong to it. */
static enum eplb_status find_value(struct flag *flag, const char *next, int *used, struct eplb_error *error)
{
    *used = 0;
    if (flag->value != NULL)
        return EPLB_OK;
    if (flag->option->type == EPLB_TYPE_BOOL) {
        flag->value = flag->negated ? "false" : "true";
        return EPLB_OK;
    }
    char rule[EPLB_RULE_TEXT];
    eplb_option_rule(flag->option, rule);
    if (next == NULL || strncmp(next, "--", 2) == 0)
        EPLB_FAIL(EPLB_USAGE, "option --%s needs a value: --%s=%s with %s", flag->option->name,
                  flag->option->name, flag->option->word, rule);
    flag->value = next;
    *used = 1;
    return EPLB_OK;
}

static enum eplb_status apply(struct eplb_config *config, const struct flag *flag, struct eplb_error *error)
{
    config->given[eplb_option_id(flag->option)] = true;
    if (eplb_option_is_engine(flag->option))
        return eplb_options_set(&config->options, flag->option->name, flag->value, from_flag, error);
    struct eplb_value given = {.type = EPLB_TYPE_FLAG, .text = flag->value};
    struct eplb_value value;
    if (!eplb_option_accept(flag->option, &given, &value))
        return eplb_option_refuse(flag->option, &given, from_flag, error);
    eplb_option_store(flag->option, &value, &config->own);
    return EPLB_OK;
}

/** An argument that is no option. */
static enum eplb_status take_operand(struct eplb_config *config, const char *argument,
                                     struct eplb_error *error)
{
    const char *word = eplb_command_operand(config->command);
    if (word != NULL && config->operand == NULL && argument[0] != '\0') {
        config->operand = argument;
        return EPLB_OK;
    }
    char shown[EPLB_SHOWN_TEXT];
    eplb_text_shown(shown, argument);
    EPLB_FAIL(EPLB_USAGE, "unexpected argument \"%s\": %s takes %s%s%s, written --name=value", shown,
              eplb_command_name(config->command), word == NULL ? "only options" : "one ",
              word == NULL ? "" : word, word == NULL ? "" : " and options");
}

enum eplb_status eplb_config_parse(struct eplb_config *config, int argc, char *const *argv,
                                   struct eplb_error *error)
{
    struct eplb_config parsed = *config;
    bool options_ended = false;
    for (int i = 0; i < argc; i++) {
        if (options_ended || argv[i][0] != '-' || argv[i][1] == '\0') {
            EPLB_TRY(take_operand(&parsed, argv[i], error));
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            options_ended = true;
            continue;
        }
        struct flag flag;
        int used;
        split(argv[i], &flag);
        EPLB_TRY(resolve(config->command, &flag, error));
        EPLB_TRY(find_value(&flag, i + 1 < argc ? argv[i + 1] : NULL, &used, error));
        EPLB_TRY(apply(&parsed, &flag, error));
        i += used;
    }
    *config = parsed;
    return EPLB_OK;
}

enum eplb_status eplb_config_refuse(const struct eplb_config *config, int id, struct eplb_error *error)
{
    const struct eplb_option *option = eplb_option_row(id);
    EPLB_ASSERT(option->type == EPLB_TYPE_TEXT);
    struct eplb_value value = eplb_option_load(option, &config->own);
    EPLB_ASSERT(value.text != NULL);
    value.type = EPLB_TYPE_FLAG;
    return eplb_option_refuse(option, &value, from_flag, error);
}
