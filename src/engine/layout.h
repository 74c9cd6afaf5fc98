/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Where the fields of the engine's records are, in bytes from the start. There is no gap between fields.
 * A change here is a change of the layout that engine and workers must share.
 */
#ifndef ENGINE_LAYOUT_H
#define ENGINE_LAYOUT_H

enum eplb_input_layout {
    EPLB_INPUT_FLAGS = 0,    /* u32 */
    EPLB_INPUT_NUM_ROWS = 4, /* i32 */
    EPLB_INPUT_ROWS = 8,     /* [num_rows] of the following */
};

enum eplb_input_row_layout {
    EPLB_INPUT_ROW_SEQUENCE = 0,  /* u64 */
    EPLB_INPUT_ROW_CACHE = 8,     /* i32 */
    EPLB_INPUT_ROW_POSITION = 12, /* i32 */
    EPLB_INPUT_ROW_TOKEN = 16,    /* i32 */
    EPLB_INPUT_ROW_KIND = 20,     /* u8 */
    EPLB_INPUT_ROW_SAMPLE = 21,   /* u8 */
    EPLB_INPUT_ROW_RESERVED = 22, /* u8 [2], zero */
    EPLB_INPUT_ROW_BYTES = 24,
};

enum eplb_result_layout {
    EPLB_RESULT_NUM_SAMPLES = 0,    /* i32 */
    EPLB_RESULT_NUM_LAYERS = 4,     /* i32 */
    EPLB_RESULT_STEP_NS = 8,        /* i64 */
    EPLB_RESULT_SWITCH_NS = 16,     /* i64 */
    EPLB_RESULT_SLOTS_CHECKED = 24, /* u64 */
    EPLB_RESULT_WORK = 32,          /* [num_layers] of the following, then [num_samples] of the one after */
};

enum eplb_result_work_layout {
    EPLB_RESULT_WORK_ROWS = 0,      /* i64 */
    EPLB_RESULT_WORK_CPU_NS = 8,    /* i64 */
    EPLB_RESULT_WORK_ROUTE_NS = 16, /* i64 */
    EPLB_RESULT_WORK_BYTES = 24,
};

enum eplb_result_sample_layout {
    EPLB_RESULT_SAMPLE_SEQUENCE = 0,  /* u64 */
    EPLB_RESULT_SAMPLE_DIGEST = 8,    /* u64 */
    EPLB_RESULT_SAMPLE_POSITION = 16, /* i32 */
    EPLB_RESULT_SAMPLE_TOKEN = 20,    /* i32 */
    EPLB_RESULT_SAMPLE_BYTES = 24,
};

enum eplb_setup_layout {
    EPLB_SETUP_MODEL_SEED = 0,               /* u64 */
    EPLB_SETUP_SKEW_SEED = 8,                /* u64 */
    EPLB_SETUP_SKEW_PERIOD = 16,             /* u64 */
    EPLB_SETUP_TRANSFER_CHUNK_BYTES = 24,    /* i64 */
    EPLB_SETUP_TRANSFER_INFLIGHT_BYTES = 32, /* i64 */
    EPLB_SETUP_ENGINE_PID = 40,              /* i64 */
    EPLB_SETUP_VOCAB_SIZE = 48,              /* i32, as all that follow; of the model */
    EPLB_SETUP_HIDDEN_SIZE = 52,
    EPLB_SETUP_NUM_LAYERS = 56,
    EPLB_SETUP_NUM_HEADS = 60,
    EPLB_SETUP_HEAD_DIM = 64,
    EPLB_SETUP_KV_WINDOW = 68,
    EPLB_SETUP_NUM_EXPERTS = 72,
    EPLB_SETUP_TOP_K = 76,
    EPLB_SETUP_EXPERT_HIDDEN_SIZE = 80,
    EPLB_SETUP_SHARED_HIDDEN_SIZE = 84,
    EPLB_SETUP_EP_SIZE = 88, /* of the shape */
    EPLB_SETUP_REDUNDANT_EXPERTS_NUM = 92,
    EPLB_SETUP_MAX_ROWS = 96,
    EPLB_SETUP_NUM_CACHES = 100,
    EPLB_SETUP_EPLB = 104,
    EPLB_SETUP_DECODE_ONLY_LOAD = 108,
    EPLB_SETUP_FUSED_MC2 = 112,
    EPLB_SETUP_TRANSFER_TIMEOUT_SECONDS = 116,
    EPLB_SETUP_VERIFY = 120,
    EPLB_SETUP_INJECT = 124,
    EPLB_SETUP_ROUTING = 128,
    EPLB_SETUP_SKEW_PHASES = 132,
    EPLB_SETUP_TRACE_SEQUENCES = 136,
    EPLB_SETUP_TRACE_REPEAT = 140,
    EPLB_SETUP_TRACE_PATH_BYTES = 144, /* with its terminating zero; 0: there is none */
    EPLB_SETUP_RECORD = 148,
    EPLB_SETUP_TRACE_DIGEST = 152,    /* u64 */
    EPLB_SETUP_REPLICA_ROUTING = 160, /* i32, as all that follow */
    EPLB_SETUP_COST_PER_ACTIVE_SLOT = 164,
    EPLB_SETUP_COST_PER_TOKEN = 168,
    EPLB_SETUP_HAS_WEIGHTS = 172, /* 1: there are weights of the initial tables */
    EPLB_SETUP_HAS_NODES = 176,   /* 1: there is a node of each rank */
    EPLB_SETUP_RESERVED = 180,    /* zero */
    /* i64 rates [skew_phases][num_layers][num_experts], then i32 initial [num_layers][num_slots], then as
       many i32 weights, then i32 nodes [ep_size], then the path of the recording */
    EPLB_SETUP_ARRAYS = 184,
};

/** What each row was routed to: before the result, when the setup asks for it. */
enum eplb_routed_layout {
    EPLB_ROUTED_NUM_ROWS = 0, /* i32 */
    EPLB_ROUTED_ROW_IDS = 4,  /* i32: num_layers * top_k */
    EPLB_ROUTED_ROWS = 8,     /* [num_rows] of the following */
};

enum eplb_routed_row_layout {
    EPLB_ROUTED_ROW_SEQUENCE = 0, /* u64 */
    EPLB_ROUTED_ROW_POSITION = 8, /* i32 */
    EPLB_ROUTED_ROW_EXPERTS = 12, /* u16 [num_layers][top_k] */
};

#endif
