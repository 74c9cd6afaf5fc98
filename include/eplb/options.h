/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The options of load balancing, with where each value came from. Belongs to src/config.
 *
 * A host initialises a struct eplb_options, sets options by name from its flags and from its JSON
 * file in any order, checks them against its model, and reads the fields. A value from a flag wins
 * over one from a file, and a value that equals the default but was given counts as given.
 *
 * Values are fixed when they are used: those marked "manager" when the manager is created, those
 * marked "runtime" when the worker starts. Setting one later changes nothing.
 *
 * The names, defaults, ranges and descriptions are rows of one table, from which `eplb --help`,
 * the manual page and `--dump_config` are made as well. Some names are reserved for later work;
 * setting one fails with EPLB_UNSUPPORTED.
 *
 * Numbers in text are read the same way in every locale. Integers are an optional minus and
 * digits; reals may add a fraction (digits, a point, digits) and an exponent. Blanks, a plus,
 * hexadecimal, inf and nan are refused, as is a text too large for a double or so small that it
 * would lose digits; -0.0 is 0.
 *
 * Functions allocate nothing and keep no state of their own. Several threads may read one struct;
 * it must not be set meanwhile.
 */
#ifndef EPLB_OPTIONS_H
#define EPLB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eplb/log.h"
#include "eplb/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of a text option, with its terminating zero. */
#define EPLB_OPTION_TEXT 64
/** Bytes of an option that is the name of a file, with its terminating zero. */
#define EPLB_OPTION_PATH 4096
/** Room for the sources of this many options. */
#define EPLB_MAX_OPTIONS 64

/** Where a value came from; a higher one wins over a lower one, whatever comes first. */
enum eplb_source_kind {
    EPLB_SOURCE_DEFAULT = 0, /**< Nobody gave it. Setting with this kind changes the default. */
    EPLB_SOURCE_FILE = 1,    /**< A JSON file. */
    EPLB_SOURCE_FLAG = 2,    /**< A command-line flag, or the host's own code. */
};

/** A source as it appears in messages. */
struct eplb_source {
    enum eplb_source_kind kind;
    const char
        *file; /**< Name of the file with EPLB_SOURCE_FILE, borrowed for as long as the options; else NULL. */
};

/**
 * The options. Fill it with eplb_options_init, change it with the eplb_options_set functions, read
 * the fields freely. Later versions add fields at the end.
 */
struct eplb_options {
    size_t size;                                  /**< sizeof(struct eplb_options). */
    struct eplb_source sources[EPLB_MAX_OPTIONS]; /**< For the functions below. */

    bool enable_eplb;                         /**< false; runtime. */
    int32_t redundant_experts_num;            /**< 1; >= 0, per rank; manager. */
    int32_t eplb_update_interval;             /**< 1000; seconds >= 0; manager. */
    double eplb_min_peak_load_improvement;    /**< 0.05; [0, 1]; manager. */
    char eplb_policy_kind[EPLB_OPTION_TEXT];  /**< "balanced"; as it was given; manager. */
    bool eplb_use_decode_only_load;           /**< false; runtime. */
    int32_t eplb_prepare_timeout_seconds;     /**< 30; > 0; manager. */
    int32_t expert_parallel_degree;           /**< 0; 0, 1 or 2; runtime. */
    int32_t enable_fused_mc2;                 /**< -1 (auto); -1, 0, 1 or 2; runtime. */
    int32_t ep_size;                          /**< 1; > 0; runtime. */
    char instance_name[EPLB_OPTION_TEXT];     /**< "eplb"; 1 to 32 letters, digits, '-' or '_'; runtime. */
    int32_t eplb_update_interval_steps;       /**< 0: in seconds; else forwards, > 0; manager. */
    int32_t eplb_transfer_timeout_seconds;    /**< 10; > 0; manager. */
    int64_t eplb_transfer_chunk_bytes;        /**< 4 MiB; > 0; runtime. */
    int64_t eplb_transfer_inflight_bytes;     /**< 64 MiB; >= eplb_transfer_chunk_bytes; runtime. */
    char initial_placement[EPLB_OPTION_PATH]; /**< "": none; the name of a file; runtime. */
    bool enable_schedule_overlap;             /**< false; runtime. */
    char process_group[EPLB_OPTION_TEXT];     /**< "shm", the only one yet; runtime. */
    int32_t rank_silence_timeout_seconds;     /**< 30; > eplb_transfer_timeout_seconds; runtime. */
    int64_t memory_limit;                     /**< 0: none; bytes of one rank; runtime. */
    int32_t eplb_max_moves_per_layer;         /**< 0: no limit; slots >= 0; manager. */
    int64_t eplb_expert_bytes;                /**< 0: from the model; >= 0; manager. */
    int64_t eplb_bandwidth_bytes_per_second;  /**< 0: measured; >= 0; manager. */
    int32_t eplb_max_break_even_steps;        /**< 0: off; forwards >= 0; manager. */
    int32_t eplb_num_groups;                  /**< 1; >= 1; manager. */
    int32_t eplb_num_nodes;                   /**< 1; >= 1; manager. */

    char eplb_replica_routing[EPLB_OPTION_TEXT]; /**< "static"; see eplb_replica_routing_parse; manager. */
    int32_t eplb_cost_per_active_slot;           /**< 0; >= 0; runtime. */
    int32_t eplb_cost_per_token;                 /**< 1; >= 1; runtime. */
    char node_of_rank[EPLB_OPTION_PATH];         /**< "": one node; a list, see the manual page; runtime. */
    double eplb_shift_trigger;                   /**< 0: off; standard deviations in [0, 1000]; manager. */
    int64_t eplb_min_tokens_per_layer;           /**< 0: any number; counts >= 0; manager. */
};

/**
 * Sets every option to its default.
 *
 * @param size sizeof(struct eplb_options) of the host, so that a host and a library of different
 *             versions do not write past each other's struct
 * @return EPLB_OK; EPLB_UNSUPPORTED when the library knows no such size
 */
EPLB_API enum eplb_status eplb_options_init(struct eplb_options *options, size_t size,
                                            struct eplb_error *error);

/**
 * Sets an option from text, as a flag gives it: true, false, 1, 0, t, f, yes, no, y or n in any
 * case for a bool, a number as described above, or any text that the option allows.
 * A legal value from a source that loses against the recorded one is checked and then dropped.
 *
 * @return EPLB_OK; EPLB_INVALID with a sentence that names option, value, what is allowed and
 *         source; EPLB_UNSUPPORTED for a reserved name; EPLB_USAGE for an unknown one, with the
 *         nearest known one. On failure *options is unchanged.
 */
EPLB_API enum eplb_status eplb_options_set(struct eplb_options *options, const char *name, const char *value,
                                           struct eplb_source source, struct eplb_error *error);

/**
 * Set an option from a typed value, as a JSON file gives it. The type must be the option's: an
 * integer is also a real, nothing else is converted. Otherwise as eplb_options_set.
 */
EPLB_API enum eplb_status eplb_options_set_bool(struct eplb_options *options, const char *name, bool value,
                                                struct eplb_source source, struct eplb_error *error);
EPLB_API enum eplb_status eplb_options_set_int(struct eplb_options *options, const char *name, int64_t value,
                                               struct eplb_source source, struct eplb_error *error);
EPLB_API enum eplb_status eplb_options_set_real(struct eplb_options *options, const char *name, double value,
                                                struct eplb_source source, struct eplb_error *error);
EPLB_API enum eplb_status eplb_options_set_text(struct eplb_options *options, const char *name,
                                                const char *value, struct eplb_source source,
                                                struct eplb_error *error);

/**
 * Refuses a value that no setter can take (JSON null, an array, an object), with the sentence that
 * the setters use.
 *
 * @param value what to call it, for instance "null"
 * @return never EPLB_OK: as eplb_options_set
 */
EPLB_API enum eplb_status eplb_options_refuse(const char *name, const char *value, struct eplb_source source,
                                              struct eplb_error *error);

/** The source of an option's value; the default kind for an unknown name. */
EPLB_API struct eplb_source eplb_options_source(const struct eplb_options *options, const char *name);

/** Whether a flag or a file gave the option, be it the default value. */
EPLB_API bool eplb_options_was_given(const struct eplb_options *options, const char *name);

/**
 * Checks every value's range, and the options against each other, the model and the workers: one transfer
 * message below the bytes in flight, rank silence above the transfer timeout, num_experts a
 * multiple of ep_size, ep_size equal to the number of workers, and with enable_eplb ep_size at
 * least 2 and no rank with more slots than there are experts.
 *
 * @param num_experts logical experts of a MoE layer, >= 1
 * @param num_workers workers, >= 1; 0 when there are none (offline), which checks nothing
 * @return EPLB_OK; EPLB_INVALID with a sentence that names the values
 */
EPLB_API enum eplb_status eplb_options_check(const struct eplb_options *options, int64_t num_experts,
                                             int64_t num_workers, struct eplb_error *error);

/** Redundant slots that a rank really has: 0 without enable_eplb, else redundant_experts_num. */
EPLB_API int32_t eplb_options_effective_redundancy(const struct eplb_options *options);

/** enable_fused_mc2 with -1 resolved: 1 with expert_parallel_degree 2, else 0. */
EPLB_API int32_t eplb_options_fused_mc2(const struct eplb_options *options);

/**
 * Lists the options that were given although enable_eplb is false, so that they have no effect:
 * `name (source), name (source)`.
 *
 * @param text     receives the list, zero-terminated, cut when too long; may be NULL when capacity is 0
 * @param capacity bytes at text
 * @return length of the whole list, without the zero, as snprintf counts; 0 when there is none
 */
EPLB_API size_t eplb_options_without_effect(const struct eplb_options *options, char *text, size_t capacity);

/** Hands the sink the record "EPLB options" with `name=value (source)` of every option. NULL drops it. */
EPLB_API void eplb_options_log(const struct eplb_options *options, const struct eplb_log_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
