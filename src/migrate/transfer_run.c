/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "migrate/transfer.h"

#include "base/assert.h"

static enum eplb_status post(const struct eplb_transfer_action *action, const struct eplb_group *group,
                             const struct eplb_weights *weights)
{
    struct eplb_part parts[EPLB_MAX_PARTS];
    bool send = action->type == EPLB_TRANSFER_POST_SEND;
    size_t count = eplb_weights_parts(weights, action->layer, send ? EPLB_SIDE_ACTIVE : EPLB_SIDE_STAGING,
                                      action->local_slot, action->offset, action->bytes, parts);
    EPLB_ASSERT(action->peer != group->rank);
    if (count == 0)
        return EPLB_REFUSED;
    return send ? group->post_send(group->self, action->peer, &action->tag, parts, count, action->op)
                : group->post_recv(group->self, action->peer, &action->tag, parts, count, action->op);
}

enum eplb_status eplb_transfer_run_action(const struct eplb_transfer_action *action,
                                          const struct eplb_group *group, const struct eplb_weights *weights)
{
    switch (action->type) {
    case EPLB_TRANSFER_POST_SEND:
    case EPLB_TRANSFER_POST_RECV:
        return post(action, group, weights);
    case EPLB_TRANSFER_CANCEL:
        group->cancel(group->self, action->op);
        break;
    case EPLB_TRANSFER_VOTE:
        group->record_vote(group->self, action->token, action->yes);
        break;
    case EPLB_TRANSFER_ABORT_RECORD:
        group->record_abort(group->self, action->token);
        break;
    }
    return EPLB_OK;
}
