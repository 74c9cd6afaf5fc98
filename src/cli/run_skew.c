/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/run_skew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/prng.h"
#include "config/number.h"
#include "engine/records.h"
#include "trace/load_file.h"
#include "trace/workload.h"

/* Tokens that a layer's popularities are made of: enough for shares of one in a million. */
#define RATE_TOKENS INT64_C(1000000000)

struct workload {
    const char *prefix;
    enum eplb_status (*make)(struct eplb_prng *prng, int32_t num_experts, double spread, int64_t tokens,
                             int64_t *load, struct eplb_error *error);
};

static const struct workload workloads[] = {{"zipf:", eplb_workload_zipf},
                                            {"lognormal:", eplb_workload_lognormal}};

static enum eplb_status allocate(int32_t num_phases, const struct eplb_skew_shape *shape,
                                 struct eplb_skew *skew, struct eplb_error *error)
{
    size_t rows = (size_t)num_phases * (size_t)shape->num_layers;
    skew->num_phases = num_phases;
    skew->rates = calloc(rows, (size_t)shape->num_experts * sizeof *skew->rates);
    if (skew->rates == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the popularities of %d phases with %d layers of %d experts",
                  num_phases, shape->num_layers, shape->num_experts);
    return EPLB_OK;
}

static int64_t *rates_of(const struct eplb_skew *skew, const struct eplb_skew_shape *shape, int32_t phase,
                         int32_t layer)
{
    size_t row = (size_t)phase * (size_t)shape->num_layers + (size_t)layer;
    return skew->rates + row * (size_t)shape->num_experts;
}

/* ------------------------------------------------------------------------------------- made up */

static enum eplb_status draw(const struct workload *workload, double spread,
                             const struct eplb_skew_shape *shape, uint64_t seed, struct eplb_skew *skew,
                             struct eplb_error *error)
{
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    for (int32_t phase = 0; phase < skew->num_phases; phase++)
        for (int32_t layer = 0; layer < shape->num_layers; layer++) {
            int64_t *rates = rates_of(skew, shape, phase, layer);
            EPLB_TRY(workload->make(&prng, shape->num_experts, spread, RATE_TOKENS, rates, error));
            /* Whoever is hardly wanted is still wanted: routing needs top_k choices in every layer. */
            for (int32_t expert = 0; expert < shape->num_experts; expert++)
                rates[expert] += rates[expert] == 0;
        }
    return EPLB_OK;
}

static enum eplb_status make_up(const char *text, const struct workload *workload,
                                const struct eplb_skew_shape *shape, uint64_t seed, struct eplb_skew *skew,
                                struct eplb_error *error)
{
    double spread;
    if (!eplb_real_read(text + strlen(workload->prefix), &spread))
        EPLB_FAIL(EPLB_INVALID, "--skew=%s: after '%s' comes a number from 0 to 8, as in %s1.2",
                  eplb_quote(text, strlen(text)).text, workload->prefix, workload->prefix);
    struct eplb_error reason;
    EPLB_TRY(allocate(EPLB_SKEW_PHASES, shape, skew, error));
    enum eplb_status status = draw(workload, spread, shape, seed, skew, &reason);
    if (status != EPLB_OK)
        EPLB_FAIL(status, "--skew=%s: %s", eplb_quote(text, strlen(text)).text, reason.text);
    return EPLB_OK;
}

/* ----------------------------------------------------------------------------------- from a file */

static enum eplb_status check_load(const char *name, const struct eplb_load *load,
                                   const struct eplb_skew_shape *shape, struct eplb_error *error)
{
    if (load->num_layers != shape->num_layers || load->num_experts != shape->num_experts)
        EPLB_FAIL(EPLB_INVALID, "%s has %d layers of %d experts; the model has %d of %d (see --model)", name,
                  load->num_layers, load->num_experts, shape->num_layers, shape->num_experts);
    if (load->num_steps > EPLB_MAX_SKEW_PHASES)
        EPLB_FAIL(EPLB_INVALID, "%s has %d steps, each a phase; at most %d are allowed", name,
                  load->num_steps, EPLB_MAX_SKEW_PHASES);
    return EPLB_OK;
}

static enum eplb_status check_row(const char *name, const struct eplb_load *load, int32_t step, int32_t layer,
                                  int32_t top_k, struct eplb_error *error)
{
    const int64_t *row = eplb_load_row(load, step, layer);
    int64_t sum = 0;
    int32_t positive = 0;
    for (int32_t expert = 0; expert < load->num_experts; expert++) {
        if (row[expert] > EPLB_MAX_LOAD - sum)
            EPLB_FAIL(EPLB_INVALID, "%s: step %lld, layer %d: the counts add up to more than 2^62", name,
                      (long long)load->step_ids[step], load->layer_ids[layer]);
        sum += row[expert];
        positive += row[expert] > 0;
    }
    if (positive < top_k)
        EPLB_FAIL(EPLB_INVALID,
                  "%s: step %lld, layer %d: %d experts have tokens; the model's top_k %d needs as many", name,
                  (long long)load->step_ids[step], load->layer_ids[layer], positive, top_k);
    return EPLB_OK;
}

static enum eplb_status take_load(const char *name, const struct eplb_load *load,
                                  const struct eplb_skew_shape *shape, struct eplb_skew *skew,
                                  struct eplb_error *error)
{
    EPLB_TRY(check_load(name, load, shape, error));
    for (int32_t step = 0; step < load->num_steps; step++)
        for (int32_t layer = 0; layer < load->num_layers; layer++)
            EPLB_TRY(check_row(name, load, step, layer, shape->top_k, error));
    EPLB_TRY(allocate(load->num_steps, shape, skew, error));
    for (int32_t step = 0; step < load->num_steps; step++)
        for (int32_t layer = 0; layer < load->num_layers; layer++)
            memcpy(rates_of(skew, shape, step, layer), eplb_load_row(load, step, layer),
                   (size_t)shape->num_experts * sizeof *skew->rates);
    return EPLB_OK;
}

static enum eplb_status read_file(const char *path, const struct eplb_skew_shape *shape,
                                  struct eplb_skew *skew, char warning[EPLB_ERROR_TEXT],
                                  struct eplb_error *error)
{
    struct eplb_load load;
    EPLB_TRY(eplb_load_read(path, &load, error));
    snprintf(warning, EPLB_ERROR_TEXT, "%s", load.warning);
    enum eplb_status status = take_load(eplb_input_name(path), &load, shape, skew, error);
    eplb_load_free(&load);
    return status;
}

enum eplb_status eplb_skew_make(const char *text, const struct eplb_skew_shape *shape, uint64_t seed,
                                struct eplb_skew *skew, char warning[EPLB_ERROR_TEXT],
                                struct eplb_error *error)
{
    struct eplb_skew made = {0};
    const struct workload *workload = NULL;
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++)
        if (strncmp(text, workloads[i].prefix, strlen(workloads[i].prefix)) == 0)
            workload = &workloads[i];
    warning[0] = '\0';
    enum eplb_status status = workload == NULL ? read_file(text, shape, &made, warning, error)
                                               : make_up(text, workload, shape, seed, &made, error);
    if (status == EPLB_OK)
        *skew = made;
    else
        eplb_skew_free(&made);
    return status;
}

void eplb_skew_free(struct eplb_skew *skew)
{
    free(skew->rates);
    *skew = (struct eplb_skew){0};
}
