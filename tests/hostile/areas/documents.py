"""JSON whose every hash fits: two meanings, no end, wrong shapes, and names of other files."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

from capsule import digest
from capsule.image import Image
from tests.hostile.case import Case, Prepare
from tests.hostile.reading import Make, refuse
from tests.support.capsules import CRATE, pack, rehash, sample_files, seal
from tests.support.command import User
from tests.support.records import make_image, make_record

_HARDWARE, _SOFTWARE = "data/records/hardware.json", "data/records/software.json"
_ENVIRONMENT, _IMAGE = "data/records/environment.json", "data/records/image.json"
_RECORD, _PLAN, _MANIFEST = "data/capsule.json", "data/records/plan.json", "data/manifest.json"
_ATTEMPTS, _SAMPLES = "data/results/attempts.jsonl", "data/results/samples.jsonl"
_README_ID = b'"@id": "README.md"'
_LOAD = b'"load": 0.25'
_DEEP = b"[" * 200_000
_LONG_KEY = b'"' + b"k" * 4_100_000 + b'": 1, '


def _edited(name: str, edit: Callable[[bytes], bytes]) -> Make:
    def make(folder: Path) -> Path:
        files = sample_files()
        changed = edit(files[name])
        assert changed != files[name]
        return pack(rehash({**files, name: changed}), folder / "a.zip")

    return make


def _replaced(name: str, old: bytes, new: bytes) -> Make:
    return _edited(name, lambda data: data.replace(old, new, 1))


def _loaded(value: bytes) -> Make:
    """Another value of the machine's load, which nothing else in a capsule repeats."""
    return _replaced(_HARDWARE, _LOAD, b'"load": ' + value)


def _identified(field: str, value: object) -> Make:
    """Another value of a field of the image."""

    def edit(data: bytes) -> bytes:
        document = json.loads(data)
        document["image"][field] = value
        return json.dumps(document).encode()

    return _edited(_IMAGE, edit)


def _as_index(data: bytes) -> bytes:
    """Manifest and index at once: one digest, two images."""
    return json.dumps({**json.loads(data), "manifests": []}).encode()


def _huge_image() -> Image:
    """One whose configuration asks for what nobody recorded, at length."""
    image = make_image()
    config = json.loads(image.config or b"")
    config["config"] = {
        "Env": ["LD_PRELOAD=/tmp/evil.so", "PATH=/evil"],
        "Entrypoint": ["/bin/sh", "-c", "\x1b[2J" + "x" * 4_000_000],
    }
    config_bytes = json.dumps(config).encode()
    manifest = json.loads(image.manifest or b"")
    config_digest = digest.of_bytes(config_bytes)
    manifest["config"] |= {"size": len(config_bytes), "digest": str(config_digest)}
    manifest_bytes = json.dumps(manifest).encode()
    manifest_digest = digest.of_bytes(manifest_bytes)
    return dataclasses.replace(
        image,
        config=config_bytes,
        config_digest=config_digest,
        manifest=manifest_bytes,
        manifest_digest=manifest_digest,
        pinned=f"127.0.0.1:5000/tiny@{manifest_digest}",
    )


def _seal_huge_image(user: User) -> list[str | Path]:
    return ["show", seal(user.folder, dataclasses.replace(make_record(), image=_huge_image()))]


_ATTACKS: tuple[tuple[str, Make, str], ...] = (
    # no end
    ("nested-brackets", _loaded(_DEEP), "nested deeper than 64"),
    ("nested-brackets-closed", _loaded(_DEEP + b"]" * 200_000), "nested deeper than 64"),
    ("two-million-digits", _loaded(b"9" * 2_000_000), "does not fit in 64 bits"),
    ("key-without-end", _replaced(_HARDWARE, _LOAD, _LONG_KEY * 2 + _LOAD), "characters)"),
    # two meanings
    ("nan", _loaded(b"NaN"), "NaN is not JSON"),
    ("infinity", _loaded(b"-Infinity"), "-Infinity is not JSON"),
    ("overflow", _loaded(b"1e999"), "the number 1e999 overflows"),
    ("key-twice", _replaced(_HARDWARE, _LOAD, _LOAD + b", " + _LOAD), "duplicate key 'load'"),
    ("byte-order-mark", _edited(_SOFTWARE, lambda data: b"\xef\xbb\xbf" + data), "byte order mark"),
    ("utf-16", _edited(_SOFTWARE, lambda data: data.decode().encode("utf-16")), "not UTF-8"),
    ("half-a-surrogate", _loaded(b'"\\ud800"'), "half a surrogate pair"),
    ("half-a-surrogate-as-key", _loaded(b'{"\\udfff": 1}'), "half a surrogate pair"),
    ("comment", _edited(_SOFTWARE, lambda data: b"// software\n" + data), "not JSON"),
    ("two-documents", _edited(_SOFTWARE, lambda data: data * 2), "not JSON"),
    ("nothing", _edited(_SOFTWARE, lambda data: b""), "not JSON"),
    # wrong shapes
    ("list-for-an-object", _edited(_SOFTWARE, lambda data: b"[]"), 'is not of type "object"'),
    ("null-for-an-object", _edited(_ENVIRONMENT, lambda data: b"null"), 'is not of type "object"'),
    ("text-for-a-record", _edited(_RECORD, lambda data: b'"record"'), 'is not of type "object"'),
    ("number-for-a-plan", _edited(_PLAN, lambda data: b"1"), 'is not of type "object"'),
    ("list-for-a-line", _edited(_ATTEMPTS, lambda data: b"[]\n" + data), "attempts.jsonl"),
    ("null-for-samples", _edited(_SAMPLES, lambda data: b"null\n" + data), "samples.jsonl"),
    ("text-for-values", _replaced(_SAMPLES, b'"values":[', b'"values":["1.0",'), "samples.jsonl"),
    ("text-for-a-crate", _edited(CRATE, lambda data: b'"crate"'), "ro-crate-metadata.json"),
    (
        "number-in-a-crate",
        _replaced(CRATE, b'"@graph": [', b'"@graph": [1, '),
        "ro-crate-metadata.json",
    ),
    ("manifest-of-another-run", _replaced(_MANIFEST, b"A tiny", b"A tall"), "manifest.json"),
    # names of other files
    (
        "encoded-parent-folder-in-the-crate",
        _edited(CRATE, lambda data: data.replace(_README_ID, b'"@id": "%2e%2e/README.md"')),
        "ro-crate-metadata.json",
    ),
    (
        "file-address-in-the-crate",
        _edited(CRATE, lambda data: data.replace(_README_ID, b'"@id": "file:///etc/passwd"')),
        "ro-crate-metadata.json",
    ),
    (
        "context-of-the-crate",
        _replaced(CRATE, b"https://w3id.org/ro/crate/1.1/context", b"http://169.254.169.254/x"),
        "ro-crate-metadata.json",
    ),
    (
        "other-host-in-the-crate",
        _edited(CRATE, lambda data: data.replace(_README_ID, b'"@id": "//169.254.169.254/x"')),
        "ro-crate-metadata.json",
    ),
    # images
    ("digest-that-is-a-path", _identified("config_digest", "sha256:../../x"), "image.json"),
    ("short-digest", _identified("config_digest", "sha256:abc"), "image.json"),
    ("other-algorithm", _identified("config_digest", f"md5:{'0' * 32}"), "image.json"),
    ("upper-case-digest", _identified("config_digest", f"sha256:{'A' * 64}"), "image.json"),
    ("index-for-a-manifest", _edited("data/records/image-manifest.json", _as_index), "manifest"),
)


def _lint(path: Callable[[Path], Path]) -> Prepare:
    return lambda user: ["lint", path(user.folder)]


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.json")
    return folder / "pipe.json"


def _sparse(folder: Path) -> Path:
    with (folder / "huge.json").open("wb") as stream:
        stream.truncate(1 << 40)
    return folder / "huge.json"


CASES = (
    *refuse("json", _ATTACKS),
    Case(
        name="manifest/named-pipe",
        prepare=_lint(_pipe),
        status=2,
        says="pipe.json: no such file",
        reads_only=True,
    ),
    Case(
        name="manifest/device-without-end",
        prepare=_lint(lambda folder: Path("/dev/zero")),
        status=2,
        says="/dev/zero: no such file",
        reads_only=True,
    ),
    Case(
        name="manifest/file-of-a-tebibyte",
        prepare=_lint(_sparse),
        status=2,
        says="expected at most 256 KiB",
        reads_only=True,
    ),
    Case(
        name="json/image-that-preloads-and-never-ends",
        prepare=_seal_huge_image,
        status=0,
        says="127.0.0.1:5000/tiny",
        mib=256,
        reads_only=True,
    ),
)
