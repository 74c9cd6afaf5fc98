# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""eplb_plan: placements of all layers, and what they bring."""

import collections
import ctypes
import math

from . import _arrays, _library
from ._library import LIB

LayerFigures = collections.namedtuple("LayerFigures", [
    "peak",  # of the new placement: the largest rank sum under the even split, in tokens
    "mean",  # load / ranks
    "lower_bound",  # no placement of this shape has a lower peak
    "gap",  # peak / lower_bound - 1
    "current_peak",  # of the active placement
    "candidate_peak",  # of the new one, scaled to the physical load
    "improvement",  # (current_peak - candidate_peak) / current_peak
    "sets_changed",  # whether some rank's set of experts changes
    "publish",  # the gate's verdict
    "moved",  # slots that get another expert
    "sent",  # of these, those whose weights come from another rank
    "bytes",  # to send; 0: unknown
    "seconds",  # of the transfer; 0: unknown
    "break_even_forwards",  # forwards until the move has paid; negative: unknown; inf: never
    "pays",  # False where max_break_even_forwards refuses it
    "unbounded_peak",  # peak of the plan that max_moves did not allow
])


class Plan:
    """What eplb.plan returns. Arrays are the caller's kind: see eplb.plan.

    expert_ids  int32 [layers, ranks, slots per rank]
    weights     int32, the same shape: share of its expert's tokens in 1 / 1048576
    replicas    int32 [layers, experts]
    layers      one LayerFigures a layer
    """

    def __init__(self, arrays, layers, like):
        self.arrays = arrays  # the three below, as the library wrote them
        self._like = like
        self.expert_ids, self.weights, self.replicas = (array.give(like) for array in arrays)
        self.layers = layers

    @property
    def phy2log(self):
        """int64 [layers, slots of all ranks], as DeepSeek, vLLM and SGLang have it."""
        ids = self.arrays[0]
        layers, ranks, slots = ids.shape
        values = (ctypes.c_int64 * len(ids.values))(*ids.values)
        wide = _arrays.Array(ctypes.c_int64, (layers, ranks * slots), values)
        return wide.give(self._like)

    @property
    def moved(self):
        """Slots of all layers that get another expert."""
        return sum(layer.moved for layer in self.layers)

    @property
    def bytes(self):
        """To send, all layers; 0: unknown."""
        return sum(layer.bytes for layer in self.layers)

    def __repr__(self):
        worst = max(layer.peak / layer.mean if layer.mean else 1.0 for layer in self.layers)
        return ("<eplb.Plan of %d layers: peak / mean at most %.4f, %d slots move, %d layers to publish>"
                % (len(self.layers), worst, self.moved, sum(layer.publish for layer in self.layers)))


def _figures(layer):
    balance, benefit, migration = layer.balance, layer.benefit, layer.migration
    gap = balance.peak / balance.lower_bound - 1 if balance.lower_bound > 0 else 0.0
    return LayerFigures(balance.peak, balance.mean, balance.lower_bound, gap, benefit.current_peak,
                        benefit.candidate_peak, benefit.improvement, bool(benefit.sets_changed),
                        bool(benefit.publish), migration.moved_slots, migration.sent_slots, migration.bytes,
                        migration.seconds, migration.break_even_forwards, bool(migration.pays),
                        layer.unbounded_peak)


def _policy(name):
    if not isinstance(name, str):
        raise ValueError("policy is %r; a name is expected" % (name,))
    choice = LIB.eplb_policy_find(name.encode())
    if not choice.known:
        raise ValueError("no policy is named '%s'; the nearest name is '%s'"
                         % (name, choice.nearest.decode()))
    return choice.ops


def _int32(value, name):
    number = _arrays.whole(value, name)
    if not -1 << 31 <= number < 1 << 31:
        raise ValueError("%s is %d, which is beyond int32" % (name, number))
    return number


def _real(value, name):
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("%s is %r; a finite number is expected" % (name, value))
    return number


def _routing(name):
    if not isinstance(name, str):
        raise ValueError("replica_routing is %r; a name is expected" % (name,))
    routing = ctypes.c_int()
    _library.call("eplb_replica_routing_parse", name.encode(), ctypes.byref(routing))
    return routing.value


def plan(load, ep_size, redundant=1, policy="minmax", active=None, physical=None, *, history=None, parts=None,
         replica_routing="static", threads=1,
         min_improvement=0.05, max_moves=0, num_groups=1, num_nodes=1, expert_bytes=0, bytes_per_second=0.0,
         seconds_per_token=0.0, num_forwards=0.0, max_break_even_forwards=0):
    """Plans all layers in one call.

    load        [layers, experts] tokens, whole numbers; experts divide by ep_size
    ep_size     ranks
    redundant   extra slots of each rank (others count them in total: total / ep_size)
    policy      minmax, deepseek, balanced, greedy, robust or another name of eplb_policy_kind; robust is for
                engines whose routing follows the load
    active      [layers, ranks, slots per rank] or [layers, slots] that runs now; None: the initial placement
    physical    the same shape: tokens per slot, measured under it; None: the even split of load
    history     [windows, layers, experts] of up to 16 windows before this one, oldest first; for robust
    parts       [pieces, layers, experts] of up to 16 pieces of this window, oldest first; for robust
    replica_routing  static, local, weighted, adaptive or batch: what the gate judges for
    threads     1 to 1024; the plan is the same with any number
    min_improvement  what the gate asks for, in [0, 1]
    max_moves   slots of a layer that may change; 0: any number
    num_groups, num_nodes  of policy deepseek
    expert_bytes, bytes_per_second, seconds_per_token, num_forwards  what moving costs: bytes of one
                expert, what a rank receives, what one token more on the slowest rank costs a forward, and
                the forwards that load was counted over; 0: unknown
    max_break_even_forwards  refuse what pays later; 0: off

    Returns a Plan; its arrays are tensors when load is one, else NumPy arrays where NumPy is installed, else
    lists. A layer without load keeps its placement. Raises ValueError with a sentence.
    """
    array = _arrays.read(load, ctypes.c_int64, 2, "load")
    request = _library.PlanRequest()
    LIB.eplb_plan_request_init(request)
    _library.call("eplb_shape_init", ctypes.byref(request.shape), *array.shape,
                  _arrays.whole(ep_size, "ep_size"), _arrays.whole(redundant, "redundant"))
    shape = request.shape
    table = (shape.num_layers, shape.ep_size, shape.slots_per_rank)
    kept = [array]  # what the request points to, until the call has returned
    request.load = array.pointer
    for name, value, ctype in (("active", active, ctypes.c_int32), ("physical", physical, ctypes.c_int64)):
        if value is not None:
            kept.append(_table(value, ctype, name, table))
            setattr(request, name, kept[-1].pointer)
    for name, value in (("history", history), ("parts", parts)):
        count = _arrays.sizes(value)[:1] if value is not None else (0,)
        if count != (0,):
            kept.append(_arrays.read(value, ctypes.c_int64, 3, name, (*count, *array.shape)))
            setattr(request, name, kept[-1].pointer)
            setattr(request, "num_" + name, _int32(count[0], name))
    request.replica_routing = _routing(replica_routing)
    request.policy = _policy(policy)
    request.settings.num_groups = _int32(num_groups, "num_groups")
    request.settings.num_nodes = _int32(num_nodes, "num_nodes")
    request.min_improvement = _real(min_improvement, "min_improvement")
    request.max_moves = _int32(max_moves, "max_moves")
    request.num_threads = _int32(threads, "threads")
    request.cost.expert_bytes = _arrays.whole(expert_bytes, "expert_bytes")
    request.cost.bytes_per_second = _real(bytes_per_second, "bytes_per_second")
    request.cost.seconds_per_token = _real(seconds_per_token, "seconds_per_token")
    request.cost.num_forwards = _real(num_forwards, "num_forwards")
    request.cost.max_break_even_forwards = _int32(max_break_even_forwards, "max_break_even_forwards")
    return _run(request, array.like, table)


def _table(value, ctype, name, table):
    """[layers, ranks, slots per rank], or [layers, slots]."""
    if len(_arrays.sizes(value)) == 2:
        return _arrays.read(value, ctype, 2, name, (table[0], table[1] * table[2]))
    return _arrays.read(value, ctype, 3, name, table)


def _run(request, like, table):
    shape = request.shape
    arrays = (_arrays.Array(ctypes.c_int32, table), _arrays.Array(ctypes.c_int32, table),
              _arrays.Array(ctypes.c_int32, (shape.num_layers, shape.num_experts)))
    layers = (_library.PlanLayer * shape.num_layers)()
    result = _library.Plan()
    LIB.eplb_plan_init(result)
    result.expert_ids, result.weights, result.replicas = (array.pointer for array in arrays)
    result.layers = ctypes.cast(layers, ctypes.POINTER(_library.PlanLayer))
    scratch, block = _library.scratch(LIB.eplb_plan_scratch(request))
    _library.call("eplb_plan", request, scratch, result)
    del block
    return Plan(arrays, [_figures(layer) for layer in layers], like)
