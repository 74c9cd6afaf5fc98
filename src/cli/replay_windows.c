/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/replay_windows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/planning.h"
#include "trace/ids_file.h"

/* What windows of routed ids may take, since few ids can make many of them; 1 GiB of counts. */
static const int64_t MOST_COUNTS = INT64_C(1) << 27;

static const char *plural(int32_t count)
{
    return count == 1 ? "" : "s";
}

/** How many windows a recording makes; warns of the steps that are left over. */
static enum eplb_status count_windows(const char *name, int32_t num_steps, int32_t length, const char *hint,
                                      int32_t *num_windows, struct eplb_error *error)
{
    int32_t count = num_steps / length;
    if (count < 2)
        EPLB_FAIL(EPLB_INVALID,
                  "%s: a plan is scored on the window after it, so two windows of %" PRId32
                  " step%s are needed at least; the recording has %" PRId32 " step%s%s",
                  name, length, plural(length), num_steps, plural(num_steps), hint);
    if (count * length < num_steps)
        eplb_cli_warn("%s: the last %" PRId32 " of %" PRId32 " steps do not fill a window of %" PRId32
                      " and are left out",
                      name, num_steps - count * length, num_steps, length);
    *num_windows = count;
    return EPLB_OK;
}

static enum eplb_status allocate_ids(struct eplb_replay_windows *windows, int32_t count,
                                     struct eplb_error *error)
{
    windows->last_ids = calloc((size_t)count, sizeof *windows->last_ids);
    if (windows->last_ids == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for %" PRId32 " windows", count);
    return EPLB_OK;
}

/**
 * Adds steps up in place: window i takes row i, and its steps lie in rows that no window before it has
 * written.
 */
static enum eplb_status merge_steps(const char *path, struct eplb_replay_windows *windows, int32_t count,
                                    int32_t length, int64_t *sum, struct eplb_error *error)
{
    struct eplb_load *load = &windows->load;
    size_t bytes = (size_t)load->num_layers * (size_t)load->num_experts * sizeof *sum;
    for (int32_t window = 0; window < count; window++) {
        int32_t first = window * length;
        struct eplb_error reason;
        enum eplb_status status = eplb_load_sum(load, first, first + length, sum, &reason);
        EPLB_TRY(eplb_planning_name_file(status, path, &reason, error));
        memcpy(eplb_load_row(load, window, 0), sum, bytes);
        memmove(load->labels[window], load->labels[first], sizeof load->labels[first]);
        load->step_ids[window] = load->step_ids[first];
        windows->last_ids[window] = load->step_ids[first + length - 1];
    }
    load->num_steps = count;
    return EPLB_OK;
}

static enum eplb_status read_steps(const struct eplb_config *config, struct eplb_replay_windows *windows,
                                   struct eplb_error *error)
{
    const char *path = config->own.load;
    struct eplb_load *load = &windows->load;
    int32_t length = config->own.window == 0 ? 1 : config->own.window;
    const char *hint =
        eplb_ids_is_name(path) ? "; of routed ids a phase is a step, and --window=N cuts them finer" : "";
    int32_t count;
    EPLB_TRY(eplb_planning_load(config, load, error));
    EPLB_TRY(count_windows(eplb_input_name(path), load->num_steps, length, hint, &count, error));
    EPLB_TRY(allocate_ids(windows, count, error));
    int64_t *sum = calloc((size_t)load->num_layers, (size_t)load->num_experts * sizeof *sum);
    if (sum == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a window of %" PRId32 " layers", load->num_layers);
    enum eplb_status status = merge_steps(path, windows, count, length, sum, error);
    free(sum);
    return status;
}

static const char *phase_of(const struct eplb_ids *ids, int32_t step)
{
    for (int32_t phase = 0; phase < ids->num_phases; phase++)
        if (step < ids->phases[phase].end)
            return ids->phases[phase].name;
    return "";
}

static enum eplb_status cut_ids(const char *name, const struct eplb_ids *ids, int32_t length,
                                struct eplb_replay_windows *windows, struct eplb_error *error)
{
    struct eplb_load *load = &windows->load;
    int32_t count;
    EPLB_TRY(count_windows(name, ids->num_steps, length, "", &count, error));
    /* At most 2^16 each: no overflow. */
    int64_t per_window = (int64_t)ids->num_layers * ids->num_experts;
    if (per_window > MOST_COUNTS / count)
        EPLB_FAIL(EPLB_INVALID,
                  "%s: %" PRId32 " windows x %" PRId32 " layers x %" PRId32 " experts are more than %" PRId64
                  " counts; make windows larger (--window=N)",
                  name, count, ids->num_layers, ids->num_experts, MOST_COUNTS);
    EPLB_TRY(eplb_load_init(load, count, ids->num_layers, ids->num_experts, error));
    EPLB_TRY(allocate_ids(windows, count, error));
    load->top_k = ids->top_k;
    memcpy(load->layer_ids, ids->layer_ids, (size_t)ids->num_layers * sizeof *load->layer_ids);
    for (int32_t window = 0; window < count; window++) {
        int32_t first = window * length;
        eplb_ids_count(ids, first, first + length, eplb_load_row(load, window, 0));
        snprintf(load->labels[window], sizeof load->labels[window], "%s", phase_of(ids, first));
        load->step_ids[window] = first;
        windows->last_ids[window] = first + length - 1;
    }
    return EPLB_OK;
}

static enum eplb_status read_ids(const struct eplb_config *config, struct eplb_replay_windows *windows,
                                 struct eplb_error *error)
{
    struct eplb_ids ids = {0};
    EPLB_TRY(eplb_planning_check_given(config, error));
    EPLB_TRY(eplb_ids_read(config->own.load, &ids, error));
    enum eplb_status status =
        cut_ids(eplb_input_name(config->own.load), &ids, config->own.window, windows, error);
    eplb_ids_free(&ids);
    return status;
}

enum eplb_status eplb_replay_windows_read(const struct eplb_config *config,
                                          struct eplb_replay_windows *windows, struct eplb_error *error)
{
    if (config->own.window > 0 && config->own.load != NULL && eplb_ids_is_name(config->own.load))
        return read_ids(config, windows, error);
    return read_steps(config, windows, error);
}

void eplb_replay_windows_free(struct eplb_replay_windows *windows)
{
    eplb_load_free(&windows->load);
    free(windows->last_ids);
    *windows = (struct eplb_replay_windows){0};
}
