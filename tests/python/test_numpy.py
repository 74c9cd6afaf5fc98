# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""NumPy arrays in and out: types, shapes, strides."""

import unittest

import eplb
from support import LOG2PHY0, PHY2LOG, WEIGHT, Case, need

need("numpy", "python3-numpy")
import numpy  # noqa: E402 (where it is missing the test has ended)


class Arrays(Case):
    def test_types_and_shapes(self):
        for weight in (WEIGHT, numpy.array(WEIGHT)):
            phy2log, log2phy, logcnt = eplb.rebalance_experts(weight, 16, 4, 2, 8)
            for array, shape in ((phy2log, (2, 16)), (log2phy, (2, 12, 2)), (logcnt, (2, 12))):
                self.assertIsInstance(array, numpy.ndarray)
                self.assertEqual((array.dtype, array.shape), (numpy.int64, shape))
        plan = eplb.plan(WEIGHT, 4, 1, "balanced")
        for array, shape, kind in ((plan.expert_ids, (2, 4, 4), "int32"), (plan.weights, (2, 4, 4), "int32"),
                                   (plan.replicas, (2, 12), "int32"), (plan.phy2log, (2, 16), "int64")):
            self.assertEqual((array.dtype, array.shape), (kind, shape))

    def test_results_are_the_callers(self):
        phy2log = eplb.rebalance_experts(WEIGHT, 16, 4, 2, 8)[0]
        eplb.rebalance_experts(WEIGHT[::-1], 16, 4, 2, 8)
        self.assertEqual(phy2log.tolist(), PHY2LOG)
        phy2log[0, 0] = 99

    def test_every_numeric_type_and_order_is_taken(self):
        for kind in ("int16", "int32", "int64", "uint8", "uint64", "float32", "float64"):
            weight = numpy.array(WEIGHT, dtype=kind)
            for same in (weight, numpy.asfortranarray(weight), numpy.repeat(weight, 2, axis=1)[:, ::2]):
                phy2log, log2phy, _ = eplb.rebalance_experts(same, 16, 4, 2, 8)
                self.assertEqual((phy2log.tolist(), log2phy[0].tolist()), (PHY2LOG, LOG2PHY0))

    def test_input_is_left_alone(self):
        weight = numpy.array(WEIGHT, dtype="float32")
        weight.setflags(write=False)
        eplb.rebalance_experts(weight, 16, 4, 2, 8)
        self.assertEqual(weight.tolist(), WEIGHT)
        load = numpy.array(WEIGHT)
        load.setflags(write=False)
        eplb.plan(load, 4, 1, "balanced", threads=2)
        self.assertEqual(load.tolist(), WEIGHT)

    def test_steps(self):
        tokens = numpy.array([WEIGHT, WEIGHT, WEIGHT])
        phy2log, log2phy, _ = eplb.sglang.rebalance_experts(tokens, 16, 2, 4, 2)
        self.assertEqual(phy2log.tolist(), PHY2LOG)
        self.assertEqual(log2phy.shape, (2, 12, 16))

    def test_refused(self):
        call = eplb.rebalance_experts
        self.refused("weight holds bool; numbers are expected", call, numpy.ones((1, 4), bool), 4, 1, 1, 2)
        self.refused("weight has the shape [4]; 2 dimensions, none of them 0, are expected", call,
                     numpy.ones(4), 4, 1, 1, 2)
        self.refused("weight has the shape [0, 4]; 2 dimensions...", call, numpy.ones((0, 4)), 4, 1, 1, 2)
        self.refused("layer 0, expert 0: weight is inf, ...", call, numpy.full((1, 4), 1e300), 4, 1, 1, 2)
        self.refused("load holds float64; whole numbers are expected", eplb.plan, numpy.ones((1, 4)), 2)
        self.refused("load holds a number beyond int64", eplb.plan,
                     numpy.full((1, 4), 1 << 63, dtype="uint64"), 2)
        self.refused("active has the shape [4]; ...", eplb.plan, [[1] * 4], 2, 0, active=numpy.arange(4))


if __name__ == "__main__":
    unittest.main()
