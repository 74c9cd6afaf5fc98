/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "config/option.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/real.h"
#include "config/number.h"
#include "config/text.h"

#define NAMED_ROW(row, row_type, ...) \
    [EPLB_OPTION_##row] = {.name = #row, .type = EPLB_TYPE_##row_type, __VA_ARGS__},
#define ENGINE_ROW(row, ...) NAMED_ROW(row, __VA_ARGS__, .offset = offsetof(struct eplb_options, row))
#define COMMAND_ROW(row, ...) \
    NAMED_ROW(row, __VA_ARGS__, .offset = offsetof(struct eplb_command_options, row))

static const struct eplb_option rows[EPLB_NUM_OPTIONS] = {
    EPLB_ENGINE_OPTIONS(ENGINE_ROW) EPLB_COMMAND_OPTIONS(COMMAND_ROW) EPLB_RESERVED_OPTIONS(NAMED_ROW)};

#define SIZE_OF_BOOL sizeof(bool)
#define SIZE_OF_INT sizeof(int32_t)
#define SIZE_OF_WIDE sizeof(int64_t)
#define SIZE_OF_REAL sizeof(double)
#define SIZE_OF_NAME EPLB_OPTION_TEXT
#define SIZE_OF_PATH EPLB_OPTION_PATH
#define ENGINE_FIELD_CHECK(row, row_type, ...) \
    _Static_assert(sizeof((struct eplb_options *)0)->row == SIZE_OF_##row_type, #row);
EPLB_ENGINE_OPTIONS(ENGINE_FIELD_CHECK)
_Static_assert(EPLB_NUM_ENGINE_OPTIONS <= EPLB_MAX_OPTIONS,
               "struct eplb_options has no room for the sources");

struct command {
    const char *name;
    bool is_engine;
    const char *operand;
};

#define COMMAND_ROW_OF(id, ...) [EPLB_COMMAND_##id] = {__VA_ARGS__},
static const struct command commands[EPLB_NUM_COMMANDS] = {EPLB_COMMANDS(COMMAND_ROW_OF)};

const struct eplb_option *eplb_option_row(int id)
{
    EPLB_ASSERT(id >= 0 && id < EPLB_NUM_OPTIONS);
    return &rows[id];
}

const struct eplb_option *eplb_option_find(const char *name)
{
    for (size_t i = 0; i < EPLB_NUM_OPTIONS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

int eplb_option_id(const struct eplb_option *option)
{
    EPLB_ASSERT(option >= rows && option < rows + EPLB_NUM_OPTIONS);
    return (int)(option - rows);
}

bool eplb_option_is_engine(const struct eplb_option *option)
{
    return eplb_option_id(option) < EPLB_NUM_ENGINE_OPTIONS;
}

bool eplb_option_is_reserved(const struct eplb_option *option)
{
    return eplb_option_id(option) >= EPLB_NUM_BUILT_OPTIONS;
}

bool eplb_option_is_of(const struct eplb_option *option, enum eplb_command_id command)
{
    bool is_named = (option->commands >> command & 1u) != 0;
    if (eplb_option_is_engine(option))
        return is_named || commands[command].is_engine;
    return is_named || option->commands == 0;
}

const char *eplb_command_name(enum eplb_command_id command)
{
    EPLB_ASSERT(command < EPLB_NUM_COMMANDS);
    return commands[command].name;
}

bool eplb_command_tells_engine(enum eplb_command_id command)
{
    EPLB_ASSERT(command < EPLB_NUM_COMMANDS);
    return command == EPLB_COMMAND_TOP || commands[command].is_engine;
}

const char *eplb_command_operand(enum eplb_command_id command)
{
    EPLB_ASSERT(command < EPLB_NUM_COMMANDS);
    return commands[command].operand;
}

const char *eplb_option_owner(const struct eplb_option *option)
{
    enum eplb_command_id command = 0;
    while (command + 1 < EPLB_NUM_COMMANDS && !eplb_option_is_of(option, command))
        command++;
    return commands[command].name;
}

static void integer_rule(const struct eplb_option *option, char rule[EPLB_RULE_TEXT])
{
    enum { MOST_LISTED = 4 };
    long long minimum = (long long)option->minimum;
    long long maximum = (long long)option->maximum;
    if (maximum - minimum >= MOST_LISTED) {
        snprintf(rule, EPLB_RULE_TEXT, "an integer in [%lld, %lld]", minimum, maximum);
        return;
    }
    size_t length = 0;
    for (long long value = minimum; value <= maximum; value++) {
        const char *joint = value == minimum ? "" : value == maximum ? " or " : ", ";
        length += (size_t)snprintf(rule + length, EPLB_RULE_TEXT - length, "%s%lld", joint, value);
        EPLB_ASSERT(length < EPLB_RULE_TEXT);
    }
}

void eplb_option_rule(const struct eplb_option *option, char rule[EPLB_RULE_TEXT])
{
    char minimum[EPLB_REAL_TEXT];
    char maximum[EPLB_REAL_TEXT];
    switch (option->type) {
    case EPLB_TYPE_BOOL:
        snprintf(rule, EPLB_RULE_TEXT, "true or false");
        return;
    case EPLB_TYPE_INT:
    case EPLB_TYPE_WIDE:
        integer_rule(option, rule);
        return;
    case EPLB_TYPE_REAL:
        eplb_real_format(option->minimum, minimum);
        eplb_real_format(option->maximum, maximum);
        snprintf(rule, EPLB_RULE_TEXT, "a number in [%s, %s]", minimum, maximum);
        return;
    case EPLB_TYPE_NAME:
        if (option->accepts != NULL)
            break;
        snprintf(rule, EPLB_RULE_TEXT, "a name of 1 to %d printable ASCII characters", EPLB_OPTION_TEXT - 1);
        return;
    default:
        EPLB_ASSERT(option->type == EPLB_TYPE_TEXT || option->type == EPLB_TYPE_PATH);
    }
    EPLB_ASSERT(option->rule != NULL);
    snprintf(rule, EPLB_RULE_TEXT, "%s", option->rule);
}

static bool bool_read(const char *text, bool *value)
{
    static const char *const words[] = {"false", "true", "f", "t", "0", "1", "no", "yes", "n", "y"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!eplb_same_word(text, words[i]))
            continue;
        *value = i % 2 == 1;
        return true;
    }
    return false;
}

static bool is_name(const char *text)
{
    size_t length = 0;
    while (length < EPLB_OPTION_TEXT && text[length] >= 0x20 && text[length] < 0x7f)
        length++;
    return length > 0 && length < EPLB_OPTION_TEXT && text[length] == '\0';
}

bool eplb_is_word(const char *text)
{
    enum { LONGEST = 32 };
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t length = strspn(text, allowed);
    return length > 0 && length <= LONGEST && text[length] == '\0';
}

bool eplb_is_process_group(const char *text)
{
    return strcmp(text, "shm") == 0;
}

bool eplb_is_replica_routing(const char *text)
{
    static const char *const names[] = {"static", "local", "weighted", "adaptive", "batch"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0)
            return true;
    return false;
}

/** Of integers: a double has not the digits of all of them. The limits of a row are doubles that are
 * integers. */
static bool integer_in_range(const struct eplb_option *option, int64_t integer)
{
    return integer >= (int64_t)option->minimum && integer <= (int64_t)option->maximum;
}

static bool in_range(const struct eplb_option *option, double number)
{
    return number >= option->minimum && number <= option->maximum;
}

static bool accept_integer(const struct eplb_option *option, const struct eplb_value *given, int64_t *integer)
{
    if (given->type == EPLB_TYPE_FLAG)
        return eplb_integer_read(given->text, integer) && integer_in_range(option, *integer);
    *integer = given->integer;
    bool is_integer = given->type == EPLB_TYPE_INT || given->type == EPLB_TYPE_WIDE;
    return is_integer && integer_in_range(option, *integer);
}

static bool accept_real(const struct eplb_option *option, const struct eplb_value *given, double *real)
{
    if (given->type == EPLB_TYPE_FLAG)
        return eplb_real_read(given->text, real) && in_range(option, *real);
    if (given->type != EPLB_TYPE_REAL && given->type != EPLB_TYPE_INT)
        return false;
    double number = given->type == EPLB_TYPE_INT ? (double)given->integer : given->real;
    *real = number == 0 ? 0.0 : number;
    return (number == 0 || isnormal(number)) && in_range(option, number);
}

static bool is_text(enum eplb_type type)
{
    return type == EPLB_TYPE_FLAG || type == EPLB_TYPE_NAME || type == EPLB_TYPE_TEXT ||
           type == EPLB_TYPE_PATH;
}

static bool accept_text(const struct eplb_option *option, const struct eplb_value *given)
{
    if (!is_text(given->type))
        return false;
    if (option->type == EPLB_TYPE_PATH)
        return strlen(given->text) < EPLB_OPTION_PATH;
    if (option->type == EPLB_TYPE_NAME)
        return is_name(given->text) && (option->accepts == NULL || option->accepts(given->text));
    return given->text[0] != '\0';
}

bool eplb_option_accept(const struct eplb_option *option, const struct eplb_value *given,
                        struct eplb_value *value)
{
    *value = (struct eplb_value){.type = option->type};
    switch (option->type) {
    case EPLB_TYPE_BOOL:
        value->boolean = given->boolean;
        return given->type == EPLB_TYPE_FLAG ? bool_read(given->text, &value->boolean)
                                             : given->type == EPLB_TYPE_BOOL;
    case EPLB_TYPE_INT:
    case EPLB_TYPE_WIDE:
        return accept_integer(option, given, &value->integer);
    case EPLB_TYPE_REAL:
        return accept_real(option, given, &value->real);
    default:
        value->text = given->text;
        return accept_text(option, given);
    }
}

void eplb_value_text(const struct eplb_value *value, char text[EPLB_RULE_TEXT])
{
    char shown[EPLB_SHOWN_TEXT];
    switch (value->type) {
    case EPLB_TYPE_BOOL:
        snprintf(text, EPLB_RULE_TEXT, "%s", value->boolean ? "true" : "false");
        return;
    case EPLB_TYPE_INT:
    case EPLB_TYPE_WIDE:
        snprintf(text, EPLB_RULE_TEXT, "%lld", (long long)value->integer);
        return;
    case EPLB_TYPE_REAL:
        if (isfinite(value->real))
            eplb_real_format(value->real, text);
        else
            snprintf(text, EPLB_RULE_TEXT, "%f", value->real);
        return;
    default:
        eplb_text_shown(shown, value->text);
        snprintf(text, EPLB_RULE_TEXT, "%s", shown);
    }
}

void eplb_source_text(struct eplb_source source, char text[EPLB_SOURCE_TEXT])
{
    char file[EPLB_SHOWN_TEXT];
    if (source.kind == EPLB_SOURCE_FILE) {
        eplb_text_shown(file, source.file);
        snprintf(text, EPLB_SOURCE_TEXT, "file %s", file);
        return;
    }
    snprintf(text, EPLB_SOURCE_TEXT, "%s", source.kind == EPLB_SOURCE_FLAG ? "flag" : "default");
}

enum eplb_status eplb_option_refuse(const struct eplb_option *option, const struct eplb_value *given,
                                    struct eplb_source source, struct eplb_error *error)
{
    char rule[EPLB_RULE_TEXT];
    char value[EPLB_RULE_TEXT];
    char from[EPLB_SOURCE_TEXT];
    eplb_option_rule(option, rule);
    eplb_value_text(given, value);
    eplb_source_text(source, from);
    const char *before = "";
    const char *after = "";
    if (is_text(given->type)) {
        before = given->type == EPLB_TYPE_FLAG ? "\"" : "the text \"";
        after = "\"";
    } else if (given->type == EPLB_TYPE_REAL && strpbrk(value, ".en") == NULL) {
        after = ".0";
    }
    EPLB_FAIL(EPLB_INVALID, "option %s takes %s, not %s%s%s (%s)", option->name, rule, before, value, after,
              from);
}

enum eplb_status eplb_option_refuse_reserved(const struct eplb_option *option, struct eplb_source source,
                                             struct eplb_error *error)
{
    char from[EPLB_SOURCE_TEXT];
    EPLB_ASSERT(eplb_option_is_reserved(option));
    eplb_source_text(source, from);
    EPLB_FAIL(EPLB_UNSUPPORTED, "option %s is reserved (%s) and not built yet; leave it out (%s)",
              option->name, option->doc, from);
}

void eplb_option_store(const struct eplb_option *option, const struct eplb_value *value, void *base)
{
    EPLB_ASSERT(!eplb_option_is_reserved(option) && value->type == option->type);
    char *field = (char *)base + option->offset;
    switch (option->type) {
    case EPLB_TYPE_BOOL:
        memcpy(field, &value->boolean, sizeof value->boolean);
        return;
    case EPLB_TYPE_INT: {
        EPLB_ASSERT(value->integer >= INT32_MIN && value->integer <= INT32_MAX);
        int32_t integer = (int32_t)value->integer;
        memcpy(field, &integer, sizeof integer);
        return;
    }
    case EPLB_TYPE_WIDE:
        memcpy(field, &value->integer, sizeof value->integer);
        return;
    case EPLB_TYPE_REAL:
        memcpy(field, &value->real, sizeof value->real);
        return;
    case EPLB_TYPE_NAME:
        EPLB_ASSERT(strlen(value->text) < EPLB_OPTION_TEXT);
        strncpy(field, value->text, EPLB_OPTION_TEXT);
        return;
    case EPLB_TYPE_PATH:
        EPLB_ASSERT(strlen(value->text) < EPLB_OPTION_PATH);
        strncpy(field, value->text, EPLB_OPTION_PATH);
        return;
    default:
        memcpy(field, &value->text, sizeof value->text);
    }
}

struct eplb_value eplb_option_load(const struct eplb_option *option, const void *base)
{
    EPLB_ASSERT(!eplb_option_is_reserved(option));
    const char *field = (const char *)base + option->offset;
    struct eplb_value value = {.type = option->type};
    int32_t integer;
    switch (option->type) {
    case EPLB_TYPE_BOOL:
        memcpy(&value.boolean, field, sizeof value.boolean);
        break;
    case EPLB_TYPE_INT:
        memcpy(&integer, field, sizeof integer);
        value.integer = integer;
        break;
    case EPLB_TYPE_WIDE:
        memcpy(&value.integer, field, sizeof value.integer);
        break;
    case EPLB_TYPE_REAL:
        memcpy(&value.real, field, sizeof value.real);
        break;
    case EPLB_TYPE_NAME:
    case EPLB_TYPE_PATH:
        value.text = field;
        break;
    default:
        memcpy(&value.text, field, sizeof value.text);
    }
    return value;
}

void eplb_option_store_defaults(int first, int end, void *base)
{
    EPLB_ASSERT(first >= 0 && first <= end && end <= EPLB_NUM_BUILT_OPTIONS);
    for (int id = first; id < end; id++) {
        const struct eplb_option *option = &rows[id];
        if (option->default_text == NULL)
            continue;
        struct eplb_value value;
        struct eplb_value given = {.type = EPLB_TYPE_FLAG, .text = option->default_text};
        bool accepted = eplb_option_accept(option, &given, &value);
        EPLB_ASSERT(accepted);
        eplb_option_store(option, &value, base);
    }
}
