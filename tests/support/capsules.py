"""Take capsules apart and put them together again, wrong in one chosen way."""

import hashlib
import json
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from capsule import archive
from capsule.archive import derived, writer
from capsule.archive.container import ZipWriter
from capsule.archive.indented import pretty
from capsule.record import File, Record
from tests.support.records import make_files, make_record

CRATE = "data/ro-crate-metadata.json"
TAGS = ("bag-info.txt", "bagit.txt", "manifest-sha256.txt")


def seal(
    folder: Path,
    record: Record | None = None,
    files: Sequence[File] | None = None,
    name: str = "tiny.capsule.zip",
) -> Path:
    """Write a capsule and return its path."""
    target = folder / name
    archive.write(record or make_record(), make_files() if files is None else files, target)
    return target


@cache
def sample() -> bytes:
    """The bytes of the capsule of `make_record`."""
    with TemporaryDirectory() as folder:
        return seal(Path(folder)).read_bytes()


@cache
def sample_files() -> dict[str, bytes]:
    """Its files; copy the dict before changing it."""
    return unpack(BytesIO(sample()))


def read_files(files: Mapping[str, bytes], folder: Path) -> archive.Capsule:
    """Zip files as the writer would, and read them strictly."""
    return archive.read(pack(files, folder / "b.capsule.zip"))


def unpack(path: BytesIO | Path) -> dict[str, bytes]:
    """Every file of a capsule: path -> bytes."""
    with zipfile.ZipFile(path) as archive_file:
        return {entry.filename: archive_file.read(entry) for entry in archive_file.infolist()}


def pack(files: Mapping[str, bytes], target: Path) -> Path:
    """Zip files as the writer would, whatever is in them."""
    with target.open("w+b") as stream:
        writer = ZipWriter(stream)
        for name in sorted(files):
            writer.add(name, len(files[name]), [files[name]])
        writer.finish()
    return target


def rehash(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Bring the manifests, the crate and the size up to date: what a careful forger does."""
    files = dict(files)
    files[CRATE] = _described_again(files)
    payload = sorted(name for name in files if name.startswith("data/"))
    info = [line for line in files["bag-info.txt"].decode().splitlines() if "Oxum" not in line]
    size = sum(len(files[name]) for name in payload)
    files["bag-info.txt"] = "\n".join([*info, f"Payload-Oxum: {size}.{len(payload)}", ""]).encode()
    files["manifest-sha256.txt"] = _listing(files, payload)
    files["tagmanifest-sha256.txt"] = _listing(files, TAGS)
    return files


def _described_again(files: Mapping[str, bytes]) -> bytes:
    try:
        document = json.loads(files[CRATE])
        for entity in document["@graph"]:
            data = files.get(f"data/{entity['@id']}")
            if entity["@type"] == "File" and data is not None:
                entity |= {"sha256": _hex(data), "contentSize": str(len(data))}
        return pretty(document)
    except (ValueError, TypeError, KeyError):
        return files[CRATE]


def write_folder(files: Mapping[str, bytes], folder: Path) -> Path:
    """Lay files out as a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def run(
    *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool and return what became of it."""
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def _listing(files: Mapping[str, bytes], names: Sequence[str]) -> bytes:
    return "".join(f"{_hex(files[name])}  {name}\n" for name in names).encode()


def _hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def forge(record: Record, files: Sequence[File], target: Path) -> Path:
    """Seal what the reader may refuse: every file is made of the record as the writer makes it."""
    contents = writer._contents(record, files)
    with target.open("w+b") as stream:
        writer._fill(stream, record, contents)
    return target


def carry(capsule: archive.Capsule) -> list[File]:
    """What a capsule carries beside what it states."""
    return [
        File(path=name, source=capsule.open(name))
        for name in capsule.digests
        if name.startswith(derived.CARRIED)
    ]
