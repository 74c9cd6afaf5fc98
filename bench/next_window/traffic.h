/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Recorded traffic for bench_next_window: phases, cut into windows, cut into forwards.
 */
#ifndef NEXT_WINDOW_TRAFFIC_H
#define NEXT_WINDOW_TRAFFIC_H

#include <stdint.h>

/** One recording of the list that the bench knows. */
struct recording {
    const char *name;     /* in rows */
    const char *files[2]; /* below the folder of recordings; each is one phase or more; NULL: no more, and
                             without any the traffic is made up */
    int32_t windows;      /* of each phase; 0: every step of a load file is a window */
    int32_t forward;      /* tokens of one forward; 0: what the recording has, sequences of a step */
    int32_t ep_sizes[2];
};

/** All arrays are owned; free it with traffic_free. */
struct traffic {
    int32_t num_layers, num_experts, top_k;
    int32_t num_windows;
    int32_t *phase;         /* [num_windows] */
    int64_t *load;          /* [num_windows][num_layers][num_experts] */
    int32_t *first_forward; /* [num_windows + 1]; all 0 where there are no forwards */
    int32_t num_forwards;
    int32_t *first_token; /* [num_forwards + 1] */
    uint16_t *experts;    /* [tokens][num_layers][top_k] */
};

/** Reads a recording, or makes it up; 0 when its files are not there. Ends the bench when they cannot be
 * read. */
int traffic_read(const char *data, const struct recording *recording, int32_t layer_stride,
                 struct traffic *traffic);

void traffic_free(struct traffic *traffic);

/** A window's load of one layer, [num_experts]. */
const int64_t *traffic_load(const struct traffic *traffic, int32_t window, int32_t layer);

/**
 * Counts forwards [first, end) of one layer, added up per expert; the forwards of a window in `num` equal
 * pieces are the parts of it that a policy may look at.
 *
 * @param load receives [num_experts]
 */
void traffic_count(const struct traffic *traffic, int32_t layer, int32_t first, int32_t end, int64_t *load);

/**
 * Counts one forward by source rank: the tokens of a forward are spread over the ranks in equal runs.
 *
 * @param counts receives [ep_size][num_experts]
 */
void traffic_sources(const struct traffic *traffic, int32_t layer, int32_t forward, int32_t ep_size,
                     int32_t *counts);

#endif
