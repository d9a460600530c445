"""Tests that compile C++ on this machine: left out where it cannot, but for CI, where they fail."""

import os
import shutil

import pytest

needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "c++")) is None and not os.environ.get("CI"),
    reason="no C++ compiler here; `tests/engines up` brings one",
)
