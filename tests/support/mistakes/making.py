"""Ways to do something wrong: each makes a folder with the mistake, and says what is typed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.command import NOISY, Document, User, write_manifest, write_script

Prepare = Callable[[User, Path], Sequence[str | Path]]
"""Makes the mistake in the user's folder, with an honest capsule at hand; returns the arguments."""
HOST = ("--runtime", "host")


def make_benchmark(**changes: object) -> Document:
    benchmark: Document = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    return {key: value for key, value in {**benchmark, **changes}.items() if value is not None}


def run_manifest(
    *, benchmark: Mapping[str, object] | None = None, script: str = NOISY, **changes: object
) -> Prepare:
    """A run of a manifest with other fields, or of another benchmark."""

    def prepare(user: User, _: Path) -> Sequence[str | Path]:
        write_script(user.folder, script)
        fields = {"benchmarks": [make_benchmark(**(benchmark or {}))], **changes}
        return ["run", write_manifest(user.folder, **fields).name, *HOST]

    return prepare


def run_source(**source: object) -> Prepare:
    metrics = {"loss": {"from": source}}
    return run_manifest(benchmark={"metrics": metrics}, script="print('loss: 0.5')\n")


def run_claim(**changes: object) -> Prepare:
    claim: Document = {
        "metric": "tiny/default/command/loss",
        "type": "equivalence",
        "margin": {"absolute": 0.5},
    }
    fields = {key: value for key, value in {**claim, **changes}.items() if value is not None}
    return run_manifest(claims=[fields])


def run_text(change: Callable[[str], bytes], name: str = "tiny.json") -> Prepare:
    """A run of a manifest that is written otherwise."""

    def prepare(user: User, _: Path) -> Sequence[str | Path]:
        write_script(user.folder)
        path = write_manifest(user.folder)
        data = change(json.dumps(json.loads(path.read_text()), indent=1))
        path.unlink()
        (user.folder / name).write_bytes(data)
        return ["run", name, *HOST]

    return prepare


def run_script(text: str, **benchmark: Any) -> Prepare:
    """A run whose script does something else."""
    return run_manifest(benchmark=benchmark, script=text)


def run_with(*arguments: str) -> Prepare:
    """A run of an honest manifest with these options."""

    def prepare(user: User, _: Path) -> Sequence[str | Path]:
        write_script(user.folder)
        return ["run", write_manifest(user.folder, seeds=[1, 2]).name, *arguments]

    return prepare


def run_after(make: Callable[[Path], object], *arguments: str) -> Prepare:
    """As `_options`, once something was made in the folder."""

    def prepare(user: User, capsule: Path) -> Sequence[str | Path]:
        words = run_with(*arguments)(user, capsule)
        make(user.folder)
        return words

    return prepare


def run_file(name: str, text: str, mode: int = 0o644, **benchmark: Any) -> Prepare:
    """A run with a further input."""

    def prepare(user: User, capsule: Path) -> Sequence[str | Path]:
        path = user.folder / name
        path.write_bytes(text.encode())
        path.chmod(mode)
        return run_manifest(benchmark={"inputs": ["tiny.py", name], **benchmark})(user, capsule)

    return prepare


def on_capsule(*arguments: str, change: Callable[[Path], object] | None = None) -> Prepare:
    """A command on an honest capsule, `a.capsule.zip`, or on what was made of it."""

    def prepare(user: User, capsule: Path) -> Sequence[str | Path]:
        path = user.folder / "a.capsule.zip"
        shutil.copyfile(capsule, path)
        if change is not None:
            change(path)
        return arguments

    return prepare


def typed(*arguments: str, make: Callable[[Path], object] | None = None) -> Prepare:
    def prepare(user: User, _: Path) -> Sequence[str | Path]:
        if make is not None:
            make(user.folder)
        return arguments

    return prepare
