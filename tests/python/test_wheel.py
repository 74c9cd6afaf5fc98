# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""The wheel is built without the network and works where nothing else of the project is."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import need

need("pip", "python3-pip")
need("setuptools", "python3-setuptools")
need("wheel", "python3-wheel")

BUILD = os.environ["EPLB_BUILD"]
VERSION = os.environ["EPLB_VERSION"]
TRY = """
import eplb, sys
print(eplb.library_path())
print(eplb.rebalance_experts([[90, 132, 40, 61]], 6, 1, 1, 2)[0])
"""


def run(command, **environment):
    """Proxies that nobody answers: whoever asks the network fails."""
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    nowhere = {name: "http://127.0.0.1:9" for name in names}
    clean = {name: value for name, value in os.environ.items()
             if name not in ("EPLB_LIBRARY", "PYTHONPATH")}
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**clean, **nowhere, **environment}, check=False)
    if done.returncode != 0:
        raise AssertionError("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


class Wheel(unittest.TestCase):
    def setUp(self):
        self.target = os.path.abspath(tempfile.mkdtemp(dir="."))
        self.addCleanup(shutil.rmtree, self.target)

    def test_builds_and_imports(self):
        for old in glob.glob(os.path.join(BUILD, "python", "*.whl")):
            os.remove(old)
        run([os.environ["EPLB_CMAKE"], "--build", BUILD, "--target", "python_wheel"])
        wheels = glob.glob(os.path.join(BUILD, "python", "*.whl"))
        self.assertEqual(len(wheels), 1, wheels)
        self.assertRegex(os.path.basename(wheels[0]), r"^eplb-%s-py3-none-linux_\w+\.whl$" % VERSION)
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile",
             "--target", self.target, wheels[0]])
        said = run([sys.executable, "-B", "-S", "-c", TRY], PYTHONPATH=self.target).splitlines()
        self.assertEqual(said[0], os.path.join(self.target, "eplb", "libeplb.so.0"))
        self.assertEqual(said[1], "[[1, 3, 2, 1, 0, 0]]")


if __name__ == "__main__":
    unittest.main()
