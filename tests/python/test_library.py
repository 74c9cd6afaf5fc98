# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""Where the library is looked for, and what is refused as one."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "eplb")
LIBRARY = os.environ["EPLB_LIBRARY"]
ASK = "import eplb; print(eplb.library_path())"


def run(folder, **environment):
    """What a fresh Python prints, or the last line of its complaint."""
    place = {name: value for name, value in os.environ.items()
             if name not in ("EPLB_LIBRARY", "PYTHONPATH")}
    done = subprocess.run([sys.executable, "-B", "-S", "-c", ASK], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**place, "PYTHONPATH": folder, **environment})
    return (done.stdout or done.stderr).strip().splitlines()[-1]


class Lookup(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=".")
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder = os.path.abspath(self.folder)
        self.package = os.path.join(self.folder, "eplb")
        shutil.copytree(SOURCE, self.package, ignore=shutil.ignore_patterns("*.so*", "__pycache__"))

    def test_named(self):
        self.assertEqual(run(self.folder, EPLB_LIBRARY=LIBRARY), LIBRARY)

    def test_beside_the_package(self):
        for name in ("libeplb.so", "libeplb.so.0"):
            beside = os.path.join(self.package, name)
            shutil.copy(LIBRARY, beside)
            self.assertEqual(run(self.folder), beside)
            self.assertEqual(run(self.folder, EPLB_LIBRARY=LIBRARY), LIBRARY)

    def test_by_the_loader(self):
        os.mkdir(os.path.join(self.folder, "lib"))
        shutil.copy(LIBRARY, os.path.join(self.folder, "lib", "libeplb.so.0"))
        self.assertEqual(run(self.folder, LD_LIBRARY_PATH=os.path.join(self.folder, "lib")), "libeplb.so.0")

    def test_nowhere(self):
        said = run(self.folder, LD_LIBRARY_PATH="")
        installed = said == "libeplb.so.0"  # on a machine that has the library where the loader looks
        self.assertTrue(installed or "ImportError: libeplb is not beside the package in" in said, said)

    def test_a_wrong_name_is_not_passed_over(self):
        said = run(self.folder, EPLB_LIBRARY="./nowhere.so")
        self.assertIn("ImportError: EPLB_LIBRARY is './nowhere.so': ", said)

    def test_another_library(self):
        said = run(self.folder, EPLB_LIBRARY="libc.so.6")
        self.assertIn("ImportError: libc.so.6 has no eplb_status_text: the library is of another version",
                      said)

    def test_structs_of_another_size(self):
        path = os.path.join(self.package, "_library.py")
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text.replace('("max_moves", c_int32), ', ""))
        said = run(self.folder, EPLB_LIBRARY=LIBRARY)
        self.assertIn("ImportError: eplb_plan_request_init makes a struct of", said)


if __name__ == "__main__":
    unittest.main()
