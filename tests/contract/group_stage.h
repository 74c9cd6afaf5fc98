/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What the suite's tests stand on: a group with its views, operations by number, messages whose content
 * says what they are, and ranks that run at once.
 */
#ifndef CONTRACT_GROUP_STAGE_H
#define CONTRACT_GROUP_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "contract/group_contract.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { MAX_STAGE_RANKS = 8, MAX_STAGE_OPS = 512 };

/** Longest wait for anything, in nanoseconds: reached only by a test that fails. */
#define PATIENCE_NS INT64_C(120000000000)

/** The time that eplb_group.wait knows. */
int64_t stage_now(void);

/* ---- one thread, all ranks ---- */

enum { NOT_ENDED = -1 };

struct stage {
    const struct contract_maker *maker;
    void *made;
    int32_t num_ranks;
    const struct eplb_group *ranks[MAX_STAGE_RANKS];
    const struct eplb_group *engine;
    struct eplb_activation_token current;
    int results[MAX_STAGE_RANKS]
               [MAX_STAGE_OPS]; /* enum eplb_op_result by number of the operation, or NOT_ENDED */
};

/** Makes a group and takes the views of all its ranks. */
void stage_open(struct stage *stage, const struct contract_maker *maker,
                const struct contract_request *request);

/** Makes a group for stage_run, which takes the views where its ranks run. The engine's is here. */
void stage_open_apart(struct stage *stage, const struct contract_maker *maker,
                      const struct contract_request *request);
void stage_close(struct stage *stage);

/** Posts one message of one part; fails the test unless it is taken. */
void stage_send(struct stage *stage, int32_t from, int32_t to, struct eplb_message_tag tag, const void *data,
                size_t size, uint32_t op);
void stage_receive(struct stage *stage, int32_t at, int32_t from, struct eplb_message_tag tag, void *data,
                   size_t size, uint32_t op);

/** Polls one rank once and notes what ended; an operation that ends twice fails the test. */
void stage_poll(struct stage *stage, int32_t rank);

/** Polls all ranks in turn, `passes` times. */
void stage_pass(struct stage *stage, int passes);

/** Polls all ranks until the operation has ended; how it did. */
int stage_until(struct stage *stage, int32_t rank, uint32_t op);

/** How an operation ended so far. */
int stage_result(const struct stage *stage, int32_t rank, uint32_t op);

/** Forgets a result, so that the number can be used again. */
void stage_forget(struct stage *stage, int32_t rank, uint32_t op);

/** A tag. */
struct eplb_message_tag stage_tag(uint64_t token, int32_t slot, int32_t chunk);

/* ---- contents ---- */

/** Fills memory with bytes that only this seed gives. */
void stage_fill(void *data, size_t size, uint64_t seed);

/** Whether the memory is what stage_fill wrote for the seed. */
bool stage_is(const void *data, size_t size, uint64_t seed);

/** Cuts memory into `count` parts at random places; some are empty. */
void stage_cut(struct eplb_prng *prng, void *data, size_t size, struct eplb_part *parts, size_t count);

/** Memory for a test, shared with every rank that runs; zeros. */
void *stage_memory(size_t size);
void stage_release(void *memory, size_t size);

/* ---- ranks at once ---- */

/** One rank of a run: in shared memory. */
struct stage_rank {
    const struct eplb_group *group;
    struct eplb_prng prng;
    void *shared; /* what the test gave to all ranks */
    char failure[256];
};

/** Runs body on every rank at once, on a stage opened apart; what failed is reported and fails the test. */
void stage_run(struct stage *stage, void (*body)(struct stage_rank *rank), uint64_t seed, void *shared);

/** Notes a rank's failure; the others are released by declaring it dead. */
void stage_fail(struct stage_rank *rank, const char *file, int line, const char *what);

/** For bodies, which may run where cmocka cannot jump from: leaves the body when the condition is false. */
#define RANK_CHECK(rank, condition)                             \
    do {                                                        \
        if (!(condition)) {                                     \
            stage_fail((rank), __FILE__, __LINE__, #condition); \
            return;                                             \
        }                                                       \
    } while (0)

/** Gives other threads a random number of turns. */
void stage_dawdle(struct eplb_prng *prng, uint64_t most);

/**
 * Polls until `count` operations, numbered from 0, have ended; results[number] says how. False when that
 * takes too long.
 */
bool stage_finish(struct stage_rank *rank, struct eplb_activation_token current, int *results, size_t count);

#endif
