/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Prints every shared struct as the compiler lays it out: "NAME BYTES", then "NAME OFFSET BYTES FIELD" for
 * each field, in the order of docs/SHM_LAYOUT.md.
 */
#include <stdio.h>

#include "channel/layout.h"
#include "shm/layout.h"
#include "shm/lock.h"
#include "transport/shm_layout.h"

#define STRUCT(name) printf("%s %zu\n", #name, sizeof(struct name));
#define FIELD(name, field)                                                                               \
    printf("%s %zu %zu %s\n", #name, offsetof(struct name, field), sizeof(((struct name *)NULL)->field), \
           #field);

static void print_segment(void)
{
    STRUCT(eplb_lock_record)
    FIELD(eplb_lock_record, magic)
    FIELD(eplb_lock_record, version)
    FIELD(eplb_lock_record, generation)
    FIELD(eplb_lock_record, holder_pid)
    FIELD(eplb_lock_record, reserved)
    STRUCT(eplb_segment_header)
    FIELD(eplb_segment_header, magic)
    FIELD(eplb_segment_header, version)
    FIELD(eplb_segment_header, kind)
    FIELD(eplb_segment_header, payload_bytes)
    FIELD(eplb_segment_header, generation)
    FIELD(eplb_segment_header, owner_pid)
    FIELD(eplb_segment_header, owner_start_time)
    FIELD(eplb_segment_header, owner_pid_namespace)
    FIELD(eplb_segment_header, owner_boot_id)
    FIELD(eplb_segment_header, reserved)
}

static void print_group(void)
{
    STRUCT(eplb_shm_head)
    FIELD(eplb_shm_head, num_ranks)
    FIELD(eplb_shm_head, max_ops)
    FIELD(eplb_shm_head, transfer_ring_bytes)
    FIELD(eplb_shm_head, collective_ring_bytes)
    FIELD(eplb_shm_head, bytes)
    STRUCT(eplb_shm_claim)
    FIELD(eplb_shm_claim, pid)
    STRUCT(eplb_mesh_head)
    FIELD(eplb_mesh_head, decision)
    FIELD(eplb_mesh_head, arrivals)
    STRUCT(eplb_mesh_member)
    FIELD(eplb_mesh_member, bell)
    FIELD(eplb_mesh_member, sleepers)
    FIELD(eplb_mesh_member, num_wants)
    FIELD(eplb_mesh_member, patient)
    FIELD(eplb_mesh_member, awaited)
    STRUCT(eplb_mesh_want)
    FIELD(eplb_mesh_want, ticket)
    FIELD(eplb_mesh_want, token)
    FIELD(eplb_mesh_want, size)
    FIELD(eplb_mesh_want, from)
    FIELD(eplb_mesh_want, slot)
    FIELD(eplb_mesh_want, chunk)
    STRUCT(eplb_mesh_link)
    FIELD(eplb_mesh_link, transfer)
    FIELD(eplb_mesh_link, collective)
    FIELD(eplb_mesh_link, announced)
    STRUCT(eplb_pipe_positions)
    FIELD(eplb_pipe_positions, written)
    FIELD(eplb_pipe_positions, read)
    STRUCT(eplb_fragment)
    FIELD(eplb_fragment, message)
    FIELD(eplb_fragment, token)
    FIELD(eplb_fragment, size)
    FIELD(eplb_fragment, offset)
    FIELD(eplb_fragment, want)
    FIELD(eplb_fragment, length)
    FIELD(eplb_fragment, reserved)
}

static void print_channel(void)
{
    STRUCT(eplb_channel_facts)
    FIELD(eplb_channel_facts, num_layers)
    FIELD(eplb_channel_facts, num_experts)
    FIELD(eplb_channel_facts, ep_size)
    FIELD(eplb_channel_facts, redundant_experts_num)
    FIELD(eplb_channel_facts, ep_rank)
    FIELD(eplb_channel_facts, depth)
    FIELD(eplb_channel_facts, max_input_bytes)
    FIELD(eplb_channel_facts, max_result_bytes)
    FIELD(eplb_channel_facts, setup_bytes)
    FIELD(eplb_channel_facts, reserved)
    STRUCT(eplb_channel_head)
    FIELD(eplb_channel_head, facts)
    FIELD(eplb_channel_head, claim)
    FIELD(eplb_channel_head, beats)
    FIELD(eplb_channel_head, seats)
    FIELD(eplb_channel_head, submitted)
    FIELD(eplb_channel_head, replied)
    STRUCT(eplb_channel_seat)
    FIELD(eplb_channel_seat, bell)
    FIELD(eplb_channel_seat, wakes)
    STRUCT(eplb_bell)
    FIELD(eplb_bell, rings)
    FIELD(eplb_bell, sleepers)
    STRUCT(eplb_channel_slot)
    FIELD(eplb_channel_slot, body_bytes)
}

int main(void)
{
    print_segment();
    print_group();
    print_channel();
    return 0;
}
