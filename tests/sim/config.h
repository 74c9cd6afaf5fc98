/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What a seed draws before it starts: sizes, options, how the network works, which faults exist.
 */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include "eplb/placement.h"
#include "eplb/routing.h"
#include "sim/sim.h"

enum {
    SIM_RANKS = 5,
    SIM_LAYERS = 4,
    SIM_EXPERTS = 16,
    SIM_LOCAL_SLOTS = 6,
    SIM_SLOTS = 32,
    SIM_WORDS = 5, /* content of one expert */
};

/** How often a fault comes, in cases per mille; 0 in a seed that does not have it. */
struct sim_faults {
    int32_t drop;           /* a forward is dropped; more often when its command says something */
    int32_t output_lost;    /* of one rank */
    int32_t output_silence; /* a rank's outputs are lost for a while */
    int32_t output_twice;
    int32_t output_late;
    int32_t prefix_corrupt;
    int32_t prepare_fail;
    int32_t prepare_slow;
    int32_t prepare_hang;
    int32_t activation_confused; /* the command's activation completes a prepare that the ranks lack */
    int32_t prepare_confused;    /* the command's base is not what the ranks run */
    int32_t weights_confused;    /* a weight update of another generation, or one that is not legal */
    int32_t materialise_fail;
    int32_t reload;
    int32_t message_lost;
    int32_t message_fail;
    int32_t message_slow;
    int32_t post_refused;
    int32_t policy_fail;
    int32_t pause; /* of a rank, per forward */
};

struct sim_config {
    struct eplb_shape shape;
    int32_t words;       /* content of one expert, <= SIM_WORDS */
    int32_t chunk_words; /* of a message */
    int64_t inflight_bytes;
    int32_t overlap;
    bool greedy;
    bool decode_only;
    enum eplb_replica_routing routing;
    double weights_decay;
    double shift_trigger;         /* 0: off */
    int64_t min_tokens_per_layer; /* 0: not given */
    double threshold;
    int64_t update_interval;
    int64_t prepare_timeout;
    int64_t transfer_timeout;
    uint64_t first_token;
    uint64_t first_seq;

    bool eager;            /* messages leave before they are awaited */
    bool drops_strays;     /* a poll drops waiting messages of other attempts */
    bool polls_in_forward; /* a rank polls while its forward runs, not only in finish_step */
    int64_t message_delay; /* up to */

    int32_t num_forwards;                  /* with faults; then the calm begins */
    int32_t warmup, prefill, mixed, empty; /* per mille, per stretch of batches */
    int32_t slow_hand_out;                 /* per mille, per forward */
    int32_t idle;                          /* per mille, per forward: nothing to run for a while */
    struct sim_faults faults;
    bool faultless;          /* no fault, no death, no short timeout: every activation must succeed */
    int32_t restart_forward; /* then another manager takes over; 0: none does */
    int32_t num_deaths;
    int32_t death_forwards[2];    /* after which forward each comes */
    bool deaths_await_activation; /* and then with the next activation */
};

void sim_config_draw(struct sim *sim, struct sim_config *config);

#endif
