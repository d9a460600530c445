"""What is remembered of shared memory that trials left, read as a file that anything may be in."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from capsule.execute import traces
from capsule.execute.traces import Earlier


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Earlier]:
    """A segment that is there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "capsule").mkdir()
    path = Path(f"/dev/shm/capsule-test-{secrets.token_hex(8)}")
    path.touch()
    status = path.stat()
    yield Earlier(
        path=str(path), device=status.st_dev, inode=status.st_ino, trial="b/d/c/1", at="2026"
    )
    path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        "[" * 5000,
        "{}",
        '{"path": 7, "device": 1, "inode": 1, "trial": "", "at": ""}',
        '{"path": "/dev/shm/\\u0000", "device": 1, "inode": 1, "trial": "", "at": ""}',
        '{"path": "/etc/passwd", "device": "1", "inode": [], "trial": 3, "at": null}',
        '{"path": "/dev/shm/a", "device": 1, "inode": 1, "trial": "", "at": "", "more": 1}',
        "\udcff",
    ],
)
def test_lines_that_are_none_are_left_out(tmp_path: Path, left: Earlier, line: str) -> None:
    lines = "\n".join((line, json.dumps(asdict(left)), line))
    (tmp_path / "capsule" / "segments.jsonl").write_text(lines, errors="surrogateescape")
    assert traces.read_ledger() == [left]


def test_what_is_gone_or_another_one_is_forgotten(tmp_path: Path, left: Earlier) -> None:
    (tmp_path / "capsule" / "segments.jsonl").write_text(json.dumps(asdict(left)))
    assert traces.read_ledger() == [left]
    Path(f"{left.path}-more").touch()
    Path(f"{left.path}-more").replace(left.path)
    assert traces.read_ledger() == []
