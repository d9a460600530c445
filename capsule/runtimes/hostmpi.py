"""This machine's own MPI and fabric, which its site file has ranks in containers use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from capsule.digest import of_file
from capsule.errors import CannotRunError, UsageError
from capsule.notes import LIBRARY
from capsule.runtimes import elf
from capsule.runtimes.base import Library, Mount, Prepared
from capsule.site import Site

_NAMED, _SEARCHED = "MPI4PY_LIBMPI", "LD_LIBRARY_PATH"
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64")


def find(site: Site, binds: tuple[Mount, ...]) -> tuple[Library, ...]:
    """Return the libraries that the site file names, MPI itself first, with what they are.

    Args:
        site: The settings.
        binds: What shows them to containers.

    Raises:
        CannotRunError: One is not here.
        UsageError: One is no shared library.
    """
    return tuple(_find(path, site, binds) for path in site.mpi)


def use(prepared: Prepared, libraries: tuple[Library, ...]) -> Prepared:
    """Return the same image with them, observed as `library libmpi.so.12`: where it is of, its
    digest.
    """
    recorded = {f"{LIBRARY}{one.name}": f"{one.place}, {one.digest}" for one in libraries}
    observations = {**prepared.observations, **recorded}
    return replace(prepared, observations=observations, libraries=libraries)


def variables(libraries: tuple[Library, ...], image: Mapping[str, str]) -> dict[str, str]:
    """Return variables by which loaders find the libraries before the image's; empty for none.

    An mpi4py that takes any MPI loads the first one by its name; one that was built for a single
    MPI finds it by the folder, as other programs find all of them.

    Args:
        libraries: MPI itself first.
        image: Variables that the image sets.
    """
    if not libraries:
        return {}
    folders = dict.fromkeys(str(PurePosixPath(one.path).parent) for one in libraries)
    searched = (*folders, image.get(_SEARCHED))
    return {_NAMED: libraries[0].path, _SEARCHED: os.pathsep.join(filter(None, searched))}


def _find(path: str, site: Site, binds: tuple[Mount, ...]) -> Library:
    where = site.where("/mpi")
    shown = next(one for one in binds if PurePosixPath(path).is_relative_to(one.target))
    inner = PurePosixPath(path).relative_to(shown.target)
    source = Path(os.path.realpath(shown.source / inner))
    if not source.is_file():
        raise CannotRunError(
            f"{source} does not exist on this machine; the site file binds it at {path}",
            where=where,
            advice="load or mount the library, or remove the library from the site file",
        )
    if not any(source.is_relative_to(one.source) for one in binds):
        raise UsageError(
            f"{path} links to {source}, which no bind covers",
            where=where,
            advice=f"bind {source.parent} at the same path in the site file",
        )
    name = elf.soname(source)
    if name is None:
        raise UsageError(
            f"{source} is not a shared library",
            where=where,
            advice="name the file that programs load, for example libmpi.so.12 (libmpi.so may be a"
            " linker script)",
        )
    return Library(
        path=path,
        name=name or source.name,
        place=_classify(source),
        digest=of_file(source),
    )


def _classify(source: Path) -> str:
    """Name the part of a machine that a path belongs to, as more telling than the path."""
    if str(source).startswith(tuple(f"{folder}/" for folder in _SYSTEM)):
        return "of the system"
    return f"below /{source.parts[1]}"
