/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * Prints a made-up load as eplb-load-1: the same options give the same bytes on every machine.
 *
 * Every layer has hot experts of its own. From one step to the next the popularity of the experts
 * drifts. An expert gets at most one row per token, as in real routing: what a very skewed
 * distribution would give it beyond that goes to the other experts, in proportion.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/wide.h"
#include "eplb/placement.h"
#include "trace/workload.h"

enum distribution {
    ZIPF,
    LOGNORMAL,
};

struct request {
    int64_t experts;
    int64_t layers;
    int64_t steps;
    int64_t top_k;
    int64_t tokens;
    int64_t seed;
    enum distribution distribution;
    double spread; /* exponent or sigma */
    double drift;
};

/* ---- options ---- */

struct integer_option {
    const char *name;
    size_t offset; /* of the int64_t in struct request */
    int64_t minimum;
    int64_t maximum;
    int64_t initial;
    const char *help;
};

static const struct integer_option integer_options[] = {
    {"experts", offsetof(struct request, experts), 1, EPLB_MAX_EXPERTS, 256, "logical experts per layer"},
    {"layers", offsetof(struct request, layers), 1, EPLB_MAX_LAYERS, 58, "MoE layers"},
    {"steps", offsetof(struct request, steps), 1, 1000000, 1, "steps"},
    {"top_k", offsetof(struct request, top_k), 1, EPLB_MAX_EXPERTS, 8,
     "experts per token, at most --experts"},
    {"tokens", offsetof(struct request, tokens), 1, INT64_C(1) << 40, 4096, "tokens per step"},
    {"seed", offsetof(struct request, seed), 0, INT64_MAX, 1, "seed of the generator"},
};
enum { NUM_INTEGER_OPTIONS = sizeof integer_options / sizeof integer_options[0] };

static int64_t *field_of(struct request *request, const struct integer_option *option)
{
    return (int64_t *)(void *)((char *)request + option->offset);
}

static void print_help(void)
{
    printf("usage: make_load [--option=value]...\n\nPrints a made-up load as eplb-load-1 JSON.\n\n");
    for (size_t i = 0; i < NUM_INTEGER_OPTIONS; i++) {
        const struct integer_option *option = &integer_options[i];
        printf("  --%-8s %s, %" PRId64 " to %" PRId64 " (default %" PRId64 ")\n", option->name, option->help,
               option->minimum, option->maximum, option->initial);
    }
    printf(
        "  --dist     zipf:S or lognormal:S, popularity of the experts, S in 0 to 8 (default lognormal:1.0)\n"
        "  --drift    factor exp(S * normal) of each share from step to step, S in 0 to 8 (default 0.05)\n"
        "  --help     print this\n");
}

static enum eplb_status parse_integer(const struct integer_option *option, const char *text, int64_t *value,
                                      struct eplb_error *error)
{
    uint64_t parsed = 0;
    size_t length = strlen(text);
    int valid = length > 0 && strspn(text, "0123456789") == length;
    for (size_t i = 0; valid && i < length; i++)
        valid = !__builtin_mul_overflow(parsed, 10U, &parsed) &&
                !__builtin_add_overflow(parsed, (unsigned)(text[i] - '0'), &parsed);
    if (!valid || parsed < (uint64_t)option->minimum || parsed > (uint64_t)option->maximum)
        EPLB_FAIL(EPLB_USAGE, "--%s is '%s'; allowed is an integer from %" PRId64 " to %" PRId64,
                  option->name, text, option->minimum, option->maximum);
    *value = (int64_t)parsed;
    return EPLB_OK;
}

/* `text` is the part of `whole`, the option's value, that is the number. */
static enum eplb_status parse_spread(const char *name, const char *whole, const char *text, double *value,
                                     struct eplb_error *error)
{
    char *end;
    double parsed = strtod(text, &end);
    if (strspn(text, "0123456789.") != strlen(text) || end == text || *end != '\0' || parsed > 8)
        EPLB_FAIL(EPLB_USAGE, "--%s is '%s'; allowed for S is a number from 0 to 8, such as 1.1", name,
                  whole);
    *value = parsed;
    return EPLB_OK;
}

static enum eplb_status parse_distribution(const char *text, struct request *request,
                                           struct eplb_error *error)
{
    static const char *const names[] = {[ZIPF] = "zipf:", [LOGNORMAL] = "lognormal:"};
    for (int i = ZIPF; i <= LOGNORMAL; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(text, names[i], length) != 0)
            continue;
        request->distribution = (enum distribution)i;
        return parse_spread("dist", text, text + length, &request->spread, error);
    }
    EPLB_FAIL(EPLB_USAGE, "--dist is '%s'; allowed is zipf:S or lognormal:S", text);
}

static enum eplb_status refuse_option(const char *argument, struct eplb_error *error)
{
    const char *names[NUM_INTEGER_OPTIONS + 3];
    for (size_t i = 0; i < NUM_INTEGER_OPTIONS; i++)
        names[i] = integer_options[i].name;
    names[NUM_INTEGER_OPTIONS] = "dist";
    names[NUM_INTEGER_OPTIONS + 1] = "drift";
    names[NUM_INTEGER_OPTIONS + 2] = "help";
    char name[64];
    argument += strspn(argument, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    EPLB_FAIL(EPLB_USAGE,
              "'%s' is no option of make_load; options are written --name=value, the nearest is --%s", name,
              names[eplb_nearest(name, names, NUM_INTEGER_OPTIONS + 3)]);
}

static enum eplb_status parse_argument(const char *argument, struct request *request,
                                       struct eplb_error *error)
{
    const char *equals = strchr(argument, '=');
    if (strncmp(argument, "--", 2) != 0 || equals == NULL)
        return refuse_option(argument, error);
    const char *name = argument + 2;
    size_t length = (size_t)(equals - name);
    for (size_t i = 0; i < NUM_INTEGER_OPTIONS; i++) {
        const struct integer_option *option = &integer_options[i];
        if (strlen(option->name) == length && memcmp(name, option->name, length) == 0)
            return parse_integer(option, equals + 1, field_of(request, option), error);
    }
    if (length == 4 && memcmp(name, "dist", length) == 0)
        return parse_distribution(equals + 1, request, error);
    if (length == 5 && memcmp(name, "drift", length) == 0)
        return parse_spread("drift", equals + 1, equals + 1, &request->drift, error);
    return refuse_option(argument, error);
}

static enum eplb_status parse(int argc, char **argv, struct request *request, struct eplb_error *error)
{
    *request = (struct request){.distribution = LOGNORMAL, .spread = 1.0, .drift = 0.05};
    for (size_t i = 0; i < NUM_INTEGER_OPTIONS; i++)
        *field_of(request, &integer_options[i]) = integer_options[i].initial;
    for (int i = 1; i < argc; i++)
        EPLB_TRY(parse_argument(argv[i], request, error));
    if (request->top_k > request->experts)
        EPLB_FAIL(EPLB_USAGE,
                  "--top_k is %" PRId64 " with --experts=%" PRId64 "; a token cannot choose an expert twice",
                  request->top_k, request->experts);
    return EPLB_OK;
}

/* ---- loads ---- */

/* What an expert with `count` rows takes of the excess. One is added to every count, so that
 * experts without tokens can take some. */
static int64_t part_of(int64_t excess, int64_t count, int64_t total)
{
    return (int64_t)((eplb_u128)(uint64_t)excess * ((uint64_t)count + 1) / (uint64_t)total);
}

/* Cuts every count at `most` and deals what is cut off to the other experts, in proportion to
 * their counts; counts that this lifts above `most` are cut in the next turn. */
static void cut_at(int64_t most, int64_t *load, int64_t experts)
{
    for (;;) {
        int64_t excess = 0;
        int64_t total = 0;
        for (int64_t i = 0; i < experts; i++) {
            excess += load[i] > most ? load[i] - most : 0;
            total += load[i] < most ? load[i] + 1 : 0;
        }
        if (excess == 0)
            return;
        EPLB_ASSERT(total > 0);
        /* Parts are rounded down; the rest goes, one each, to the first experts. */
        int64_t rest = excess;
        for (int64_t i = 0; i < experts; i++)
            if (load[i] < most)
                rest -= part_of(excess, load[i], total);
        for (int64_t i = 0; i < experts; i++) {
            if (load[i] > most) {
                load[i] = most;
            } else if (load[i] < most) {
                load[i] += part_of(excess, load[i], total) + (rest > 0);
                rest -= rest > 0;
            }
        }
        EPLB_ASSERT(rest == 0);
    }
}

static enum eplb_status next_layer(const struct request *request, struct eplb_prng *prng, int64_t step,
                                   int64_t *load, struct eplb_error *error)
{
    int32_t experts = (int32_t)request->experts;
    int64_t rows = request->tokens * request->top_k;
    if (step > 0)
        EPLB_TRY(eplb_workload_drift(prng, experts, request->drift, load, error));
    else if (request->distribution == ZIPF)
        EPLB_TRY(eplb_workload_zipf(prng, experts, request->spread, rows, load, error));
    else
        EPLB_TRY(eplb_workload_lognormal(prng, experts, request->spread, rows, load, error));
    cut_at(request->tokens, load, request->experts);
    return EPLB_OK;
}

static enum eplb_status print_step(const struct request *request, struct eplb_prng *prng, int64_t step,
                                   int64_t *loads, struct eplb_error *error)
{
    printf("%s{\"label\":\"step %" PRId64 "\",\"load\":[", step == 0 ? "\n" : ",\n", step);
    for (int64_t layer = 0; layer < request->layers; layer++) {
        int64_t *load = loads + layer * request->experts;
        EPLB_TRY(next_layer(request, prng, step, load, error));
        printf("%s[", layer == 0 ? "\n" : ",\n");
        for (int64_t expert = 0; expert < request->experts; expert++)
            printf("%s%" PRId64, expert == 0 ? "" : ",", load[expert]);
        printf("]");
    }
    printf("]}");
    return EPLB_OK;
}

static enum eplb_status print_load(const struct request *request, struct eplb_error *error)
{
    int64_t *loads = calloc((size_t)(request->layers * request->experts), sizeof *loads);
    if (loads == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for %" PRId64 " layers of %" PRId64 " experts", request->layers,
                  request->experts);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, (uint64_t)request->seed);
    printf("{\"format\":\"eplb-load-1\",\"num_experts\":%" PRId64 ",\"top_k\":%" PRId64 ",\"steps\":[",
           request->experts, request->top_k);
    enum eplb_status status = EPLB_OK;
    for (int64_t step = 0; step < request->steps && status == EPLB_OK; step++)
        status = print_step(request, &prng, step, loads, error);
    free(loads);
    if (status != EPLB_OK)
        return status;
    printf("]}\n");
    if (fflush(stdout) != 0 || ferror(stdout))
        EPLB_FAIL(EPLB_IO, "standard output cannot be written");
    return EPLB_OK;
}

int main(int argc, char **argv)
{
    struct request request;
    struct eplb_error error = {0};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            print_help();
            return 0;
        }
    enum eplb_status status = parse(argc, argv, &request, &error);
    if (status == EPLB_OK)
        status = print_load(&request, &error);
    if (status != EPLB_OK)
        fprintf(stderr, "make_load: %s\n", error.text);
    return eplb_status_exit_code(status);
}
