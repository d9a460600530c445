"""Paths in containers at which a site may bind files of its machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

# what capsule and engines show a workload by themselves, and all below it
_TAKEN = (
    *("/capsule", "/out", "/.singularity.d", "/proc", "/sys", "/dev"),
    *("/tmp", "/var/tmp"),  # noqa: S108 - a container's own
    *("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/group"),
    *("/etc/localtime", "/etc/mtab"),
)
# folders of an image's own programs, and all below them
_PROGRAMS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
_PLAIN = "write an absolute path without ., .., double /, a / at the end and control characters"
# folders that images keep what they are made of in: something below them is no matter
_WHOLE = re.compile(
    r"/(etc|home|media|mnt|opt|root|run|srv|usr|usr/local|var|var/run|boot)"
    r"|(/usr|/usr/local)?/(lib(exec|x?32|64)?(/[^/]+-linux-[^/]+)?|share|include)"
)


def bind_fault(target: str, source: str, others: Iterable[str]) -> tuple[str, str] | None:
    """Return why containers cannot be shown something there, and the way out; None where they can.

    Args:
        target: Path in the container.
        source: Path of this machine.
        others: All paths in the container that something is shown at.
    """
    for path in (target, source):
        # normpath leaves two slashes at the beginning as they are
        plain = os.path.normpath(path) == path and not path.startswith("//")
        if not plain or not path.isprintable():
            return f"expected a plain path, found {path!r}", _PLAIN
    elsewhere = "name another path in the container, for example below /opt"
    for taken in _TAKEN:
        if is_at_or_below(target, taken):
            return f"capsule and the engine set {taken} in containers", elsewhere
    for programs in _PROGRAMS:
        if is_at_or_below(target, programs):
            return f"the bind would hide programs of the image in {programs}", elsewhere
    if _WHOLE.fullmatch(target):
        return (
            f"the bind would hide everything that an image has in {target}",
            f"bind only the needed file or folder: {target}/...",
        )
    for other in others:
        if other != target and is_at_or_below(target, other):
            return (
                f"the path is inside {other}, which is bound read-only",
                "remove one of the two binds",
            )
    return None


def library_fault(path: str, targets: Iterable[str]) -> tuple[str, str] | None:
    """Return why a library of this machine is not where containers would look for it, and the way
    out.

    Args:
        path: In the container.
        targets: All paths in the container that something is shown at.
    """
    if os.path.normpath(path) != path or path.startswith("//"):
        return f"expected a plain path, found {path!r}", _PLAIN
    if not any(is_at_or_below(path, target) for target in targets):
        return (
            f"no bind covers {path}",
            "`mpi` names paths in the container: add the library's folder to `binds`",
        )
    return None


def is_at_or_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or leads to something in it."""
    return path == folder or path.startswith(f"{folder}/")
