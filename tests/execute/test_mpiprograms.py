"""Which program a command comes to, and whether it needs MPI: on the host, and in an image."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from capsule.execute import mpiprograms
from capsule.execute.workload import Setting
from capsule.launch.families import MpiProgram
from capsule.runtimes.base import Invocation, Mount, Prepared
from capsule.runtimes.host import Host
from tests.support.compiler import needs_compiler
from tests.support.launches import label

pytestmark = needs_compiler


class Contained(Host):
    """The host, with a folder of it that only containers see."""

    contained = True

    def inside(self, mount: Mount) -> str:
        """Where a container would see it."""
        return mount.target


class Started:
    """What of a setting is looked at."""

    def __init__(self, runtime: Host) -> None:
        self.runtime, self.prepared = runtime, Prepared(handle="")
        self.programs: dict[tuple[str, ...], MpiProgram | None] = {}


def build(folder: Path) -> None:
    """`pi`, which needs MPI; `far`, which needs it by a library; `plain`; and scripts."""
    (folder / "mpi.c").write_text("int begin(void) { return 0; }\n")
    (folder / "far.c").write_text("int begin(void);\nint solve(void) { return begin(); }\n")
    (folder / "pi.c").write_text("int begin(void);\nint main(void) { return begin(); }\n")
    (folder / "main.c").write_text("int solve(void);\nint main(void) { return solve(); }\n")
    (folder / "plain.c").write_text("int main(void) { return 0; }\n")
    here = "-Wl,-rpath,$ORIGIN"
    for words in (
        ("-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "mpi.c", "-o", "libmpi.so.40"),
        ("-shared", "-fPIC", "far.c", "-o", "libfar.so", "-L.", "-l:libmpi.so.40", here),
        ("pi.c", "-o", "pi", "-L.", "-l:libmpi.so.40", here),
        ("main.c", "-o", "far", "-L.", "-l:libfar.so", here, "-Wl,--allow-shlib-undefined"),
        ("plain.c", "-o", "plain"),
    ):
        subprocess.run(["cc", *words], cwd=folder, check=True, capture_output=True)
    for name, text in (("script", "#!/bin/sh\nexec ./pi\n"), ("python3", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "link").symlink_to("pi")


def find(
    folder: Path, runtime: Host, commands: Sequence[Sequence[str]], cwd: str, *mounts: Mount
) -> list[str | None]:
    """The library of MPI that the program of each command needs, each a rank's."""
    invocations = [
        Invocation(
            command=tuple(words),
            environment={"OUT": cwd},
            mounts=mounts,
            cwd=cwd,
            label=label(folder),
            stdout=folder / "out.txt",
            stderr=folder / "err.txt",
        )
        for words in commands
    ]
    setting = cast("Setting", Started(runtime))
    found = mpiprograms.find(invocations, setting, folder)
    assert not list(folder.glob("program.*"))
    return [one.library if one else None for one in found]


COMMANDS: dict[tuple[str, ...], bool] = {
    ("./pi",): True,
    ("./link",): True,
    ("./far",): True,
    ("pi",): True,
    ("env", "A=1", "./pi"): True,
    ("nice", "-n", "5", "pi"): True,
    ("timeout", "60", "env", "B=2", "./pi"): True,
    ("sh", "-c", "exec ./pi --steps 3"): True,
    ("bash", "-c", "cd $OUT; $OUT/pi"): True,
    ("./plain",): False,
    ("./script",): False,
    ("sh", "script"): False,
    ("python3", "./pi"): False,
    ("perl", "pi"): False,
    ("nowhere",): False,
    ("./nowhere",): False,
    (".",): False,
    ("sh", "-c", "it's ./pi"): False,
}


def test_what_counts_is_the_program_that_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    found = find(tmp_path, Host(), list(COMMANDS), str(tmp_path))
    assert dict(zip(COMMANDS, map(bool, found), strict=True)) == COMMANDS


@pytest.mark.parametrize(
    "words", [("pi",), ("env", "X=1", "pi"), ("/image/pi",), ("sh", "-c", "exec pi")]
)
def test_a_program_of_an_image_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    build(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    own = tuple(word.replace("/image", str(tmp_path)) for word in words)
    assert find(tmp_path, Contained(), [own, own], "/") == ["libmpi.so.40"] * 2
    assert find(tmp_path, Contained(), [("plain",), ("nowhere",), ("true",)], "/") == [None] * 3


def test_what_a_container_is_shown_is_read_on_the_host(tmp_path: Path) -> None:
    build(tmp_path)
    out = Mount(source=tmp_path, target="/out", writable=True)
    (tmp_path / "away").symlink_to("/bin/true")
    commands = [("/out/pi",), ("./pi",), ("../out/./far",), ("/out/plain",), ("/out/away",)]
    found = find(tmp_path, Contained(), commands, "/out", out)
    assert found == ["libmpi.so.40", "libmpi.so.40", "libmpi.so.40", None, None]


def test_where_a_loader_may_find_it_is_told(tmp_path: Path) -> None:
    build(tmp_path)
    setting = cast("Setting", Started(Host()))
    invocation = Invocation(
        command=("./pi",),
        environment={"LD_LIBRARY_PATH": "/opt/mpi:relative"},
        mounts=(),
        cwd=str(tmp_path),
        label=label(tmp_path),
        stdout=tmp_path / "out.txt",
        stderr=tmp_path / "err.txt",
    )
    (program,) = mpiprograms.find([invocation], setting, tmp_path)
    assert program is not None
    assert program.candidates == (
        f"{tmp_path}/libmpi.so.40",
        "/opt/mpi/libmpi.so.40",
        "libmpi.so.40",
    )
    assert program.family is not None
    assert program.family.name == "Open MPI"
