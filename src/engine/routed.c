/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <stdbool.h>

#include "base/assert.h"
#include "base/error.h"
#include "engine/layout.h"
#include "engine/records.h"
#include "wire/bytes.h"

static size_t row_bytes(int32_t row_ids)
{
    return EPLB_ROUTED_ROW_EXPERTS + (size_t)row_ids * sizeof(uint16_t);
}

/** Also the size of a record with so many rows. */
static size_t row_offset(int32_t row, int32_t row_ids)
{
    return EPLB_ROUTED_ROWS + (size_t)row * row_bytes(row_ids);
}

size_t eplb_routed_bytes(int32_t max_rows, int32_t row_ids)
{
    EPLB_ASSERT(max_rows >= 0 && row_ids >= 1);
    return row_offset(max_rows, row_ids);
}

size_t eplb_routed_encode(const struct eplb_routed *routed, int32_t row_ids, void *bytes)
{
    unsigned char *record = bytes;
    EPLB_ASSERT(routed->num_rows >= 0 && row_ids >= 1);
    eplb_put_u32(record + EPLB_ROUTED_NUM_ROWS, (uint32_t)routed->num_rows);
    eplb_put_u32(record + EPLB_ROUTED_ROW_IDS, (uint32_t)row_ids);
    const uint16_t *expert = routed->experts;
    for (int32_t row = 0; row < routed->num_rows; row++) {
        unsigned char *at = record + row_offset(row, row_ids);
        EPLB_ASSERT(routed->rows[row].position >= 0);
        eplb_put_u64(at + EPLB_ROUTED_ROW_SEQUENCE, routed->rows[row].sequence);
        eplb_put_u32(at + EPLB_ROUTED_ROW_POSITION, (uint32_t)routed->rows[row].position);
        for (int32_t i = 0; i < row_ids; i++)
            eplb_put_u16(at + EPLB_ROUTED_ROW_EXPERTS + 2 * (size_t)i, *expert++);
    }
    return row_offset(routed->num_rows, row_ids);
}

static enum eplb_status check_row(const unsigned char *at, int32_t row, int32_t row_ids, int32_t num_experts,
                                  struct eplb_error *error)
{
    int32_t position = eplb_get_i32(at + EPLB_ROUTED_ROW_POSITION);
    if (position < 0)
        EPLB_FAIL(EPLB_INVALID, "routes of a forward: row %d is at position %d; it must not be negative", row,
                  position);
    for (int32_t i = 0; i < row_ids; i++) {
        int32_t expert = eplb_get_u16(at + EPLB_ROUTED_ROW_EXPERTS + 2 * (size_t)i);
        if (expert >= num_experts)
            EPLB_FAIL(EPLB_INVALID, "routes of a forward: row %d, id %d is expert %d; allowed is 0 to %d",
                      row, i, expert, num_experts - 1);
    }
    return EPLB_OK;
}

enum eplb_status eplb_routed_decode(const void *bytes, size_t size, int32_t max_rows, int32_t row_ids,
                                    int32_t num_experts, struct eplb_routed *routed, size_t *used,
                                    struct eplb_error *error)
{
    const unsigned char *record = bytes;
    if (size < EPLB_ROUTED_ROWS)
        EPLB_FAIL(EPLB_INVALID, "routes of a forward: %zu bytes; at least %d are needed", size,
                  EPLB_ROUTED_ROWS);
    int32_t num_rows = eplb_get_i32(record + EPLB_ROUTED_NUM_ROWS);
    int32_t found_ids = eplb_get_i32(record + EPLB_ROUTED_ROW_IDS);
    if (found_ids != row_ids)
        EPLB_FAIL(EPLB_INVALID, "routes of a forward: %d ids of each row; this run has %d", found_ids,
                  row_ids);
    if (num_rows < 0 || num_rows > max_rows)
        EPLB_FAIL(EPLB_INVALID, "routes of a forward: %d rows; allowed is 0 to %d", num_rows, max_rows);
    if (size < row_offset(num_rows, row_ids))
        EPLB_FAIL(EPLB_INVALID, "routes of a forward: %zu bytes; %d rows need %zu", size, num_rows,
                  row_offset(num_rows, row_ids));
    for (int32_t row = 0; row < num_rows; row++)
        EPLB_TRY(check_row(record + row_offset(row, row_ids), row, row_ids, num_experts, error));

    uint16_t *expert = routed->experts;
    for (int32_t row = 0; row < num_rows; row++) {
        const unsigned char *at = record + row_offset(row, row_ids);
        routed->rows[row] = (struct eplb_routed_row){.sequence = eplb_get_u64(at + EPLB_ROUTED_ROW_SEQUENCE),
                                                     .position = eplb_get_i32(at + EPLB_ROUTED_ROW_POSITION)};
        for (int32_t i = 0; i < row_ids; i++)
            *expert++ = eplb_get_u16(at + EPLB_ROUTED_ROW_EXPERTS + 2 * (size_t)i);
    }
    routed->num_rows = num_rows;
    *used = row_offset(num_rows, row_ids);
    return EPLB_OK;
}
