"""`manifests/level3.json` by 4,096 ranks: gathered from journals, sealed, read and checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import manyranks
from tests.support.command import User

pytestmark = pytest.mark.long

RANKS = 4096
MOST_BYTES = 256 << 20
MOST_CPU_SECONDS = 30.0


def test_a_capsule_of_4096_ranks_is_sealed_and_checked_in_little_memory(
    author: User, tmp_path: Path
) -> None:
    template = manyranks.run_template(author, ())
    target = tmp_path / "a.zip"
    manyranks.seal(template, manyranks.document(RANKS, steps=12), tmp_path / "run", target)
    checking = subprocess.Popen(
        [sys.executable, "-m", "capsule", "check", str(target)], stdout=subprocess.PIPE, text=True
    )
    assert checking.stdout is not None
    said = checking.stdout.read()
    _, status, used = os.wait4(checking.pid, 0)
    assert status == 0, said
    assert used.ru_maxrss << 10 <= MOST_BYTES
    assert used.ru_utime + used.ru_stime <= MOST_CPU_SECONDS
