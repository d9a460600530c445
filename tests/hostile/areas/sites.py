"""Site files of any kind, mirrors that lie, caches that others filled, programs of odd names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import BinaryIO

from capsule import notes
from capsule.digest import of_bytes
from capsule.jsons import Json
from tests.hostile.case import Case, Prepare
from tests.support import registries
from tests.support.capsules import seal
from tests.support.command import User, write_manifest, write_script
from tests.support.records import make_record
from tests.support.registries import http, make_config, make_manifest

_CONFIG = make_config()
_MANIFEST = make_manifest(_CONFIG)
_OTHER = make_manifest(_CONFIG, annotations={"org.example": "other"})
_NOWHERE = "127.0.0.1:1"
_IMAGE = f"docker://{_NOWHERE}/made@{of_bytes(_MANIFEST)}"
_OWN = ".config/capsule/site.json"


@cache
def _mirror() -> str:
    """A server that has other bytes under every digest, to the end of the process."""

    def answer(path: str, out: BinaryIO) -> None:
        body = _CONFIG if "/blobs/" in path else _OTHER
        out.write(http(body, Content_Type=registries.MANIFEST_TYPE))

    server = registries.start(answer)
    return f"127.0.0.1:{server.server_address[1]}"


def _site(make: Callable[[Path], object], *words: str) -> Prepare:
    """The user's own site file is whatever this makes."""

    def prepare(user: User) -> list[str | Path]:
        path = user.home / _OWN
        path.parent.mkdir(parents=True)
        make(path)
        return list(words or ("site", "show"))

    return prepare


def _settings(**settings: Json) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps(settings))


def _through_mirror(user: User) -> list[str | Path]:
    mirrors: Json = {_NOWHERE: f"{_mirror()}/hub"}
    return list(_site(_settings(mirrors=mirrors), "image", "resolve", _IMAGE)(user))


def _filled_cache(user: User) -> list[str | Path]:
    """The documents of an image, all of them by the right names and none the right one."""
    folder = user.home / ".cache/capsule/documents"
    folder.mkdir(parents=True)
    os.mkfifo(folder / of_bytes(_MANIFEST).hex)
    (folder / of_bytes(_CONFIG).hex).write_bytes(_OTHER)
    write_script(user.folder)
    manifest = write_manifest(user.folder, image={"reference": _IMAGE})
    return ["run", manifest, "--dry-run", "--offline"]


def _odd_programs(user: User) -> list[str | Path]:
    observations = {f"program \u202e{number}": "\u202eowned" for number in range(3000)}
    notes_due = (notes.no_container(),)
    record = make_record(image=False, image_observations=observations, notes=notes_due)
    return ["show", seal(user.folder, record), "--full"]


def _own_bind(user: User) -> list[str | Path]:
    write_script(user.folder)
    return ["run", write_manifest(user.folder, binds={"/opt/x": "/etc"})]


def _sealed_binds(folder: Path, *, noted: bool = True, observed: bool = True) -> Path:
    """A capsule whose observations and whose notes of binds may contradict each other."""
    record = make_record(
        image_observations={"bind /opt/x": "/srv/x"} if observed else {},
        notes=tuple(notes.site_files({f"{notes.BIND}/opt/x": "/opt/x"})) if noted else (),
    )
    return seal(folder, record)


def _sealed_library(folder: Path) -> Path:
    """A capsule that observed a library of its machine, and does not say so beside its numbers."""
    fact = f"below /opt, sha256:{'0' * 64}"
    return seal(folder, make_record(image_observations={f"{notes.LIBRARY}libmpi.so.12": fact}))


def _interpreter(path: Path) -> None:
    """A Python that says what no Python says, and does not end its sentence."""
    python = path.with_name("python3")
    words = r"printf '\033[2J\nnot.a.version\n-\n-\n'; yes | head -c 9000000"
    python.write_text(f"#!/bin/sh\n{words}\n")
    python.chmod(0o755)
    path.write_text(json.dumps({"python": str(python)}))


CASES = (
    Case(
        name="site/names-that-steer-a-terminal",
        prepare=_site(_settings(**{"\x1b[2Jruntime": "host"})),
        status=2,
        says=r"\x1b[2Jruntime",
    ),
    Case(
        name="site/mirror-that-steers-a-terminal",
        prepare=_site(_settings(mirrors={"docker.io": "m\x1b[2J"})),
        status=2,
        says=r"m\u001b[2J",
    ),
    Case(
        name="site/mirror-with-a-login",
        prepare=_site(_settings(mirrors={"docker.io": "user:password@host"})),
        status=2,
        says="without https://",
    ),
    Case(
        name="site/bind-that-steers-a-terminal",
        prepare=_site(_settings(binds={"/opt/\x1b[2J": "/opt/x"})),
        status=2,
        says=r"\x1b[2J",
    ),
    Case(
        name="site/bind-with-words-for-an-engine",
        prepare=_site(_settings(binds={"/opt/x": "/opt/x:/etc:rw,shared"})),
        status=2,
        says="without commas, colons, quotes",
    ),
    Case(
        name="site/bind-that-climbs",
        prepare=_site(_settings(binds={"/opt/../capsule/levels": "/opt/x"})),
        status=2,
        says="expected a plain path",
    ),
    Case(
        name="site/bind-of-more-than-any-site-has",
        prepare=_site(_settings(binds={f"/opt/{n}": "/srv" for n in range(100_000)})),
        status=2,
        says="#/binds",
    ),
    Case(
        name="site/capsule-that-names-a-bind",
        prepare=_own_bind,
        status=2,
        says="binds",
    ),
    Case(
        name="site/capsule-that-hides-its-binds",
        prepare=lambda user: ["check", _sealed_binds(user.folder, noted=False)],
        status=4,
        says="a note is missing: the containers could read files",
    ),
    Case(
        name="site/capsule-that-makes-up-binds",
        prepare=lambda user: ["check", _sealed_binds(user.folder, observed=False)],
        status=4,
        says="a note does not follow from the record",
    ),
    Case(
        name="site/capsule-that-hides-its-machines-mpi",
        prepare=lambda user: ["check", _sealed_library(user.folder)],
        status=4,
        says="a note is missing: the machine's MPI replaced the image's",
    ),
    Case(
        name="site/fifo",
        prepare=_site(os.mkfifo),
        status=2,
        says="expected a regular file",
    ),
    Case(
        name="site/device",
        prepare=_site(lambda path: path.symlink_to("/dev/zero")),
        status=2,
        says="expected a regular file",
    ),
    Case(
        name="site/folder",
        prepare=_site(lambda path: path.mkdir()),
        status=2,
        says="Is a directory",
    ),
    Case(
        name="site/circle-of-links",
        prepare=_site(lambda path: path.symlink_to(path)),
        status=2,
        says="Too many levels of symbolic links",
    ),
    Case(
        name="site/deep",
        prepare=_site(lambda path: path.write_text("[" * 100_000)),
        status=2,
        says="nested deeper than 64",
    ),
    Case(
        name="site/endless",
        prepare=_site(lambda path: path.write_bytes(b" " * (64 << 20))),
        status=2,
        says="the site file exceeds",
    ),
    Case(
        name="site/a-python-that-is-none",
        prepare=_site(_interpreter, "doctor"),
        status=6,
        says="expected Python 3.9 or later",
    ),
    Case(
        name="site/mirror-serves-other-bytes",
        prepare=_through_mirror,
        status=4,
        says=f"is {of_bytes(_OTHER)}",
    ),
    Case(
        name="site/cache-that-others-filled",
        prepare=_filled_cache,
        status=0,
        says=f"the document {of_bytes(_MANIFEST)} of this image is missing on this machine",
    ),
    Case(
        name="site/programs-that-steer-a-terminal",
        prepare=_odd_programs,
        status=0,
        says=r"program \u202e0: \u202eowned",
    ),
    Case(
        name="site/stage-of-no-archive",
        prepare=lambda user: ["stage", _write(user.folder / "a.zip", b"PK\x03\x04" * 99)],
        status=4,
        says="a.zip",
    ),
)


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
