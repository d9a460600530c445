"""Scratch folders of processes that were killed are removed by the next one, others are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS

ENTER = "from capsule import places; entered = places.scratch(); print(entered.__enter__())\n"


def begin(folder: Path, program: str) -> subprocess.Popen[str]:
    """Start a Python program whose temporary folders lie below a folder."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_scratch_folder_outlives_its_process_until_the_next_one_starts(tmp_path: Path) -> None:
    foreign = tmp_path / "capsule-notes"
    foreign.mkdir()
    killed, living = (begin(tmp_path, f"{ENTER}input()") for _ in range(2))
    assert killed.stdout
    assert living.stdout
    left, used = Path(killed.stdout.readline().strip()), Path(living.stdout.readline().strip())
    assert left.stat().st_mode & 0o777 == 0o700
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=PATIENCE_SECONDS)
    assert left.is_dir()
    begin(tmp_path, ENTER).communicate(timeout=PATIENCE_SECONDS)
    assert not left.exists()
    assert used.is_dir()
    assert foreign.is_dir()
    living.communicate("\n", timeout=PATIENCE_SECONDS)


def test_a_scratch_folder_is_gone_once_it_is_left(tmp_path: Path) -> None:
    program = "from capsule import places\nwith places.scratch() as f: (f / 'a').mkdir(); print(f)"
    output, _ = begin(tmp_path, program).communicate(timeout=PATIENCE_SECONDS)
    assert output.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
