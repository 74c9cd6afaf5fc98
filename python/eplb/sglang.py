# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""The `rebalance_experts` of SGLang's expert-parallel load balancer."""

import ctypes

from . import _arrays
from ._deepseek import Call

ALGORITHMS = ("deepseek", "deepseek_hierarchical", "auto")


def _add_steps(tokens):
    """[steps, layers, experts] to weights [layers, experts]; added in whole numbers."""
    steps, layers, experts = tokens.shape
    size = layers * experts
    if _arrays.numpy is not None:
        rows = _arrays.numpy.frombuffer(tokens.values, dtype="int64").reshape(tokens.shape)
        weight = _arrays.read(rows.sum(axis=0), ctypes.c_float, 2, "tokens_per_expert")
    else:
        sums = [sum(tokens.values[step * size + i] for step in range(steps)) for i in range(size)]
        weight = _arrays.Array(ctypes.c_float, (layers, experts), (ctypes.c_float * size)(*sums))
    weight.like = tokens.like
    return weight


def _with_steps(tokens):
    flat = len(_arrays.sizes(tokens)) == 2
    array = _arrays.read(tokens, ctypes.c_int64, 2 if flat else 3, "tokens_per_expert")
    if flat:
        array.shape = (1, *array.shape)
    return array


def rebalance_experts(tokens_per_expert, num_physical_experts, num_local_physical_experts, num_groups,
                      num_nodes, algorithm="auto", *, remove_repeats=False, policy="deepseek"):
    """As eplb.rebalance_experts, and SGLang's own:

    tokens_per_expert           [steps, layers, experts] or [layers, experts], whole numbers; steps are added
    num_local_physical_experts  slots of one GPU
    num_groups                  None is 1
    algorithm                   deepseek (global), deepseek_hierarchical, or auto: hierarchical when num_nodes
                                divides num_groups; SGLang's enumeration or the name

    log2phy has num_physical_experts columns.
    """
    name = getattr(algorithm, "name", algorithm)
    if name not in ALGORITHMS:
        raise ValueError("algorithm is %r; allowed are %s" % (name, ", ".join(ALGORITHMS)))
    physical = _arrays.whole(num_physical_experts, "num_physical_experts")
    local = _arrays.whole(num_local_physical_experts, "num_local_physical_experts")
    if local < 1 or physical % local != 0:
        raise ValueError("num_physical_experts %d is not divisible by num_local_physical_experts %d"
                         % (physical, local))
    groups = 1 if num_groups is None else num_groups
    if name == "deepseek" or num_groups is None:
        groups, num_nodes = 1, 1
    weight = _add_steps(_with_steps(tokens_per_expert))
    call = Call(weight, physical, groups, num_nodes, physical // local, remove_repeats, policy)
    return call.give(call.phy2log, call.log2phy(physical), call.logcnt)
