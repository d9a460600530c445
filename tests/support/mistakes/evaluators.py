"""What evaluators do wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.support.command import User, write_manifest, write_script
from tests.support.mistakes.making import (
    HOST,
    Prepare,
    on_capsule,
    typed,
)

PDF = b"%PDF-1.7\n" + b"x" * 5000


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    at = data.index(b'"title"') + 12
    data[at] ^= 1
    path.write_bytes(data)


def _seal_twice(user: User, _: Path) -> Sequence[str | Path]:
    """Resume a run that was sealed: its folder is gone."""
    write_script(user.folder)
    manifest = write_manifest(user.folder, seeds=[1, 2], claims=[])
    ended = user.run("run", manifest, *HOST, "--work", "w.run", "-o", "a.zip")
    assert ended.returncode == 0, ended.stderr
    return ["run", "--resume", "w.run"]


def _stop(user: User) -> None:
    write_script(user.folder, "raise SystemExit('no')\n")
    manifest = write_manifest(user.folder, seeds=[1, 2], claims=[])
    assert user.run("run", manifest, *HOST, "--work", "w.run").returncode == 5


def _resume_elsewhere(user: User, _: Path) -> Sequence[str | Path]:
    _stop(user)
    (user.folder / "w.run").rename(user.folder / "moved.run")
    return ["run", "--resume", "moved.run"]


def _verify_folder_of_run(user: User, _: Path) -> Sequence[str | Path]:
    _stop(user)
    return ["verify", "w.run"]


def _zip(folder: Path) -> None:
    shutil.make_archive(str(folder / "z"), "zip", folder)


PREPARE: dict[str, Prepare] = {
    "a capsule that is not there": typed("verify", "a.zip"),
    "a manifest to verify": typed("verify", "tiny.json", make=write_manifest),
    "a paper to verify": typed(
        "verify", "p.pdf", make=lambda folder: (folder / "p.pdf").write_bytes(PDF)
    ),
    "a folder to verify": typed("verify", "."),
    "the folder of a run to verify": _verify_folder_of_run,
    "another zip to verify": typed("verify", "z.zip", make=_zip),
    "half a capsule": on_capsule(
        "check",
        "a.capsule.zip",
        change=lambda path: os.truncate(path, path.stat().st_size // 2),
    ),
    "an empty capsule": on_capsule(
        "check", "a.capsule.zip", change=lambda path: os.truncate(path, 0)
    ),
    "a page that says not found": on_capsule(
        "check",
        "a.capsule.zip",
        change=lambda path: path.write_text("<!DOCTYPE html><html>404</html>"),
    ),
    "a capsule with another byte": on_capsule("check", "a.capsule.zip", change=_flip),
    "a stranger's capsule without trust": on_capsule("verify", "a.capsule.zip", *HOST),
    "a stranger's capsule on the host": on_capsule("verify", "a.capsule.zip", *HOST, "--trust"),
    "no runs": on_capsule("verify", "a.capsule.zip", "--runs", "0"),
    "the same capsule twice": on_capsule("diff", "a.capsule.zip", "a.capsule.zip"),
    "a diff of one": on_capsule("diff", "a.capsule.zip"),
    "a run resumed that was sealed": _seal_twice,
    "a run resumed elsewhere": _resume_elsewhere,
    "an address where a file is due": typed(
        "reread", "https://papers.example/a.capsule.zip", "--manifest", "corrected.json"
    ),
    "the image of a capsule without one": on_capsule("image", "save", "a.capsule.zip", "a.tar"),
    "a capsule resumed": on_capsule("run", "--resume", "a.capsule.zip"),
    "a manifest begun where one is": typed("init", "tiny.json", make=write_manifest),
    "a verification added that is none": on_capsule(
        "verify",
        "a.capsule.zip",
        "--add",
        "a.capsule.zip",
        "--trust",
        "--allow-host",
        *HOST,
    ),
}
