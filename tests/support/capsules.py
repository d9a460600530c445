"""Take capsules apart and put them together again, wrong in one chosen way."""

import hashlib
import json
import subprocess
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from capsule import archive
from capsule.archive.codec import pretty
from capsule.archive.container import ZipWriter
from tests.support.records import make_files, make_record

CRATE = "data/ro-crate-metadata.json"
TAGS = ("bag-info.txt", "bagit.txt", "manifest-sha256.txt")


def seal(folder, record=None, files=None, name="tiny.capsule.zip"):
    """Write a capsule and return its path."""
    target = folder / name
    archive.write(record or make_record(), make_files() if files is None else files, target)
    return target


@cache
def sample():
    """The bytes of the capsule of `make_record`."""
    with TemporaryDirectory() as folder:
        return seal(Path(folder)).read_bytes()


@cache
def sample_files():
    """Its files; copy the dict before changing it."""
    return unpack(BytesIO(sample()))


def read_files(files, folder):
    """Zip files as the writer would, and read them strictly."""
    return archive.read(pack(files, folder / "b.capsule.zip"))


def unpack(path):
    """Every file of a capsule: path -> bytes."""
    with zipfile.ZipFile(path) as archive_file:
        return {entry.filename: archive_file.read(entry) for entry in archive_file.infolist()}


def pack(files, target):
    """Zip files as the writer would, whatever is in them."""
    with target.open("w+b") as stream:
        writer = ZipWriter(stream)
        for name in sorted(files):
            writer.add(name, len(files[name]), [files[name]])
        writer.finish()
    return target


def rehash(files):
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


def _described_again(files):
    try:
        document = json.loads(files[CRATE])
        for entity in document["@graph"]:
            data = files.get(f"data/{entity['@id']}")
            if entity["@type"] == "File" and data is not None:
                entity |= {"sha256": _hex(data), "contentSize": str(len(data))}
    except (ValueError, TypeError, KeyError):
        return files[CRATE]
    return pretty(document)


def write_folder(files, folder):
    """Lay files out as a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def run(*command, cwd, **more):
    """Run a tool and return what became of it."""
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **more)


def _listing(files, names):
    return "".join(f"{_hex(files[name])}  {name}\n" for name in names).encode()


def _hex(data):
    return hashlib.sha256(data).hexdigest()
