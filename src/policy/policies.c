/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "policy/policies.h"

#include "base/assert.h"
#include "base/nearest.h"

static const struct {
    const char *name;
    const struct eplb_policy_ops *ops;
} policies[] = {
    {"balanced", &eplb_policy_balanced},      {"greedy", &eplb_policy_greedy},
    {"deepseek", &eplb_policy_deepseek},      {"minmax", &eplb_policy_minmax},
    {"robust", &eplb_policy_robust},          {"flat", &eplb_policy_balanced},
    {"deepseek_flat", &eplb_policy_balanced}, {"deepseek-flat", &eplb_policy_balanced},
    {"hier", &eplb_policy_balanced},          {"hierarchical", &eplb_policy_balanced},
    {"deepseek_hier", &eplb_policy_balanced}, {"deepseek-hier", &eplb_policy_balanced},
};

enum { NUM_POLICIES = sizeof policies / sizeof policies[0] };

struct eplb_policy_choice eplb_policy_find(const char *kind)
{
    const char *names[NUM_POLICIES];
    for (size_t i = 0; i < NUM_POLICIES; i++) {
        EPLB_ASSERT(policies[i].ops->size == sizeof(struct eplb_policy_ops));
        EPLB_ASSERT(policies[i].ops->plan_layer != NULL && policies[i].ops->scratch_size != NULL);
        if (eplb_same_word(kind, policies[i].name))
            return (struct eplb_policy_choice){.ops = policies[i].ops, .known = 1};
        names[i] = policies[i].name;
    }
    return (struct eplb_policy_choice){.ops = &eplb_policy_greedy,
                                       .nearest = names[eplb_nearest(kind, names, NUM_POLICIES)]};
}
