"""`manifests/level3.json` by 4,096 ranks: gathered from journals, sealed, read and checked."""

from __future__ import annotations

import json
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
# started by a small process: the memory of whoever starts another one counts as that one's
MEASURE = """
import json, os, subprocess, sys
words = [sys.executable, "-m", "capsule", "check", sys.argv[1]]
checking = subprocess.Popen(words, stdout=subprocess.DEVNULL)
_, status, used = os.wait4(checking.pid, 0)
print(json.dumps([status, used.ru_maxrss << 10, used.ru_utime + used.ru_stime]))
"""


def test_a_capsule_of_4096_ranks_is_sealed_and_checked_in_little_memory(
    author: User, tmp_path: Path
) -> None:
    template = manyranks.run_template(author, ())
    target = tmp_path / "a.zip"
    manyranks.seal(template, manyranks.document(RANKS, steps=12), tmp_path / "run", target)
    words = [sys.executable, "-c", MEASURE, str(target)]
    answer = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    status, most_bytes, cpu_seconds = json.loads(answer)
    assert status == 0
    assert most_bytes <= MOST_BYTES
    assert cpu_seconds <= MOST_CPU_SECONDS
