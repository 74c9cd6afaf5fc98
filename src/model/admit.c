/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Whether the rows of a batch make sense. Everything here is input. */
#include "model/model_state.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

#define ROW "row %d (sequence %" PRIu64 ", position %d)"
#define ROW_VALUES(number, row) number, (row)->sequence, (row)->position

static enum eplb_status check_fields(const struct eplb_model *model, int32_t number,
                                     const struct eplb_model_row *row, struct eplb_error *error)
{
    if (row->kind != EPLB_TOKEN_PREFILL && row->kind != EPLB_TOKEN_DECODE)
        EPLB_FAIL(EPLB_INVALID, ROW " is of kind %d; allowed are %d (prefill) and %d (decode)",
                  ROW_VALUES(number, row), row->kind, EPLB_TOKEN_PREFILL, EPLB_TOKEN_DECODE);
    if (row->cache < 0 || row->cache >= model->num_caches)
        EPLB_FAIL(EPLB_INVALID, ROW " has cache %d; it must be in [0, %d)", ROW_VALUES(number, row),
                  row->cache, model->num_caches);
    if (row->token != EPLB_SAMPLED_TOKEN && (row->token < 0 || row->token >= model->config.vocab_size))
        EPLB_FAIL(EPLB_INVALID, ROW " has token %d; it must be in [0, %d), or %d for the one sampled last",
                  ROW_VALUES(number, row), row->token, model->config.vocab_size, EPLB_SAMPLED_TOKEN);
    if (row->sample > 1)
        EPLB_FAIL(EPLB_INVALID, ROW " has sample %d; it must be 0 or 1", ROW_VALUES(number, row),
                  row->sample);
    return EPLB_OK;
}

/** A sequence begins at position 0, in a cache that is then its own, and goes on without gaps. */
static enum eplb_status place_row(struct eplb_model_cache *cache, int32_t number,
                                  const struct eplb_model_row *row, struct eplb_error *error)
{
    if (row->position == 0) {
        if (cache->in_batch)
            EPLB_FAIL(EPLB_INVALID, ROW " begins in cache %d, of which the batch has rows already",
                      ROW_VALUES(number, row), row->cache);
        *cache = (struct eplb_model_cache){.sequence = row->sequence, .sampled = EPLB_SAMPLED_TOKEN};
    } else if (cache->next == 0) {
        EPLB_FAIL(EPLB_INVALID, ROW " is for cache %d, which holds nothing; a sequence begins at position 0",
                  ROW_VALUES(number, row), row->cache);
    } else if (row->sequence != cache->sequence || row->position != cache->next) {
        EPLB_FAIL(EPLB_INVALID,
                  ROW " is for cache %d, which goes on with sequence %" PRIu64 " at position %d",
                  ROW_VALUES(number, row), row->cache, cache->sequence, cache->next);
    }
    if (cache->next == INT32_MAX)
        EPLB_FAIL(EPLB_INVALID, ROW " is past the largest position", ROW_VALUES(number, row));
    cache->next++;
    cache->in_batch = true;
    return EPLB_OK;
}

static enum eplb_status find_token(struct eplb_model *model, struct eplb_model_cache *cache, int32_t number,
                                   const struct eplb_model_row *row, struct eplb_error *error)
{
    if (row->token == EPLB_SAMPLED_TOKEN && cache->sampled == EPLB_SAMPLED_TOKEN)
        EPLB_FAIL(EPLB_INVALID, ROW " wants the token that its sequence sampled last, and none is known yet",
                  ROW_VALUES(number, row));
    model->activations.tokens[number] = row->token == EPLB_SAMPLED_TOKEN ? cache->sampled : row->token;
    if (row->sample)
        cache->sampled = EPLB_SAMPLED_TOKEN; /* until the forward has found it */
    return EPLB_OK;
}

static enum eplb_status admit_rows(struct eplb_model *model, const struct eplb_model_batch *batch,
                                   struct eplb_error *error)
{
    for (int32_t number = 0; number < batch->num_rows; number++) {
        const struct eplb_model_row *row = &batch->rows[number];
        EPLB_TRY(check_fields(model, number, row, error));
        struct eplb_model_cache *cache = &model->pending[row->cache];
        EPLB_TRY(place_row(cache, number, row, error));
        EPLB_TRY(find_token(model, cache, number, row, error));
        model->activations.kinds[number] = row->kind;
    }
    return EPLB_OK;
}

enum eplb_status eplb_model_admit(struct eplb_model *model, const struct eplb_model_batch *batch,
                                  struct eplb_error *error)
{
    size_t bytes = (size_t)model->num_caches * sizeof *model->caches;
    if (batch->num_rows < 0 || batch->num_rows > model->max_rows)
        EPLB_FAIL(EPLB_INVALID, "a batch of %d rows; allowed are 0 to %d", batch->num_rows, model->max_rows);
    for (int32_t cache = 0; cache < model->num_caches; cache++)
        model->caches[cache].in_batch = false;
    memcpy(model->pending, model->caches, bytes);
    EPLB_TRY(admit_rows(model, batch, error));
    EPLB_TRY(eplb_mask_build(model->activations.kinds, (size_t)batch->num_rows, model->decode_only_load,
                             model->activations.counted, error));
    EPLB_TRY(eplb_counter_begin(model->counter, batch->flags, error));
    memcpy(model->caches, model->pending, bytes);
    return EPLB_OK;
}
