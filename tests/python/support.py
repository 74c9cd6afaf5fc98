# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""What the tests of the Python package share."""

import importlib.util
import os
import sys
import unittest

SKIPPED = 77  # the exit code that ctest takes for a skipped test

WEIGHT = [[90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
          [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27]]
PHY2LOG = [[5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
           [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1]]
LOG2PHY0 = [[12, -1], [15, 13], [11, -1], [6, -1], [7, 5], [0, 2], [1, -1], [3, -1], [4, -1], [9, -1],
            [8, 10], [14, -1]]
LOGCNT0 = [1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 2, 1]


def lists(value):
    """Nested lists of any result."""
    return value.tolist() if hasattr(value, "tolist") else value


def flat(value):
    value = lists(value)
    while value and isinstance(value[0], list):
        value = [one for row in value for one in row]
    return value


def need(module, package):
    """Ends the test as skipped where the module is missing."""
    if importlib.util.find_spec(module) is None:
        print("SKIP: the package %s is not installed" % package)
        sys.exit(SKIPPED)


def material(name):
    """A folder or file of EPLB_SHARED, else of `shared` beside the checkout; None where there is none."""
    root = os.environ.get("EPLB_SHARED")
    if not root:
        checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        root = os.path.join(os.path.dirname(checkout), "shared")
    path = os.path.join(root, name)
    if os.path.exists(path):
        return path
    print("SKIP: %s is not there (set EPLB_SHARED to the folder that holds it)" % name)
    return None


class Case(unittest.TestCase):
    def refused(self, sentence, call, *arguments, **named):
        """The call raises ValueError with exactly the sentence, or with one that begins so ("...")."""
        with self.assertRaises(ValueError) as caught:
            call(*arguments, **named)
        text = str(caught.exception)
        if sentence.endswith("..."):
            text = text[:len(sentence) - 3] + "..."
        self.assertEqual(text, sentence)
