/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the payloads of segments say. They are read into memory of our own, and believed only as far as
 * their sizes fit the file.
 */
#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "channel/map.h"
#include "cli/shm.h"
#include "shm/name.h"
#include "transport/shm_payload.h"

static enum eplb_status read_start(const struct eplb_segment_info *info, const struct eplb_peek *peek,
                                   void *bytes, size_t size, struct eplb_error *error)
{
    if (size > info->header.payload_bytes || !eplb_peek_read(peek, EPLB_SEGMENT_ALIGN, bytes, size))
        EPLB_FAIL(EPLB_LAYOUT, "%s has a payload of %" PRIu64 " bytes, expected at least %zu" EPLB_SHM_REMOVE,
                  eplb_shm_base_name(info->path), info->header.payload_bytes, size,
                  eplb_shm_removal(info->path).text);
    return EPLB_OK;
}

/** Everything in a private copy, whatever its owner does meanwhile; so no order has to be kept. */
#define VALUE(member) atomic_load_explicit(&(member), memory_order_relaxed)

/** Offsets of these sections count from there. */
#define PAYLOAD ", the payload, at 4096"
static_assert(EPLB_SEGMENT_ALIGN == 4096, "the lines say so");

/* ---- group ---- */

/** Where in the payload something stands, whose copy begins at `start`. */
#define AT(pointer) ((int64_t)((uintptr_t)(pointer) - (uintptr_t)start))

/** The parts of a group that are shown: all before its wants and links. */
struct group {
    struct eplb_mesh_limits limits;
    const struct eplb_shm_claim *claims;
    struct eplb_mesh mesh;
};

/** Bytes that these parts need at most, with what aligns them. */
static size_t most_bytes(int32_t num_ranks)
{
    enum { BYTES_OF_HEADS = 1024, BYTES_OF_RANK = 128 };
    return BYTES_OF_HEADS + BYTES_OF_RANK * (size_t)num_ranks;
}

static enum eplb_status find_parts(struct eplb_arena *arena, struct group *group, struct eplb_error *error)
{
    const struct eplb_waker none = {0};
    eplb_arena_take(arena, 1, sizeof(struct eplb_shm_head));
    group->claims = eplb_arena_take(arena, (size_t)group->limits.num_ranks, sizeof *group->claims);
    group->mesh = eplb_mesh_take(arena, &group->limits, &none);
    if (group->claims == NULL || group->mesh.members == NULL)
        EPLB_FAIL(EPLB_INTERNAL, "%d ranks need more than %zu bytes", group->limits.num_ranks,
                  most_bytes(group->limits.num_ranks));
    return EPLB_OK;
}

static const char *decision_text(enum eplb_decision decision)
{
    return decision == EPLB_COMMIT ? "commit" : decision == EPLB_ABORT ? "abort" : "undecided";
}

static bool has_voted(const struct group *group, uint64_t token, int32_t rank)
{
    uint64_t word = VALUE(group->mesh.votes[rank / EPLB_VOTES_PER_WORD]);
    return word >> EPLB_VOTES_PER_WORD == (token & UINT32_MAX) &&
           (word >> (rank % EPLB_VOTES_PER_WORD) & 1) != 0;
}

static void report_ranks(struct eplb_report *report, const struct group *group, const unsigned char *start,
                         uint64_t token)
{
    eplb_report_list(report, "ranks");
    for (int32_t rank = 0; rank < group->limits.num_ranks; rank++) {
        const struct eplb_mesh_member *member = &group->mesh.members[rank];
        eplb_report_member(report, AT(member));
        eplb_report_number(report, "claimed_by", EPLB_REPORT_NOWHERE, VALUE(group->claims[rank].pid));
        eplb_report_text(report, "dead", EPLB_REPORT_NOWHERE,
                         eplb_mesh_is_dead(&group->mesh, rank) ? "yes" : "no");
        eplb_report_text(report, "voted_yes", EPLB_REPORT_NOWHERE,
                         token != 0 && has_voted(group, token, rank) ? "yes" : "no");
        eplb_report_number(report, "bell", EPLB_REPORT_NOWHERE, VALUE(member->bell));
        eplb_report_number(report, "sleepers", EPLB_REPORT_NOWHERE, VALUE(member->sleepers));
        eplb_report_number(report, "wants", EPLB_REPORT_NOWHERE, VALUE(member->num_wants));
        eplb_report_end(report);
    }
    eplb_report_end(report);
}

static void report_group(struct eplb_report *report, const struct group *group, const unsigned char *start)
{
    const struct eplb_mesh_limits *limits = &group->limits;
    const struct eplb_mesh_head *head = group->mesh.head;
    uint64_t word = VALUE(head->decision);
    struct eplb_activation_token token = {word >> 2};
    struct eplb_decision_record record = eplb_mesh_decision(&group->mesh);
    int32_t deaths = 0;
    for (int32_t rank = 0; rank < limits->num_ranks; rank++)
        deaths += eplb_mesh_is_dead(&group->mesh, rank);
    eplb_report_section(report, "group", PAYLOAD);
    eplb_report_number(report, "num_ranks", offsetof(struct eplb_shm_head, num_ranks),
                       (uint64_t)limits->num_ranks);
    eplb_report_number(report, "max_ops", offsetof(struct eplb_shm_head, max_ops), (uint64_t)limits->max_ops);
    eplb_report_number(report, "transfer_ring_bytes", offsetof(struct eplb_shm_head, transfer_ring_bytes),
                       limits->transfer_ring_bytes);
    eplb_report_number(report, "collective_ring_bytes", offsetof(struct eplb_shm_head, collective_ring_bytes),
                       limits->collective_ring_bytes);
    int64_t word_at = AT(&head->decision);
    eplb_report_number(report, "decision_token", word_at, token.value);
    eplb_report_text(report, "decision", word_at,
                     token.value == 0 ? "none" : decision_text(eplb_decision_read(&record, token)));
    eplb_report_number(report, "barrier_arrivals", AT(&head->arrivals), VALUE(head->arrivals));
    eplb_report_number(report, "deaths", AT(group->mesh.deaths), (uint64_t)deaths);
    eplb_report_end(report);
    report_ranks(report, group, start, token.value);
}

enum eplb_status eplb_shm_report_group(struct eplb_report *report, const struct eplb_segment_info *info,
                                       const struct eplb_peek *peek, struct eplb_error *error)
{
    struct group group;
    struct eplb_shm_head head;
    uint64_t payload_bytes = info->header.payload_bytes;
    EPLB_TRY(read_start(info, peek, &head, sizeof head, error));
    EPLB_TRY(eplb_shm_payload_limits(&head, payload_bytes, info->path, &group.limits, error));
    struct eplb_arena arena;
    size_t size = most_bytes(group.limits.num_ranks);
    if (size > payload_bytes)
        size = payload_bytes;
    unsigned char *start = eplb_arena_block(size);
    if (start == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for %d ranks", group.limits.num_ranks);
    eplb_arena_init(&arena, start, size);
    enum eplb_status status = read_start(info, peek, start, size, error);
    if (status == EPLB_OK)
        status = find_parts(&arena, &group, error);
    if (status == EPLB_OK)
        report_group(report, &group, start);
    eplb_arena_free(start);
    return status;
}

/* ---- channel ---- */

#define OF(member) ((int64_t)offsetof(struct eplb_channel_head, member))

static void report_seat(struct eplb_report *report, const struct eplb_channel_head *head,
                        enum eplb_channel_side side)
{
    const struct eplb_channel_seat *seat = &head->seats[side];
    int64_t offset = OF(seats) + (int64_t)sizeof *seat * side;
    eplb_report_section(report, side == EPLB_CHANNEL_ENGINE ? "engine_seat" : "worker_seat", "");
    eplb_report_number(report, "bell", offset + (int64_t)offsetof(struct eplb_channel_seat, bell),
                       VALUE(seat->bell.rings));
    eplb_report_number(report, "sleepers",
                       offset + (int64_t)offsetof(struct eplb_channel_seat, bell.sleepers),
                       VALUE(seat->bell.sleepers));
    eplb_report_number(report, "wakes", offset + (int64_t)offsetof(struct eplb_channel_seat, wakes),
                       VALUE(seat->wakes));
    eplb_report_end(report);
}

static void report_channel(struct eplb_report *report, const struct eplb_channel_head *head,
                           const struct eplb_channel_limits *limits)
{
    const struct eplb_channel_facts *facts = &head->facts;
    const struct eplb_shape *shape = &limits->shape;
    eplb_report_section(report, "channel", PAYLOAD);
    eplb_report_number(report, "num_layers", OF(facts.num_layers), (uint64_t)shape->num_layers);
    eplb_report_number(report, "num_experts", OF(facts.num_experts), (uint64_t)shape->num_experts);
    eplb_report_number(report, "ep_size", OF(facts.ep_size), (uint64_t)shape->ep_size);
    eplb_report_number(report, "redundant_experts_num", OF(facts.redundant_experts_num),
                       (uint64_t)shape->redundant_experts_num);
    eplb_report_number(report, "ep_rank", OF(facts.ep_rank), (uint64_t)limits->ep_rank);
    eplb_report_number(report, "depth", OF(facts.depth), facts->depth);
    eplb_report_number(report, "max_input_bytes", OF(facts.max_input_bytes), limits->max_input_bytes);
    eplb_report_number(report, "max_result_bytes", OF(facts.max_result_bytes), limits->max_result_bytes);
    eplb_report_number(report, "setup_bytes", OF(facts.setup_bytes), limits->setup_bytes);
    eplb_report_number(report, "claimed_by", OF(claim), VALUE(head->claim));
    eplb_report_number(report, "beats", OF(beats), VALUE(head->beats));
    eplb_report_number(report, "submitted", OF(submitted), VALUE(head->submitted));
    eplb_report_number(report, "replied", OF(replied), VALUE(head->replied));
    eplb_report_end(report);
    report_seat(report, head, EPLB_CHANNEL_ENGINE);
    report_seat(report, head, EPLB_CHANNEL_WORKER);
}

#undef OF

enum eplb_status eplb_shm_report_channel(struct eplb_report *report, const struct eplb_segment_info *info,
                                         const struct eplb_peek *peek, struct eplb_error *error)
{
    struct eplb_channel_head head;
    struct eplb_channel_limits limits;
    struct eplb_error wrong;
    EPLB_TRY(read_start(info, peek, &head, sizeof head, error));
    if (eplb_channel_facts_read(&head, info->header.payload_bytes, &limits, &wrong) != EPLB_OK)
        EPLB_FAIL(EPLB_LAYOUT, "%s" EPLB_SHM_REMOVE, wrong.text, eplb_shm_removal(info->path).text);
    report_channel(report, &head, &limits);
    return EPLB_OK;
}
