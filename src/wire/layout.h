/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Where the fields of the two records are, in bytes from the start. There is no gap between fields.
 * A change here is a change of the layout that engines and workers must share.
 */
#ifndef WIRE_LAYOUT_H
#define WIRE_LAYOUT_H

enum eplb_command_layout {
    EPLB_COMMAND_SEQ = 0,                   /* u64 */
    EPLB_COMMAND_PREPARE_TOKEN = 8,         /* u64 */
    EPLB_COMMAND_BASE_GENERATION = 16,      /* u64 */
    EPLB_COMMAND_BASE_HASH = 24,            /* u64 */
    EPLB_COMMAND_ACTIVATION_TOKEN = 32,     /* u64 */
    EPLB_COMMAND_UPDATE_PREPARE_TOKEN = 40, /* u64 */
    EPLB_COMMAND_PREPARE_LAYER_ID = 48,     /* i32 */
    EPLB_COMMAND_UPDATE_LAYER_ID = 52,      /* i32 */
    EPLB_COMMAND_NUM_EXPERT_IDS = 56,       /* i32 */
    EPLB_COMMAND_NUM_REPLICA_WEIGHTS = 60,  /* i32 */
    EPLB_COMMAND_NUM_WEIGHT_UPDATES = 64,   /* i32 */
    EPLB_COMMAND_RESERVED = 68,             /* u32, zero */
    EPLB_COMMAND_EXPERT_IDS = 72,           /* i32 [num_slots], zeros without a prepare */
    /* then i32 replica weights [num_slots], zeros without any; then EPLB_MAX_WEIGHT_UPDATES updates, zeros
     * where there is none */
};

enum eplb_weight_update_layout {
    EPLB_UPDATE_GENERATION = 0, /* u64 */
    EPLB_UPDATE_VERSION = 8,    /* u64 */
    EPLB_UPDATE_LAYER = 16,     /* i32 */
    EPLB_UPDATE_RESERVED = 20,  /* u32, zero */
    EPLB_UPDATE_WEIGHTS = 24,   /* i32 [num_slots] */
};

enum eplb_output_layout {
    EPLB_OUTPUT_SEQ = 0,                 /* u64 */
    EPLB_OUTPUT_PREPARE_TOKEN = 8,       /* u64 */
    EPLB_OUTPUT_ACTIVATION_TOKEN = 16,   /* u64 */
    EPLB_OUTPUT_EP_RANK = 24,            /* i32 */
    EPLB_OUTPUT_NUM_LAYERS = 28,         /* i32 */
    EPLB_OUTPUT_SLOTS_PER_RANK = 32,     /* i32 */
    EPLB_OUTPUT_PREPARE_STATUS = 36,     /* u32 */
    EPLB_OUTPUT_PREPARE_REASON = 40,     /* u32 */
    EPLB_OUTPUT_ACTIVATION_OUTCOME = 44, /* u32 */
    EPLB_OUTPUT_ACTIVATION_REASON = 48,  /* u32 */
    EPLB_OUTPUT_RESERVED = 52,           /* u32, zero */
    EPLB_OUTPUT_GENERATIONS = 56,        /* u64 [num_layers] */
    /* then u64 weight versions [num_layers], then i64 prefix [num_layers][slots_per_rank] */
};

#endif
