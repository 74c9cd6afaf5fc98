/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A mesh in a segment of shared memory, whose bells are slept on where they lie. */
#include "eplb/shm.h"

#include "base/assert.h"
#include "base/error.h"
#include "os/futex.h"
#include "shm/segment.h"
#include "transport/member.h"
#include "transport/shm_views.h"
#include "transport/shm_waker.h"

/* As those of `threads`, and for the same reasons. */
enum { DEFAULT_OPS = 512, DEFAULT_TRANSFER_RING = 128 * 1024, DEFAULT_COLLECTIVE_RING = 16 * 1024 };

enum { SPIN_AS_IT_PAYS = -1 };

/** The segment's part of the name. */
static const char part_name[] = "group";

/** Everything private is one block: this first, so that freeing it frees all. */
struct eplb_shm {
    struct eplb_segment *segment; /* NULL: the payload is somebody else's */
    struct eplb_shm_waker waker;
    struct eplb_shm_payload payload;
    struct eplb_member *member;
};

void eplb_shm_params_init(struct eplb_shm_params *params)
{
    *params = (struct eplb_shm_params){.size = sizeof *params,
                                       .instance_name = "eplb",
                                       .directory = EPLB_SHM_DIRECTORY,
                                       .max_ops = DEFAULT_OPS,
                                       .transfer_ring_bytes = DEFAULT_TRANSFER_RING,
                                       .collective_ring_bytes = DEFAULT_COLLECTIVE_RING,
                                       .spin_ns = SPIN_AS_IT_PAYS};
}

void eplb_shm_attach_params_init(struct eplb_shm_attach_params *params)
{
    *params = (struct eplb_shm_attach_params){.size = sizeof *params,
                                              .instance_name = "eplb",
                                              .directory = EPLB_SHM_DIRECTORY,
                                              .rank = EPLB_NO_RANK,
                                              .spin_ns = SPIN_AS_IT_PAYS};
}

/* ---- views ---- */

static struct eplb_shm *layout(struct eplb_arena *arena, const struct eplb_mesh_limits *limits, int32_t rank)
{
    struct eplb_shm *shm = eplb_arena_take(arena, 1, sizeof *shm);
    struct eplb_member *member = eplb_member_take(arena, limits, rank);
    if (shm != NULL)
        *shm = (struct eplb_shm){.member = member};
    return shm;
}

enum eplb_status eplb_shm_view_make(void *payload, const struct eplb_mesh_limits *limits, int32_t rank,
                                    int64_t spin_ns, struct eplb_shm **shm, struct eplb_error *error)
{
    EPLB_ASSERT(rank == EPLB_NO_RANK || (rank >= 0 && rank < limits->num_ranks));
    struct eplb_arena arena;
    eplb_arena_init(&arena, NULL, 0);
    layout(&arena, limits, rank);
    if (eplb_arena_reserve(&arena) == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a view of a group of %d ranks with %d operations each",
                  limits->num_ranks, limits->max_ops);
    struct eplb_shm *made = layout(&arena, limits, rank);
    EPLB_ASSERT(made != NULL && !arena.overflow);
    /* The engine's process sleeps while its ranks wait for each other. */
    made->waker.spin_ns = spin_ns == SPIN_AS_IT_PAYS ? eplb_spin_default(limits->num_ranks) : spin_ns;
    const struct eplb_waker waker = eplb_shm_waker_of(&made->waker);
    made->payload = eplb_shm_payload_at(payload, limits, &waker);
    eplb_member_init(made->member, &made->payload.mesh, rank);
    *shm = made;
    return EPLB_OK;
}

const struct eplb_group *eplb_shm_group(const struct eplb_shm *shm)
{
    EPLB_ASSERT(shm != NULL);
    return eplb_member_group(shm->member);
}

uint64_t eplb_shm_generation(const struct eplb_shm *shm)
{
    EPLB_ASSERT(shm != NULL && shm->segment != NULL);
    return eplb_segment_generation(shm->segment);
}

void eplb_shm_destroy(struct eplb_shm *shm)
{
    if (shm == NULL)
        return;
    eplb_segment_close(shm->segment);
    eplb_arena_free(shm);
}

/* ---- groups ---- */

static enum eplb_status check_spin(const char *params, int64_t spin_ns, struct eplb_error *error)
{
    if (spin_ns < SPIN_AS_IT_PAYS)
        EPLB_FAIL(EPLB_INVALID, "%s.spin_ns is %lld; allowed are -1 (as it pays), 0 and more", params,
                  (long long)spin_ns);
    return EPLB_OK;
}

/** Fills a new segment and gives it its name. */
static enum eplb_status found(struct eplb_segment *segment, const struct eplb_mesh_limits *limits,
                              int64_t spin_ns, struct eplb_shm **shm, struct eplb_error *error)
{
    struct eplb_shm *made;
    void *payload = eplb_segment_payload(segment);
    eplb_shm_payload_format(payload, limits);
    EPLB_TRY(eplb_shm_view_make(payload, limits, EPLB_NO_RANK, spin_ns, &made, error));
    enum eplb_status status = eplb_segment_publish(segment, 0, error);
    if (status != EPLB_OK) {
        eplb_shm_destroy(made);
        return status;
    }
    made->segment = segment;
    *shm = made;
    return EPLB_OK;
}

enum eplb_status eplb_shm_create(const struct eplb_shm_params *params, struct eplb_shm **shm,
                                 struct eplb_error *error)
{
    if (params->size != sizeof *params)
        EPLB_FAIL(EPLB_INVALID, "eplb_shm_params.size is %zu; this library's is %zu", params->size,
                  sizeof *params);
    if (params->instance_name == NULL)
        EPLB_FAIL(EPLB_INVALID, "eplb_shm_params.instance_name is NULL; a name is wanted");
    EPLB_TRY(check_spin("eplb_shm_params", params->spin_ns, error));
    const struct eplb_mesh_limits limits = {.num_ranks = params->num_ranks,
                                            .max_ops = params->max_ops,
                                            .transfer_ring_bytes = params->transfer_ring_bytes,
                                            .collective_ring_bytes = params->collective_ring_bytes};
    EPLB_TRY(eplb_mesh_limits_check(&limits, error));
    size_t bytes;
    EPLB_TRY(eplb_shm_payload_size(&limits, &bytes, error));
    const struct eplb_segment_name name = {
        .directory = params->directory, .instance = params->instance_name, .part = part_name};
    struct eplb_segment *segment;
    EPLB_TRY(eplb_segment_build(&name, EPLB_SEGMENT_GROUP, bytes, &segment, error));
    enum eplb_status status = found(segment, &limits, params->spin_ns, shm, error);
    if (status != EPLB_OK)
        eplb_segment_close(segment);
    return status;
}

/* ---- ranks ---- */

static enum eplb_status check_attach_params(const struct eplb_shm_attach_params *params,
                                            struct eplb_error *error)
{
    if (params->size != sizeof *params)
        EPLB_FAIL(EPLB_INVALID, "eplb_shm_attach_params.size is %zu; this library's is %zu", params->size,
                  sizeof *params);
    if (params->instance_name == NULL)
        EPLB_FAIL(EPLB_INVALID, "eplb_shm_attach_params.instance_name is NULL; a name is wanted");
    if (params->generation == 0)
        EPLB_FAIL(EPLB_INVALID,
                  "eplb_shm_attach_params.generation is 0; it is what eplb_shm_generation gave to the maker");
    return check_spin("eplb_shm_attach_params", params->spin_ns, error);
}

/** Takes a rank's place in an open segment, last of all: it is taken once. */
static enum eplb_status join(struct eplb_segment *segment, int32_t rank, int64_t spin_ns,
                             struct eplb_shm **shm, struct eplb_error *error)
{
    struct eplb_mesh_limits limits;
    struct eplb_shm *made;
    void *payload = eplb_segment_payload(segment);
    const char *path = eplb_segment_path_of(segment);
    EPLB_TRY(eplb_shm_payload_limits(payload, eplb_segment_payload_bytes(segment), path, &limits, error));
    if (rank < 0 || rank >= limits.num_ranks)
        EPLB_FAIL(EPLB_INVALID, "there is no rank %d in a group of %d ranks: %s", rank, limits.num_ranks,
                  path);
    EPLB_TRY(eplb_shm_view_make(payload, &limits, rank, spin_ns, &made, error));
    enum eplb_status status = eplb_shm_payload_claim(&made->payload, rank, path, error);
    if (status != EPLB_OK) {
        eplb_shm_destroy(made);
        return status;
    }
    made->segment = segment;
    *shm = made;
    return EPLB_OK;
}

enum eplb_status eplb_shm_attach(const struct eplb_shm_attach_params *params, struct eplb_shm **shm,
                                 struct eplb_error *error)
{
    EPLB_TRY(check_attach_params(params, error));
    const struct eplb_segment_name name = {
        .directory = params->directory, .instance = params->instance_name, .part = part_name};
    struct eplb_segment *segment;
    EPLB_TRY(eplb_segment_open(&name, EPLB_SEGMENT_GROUP, params->generation, 0, &segment, error));
    enum eplb_status status = join(segment, params->rank, params->spin_ns, shm, error);
    if (status != EPLB_OK)
        eplb_segment_close(segment);
    return status;
}
