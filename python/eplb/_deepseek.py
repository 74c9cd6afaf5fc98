# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""DeepSeek's function by libeplb; the variants of other engines are thin layers over it."""

import ctypes

from . import _arrays, _library, _plan
from ._library import LIB, DeepseekSizes

SIZES = ("num_layers", "num_experts", "num_replicas", "num_groups", "num_nodes", "num_gpus")


class Call:
    """One call: arrays of the library's, which `give` turns into the caller's."""

    def __init__(self, weight, num_replicas, num_groups, num_nodes, num_gpus, remove_repeats=False,
                 policy="deepseek", old=None):
        self.like = weight.like
        self.sizes = DeepseekSizes()
        numbers = (*weight.shape, num_replicas, num_groups, num_nodes, num_gpus)
        _library.call("eplb_deepseek_sizes_init", ctypes.byref(self.sizes),
                      *(_arrays.whole(number, name) for number, name in zip(numbers, SIZES)))
        table = (weight.shape[0], self.sizes.num_replicas)
        self.phy2log = _arrays.Array(ctypes.c_int64, table)
        self.phyrank = _arrays.Array(ctypes.c_int64, table)
        self.logcnt = _arrays.Array(ctypes.c_int64, weight.shape)
        if old is not None:
            old = _arrays.read(old, ctypes.c_int64, 2, "old_global_expert_indices", table)
        if policy == "deepseek":
            self._rebalance(weight, remove_repeats, old)
        else:
            self._plan(weight, policy, old)

    def _rebalance(self, weight, remove_repeats, old):
        scratch, block = _library.scratch(LIB.eplb_deepseek_scratch(self.sizes))
        _library.call("eplb_deepseek_rebalance", self.sizes, weight.pointer, bool(remove_repeats), scratch,
                      self.phy2log.pointer, self.phyrank.pointer, self.logcnt.pointer)
        if old is not None:
            LIB.eplb_deepseek_keep_slots(self.sizes, old.pointer, scratch, self.phy2log.pointer,
                                         self.phyrank.pointer)
        del block

    def _plan(self, weight, policy, old):
        """Replicas count in the order of their slots: other policies create them all at once."""
        sizes = self.sizes
        ranks = sizes.num_gpus
        redundant = sizes.num_replicas // ranks - sizes.num_experts // ranks
        if old is not None:
            values = (ctypes.c_int32 * len(old.values))(*(max(-1, min(one, 1 << 30)) for one in old.values))
            old = _arrays.Array(ctypes.c_int32, old.shape, values)
        plan = _plan.plan(_tokens(weight), ranks, redundant, policy, old)
        self.logcnt.values[:] = plan.arrays[2].values[:]
        seen = [0] * len(self.logcnt.values)
        for slot, expert in enumerate(plan.arrays[0].values):
            place = slot // sizes.num_replicas * sizes.num_experts + expert
            self.phy2log.values[slot] = expert
            self.phyrank.values[slot] = seen[place]
            seen[place] += 1

    def log2phy(self, width=None):
        if width is None:
            width = LIB.eplb_deepseek_width(self.sizes, self.logcnt.pointer)
        log2phy = _arrays.Array(ctypes.c_int64, (*self.logcnt.shape, width))
        _library.call("eplb_deepseek_log2phy", self.sizes, self.phy2log.pointer, self.phyrank.pointer, width,
                      log2phy.pointer)
        return log2phy

    def give(self, *arrays):
        return tuple(array.give(self.like) for array in arrays)


def _tokens(weight):
    """Weights as the tokens that a plan takes, rounded to whole numbers."""
    for i, one in enumerate(weight.values):
        if not 0 <= one <= 1 << 62:
            raise ValueError("layer %d, expert %d: weight is %g, 0 to 2^62 is allowed with this policy"
                             % (i // weight.shape[1], i % weight.shape[1], one))
    values = (ctypes.c_int64 * len(weight.values))(*(round(one) for one in weight.values))
    return _arrays.Array(ctypes.c_int64, weight.shape, values)


def rebalance_experts(weight, num_replicas, num_groups, num_nodes, num_gpus, *, remove_repeats=False,
                      policy="deepseek"):
    """DeepSeek's function, with its signature.

    weight          [layers, experts], finite and >= 0; float32 is what counts
    num_replicas    slots of all GPUs, a multiple of num_gpus and at least the experts
    num_groups      groups of experts that stay on a node; the hierarchical way is taken when num_nodes
                    divides it, else the global one
    remove_repeats  True: no GPU holds an expert twice (the original lets it happen)
    policy          another planner for the same call, such as minmax: see eplb.plan. Weights are rounded to
                    whole tokens, groups and nodes do not count, and no GPU holds an expert twice

    Returns phy2log [layers, num_replicas], log2phy [layers, experts, X] padded with -1 (X: the largest
    count; replicas in order of creation) and logcnt [layers, experts], all int64: tensors when weight is
    one, else NumPy arrays where NumPy is installed, else lists. On ties the lowest index is first.
    Raises ValueError with a sentence. Thread-safe, and other threads run meanwhile.
    """
    call = Call(_arrays.read(weight, ctypes.c_float, 2, "weight"), num_replicas, num_groups, num_nodes,
                num_gpus, remove_repeats, policy)
    return call.give(call.phy2log, call.log2phy(), call.logcnt)
