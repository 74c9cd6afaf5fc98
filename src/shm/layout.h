/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What stands at the start of every segment: layout version 2. docs/SHM_LAYOUT.md writes down the same
 * offsets. No change without a new version.
 */
#ifndef SHM_LAYOUT_H
#define SHM_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/** "EPLBSHM" and a zero, as the bytes stand in memory (little-endian). */
#define EPLB_SEGMENT_MAGIC UINT64_C(0x004d4853424c5045)

#define EPLB_SEGMENT_VERSION 2

/** What the payload is. Values are stable. */
enum eplb_segment_kind {
    EPLB_SEGMENT_GROUP = 1,   /* the shm process group: transport/shm_layout.h */
    EPLB_SEGMENT_CHANNEL = 2, /* the forward channel of one worker: channel/layout.h */
};

/** The payload begins here, and its size is a multiple of this. */
#define EPLB_SEGMENT_ALIGN 4096

/** Written before the segment gets its name, and never again. */
struct eplb_segment_header {
    uint64_t magic;
    uint32_t version;
    uint32_t kind;
    uint64_t payload_bytes;    /* file size - EPLB_SEGMENT_ALIGN */
    uint64_t generation;       /* of the run: one more than any before of this user, >= 1 */
    uint64_t owner_pid;        /* who made it: for messages only, the lock decides who lives */
    uint64_t owner_start_time; /* as in struct eplb_process_id */
    uint64_t owner_pid_namespace;
    unsigned char owner_boot_id[16];
    unsigned char reserved[4096 - 72]; /* zeros */
};

static_assert(offsetof(struct eplb_segment_header, magic) == 0, "layout of a segment");
static_assert(offsetof(struct eplb_segment_header, version) == 8, "layout of a segment");
static_assert(offsetof(struct eplb_segment_header, kind) == 12, "layout of a segment");
static_assert(offsetof(struct eplb_segment_header, payload_bytes) == 16, "layout of a segment");
static_assert(offsetof(struct eplb_segment_header, generation) == 24, "layout of a segment");
static_assert(offsetof(struct eplb_segment_header, owner_pid) == 32, "layout of a segment");
static_assert(offsetof(struct eplb_segment_header, owner_start_time) == 40, "layout of a segment");
static_assert(offsetof(struct eplb_segment_header, owner_pid_namespace) == 48, "layout of a segment");
static_assert(offsetof(struct eplb_segment_header, owner_boot_id) == 56, "layout of a segment");
static_assert(sizeof(struct eplb_segment_header) == EPLB_SEGMENT_ALIGN, "layout of a segment");

#endif
