/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Routed ids as a load: each phase of the recording is a step that counts all of its tokens. */
#include "trace/load_formats.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "trace/ids_file.h"

/* Small files can declare many experts and layers that no token of theirs names; 1 GiB of counts. */
static const int64_t MOST_COUNTS = INT64_C(1) << 27;

_Static_assert((int)EPLB_IDS_PHASE_TEXT <= (int)EPLB_LABEL_TEXT, "the name of a phase is a step's label");

static enum eplb_status count_phases(const char *path, const struct eplb_ids *ids, struct eplb_load *load,
                                     struct eplb_error *error)
{
    /* At most 2^16 each: no overflow. */
    int64_t per_phase = (int64_t)ids->num_layers * ids->num_experts;
    if (per_phase > MOST_COUNTS / ids->num_phases)
        EPLB_FAIL(EPLB_INVALID,
                  "%s: %d phases x %d layers x %d experts are more than the %" PRId64
                  " counts that a load may have",
                  eplb_input_name(path), ids->num_phases, ids->num_layers, ids->num_experts, MOST_COUNTS);
    EPLB_TRY(eplb_load_init(load, ids->num_phases, ids->num_layers, ids->num_experts, error));
    load->top_k = ids->top_k;
    memcpy(load->layer_ids, ids->layer_ids, (size_t)ids->num_layers * sizeof *load->layer_ids);
    for (int32_t phase = 0; phase < ids->num_phases; phase++) {
        const struct eplb_ids_phase *part = &ids->phases[phase];
        eplb_ids_count(ids, part->first, part->end, eplb_load_row(load, phase, 0));
        memcpy(load->labels[phase], part->name, strlen(part->name) + 1);
    }
    return EPLB_OK;
}

enum eplb_status eplb_load_read_ids(const char *path, struct eplb_load *load, struct eplb_error *error)
{
    struct eplb_ids ids;
    EPLB_TRY(eplb_ids_read(path, &ids, error));
    enum eplb_status status = count_phases(path, &ids, load, error);
    eplb_ids_free(&ids);
    return status;
}
