/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "contract/group_contract.h"

int group_contract_run(const struct contract_maker *maker)
{
    return group_messages_run(maker) + group_cancels_run(maker) + group_records_run(maker) +
           group_collectives_run(maker);
}
