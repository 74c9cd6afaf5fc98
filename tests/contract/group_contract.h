/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The contract suite of struct eplb_group: what every implementation must do, as eplb/group.h says it.
 *
 * Two kinds of tests. In the first, one thread holds the views of all ranks and calls them in turn:
 * nothing there depends on timing. In the second every rank runs on its own (a thread, or a process
 * where the implementation joins processes), and what the ranks share is memory that the suite maps
 * shared.
 */
#ifndef CONTRACT_GROUP_CONTRACT_H
#define CONTRACT_GROUP_CONTRACT_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/group.h"

/** What an implementation is asked to make. */
struct contract_request {
    int32_t num_ranks;
    int32_t max_ops;
    size_t transfer_bytes; /* of buffers between two ranks, where it has any: a power of two >= 256 */
};

/** An implementation under test. Its functions fail the test when they cannot do their work. */
struct contract_maker {
    const char *name;
    void *(*create)(const struct contract_request *request);
    void (*destroy)(void *made);
    /** The view of a rank or of the engine, for the calling process: a rank's for one process only. */
    const struct eplb_group *(*view)(void *made, int32_t rank);
    /**
     * Runs run(context, rank) for every rank at once and waits for all. A rank that does not come back
     * as it should fails the test.
     */
    void (*run_ranks)(void *made, int32_t num_ranks, void (*run)(void *context, int32_t rank), void *context);
};

/** Runs the whole suite; returns the number of failed tests. */
int group_contract_run(const struct contract_maker *maker);

/* The parts of the suite. */
int group_messages_run(const struct contract_maker *maker);
int group_cancels_run(const struct contract_maker *maker);
int group_records_run(const struct contract_maker *maker);
int group_collectives_run(const struct contract_maker *maker);

#endif
