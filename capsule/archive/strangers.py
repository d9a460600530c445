"""Recognition of files that are often mistaken for a capsule."""

from __future__ import annotations

import os
import shlex
from itertools import islice
from pathlib import Path

from capsule.errors import DamagedError

_ZIP = b"PK\x03\x04"
_HEAD_BYTES = 512
_GET = "get the file itself, which ends in .capsule.zip"


def refuse_file(path: Path) -> None:
    """Stop at a file that does not begin as a zip does.

    Raises:
        DamagedError: Says what it seems to be.
        OSError: It cannot be read.
    """
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if head.startswith(_ZIP):
        return
    what, advice = _recognize(head)
    raise DamagedError(f"not a capsule: it {what}", where=str(path), advice=advice)


def _recognize(head: bytes) -> tuple[str, str]:
    start = head.lstrip().lower()
    if not head:
        return "is empty", "download the capsule again from its publisher"
    if start.startswith(b"%pdf"):
        return "is a PDF", "find the address of the capsule in the paper, and download the capsule"
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "is a web page", _GET
    if start.startswith(b"version https://git-lfs"):
        return "is a pointer of Git LFS", "fetch the file itself with `git lfs pull`"
    if start.startswith((b"{", b"[")):
        return "is JSON", "if the file is a manifest, seal a capsule with `capsule run`"
    if head.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")):
        return "is compressed in another format than zip", "unpack the file, and give the folder"
    return "is not a zip file", _GET


def refuse_folder(path: Path) -> None:
    """Stop at a folder that no capsule was unpacked to.

    Raises:
        DamagedError: Says what it seems to be.
    """
    if os.path.lexists(path / "bagit.txt"):
        return
    if os.path.lexists(path / "run.json"):
        raise DamagedError(
            "not a capsule: it is an unsealed run folder",
            where=str(path),
            advice=f"continue the run: capsule run --resume {shlex.quote(str(path))}",
        )
    inner = [one.parent for one in islice(path.glob("*/bagit.txt"), 2)]
    raise DamagedError(
        "not a capsule: a folder without bagit.txt",
        where=str(path),
        advice=f"the capsule is in a subfolder: give {shlex.quote(str(inner[0]))}"
        if len(inner) == 1
        else "give the capsule's file, or the folder that it was unpacked to",
    )
