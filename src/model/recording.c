/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "model/recording.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "model/config.h"

struct eplb_recorded_routes {
    struct eplb_route_source source;
    struct eplb_recording recording;
    uint64_t forwards;
};

/** Forwards that one going through a phase takes. */
static int32_t length_of(const struct eplb_recording *recording, int32_t phase)
{
    int32_t steps = recording->phases[phase].end - recording->phases[phase].first;
    return recording->has_sequences ? steps : steps / recording->sequences;
}

static enum eplb_status check_sizes(const struct eplb_recording *recording, struct eplb_error *error)
{
    if (recording->num_layers < 1 || recording->num_layers > EPLB_MAX_LAYERS || recording->num_experts < 1 ||
        recording->num_experts > EPLB_MAX_EXPERTS)
        EPLB_FAIL(EPLB_INVALID, "a recording of %d layers with %d experts; allowed is 1 to %d and 1 to %d",
                  recording->num_layers, recording->num_experts, EPLB_MAX_LAYERS, EPLB_MAX_EXPERTS);
    if (recording->top_k < 1 || recording->top_k > EPLB_MAX_TOP_K ||
        recording->top_k > recording->num_experts)
        EPLB_FAIL(EPLB_INVALID, "a recording's top_k is %d; with %d experts, allowed is 1 to %d",
                  recording->top_k, recording->num_experts,
                  recording->num_experts < EPLB_MAX_TOP_K ? recording->num_experts : EPLB_MAX_TOP_K);
    if (recording->num_steps < 1 || recording->num_sequences < 1 ||
        (!recording->has_sequences && recording->num_sequences != 1))
        EPLB_FAIL(EPLB_INVALID, "a recording of %d steps with %d sequences; both must be 1 or more",
                  recording->num_steps, recording->num_sequences);
    if (recording->sequences < 1 || recording->sequences > EPLB_MAX_REPLAYED)
        EPLB_FAIL(EPLB_INVALID, "%d sequences are to be replayed; allowed is 1 to %d", recording->sequences,
                  EPLB_MAX_REPLAYED);
    if (recording->repeat < 1)
        EPLB_FAIL(EPLB_INVALID, "each phase is to be replayed %d times; allowed is 1 or more",
                  recording->repeat);
    if (recording->num_phases < 1)
        EPLB_FAIL(EPLB_INVALID, "a recording has %d phases; at least 1 is needed", recording->num_phases);
    return EPLB_OK;
}

enum eplb_status eplb_recording_check(const struct eplb_recording *recording, struct eplb_error *error)
{
    EPLB_TRY(check_sizes(recording, error));
    for (int32_t phase = 0; phase < recording->num_phases; phase++) {
        const struct eplb_recording_phase *found = &recording->phases[phase];
        if (found->first < 0 || found->end <= found->first || found->end > recording->num_steps)
            EPLB_FAIL(EPLB_INVALID, "phase %d of a recording is steps [%d, %d); it has %d steps", phase,
                      found->first, found->end, recording->num_steps);
        if (length_of(recording, phase) < 1)
            EPLB_FAIL(EPLB_INVALID,
                      "phase %d of the recording has %d tokens; %d sequences, into which it is cut, need "
                      "one each",
                      phase, found->end - found->first, recording->sequences);
    }
    return EPLB_OK;
}

uint64_t eplb_recording_forwards(const struct eplb_recording *recording)
{
    uint64_t forwards = 0;
    for (int32_t phase = 0; phase < recording->num_phases; phase++)
        forwards += (uint64_t)length_of(recording, phase) * (uint64_t)recording->repeat;
    return forwards;
}

/**
 * How far into its phase a sequence begins. Neighbours, which one rank has, begin at different places as the
 * copies of one recorded sequence do: so each rank has a share of all parts of the phase at any time.
 */
static int32_t offset_of(const struct eplb_recording *recording, uint64_t sequence, int32_t length)
{
    uint64_t recorded = (uint64_t)recording->num_sequences;
    uint64_t copies = ((uint64_t)recording->sequences + recorded - 1) / recorded;
    uint64_t place = (sequence / recorded + sequence % recorded) % copies;
    return (int32_t)(place * (uint64_t)length / copies);
}

static struct eplb_recorded_place place_of(const struct eplb_recording *recording, uint64_t forwards,
                                           uint64_t sequence, int32_t position)
{
    uint64_t forward = (uint64_t)(uint32_t)position % forwards;
    int32_t phase = 0;
    sequence %= (uint64_t)recording->sequences;
    for (;; phase++) {
        uint64_t lasts = (uint64_t)length_of(recording, phase) * (uint64_t)recording->repeat;
        if (forward < lasts)
            break;
        forward -= lasts;
    }
    EPLB_ASSERT(phase < recording->num_phases);
    int32_t first = recording->phases[phase].first;
    int32_t length = length_of(recording, phase);
    int32_t along = (int32_t)(forward % (uint64_t)length);
    if (!recording->has_sequences)
        return (struct eplb_recorded_place){.step = first + (int32_t)sequence * length + along};
    int32_t offset = offset_of(recording, sequence, length);
    return (struct eplb_recorded_place){.step = first + (int32_t)(((int64_t)offset + along) % length),
                                        .sequence = (int32_t)(sequence % (uint64_t)recording->num_sequences)};
}

struct eplb_recorded_place eplb_recording_place(const struct eplb_recording *recording, uint64_t sequence,
                                                int32_t position)
{
    EPLB_ASSERT(position >= 0);
    return place_of(recording, eplb_recording_forwards(recording), sequence, position);
}

static void choose_recorded(void *context, const struct eplb_route_request *request, int32_t *experts)
{
    const struct eplb_recorded_routes *routes = context;
    const struct eplb_recording *recording = &routes->recording;
    size_t top_k = (size_t)recording->top_k;
    EPLB_ASSERT(request->layer >= 0 && request->layer < recording->num_layers);
    EPLB_ASSERT(request->num_experts == recording->num_experts && request->top_k == recording->top_k);
    for (int32_t row = 0; row < request->num_rows; row++) {
        struct eplb_recorded_place place =
            place_of(recording, routes->forwards, request->rows[row].sequence, request->rows[row].position);
        size_t token = (size_t)place.step * (size_t)recording->num_sequences + (size_t)place.sequence;
        const uint16_t *from =
            recording->experts + (token * (size_t)recording->num_layers + (size_t)request->layer) * top_k;
        for (size_t k = 0; k < top_k; k++)
            experts[(size_t)row * top_k + k] = from[k];
    }
}

enum eplb_status eplb_recorded_routes_create(const struct eplb_recording *recording,
                                             struct eplb_recorded_routes **routes, struct eplb_error *error)
{
    EPLB_TRY(eplb_recording_check(recording, error));
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    (void)eplb_arena_take(&arena, 1, sizeof **routes);
    struct eplb_recorded_routes *created = eplb_arena_reserve(&arena);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the routes of a recording");
    *created = (struct eplb_recorded_routes){
        .source = {.size = sizeof created->source, .context = created, .choose = choose_recorded},
        .recording = *recording,
        .forwards = eplb_recording_forwards(recording)};
    *routes = created;
    return EPLB_OK;
}

void eplb_recorded_routes_destroy(struct eplb_recorded_routes *routes)
{
    eplb_arena_free(routes);
}

const struct eplb_route_source *eplb_recorded_routes_source(const struct eplb_recorded_routes *routes)
{
    return &routes->source;
}
