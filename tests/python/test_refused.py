# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""Bad input is a ValueError with a sentence, ours or the library's."""

import unittest

import eplb
from support import WEIGHT, Case

NAN = float("nan")


class Deepseek(Case):
    def test_sizes(self):
        call = eplb.rebalance_experts
        self.refused("num_replicas 8 are fewer than num_experts 12", call, WEIGHT, 8, 4, 2, 8)
        self.refused("num_replicas 18 is not divisible by num_gpus 8", call, WEIGHT, 18, 4, 2, 8)
        self.refused("num_gpus is 0, allowed is 1 to 65536", call, WEIGHT, 16, 4, 2, 0)
        self.refused("num_gpus 8 is not divisible by num_nodes 3", call, WEIGHT, 16, 6, 3, 8)
        self.refused("num_replicas is 16.0; a whole number is expected", call, WEIGHT, 16.0, 4, 2, 8)
        self.refused("num_groups is None; a whole number is expected", call, WEIGHT, 16, None, 2, 8)
        self.refused("num_nodes is %d, which is beyond int64" % 2 ** 80, call, WEIGHT, 16, 4, 2 ** 80, 8)

    def test_weights(self):
        def call(weight):
            eplb.rebalance_experts(weight, 4, 1, 1, 2)
        self.refused("layer 0, expert 2: weight is -1, a finite number >= 0 is expected", call,
                     [[1, 2, -1, 4]])
        self.refused("layer 1, expert 0: weight is nan, a finite...", call, [[1, 2, 3, 4], [NAN, 2, 3, 4]])
        self.refused("layer 0, expert 3: weight is inf, a finite...", call, [[1, 2, 3, 1e39]])
        self.refused("weight has the shape [4]; 2 dimensions, none of them 0, are expected", call,
                     [1, 2, 3, 4])
        self.refused("weight has the shape []; 2 dimensions, none of them 0, are expected", call, 5)
        self.refused("weight has the shape [1, 0]; 2 dimensions, none of them 0, are expected", call, [[]])
        self.refused("weight has the shape [1, 4, 1]; 2 dimensions...", call, [[[1], [2], [3], [4]]])
        self.refused("weight has rows of 2 and of 1; one length is expected", call, [[1, 2], 3])
        self.refused("weight has rows of 2 and of 3; one length is expected", call, [[1, 2], [1, 2, 3]])
        self.refused("weight: float() argument must be a string or a real number, not 'list'...", call,
                     [[1, [2], 3, 4]])
        self.refused("weight: could not convert string to float: 'many'; numbers in rows of one length are "
                     "expected", call, [["many", 2, 3, 4]])
        self.refused("weight: ...", call, [[1, 2, 3, 10 ** 400]])

    def test_repeats_that_cannot_be_avoided(self):
        self.refused("a rank has 3 slots and its node 2 experts: ...", eplb.rebalance_experts, [[1, 2]], 6, 1,
                     1, 2, remove_repeats=True)


class Policy(Case):
    def test_another_policy(self):
        call = eplb.rebalance_experts
        self.refused("no policy is named 'best'; ...", call, WEIGHT, 16, 1, 1, 4, policy="best")
        self.refused("num_experts 12 is not divisible by ep_size 8: ...", call, WEIGHT, 16, 1, 1, 8,
                     policy="balanced")
        for bad, text in ((-1, "-1"), (NAN, "nan"), (1e30, "1e+30")):
            self.refused("layer 0, expert 2: weight is %s, 0 to 2^62 is allowed with this policy" % text,
                         call, [[1, 2, bad, 4]], 6, 1, 1, 2, policy="balanced")
        self.refused("active table, layer 0: ...", eplb.vllm.rebalance_experts, [[1, 2, 3, 4]], 6, 1, 1, 2,
                     [[0, 0, 1, 1, 2, 1 << 40]], policy="balanced")


class Variants(Case):
    def test_vllm(self):
        self.refused("old_global_expert_indices has the shape [1, 16]; [2, 16] is expected",
                     eplb.vllm.rebalance_experts, WEIGHT, 16, 4, 2, 8, [[0] * 16])
        self.refused("old_global_expert_indices: 'float' object cannot be interpreted as an integer...",
                     eplb.vllm.rebalance_experts, WEIGHT, 16, 4, 2, 8, [[0.5] * 16] * 2)

    def test_sglang(self):
        call = eplb.sglang.rebalance_experts
        self.refused("algorithm is 'elasticity_aware'; allowed are deepseek, deepseek_hierarchical, auto",
                     call, WEIGHT, 16, 2, 4, 2, "elasticity_aware")
        for local in (3, 0):
            self.refused("num_physical_experts 16 is not divisible by num_local_physical_experts %d" % local,
                         call, WEIGHT, 16, local, 4, 2)
        self.refused("tokens_per_expert has ...", call, [1, 2, 3], 16, 2, 4, 2)


class Plan(Case):
    def test_sizes(self):
        self.refused("num_experts 12 is not divisible by ep_size 5: ...", eplb.plan, WEIGHT, 5)
        self.refused("redundant_experts_num is -1; it counts extra slots per rank and must be 0 or more",
                     eplb.plan, WEIGHT, 4, -1)
        self.refused("ep_size is '4'; a whole number is expected", eplb.plan, WEIGHT, "4")

    def test_loads(self):
        self.refused("load: 'float' object cannot be interpreted as an integer; whole numbers in rows of one "
                     "length are expected", eplb.plan, [[0.5, 1, 2, 3]], 2)
        self.refused("load holds a number beyond int64", eplb.plan, [[1 << 63, 1, 2, 3]], 2)
        for bad in (-1, (1 << 62) + 1):
            self.refused("layer 0: load of expert 0 ...", eplb.plan, [[bad, 1, 2, 3]], 2)

    def test_tables(self):
        table = eplb.plan(WEIGHT, 4, 1, "balanced").phy2log
        bad = [[int(one) for one in row] for row in table]
        bad[1][5] = bad[1][4]
        self.refused("active table, layer 1: ...", eplb.plan, WEIGHT, 4, 1, "balanced", bad)
        self.refused("active has the shape [2, 15]; [2, 16] is expected", eplb.plan, WEIGHT, 4, 1, "balanced",
                     [row[1:] for row in bad])
        self.refused("physical has the shape [1, 0]; 2 dimensions, none of them 0, are expected", eplb.plan,
                     WEIGHT, 4, 1, "balanced", physical=[[]])

    def test_windows(self):
        def call(**named):
            eplb.plan([[1, 2, 3, 4]], 2, 1, "robust", **named)
        self.refused("eplb_plan_request.num_history is 17; allowed is 0 to 16", call,
                     history=[[[1, 2, 3, 4]]] * 17)
        self.refused("history has the shape [1, 1, 3]; [1, 1, 4] is expected", call, history=[[[1, 2, 3]]])
        self.refused("parts has the shape [1, 4]; 3 dimensions, none of them 0, are expected", call,
                     parts=[[1, 2, 3, 4]])
        self.refused("parts has the shape []; 3 dimensions, none of them 0, are expected", call, parts=7)
        self.refused("layer 0: load of expert 1 is -2; allowed is 0 to 2^62", call, parts=[[[1, -2, 3, 4]]])
        self.refused("replica_routing is 3; a name is expected", call, replica_routing=3)
        self.refused("replica routing 'best' is not one of static, local, weighted, adaptive, batch", call,
                     replica_routing="best")
        self.assertEqual(len(eplb.plan([[1, 2, 3, 4]], 2, history=[], parts=None).layers), 1)

    def test_options(self):
        self.refused("no policy is named 'balancd'; the nearest name is 'balanced'", eplb.plan, WEIGHT, 4, 1,
                     "balancd")
        self.refused("policy is None; a name is expected", eplb.plan, WEIGHT, 4, 1, None)
        for named in ({"threads": 0}, {"threads": 1025}, {"min_improvement": 1.5}, {"max_moves": -1},
                      {"num_nodes": 0}, {"num_groups": -1}, {"expert_bytes": -1}, {"bytes_per_second": -1.0},
                      {"max_break_even_forwards": -1}):
            name = next(iter(named))
            with self.assertRaisesRegex(ValueError, name.replace("num_", "")):
                eplb.plan(WEIGHT, 4, 1, "balanced", **named)
        self.refused("min_improvement is nan; a finite number is expected", eplb.plan, WEIGHT, 4, 1,
                     "balanced", min_improvement=NAN)
        self.refused("threads is %d, which is beyond int32" % 2 ** 40, eplb.plan, WEIGHT, 4, 1, "balanced",
                     threads=2 ** 40)


if __name__ == "__main__":
    unittest.main()
