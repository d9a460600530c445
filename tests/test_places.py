"""Folders that are one user's alone; scratch folders of killed processes go, others stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from capsule import places
from capsule.errors import CannotRunError
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


def test_a_scratch_folder_that_another_process_swept_before_its_lock_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chmod = Path.chmod
    swept: list[Path] = []

    def sweep_first(path: Path, mode: int) -> None:
        if not swept:
            swept.append(path)
            places.sweep(tmp_path)
        chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", sweep_first)
    with places.scratch(tmp_path) as folder:
        assert not swept[0].exists()
        assert folder.is_dir()


SOMEBODY = 54321


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_a_private_folder_is_made_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "parent" / "1234"
    folder.parent.mkdir()
    before = os.umask(umask)
    try:
        places.make_private(folder, advice="")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o7777 == 0o700
    places.make_private(folder, advice="")


def test_a_folder_that_others_may_read_becomes_private(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o755)
    places.make_private(tmp_path / "own", advice="")
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


def _link(place: Path) -> None:
    (place.parent / "elsewhere").mkdir(mode=0o700)
    place.symlink_to("elsewhere")


def _open(place: Path) -> None:
    place.mkdir()
    place.chmod(0o770)


def _give_away(place: Path) -> None:
    place.mkdir(mode=0o700)
    os.chown(place, SOMEBODY, SOMEBODY)


@pytest.mark.parametrize(
    "plant",
    [
        _link,
        lambda place: place.symlink_to("nowhere"),
        lambda place: place.write_bytes(b""),
        _open,
        pytest.param(
            _give_away,
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away"),
        ),
    ],
)
def test_what_is_not_ones_own_is_refused(tmp_path: Path, plant: Callable[[Path], object]) -> None:
    plant(tmp_path / "1234")
    before = (tmp_path / "1234").lstat()
    with pytest.raises(CannotRunError) as caught:
        places.make_private(tmp_path / "1234", advice="name another one")
    assert caught.value.advice == "name another one"
    assert (tmp_path / "1234").lstat().st_mode == before.st_mode


def test_a_folder_that_cannot_be_made_is_left_to_who_needs_it() -> None:
    places.make_private(Path("/proc/none/1234"), advice="")
    assert not Path("/proc/none").exists()
