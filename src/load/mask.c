/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "load/mask.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/load.h"

size_t eplb_mask_first_bad(const uint8_t *mask, size_t length)
{
    unsigned seen = 0;
    for (size_t i = 0; i < length; i++)
        seen |= mask[i];
    if (seen <= 1)
        return length;
    size_t i = 0;
    while (mask[i] <= 1)
        i++;
    EPLB_ASSERT(i < length);
    return i;
}

enum eplb_status eplb_mask_build(const uint8_t *kinds, size_t num_tokens, int decode_only, uint8_t *mask,
                                 struct eplb_error *error)
{
    for (size_t t = 0; t < num_tokens; t++)
        if (kinds[t] > EPLB_TOKEN_DECODE)
            EPLB_FAIL(EPLB_INVALID, "token %zu: kind %d is none of 0 (padding), 1 (prefill), 2 (decode)", t,
                      kinds[t]);
    uint8_t lowest = decode_only ? EPLB_TOKEN_DECODE : EPLB_TOKEN_PREFILL;
    for (size_t t = 0; t < num_tokens; t++)
        mask[t] = kinds[t] >= lowest;
    return EPLB_OK;
}

static enum eplb_status check_dp_rank(const uint8_t *mask, size_t length, size_t stride, size_t dp_rank,
                                      struct eplb_error *error)
{
    if (length > stride)
        EPLB_FAIL(EPLB_INVALID,
                  "DP rank %zu: mask of %zu tokens is longer than the %zu that each DP rank is padded to",
                  dp_rank, length, stride);
    if (length == 0)
        return EPLB_OK;
    if (mask == NULL)
        EPLB_FAIL(EPLB_INVALID, "DP rank %zu: no mask for its %zu tokens", dp_rank, length);
    size_t bad = eplb_mask_first_bad(mask, length);
    if (bad < length)
        EPLB_FAIL(EPLB_INVALID, "DP rank %zu, token %zu: mask byte %d is neither 0 nor 1", dp_rank, bad,
                  mask[bad]);
    return EPLB_OK;
}

enum eplb_status eplb_mask_align(const uint8_t *const *masks, const size_t *lengths, size_t dp_size,
                                 size_t stride, uint8_t *aligned, struct eplb_error *error)
{
    for (size_t d = 0; d < dp_size; d++)
        EPLB_TRY(check_dp_rank(masks[d], lengths[d], stride, d, error));
    for (size_t d = 0; d < dp_size; d++) {
        uint8_t *row = aligned + d * stride;
        if (lengths[d] > 0)
            memcpy(row, masks[d], lengths[d]);
        memset(row + lengths[d], 0, stride - lengths[d]);
    }
    return EPLB_OK;
}
