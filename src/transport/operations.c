/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "transport/operations.h"

#include "base/assert.h"

static void release(struct eplb_operations *operations, int32_t index)
{
    EPLB_ASSERT(index >= 0 && index < operations->capacity);
    operations->entries[index].state = EPLB_OPERATION_FREE;
    operations->entries[index].next = operations->free;
    operations->free = index;
}

void eplb_operations_init(struct eplb_operations *operations, struct eplb_operation *entries,
                          int32_t capacity)
{
    EPLB_ASSERT(capacity > 0);
    *operations = (struct eplb_operations){.entries = entries,
                                           .capacity = capacity,
                                           .free = EPLB_NO_OPERATION,
                                           .ended = eplb_operation_list_make()};
    for (int32_t index = capacity; index-- > 0;)
        release(operations, index);
}

int32_t eplb_operations_find(const struct eplb_operations *operations, struct eplb_op op)
{
    for (int32_t index = 0; index < operations->capacity; index++) {
        const struct eplb_operation *entry = &operations->entries[index];
        if (entry->state != EPLB_OPERATION_FREE && entry->op.value == op.value)
            return index;
    }
    return EPLB_NO_OPERATION;
}

int32_t eplb_operations_acquire(struct eplb_operations *operations)
{
    int32_t index = operations->free;
    if (index != EPLB_NO_OPERATION) {
        EPLB_ASSERT(operations->entries[index].state == EPLB_OPERATION_FREE);
        operations->free = operations->entries[index].next;
        operations->entries[index].next = EPLB_NO_OPERATION;
    }
    return index;
}

void eplb_operations_end(struct eplb_operations *operations, int32_t index, enum eplb_op_result result)
{
    struct eplb_operation *entry = &operations->entries[index];
    EPLB_ASSERT(entry->state != EPLB_OPERATION_FREE && entry->state != EPLB_OPERATION_ENDED);
    entry->state = EPLB_OPERATION_ENDED;
    entry->result = result;
    eplb_operation_list_add(operations, &operations->ended, index);
}

size_t eplb_operations_collect(struct eplb_operations *operations, struct eplb_completion *completions,
                               size_t capacity)
{
    size_t count = 0;
    for (; count < capacity && operations->ended.first != EPLB_NO_OPERATION; count++) {
        int32_t index = operations->ended.first;
        const struct eplb_operation *entry = &operations->entries[index];
        EPLB_ASSERT(entry->state == EPLB_OPERATION_ENDED);
        completions[count] = (struct eplb_completion){.op = entry->op, .result = entry->result};
        eplb_operation_list_remove(operations, &operations->ended, index);
        release(operations, index);
    }
    return count;
}

struct eplb_operation_list eplb_operation_list_make(void)
{
    return (struct eplb_operation_list){.first = EPLB_NO_OPERATION, .last = EPLB_NO_OPERATION};
}

void eplb_operation_list_add(struct eplb_operations *operations, struct eplb_operation_list *list,
                             int32_t index)
{
    EPLB_ASSERT(operations->entries[index].next == EPLB_NO_OPERATION);
    EPLB_ASSERT((list->first == EPLB_NO_OPERATION) == (list->last == EPLB_NO_OPERATION));
    if (list->last == EPLB_NO_OPERATION)
        list->first = index;
    else
        operations->entries[list->last].next = index;
    list->last = index;
}

void eplb_operation_list_remove(struct eplb_operations *operations, struct eplb_operation_list *list,
                                int32_t index)
{
    int32_t before = EPLB_NO_OPERATION;
    for (int32_t i = list->first; i != index; i = operations->entries[i].next) {
        EPLB_ASSERT(i != EPLB_NO_OPERATION);
        before = i;
    }
    int32_t after = operations->entries[index].next;
    if (before == EPLB_NO_OPERATION)
        list->first = after;
    else
        operations->entries[before].next = after;
    EPLB_ASSERT((after == EPLB_NO_OPERATION) == (list->last == index));
    if (list->last == index)
        list->last = before;
    operations->entries[index].next = EPLB_NO_OPERATION;
}
