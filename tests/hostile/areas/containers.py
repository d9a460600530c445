"""The zip: what a naive reader would write elsewhere, twice, under another name, or without end."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from capsule.archive.container import Entry, directory, local_header
from capsule.archive.limits import MOST_ENTRIES
from tests.hostile.reading import Make, refuse
from tests.support.capsules import pack, sample, sample_files

_FORM = "another program wrote or changed the zip directory"
_FAR = "the zip directory starts at byte "
_END = "not a capsule: truncated, or followed by other data"
_CENTRAL, _END_RECORD = b"PK\x01\x02", b"PK\x05\x06"
_FLAGS, _DISK, _COMMENT_LENGTH = 8, 4, 20


def _with_names(*names: str) -> Make:
    """The zip of an honest capsule with further, empty files."""

    def make(folder: Path) -> Path:
        return pack(sample_files() | dict.fromkeys(names, b""), folder / "a.zip")

    return make


def _rewritten(change: Callable[[zipfile.ZipInfo], None], *surplus: str) -> Make:
    """The same by Python's zipfile, which lets a writer choose."""

    def make(folder: Path) -> Path:
        files = sample_files() | dict.fromkeys(surplus, b"")
        with zipfile.ZipFile(folder / "a.zip", "w") as target:
            for name in sorted(files):
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.create_system, info.external_attr = 3, 0o100644 << 16
                if name == "data/README.md":
                    change(info)
                target.writestr(info, files[name])
        return folder / "a.zip"

    return make


def _set(attribute: str, value: object) -> Callable[[zipfile.ZipInfo], None]:
    return lambda info: setattr(info, attribute, value)


def _raw(data: Callable[[], bytes]) -> Make:
    """A file of these bytes."""

    def make(folder: Path) -> Path:
        path = folder / "a.zip"
        path.write_bytes(data())
        return path

    return make


def _crafted(stored: Sequence[Entry], listed: Sequence[Entry]) -> Make:
    """Local headers, and a directory that lists others."""
    return _raw(lambda: b"".join(map(local_header, stored)) + directory(list(listed)))


def _entry(name: str, offset: int = 0, size: int = 0) -> Entry:
    return Entry(name=name, size_bytes=size, crc=0, offset=offset)


def _patched(record: bytes, offset: int, value: int) -> bytes:
    """An honest capsule with another number in the last such record."""
    data = bytearray(sample())
    struct.pack_into("<H", data, data.rindex(record) + offset, value)
    return bytes(data)


def _changed() -> bytes:
    data = bytearray(sample())
    data[data.index(b"# A tiny training run")] ^= 1
    return bytes(data)


def _bomb(folder: Path) -> Path:
    with (
        zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as target,
        target.open("data/bomb", "w") as stream,
    ):
        for _ in range(200):
            stream.write(bytes(1 << 20))
    return folder / "a.zip"


_BEGINNING = b"PK\x03\x04"


def _crowd() -> bytes:
    """An end record that announces more entries than are read."""
    count = MOST_ENTRIES + 1
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 0x32D, 45, 0, 0, count, count, 0, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(_BEGINNING), 1)
    return _BEGINNING + end64 + locator + _short_end(0xFFFF, 0xFFFFFFFF)


def _far() -> bytes:
    """Zip64's fields, as large as they go."""
    most = 2**64 - 1
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", most, 0, 0, 0, 0, 1, 1, most, most)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, most, 1)
    return _BEGINNING + end64 + locator + _short_end(0xFFFF, 0xFFFFFFFF)


def _overlap() -> bytes:
    """51 names of the same mebibyte."""
    size = 1 << 20
    listed = [_entry(f"a{number:02d}", size=size) for number in range(51)]
    return local_header(listed[-1]) + bytes(size) + directory(listed)


def _short_end(count: int, start: int) -> bytes:
    return struct.pack("<4s4H2LH", _END_RECORD, 0, 0, count, count, 0, start, 0)


def _hollow(folder: Path) -> Path:
    """A terabyte of nothing, which takes no space to whoever sends it."""
    entry = _entry("a", size=1 << 40)
    with (folder / "a.zip").open("wb") as stream:
        stream.write(local_header(entry))
        stream.seek(entry.end)
        stream.write(directory([entry]))
    return folder / "a.zip"


_ROW = (_entry("a"), _entry("b", 31))

_ATTACKS: tuple[tuple[str, Make, str], ...] = (
    # names
    ("parent-folder", _with_names("../x"), "'..' is not allowed in a name"),
    ("absolute-path", _with_names("/tmp/x"), "'' is not allowed in a name"),
    ("backslash", _with_names("..\\x"), "is not allowed in a name"),
    ("nul-in-a-name", _with_names("data/x\0y"), r"'x\x00y' is not allowed in a name"),
    ("escape-in-a-name", _with_names("data/\x1b[2J\n"), r"'\x1b[2J\n' is not allowed in a name"),
    ("drive-letter", _with_names("C:/x"), "'C:' is not allowed in a name"),
    ("device-with-a-space", _with_names("data/con .x"), "'con .x' is a device name on Windows"),
    ("device-of-windows", _with_names("data/NUL"), "'NUL' is a device name on Windows"),
    ("stream-of-windows", _with_names("data/a:b"), "'a:b' is not allowed in a name"),
    ("dot-or-space-at-the-end", _with_names("data/x.", "data/x "), "'x ' is not allowed in a name"),
    ("git-folder", _with_names("data/.GIT/config"), "'.GIT' is not allowed in a name"),
    ("hidden-file", _with_names("data/.x"), "surplus data/.x"),
    ("names-equal-but-for-case", _with_names("data/a", "data/A"), "differ only in letter case"),
    ("names-equal-after-nfc", _rewritten(_set("comment", b""), "data/\xe9"), "cannot be read"),
    ("alias-with-a-dot", _with_names("data/./README.md"), "'.' is not allowed in a name"),
    ("alias-with-two-slashes", _with_names("data//README.md"), "'' is not allowed in a name"),
    ("file-and-folder-of-one-name", _with_names("data/a", "data/a/b"), "is a file and a folder"),
    ("deep-path", _with_names("data/" + "d/" * 2000 + "x"), "bytes, the limit is 200"),
    # entries that are no plain files
    ("symbolic-link", _rewritten(_set("external_attr", 0o120777 << 16)), _FORM),
    (
        "file-below-a-link",
        _rewritten(_set("external_attr", 0o120777 << 16), "data/README.md/x"),
        _FORM,
    ),
    ("named-pipe", _rewritten(_set("external_attr", 0o010644 << 16)), _FORM),
    ("set-user-id", _rewritten(_set("external_attr", 0o104755 << 16)), _FORM),
    # sizes
    ("deflate-bomb", _bomb, _FORM),
    ("terabyte-of-nothing", _hollow, "in total; the limit is 128.0 GiB"),
    ("compressed", _rewritten(_set("compress_type", zipfile.ZIP_DEFLATED)), _FORM),
    ("entries-without-end", _raw(_crowd), f"the limit is {MOST_ENTRIES}"),
    ("overlapping-entries", _raw(_overlap), _FORM),
    ("zip64-beyond-the-file", _raw(_far), _FAR),
    ("offset-beyond-the-file", _crafted(_ROW, [_entry("a", 2**63)]), _FAR),
    ("size-beyond-the-file", _crafted(_ROW, [_entry("a", size=2**40)]), _FAR),
    # two readers, two contents
    ("name-twice", _crafted(_ROW, [_entry("a"), _entry("a", 31)]), "entry 'a' follows 'a'"),
    ("other-name-in-the-local-header", _crafted([_entry("a")], [_entry("b")]), "header of 'b'"),
    ("other-size-in-the-local-header", _crafted([_entry("a", size=1)], [_entry("a")]), "header of"),
    ("gap", _crafted(_ROW, [_entry("a", 5), _entry("b", 36)]), _FORM),
    ("wrong-checksum", _raw(_changed), "wrong checksum of data/README.md"),
    ("bytes-before", _raw(lambda: b"#!/bin/sh\n" + sample()), "zip"),
    ("bytes-behind", _raw(lambda: sample() + b"\0"), _END),
    ("two-zips", _raw(lambda: sample() + sample()), "zip"),
    ("encrypted", _raw(lambda: _patched(_CENTRAL, _FLAGS, 1)), _FORM),
    ("data-descriptor", _raw(lambda: _patched(_CENTRAL, _FLAGS, 8)), _FORM),
    (
        "end-record-in-a-comment",
        _raw(lambda: _patched(_END_RECORD, _COMMENT_LENGTH, 22) + _short_end(0, 0)),
        "zip",
    ),
    ("split-over-disks", _raw(lambda: _patched(_END_RECORD, _DISK, 1)), _FORM),
    ("no-zip", _raw(lambda: bytes(1000)), "not a capsule: it is not a zip file"),
    ("nothing", _raw(lambda: b""), "not a capsule: it is empty"),
)

CASES = refuse("zip", _ATTACKS)
