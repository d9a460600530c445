"""Paths of this machine that its site file binds into every container, read-only."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from capsule import localpaths, schema
from capsule.errors import CannotRunError, UsageError
from capsule.notes import BIND
from capsule.runtimes.base import Mount, Prepared
from capsule.site import Site

# the kernel's own, and where services of a machine listen
_LIVE = ("/proc", "/sys", "/dev", "/run")
_TABLE = Path("/proc/self/mountinfo")


def find(site: Site) -> tuple[Mount, ...]:
    """Return every bind of the site, by its place in the container; links are followed now.

    Raises:
        CannotRunError: Something is not here.
        UsageError: Something is not to be shown: it leads to a home, to a service of the machine,
            or to what could be written.
    """
    return tuple(Mount(source=_find(target, site), target=target) for target in sorted(site.binds))


def show(prepared: Prepared, binds: tuple[Mount, ...]) -> Prepared:
    """Return the same image with binds, observed as `bind /opt/cray` with the path on this
    machine.
    """
    recorded = {f"{BIND}{bind.target}": str(bind.source) for bind in binds}
    return replace(prepared, observations={**prepared.observations, **recorded}, binds=binds)


def _find(target: str, site: Site) -> Path:
    where = site.where(f"/binds{schema.pointer(target)}")
    path = Path(os.path.realpath(site.binds[target]))
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise CannotRunError(
            f"cannot bind {site.binds[target]} at {target}: {error.strerror}",
            where=where,
            advice="load or mount the path, or remove the line from the site file",
        ) from None
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise UsageError(
            f"cannot bind {path}: expected a folder or a regular file",
            where=where,
            advice="name a folder or a file; request GPUs with gpus_per_rank in the manifest",
        )
    if fault := _fault(path):
        raise UsageError(f"cannot bind {path}: {fault[0]}", where=where, advice=fault[1])
    return path


def _fault(path: Path) -> tuple[str, str] | None:
    """Return why a folder or file is not to be shown, and the way out."""
    for home in localpaths.homes():
        if path.is_relative_to(home) or home.is_relative_to(path):
            return (
                f"the path overlaps your home {home}, which capsule hides from containers",
                "install the files outside of your home, such as below /opt or in a project folder",
            )
    for folder in map(Path, _LIVE):
        if path.is_relative_to(folder) or folder.is_relative_to(path):
            return (
                f"the path overlaps {folder}, which contains services of this machine",
                "name only the folder or file that containers need",
            )
    for mount in _writable_below(path):
        return (
            f"another file system is mounted in the folder, at {mount}, and engines leave"
            " such a mount writable",
            "bind only folders that contain no mount point",
        )
    return None


def _writable_below(folder: Path) -> Iterator[Path]:
    """Yield mount points below a folder that may be written."""
    try:
        lines = _TABLE.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(" ")
        path = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        if path != folder and path.is_relative_to(folder) and "ro" not in fields[5].split(","):
            yield path
