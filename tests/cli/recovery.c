/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/recovery.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/event_log.h"

enum { MAX_STEPS = 1 << 16 };

/** The loads of the window's steps, [RECOVERY_WINDOW][L][R], and their sums, [L][R]. */
struct window {
    size_t num_layers, num_ranks;
    int64_t *steps;
    int64_t *sums;
};

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    assert_non_null(memory);
    return memory;
}

/** The step takes the place of the window's oldest one. */
static void slide(struct window *window, const struct eplb_manager_event *event, size_t step)
{
    size_t loads = window->num_layers * window->num_ranks;
    int64_t *row = window->steps + step % RECOVERY_WINDOW * loads;
    for (size_t i = 0; i < loads; i++)
        window->sums[i] -= row[i];
    for (size_t rank = 0; rank < window->num_ranks; rank++) {
        const struct eplb_worker_output *output = &event->outputs[rank];
        if (output->prefix == NULL || (size_t)output->num_layers != window->num_layers)
            fail_msg("forward %" PRIu64 " lacks the counts of rank %zu", event->seq, rank);
        for (size_t layer = 0; layer < window->num_layers; layer++)
            row[layer * window->num_ranks + rank] =
                output->prefix[(layer + 1) * (size_t)output->slots_per_rank - 1];
    }
    for (size_t i = 0; i < loads; i++)
        window->sums[i] += row[i];
}

static double mean_balance(const struct window *window)
{
    double sum = 0;
    for (size_t layer = 0; layer < window->num_layers; layer++) {
        const int64_t *loads = window->sums + layer * window->num_ranks;
        int64_t total = 0;
        int64_t largest = 0;
        for (size_t rank = 0; rank < window->num_ranks; rank++) {
            total += loads[rank];
            largest = loads[rank] > largest ? loads[rank] : largest;
        }
        assert_true(total > 0);
        sum += (double)largest * (double)window->num_ranks / (double)total;
    }
    return sum / (double)window->num_layers;
}

static void take_outputs(struct recovery_series *series, struct window *window,
                         const struct eplb_manager_event *event, uint64_t first)
{
    size_t step = series->num_steps;
    if (step == MAX_STEPS || event->seq != first + step || (size_t)event->num_outputs != window->num_ranks)
        fail_msg("forward %" PRIu64 " with %d outputs is not the one that was expected", event->seq,
                 event->num_outputs);
    slide(window, event, step);
    series->balance[step] = mean_balance(window);
    series->num_steps++;
}

static void next(struct eplb_event_log *log, struct eplb_logged *logged)
{
    struct eplb_error error;
    if (eplb_event_log_next(log, logged, &error) != EPLB_OK)
        fail_msg("%s", error.text);
}

void recovery_read(const char *path, struct recovery_series *series)
{
    struct eplb_event_log log;
    struct eplb_error error;
    if (eplb_event_log_open(path, &log, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    *series = (struct recovery_series){.balance = zeroed(MAX_STEPS, sizeof *series->balance),
                                       .switched = zeroed(MAX_STEPS, sizeof *series->switched),
                                       .updates = zeroed(MAX_STEPS, sizeof *series->updates)};
    const struct eplb_shape *shape = &log.params.shape;
    size_t loads = (size_t)shape->num_layers * (size_t)shape->ep_size;
    struct window window = {.num_layers = (size_t)shape->num_layers,
                            .num_ranks = (size_t)shape->ep_size,
                            .steps = zeroed(RECOVERY_WINDOW * loads, sizeof(int64_t)),
                            .sums = zeroed(loads, sizeof(int64_t))};
    uint64_t first = log.params.first_seq;
    uint64_t switched = 0;
    uint64_t updates = 0;
    struct eplb_logged logged;
    for (next(&log, &logged); logged.kind != EPLB_LOGGED_NOTHING; next(&log, &logged)) {
        if (logged.kind == EPLB_LOGGED_ACTION) {
            const struct eplb_manager_action *action = &logged.action;
            switched += action->type == EPLB_MANAGER_COMMITTED;
            if (action->type == EPLB_MANAGER_COMMAND)
                updates += (uint64_t)action->command->num_weight_updates;
        } else if (logged.event.type == EPLB_MANAGER_SUBMIT && logged.event.warmup) {
            first = logged.event.seq + 1;
        } else if (logged.event.type == EPLB_MANAGER_OUTPUTS && logged.event.seq >= first) {
            take_outputs(series, &window, &logged.event, first);
            series->switched[series->num_steps - 1] = switched;
            series->updates[series->num_steps - 1] = updates;
        }
    }
    assert_true(log.ended);
    free(window.steps);
    free(window.sums);
    eplb_event_log_close(&log);
}

void recovery_free(struct recovery_series *series)
{
    free(series->balance);
    free(series->switched);
    free(series->updates);
    memset(series, 0, sizeof *series);
}

struct recovery recovery_of(const struct recovery_series *series, size_t begin, size_t end)
{
    assert_true(begin < end && end <= series->num_steps);
    size_t before = begin == 0 ? 0 : begin - 1;
    struct recovery recovery = {.switched = series->switched[end - 1] - series->switched[before],
                                .updates = series->updates[end - 1] - series->updates[before]};
    size_t last = end - begin > RECOVERY_FINAL_STEPS ? end - RECOVERY_FINAL_STEPS : begin;
    for (size_t step = begin; step < end; step++) {
        recovery.highest = fmax(recovery.highest, series->balance[step]);
        if (step > 0 && series->switched[step] > series->switched[step - 1])
            recovery.last_switch = step - begin + 1;
    }
    for (size_t step = last; step < end; step++) {
        recovery.final += series->balance[step];
        recovery.final_worst = fmax(recovery.final_worst, series->balance[step]);
    }
    recovery.final /= (double)(end - last);
    return recovery;
}

size_t recovery_steps(const struct recovery_series *series, size_t begin, size_t end, double tolerance)
{
    double final = recovery_of(series, begin, end).final;
    size_t step = end;
    while (step > begin && fabs(series->balance[step - 1] - final) <= tolerance)
        step--;
    return step == begin ? 0 : step - begin + 1;
}

size_t recovery_arrival_steps(const struct recovery_series *series, size_t begin, size_t end)
{
    struct recovery recovery = recovery_of(series, begin, end);
    size_t step = begin;
    while (series->balance[step] < recovery.highest)
        step++;
    while (series->balance[step] > recovery.final_worst)
        step++;
    return step - begin + 1;
}
