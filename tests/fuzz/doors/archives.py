"""Archives of datasets, as a server gives them: each unpacks inside its folder or is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path
from random import Random

from capsule.datasets.tree import files
from capsule.datasets.unpack import unpack
from tests.fuzz import mutate
from tests.fuzz.campaign import Door

_MOST_BYTES, _MOST_FILES = 1 << 20, 100
_PACKERS = (bytes, gzip.compress, bz2.compress, lzma.compress)
_KINDS = (
    *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE),
    *(tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE),
)
_NAMES = ("a", "b/c", "./a", "/etc/x", "../x", "b/../../x", "é", "x" * 300, "b", "c\\d")


def make_archive(random: Random) -> bytes:
    """A tar or zip of odd entries, changed before or after it is compressed."""
    data = _tar(random) if random.random() < 0.7 else _zip(random)
    if random.random() < 0.4:
        data = mutate.text(data, random)
    data = random.choice(_PACKERS)(data)
    if random.random() < 0.4:
        data = mutate.text(data, random)
    return data


def send_archive(data: bytes, folder: Path) -> None:
    """Unpack it; what is taken lies inside, and is no more than it may be."""
    archive, target = folder / "archive", folder / "deep" / "target"
    archive.write_bytes(data)
    try:
        unpack(archive, target, most_bytes=_MOST_BYTES, most_files=_MOST_FILES, where="a")
        entries = files(target)
        assert sum(entry.status.st_size for entry in entries) <= _MOST_BYTES
    finally:
        assert {path.name for path in folder.iterdir()} <= {"archive", "deep"}
        assert {path.name for path in (folder / "deep").iterdir()} <= {"target"}


def _tar(random: Random) -> bytes:
    buffer = io.BytesIO()
    form = random.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for _ in range(random.randrange(5)):
            member = tarfile.TarInfo(random.choice(_NAMES[: None if form else 7]))
            member.type, member.linkname = random.choice(_KINDS), random.choice(_NAMES[:6])
            member.size = random.choice((0, 3, 700)) if member.isreg() else 0
            if form == tarfile.PAX_FORMAT and random.random() < 0.3:
                member.pax_headers = {
                    "size": "9" * random.randrange(1, 20),
                    "GNU.sparse.major": "1",
                }
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return buffer.getvalue()


def _zip(random: Random) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in random.sample(_NAMES, random.randrange(5)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = random.choice((0, 0o100644, 0o120777, 0o060600)) << 16
            archive.writestr(entry, b"../x" if random.random() < 0.5 else b"a")
    return buffer.getvalue()


ARCHIVE = Door(name="archive", make=make_archive, send=send_archive)
