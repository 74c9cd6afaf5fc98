# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""Expert-parallel load balancing for MoE inference: libeplb's planners for Python.

    import eplb
    phy2log, log2phy, logcnt = eplb.rebalance_experts(weight, 288, 8, 4, 32)  # DeepSeek's function
    plan = eplb.plan(load, ep_size=32, redundant=1)  # the best one for engines that split evenly

eplb.vllm and eplb.sglang have the variants of these engines. The shared library is the one that the
environment variable EPLB_LIBRARY names, else the one beside this file, else what the loader finds.
"""

from . import sglang, vllm
from ._deepseek import rebalance_experts
from ._library import LIB as _LIB
from ._plan import LayerFigures, Plan, plan

__all__ = ["rebalance_experts", "plan", "Plan", "LayerFigures", "library_path", "sglang", "vllm"]


def library_path():
    """The file that the library was loaded from, as it was asked for."""
    return _LIB._name
