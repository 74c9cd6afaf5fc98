/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "engine/trace.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mix.h"

static uint64_t digest_of(const struct eplb_ids *ids)
{
    const int64_t numbers[] = {ids->num_steps, ids->num_sequences, ids->num_layers,   ids->num_experts,
                               ids->top_k,     ids->num_phases,    ids->has_sequences};
    uint64_t digest = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        digest = eplb_mix(digest, (uint64_t)numbers[i]);
    for (int32_t phase = 0; phase < ids->num_phases; phase++)
        digest =
            eplb_mix(digest, (uint64_t)ids->phases[phase].first << 32 | (uint32_t)ids->phases[phase].end);
    size_t count =
        (size_t)ids->num_steps * (size_t)ids->num_sequences * (size_t)ids->num_layers * (size_t)ids->top_k;
    for (size_t i = 0; i < count; i++)
        digest = eplb_mix(digest, ids->experts[i]);
    return digest;
}

enum eplb_status eplb_trace_open(const char *path, struct eplb_trace *trace, struct eplb_error *error)
{
    struct eplb_trace opened = {0};
    EPLB_TRY(eplb_ids_read(path, &opened.ids, error));
    const struct eplb_ids *ids = &opened.ids;
    opened.phases = calloc((size_t)ids->num_phases, sizeof *opened.phases);
    if (opened.phases == NULL) {
        eplb_trace_close(&opened);
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the phases of a recording");
    }
    for (int32_t phase = 0; phase < ids->num_phases; phase++)
        opened.phases[phase] =
            (struct eplb_recording_phase){.first = ids->phases[phase].first, .end = ids->phases[phase].end};
    opened.recording = (struct eplb_recording){.experts = ids->experts,
                                               .num_steps = ids->num_steps,
                                               .num_sequences = ids->num_sequences,
                                               .num_layers = ids->num_layers,
                                               .num_experts = ids->num_experts,
                                               .top_k = ids->top_k,
                                               .has_sequences = ids->has_sequences,
                                               .phases = opened.phases,
                                               .num_phases = ids->num_phases,
                                               .sequences = 1,
                                               .repeat = 1};
    opened.digest = digest_of(ids);
    *trace = opened;
    return EPLB_OK;
}

void eplb_trace_close(struct eplb_trace *trace)
{
    free(trace->phases);
    eplb_ids_free(&trace->ids);
    *trace = (struct eplb_trace){0};
}
