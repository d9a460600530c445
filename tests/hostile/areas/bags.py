"""The bag, zipped or as a folder: files and lists that do not fit, and what is no plain file."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from capsule import digest
from tests.hostile.reading import Make, refuse
from tests.support.capsules import TAGS, pack, rehash, sample_files, write_folder

Files = Mapping[str, bytes]

_README, _LIST, _TAG_LIST = "data/README.md", "manifest-sha256.txt", "tagmanifest-sha256.txt"
_METADATA_SERVICE = b"http://169.254.169.254/latest/meta-data/ 1 data/x\n"


def _zipped(change: Callable[[Files], Files]) -> Make:
    return lambda folder: pack(change(sample_files()), folder / "a.zip")


def _with(name: str, data: bytes) -> Make:
    return _zipped(lambda files: {**files, name: data})


def _without(name: str) -> Make:
    return _zipped(lambda files: {key: files[key] for key in files if key != name})


def _edited(name: str, edit: Callable[[bytes], bytes]) -> Make:
    """A changed list, in a bag whose list of lists fits again."""

    def change(files: Files) -> Files:
        changed = {**files, name: edit(files[name])}
        if name == _TAG_LIST:
            return changed
        lines = [f"{digest.of_bytes(changed[tag]).hex}  {tag}\n" for tag in TAGS]
        return {**changed, _TAG_LIST: "".join(lines).encode()}

    return _zipped(change)


def _path_of(line: bytes) -> bytes:
    return line[64:]


def _listed(path: str) -> Make:
    def insert(data: bytes) -> bytes:
        lines = [bytes(line) for line in data.splitlines(keepends=True)]
        lines.append(b"0" * 64 + f"  {path}\n".encode())
        lines.sort(key=_path_of)
        return b"".join(lines)

    return _edited(_LIST, insert)


def _unpacked(make: Callable[[Path], object], name: str = _README) -> Make:
    """A capsule as a folder, with something else in the place of one of its files."""

    def unpack(folder: Path) -> Path:
        capsule = write_folder(sample_files(), folder / "a")
        (capsule / name).unlink()
        make(capsule / name)
        return capsule

    return unpack


def _listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _deep(path: Path) -> None:
    for number in range(200):
        path = path / f"d{number}"
    path.mkdir(parents=True)


def _linked_folder(folder: Path) -> Path:
    capsule = write_folder(sample_files(), folder / "a")
    (capsule / "data/logs").rename(folder / "logs")
    (capsule / "data/logs").symlink_to(folder / "logs")
    return capsule


_KIND = "'data/README.md' is a link or a special file"
_LINE = "expected '<sha256> <path>'"


def _hollow(folder: Path) -> Path:
    """A terabyte of nothing, which takes no space to whoever sends it."""
    capsule = write_folder(sample_files(), folder / "a")
    (capsule / "data/inputs/hollow").touch()
    os.truncate(capsule / "data/inputs/hollow", 1 << 40)
    return capsule


_ATTACKS: tuple[tuple[str, Make, str], ...] = (
    ("terabyte-of-nothing", _hollow, "in total; the limit is 128.0 GiB"),
    ("file-that-no-list-names", _with("data/logs/new.txt", b""), "surplus data/logs/new.txt"),
    ("listed-file-that-is-not-there", _without(_README), "missing data/README.md"),
    ("changed-byte", _with(_README, b"changed"), "changed data/README.md"),
    ("no-list", _without(_LIST), "missing manifest-sha256.txt"),
    ("no-list-of-lists", _without(_TAG_LIST), "missing tagmanifest-sha256.txt"),
    (
        "short-list-of-lists",
        _edited(_TAG_LIST, lambda data: data.splitlines(keepends=True)[0]),
        "tagmanifest-sha256.txt lists",
    ),
    ("listed-parent-folder", _listed("data/zz/../../x"), "expected a valid name below data/"),
    ("listed-absolute-path", _listed("/etc/passwd"), "expected a valid name below data/"),
    ("listed-percent-code", _listed("data/zz%0Ax"), "expected a valid name below data/"),
    ("carriage-returns", _edited(_LIST, lambda data: data.replace(b"\n", b"\r\n")), _LINE),
    ("upper-case", _edited(_LIST, lambda data: data[:64].upper() + data[64:]), _LINE),
    ("binary-mark", _edited(_LIST, lambda data: data.replace(b"  data/", b" *data/")), _LINE),
    ("md5-alone", _without(_LIST), "missing manifest-sha256.txt"),
    (
        "line-twice",
        _edited(_LIST, lambda data: data + data.splitlines(keepends=True)[-1]),
        "expected ascending paths",
    ),
    (
        "wrong-size-in-bag-info",
        _edited("bag-info.txt", lambda data: data.replace(b"Oxum: ", b"Oxum: 1")),
        "bag-info.txt contradicts the payload",
    ),
    (
        "other-version-of-bagit",
        _edited("bagit.txt", lambda data: data.replace(b"1.0", b"0.97")),
        "bagit.txt contradicts the payload",
    ),
    ("tag-file-that-no-list-names", _with("notes.txt", b""), "surplus notes.txt"),
    ("tag-folder", _with("notes/readme.txt", b""), "surplus notes/readme.txt"),
    ("fetch", _with("fetch.txt", _METADATA_SERVICE), "surplus fetch.txt"),
    ("second-list-by-md5", _with("manifest-md5.txt", b""), "surplus manifest-md5.txt"),
    ("planted-signers", _with("signatures/allowed_signers", b"* k"), "surplus signatures/allowed"),
    ("huge-signature", _with("signatures/a.sig", bytes(1 << 20)), "the limit is 16384 bytes"),
    (
        "file-of-no-kind",
        _zipped(lambda files: rehash({**files, "data/more.txt": b""})),
        "data/more.txt is unexpected in a capsule",
    ),
    ("link-to-a-secret", _unpacked(lambda path: path.symlink_to("/etc/passwd")), _KIND),
    ("link-inside", _unpacked(lambda path: path.symlink_to("capsule.json")), _KIND),
    ("link-to-a-device", _unpacked(lambda path: path.symlink_to("/dev/zero")), _KIND),
    ("named-pipe", _unpacked(os.mkfifo), _KIND),
    ("named-pipe-for-a-list", _unpacked(os.mkfifo, _LIST), "is a link or a special file"),
    ("socket", _unpacked(_listen), _KIND),
    ("linked-folder", _linked_folder, "'data/logs' is a link or a special file"),
    ("empty-folder", _unpacked(Path.mkdir), "data/README.md/ is an empty folder"),
    ("deep-folder", _unpacked(_deep), "is nested deeper than 100 folders"),
)

CASES = refuse("bag", _ATTACKS)
