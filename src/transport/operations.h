/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The operations that one rank has outstanding: a fixed table, and the lists that they are in. Private
 * to the rank.
 *
 *   FREE -> WAITING <-> STREAMING -> ENDED -> FREE      a send
 *   FREE -> RECEIVING -> ENDED -> FREE                  a receive
 */
#ifndef TRANSPORT_OPERATIONS_H
#define TRANSPORT_OPERATIONS_H

#include "transport/parts.h"

enum eplb_operation_state {
    EPLB_OPERATION_FREE,      /* in the free list */
    EPLB_OPERATION_WAITING,   /* a send that no receive is posted for, as far as is known */
    EPLB_OPERATION_STREAMING, /* a send that answers a want */
    EPLB_OPERATION_RECEIVING, /* a receive whose want is announced */
    EPLB_OPERATION_ENDED,     /* its completion has not been returned yet */
};

struct eplb_operation {
    struct eplb_op op; /* the poster's number */
    enum eplb_operation_state state;
    enum eplb_op_result result; /* ENDED */
    int32_t peer;
    int32_t next; /* in the list that it is in; EPLB_NO_OPERATION at the end */
    struct eplb_message_tag tag;
    uint64_t size;    /* of the message */
    uint64_t moved;   /* bytes of it in the ring, or taken from it */
    uint64_t ticket;  /* RECEIVING: of its want; STREAMING: of the want that it answers */
    int32_t want;     /* STREAMING: that want's place */
    int size_differs; /* STREAMING: that want is for another size: say so, and fail */
    struct eplb_part_cursor cursor;
    struct eplb_part parts[EPLB_MAX_PARTS];
};

#define EPLB_NO_OPERATION (-1)

/** A list of operations, first in, first out. */
struct eplb_operation_list {
    int32_t first;
    int32_t last;
};

/** The table; its list of free ones is last in, first out, so that low places are used first. */
struct eplb_operations {
    struct eplb_operation *entries; /* [capacity] */
    int32_t capacity;
    int32_t free;
    struct eplb_operation_list ended;
};

/** Makes all entries free. */
void eplb_operations_init(struct eplb_operations *operations, struct eplb_operation *entries,
                          int32_t capacity);

/** The outstanding operation with this number; EPLB_NO_OPERATION when there is none. */
int32_t eplb_operations_find(const struct eplb_operations *operations, struct eplb_op op);

/** Takes a free entry; EPLB_NO_OPERATION when all are outstanding. It is in no list. */
int32_t eplb_operations_acquire(struct eplb_operations *operations);

/** Ends an operation that is in no list: it waits for its completion to be returned. */
void eplb_operations_end(struct eplb_operations *operations, int32_t index, enum eplb_op_result result);

/** Returns the completions of up to `capacity` ended operations, in the order they ended, and frees these. */
size_t eplb_operations_collect(struct eplb_operations *operations, struct eplb_completion *completions,
                               size_t capacity);

struct eplb_operation_list eplb_operation_list_make(void);
void eplb_operation_list_add(struct eplb_operations *operations, struct eplb_operation_list *list,
                             int32_t index);

/** Takes an entry out of the list that it is in. */
void eplb_operation_list_remove(struct eplb_operations *operations, struct eplb_operation_list *list,
                                int32_t index);

#endif
