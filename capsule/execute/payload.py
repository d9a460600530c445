"""Files that a run carries into its capsule: inputs and the measuring code."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from capsule import __version__, archive, reading
from capsule.digest import Digest, of_file, of_sources, of_tree
from capsule.errors import DamagedError, UsageError
from capsule.execute import embedding
from capsule.execute import inputs as input_files
from capsule.execute.workingcopy import WorkingCopy
from capsule.execute.workspace import Workspace, read_file
from capsule.manifest import Manifest, commands
from capsule.program import parts
from capsule.record import Dataset, File

OWN_LEVELS = reading.OWN_LEVELS
_LEVELS, _INPUTS = "levels/", "inputs/"
_CHUNK_BYTES = 1 << 20
_RULER = re.compile(r"(?m)^RULER = ([1-9][0-9]{0,5})$")


def fill(
    workspace: Workspace,
    manifest: Manifest,
    copied: Mapping[str, Path],
    levels: Path,
    datasets: Sequence[Dataset],
) -> None:
    """Copy into the run folder what must not change while the run is under way, and hash it.

    Args:
        workspace: The run folder.
        manifest: What runs.
        copied: Inputs and small data, by their paths below `data/`.
        levels: Folder of the measuring code.
        datasets: What the run uses.

    Raises:
        DamagedError: A dataset changed while it was copied.
    """
    workspace.manifest.write_bytes(manifest.source)
    workspace.inputs.mkdir()
    copies = dict(copied)
    for path in _sources(levels, manifest):
        copies[f"levels/{path.relative_to(levels).as_posix()}"] = path
    digests = {
        name: _copy(source, workspace.folder / name, follow=name.startswith("levels/"))
        for name, source in copies.items()
    }
    lines = [f"{file_digest.hex}  {name}\n" for name, file_digest in sorted(digests.items())]
    workspace.digests.write_text("".join(lines), encoding="utf-8")
    _check_datasets(digests, datasets)


def _check_datasets(digests: Mapping[str, Digest], datasets: Sequence[Dataset]) -> None:
    """Stop before a run begins with copies of data that changed while it was copied.

    Raises:
        DamagedError: Names the dataset.
    """
    for dataset in datasets:
        top = f"{embedding.FOLDER}{dataset.name}/"
        files = {name.removeprefix(top): digests[name] for name in digests if name.startswith(top)}
        one = {str(next(iter(files.values())))} if len(files) == 1 else set()
        if dataset.embedded and dataset.digest not in {str(of_tree(files)), *one}:
            raise DamagedError(
                f"dataset {dataset.name!r} changed while it was copied",
                where=f"/datasets/{dataset.name}",
                advice="run again when no process writes to the dataset",
            )


def place_datasets(
    workspace: Workspace, datasets: Sequence[Dataset], places: Mapping[str, Path]
) -> dict[str, Path]:
    """Return the places of the dataset copies that a run carries.

    Args:
        workspace: The run folder.
        datasets: All that it uses.
        places: Where each lay when it was copied.
    """
    return {
        one.name: embedding.within(workspace.datasets, one, places[one.name])
        for one in datasets
        if one.embedded
    }


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
    """Return the copies, as files of the capsule, each with the digest that it had when it was
    copied.
    """
    return [
        File(path=name, source=workspace.folder / name, digest=file_digest)
        for name, file_digest in _digests(workspace).items()
    ]


def restore_inputs(workspace: Workspace, writable: Sequence[str]) -> list[str]:
    """Make the inputs that workloads may write in what they were when they were sealed.

    Args:
        workspace: The run folder.
        writable: Paths of input folders, `.` for all inputs; none where nothing can be written.

    Returns:
        What had been changed there since the last call: paths below the inputs' folder.

    Raises:
        DamagedError: An input was changed where no workload is to find it.
        ExecutionError: Something cannot be written, or removed.
    """
    if not writable:
        return []
    if workspace.copy is not None:
        return [name.removeprefix(_INPUTS) for name in workspace.copy.restore()]
    folders = [_INPUTS.rstrip("/") if name == "." else f"{_INPUTS}{name}" for name in writable]
    digests = {
        name: file_digest
        for name, file_digest in _digests(workspace).items()
        if commands.is_below(name, folders)
    }
    workspace.copy = WorkingCopy(workspace.work, workspace.folder, digests, ["inputs"])
    return []


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
        _INPUTS.rstrip("/") if name == "." else f"{_INPUTS}{name}"
        for name in input_files.names(manifest)
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
    """Return the digests of copied files, by path in the run folder.

    Raises:
        DamagedError: The list of it is not as it was written.
    """
    try:
        lines = read_file(workspace.digests).decode().splitlines()
        pairs = [line.split("  ", 1) for line in lines]
        digests = {name: Digest.parse(f"sha256:{hexadecimal}") for hexadecimal, name in pairs}
    except (OSError, ValueError, UsageError):
        raise _list_error(workspace) from None
    tops = (_INPUTS, embedding.FOLDER, _LEVELS)
    if not all(name.startswith(tops) and _is_plain(name) for name in digests):
        raise _list_error(workspace)
    return digests


def _is_plain(name: str) -> bool:
    """Return whether a path leads down alone: what lies beside the copies is removed before each
    start.
    """
    return not {"", ".", ".."} & set(name.split("/"))


def _list_error(workspace: Workspace) -> DamagedError:
    return DamagedError(
        "the list of copied files was changed",
        where=str(workspace.digests),
        advice="start a new run",
    )


def levels_facts(folder: Path, manifest: Manifest) -> dict[str, str | None]:
    """Return digest, release and rules of the measuring code.

    Args:
        folder: Where it lies.
        manifest: Whose benchmarks need it, of our own no more than they do.
    """
    own = reading.own_program(manifest)
    digest = own if folder == OWN_LEVELS else str(of_sources(folder))
    release = __version__ if digest == own else None
    return {"digest": digest, "release": release, "ruler": _read_ruler(folder, manifest)}


def _read_ruler(folder: Path, manifest: Manifest) -> str | None:
    """Return the number of a program's rules of bounds; see `capsule.levels.catalog.ruler`."""
    path = folder / "catalog" / "ruler.py"
    if path not in _sources(folder, manifest):
        return None
    number = _RULER.search(path.read_text(encoding="utf-8"))
    return number[1] if number else None


def drop_release(facts: Mapping[str, str | None], manifest: Manifest) -> dict[str, str | None]:
    """Return the facts about a measuring code without its release, if that has passed."""
    is_own = facts["digest"] == reading.own_program(manifest)
    outlived = facts["release"] == __version__ and not is_own
    return {**facts, "release": None if outlived else facts["release"]}


def program(folder: Path) -> str | None:
    """Return the tree digest of a measuring code, None where its folder holds more than its
    sources.
    """
    if any(path.suffix != ".py" and not path.is_dir() for path in folder.rglob("*")):
        return None
    return str(of_sources(folder))


def _sources(folder: Path, manifest: Manifest) -> list[Path]:
    # a capsule's own program is whatever its version says that it needs
    needed = parts(manifest) if folder == OWN_LEVELS else ("",)
    return sorted(
        path
        for path in folder.rglob("*.py")
        if path.is_file() and path.relative_to(folder).as_posix().startswith(needed)
    )
