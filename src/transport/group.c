/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/group.h"

enum eplb_status eplb_group_all_gather(const struct eplb_group *group, struct eplb_part send,
                                       const struct eplb_part *receive, struct eplb_part *scratch,
                                       struct eplb_error *error)
{
    for (int32_t rank = 0; rank < group->num_ranks; rank++)
        scratch[rank] = send;
    return group->all_to_all(group->self, scratch, receive, error);
}
