"""The picture of the README is what its command draws."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_picture_is_fresh(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "flow.py"), str(tmp_path / "flow.svg")]
    subprocess.run(command, check=True)
    drawn = (tmp_path / "flow.svg").read_text()
    assert drawn == (ROOT / "docs" / "img" / "flow.svg").read_text()
