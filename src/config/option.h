/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Rows of the option table, and the values they take.
 */
#ifndef CONFIG_OPTION_H
#define CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/option_table.h"
#include "eplb/options.h"

enum eplb_command_id {
#define EPLB_COMMAND_ENUM(id, ...) EPLB_COMMAND_##id,
    EPLB_COMMANDS(EPLB_COMMAND_ENUM)
#undef EPLB_COMMAND_ENUM
        EPLB_NUM_COMMANDS
};

/** The bit of a command in the column `commands`. */
#define EPLB_FOR(command) (1u << EPLB_COMMAND_##command)

/** Ids of the rows: first the engine's, then the commands', then the reserved ones. */
enum {
#define EPLB_OPTION_ENUM(name, ...) EPLB_OPTION_##name,
    EPLB_OPTION_TABLE(EPLB_OPTION_ENUM)
#undef EPLB_OPTION_ENUM
        EPLB_NUM_OPTIONS
};

#define EPLB_OPTION_COUNT(name, ...) +1
enum {
    EPLB_NUM_ENGINE_OPTIONS = 0 EPLB_ENGINE_OPTIONS(EPLB_OPTION_COUNT),
    EPLB_NUM_BUILT_OPTIONS = EPLB_NUM_ENGINE_OPTIONS EPLB_COMMAND_OPTIONS(EPLB_OPTION_COUNT)
};
#undef EPLB_OPTION_COUNT

/** What an option's value is, and as what a value was given. */
enum eplb_type {
    EPLB_TYPE_BOOL, /**< bool */
    EPLB_TYPE_INT,  /**< int32_t */
    EPLB_TYPE_WIDE, /**< int64_t */
    EPLB_TYPE_REAL, /**< double */
    EPLB_TYPE_NAME, /**< char[EPLB_OPTION_TEXT], printable ASCII */
    EPLB_TYPE_TEXT, /**< const char *, borrowed, not empty; NULL when not given */
    EPLB_TYPE_PATH, /**< char[EPLB_OPTION_PATH]; "" when there is none */
    EPLB_TYPE_FLAG, /**< Given only: the text of a flag, to be read as the option's type. */
    EPLB_TYPE_NONE, /**< Given only: what no option takes. */
};

struct eplb_value {
    enum eplb_type type;
    bool boolean;
    int64_t integer;
    double real;
    const char *text;
};

/** Groups of the engine's options in help and man page. */
enum eplb_option_group {
    EPLB_GROUP_BALANCING, /**< Without effect when enable_eplb is false. */
    EPLB_GROUP_PARALLELISM,
    EPLB_GROUP_PROCESSES,
};

/** Who reads an engine's option, which says when its value is fixed. */
enum eplb_option_reader {
    EPLB_READER_MANAGER,
    EPLB_READER_RUNTIME,
};

/**
 * The command's own options, a field per row of EPLB_COMMAND_OPTIONS; a text without a default is NULL
 * when it is not given.
 */
struct eplb_command_options {
#define EPLB_FIELD_BOOL bool
#define EPLB_FIELD_INT int32_t
#define EPLB_FIELD_WIDE int64_t
#define EPLB_FIELD_REAL double
#define EPLB_FIELD_TEXT const char *
#define EPLB_COMMAND_FIELD(name, type, ...) EPLB_FIELD_##type name;
    EPLB_COMMAND_OPTIONS(EPLB_COMMAND_FIELD)
#undef EPLB_COMMAND_FIELD
#undef EPLB_FIELD_BOOL
#undef EPLB_FIELD_INT
#undef EPLB_FIELD_WIDE
#undef EPLB_FIELD_REAL
#undef EPLB_FIELD_TEXT
};

struct eplb_option {
    const char *name;
    enum eplb_type type;
    size_t offset;                  /**< Of the field that takes the value. */
    const char *default_text;       /**< NULL: none. */
    double minimum, maximum;        /**< Allowed range of INT, WIDE and REAL, both inclusive. */
    const char *rule;               /**< TEXT, and NAME with `accepts`: what is allowed. */
    bool (*accepts)(const char *);  /**< NAME: what is allowed; NULL: printable ASCII. */
    const char *word;               /**< Stands for the value in help; NULL for a bool. */
    enum eplb_option_group group;   /**< Engine's options only. */
    enum eplb_option_reader reader; /**< Engine's options only. */
    unsigned commands;              /**< Commands that have it, an engine's option beside those that take
                                         all of these; 0: all, and none beside those. */
    const char *doc;
};

const struct eplb_option *eplb_option_row(int id);

/** Whether a text can be part of a name in shared memory: 1 to 32 letters, digits, '-' or '_'. */
bool eplb_is_word(const char *text);

/** Whether a text names a process group that runs can have. */
bool eplb_is_process_group(const char *text);

/** Whether a text names a replica routing. */
bool eplb_is_replica_routing(const char *text);

/** The row of exactly this name; NULL when there is none. */
const struct eplb_option *eplb_option_find(const char *name);

int eplb_option_id(const struct eplb_option *option);

bool eplb_option_is_engine(const struct eplb_option *option);
bool eplb_option_is_reserved(const struct eplb_option *option);
bool eplb_option_is_of(const struct eplb_option *option, enum eplb_command_id command);

const char *eplb_command_name(enum eplb_command_id command);

/**
 * Whether the command's pages tell of the engine's reserved names and of its file: of the commands that
 * take all of the engine's options, and of `eplb` alone.
 */
bool eplb_command_tells_engine(enum eplb_command_id command);

/** What stands for the command's one argument that is no option; NULL when it takes none. */
const char *eplb_command_operand(enum eplb_command_id command);

/** Name of the first command that has the option. */
const char *eplb_option_owner(const struct eplb_option *option);

/** Bytes that eplb_option_rule and eplb_value_text need. */
#define EPLB_RULE_TEXT 96

/** Writes what the option takes, for instance "an integer in [0, 2147483647]". */
void eplb_option_rule(const struct eplb_option *option, char rule[EPLB_RULE_TEXT]);

/** Reads and checks a given value; *value has the option's type. False when it is not allowed. */
bool eplb_option_accept(const struct eplb_option *option, const struct eplb_value *given,
                        struct eplb_value *value);

/** EPLB_INVALID with the sentence that names option, rule, given value and source. */
enum eplb_status eplb_option_refuse(const struct eplb_option *option, const struct eplb_value *given,
                                    struct eplb_source source, struct eplb_error *error);

/** EPLB_UNSUPPORTED with the sentence for a reserved name. */
enum eplb_status eplb_option_refuse_reserved(const struct eplb_option *option, struct eplb_source source,
                                             struct eplb_error *error);

/** Copies between a value and the option's field in the struct at base. */
void eplb_option_store(const struct eplb_option *option, const struct eplb_value *value, void *base);
struct eplb_value eplb_option_load(const struct eplb_option *option, const void *base);

/** Stores the defaults of the rows [first, end) in the struct at base. */
void eplb_option_store_defaults(int first, int end, void *base);

/** Writes a value of the option types as a flag would give it; a long text is cut. */
void eplb_value_text(const struct eplb_value *value, char text[EPLB_RULE_TEXT]);

/** Bytes that eplb_source_text needs. */
#define EPLB_SOURCE_TEXT 80

/** Writes "default", "flag" or "file NAME". */
void eplb_source_text(struct eplb_source source, char text[EPLB_SOURCE_TEXT]);

#endif
