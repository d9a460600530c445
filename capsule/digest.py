"""Name bytes by their SHA-256, and write JSON in one canonical form so that it has one name."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from capsule.errors import DamagedError, UsageError

_FORM = re.compile(r"sha256:[0-9a-f]{64}")
_ID = re.compile(r"(?:sha256:)?(?P<hex>[0-9a-f]{12,64})")


@dataclass(frozen=True, kw_only=True, order=True, slots=True)
class Digest:
    """A SHA-256 in the form that registries use: `sha256:` and 64 lower-case hex digits."""

    hex: str

    @classmethod
    def parse(cls, text: str, *, where: str | None = None) -> Digest:
        """Read `sha256:<hex>`; any other algorithm, case or length is refused.

        Raises:
            UsageError: `text` is not a digest in that form.
        """
        if not _FORM.fullmatch(text):
            raise UsageError(
                f"not a digest: {text!r}",
                where=where,
                advice="write 'sha256:' and 64 lower-case hex digits",
            )
        return cls(hex=text.removeprefix("sha256:"))

    def __str__(self) -> str:
        return f"sha256:{self.hex}"


def parse_id(text: str) -> str:
    """Parse the id of a capsule, or its beginning of at least 12 hex digits, as papers print it.

    Raises:
        UsageError: It is neither.

    >>> parse_id("SHA256:E3B0C44298FC")
    'e3b0c44298fc'
    """
    match = _ID.fullmatch(text.lower())
    if match is None:
        raise UsageError(
            f"expected a capsule id, found {text!r}",
            advice="give all 64 hex digits of the id, or at least the first 12",
        )
    return match["hex"]


def of_bytes(data: bytes) -> Digest:
    """Return the digest of bytes in memory.

    >>> str(of_bytes(b""))[:19]
    'sha256:e3b0c44298fc'
    """
    return Digest(hex=hashlib.sha256(data).hexdigest())


def of_stream(stream: BufferedIOBase) -> Digest:
    """Return the digest of a binary stream from its position to its end."""
    return Digest(hex=hashlib.file_digest(stream, "sha256").hexdigest())


def of_file(path: Path) -> Digest:
    """Return the digest of a file's bytes.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as stream:
        return of_stream(stream)


def of_pieces(pieces: Iterable[bytes]) -> Digest:
    """Return the digest of bytes given in pieces."""
    hasher = hashlib.sha256()
    for piece in pieces:
        hasher.update(piece)
    return Digest(hex=hasher.hexdigest())


def of_json(value: object) -> Digest:
    """Return the digest of a JSON value in canonical form."""
    return of_bytes(canonical_json(value))


def expect(
    actual: Digest,
    expected: Digest,
    *,
    what: str,
    where: str | None = None,
    advice: str | None = None,
) -> None:
    """Stop unless two digests are equal.

    Raises:
        DamagedError: Names both digests.
    """
    if actual != expected:
        raise DamagedError(f"{what} is {actual}, expected {expected}", where=where, advice=advice)


def canonical_json(value: object) -> bytes:
    """Return a JSON value as canonical bytes: sorted keys, no spaces, UTF-8, shortest floats.

    Raises:
        ValueError: The value holds NaN or an infinity, which JSON has not.

    >>> canonical_json({"b": 1, "a": [1.5, "é"]}).decode()
    '{"a":[1.5,"é"],"b":1}'
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def of_tree(files: Mapping[str, Digest]) -> Digest:
    """Return the digest of a folder, given the digest of each file below it.

    It is the SHA-256 of what `sha256sum` prints for the files, sorted bytewise by their path below
    the folder: one line `<hex>  <path>` each, where a path with a backslash has two of it, and the
    line another one in front. Modes, times, owners, empty folders do not count.

    >>> str(of_tree({}))[:19]
    'sha256:e3b0c44298fc'
    """
    ordered = sorted((path.encode(), digest.hex) for path, digest in files.items())
    return of_bytes(b"".join(_line(path, hex_.encode()) for path, hex_ in ordered))


def _line(path: bytes, hex_: bytes) -> bytes:
    if b"\\" not in path:
        return hex_ + b"  " + path + b"\n"
    return b"\\" + hex_ + b"  " + path.replace(b"\\", b"\\\\") + b"\n"


def of_sources(folder: Path, parts: tuple[str, ...] = ("",)) -> Digest:
    """Return the tree digest of the Python files below a folder.

    Args:
        folder: The folder.
        parts: Those alone whose paths below it begin with one of these.

    Raises:
        OSError: One cannot be read.
    """
    # a path object for each file takes as long as reading it
    top = len(str(folder)) + 1
    digests: dict[str, Digest] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = f"{parent}/{name}"
            if name.endswith(".py") and path.startswith(parts, top):
                with open(path, "rb", buffering=0) as stream:  # noqa: PTH123
                    digests[path[top:]] = of_bytes(stream.read())
    return of_tree(digests)
