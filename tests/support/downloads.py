"""A server on loopback that serves one file, whole or in parts, and breaks off when told to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

from tests.support.registries import http, serve

_RANGE = re.compile(r"^Range: bytes=(\d+)-\r?$", re.MULTILINE | re.IGNORECASE)


@dataclass(kw_only=True)
class Shelf:
    """What is served, and what was asked.

    Attributes:
        data: The file.
        tag: Its ETag, empty for none.
        most: Bytes after which each answer breaks off, None for none.
        heads: The requests.
        host: `HOST:PORT`.
    """

    data: bytes
    tag: str = '"1"'
    most: int | None = None
    heads: list[str] = field(default_factory=list)
    host: str = ""

    def url(self, name: str = "corpus.bin") -> str:
        """An address of the file."""
        return f"http://{self.host}/{name}"

    def answer(self, path: str, out: BinaryIO) -> None:
        """The file, or the part of it that is asked for."""
        begins = _RANGE.search(self.heads[-1])
        start = int(begins[1]) if begins else 0
        same = f"If-Range: {self.tag}" in self.heads[-1] or "If-Range" not in self.heads[-1]
        headers = {"ETag": self.tag} if self.tag else {}
        if start and same and start >= len(self.data):
            place = f"bytes */{len(self.data)}"
            whole = http(b"", status="416 Range Not Satisfiable", Content_Range=place)
        elif start and same:
            place = f"bytes {start}-{len(self.data) - 1}/{len(self.data)}"
            headers["Content_Range"] = place
            whole = http(self.data[start:], status="206 Partial Content", **headers)
        else:
            whole = http(self.data, **headers)
        body = whole.index(b"\r\n\r\n") + 4
        out.write(whole if self.most is None else whole[: body + self.most])


@contextmanager
def shelve(data: bytes, **how: object) -> Iterator[Shelf]:
    """Serve a file for as long as the block runs."""
    shelf = Shelf(data=data, **how)  # type: ignore[arg-type]
    with serve(shelf.answer, shelf.heads) as host:
        shelf.host = host
        yield shelf
