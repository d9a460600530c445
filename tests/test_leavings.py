"""What a workload left behind is read and removed, whatever it is."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from capsule import leavings

DEPTH = 3000


def make(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(path))
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to a file":
        (path.parent / "aim").write_text("secret")
        path.symlink_to(path.parent / "aim")
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "kind", ["nothing", "pipe", "socket", "folder", "link to a file", "link to a device"]
)
def test_only_a_regular_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
    path = tmp_path / "x"
    make(path, kind)
    assert not leavings.is_file(path)
    assert leavings.open_file(path) is None


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"text")
    stream = leavings.open_file(tmp_path / "x")
    assert stream is not None
    with stream:
        assert stream.read() == b"text"


def test_a_folder_is_removed_with_what_is_below_and_nothing_else(tmp_path: Path) -> None:
    beside, folder = tmp_path / "beside", tmp_path / "folder"
    beside.mkdir()
    (beside / "kept").write_text("kept")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    (folder / "a" / "out").symlink_to(beside)
    (folder / "top").symlink_to(beside)
    os.mkfifo(folder / "a" / "pipe")
    leavings.remove(folder)
    assert not folder.exists()
    assert (beside / "kept").read_text() == "kept"


def test_a_link_to_a_folder_is_removed_and_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    leavings.remove(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_no_depth_is_too_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for _ in range(DEPTH):
        Path("below").mkdir()
        os.chdir("below")
    monkeypatch.chdir(tmp_path)
    leavings.remove(folder)
    assert not folder.exists()


CLOSED = """
import os, sys
from pathlib import Path
from capsule import leavings
folder = Path(sys.argv[1])
(folder / "a" / "b").mkdir(parents=True)
(folder / "a" / "b" / "file").write_text("x")
for path, mode in ((folder / "a" / "b", 0), (folder / "a", 0o400), (folder, 0)):
    path.chmod(mode)
try:
    list(folder.iterdir())
except PermissionError:
    leavings.remove(folder)
    print(folder.exists())
"""
# root is kept out of no folder, unless it gives that up
MORTAL = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def test_modes_of_folders_do_not_keep_their_owner_out(tmp_path: Path) -> None:
    prefix = MORTAL if os.geteuid() == 0 else ()
    if prefix and shutil.which(prefix[0]) is None:
        pytest.skip("root has no program to give up its rights with")
    argv = [*prefix, sys.executable, "-c", CLOSED, str(tmp_path / "closed")]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.stdout == "False\n", ended.stderr
