# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""The shared library: where it is found, its functions and structs, its errors."""

import ctypes
import os
from ctypes import (POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64,
                    c_size_t, c_void_p)

FOLDER = os.path.dirname(os.path.abspath(__file__))
NAMES = ("libeplb.so.0", "libeplb.so")
NO_MEMORY = 3  # enum eplb_status in eplb/status.h


class Error(Structure):
    _fields_ = [("status", c_int), ("text", c_char * 512)]


class Shape(Structure):
    _fields_ = [(name, c_int32) for name in ("num_layers", "num_experts", "ep_size", "redundant_experts_num",
                                             "slots_per_rank", "num_slots")]


class PolicySettings(Structure):
    _fields_ = [("size", c_size_t), ("num_groups", c_int32), ("num_nodes", c_int32)]


class PolicyChoice(Structure):
    _fields_ = [("ops", c_void_p), ("known", c_int), ("nearest", c_char_p)]


class MigrationCost(Structure):
    _fields_ = [("expert_bytes", c_int64), ("bytes_per_second", c_double), ("seconds_per_token", c_double),
                ("num_forwards", c_double), ("max_break_even_forwards", c_int32)]


class Balance(Structure):
    _fields_ = [("peak", c_double), ("mean", c_double), ("lower_bound", c_double)]


class Benefit(Structure):
    _fields_ = [("current_peak", c_double), ("candidate_peak", c_double), ("improvement", c_double),
                ("sets_changed", c_int), ("publish", c_int)]


class Migration(Structure):
    _fields_ = [("moved_slots", c_int32), ("sent_slots", c_int32), ("bytes", c_int64), ("seconds", c_double),
                ("break_even_forwards", c_double), ("pays", c_int)]


class PlanRequest(Structure):
    _fields_ = [("size", c_size_t), ("shape", Shape), ("policy", c_void_p), ("settings", PolicySettings),
                ("load", POINTER(c_int64)), ("active", POINTER(c_int32)), ("physical", POINTER(c_int64)),
                ("min_improvement", c_double), ("max_moves", c_int32), ("cost", MigrationCost),
                ("num_threads", c_int32), ("history", POINTER(c_int64)), ("num_history", c_int32),
                ("parts", POINTER(c_int64)), ("num_parts", c_int32), ("replica_routing", c_int)]


class PlanLayer(Structure):
    _fields_ = [("balance", Balance), ("benefit", Benefit), ("migration", Migration),
                ("unbounded_peak", c_double), ("status", c_int)]


class Plan(Structure):
    _fields_ = [("size", c_size_t), ("expert_ids", POINTER(c_int32)), ("weights", POINTER(c_int32)),
                ("replicas", POINTER(c_int32)), ("layers", POINTER(PlanLayer))]


class DeepseekSizes(Structure):
    _fields_ = [(name, c_int32) for name in ("num_layers", "num_experts", "num_replicas", "num_groups",
                                             "num_nodes", "num_gpus")]


# Result type and argument types of every function that is called; an Error comes last where there is one.
FUNCTIONS = {
    "eplb_status_text": (c_char_p, [c_int]),
    "eplb_shape_init": (c_int, [POINTER(Shape)] + [c_int64] * 4 + [POINTER(Error)]),
    "eplb_policy_find": (PolicyChoice, [c_char_p]),
    "eplb_replica_routing_parse": (c_int, [c_char_p, POINTER(c_int), POINTER(Error)]),
    "eplb_policy_settings_init": (None, [POINTER(PolicySettings)]),
    "eplb_plan_request_init": (None, [POINTER(PlanRequest)]),
    "eplb_plan_init": (None, [POINTER(Plan)]),
    "eplb_plan_scratch": (c_size_t, [POINTER(PlanRequest)]),
    "eplb_plan": (c_int, [POINTER(PlanRequest), c_void_p, POINTER(Plan), POINTER(Error)]),
    "eplb_deepseek_sizes_init": (c_int, [POINTER(DeepseekSizes)] + [c_int64] * 6 + [POINTER(Error)]),
    "eplb_deepseek_scratch": (c_size_t, [POINTER(DeepseekSizes)]),
    "eplb_deepseek_rebalance": (c_int, [POINTER(DeepseekSizes), POINTER(c_float), c_int, c_void_p]
                                       + [POINTER(c_int64)] * 3 + [POINTER(Error)]),
    "eplb_deepseek_keep_slots": (None, [POINTER(DeepseekSizes), POINTER(c_int64), c_void_p, POINTER(c_int64),
                                        POINTER(c_int64)]),
    "eplb_deepseek_width": (c_int64, [POINTER(DeepseekSizes), POINTER(c_int64)]),
    "eplb_deepseek_log2phy": (c_int, [POINTER(DeepseekSizes), POINTER(c_int64), POINTER(c_int64), c_int64,
                                      POINTER(c_int64), POINTER(Error)]),
}

# Structs that begin with their size, and the function that writes it.
SIZED = {PolicySettings: "eplb_policy_settings_init", PlanRequest: "eplb_plan_request_init",
         Plan: "eplb_plan_init"}


def _open():
    """EPLB_LIBRARY says which; else the one beside this file, else the one that the loader finds."""
    path = os.environ.get("EPLB_LIBRARY")
    if path:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            raise ImportError("EPLB_LIBRARY is '%s': %s" % (path, error)) from None
    paths = [os.path.join(FOLDER, name) for name in NAMES]
    for candidate in [path for path in paths if os.path.exists(path)] + list(NAMES):
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            reason = error
    raise ImportError("libeplb is not beside the package in %s, not named by EPLB_LIBRARY, and the loader "
                      "does not find it: %s" % (FOLDER, reason))


def _check_sizes(library):
    """The library writes its own structs: into room for any of them, before one of ours is trusted."""
    for struct, init in SIZED.items():
        room = (c_size_t * 512)()
        getattr(library, init)(ctypes.cast(room, POINTER(struct)))
        if room[0] != ctypes.sizeof(struct):
            raise ImportError("%s makes a struct of %d bytes, this package one of %d: the library is of "
                              "another version" % (init, room[0], ctypes.sizeof(struct)))


def _load():
    library = _open()
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError("%s has no %s: the library is of another version"
                              % (library._name, name)) from None
        function.restype = result
        function.argtypes = arguments
    _check_sizes(library)
    return library


LIB = _load()


def call(name, *arguments):
    """Calls a function that can fail; raises its sentence."""
    error = Error()
    status = getattr(LIB, name)(*arguments, ctypes.byref(error))
    if status == 0:
        return
    text = error.text or LIB.eplb_status_text(status)
    raise (MemoryError if status == NO_MEMORY else ValueError)(text.decode("utf-8", "replace"))


def scratch(size):
    """Memory aligned to 64, and what keeps it alive."""
    if size == ctypes.c_size_t(-1).value:
        return None, None
    block = (c_char * (size + 63))()
    return c_void_p((ctypes.addressof(block) + 63) & ~63), block
