# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
"""Everything is in pyproject.toml but the wheel's tag: with the library in the package it belongs to one
platform, and to any Python 3, because ctypes asks for no Python of its own."""

import os

from setuptools import setup
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "eplb", "libeplb.so.0")


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return os.path.exists(LIBRARY)


class Wheel(bdist_wheel):
    def get_tag(self):
        platform = super().get_tag()[2]
        return "py3", "none", platform


setup(distclass=WithLibrary, cmdclass={"bdist_wheel": Wheel})
