"""The BagIt 1.0 layer: which files there are, and the SHA-256 of each (RFC 8493)."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from capsule import digest
from capsule.archive import names
from capsule.archive.container import CHUNK
from capsule.archive.table import Digests, Table
from capsule.digest import Digest
from capsule.errors import DamagedError
from capsule.record import Record
from capsule.sizes import size

BAGIT, INFO = "bagit.txt", "bag-info.txt"
MANIFEST, TAG_MANIFEST = "manifest-sha256.txt", "tagmanifest-sha256.txt"
TAGGED = (INFO, BAGIT, MANIFEST)
PAYLOAD = "data/"
DECLARATION = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"

_LINE = re.compile(rb"([0-9a-f]{64})  ([\x20-\x7e]+)\n")
_SIGNATURE = re.compile(r"signatures/[A-Za-z0-9_-][A-Za-z0-9._-]*\.sig")
_MAX_SIGNATURE_BYTES = 16 * 1024
_MAX_TAG_BYTES = 64 << 20
_SHOWN = 20


class Source(Protocol):
    """A capsule's files, zipped or in a folder."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return every file's path and size in bytes, sorted by path."""

    def chunks(self, name: str, most: int = CHUNK) -> Iterator[bytes]:
        """Return the bytes of a file, at most so many at a time."""

    @property
    def close(self) -> Callable[[], object]:
        """Lets go of what is open; it may be called twice."""


def info(record: Record, *, payload_bytes: int, payload_files: int) -> bytes:
    """Return the text of bag-info.txt, which says nothing that the record does not."""
    return (
        f"Bag-Software-Agent: capsule-hpc {record.tool}\n"
        f"Bagging-Date: {record.ended[:10]}\n"
        f"External-Identifier: urn:uuid:{record.uuid}\n"
        f"Payload-Oxum: {payload_bytes}.{payload_files}\n"
    ).encode()


def manifest(digests: Mapping[str, Digest]) -> bytes:
    r"""Return the text of a bag manifest: what `sha256sum` prints, sorted by path.

    >>> manifest({"data/a": Digest(hex="0" * 64)})[-9:]
    b'  data/a\n'
    """
    return "".join(f"{digests[path].hex}  {path}\n" for path in sorted(digests)).encode()


def parse_manifest(data: bytes, *, where: str) -> Mapping[str, Digest]:
    """Read a bag manifest that `manifest` could have written.

    Raises:
        DamagedError: A line is in another form, out of order or there twice.
    """
    paths, digests = list[str](), Digests()
    before = ""
    for number, line in enumerate(io.BytesIO(data), 1):
        match = _LINE.fullmatch(line)
        if not match:
            start = line[:90].decode("ascii", "replace")
            raise DamagedError(
                f"line {number} is {start!r}, expected '<sha256>  <path>'", where=where
            )
        path = match[2].decode()
        if path <= before:
            raise DamagedError(
                f"line {number} lists {path[:200]!r} after {before[:200]!r}, expected ascending"
                " paths",
                where=where,
            )
        paths.append(path)
        digests.append(bytes.fromhex(match[1].decode()))
        before = path
    return Table(paths, digests)


def identify(source: Source, expected: str | None, *, where: str) -> str:
    """Return the id of a capsule, of which nothing else is looked at.

    Args:
        source: Its files.
        expected: How its id has to begin, None for any.
        where: The capsule's name in messages.

    Raises:
        DamagedError: It has none, or another one.
    """
    if TAG_MANIFEST not in source.sizes:
        raise DamagedError(
            f"not a capsule: {TAG_MANIFEST} is missing",
            where=where,
            advice="download the capsule again from its publisher",
        )
    name = digest.of_bytes(_small(source, TAG_MANIFEST, where)).hex
    if expected is not None and not name.startswith(expected):
        raise DamagedError(
            f"another capsule than requested: its id is {name}, expected {expected}",
            where=where,
            advice="download the capsule from its publisher, and compare its id with the paper's",
        )
    return name


def verify(
    source: Source, *, where: str, keep: Collection[str] = ()
) -> tuple[Mapping[str, Digest], dict[str, bytes]]:
    """Hold every file against the manifests, and find every defect before saying any.

    Args:
        source: The files.
        where: The capsule's name in messages.
        keep: Paths of files that are wanted afterwards, and need not be read twice.

    Returns:
        The digest of each file, by path; that of `TAG_MANIFEST` is the capsule's id. Then the bytes
        of the files to keep.

    Raises:
        DamagedError: Lists what is missing, changed, surplus or has a name that is not allowed.
    """
    litter = [name for name in source.sizes if names.is_litter(name)]
    _refuse(_name_faults(_without(source.sizes, litter)), where)
    absent = [name for name in (*TAGGED, TAG_MANIFEST) if name not in source.sizes]
    _refuse([f"missing {name}" for name in absent], where)
    tags = parse_manifest(_small(source, TAG_MANIFEST, where), where=f"{where}:{TAG_MANIFEST}")
    payload = parse_manifest(_small(source, MANIFEST, where), where=f"{where}:{MANIFEST}")
    digests, kept, unreadable = _hash_all(source, keep)
    faults = [*_structure_faults(tags, payload), *unreadable]
    stated = {*tags, *payload}
    faults += [f"missing {name}" for name in sorted(stated - source.sizes.keys())]
    for name, actual in digests.items():
        if name in stated and actual != (payload.get(name) or tags[name]):
            faults.append(f"changed {name}")
    surplus = [name for name in source.sizes if not _belongs(name, stated)]
    if not faults and surplus and set(surplus) <= set(litter):
        raise _litter_error(surplus, where)
    faults += [f"surplus {name}" for name in surplus]
    _refuse(faults, where)
    return digests, kept


def read(source: Source, name: str, *, expected: Digest, where: str) -> Iterator[bytes]:
    """Yield the bytes of a file, a piece at a time; it may have been changed since it was last
    hashed.

    Raises:
        DamagedError: At the end, when they no longer have the digest.
    """
    hasher = sha256()
    for chunk in source.chunks(name):
        hasher.update(chunk)
        yield chunk
    digest.expect(Digest(hex=hasher.hexdigest()), expected, what=name, where=where)


def _small(source: Source, name: str, where: str) -> bytes:
    if source.sizes[name] > _MAX_TAG_BYTES:
        raise DamagedError(
            f"{name} has {size(source.sizes[name])}, the limit is {size(_MAX_TAG_BYTES)}",
            where=where,
        )
    return b"".join(source.chunks(name))


def _hash_all(
    source: Source, keep: Collection[str]
) -> tuple[Mapping[str, Digest], dict[str, bytes], list[str]]:
    readable, digests = list[str](), Digests()
    kept: dict[str, bytes] = {}
    unreadable = []
    for name in source.sizes:
        hasher = sha256()
        chunks = []
        # what is kept anyway is read at once: a thread waits for the interpreter after each piece
        most = max(CHUNK, source.sizes[name]) if name in keep else CHUNK
        try:
            for chunk in source.chunks(name, most):
                hasher.update(chunk)
                if name in keep:
                    chunks.append(chunk)
        except DamagedError as error:
            unreadable.append(error.what)
        else:
            readable.append(name)
            digests.append(hasher.digest())
            if name in keep:
                kept[name] = b"".join(chunks)
    return Table(readable, digests), kept, unreadable


def _structure_faults(tags: Mapping[str, Digest], payload: Mapping[str, Digest]) -> Iterator[str]:
    if sorted(tags) != sorted(TAGGED):
        found, due = ", ".join(sorted(tags)), ", ".join(sorted(TAGGED))
        yield f"{TAG_MANIFEST} lists {found}, expected {due}"
    for name in payload:
        if not name.startswith(PAYLOAD) or names.fault(name):
            yield f"{MANIFEST} lists {name!r}, expected a valid name below {PAYLOAD}"


def _belongs(name: str, stated: Collection[str]) -> bool:
    return name in stated or name == TAG_MANIFEST or bool(_SIGNATURE.fullmatch(name))


def _without(sizes: Mapping[str, int], names: Collection[str]) -> Mapping[str, int]:
    """Return the same, but for some names, which are few."""
    if not names:
        return sizes
    left_out = frozenset(names)
    return {name: size for name, size in sizes.items() if name not in left_out}


def _litter_error(surplus: Sequence[str], where: str) -> DamagedError:
    """Return the error of a capsule that is whole, and has files beside it that a system made."""
    # a folder of such files is removed as one
    tops = dict.fromkeys(next(filter(names.is_litter, _parents(name))) for name in surplus)
    shown = ", ".join(list(tops)[:_SHOWN])
    more = f" and {len(tops) - _SHOWN} more" if len(tops) > _SHOWN else ""
    paths = [f"{where}/{top}" for top in list(tops)[:_SHOWN]]
    return DamagedError(
        f"your system added files to the intact capsule: {shown}{more}",
        where=where,
        advice=f"remove the added files: rm -r {shlex.join(paths)}",
    )


def _parents(name: str) -> Iterator[str]:
    parts = name.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _name_faults(sizes: Mapping[str, int]) -> list[str]:
    faults = []
    for name, size_bytes in sizes.items():
        if fault := names.fault(name):
            faults.append(f"{name[:200]!r}: {fault}")
        if _SIGNATURE.fullmatch(name) and size_bytes > _MAX_SIGNATURE_BYTES:
            faults.append(
                f"{name} has {size_bytes} bytes, the limit is {_MAX_SIGNATURE_BYTES} bytes"
            )
    # names that may not be are not worth to be held against each other
    return faults or names.clashes(sizes)


def _refuse(faults: Iterable[str], where: str) -> None:
    faults = list(faults)
    if not faults:
        return
    shown = "; ".join(faults[:_SHOWN])
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    raise DamagedError(
        f"the files contradict the capsule's checksums: {shown}{more}",
        where=where,
        advice="download the capsule again from its publisher, and compare its id",
    )
