# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""Random calls give what the C functions give (tests/python/reference.c), and structs have C's sizes."""

import ctypes
import os
import random
import subprocess
import unittest

import eplb
from eplb import _library
from support import Case, flat

SEED = 20240614
CALLS = 1000
ROUTINGS = ("static", "local", "weighted", "adaptive", "batch")
COST = {"expert_bytes": 1000000, "bytes_per_second": 1e9, "seconds_per_token": 1e-6, "num_forwards": 10,
        "max_break_even_forwards": 100}


def ask(requests):
    """One line of numbers for each request."""
    done = subprocess.run([os.environ["EPLB_REFERENCE"]], input="\n".join(requests) + "\n", text=True,
                          stdout=subprocess.PIPE, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def words(*values):
    return " ".join(str(value) for value in values)


def random_deepseek(rng):
    nodes, groups, size, gpus = (rng.randint(1, most) for most in (3, 3, 6, 4))
    experts, ranks = nodes * groups * size, nodes * gpus
    per_rank = -(-experts // ranks) + rng.randint(0, 2)
    layers, remove = rng.randint(1, 3), per_rank <= groups * size and rng.random() < 0.5
    weight = [[rng.choice((0, rng.randint(0, 9), rng.randint(0, 1 << 24))) for _ in range(experts)]
              for _ in range(layers)]
    sizes = (ranks * per_rank, nodes * groups, nodes, ranks)
    return weight, sizes, remove


def random_windows(rng, load):
    """Windows like this one."""
    return [[[rng.randint(one // 2, one) for one in row] for row in load] for _ in range(rng.randint(0, 3))]


def random_plan(rng):
    ranks, owned, layers = rng.randint(1, 6), rng.randint(1, 5), rng.randint(1, 3)
    experts = ranks * owned
    redundant = rng.randint(0, min(3, experts - owned))
    load = [[rng.choice((0, rng.randint(0, 9), rng.randint(0, 1 << 62))) for _ in range(experts)]
            for _ in range(layers)]
    before = [[rng.randint(1, 99) for _ in range(experts)] for _ in range(layers)]
    active = eplb.plan(before, ranks, redundant, "greedy").expert_ids
    physical = [[[rng.randint(0, 1 << 40) for _ in range(owned + redundant)] for _ in range(ranks)]
                for _ in range(layers)]
    return {"load": load, "ep_size": ranks, "redundant": redundant, "active": active, "physical": physical,
            "policy": rng.choice(("balanced", "greedy", "deepseek", "minmax", "robust")),
            "history": random_windows(rng, load), "parts": random_windows(rng, load),
            "replica_routing": rng.choice(ROUTINGS),
            "num_groups": rng.randint(1, 4), "num_nodes": rng.randint(1, 2),
            "max_moves": rng.choice((0, 0, 0, 2))}


def figures(layer):
    """As the reference prints them."""
    return [layer.peak, layer.mean, layer.lower_bound, layer.current_peak, layer.candidate_peak,
            layer.improvement, layer.sets_changed, layer.publish, layer.moved, layer.sent, layer.bytes,
            layer.seconds, layer.break_even_forwards, layer.pays, layer.unbounded_peak]


class Agrees(Case):
    def setUp(self):
        print("seed", SEED)
        self.rng = random.Random(SEED)

    def test_struct_sizes(self):
        mirrors = (_library.Error, _library.Shape, _library.PolicySettings, _library.PlanRequest,
                   _library.PlanLayer, _library.Plan, _library.DeepseekSizes)
        self.assertEqual([ctypes.sizeof(mirror) for mirror in mirrors],
                         [int(size) for size in ask(["sizes"])[0]])

    def test_deepseek(self):
        calls = [random_deepseek(self.rng) for _ in range(CALLS)]
        answers = ask([words("deepseek", len(weight), len(weight[0]), *sizes, int(remove), *flat(weight))
                       for weight, sizes, remove in calls])
        for (weight, sizes, remove), answer in zip(calls, answers):
            phy2log, log2phy, logcnt = eplb.rebalance_experts(weight, *sizes, remove_repeats=remove)
            width = len(log2phy[0][0])
            self.assertEqual([*flat(phy2log), *flat(logcnt), width, *flat(log2phy)],
                             [int(one) for one in answer])
        self.assertEqual(len(answers), CALLS)

    def test_plan(self):
        calls = [random_plan(self.rng) for _ in range(CALLS)]
        names = ("ep_size", "redundant", "policy", "num_groups", "num_nodes", "max_moves")
        answers = ask([words("plan", len(call["load"]), len(call["load"][0]), *(call[name] for name in names),
                             len(call["history"]), len(call["parts"]),
                             ROUTINGS.index(call["replica_routing"]),
                             *(one for name in ("history", "parts", "load", "active", "physical")
                               for one in flat(call[name])))
                       for call in calls])
        for call, answer in zip(calls, answers):
            plan = eplb.plan(**call, **COST)
            whole = [*flat(plan.expert_ids), *flat(plan.weights), *flat(plan.replicas)]
            self.assertEqual(whole, [int(one) for one in answer[:len(whole)]])
            self.assertEqual([float(one) for layer in plan.layers for one in figures(layer)],
                             [float.fromhex(one) if "x" in one or "inf" in one else float(one)
                              for one in answer[len(whole):]])
        self.assertEqual(len(answers), CALLS)


if __name__ == "__main__":
    unittest.main()
