"""Event files as a hostile program leaves them, where a manifest takes a number from one."""

from __future__ import annotations

import base64
import struct
import zlib

from capsule.extraction.records import crc32c, mask
from tests.hostile.areas.found import fail
from tests.hostile.case import Case
from tests.support import eventfiles
from tests.support.command import Document
from tests.support.eventfiles import event, inside, record, simple

_SOURCE: Document = {"tensorboard": "loss", "file": "runs"}
_NAME = eventfiles.NAME
_FINE = eventfiles.scalars((1, 0.5))


def _write(data: bytes, folder: str = "runs") -> str:
    packed = base64.b64encode(zlib.compress(data)).decode()
    return (
        f"import base64, zlib\nos.makedirs({folder!r}, exist_ok=True)\n"
        f"open({folder + '/' + _NAME!r}, 'wb').write(zlib.decompress(base64.b64decode('{packed}')))"
    )


def _fail(name: str, script: str, says: str, mib: int = 512) -> Case:
    return fail(f"events-{name}", script, says, _SOURCE, mib=mib)


def _length(size_bytes: int) -> bytes:
    """The head of a record that claims so many bytes, with a right checksum."""
    length = struct.pack("<Q", size_bytes)
    return length + struct.pack("<I", mask(crc32c(length)))


def _deep(depth: int) -> bytes:
    content = b""
    for _ in range(depth):
        content = inside(8, content)
    return record(inside(5, inside(1, inside(1, b"loss") + content)))


_STEPS = eventfiles.scalars((5, 1.0), (1, 0.5), (2**63 - 1, 2.0), (-(2**63), float("nan")))

CASES = (
    _fail("cut-off", _write(_FINE[:-1]), "truncated within a record"),
    _fail("changed", _write(_FINE[:-5] + b"\1" + _FINE[-4:]), "wrong checksum of a record,"),
    _fail("huge-length", _write(_length(2**63)), "truncated within a record"),
    _fail("largest-length", _write(_length(2**64 - 1)), "truncated within a record"),
    _fail("another-length", _write(b"\xff" * 12), "wrong checksum of a record's length"),
    _fail("text", _write(b"loss: 0.5\n" * 9), "wrong checksum of a record's length"),
    _fail("deep", _write(_deep(3000)), "are empty"),
    _fail("nested-length", _write(record(b"\x2a\xff\xff\xff\xff\x0f")), "truncated within a field"),
    _fail("long-integer", _write(record(b"\x10" + b"\xff" * 1000)), "an integer exceeds 64 bits"),
    _fail("long-tag", _write(record(event(1, simple("x" * 10**6, 1)))), "its tags: xxx"),
    _fail("tag-that-steers", _write(record(event(1, simple("\x1b[2J", 1)))), r"\x1b[2J"),
    _fail("tag-of-no-text", _write(record(event(1, simple(b"\xff\xfe", 1)))), "no scalar loss"),
    _fail("not-a-number", _write(eventfiles.scalars((1, float("nan")))), "loss is nan"),
    _fail("back-and-forth", _write(_STEPS), "loss is nan"),
    _fail("many-empty-records", _write(record(b"") * (10**6 + 1)), "more than 1000000 records"),
    _fail("holes", f"{_write(b'')}\nos.truncate('runs/{_NAME}', 1 << 40)", "exceed 64.0 MiB"),
    _fail("pipe", f"os.mkdir('runs'); os.mkfifo('runs/{_NAME}')", "are empty"),
    _fail("link", f"os.mkdir('runs'); os.symlink('/etc/passwd', 'runs/{_NAME}')", "are empty"),
    _fail("linked-folder", f"{_write(_FINE, 'a')}\nos.symlink('a', 'runs')", "no event files"),
    _fail("folder", f"os.makedirs('runs/{_NAME}')", "no event files in folder runs"),
    _fail(
        "two-runs", f"{_write(_FINE, 'runs/a')}\n{_write(_FINE, 'runs/b')}", "below runs, found 2:"
    ),
    _fail(
        "deep-folders",
        "for n in range(500):\n    os.mkdir('runs')\n    os.chdir('runs')",
        "no event files",
    ),
    _fail(
        "many-files",
        "os.mkdir('runs')\nfor n in range(10001): open(f'runs/{n}', 'w')",
        "contains 10000 files and folders or more",
    ),
)
