/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Outputs of all ranks of a forward, which is nearly all of a log. Levels and generations seldom change and
 * are told when they do; prefix sums are told as the counts that they add up, with runs of zeros as one.
 *
 * An output: a byte of flags; then, as they say, forward and rank (STRANGER), layers and slots per rank
 * (OTHER_SIZES), six numbers of the levels (LEVELS), a generation per layer (GENERATIONS), a version of the
 * weights per layer (VERSIONS; none was ever told: all 0), and the prefix sums: varints 2c for a count c and
 * 2n - 1 for n zeros, or a u64 for each prefix sum (WIDE). An output of other sizes than the manager's has no
 * prefix sums, and generations only when it has as many layers: nobody looks at the rest.
 */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "trace/event_codec.h"
#include "wire/bytes.h"
#include "wire/levels.h"

enum output_flag {
    PRESENT = 1,
    STRANGER = 2,
    OTHER_SIZES = 4,
    LEVELS = 8,
    GENERATIONS = 16,
    NO_GENERATIONS = 32,
    WIDE = 64,
    VERSIONS = 128,
    ALL_FLAGS = 255,
};

enum { LONGEST_VARINT = 10, LEVELS_BYTES = 6 * LONGEST_VARINT, FIXED_BYTES = 5 * LONGEST_VARINT + 1 };

/* Above it, twice a count does not fit 64 bits. Only counts that are none are so large. */
#define MAX_PACKED_COUNT (UINT64_MAX >> 2)

static size_t num_sums(const struct eplb_shape *shape)
{
    return (size_t)shape->num_layers * (size_t)shape->slots_per_rank;
}

size_t eplb_event_outputs_bytes(const struct eplb_shape *shape)
{
    size_t output = FIXED_BYTES + LEVELS_BYTES + 2 * (size_t)shape->num_layers * LONGEST_VARINT +
                    num_sums(shape) * LONGEST_VARINT;
    return FIXED_BYTES + (size_t)shape->ep_size * output;
}

static bool same_levels(const struct eplb_worker_levels *a, const struct eplb_worker_levels *b)
{
    return a->prepare_token.value == b->prepare_token.value && a->prepare_status == b->prepare_status &&
           a->prepare_reason == b->prepare_reason && a->activation_token.value == b->activation_token.value &&
           a->activation_outcome == b->activation_outcome && a->activation_reason == b->activation_reason;
}

static unsigned size_flags(const struct eplb_shape *shape, const struct eplb_worker_output *output)
{
    bool same = output->num_layers == shape->num_layers && output->slots_per_rank == shape->slots_per_rank;
    return (same ? 0 : OTHER_SIZES) | (output->generations == NULL ? NO_GENERATIONS : 0);
}

static bool has_generations(const struct eplb_shape *shape, int32_t num_layers, unsigned flags)
{
    return (flags & NO_GENERATIONS) == 0 && num_layers == shape->num_layers;
}

/* ------------------------------------------------------------------------------------ encoding */

static unsigned char *put_varint(unsigned char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    return at;
}

/** Packs the sums; NULL when a count is too large for it. `at` has room for the longest form. */
static unsigned char *pack(const struct eplb_shape *shape, const int64_t *prefix, unsigned char *at)
{
    uint64_t zeros = 0;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        uint64_t before = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            uint64_t count = (uint64_t)*prefix - before;
            before = (uint64_t)*prefix++;
            if (count > MAX_PACKED_COUNT)
                return NULL;
            if (count == 0) {
                zeros++;
                continue;
            }
            if (zeros > 0)
                at = put_varint(at, 2 * zeros - 1);
            zeros = 0;
            at = put_varint(at, 2 * count);
        }
    }
    return zeros == 0 ? at : put_varint(at, 2 * zeros - 1);
}

/** Appends the sums, and returns whether they are wide. */
static bool add_sums(const struct eplb_shape *shape, const int64_t *prefix, struct eplb_binary *bytes)
{
    size_t longest = num_sums(shape) * LONGEST_VARINT;
    unsigned char *room = eplb_binary_extend(bytes, longest);
    if (room == NULL)
        return false;
    unsigned char *end = pack(shape, prefix, room);
    bool wide = end == NULL;
    if (wide) {
        end = room;
        for (size_t i = 0; i < num_sums(shape); i++, end += sizeof(uint64_t))
            eplb_put_u64(end, (uint64_t)prefix[i]);
    }
    bytes->length -= longest - (size_t)(end - room);
    return wide;
}

static void add_levels(const struct eplb_worker_levels *levels, struct eplb_binary *bytes)
{
    eplb_binary_varint(bytes, levels->prepare_token.value);
    eplb_binary_varint(bytes, (uint64_t)levels->prepare_status);
    eplb_binary_varint(bytes, (uint64_t)levels->prepare_reason);
    eplb_binary_varint(bytes, levels->activation_token.value);
    eplb_binary_varint(bytes, (uint64_t)levels->activation_outcome);
    eplb_binary_varint(bytes, (uint64_t)levels->activation_reason);
}

/** NULL stands for zeros. */
static bool same_versions(const uint64_t *last, const uint64_t *versions, size_t layers)
{
    for (size_t layer = 0; layer < layers; layer++)
        if (last[layer] != (versions == NULL ? 0 : versions[layer]))
            return false;
    return true;
}

static void add_present(struct eplb_event_codec *codec, uint64_t seq, int32_t rank,
                        const struct eplb_worker_output *output, struct eplb_binary *bytes)
{
    const struct eplb_shape *shape = &codec->shape;
    size_t layers = (size_t)shape->num_layers;
    struct eplb_worker_levels *levels = &codec->levels[rank];
    uint64_t *generations = codec->generations + (size_t)rank * layers;
    uint64_t *versions = codec->versions + (size_t)rank * layers;
    unsigned flags = PRESENT | size_flags(shape, output);
    if (output->seq != seq || output->ep_rank != rank)
        flags |= STRANGER;
    if (!same_levels(levels, &output->levels))
        flags |= LEVELS;
    if (has_generations(shape, output->num_layers, flags) &&
        memcmp(generations, output->generations, layers * sizeof *generations) != 0)
        flags |= GENERATIONS;
    if (has_generations(shape, output->num_layers, flags) &&
        !same_versions(versions, output->weight_versions, layers))
        flags |= VERSIONS;
    size_t flags_at = bytes->length;
    eplb_binary_u8(bytes, flags);
    if (flags & STRANGER) {
        eplb_binary_varint(bytes, output->seq);
        eplb_binary_signed(bytes, output->ep_rank);
    }
    if (flags & OTHER_SIZES) {
        eplb_binary_signed(bytes, output->num_layers);
        eplb_binary_signed(bytes, output->slots_per_rank);
    }
    if (flags & LEVELS)
        add_levels(&output->levels, bytes);
    *levels = output->levels;
    if (flags & GENERATIONS) {
        for (size_t layer = 0; layer < layers; layer++)
            eplb_binary_varint(bytes, output->generations[layer]);
        memcpy(generations, output->generations, layers * sizeof *generations);
    }
    for (size_t layer = 0; (flags & VERSIONS) && layer < layers; layer++) {
        versions[layer] = output->weight_versions == NULL ? 0 : output->weight_versions[layer];
        eplb_binary_varint(bytes, versions[layer]);
    }
    if ((flags & OTHER_SIZES) == 0 && add_sums(shape, output->prefix, bytes))
        bytes->bytes[flags_at] |= WIDE;
}

void eplb_outputs_encode(struct eplb_event_codec *codec, const struct eplb_manager_event *event,
                         struct eplb_binary *bytes)
{
    int32_t ranks = codec->shape.ep_size;
    eplb_binary_varint(bytes, (uint64_t)event->num_outputs);
    for (int32_t rank = 0; rank < event->num_outputs && rank < ranks; rank++) {
        if (event->outputs[rank].prefix == NULL)
            eplb_binary_u8(bytes, 0);
        else
            add_present(codec, event->seq, rank, &event->outputs[rank], bytes);
    }
}

/* ------------------------------------------------------------------------------------ decoding */

static bool unpack(const struct eplb_shape *shape, struct eplb_cursor *cursor, int64_t *prefix)
{
    uint64_t zeros = 0;
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        uint64_t sum = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            uint64_t packed = zeros > 0 ? 0 : eplb_cursor_varint(cursor);
            /* A count of zero has no form of its own: it is a run. */
            if (cursor->failed || (zeros == 0 && packed == 0))
                return false;
            if (packed & 1)
                zeros = packed / 2 + 1;
            else
                sum += packed / 2;
            zeros -= zeros > 0;
            *prefix++ = (int64_t)sum;
        }
    }
    return zeros == 0;
}

static bool take_sums(const struct eplb_shape *shape, struct eplb_cursor *cursor, bool wide, int64_t *prefix)
{
    if (!wide)
        return unpack(shape, cursor, prefix);
    const unsigned char *taken = eplb_cursor_take(cursor, num_sums(shape) * sizeof(uint64_t));
    for (size_t i = 0; taken != NULL && i < num_sums(shape); i++)
        prefix[i] = eplb_get_i64(taken + i * sizeof(uint64_t));
    return taken != NULL;
}

static void take_levels(struct eplb_cursor *cursor, struct eplb_worker_levels *levels)
{
    levels->prepare_token.value = eplb_cursor_varint(cursor);
    levels->prepare_status = (enum eplb_prepare_status)eplb_cursor_most(cursor, UINT8_MAX);
    levels->prepare_reason = (enum eplb_reason)eplb_cursor_most(cursor, UINT8_MAX);
    levels->activation_token.value = eplb_cursor_varint(cursor);
    levels->activation_outcome = (enum eplb_activation_outcome)eplb_cursor_most(cursor, UINT8_MAX);
    levels->activation_reason = (enum eplb_reason)eplb_cursor_most(cursor, UINT8_MAX);
}

static int32_t take_i32(struct eplb_cursor *cursor)
{
    int64_t value = eplb_cursor_signed(cursor);
    if (value >= INT32_MIN && value <= INT32_MAX)
        return (int32_t)value;
    cursor->failed = true;
    return 0;
}

static enum eplb_status take_present(struct eplb_event_codec *codec, struct eplb_cursor *cursor,
                                     unsigned flags, int64_t *prefix, struct eplb_worker_output *output,
                                     struct eplb_error *error)
{
    const struct eplb_shape *shape = &codec->shape;
    size_t rank = (size_t)output->ep_rank;
    uint64_t *generations = codec->generations + rank * (size_t)shape->num_layers;
    uint64_t *versions = codec->versions + rank * (size_t)shape->num_layers;
    if (flags & STRANGER) {
        output->seq = eplb_cursor_varint(cursor);
        output->ep_rank = take_i32(cursor);
    }
    if (flags & OTHER_SIZES) {
        output->num_layers = take_i32(cursor);
        output->slots_per_rank = take_i32(cursor);
    }
    if (flags & LEVELS)
        take_levels(cursor, &codec->levels[rank]);
    output->levels = codec->levels[rank];
    bool wants_generations = (flags & GENERATIONS) != 0;
    if (wants_generations && !has_generations(shape, output->num_layers, flags))
        EPLB_FAIL(EPLB_INVALID, "output %zu has generations and no place for them", rank);
    for (int32_t layer = 0; wants_generations && layer < shape->num_layers; layer++)
        generations[layer] = eplb_cursor_varint(cursor);
    if ((flags & VERSIONS) && !has_generations(shape, output->num_layers, flags))
        EPLB_FAIL(EPLB_INVALID, "output %zu has weight versions and no place for them", rank);
    for (int32_t layer = 0; (flags & VERSIONS) && layer < shape->num_layers; layer++)
        versions[layer] = eplb_cursor_varint(cursor);
    output->generations = flags & NO_GENERATIONS ? NULL : generations;
    output->weight_versions = flags & NO_GENERATIONS ? NULL : versions;
    output->prefix = prefix;
    bool sums = (flags & OTHER_SIZES) == 0;
    if (cursor->failed || (sums && !take_sums(shape, cursor, (flags & WIDE) != 0, prefix)))
        EPLB_FAIL(EPLB_INVALID, "output %zu is not whole", rank);
    return eplb_worker_levels_check(output, error);
}

enum eplb_status eplb_outputs_decode(struct eplb_event_codec *codec, struct eplb_event_rooms *rooms,
                                     struct eplb_cursor *cursor, struct eplb_manager_event *event,
                                     struct eplb_error *error)
{
    const struct eplb_shape *shape = &codec->shape;
    event->num_outputs = (int32_t)eplb_cursor_most(cursor, INT32_MAX);
    event->outputs = rooms->outputs;
    for (int32_t rank = 0; rank < event->num_outputs && rank < shape->ep_size; rank++) {
        unsigned flags = eplb_cursor_u8(cursor);
        struct eplb_worker_output *output = &rooms->outputs[rank];
        *output = (struct eplb_worker_output){.size = sizeof *output,
                                              .seq = event->seq,
                                              .ep_rank = rank,
                                              .num_layers = shape->num_layers,
                                              .slots_per_rank = shape->slots_per_rank};
        if (cursor->failed || flags > ALL_FLAGS || (flags != 0 && (flags & PRESENT) == 0))
            EPLB_FAIL(EPLB_INVALID, "output %d is not whole", rank);
        if (flags & PRESENT)
            EPLB_TRY(take_present(codec, cursor, flags, rooms->prefixes + (size_t)rank * num_sums(shape),
                                  output, error));
    }
    return EPLB_OK;
}
