/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The option node_of_rank.
 */
#ifndef CLI_NODES_H
#define CLI_NODES_H

#include <stdint.h>

#include "eplb/options.h"

/**
 * Reads the node of every rank.
 *
 * @param node_of_rank receives [ep_size], to be freed with free(), also on failure; NULL: one node
 * @return EPLB_INVALID with a sentence when it is no list of ep_size numbers and not one number above 0
 */
enum eplb_status eplb_nodes_read(const struct eplb_options *options, int32_t **node_of_rank,
                                 struct eplb_error *error);

#endif
