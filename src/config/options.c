/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/options.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/nearest.h"
#include "config/option.h"
#include "config/text.h"

enum eplb_status eplb_options_init(struct eplb_options *options, size_t size, struct eplb_error *error)
{
    if (size != sizeof *options)
        EPLB_FAIL(EPLB_UNSUPPORTED,
                  "struct eplb_options has %zu bytes in this library, not %zu as in the host",
                  sizeof *options, size);
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    eplb_option_store_defaults(0, EPLB_NUM_ENGINE_OPTIONS, options);
    return EPLB_OK;
}

static enum eplb_status refuse_unknown(const char *name, struct eplb_source source, struct eplb_error *error)
{
    const char *names[EPLB_NUM_ENGINE_OPTIONS];
    for (int i = 0; i < EPLB_NUM_ENGINE_OPTIONS; i++)
        names[i] = eplb_option_row(i)->name;
    char shown[EPLB_SHOWN_TEXT];
    char from[EPLB_SOURCE_TEXT];
    eplb_text_shown(shown, name);
    eplb_source_text(source, from);
    EPLB_FAIL(EPLB_USAGE, "unknown option \"%s\" (%s); the nearest known name is %s", shown, from,
              names[eplb_nearest(name, names, EPLB_NUM_ENGINE_OPTIONS)]);
}

static const struct eplb_option *find_engine(const char *name)
{
    const struct eplb_option *option = eplb_option_find(name);
    return option != NULL && eplb_option_is_engine(option) ? option : NULL;
}

/** Finds an option that can be set; the others are refused. */
static enum eplb_status find_settable(const char *name, struct eplb_source source,
                                      const struct eplb_option **found, struct eplb_error *error)
{
    const struct eplb_option *option = eplb_option_find(name);
    if (option != NULL && eplb_option_is_reserved(option))
        return eplb_option_refuse_reserved(option, source, error);
    if (option == NULL || !eplb_option_is_engine(option))
        return refuse_unknown(name, source, error);
    *found = option;
    return EPLB_OK;
}

static enum eplb_status set(struct eplb_options *options, const char *name, const struct eplb_value *given,
                            struct eplb_source source, struct eplb_error *error)
{
    const struct eplb_option *option;
    EPLB_TRY(find_settable(name, source, &option, error));
    struct eplb_value value;
    if (!eplb_option_accept(option, given, &value))
        return eplb_option_refuse(option, given, source, error);
    struct eplb_source *recorded = &options->sources[eplb_option_id(option)];
    if (source.kind >= recorded->kind) {
        eplb_option_store(option, &value, options);
        *recorded = source;
    }
    return EPLB_OK;
}

enum eplb_status eplb_options_set(struct eplb_options *options, const char *name, const char *value,
                                  struct eplb_source source, struct eplb_error *error)
{
    struct eplb_value given = {.type = EPLB_TYPE_FLAG, .text = value};
    return set(options, name, &given, source, error);
}

enum eplb_status eplb_options_set_bool(struct eplb_options *options, const char *name, bool value,
                                       struct eplb_source source, struct eplb_error *error)
{
    struct eplb_value given = {.type = EPLB_TYPE_BOOL, .boolean = value};
    return set(options, name, &given, source, error);
}

enum eplb_status eplb_options_set_int(struct eplb_options *options, const char *name, int64_t value,
                                      struct eplb_source source, struct eplb_error *error)
{
    struct eplb_value given = {.type = EPLB_TYPE_INT, .integer = value};
    return set(options, name, &given, source, error);
}

enum eplb_status eplb_options_set_real(struct eplb_options *options, const char *name, double value,
                                       struct eplb_source source, struct eplb_error *error)
{
    struct eplb_value given = {.type = EPLB_TYPE_REAL, .real = value};
    return set(options, name, &given, source, error);
}

enum eplb_status eplb_options_set_text(struct eplb_options *options, const char *name, const char *value,
                                       struct eplb_source source, struct eplb_error *error)
{
    struct eplb_value given = {.type = EPLB_TYPE_TEXT, .text = value};
    return set(options, name, &given, source, error);
}

enum eplb_status eplb_options_refuse(const char *name, const char *value, struct eplb_source source,
                                     struct eplb_error *error)
{
    const struct eplb_option *option;
    EPLB_TRY(find_settable(name, source, &option, error));
    struct eplb_value given = {.type = EPLB_TYPE_NONE, .text = value};
    return eplb_option_refuse(option, &given, source, error);
}

struct eplb_source eplb_options_source(const struct eplb_options *options, const char *name)
{
    const struct eplb_option *option = find_engine(name);
    return option == NULL ? (struct eplb_source){0} : options->sources[eplb_option_id(option)];
}

bool eplb_options_was_given(const struct eplb_options *options, const char *name)
{
    return eplb_options_source(options, name).kind != EPLB_SOURCE_DEFAULT;
}

/** A value with its source, for sentences: "8 (flag)". */
struct cited {
    char text[EPLB_RULE_TEXT + EPLB_SOURCE_TEXT + 3];
};

static struct cited cite(const struct eplb_options *options, int id)
{
    struct cited cited;
    char value_text[EPLB_RULE_TEXT];
    char source_text[EPLB_SOURCE_TEXT];
    struct eplb_value value = eplb_option_load(eplb_option_row(id), options);
    eplb_value_text(&value, value_text);
    eplb_source_text(options->sources[id], source_text);
    snprintf(cited.text, sizeof cited.text, "%s (%s)", value_text, source_text);
    return cited;
}

static enum eplb_status check_ranges(const struct eplb_options *options, struct eplb_error *error)
{
    for (int i = 0; i < EPLB_NUM_ENGINE_OPTIONS; i++) {
        const struct eplb_option *option = eplb_option_row(i);
        struct eplb_value value = eplb_option_load(option, options);
        struct eplb_value accepted;
        if (!eplb_option_accept(option, &value, &accepted))
            return eplb_option_refuse(option, &value, options->sources[i], error);
    }
    return EPLB_OK;
}

static enum eplb_status check_transfers(const struct eplb_options *options, struct eplb_error *error)
{
    if (options->eplb_transfer_inflight_bytes < options->eplb_transfer_chunk_bytes)
        EPLB_FAIL(EPLB_INVALID,
                  "eplb_transfer_inflight_bytes %s is below eplb_transfer_chunk_bytes %s: one "
                  "message must be allowed",
                  cite(options, EPLB_OPTION_eplb_transfer_inflight_bytes).text,
                  cite(options, EPLB_OPTION_eplb_transfer_chunk_bytes).text);
    /* A rank that waits out a transfer must not be taken for a silent one. */
    if (options->rank_silence_timeout_seconds <= options->eplb_transfer_timeout_seconds)
        EPLB_FAIL(EPLB_INVALID,
                  "rank_silence_timeout_seconds %s must exceed eplb_transfer_timeout_seconds %s",
                  cite(options, EPLB_OPTION_rank_silence_timeout_seconds).text,
                  cite(options, EPLB_OPTION_eplb_transfer_timeout_seconds).text);
    return EPLB_OK;
}

enum eplb_status eplb_options_check(const struct eplb_options *options, int64_t num_experts,
                                    int64_t num_workers, struct eplb_error *error)
{
    EPLB_TRY(check_ranges(options, error));
    EPLB_TRY(check_transfers(options, error));
    struct cited ep_size = cite(options, EPLB_OPTION_ep_size);
    if (num_experts < 1)
        EPLB_FAIL(EPLB_INVALID, "a MoE layer needs at least 1 expert, not %lld", (long long)num_experts);
    if (num_workers != 0 && options->ep_size != num_workers)
        EPLB_FAIL(EPLB_INVALID,
                  "ep_size %s differs from the number of workers, which is %lld: each worker is one EP rank",
                  ep_size.text, (long long)num_workers);
    if (options->enable_eplb && options->ep_size < 2)
        EPLB_FAIL(EPLB_INVALID, "enable_eplb %s needs ep_size >= 2, not %s",
                  cite(options, EPLB_OPTION_enable_eplb).text, ep_size.text);
    if (num_experts % options->ep_size != 0)
        EPLB_FAIL(
            EPLB_INVALID,
            "num_experts %lld is no multiple of ep_size %s: every rank must own the same number of experts",
            (long long)num_experts, ep_size.text);
    int64_t owned = num_experts / options->ep_size;
    int64_t redundant = eplb_options_effective_redundancy(options);
    if (redundant > num_experts - owned)
        EPLB_FAIL(
            EPLB_INVALID,
            "redundant_experts_num %s gives a rank %lld slots for %lld experts (num_experts %lld / ep_size "
            "%s + redundancy): no rank may hold an expert twice, so at most %lld is allowed",
            cite(options, EPLB_OPTION_redundant_experts_num).text, (long long)(owned + redundant),
            (long long)num_experts, (long long)num_experts, ep_size.text, (long long)(num_experts - owned));
    return EPLB_OK;
}

int32_t eplb_options_effective_redundancy(const struct eplb_options *options)
{
    return options->enable_eplb ? options->redundant_experts_num : 0;
}

int32_t eplb_options_fused_mc2(const struct eplb_options *options)
{
    if (options->enable_fused_mc2 != -1)
        return options->enable_fused_mc2;
    return options->expert_parallel_degree == 2 ? 1 : 0;
}

size_t eplb_options_without_effect(const struct eplb_options *options, char *text, size_t capacity)
{
    size_t length = 0;
    if (capacity > 0)
        text[0] = '\0';
    for (int i = 0; i < EPLB_NUM_ENGINE_OPTIONS && !options->enable_eplb; i++) {
        const struct eplb_option *option = eplb_option_row(i);
        if (option->group != EPLB_GROUP_BALANCING || i == EPLB_OPTION_enable_eplb ||
            options->sources[i].kind == EPLB_SOURCE_DEFAULT)
            continue;
        char source[EPLB_SOURCE_TEXT];
        eplb_source_text(options->sources[i], source);
        bool fits = length < capacity;
        int added = snprintf(fits ? text + length : NULL, fits ? capacity - length : 0, "%s%s (%s)",
                             length == 0 ? "" : ", ", option->name, source);
        EPLB_ASSERT(added > 0);
        length += (size_t)added;
    }
    return length;
}

void eplb_options_log(const struct eplb_options *options, const struct eplb_log_sink *sink)
{
    if (sink == NULL || sink->write == NULL)
        return;
    struct cited values[EPLB_NUM_ENGINE_OPTIONS];
    struct eplb_log_field fields[EPLB_NUM_ENGINE_OPTIONS];
    for (int i = 0; i < EPLB_NUM_ENGINE_OPTIONS; i++) {
        values[i] = cite(options, i);
        fields[i] = (struct eplb_log_field){
            .key = eplb_option_row(i)->name, .type = EPLB_LOG_TEXT, .value = {.text = values[i].text}};
    }
    struct eplb_log_record record = {.size = sizeof record,
                                     .level = EPLB_LOG_INFO,
                                     .prefix = "EPLB options",
                                     .num_fields = EPLB_NUM_ENGINE_OPTIONS,
                                     .fields = fields};
    sink->write(sink->context, &record);
}
