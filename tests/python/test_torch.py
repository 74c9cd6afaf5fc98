# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""Tensors in and out: torch's own where it is installed, else a stand-in with the few calls that count."""

import ctypes
import sys
import types
import unittest

from support import LOG2PHY0, PHY2LOG, WEIGHT, Case, flat

try:
    import torch
except ImportError:
    torch = None

C_TYPES = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "bool": ctypes.c_bool}


class Tensor:
    def __init__(self, values, dtype, shape):
        self.values, self.dtype, self.shape = values, dtype, tuple(shape)

    def detach(self):
        return self

    def contiguous(self):
        return self

    def to(self, device, dtype):
        assert device == "cpu"
        kind = C_TYPES[dtype]
        return Tensor((kind * len(self.values))(*[kind(one).value for one in self.values]), dtype, self.shape)

    def numel(self):
        return len(self.values)

    def data_ptr(self):
        return ctypes.addressof(self.values)

    def is_floating_point(self):
        return self.dtype == "float32"

    def reshape(self, shape):
        return Tensor(self.values, self.dtype, shape)

    def tolist(self):
        rows = list(self.values)
        for size in reversed(self.shape[1:]):
            rows = [rows[i:i + size] for i in range(0, len(rows), size)]
        return rows


def stand_in():
    module = types.ModuleType("torch")
    module.Tensor = Tensor
    for name in C_TYPES:
        setattr(module, name, name)
    module.frombuffer = lambda values, dtype: Tensor(values, dtype, (len(values),))

    def tensor(rows, dtype="int64"):
        values = flat(rows)
        shape = [len(rows), len(rows[0])]
        return Tensor((C_TYPES[dtype] * len(values))(*values), dtype, shape)
    module.tensor = tensor
    return module


if torch is None:
    torch = sys.modules["torch"] = stand_in()

import eplb  # noqa: E402 (after torch, whose tensors it then knows)


class Tensors(Case):
    def test_tensors_come_back(self):
        for dtype in (torch.int64, torch.int32, torch.float32):
            phy2log, log2phy, logcnt = eplb.rebalance_experts(torch.tensor(WEIGHT, dtype=dtype), 16, 4, 2, 8)
            for tensor, shape in ((phy2log, (2, 16)), (log2phy, (2, 12, 2)), (logcnt, (2, 12))):
                self.assertIsInstance(tensor, torch.Tensor)
                self.assertEqual((tensor.dtype, tuple(tensor.shape)), (torch.int64, shape))
            self.assertEqual((phy2log.tolist(), log2phy.tolist()[0]), (PHY2LOG, LOG2PHY0))

    def test_every_variant(self):
        weight = torch.tensor(WEIGHT)
        old = torch.tensor(PHY2LOG)
        phy2log = eplb.vllm.rebalance_experts(weight, 16, 4, 2, 8, old, only_phy2log=True)
        self.assertEqual(phy2log.tolist(), PHY2LOG)
        phy2log = eplb.sglang.rebalance_experts(weight, 16, 2, 4, 2)[0]
        self.assertIsInstance(phy2log, torch.Tensor)
        self.assertEqual(phy2log.tolist(), PHY2LOG)
        plan = eplb.plan(weight, 4, 1, "balanced")
        self.assertEqual((plan.expert_ids.dtype, plan.phy2log.dtype), (torch.int32, torch.int64))

    def test_refused(self):
        self.refused("load holds %s; whole numbers are expected" % torch.float32, eplb.plan,
                     torch.tensor([[1.0] * 4], dtype=torch.float32), 2)


if __name__ == "__main__":
    unittest.main()
