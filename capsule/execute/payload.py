"""What a run carries along from its start to its capsule: input files and the measuring program."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from capsule import __version__, archive, reading
from capsule.digest import of_sources
from capsule.errors import DamagedError
from capsule.execute.workspace import Workspace
from capsule.manifest import Manifest
from capsule.record import File

OWN_LEVELS = reading.OWN_LEVELS


def inputs(manifest: Manifest, folder: Path | None) -> dict[str, Path]:
    """Every input file: its path below `inputs/`, and where it lies now.

    Args:
        manifest: It names them.
        folder: What its paths are relative to.

    Raises:
        DamagedError: One is not there.
        UsageError: One has a name that a capsule cannot hold.
    """
    wanted = {name for benchmark in manifest.benchmarks for name in benchmark.inputs}
    if manifest.image is not None and manifest.image.build is not None:
        wanted.add(manifest.image.build)
    sources: dict[str, Path] = {}
    for name in sorted(wanted):
        path = folder / name if folder else None
        if path is None or not path.exists():
            raise DamagedError(f"the input {name} is not there", where=str(folder))
        files = sorted(file for file in path.rglob("*") if file.is_file()) or [path]
        sources |= {(Path(name) / file.relative_to(path)).as_posix(): file for file in files}
    archive.check_names(f"data/inputs/{name}" for name in sources)
    return sources


def fill(
    workspace: Workspace, manifest: Manifest, inputs: Mapping[str, Path], levels: Path
) -> None:
    """Copy into the run folder what must not change while the run is under way."""
    workspace.manifest.write_bytes(manifest.source)
    workspace.inputs.mkdir()
    copies = {workspace.inputs / name: source for name, source in inputs.items()}
    for path in _sources(levels):
        copies[workspace.levels / path.relative_to(levels)] = path
    for target, source in copies.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        # a capsule carries no modes: a script that can be run here can be run when it is verified
        target.chmod(0o755)


def files_to_carry(workspace: Workspace) -> list[File]:
    """The copies, as files of the capsule."""
    return [*_files(workspace.inputs, "inputs"), *_files(workspace.levels, "levels")]


def levels_facts(folder: Path) -> dict[str, str | None]:
    """Which measuring program this is: its tree digest, and our release if it is our own."""
    digest, own = of_sources(folder), of_sources(OWN_LEVELS)
    return {"digest": str(digest), "release": __version__ if digest == own else None}


def drop_release(facts: Mapping[str, str | None]) -> dict[str, str | None]:
    """What is known of a measuring program that was our own, and may have been followed since."""
    is_own = facts["digest"] == str(of_sources(OWN_LEVELS))
    outlived = facts["release"] == __version__ and not is_own
    return {**facts, "release": None if outlived else facts["release"]}


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.is_file())


def _files(folder: Path, prefix: str) -> list[File]:
    return [
        File(path=f"{prefix}/{path.relative_to(folder).as_posix()}", source=path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
