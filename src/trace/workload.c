/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/wide.h"
#include "eplb/placement.h"

static const double LN2 = 0.693147180559945309417232121458;

/* Shares become integers below 2^40, so that 65536 of them times 2^62 tokens fit 128 bits. */
static const double LARGEST_SHARE = 1099511627776.0;

/* floor, frexp and ldexp are exact, so a C library cannot give them another last bit. */
double eplb_workload_exp2(double x)
{
    EPLB_ASSERT(x >= -1000 && x <= 1000);
    double whole = floor(x + 0.5);
    double power = (x - whole) * LN2;
    /* |power| <= 0.35: after 15 terms of the series the rest is below 2^-60. */
    double sum = 1;
    for (int term = 15; term >= 1; term--)
        sum = 1 + sum * power / term;
    return ldexp(sum, (int)whole);
}

double eplb_workload_log2(double x)
{
    EPLB_ASSERT(x > 0 && isfinite(x));
    int exponent;
    double mantissa = frexp(x, &exponent);
    if (mantissa < 0.70710678118654752) {
        mantissa *= 2;
        exponent--;
    }
    /* ln m = 2 artanh((m - 1) / (m + 1)); the square is at most 0.03, so 12 terms do. */
    double ratio = (mantissa - 1) / (mantissa + 1);
    double square = ratio * ratio;
    double sum = 0;
    for (int odd = 23; odd >= 1; odd -= 2)
        sum = sum * square + 1.0 / odd;
    return exponent + 2 * ratio * sum / LN2;
}

/* A standard normal number by the polar method (Marsaglia and Bray 1964), of each pair the first. */
static double next_normal(struct eplb_prng *prng)
{
    double x;
    double square;
    do {
        x = 2 * eplb_prng_real(prng) - 1;
        double y = 2 * eplb_prng_real(prng) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    return x * sqrt(-2 * eplb_workload_log2(square) * LN2 / square);
}

struct part {
    double share;
    uint64_t weight;
    uint64_t remainder;
    int32_t expert;
};

static int compare_remainders(const void *a, const void *b)
{
    const struct part *x = a;
    const struct part *y = b;
    if (x->remainder != y->remainder)
        return x->remainder > y->remainder ? -1 : 1;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

/* Deals the tokens by the parts' shares: the floor of the exact quota, and one more to those with
 * the largest remainders. */
static void apportion(struct part *parts, int32_t num_experts, int64_t tokens, int64_t *load)
{
    double largest = 0;
    for (int32_t i = 0; i < num_experts; i++)
        largest = parts[i].share > largest ? parts[i].share : largest;
    EPLB_ASSERT(largest > 0 && isfinite(largest));
    uint64_t total = 0;
    for (int32_t i = 0; i < num_experts; i++) {
        parts[i].weight = (uint64_t)(parts[i].share / largest * LARGEST_SHARE);
        total += parts[i].weight;
    }
    int64_t left = tokens;
    for (int32_t i = 0; i < num_experts; i++) {
        eplb_u128 product = (eplb_u128)parts[i].weight * (uint64_t)tokens;
        load[parts[i].expert] = (int64_t)(product / total);
        parts[i].remainder = (uint64_t)(product % total);
        left -= load[parts[i].expert];
    }
    EPLB_ASSERT(left >= 0 && left < num_experts);
    qsort(parts, (size_t)num_experts, sizeof *parts, compare_remainders);
    for (int32_t i = 0; i < left; i++)
        load[parts[i].expert]++;
}

static enum eplb_status make_parts(int32_t num_experts, struct part **parts, struct eplb_error *error)
{
    if (num_experts < 1 || num_experts > EPLB_MAX_EXPERTS)
        EPLB_FAIL(EPLB_INVALID, "num_experts is %d; allowed is 1 to %d", num_experts, EPLB_MAX_EXPERTS);
    *parts = calloc((size_t)num_experts, sizeof **parts);
    if (*parts == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the shares of %d experts", num_experts);
    for (int32_t i = 0; i < num_experts; i++)
        (*parts)[i].expert = i;
    return EPLB_OK;
}

static enum eplb_status check_spread(const char *name, double spread, struct eplb_error *error)
{
    /* Written so that NaN fails. */
    if (!(spread >= 0 && spread <= 8))
        EPLB_FAIL(EPLB_INVALID, "%s is %g; allowed is 0 to 8", name, spread);
    return EPLB_OK;
}

static enum eplb_status check_tokens(int64_t tokens, struct eplb_error *error)
{
    if (tokens < 0 || tokens > INT64_C(1) << 62)
        EPLB_FAIL(EPLB_INVALID, "tokens is %" PRId64 "; allowed is 0 to 2^62", tokens);
    return EPLB_OK;
}

static void shuffle_experts(struct eplb_prng *prng, struct part *parts, int32_t num_experts)
{
    for (int32_t i = num_experts - 1; i > 0; i--) {
        int32_t other = (int32_t)eplb_prng_below(prng, (uint64_t)i + 1);
        int32_t expert = parts[i].expert;
        parts[i].expert = parts[other].expert;
        parts[other].expert = expert;
    }
}

enum eplb_status eplb_workload_zipf(struct eplb_prng *prng, int32_t num_experts, double exponent,
                                    int64_t tokens, int64_t *load, struct eplb_error *error)
{
    struct part *parts;
    EPLB_TRY(check_spread("exponent", exponent, error));
    EPLB_TRY(check_tokens(tokens, error));
    EPLB_TRY(make_parts(num_experts, &parts, error));
    shuffle_experts(prng, parts, num_experts);
    for (int32_t i = 0; i < num_experts; i++)
        parts[i].share = eplb_workload_exp2(-exponent * eplb_workload_log2(i + 1));
    apportion(parts, num_experts, tokens, load);
    free(parts);
    return EPLB_OK;
}

enum eplb_status eplb_workload_lognormal(struct eplb_prng *prng, int32_t num_experts, double sigma,
                                         int64_t tokens, int64_t *load, struct eplb_error *error)
{
    struct part *parts;
    EPLB_TRY(check_spread("sigma", sigma, error));
    EPLB_TRY(check_tokens(tokens, error));
    EPLB_TRY(make_parts(num_experts, &parts, error));
    for (int32_t i = 0; i < num_experts; i++)
        parts[i].share = eplb_workload_exp2(sigma * next_normal(prng) / LN2);
    apportion(parts, num_experts, tokens, load);
    free(parts);
    return EPLB_OK;
}

enum eplb_status eplb_workload_drift(struct eplb_prng *prng, int32_t num_experts, double sigma, int64_t *load,
                                     struct eplb_error *error)
{
    struct part *parts;
    EPLB_TRY(check_spread("sigma", sigma, error));
    EPLB_TRY(make_parts(num_experts, &parts, error));
    int64_t tokens = 0;
    for (int32_t i = 0; i < num_experts; i++) {
        EPLB_ASSERT(load[i] >= 0 && load[i] <= (INT64_C(1) << 62) - tokens);
        tokens += load[i];
        parts[i].share = (double)load[i] * eplb_workload_exp2(sigma * next_normal(prng) / LN2);
    }
    if (tokens > 0)
        apportion(parts, num_experts, tokens, load);
    free(parts);
    return EPLB_OK;
}
