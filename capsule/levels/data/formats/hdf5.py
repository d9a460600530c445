"""HDF5: datasets of numbers by their paths, such as `climate/data`.

What a dataset is read from must be its own file: HDF5 also knows links to others, and datasets
whose bytes lie in them, by which a file could have any other one of the machine read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from . import files
from .files import FormatError

Cut = tuple[slice, ...]
"""The part of a dataset that is read, along its first axes."""


def read(path: Path, names: Sequence[str], cut: Cut = ()) -> list[Any]:
    """Return some datasets of a file.

    Args:
        path: Path of the file.
        names: Names of the datasets with their groups, separated by slashes.
        cut: Read of the first of them.

    Returns:
        Arrays of integers or floats, in the file's own types and shapes.

    Raises:
        FormatError: It is no HDF5 file, has no such dataset, or one that is not plain numbers in
            the file itself, or claims more than `files.most_bytes`.
        ModuleNotFoundError: h5py is not installed.
        OSError: It cannot be read.
    """
    return _look(path, names, lambda dataset, first: dataset[cut if first else ()])


def shapes(path: Path, names: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the shapes of some datasets; raises the errors of `read`."""
    return _look(path, names, lambda dataset, _: tuple(map(int, dataset.shape)))


def _look(path: Path, names: Sequence[str], take: Callable[[Any, bool], Any]) -> list[Any]:
    """Return a selection of some datasets, given which of them is the first."""
    h5py = _import()
    if not path.is_file():
        raise FormatError(path, "is missing, or not a file")
    most = files.most_bytes(path.stat().st_size)
    try:
        # a file that is only read needs no lock, which some parallel file systems refuse
        with h5py.File(path, "r", locking=False) as file:
            return [take(_find(h5py, file, name, path, most), name is names[0]) for name in names]
    except FormatError:
        raise
    except Exception as error:  # whatever HDF5 ends by on bytes that are not its own
        raise FormatError(path, f"cannot be read as HDF5: {_say(error)}") from None


def _find(h5py: Any, file: Any, where: str, path: Path, most: int) -> Any:
    holder = file
    for part in where.split("/"):
        if not isinstance(holder, h5py.Group) or part not in holder:
            raise FormatError(path, f"has no dataset {where}")
        if not isinstance(holder.get(part, getlink=True), h5py.HardLink):
            raise FormatError(
                path,
                f"has a link as {where}, which capsule does not follow: store the dataset itself",
            )
        holder = holder[part]
    if not isinstance(holder, h5py.Dataset):
        raise FormatError(path, f"has no dataset {where}")
    if holder.is_virtual or holder.external:
        raise FormatError(
            path,
            f"has {where} in other files, which capsule does not read: store the dataset in this"
            " file",
        )
    if holder.dtype.kind not in "iuf" or holder.shape is None or not holder.size:
        found = f"{holder.dtype} {holder.shape}"
        raise FormatError(path, f"has {where} of {found}, expected at least 1 integer or float")
    for shape in filter(None, (holder.shape, holder.chunks)):
        claim = holder.dtype.itemsize
        for length in shape:
            claim *= int(length)
        if claim > most:
            claimed = f"{claim / 2**30:.1f} GiB" if claim >= 2**30 else f"{claim / 2**20:.1f} MiB"
            raise FormatError(
                path,
                f"claims {claimed} for {where}, more than {files.MOST_GROWTH} times"
                " the size of the file, the most that capsule reads",
            )
    return holder


def write(arrays: Mapping[str, Any], path: Path) -> None:
    """Write what `read` reads.

    Args:
        arrays: By their paths in the file.
        path: Path of the file.

    Raises:
        ModuleNotFoundError: h5py is not installed.
        OSError: It cannot be written.
    """
    h5py = _import()
    # the oldest form, which no newer library writes otherwise
    with h5py.File(path, "w", libver="earliest") as file:
        for name in sorted(arrays):
            file.create_dataset(name, data=arrays[name], track_times=False)


def _import() -> Any:
    try:
        import h5py
    except ModuleNotFoundError as error:
        if error.name != "h5py":
            raise
        message = "h5py, which reads and writes HDF5, is not installed: pip install h5py"
        raise ModuleNotFoundError(message, name="h5py") from None
    return h5py


def _say(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
