"""File names that a capsule may contain: names that mean one file on every system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from capsule.archive.limits import MOST_FOLDERS, MOST_NAME_BYTES

# what neither Windows reserves, nor a bag's list or `sha256sum` writes otherwise
_CHARACTERS = r"A-Za-z0-9_!#$&'()+,;=@\[\]^`{}~\-"
# it begins with no space, and ends in neither a space nor a dot; git would read what begins so
_OF_GIT = r"(?:\.[gG][iI][tT]|[gG][iI][tT]~)"
_INSIDE = rf"[{_CHARACTERS}.][{_CHARACTERS}. ]*[{_CHARACTERS}]"
_PART = rf"(?!{_OF_GIT})(?:[{_CHARACTERS}]|{_INSIDE})"
FOREIGN = rf"[^{_CHARACTERS.replace('=', '')}. ]+"
"""Characters that no name may contain, and their replacements."""
# what systems leave behind in folders that somebody looks at, or in zips that somebody makes
_LITTER = re.compile(
    r"(?i)\._.+|\.(?:DS_Store|AppleDouble|LSOverride|localized|fseventsd|Spotlight-V100|Trashes"
    r"|directory|nfs[0-9a-f]+)|__MACOSX|Icon\r|Thumbs\.db|desktop\.ini|@eaDir"
)
# the others are compiled where they are met, which in most capsules is nowhere
_PLAIN = re.compile(rf"{_PART}(?:/{_PART})*")
# opening one of these on Windows opens a device, whatever its extension
_NAMES = r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$) *"
_DEVICES = rf"(?i){_NAMES}(\..*)?"
_DEVICE = re.compile(rf"(?i)(?:^|/){_NAMES}(?:[./]|$)")


def fault(path: str) -> str | None:
    """Return why a path within a capsule is not allowed, None when it is.

    >>> fault("data/logs/stdout.txt")
    >>> fault("data/../etc/passwd")
    "'..' is not allowed in a name"
    """
    if len(path.encode("utf-8", "surrogatepass")) > MOST_NAME_BYTES:
        return f"longer than {MOST_NAME_BYTES} bytes"
    if _PLAIN.fullmatch(path) and not _DEVICE.search(path):
        return None
    for segment in path.split("/"):
        if not re.fullmatch(_PART, segment):
            return f"{segment!r} is not allowed in a name"
        if re.fullmatch(_DEVICES, segment):
            return f"{segment!r} is a device name on Windows"
    return None


def is_litter(path: str) -> bool:
    """Return whether a file, or a folder above it, has the name of an operating system's litter.

    >>> is_litter("data/.DS_Store"), is_litter("__MACOSX/data/._x"), is_litter("data/x.py")
    (True, True, False)
    """
    return any(map(_LITTER.fullmatch, path.split("/")))


def is_reserved(part: str) -> bool:
    """Return whether a part of a path is a device on Windows, or begins as what is git's does."""
    return bool(re.match(_OF_GIT, part) or re.fullmatch(_DEVICES, part))


def clashes(paths: Iterable[str]) -> list[str]:
    """Return clashes between names: equal but for case, or a file where a folder is needed.

    Args:
        paths: Sorted, so that the files below one folder follow each other.
    """
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    faults = []
    before: list[str] = []
    for path in paths:
        lower = path.lower()
        folded = path if lower == path else lower  # a quarter of a million names are held once
        if folded in files:
            faults.append(f"the names {path!r} and {files[folded]!r} differ only in letter case")
        files[folded] = path
        parts = path.split("/")[:-1]
        for depth in range(_common_depth(before, parts), len(parts)):
            parent = "/".join(parts[: depth + 1])
            other = folders.setdefault(parent.lower(), parent)
            if other != parent:
                faults.append(f"the folders {parent!r} and {other!r} differ only in letter case")
        if len(folders) > MOST_FOLDERS:
            return [*faults, f"more than {MOST_FOLDERS} folders"]
        before = parts
    faults += [f"{files[name]!r} is a file and a folder" for name in files if name in folders]
    return faults


def _common_depth(before: Sequence[str], parts: Sequence[str]) -> int:
    """Return the number of folders shared with the previous file, already checked with it."""
    pairs = enumerate(zip(before, parts, strict=False))
    return next((depth for depth, (a, b) in pairs if a != b), min(len(before), len(parts)))
