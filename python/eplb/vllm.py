# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""The `rebalance_experts` of vLLM's expert-parallel load balancer."""

import ctypes

from . import _arrays
from ._deepseek import Call


def rebalance_experts(weight, num_replicas, num_groups, num_nodes, num_ranks, old_global_expert_indices=None,
                      *, only_phy2log=False, remove_repeats=False, policy="deepseek"):
    """As eplb.rebalance_experts, and vLLM's own:

    old_global_expert_indices  [layers, num_replicas] the table that runs now: experts that stay on a rank
                               keep their slots. Another policy than deepseek plans from it, and moves less
    only_phy2log               True: returns phy2log alone, as newer versions of vLLM do; False: the three
    """
    call = Call(_arrays.read(weight, ctypes.c_float, 2, "weight"), num_replicas, num_groups, num_nodes,
                num_ranks, remove_repeats, policy, old_global_expert_indices)
    if only_phy2log:
        return call.give(call.phy2log)[0]
    return call.give(call.phy2log, call.log2phy(), call.logcnt)
