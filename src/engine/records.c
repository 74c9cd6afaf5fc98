/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/records.h"

#include "base/assert.h"
#include "base/error.h"
#include "engine/layout.h"
#include "wire/bytes.h"

/* --------------------------------------------------------------------------------------- input */

static size_t input_size(int32_t num_rows)
{
    return EPLB_INPUT_ROWS + (size_t)num_rows * EPLB_INPUT_ROW_BYTES;
}

size_t eplb_input_bytes(int32_t max_rows)
{
    EPLB_ASSERT(max_rows >= 0);
    return input_size(max_rows);
}

static void put_row(unsigned char *record, const struct eplb_model_row *row)
{
    eplb_put_u64(record + EPLB_INPUT_ROW_SEQUENCE, row->sequence);
    eplb_put_u32(record + EPLB_INPUT_ROW_CACHE, (uint32_t)row->cache);
    eplb_put_u32(record + EPLB_INPUT_ROW_POSITION, (uint32_t)row->position);
    eplb_put_u32(record + EPLB_INPUT_ROW_TOKEN, (uint32_t)row->token);
    record[EPLB_INPUT_ROW_KIND] = row->kind;
    record[EPLB_INPUT_ROW_SAMPLE] = row->sample;
    record[EPLB_INPUT_ROW_RESERVED] = 0;
    record[EPLB_INPUT_ROW_RESERVED + 1] = 0;
}

static struct eplb_model_row get_row(const unsigned char *record)
{
    return (struct eplb_model_row){
        .sequence = eplb_get_u64(record + EPLB_INPUT_ROW_SEQUENCE),
        .cache = eplb_get_i32(record + EPLB_INPUT_ROW_CACHE),
        .position = eplb_get_i32(record + EPLB_INPUT_ROW_POSITION),
        .token = eplb_get_i32(record + EPLB_INPUT_ROW_TOKEN),
        .kind = record[EPLB_INPUT_ROW_KIND],
        .sample = record[EPLB_INPUT_ROW_SAMPLE],
    };
}

size_t eplb_input_encode(unsigned flags, const struct eplb_model_row *rows, int32_t num_rows, void *bytes)
{
    unsigned char *record = bytes;
    EPLB_ASSERT(flags == 0 || flags == EPLB_FORWARD_WARMUP);
    EPLB_ASSERT(num_rows >= 0);
    eplb_put_u32(record + EPLB_INPUT_FLAGS, flags);
    eplb_put_u32(record + EPLB_INPUT_NUM_ROWS, (uint32_t)num_rows);
    for (int32_t i = 0; i < num_rows; i++) {
        EPLB_ASSERT(rows[i].kind <= EPLB_TOKEN_DECODE && rows[i].sample <= 1);
        put_row(record + input_size(i), &rows[i]);
    }
    return input_size(num_rows);
}

static enum eplb_status check_input_row(const unsigned char *record, int32_t row, struct eplb_error *error)
{
    if (record[EPLB_INPUT_ROW_KIND] > EPLB_TOKEN_DECODE)
        EPLB_FAIL(EPLB_INVALID, "input of a forward: row %d is of kind %d; allowed is 0 to %d", row,
                  record[EPLB_INPUT_ROW_KIND], EPLB_TOKEN_DECODE);
    if (record[EPLB_INPUT_ROW_SAMPLE] > 1)
        EPLB_FAIL(EPLB_INVALID, "input of a forward: sample of row %d is %d; allowed is 0 or 1", row,
                  record[EPLB_INPUT_ROW_SAMPLE]);
    for (int i = EPLB_INPUT_ROW_RESERVED; i < EPLB_INPUT_ROW_BYTES; i++)
        if (record[i] != 0)
            EPLB_FAIL(EPLB_INVALID,
                      "input of a forward: byte %d of row %d is %d; it is not used and must be 0", i, row,
                      record[i]);
    return EPLB_OK;
}

enum eplb_status eplb_input_decode(const void *bytes, size_t size, int32_t max_rows, unsigned *flags,
                                   struct eplb_model_row *rows, int32_t *num_rows, struct eplb_error *error)
{
    const unsigned char *record = bytes;
    if (size < EPLB_INPUT_ROWS)
        EPLB_FAIL(EPLB_INVALID, "input of a forward: %zu bytes; at least %d are needed", size,
                  EPLB_INPUT_ROWS);
    uint32_t found_flags = eplb_get_u32(record + EPLB_INPUT_FLAGS);
    int32_t found_rows = eplb_get_i32(record + EPLB_INPUT_NUM_ROWS);
    if (found_flags != 0 && found_flags != EPLB_FORWARD_WARMUP)
        EPLB_FAIL(EPLB_INVALID, "input of a forward: flags %u; allowed is 0 or %d (warm-up)",
                  (unsigned)found_flags, EPLB_FORWARD_WARMUP);
    if (found_rows < 0 || found_rows > max_rows)
        EPLB_FAIL(EPLB_INVALID, "input of a forward: %d rows; allowed is 0 to %d", found_rows, max_rows);
    if (size != input_size(found_rows))
        EPLB_FAIL(EPLB_INVALID, "input of a forward: %zu bytes; %d rows need %zu", size, found_rows,
                  input_size(found_rows));
    for (int32_t i = 0; i < found_rows; i++)
        EPLB_TRY(check_input_row(record + input_size(i), i, error));

    *flags = found_flags;
    *num_rows = found_rows;
    for (int32_t i = 0; i < found_rows; i++)
        rows[i] = get_row(record + input_size(i));
    return EPLB_OK;
}

/* -------------------------------------------------------------------------------------- result */

static size_t work_offset(int32_t layer)
{
    return EPLB_RESULT_WORK + (size_t)layer * EPLB_RESULT_WORK_BYTES;
}

/** Also the size of a result with so many samples. */
static size_t sample_offset(int32_t num_layers, int32_t sample)
{
    return work_offset(num_layers) + (size_t)sample * EPLB_RESULT_SAMPLE_BYTES;
}

size_t eplb_result_bytes(int32_t max_rows, int32_t num_layers)
{
    EPLB_ASSERT(max_rows >= 0 && num_layers >= 0);
    return sample_offset(num_layers, max_rows);
}

static struct eplb_moe_work get_work(const unsigned char *record)
{
    return (struct eplb_moe_work){.rows = eplb_get_i64(record + EPLB_RESULT_WORK_ROWS),
                                  .route_ns = eplb_get_i64(record + EPLB_RESULT_WORK_ROUTE_NS),
                                  .cpu_ns = eplb_get_i64(record + EPLB_RESULT_WORK_CPU_NS)};
}

static struct eplb_model_sample get_sample(const unsigned char *record)
{
    return (struct eplb_model_sample){
        .sequence = eplb_get_u64(record + EPLB_RESULT_SAMPLE_SEQUENCE),
        .position = eplb_get_i32(record + EPLB_RESULT_SAMPLE_POSITION),
        .token = eplb_get_i32(record + EPLB_RESULT_SAMPLE_TOKEN),
        .digest = eplb_get_u64(record + EPLB_RESULT_SAMPLE_DIGEST),
    };
}

/** The fields in front of the arrays. */
struct result_head {
    int32_t num_samples;
    int32_t num_layers;
    int64_t step_ns;
    int64_t switch_ns;
    uint64_t slots_checked;
};

static enum eplb_status check_head(const struct result_head *head, struct eplb_error *error)
{
    if (head->step_ns < 0)
        EPLB_FAIL(EPLB_INVALID, "result of a forward: it took %lld ns; allowed is 0 or more",
                  (long long)head->step_ns);
    if (head->switch_ns < 0 || head->switch_ns > head->step_ns)
        EPLB_FAIL(
            EPLB_INVALID,
            "result of a forward: switching took %lld ns; allowed is 0 to %lld, the whole forward's time",
            (long long)head->switch_ns, (long long)head->step_ns);
    return EPLB_OK;
}

static enum eplb_status check_work(const struct eplb_moe_work *work, int32_t layer, struct eplb_error *error)
{
    if (work->rows < 0 || work->cpu_ns < 0)
        EPLB_FAIL(EPLB_INVALID,
                  "result of a forward: layer %d computed %lld rows in %lld ns; neither may be negative",
                  layer, (long long)work->rows, (long long)work->cpu_ns);
    if (work->route_ns < 0)
        EPLB_FAIL(EPLB_INVALID,
                  "result of a forward: layer %d chose slots in %lld ns; that may not be negative", layer,
                  (long long)work->route_ns);
    return EPLB_OK;
}

static enum eplb_status check_sample(const struct eplb_model_sample *sample, int32_t place,
                                     struct eplb_error *error)
{
    if (sample->position < 0 || sample->token < 0)
        EPLB_FAIL(EPLB_INVALID,
                  "result of a forward: sample %d is token %d at position %d; neither may be negative", place,
                  sample->token, sample->position);
    return EPLB_OK;
}

size_t eplb_result_encode(const struct eplb_result *result, int32_t num_layers, void *bytes)
{
    unsigned char *record = bytes;
    const struct result_head head = {.num_samples = result->num_samples,
                                     .num_layers = num_layers,
                                     .step_ns = result->step_ns,
                                     .switch_ns = result->switch_ns,
                                     .slots_checked = result->slots_checked};
    EPLB_ASSERT(num_layers >= 0 && head.num_samples >= 0 && check_head(&head, NULL) == EPLB_OK);
    eplb_put_u32(record + EPLB_RESULT_NUM_SAMPLES, (uint32_t)head.num_samples);
    eplb_put_u32(record + EPLB_RESULT_NUM_LAYERS, (uint32_t)head.num_layers);
    eplb_put_u64(record + EPLB_RESULT_STEP_NS, (uint64_t)head.step_ns);
    eplb_put_u64(record + EPLB_RESULT_SWITCH_NS, (uint64_t)head.switch_ns);
    eplb_put_u64(record + EPLB_RESULT_SLOTS_CHECKED, head.slots_checked);
    for (int32_t layer = 0; layer < num_layers; layer++) {
        unsigned char *at = record + work_offset(layer);
        EPLB_ASSERT(check_work(&result->work[layer], layer, NULL) == EPLB_OK);
        eplb_put_u64(at + EPLB_RESULT_WORK_ROWS, (uint64_t)result->work[layer].rows);
        eplb_put_u64(at + EPLB_RESULT_WORK_CPU_NS, (uint64_t)result->work[layer].cpu_ns);
        eplb_put_u64(at + EPLB_RESULT_WORK_ROUTE_NS, (uint64_t)result->work[layer].route_ns);
    }
    for (int32_t i = 0; i < head.num_samples; i++) {
        unsigned char *at = record + sample_offset(num_layers, i);
        EPLB_ASSERT(check_sample(&result->samples[i], i, NULL) == EPLB_OK);
        eplb_put_u64(at + EPLB_RESULT_SAMPLE_SEQUENCE, result->samples[i].sequence);
        eplb_put_u64(at + EPLB_RESULT_SAMPLE_DIGEST, result->samples[i].digest);
        eplb_put_u32(at + EPLB_RESULT_SAMPLE_POSITION, (uint32_t)result->samples[i].position);
        eplb_put_u32(at + EPLB_RESULT_SAMPLE_TOKEN, (uint32_t)result->samples[i].token);
    }
    return sample_offset(num_layers, head.num_samples);
}

static enum eplb_status decode_head(const unsigned char *record, size_t size, int32_t max_rows,
                                    int32_t num_layers, struct result_head *head, struct eplb_error *error)
{
    if (size < EPLB_RESULT_WORK)
        EPLB_FAIL(EPLB_INVALID, "result of a forward: %zu bytes; at least %d are needed", size,
                  EPLB_RESULT_WORK);
    *head = (struct result_head){.num_samples = eplb_get_i32(record + EPLB_RESULT_NUM_SAMPLES),
                                 .num_layers = eplb_get_i32(record + EPLB_RESULT_NUM_LAYERS),
                                 .step_ns = eplb_get_i64(record + EPLB_RESULT_STEP_NS),
                                 .switch_ns = eplb_get_i64(record + EPLB_RESULT_SWITCH_NS),
                                 .slots_checked = eplb_get_u64(record + EPLB_RESULT_SLOTS_CHECKED)};
    if (head->num_layers != num_layers)
        EPLB_FAIL(EPLB_INVALID, "result of a forward: %d layers; this run has %d", head->num_layers,
                  num_layers);
    if (head->num_samples < 0 || head->num_samples > max_rows)
        EPLB_FAIL(EPLB_INVALID, "result of a forward: %d samples; allowed is 0 to %d", head->num_samples,
                  max_rows);
    if (size != sample_offset(num_layers, head->num_samples))
        EPLB_FAIL(EPLB_INVALID, "result of a forward: %zu bytes; %d layers and %d samples need %zu", size,
                  num_layers, head->num_samples, sample_offset(num_layers, head->num_samples));
    return check_head(head, error);
}

enum eplb_status eplb_result_decode(const void *bytes, size_t size, int32_t max_rows, int32_t num_layers,
                                    struct eplb_result *result, struct eplb_error *error)
{
    const unsigned char *record = bytes;
    struct result_head head;
    EPLB_ASSERT(max_rows >= 0 && num_layers >= 0);
    EPLB_TRY(decode_head(record, size, max_rows, num_layers, &head, error));
    for (int32_t layer = 0; layer < num_layers; layer++) {
        struct eplb_moe_work work = get_work(record + work_offset(layer));
        EPLB_TRY(check_work(&work, layer, error));
    }
    for (int32_t i = 0; i < head.num_samples; i++) {
        struct eplb_model_sample sample = get_sample(record + sample_offset(num_layers, i));
        EPLB_TRY(check_sample(&sample, i, error));
    }

    result->num_samples = head.num_samples;
    result->step_ns = head.step_ns;
    result->switch_ns = head.switch_ns;
    result->slots_checked = head.slots_checked;
    for (int32_t layer = 0; layer < num_layers; layer++)
        result->work[layer] = get_work(record + work_offset(layer));
    for (int32_t i = 0; i < head.num_samples; i++)
        result->samples[i] = get_sample(record + sample_offset(num_layers, i));
    return EPLB_OK;
}
