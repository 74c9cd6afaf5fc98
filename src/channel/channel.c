/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Ends over segments of shared memory. */
#include "eplb/channel.h"

#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "channel/end.h"
#include "shm/name.h"
#include "shm/segment.h"

static enum eplb_status check_size(const char *name, size_t size, size_t expected, struct eplb_error *error)
{
    if (size != expected)
        EPLB_FAIL(EPLB_INVALID, "%s.size is %zu; this library's is %zu", name, size, expected);
    return EPLB_OK;
}

static enum eplb_status check_name(const char *params, const char *instance_name, struct eplb_error *error)
{
    if (instance_name == NULL)
        EPLB_FAIL(EPLB_INVALID, "%s.instance_name is NULL; a name is wanted", params);
    return EPLB_OK;
}

static enum eplb_status check_spin(int64_t spin_ns, struct eplb_error *error)
{
    if (spin_ns < -1)
        EPLB_FAIL(EPLB_INVALID, "a channel's spin_ns is %lld; allowed is -1 (what suits) or more",
                  (long long)spin_ns);
    return EPLB_OK;
}

/** The name of a rank's channel, over `part`. */
static struct eplb_segment_name name_of(const char *directory, const char *instance, int32_t ep_rank,
                                        char part[EPLB_SEGMENT_WORD])
{
    snprintf(part, EPLB_SEGMENT_WORD, "rank%d", ep_rank);
    return (struct eplb_segment_name){.directory = directory, .instance = instance, .part = part};
}

void eplb_channel_params_init(struct eplb_channel_params *params)
{
    *params = (struct eplb_channel_params){.size = sizeof *params,
                                           .instance_name = "eplb",
                                           .directory = EPLB_SHM_DIRECTORY,
                                           .ep_rank = -1,
                                           .spin_ns = -1};
}

static enum eplb_status check_params(const struct eplb_channel_params *params,
                                     struct eplb_channel_limits *limits, struct eplb_error *error)
{
    EPLB_TRY(check_size("eplb_channel_params", params->size, sizeof *params, error));
    EPLB_TRY(check_name("eplb_channel_params", params->instance_name, error));
    EPLB_TRY(check_spin(params->spin_ns, error));
    *limits = (struct eplb_channel_limits){.shape = params->shape,
                                           .ep_rank = params->ep_rank,
                                           .max_input_bytes = params->max_input_bytes,
                                           .max_result_bytes = params->max_result_bytes,
                                           .setup_bytes = params->setup_bytes};
    EPLB_TRY(eplb_channel_limits_check(limits, error));
    if (params->setup == NULL && params->setup_bytes > 0)
        EPLB_FAIL(EPLB_INVALID, "a channel's setup is NULL, and its setup_bytes %zu; then only 0 is allowed",
                  params->setup_bytes);
    return EPLB_OK;
}

enum eplb_status eplb_channel_create(const struct eplb_channel_params *params, struct eplb_channel **channel,
                                     struct eplb_error *error)
{
    struct eplb_channel_limits limits;
    EPLB_TRY(check_params(params, &limits, error));
    char part[EPLB_SEGMENT_WORD];
    const struct eplb_segment_name name =
        name_of(params->directory, params->instance_name, params->ep_rank, part);
    struct eplb_segment *segment;
    EPLB_TRY(
        eplb_segment_build(&name, EPLB_SEGMENT_CHANNEL, eplb_channel_map_bytes(&limits), &segment, error));
    struct eplb_channel *created;
    enum eplb_status status =
        eplb_channel_open_engine(eplb_segment_payload(segment), &limits, params->setup,
                                 eplb_channel_spin(params->spin_ns, &limits.shape), &created, error);
    if (status != EPLB_OK)
        goto close_segment;
    status = eplb_segment_publish(segment, params->generation, error);
    if (status != EPLB_OK)
        goto free_end;
    created->segment = segment;
    created->generation = eplb_segment_generation(segment);
    *channel = created;
    return EPLB_OK;

free_end:
    eplb_arena_free(created);
close_segment:
    eplb_segment_close(segment);
    return status;
}

void eplb_channel_attach_params_init(struct eplb_channel_attach_params *params)
{
    *params = (struct eplb_channel_attach_params){.size = sizeof *params,
                                                  .instance_name = "eplb",
                                                  .directory = EPLB_SHM_DIRECTORY,
                                                  .ep_rank = -1,
                                                  .spin_ns = -1};
}

static enum eplb_status check_attach_params(const struct eplb_channel_attach_params *params,
                                            struct eplb_error *error)
{
    EPLB_TRY(check_size("eplb_channel_attach_params", params->size, sizeof *params, error));
    EPLB_TRY(check_name("eplb_channel_attach_params", params->instance_name, error));
    EPLB_TRY(check_spin(params->spin_ns, error));
    if (params->ep_rank < 0 || params->ep_rank >= EPLB_MAX_RANKS)
        EPLB_FAIL(EPLB_INVALID, "a channel's ep_rank is %d; allowed is 0 to %d", params->ep_rank,
                  EPLB_MAX_RANKS - 1);
    if (params->generation == 0)
        EPLB_FAIL(EPLB_INVALID, "a channel's generation is 0; it is that of its maker, 1 or more");
    return EPLB_OK;
}

/** Says how to remove the segment, too, where its head is damaged. */
static enum eplb_status take_end(const struct eplb_segment *segment,
                                 const struct eplb_channel_attach_params *params,
                                 struct eplb_channel **channel, struct eplb_error *error)
{
    struct eplb_error reason;
    enum eplb_status status =
        eplb_channel_open_worker(eplb_segment_payload(segment), eplb_segment_payload_bytes(segment),
                                 (uint64_t)getpid(), params->ep_rank, params->spin_ns, channel, &reason);
    if (status == EPLB_LAYOUT)
        EPLB_FAIL(status, "%s" EPLB_SHM_REMOVE, reason.text,
                  eplb_shm_removal(eplb_segment_path_of(segment)).text);
    if (status != EPLB_OK)
        EPLB_FAIL(status, "%s", reason.text);
    return EPLB_OK;
}

enum eplb_status eplb_channel_attach(const struct eplb_channel_attach_params *params,
                                     struct eplb_channel **channel, struct eplb_error *error)
{
    EPLB_TRY(check_attach_params(params, error));
    char part[EPLB_SEGMENT_WORD];
    const struct eplb_segment_name name =
        name_of(params->directory, params->instance_name, params->ep_rank, part);
    struct eplb_segment *segment;
    EPLB_TRY(eplb_segment_open(&name, EPLB_SEGMENT_CHANNEL, params->generation, 0, &segment, error));
    struct eplb_channel *attached;
    enum eplb_status status = take_end(segment, params, &attached, error);
    if (status != EPLB_OK) {
        eplb_segment_close(segment);
        return status;
    }
    attached->segment = segment;
    attached->generation = params->generation;
    *channel = attached;
    return EPLB_OK;
}

void eplb_channel_destroy(struct eplb_channel *channel)
{
    if (channel == NULL)
        return;
    eplb_segment_close(channel->segment);
    eplb_arena_free(channel);
}

int eplb_channel_engine_lives(const struct eplb_channel *channel)
{
    /* The lock is the engine's own, or there is none: only a worker can outlive the engine. */
    if (channel->side == EPLB_CHANNEL_ENGINE || channel->segment == NULL)
        return 1;
    return eplb_segment_owner_lives(channel->segment);
}
