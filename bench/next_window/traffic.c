/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "next_window/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "support/bench.h"
#include "trace/ids_file.h"
#include "trace/load_file.h"
#include "trace/workload.h"

enum { PATH_TEXT = 4096, MOST_FILES = 2 };

/* The traffic that is made up. */
enum {
    MADE_LAYERS = 4,
    MADE_EXPERTS = 32,
    MADE_TOP_K = 4,
    MADE_PHASES = 2,
    MADE_FORWARDS = 64,
    MADE_ROWS = 1000000
};

static void path_of(const char *data, const char *file, char *path)
{
    if (snprintf(path, PATH_TEXT, "%s/%s", data, file) >= PATH_TEXT)
        eplb_bench_fail("the name of the folder of recordings is too long");
}

static int64_t *load_row(const struct traffic *traffic, int32_t window, int32_t layer)
{
    return traffic->load +
           ((size_t)window * (size_t)traffic->num_layers + (size_t)layer) * (size_t)traffic->num_experts;
}

const int64_t *traffic_load(const struct traffic *traffic, int32_t window, int32_t layer)
{
    return load_row(traffic, window, layer);
}

/** Every step is a window of a phase of its own kind: neighbours with another label are a shift. */
static void take_windows(const struct eplb_load *file, int32_t stride, struct traffic *traffic)
{
    traffic->num_layers = (file->num_layers + stride - 1) / stride;
    traffic->num_experts = file->num_experts;
    traffic->num_windows = file->num_steps;
    size_t windows = (size_t)file->num_steps;
    traffic->phase = eplb_bench_allocate(windows, sizeof *traffic->phase);
    traffic->first_forward = eplb_bench_allocate(windows + 1, sizeof *traffic->first_forward);
    traffic->load = eplb_bench_allocate(windows * (size_t)traffic->num_layers * (size_t)traffic->num_experts,
                                        sizeof *traffic->load);
    for (int32_t window = 0; window < file->num_steps; window++) {
        int is_new = window > 0 && strcmp(file->labels[window], file->labels[window - 1]) != 0;
        traffic->phase[window] = window == 0 ? 0 : traffic->phase[window - 1] + is_new;
        for (int32_t layer = 0; layer < traffic->num_layers; layer++)
            memcpy(load_row(traffic, window, layer), eplb_load_row(file, window, layer * stride),
                   (size_t)file->num_experts * sizeof *traffic->load);
    }
}

/** Tokens of all files one after the other, of every stride-th layer. */
static void take_tokens(const struct eplb_ids *files, int32_t num_files, int32_t stride,
                        struct traffic *traffic)
{
    size_t tokens = 0;
    for (int32_t i = 0; i < num_files; i++)
        tokens += (size_t)files[i].num_steps * (size_t)files[i].num_sequences;
    traffic->num_layers = (files[0].num_layers + stride - 1) / stride;
    traffic->num_experts = files[0].num_experts;
    traffic->top_k = files[0].top_k;
    size_t row = (size_t)traffic->top_k;
    traffic->experts =
        eplb_bench_allocate(tokens * (size_t)traffic->num_layers * row, sizeof *traffic->experts);
    uint16_t *next = traffic->experts;
    for (int32_t i = 0; i < num_files; i++)
        for (int32_t step = 0; step < files[i].num_steps; step++)
            for (int32_t sequence = 0; sequence < files[i].num_sequences; sequence++)
                for (int32_t layer = 0; layer < traffic->num_layers; layer++, next += row)
                    memcpy(next, eplb_ids_at(&files[i], step, sequence, layer * stride), row * sizeof *next);
}

/** Cuts a phase's tokens [first, end) into equal windows of whole forwards. */
static void cut_phase(struct traffic *traffic, int32_t phase, int32_t windows, int32_t forward, int32_t first,
                      int32_t end)
{
    int32_t forwards = (end - first + forward - 1) / forward;
    for (int32_t window = 0; window < windows; window++) {
        traffic->phase[traffic->num_windows] = phase;
        int32_t stop = (int32_t)((int64_t)forwards * (window + 1) / windows);
        for (int32_t i = (int32_t)((int64_t)forwards * window / windows); i < stop; i++) {
            int32_t last = first + (i + 1) * forward;
            traffic->first_token[++traffic->num_forwards] = last < end ? last : end;
        }
        traffic->first_forward[++traffic->num_windows] = traffic->num_forwards;
    }
}

static void count_windows(struct traffic *traffic)
{
    for (int32_t window = 0; window < traffic->num_windows; window++)
        for (int32_t layer = 0; layer < traffic->num_layers; layer++)
            traffic_count(traffic, layer, traffic->first_forward[window], traffic->first_forward[window + 1],
                          load_row(traffic, window, layer));
}

/** Draws top_k different experts by popularity: a softmax's choice, as the largest of perturbed shares. */
static void draw_token(struct eplb_prng *prng, const int64_t *popularity, uint16_t *experts)
{
    double best[MADE_TOP_K] = {0};
    for (int32_t expert = 0; expert < MADE_EXPERTS; expert++) {
        double key = (double)popularity[expert] * eplb_prng_real(prng);
        int place = MADE_TOP_K;
        for (; place > 0 && key > best[place - 1]; place--)
            if (place < MADE_TOP_K) {
                best[place] = best[place - 1];
                experts[place] = experts[place - 1];
            }
        if (place < MADE_TOP_K) {
            best[place] = key;
            experts[place] = (uint16_t)expert;
        }
    }
}

static void allocate_made(const struct recording *recording, int32_t windows, struct traffic *traffic)
{
    size_t forwards = (size_t)windows * MADE_FORWARDS;
    size_t tokens = forwards * (size_t)recording->forward;
    *traffic = (struct traffic){.num_layers = MADE_LAYERS, .num_experts = MADE_EXPERTS, .top_k = MADE_TOP_K};
    traffic->phase = eplb_bench_allocate((size_t)windows, sizeof *traffic->phase);
    traffic->first_forward = eplb_bench_allocate((size_t)windows + 1, sizeof *traffic->first_forward);
    traffic->first_token = eplb_bench_allocate(forwards + 1, sizeof *traffic->first_token);
    traffic->experts = eplb_bench_allocate(tokens * MADE_LAYERS * MADE_TOP_K, sizeof *traffic->experts);
    traffic->load = eplb_bench_allocate((size_t)windows * MADE_LAYERS * MADE_EXPERTS, sizeof *traffic->load);
}

/** Two phases whose popular experts differ, drifting by a few percent from window to window. */
static void make_up(const struct recording *recording, struct traffic *traffic)
{
    struct eplb_prng prng;
    struct eplb_error error;
    int64_t popularity[MADE_LAYERS][MADE_EXPERTS];
    int32_t windows = MADE_PHASES * recording->windows;
    int32_t tokens = MADE_FORWARDS * recording->forward;
    allocate_made(recording, windows, traffic);
    eplb_prng_seed(&prng, 1);
    uint16_t *next = traffic->experts;
    for (int32_t window = 0; window < windows; window++) {
        for (int32_t layer = 0; layer < MADE_LAYERS; layer++) {
            int64_t *row = popularity[layer];
            enum eplb_status status =
                window % recording->windows == 0
                    ? eplb_workload_lognormal(&prng, MADE_EXPERTS, 1.0, MADE_ROWS, row, &error)
                    : eplb_workload_drift(&prng, MADE_EXPERTS, 0.05, row, &error);
            if (status != EPLB_OK)
                eplb_bench_fail(error.text);
        }
        for (int32_t token = 0; token < tokens; token++)
            for (int32_t layer = 0; layer < MADE_LAYERS; layer++, next += MADE_TOP_K)
                draw_token(&prng, popularity[layer], next);
    }
    for (int32_t phase = 0; phase < MADE_PHASES; phase++)
        cut_phase(traffic, phase, recording->windows, recording->forward, phase * recording->windows * tokens,
                  (phase + 1) * recording->windows * tokens);
    count_windows(traffic);
}

static void cut(const struct eplb_ids *files, int32_t num_files, const struct recording *recording,
                struct traffic *traffic)
{
    size_t windows = 0;
    size_t tokens = 0;
    for (int32_t i = 0; i < num_files; i++) {
        windows += (size_t)files[i].num_phases * (size_t)recording->windows;
        tokens += (size_t)files[i].num_steps * (size_t)files[i].num_sequences;
    }
    traffic->phase = eplb_bench_allocate(windows, sizeof *traffic->phase);
    traffic->first_forward = eplb_bench_allocate(windows + 1, sizeof *traffic->first_forward);
    traffic->first_token = eplb_bench_allocate(tokens + 1, sizeof *traffic->first_token);
    int32_t phase = 0;
    int32_t base = 0;
    for (int32_t i = 0; i < num_files; i++) {
        int32_t sequences = files[i].num_sequences;
        for (int32_t j = 0; j < files[i].num_phases; j++, phase++)
            cut_phase(traffic, phase, recording->windows,
                      recording->forward == 0 ? sequences : recording->forward,
                      base + files[i].phases[j].first * sequences, base + files[i].phases[j].end * sequences);
        base += files[i].num_steps * sequences;
    }
    traffic->load = eplb_bench_allocate(windows * (size_t)traffic->num_layers * (size_t)traffic->num_experts,
                                        sizeof *traffic->load);
    count_windows(traffic);
}

static void read_ids(const char *data, const struct recording *recording, int32_t num_files, int32_t stride,
                     struct traffic *traffic)
{
    struct eplb_ids files[MOST_FILES];
    struct eplb_error error;
    char path[PATH_TEXT];
    for (int32_t i = 0; i < num_files; i++) {
        path_of(data, recording->files[i], path);
        if (eplb_ids_read(path, &files[i], &error) != EPLB_OK)
            eplb_bench_fail(error.text);
    }
    take_tokens(files, num_files, stride, traffic);
    cut(files, num_files, recording, traffic);
    for (int32_t i = 0; i < num_files; i++)
        eplb_ids_free(&files[i]);
}

int traffic_read(const char *data, const struct recording *recording, int32_t layer_stride,
                 struct traffic *traffic)
{
    char path[PATH_TEXT];
    int32_t num_files = 0;
    *traffic = (struct traffic){.num_layers = 0};
    if (recording->files[0] == NULL) {
        make_up(recording, traffic);
        return 1;
    }
    if (data == NULL)
        return 0;
    for (; num_files < MOST_FILES && recording->files[num_files] != NULL; num_files++) {
        path_of(data, recording->files[num_files], path);
        if (access(path, F_OK) != 0)
            return 0;
    }
    if (recording->windows > 0) {
        read_ids(data, recording, num_files, layer_stride, traffic);
        return 1;
    }
    struct eplb_load file;
    struct eplb_error error;
    if (eplb_load_read(path, &file, &error) != EPLB_OK)
        eplb_bench_fail(error.text);
    take_windows(&file, layer_stride, traffic);
    eplb_load_free(&file);
    return 1;
}

void traffic_free(struct traffic *traffic)
{
    free(traffic->phase);
    free(traffic->load);
    free(traffic->first_forward);
    free(traffic->first_token);
    free(traffic->experts);
    *traffic = (struct traffic){.num_layers = 0};
}

static const uint16_t *token_at(const struct traffic *traffic, int32_t token, int32_t layer)
{
    return traffic->experts +
           ((size_t)token * (size_t)traffic->num_layers + (size_t)layer) * (size_t)traffic->top_k;
}

void traffic_count(const struct traffic *traffic, int32_t layer, int32_t first, int32_t end, int64_t *load)
{
    memset(load, 0, (size_t)traffic->num_experts * sizeof *load);
    for (int32_t token = traffic->first_token[first]; token < traffic->first_token[end]; token++)
        for (int32_t k = 0; k < traffic->top_k; k++)
            load[token_at(traffic, token, layer)[k]]++;
}

void traffic_sources(const struct traffic *traffic, int32_t layer, int32_t forward, int32_t ep_size,
                     int32_t *counts)
{
    int32_t first = traffic->first_token[forward];
    int32_t tokens = traffic->first_token[forward + 1] - first;
    memset(counts, 0, (size_t)ep_size * (size_t)traffic->num_experts * sizeof *counts);
    for (int32_t i = 0; i < tokens; i++) {
        int32_t source = (int32_t)((int64_t)i * ep_size / tokens);
        for (int32_t k = 0; k < traffic->top_k; k++)
            counts[(size_t)source * (size_t)traffic->num_experts + token_at(traffic, first + i, layer)[k]]++;
    }
}
