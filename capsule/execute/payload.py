"""What a run carries along from its start to its capsule: input files and the measuring program."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from capsule import __version__, archive, reading
from capsule.digest import Digest, of_file, of_sources, of_tree
from capsule.errors import DamagedError, UsageError
from capsule.execute.workspace import Workspace, read_file
from capsule.manifest import Manifest
from capsule.record import File

OWN_LEVELS = reading.OWN_LEVELS
_LEVELS = "levels/"
_CHUNK_BYTES = 1 << 20


def inputs(manifest: Manifest, folder: Path | None) -> dict[str, Path]:
    """Every input file: its path below `inputs/`, and where it lies now.

    No link is followed, not even one that stays inside: a capsule has files alone, and what a link
    of somebody else's folder leads to would be sealed and published in its place, unseen.

    Args:
        manifest: It names them.
        folder: What its paths are relative to.

    Raises:
        DamagedError: One is not there.
        UsageError: One has a name that a capsule cannot hold, or is no plain file of its own.
    """
    sources: dict[str, Path] = {}
    for name in sorted(_input_names(manifest)):
        if folder is None or not os.path.lexists(folder / name):
            raise DamagedError(f"the input {name} is not there", where=str(folder))
        sources |= _below(folder, name)
    archive.check_names(f"data/inputs/{name}" for name in sources)
    return sources


def _input_names(manifest: Manifest) -> set[str]:
    names = {name for benchmark in manifest.benchmarks for name in benchmark.inputs}
    if manifest.image is not None and manifest.image.build is not None:
        names.add(manifest.image.build)
    return names


def _below(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """The files of one input in the order of their names, which have no link on their way."""
    parents = Path(name).parents
    for parent in reversed(parents[:-1]):
        _status(folder, parent.as_posix())
    names, files = [name], []
    while names:
        here = names.pop()
        if not stat.S_ISDIR(_status(folder, here).st_mode):
            files.append(here)
            continue
        try:
            names += [f"{here}/{below}" for below in os.listdir(folder / here)]  # noqa: PTH208
        except OSError as error:
            raise _refusal(here, f"cannot be read: {error.strerror}", "make it readable") from None
    if not files:
        raise _refusal(name, "is a folder without a file", "put one there, or leave it out")
    return ((file, folder / file) for file in sorted(files))


def _status(folder: Path, name: str) -> os.stat_result:
    """Of a folder, or of a file that only this name leads to.

    Raises:
        UsageError: It is something else.
    """
    try:
        status = (folder / name).lstat()
    except OSError as error:
        raise _refusal(name, f"cannot be read: {error.strerror}", "make it readable") from None
    if stat.S_ISLNK(status.st_mode):
        target = (folder / name).readlink()
        raise _refusal(
            name,
            f"is a link, to {str(target)!a}, and no link is followed into a capsule",
            "copy what it leads to in its place, if it may be published",
        )
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise _refusal(name, "is neither a file nor a folder", "take it out of the inputs")
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        raise _refusal(
            name,
            f"has {status.st_nlink} names (hard links), of which others may be no inputs",
            "put a copy of its own in its place, if it may be published",
        )
    return status


def _refusal(name: str, what: str, advice: str) -> UsageError:
    return UsageError(f"the input {name!a} {what}", where="/benchmarks", advice=advice)


def fill(
    workspace: Workspace, manifest: Manifest, inputs: Mapping[str, Path], levels: Path
) -> None:
    """Copy into the run folder what must not change while the run is under way, and hash it."""
    workspace.manifest.write_bytes(manifest.source)
    workspace.inputs.mkdir()
    copies = {f"inputs/{name}": source for name, source in inputs.items()}
    for path in _sources(levels):
        copies[f"levels/{path.relative_to(levels).as_posix()}"] = path
    digests = {
        name: _copy(source, workspace.folder / name, follow=name.startswith("levels/"))
        for name, source in copies.items()
    }
    lines = [f"{file_digest.hex}  {name}\n" for name, file_digest in sorted(digests.items())]
    workspace.digests.write_text("".join(lines))


def _copy(source: Path, target: Path, *, follow: bool) -> Digest:
    """Copy a file; returns the digest of what was copied."""
    target.parent.mkdir(parents=True, exist_ok=True)
    hasher = hashlib.sha256()
    # a link or FIFO that came since the inputs were listed is an error, and nothing is waited for
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    # a capsule carries no modes: a script that can be run here can be run when it is verified
    made = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with (
        open(os.open(source, flags), "rb", buffering=0) as stream,  # noqa: PTH123 - has a handle
        open(os.open(target, made, 0o777), "wb", buffering=0) as copy,  # noqa: PTH123
    ):
        while chunk := stream.read(_CHUNK_BYTES):
            hasher.update(chunk)
            copy.write(chunk)
    return Digest(hex=hasher.hexdigest())


def files_to_carry(workspace: Workspace) -> list[File]:
    """The copies, as files of the capsule, each with the digest that it had when it was copied."""
    return [
        File(path=name, source=workspace.folder / name, digest=file_digest)
        for name, file_digest in _digests(workspace).items()
    ]


def check_copies(workspace: Workspace, manifest: Manifest) -> None:
    """Stop before a run goes on with other inputs, or another program, than it was begun with.

    Raises:
        DamagedError: A copy in its folder was changed since, or the list of them was.
    """
    digests = _digests(workspace)
    program = {
        name.removeprefix(_LEVELS): file_digest
        for name, file_digest in digests.items()
        if name.startswith(_LEVELS)
    }
    carried = {str(parent) for name in digests for parent in (name, *Path(name).parents)}
    if str(of_tree(program)) != workspace.header.setup.levels["digest"] or not carried.issuperset(
        f"inputs/{name}" for name in _input_names(manifest)
    ):
        raise _list_error(workspace)
    for name, file_digest in digests.items():
        path = workspace.folder / name
        try:
            same = of_file(path) == file_digest
        except OSError:
            same = False
        if not same:
            raise archive.change_error(name, path)


def _digests(workspace: Workspace) -> dict[str, Digest]:
    """What was copied, by its path in the run folder.

    Raises:
        DamagedError: The list of it is not as it was written.
    """
    try:
        lines = read_file(workspace.digests).decode().splitlines()
        pairs = [line.split("  ", 1) for line in lines]
        digests = {name: Digest.parse(f"sha256:{hexadecimal}") for hexadecimal, name in pairs}
    except (OSError, ValueError, UsageError):
        raise _list_error(workspace) from None
    if not all(name.startswith(("inputs/", _LEVELS)) for name in digests):
        raise _list_error(workspace)
    return digests


def _list_error(workspace: Workspace) -> DamagedError:
    return DamagedError(
        "this is not the list of what the run copied",
        where=str(workspace.digests),
        advice="its folder was changed; begin anew",
    )


def levels_facts(folder: Path) -> dict[str, str | None]:
    """Which measuring program this is: its tree digest, and our release if it is our own."""
    digest, own = of_sources(folder), of_sources(OWN_LEVELS)
    return {"digest": str(digest), "release": __version__ if digest == own else None}


def drop_release(facts: Mapping[str, str | None]) -> dict[str, str | None]:
    """What is known of a measuring program that was our own, and may have been followed since."""
    is_own = facts["digest"] == str(of_sources(OWN_LEVELS))
    outlived = facts["release"] == __version__ and not is_own
    return {**facts, "release": None if outlived else facts["release"]}


def program(folder: Path) -> str | None:
    """The tree digest of a measuring program, None where its folder holds more than its sources."""
    if any(path.suffix != ".py" and not path.is_dir() for path in folder.rglob("*")):
        return None
    return str(of_sources(folder))


def own_program() -> str:
    """The tree digest of this version's measuring program."""
    return str(of_sources(OWN_LEVELS))


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if path.is_file())
