# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""Known results of every call; run with NumPy and without."""

import glob
import json
import os
import unittest

import eplb
from support import LOG2PHY0, LOGCNT0, PHY2LOG, WEIGHT, Case, flat, lists, material


class Deepseek(Case):
    def test_the_published_example(self):
        phy2log, log2phy, logcnt = eplb.rebalance_experts(WEIGHT, 16, 4, 2, 8)
        self.assertEqual(lists(phy2log), PHY2LOG)
        self.assertEqual(lists(log2phy)[0], LOG2PHY0)
        self.assertEqual(lists(logcnt)[0], LOGCNT0)

    def test_names_of_the_arguments_are_deepseeks(self):
        result = eplb.rebalance_experts(weight=WEIGHT, num_replicas=16, num_groups=4, num_nodes=2, num_gpus=8)
        self.assertEqual(lists(result[0]), PHY2LOG)

    def test_shared_vectors(self):
        folder = material("vectors/deepseek")
        paths = sorted(glob.glob(os.path.join(folder, "*.json"))) if folder else []
        for path in paths:
            with open(path, encoding="utf-8") as stream:
                one = json.load(stream)
            result = eplb.rebalance_experts(one["weight"], one["num_replicas"], one["num_groups"],
                                            one["num_nodes"], one["num_gpus"])
            for got, name in zip(result, ("phy2log", "log2phy", "logcnt")):
                self.assertEqual(lists(got), one[name], "%s of %s" % (name, path))
        self.assertTrue(folder is None or len(paths) >= 15)

    def test_repeats_are_removed_when_asked(self):
        hot = [[8000, 1, 1, 1, 1, 1, 1, 1]]
        plain = lists(eplb.rebalance_experts(hot, 16, 1, 1, 4)[0])[0]
        clean = lists(eplb.rebalance_experts(hot, 16, 1, 1, 4, remove_repeats=True)[0])[0]
        repeats = [[len(set(row[i:i + 4])) < 4 for i in range(0, 16, 4)] for row in (plain, clean)]
        self.assertTrue(any(repeats[0]))
        self.assertFalse(any(repeats[1]))


class Policy(Case):
    """Another planner behind the same call. 12 experts on 4 ranks: the plan is that of eplb.plan."""

    def check(self, result, plan):
        phy2log, log2phy, logcnt = (lists(one) for one in result)
        self.assertEqual(phy2log, lists(plan.phy2log))
        self.assertEqual(logcnt, lists(plan.replicas))
        for slots, columns in zip(phy2log, log2phy):
            for expert, row in enumerate(columns):
                self.assertEqual([slot for slot in row if slot >= 0],
                                 [slot for slot, one in enumerate(slots) if one == expert])

    def test_every_engine(self):
        plan = eplb.plan(WEIGHT, 4, 1, "balanced")
        self.check(eplb.rebalance_experts(WEIGHT, 16, 1, 1, 4, policy="balanced"), plan)
        self.check(eplb.vllm.rebalance_experts(WEIGHT, 16, 1, 1, 4, policy="balanced"), plan)
        self.check(eplb.sglang.rebalance_experts(WEIGHT, 16, 4, 1, 1, policy="balanced"), plan)

    def test_it_plans_from_the_old_table(self):
        turned = [[row[i ^ 1] for i in range(16)]
                  for row in lists(eplb.plan(WEIGHT, 4, 1, "balanced").phy2log)]
        again = eplb.vllm.rebalance_experts(WEIGHT, 16, 1, 1, 4, turned, only_phy2log=True, policy="balanced")
        self.assertEqual(lists(again), turned)


class Vllm(Case):
    def test_three_results_or_one(self):
        phy2log, log2phy, logcnt = eplb.vllm.rebalance_experts(WEIGHT, 16, 4, 2, 8)
        self.assertEqual((lists(phy2log), lists(log2phy)[0], lists(logcnt)[0]), (PHY2LOG, LOG2PHY0, LOGCNT0))
        self.assertEqual(lists(eplb.vllm.rebalance_experts(WEIGHT, 16, 4, 2, 8, only_phy2log=True)), PHY2LOG)

    def test_experts_that_stay_keep_their_slots(self):
        """Rows of 2 slots. Old tables: the new one with slots exchanged, one with an expert gone."""
        turned = [row[i ^ 1] for row in PHY2LOG[:1] for i in range(16)]
        other = [6, 9] + PHY2LOG[1][2:]
        phy2log, log2phy, logcnt = eplb.vllm.rebalance_experts(WEIGHT, 16, 4, 2, 8, [turned, other])
        self.assertEqual(lists(phy2log)[0], turned)
        self.assertEqual(lists(phy2log)[1], PHY2LOG[1])
        self.assertEqual(lists(log2phy)[0], [[slot if slot < 0 else slot ^ 1 for slot in row]
                                             for row in LOG2PHY0])
        self.assertEqual(lists(logcnt)[0], LOGCNT0)

    def test_a_kept_expert_stands_where_it_stood(self):
        old = [[10, 7] + PHY2LOG[1][2:]] * 2
        phy2log = lists(eplb.vllm.rebalance_experts(WEIGHT, 16, 4, 2, 8, old, only_phy2log=True))
        self.assertEqual(phy2log[1][:2], [10, 7])
        self.assertEqual(phy2log[1][2:], PHY2LOG[1][2:])


class Sglang(Case):
    def test_steps_are_added_and_columns_are_slots(self):
        halves = [[[one // 2 for one in row] for row in WEIGHT],
                  [[one - one // 2 for one in row] for row in WEIGHT]]
        for tokens in (halves, WEIGHT):
            phy2log, log2phy, logcnt = eplb.sglang.rebalance_experts(tokens, 16, 2, 4, 2,
                                                                     "deepseek_hierarchical")
            self.assertEqual(lists(phy2log), PHY2LOG)
            self.assertEqual(lists(log2phy)[0], [row + [-1] * 14 for row in LOG2PHY0])
            self.assertEqual(lists(logcnt)[0], LOGCNT0)

    def test_algorithms(self):
        class Algorithm:
            name = "deepseek"
        best = lists(eplb.rebalance_experts(WEIGHT, 16, 1, 1, 8)[0])
        for algorithm in ("deepseek", Algorithm):
            result = eplb.sglang.rebalance_experts(WEIGHT, 16, 2, 4, 2, algorithm)
            self.assertEqual(lists(result[0]), best)
        self.assertEqual(lists(eplb.sglang.rebalance_experts(WEIGHT, 16, 2, None, 2)[0]), best)
        self.assertEqual(lists(eplb.sglang.rebalance_experts(WEIGHT, 16, 2, 4, 2)[0]), PHY2LOG)


class Plan(Case):
    def test_a_known_plan(self):
        """The one of the C tests."""
        plan = eplb.plan([WEIGHT[0]], 4, 1, "balanced")
        self.assertEqual(flat(plan.expert_ids), [10, 1, 8, 7, 3, 4, 10, 1, 0, 5, 4, 2, 9, 5, 11, 6])
        self.assertEqual(lists(plan.replicas), [LOGCNT0])
        self.assertEqual(lists(plan.phy2log), [flat(plan.expert_ids)])
        self.assertEqual(flat(plan.weights)[0], 1 << 19)
        layer = plan.layers[0]
        self.assertEqual((layer.peak, layer.mean, layer.lower_bound), (270.5, 258.25, 258.25))
        self.assertAlmostEqual(layer.gap, 270.5 / 258.25 - 1)
        self.assertTrue(layer.publish and layer.sets_changed and layer.pays)
        self.assertEqual((plan.moved, plan.bytes), (layer.moved, 0))
        self.assertIn("1 layers", repr(plan))

    def test_what_a_migration_costs(self):
        plan = eplb.plan([WEIGHT[0]], 4, 1, "balanced", expert_bytes=1000, bytes_per_second=1e6,
                         seconds_per_token=1e-6, num_forwards=10)
        layer = plan.layers[0]
        self.assertEqual(layer.bytes, 1000 * layer.sent)
        self.assertGreater(layer.seconds, 0)
        self.assertGreater(layer.break_even_forwards, 0)
        refused = eplb.plan([WEIGHT[0]], 4, 1, "balanced", expert_bytes=1000, bytes_per_second=1e6,
                            seconds_per_token=1e-6, num_forwards=10, max_break_even_forwards=1).layers[0]
        self.assertFalse(refused.pays or refused.publish)

    def test_the_active_table_counts(self):
        first = eplb.plan(WEIGHT, 4, 1, "balanced")
        for active in (first.expert_ids, first.phy2log):
            again = eplb.plan(WEIGHT, 4, 1, "balanced", active)
            self.assertEqual(lists(again.expert_ids), lists(first.expert_ids))
            self.assertEqual(again.moved, 0)
            self.assertFalse(any(layer.publish for layer in again.layers))

    def test_the_measured_load_decides_the_gate(self):
        physical = [[100] + [1] * 15] * 2
        layer = eplb.plan(WEIGHT, 4, 1, "balanced", physical=physical).layers[0]
        self.assertEqual(layer.current_peak, 103)

    def test_threads_agree(self):
        load = [[(layer * 7919 + expert * 104729) % 1009 for expert in range(64)] for layer in range(20)]
        one, two = (eplb.plan(load, 8, 1, threads=threads) for threads in (1, 2))
        self.assertEqual(lists(one.expert_ids), lists(two.expert_ids))
        self.assertEqual(lists(one.weights), lists(two.weights))
        self.assertEqual(one.layers, two.layers)

    def test_minmax_is_the_default_and_the_best(self):
        load = [[600, 560, 120, 120, 20, 10, 10, 10]]
        best = eplb.plan(load, 8).layers[0]
        self.assertLess(best.peak, 196.67)
        self.assertEqual(best.peak, eplb.plan(load, 8, policy="MINMAX").layers[0].peak)


if __name__ == "__main__":
    unittest.main()
