"""Whatever is missing, changed, added or in another form: the strict reader refuses it."""

import os
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from capsule import archive, digest
from capsule.archive import names
from capsule.archive.container import (
    _END,
    _END64,
    _LOCATOR64,
    Entry,
    Zip,
    _central_header,
    _end_records,
    directory,
    local_header,
)
from capsule.errors import DamagedError, UsageError
from tests.support.capsules import pack, read_files, sample, sample_files, write_folder
from tests.support.properties import examples
from tests.support.records import make_record

Files = dict[str, bytes]
Damage = Callable[[Files], Files]

# every example writes one and the same file anew, so that it may share its folder
SHARED = [HealthCheck.function_scoped_fixture]


@pytest.fixture
def whole() -> bytes:
    return sample()


@pytest.fixture
def files() -> Files:
    return dict(sample_files())


@examples(60, times=200, allowed=SHARED)
@given(data=st.data())
def test_a_capsule_cut_short_is_damaged(tmp_path: Path, whole: bytes, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(whole) - 1))
    path = tmp_path / "cut.capsule.zip"
    path.write_bytes(whole[:end])
    with pytest.raises(DamagedError):
        archive.read(path)


@examples(150, times=200, allowed=SHARED)
@given(data=st.data())
def test_any_changed_byte_is_damage(tmp_path: Path, whole: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.integers(1, 255))
    changed = bytearray(whole)
    changed[position] ^= change
    path = tmp_path / "changed.capsule.zip"
    path.write_bytes(changed)
    with pytest.raises(DamagedError):
        archive.read(path)


@examples(40, times=200, allowed=SHARED)
@given(data=st.data())
def test_any_changed_byte_of_a_folder_is_damage(
    tmp_path: Path, files: Mapping[str, bytes], data: st.DataObject
) -> None:
    folder = tmp_path / "folder"
    if not folder.exists():
        write_folder(files, folder)
    name = data.draw(st.sampled_from(sorted(name for name in files if files[name])))
    position = data.draw(st.integers(0, len(files[name]) - 1))
    changed = bytearray(files[name])
    changed[position] ^= data.draw(st.integers(1, 255))
    (folder / name).write_bytes(changed)
    try:
        with pytest.raises(DamagedError):
            archive.read(folder)
    finally:
        (folder / name).write_bytes(files[name])


def test_every_defect_is_named_at_once(tmp_path: Path, files: Files) -> None:
    changed = files | {"data/README.md": b"", "data/logs/new.txt": b"", "surplus.txt": b""}
    del changed["data/results/metrics.json"]
    with pytest.raises(DamagedError) as caught:
        read_files(changed, tmp_path)
    for part in (
        "changed data/README.md",
        "missing data/results/metrics.json",
        "surplus data/logs/new.txt",
        "surplus surplus.txt",
    ):
        assert part in caught.value.what


def test_bytes_around_the_zip_are_damage(tmp_path: Path, whole: bytes) -> None:
    for data in (b"#!/bin/sh\n" + whole, whole + b"\0", whole + whole, b""):
        path = tmp_path / "b.capsule.zip"
        path.write_bytes(data)
        with pytest.raises(DamagedError):
            archive.read(path)


def rewrite(
    files: Mapping[str, bytes], tmp_path: Path, change: Callable[[zipfile.ZipInfo], None]
) -> Path:
    """Zip with Python's zipfile, which writes what our writer never would."""
    path = tmp_path / "foreign.capsule.zip"
    with zipfile.ZipFile(path, "w") as target:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100644 << 16
            change(info)
            target.writestr(info, files[name])
    return path


def test_a_zip_of_the_same_form_by_another_writer_is_read(
    tmp_path: Path, files: Mapping[str, bytes], whole: bytes
) -> None:
    path = rewrite(files, tmp_path, lambda info: None)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "attribute, value",
    [
        ("compress_type", 8),
        ("external_attr", 0o120777 << 16),
        ("external_attr", 0o104755 << 16),
        ("external_attr", 0o010644 << 16),
        ("date_time", (2026, 1, 1, 0, 0, 0)),
        ("comment", b"PK\x05\x06"),
        ("extra", b"\x99\x99\x00\x00"),
        ("create_system", 0),
    ],
)
def test_zip_entries_of_any_other_kind_are_refused(
    tmp_path: Path, files: Mapping[str, bytes], attribute: str, value: bytes | int | tuple[int, ...]
) -> None:
    def change(info: zipfile.ZipInfo) -> None:
        if info.filename == "data/README.md":
            setattr(info, attribute, value)

    with pytest.raises(DamagedError):
        archive.read(rewrite(files, tmp_path, change))


def test_a_zip_comment_is_refused(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    path = rewrite(files, tmp_path, lambda info: None)
    with zipfile.ZipFile(path, "a") as target:
        target.comment = b"hello"
    with pytest.raises(DamagedError):
        archive.read(path)


def craft(
    entries: Sequence[Entry],
    tmp_path: Path,
    *,
    listed: list[Entry],
) -> Path:
    """A zip with these local entries and a directory that lists others."""
    body = b"".join(map(local_header, entries))
    path = tmp_path / "crafted.capsule.zip"
    path.write_bytes(body + directory(listed))
    return path


def sparse(path: Path, entries: list[Entry]) -> Path:
    """Write a zip of these entries with holes for their bytes."""
    with path.open("wb") as stream:
        for one in entries:
            stream.seek(one.offset)
            stream.write(local_header(one))
        stream.seek(entries[-1].end)
        stream.write(directory(entries))
    return path


LARGE = 5 << 30


@pytest.mark.parametrize(
    ("sizes", "count"), [([LARGE, 3, LARGE], 3), ([3, 0], 2), ([0] * 0x10000, 0x10000)]
)
def test_what_needs_zip64_has_its_records_as_the_format_says(
    tmp_path: Path, sizes: Sequence[int], count: int
) -> None:
    entries: list[Entry] = []
    for number, size in enumerate(sizes):
        offset = entries[-1].end if entries else 0
        entries.append(entry(f"{number:05d}", offset, size))
    path = sparse(tmp_path / "large.zip", entries)
    start, listed = entries[-1].end, directory(entries)
    short = _END.unpack(listed[-_END.size :])
    assert short[3] == short[4] == min(count, 0xFFFF)
    assert short[6] == min(start, 0xFFFFFFFF)
    if is_wide := LARGE in sizes or count > 0xFFFF:
        end, locator = listed[-98:-42], listed[-42:-22]
        size = len(listed) - 98
        rest = (45, 0, 0, count, count, size, start)
        assert _END64.unpack(end) == (b"PK\6\6", 44, 3 << 8 | 45, *rest)
        assert _LOCATOR64.unpack(locator) == (b"PK\6\7", 0, start + size, 1)
    assert (b"PK\6\6" in listed) == is_wide
    with zipfile.ZipFile(path) as judge:
        assert [(one.filename, one.file_size, one.header_offset) for one in judge.infolist()] == [
            (one.name, one.size_bytes, one.offset) for one in entries
        ]
    read = Zip(path)
    assert dict(read.sizes) == {one.name: one.size_bytes for one in entries}
    assert [read._entry(one.name) for one in entries] == entries
    read.close()


EDGE = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("size", "offset", "local", "central"),
    [(EDGE - 1, EDGE - 1, 0, 0), (EDGE, 5, 20, 20), (5, EDGE, 0, 12), (EDGE, EDGE, 20, 28)],
)
def test_a_number_of_32_bits_that_is_full_stands_in_an_extra_field(
    size: int, offset: int, local: int, central: int
) -> None:
    one = entry("a", offset, size)
    assert len(local_header(one)) == 30 + 1 + local
    assert len(_central_header(one)) == 46 + 1 + central
    # the version of the format that a reader needs
    versions = (local_header(one)[4], _central_header(one)[4], _central_header(one)[6])
    assert versions == (45 if local else 20, *([45 if central else 20] * 2))


@pytest.mark.parametrize(
    ("numbers", "is_wide"),
    [
        ((0xFFFE, EDGE - 1, EDGE - 1), False),
        ((0xFFFF, 0, 0), True),
        ((0, EDGE, 0), True),
        ((0, 0, EDGE), True),
    ],
)
def test_zip64_end_records_are_there_where_a_number_needs_them(
    numbers: tuple[int, int, int], is_wide: bool
) -> None:
    assert len(_end_records(*numbers)) == (56 + 20) * is_wide + 22


def test_the_bytes_of_an_entry_are_held_to_its_checksum(tmp_path: Path) -> None:
    path = pack({"a": b"right", "b": b"other"}, tmp_path / "a.zip")
    whole = Zip(path)
    assert [*whole.chunks("a", most=2)] == [b"ri", b"gh", b"t"]
    path.write_bytes(path.read_bytes().replace(b"right", b"wrong"))
    with pytest.raises(DamagedError, match="wrong checksum of a"):
        [*Zip(path).chunks("a")]
    assert b"".join(Zip(path).chunks("b")) == b"other"


def entry(name: str, offset: int = 0, size: int = 0, crc: int = 0) -> Entry:
    return Entry(name=name, size_bytes=size, crc=crc, offset=offset)


def test_a_local_name_that_differs_from_the_directory_is_refused(tmp_path: Path) -> None:
    path = craft([entry("aaaa")], tmp_path, listed=[entry("bbbb")])
    with pytest.raises(DamagedError, match="header of 'bbbb'"):
        archive.read(path)


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param([entry("a"), entry("a", 31)], id="twice"),
        pytest.param([entry("b"), entry("a", 31)], id="unsorted"),
        pytest.param([entry("a"), entry("b", 0)], id="overlap"),
        pytest.param([entry("a", 5), entry("b", 36)], id="gap"),
        pytest.param([entry("a", 2**63)], id="far away"),
        pytest.param([entry("a", size=2**40)], id="huge"),
    ],
)
def test_a_directory_that_is_not_one_row_of_entries_is_refused(
    tmp_path: Path, listed: list[Entry]
) -> None:
    body = local_header(entry("a")) + local_header(entry("b"))
    end = body + directory(listed)
    path = tmp_path / "crafted.capsule.zip"
    path.write_bytes(end)
    with pytest.raises(DamagedError):
        archive.read(path)


def test_a_directory_of_absurd_size_is_refused_quickly(tmp_path: Path) -> None:
    path = tmp_path / "crafted.capsule.zip"
    path.write_bytes(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFE, 0xFFFE, 0, 0, 0))
    with pytest.raises(DamagedError):
        archive.read(path)


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/passwd",
        "data/../../x",
        "data//x",
        "data/./x",
        "data\\..\\x",
        "data/x\x1b[2J",
        "data/x\n",
        "data/x\0y",
        "C:/x",
        "data/NUL",
        "data/con.txt",
        "data/x.",
        "data/x ",
        "data/.x",
        "data/" + "x" * 200,
        "data/" + "d/" * 2000 + "x",
        "",
    ],
)
def test_names_that_could_mean_another_file_are_refused(
    tmp_path: Path, files: Files, name: str
) -> None:
    with pytest.raises(DamagedError, match=r"name|longer|device"):
        read_files(files | {name: b""}, tmp_path)


@pytest.mark.parametrize(
    "pair", [("data/a", "data/A"), ("data/a", "data/a/b"), ("data/a/x", "data/A/y")]
)
def test_names_that_clash_are_refused(tmp_path: Path, files: Files, pair: tuple[str, str]) -> None:
    with pytest.raises(DamagedError):
        read_files(files | dict.fromkeys(pair, b""), tmp_path)
    assert names.clashes(sorted(pair))


@given(st.text(max_size=300))
def test_a_permitted_name_is_plain(name: str) -> None:
    if names.fault(name) is None:
        assert name.isascii()
        assert len(name) <= 200
        assert Path("/root", name).resolve() == Path("/root") / name


# the bag


def edit(name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda files: files | {name: change(files[name])}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            lambda files: files | {"fetch.txt": b"http://127.0.0.1/ 1 data/x\n"}, id="fetch"
        ),
        pytest.param(lambda files: files | {"manifest-md5.txt": b""}, id="md5"),
        pytest.param(lambda files: files | {"notes/readme.txt": b""}, id="tag folder"),
        pytest.param(lambda files: files | {"signatures/key": b""}, id="no signature"),
        pytest.param(
            lambda files: files | {"signatures/a.sig": bytes(1 << 20)}, id="huge signature"
        ),
        pytest.param(edit("tagmanifest-sha256.txt", lambda data: data[:-1]), id="no last newline"),
        pytest.param(edit("tagmanifest-sha256.txt", lambda data: b"\n" + data), id="empty line"),
        pytest.param(
            edit("tagmanifest-sha256.txt", lambda data: data.splitlines(True)[0]), id="short"
        ),
        pytest.param(
            edit("tagmanifest-sha256.txt", lambda data: data.replace(b"\n", b"\r\n")), id="crlf"
        ),
        pytest.param(
            edit("tagmanifest-sha256.txt", lambda data: data[:64].upper() + data[64:]), id="upper"
        ),
    ],
)
def test_a_bag_in_another_form_is_refused(tmp_path: Path, files: Files, damage: Damage) -> None:
    with pytest.raises(DamagedError):
        read_files(damage(files), tmp_path)


@pytest.mark.parametrize("name", ["bagit.txt", "bag-info.txt", "manifest-sha256.txt"])
def test_a_tag_file_that_is_gone_is_named(tmp_path: Path, files: Files, name: str) -> None:
    rest = {key: data for key, data in files.items() if key != name}
    with pytest.raises(DamagedError, match=f"missing {name}"):
        read_files(rest, tmp_path)


def retag(files: Files) -> Files:
    """Only the tag manifest is made to fit again."""
    lines = [
        f"{digest.of_bytes(files[name]).hex}  {name}\n"
        for name in ("bag-info.txt", "bagit.txt", "manifest-sha256.txt")
    ]
    return files | {"tagmanifest-sha256.txt": "".join(lines).encode()}


@pytest.mark.parametrize(
    "damage",
    [
        edit("manifest-sha256.txt", lambda data: data[:64].upper() + data[64:]),
        edit("manifest-sha256.txt", lambda data: data + data.splitlines(True)[-1]),
        edit("manifest-sha256.txt", lambda data: b"".join(reversed(data.splitlines(True)))),
        edit("manifest-sha256.txt", lambda data: data.replace(b"  data/", b" *data/")),
        edit("manifest-sha256.txt", lambda data: data + b"0" * 64 + b"  data/zz/../../../x\n"),
        edit("manifest-sha256.txt", lambda data: data + b"0" * 64 + b"  /etc/passwd\n"),
        edit("manifest-sha256.txt", lambda data: data + b"0" * 64 + b"  data/zz%0Ax\n"),
        edit("manifest-sha256.txt", lambda data: data + b"0" * 64 + b"  data/zz\n"),
        edit("bag-info.txt", lambda data: data.replace(b"Oxum: ", b"Oxum: 1")),
        edit("bag-info.txt", lambda data: data + b"Contact-Name: Nobody\n"),
        edit("bagit.txt", lambda data: data.replace(b"1.0", b"0.97")),
    ],
)
def test_tag_files_that_say_something_else_are_refused(
    tmp_path: Path, files: Files, damage: Damage
) -> None:
    with pytest.raises(DamagedError):
        read_files(retag(damage(files)), tmp_path)


def test_a_signature_beside_the_manifests_is_allowed(tmp_path: Path, files: Files) -> None:
    capsule = read_files(files | {"signatures/ada.sig": b"signature"}, tmp_path)
    assert capsule.record == make_record()


# folders


def test_links_and_special_files_in_a_folder_are_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    readme = "data/README.md"
    makers: tuple[Callable[[Path], None], ...] = (
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: path.symlink_to("capsule.json"),
        os.mkfifo,
        Path.mkdir,
    )
    for number, make in enumerate(makers):
        folder = write_folder(files, tmp_path / str(number))
        (folder / readme).unlink()
        make(folder / readme)
        with pytest.raises(DamagedError, match=r"README\.md"):
            archive.read(folder)


def test_a_linked_folder_within_a_folder_is_refused(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    folder = write_folder(files, tmp_path / "folder")
    (folder / "data/logs").rename(tmp_path / "logs")
    (folder / "data/logs").symlink_to(tmp_path / "logs")
    with pytest.raises(DamagedError, match="data/logs"):
        archive.read(folder)


def test_no_capsule_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        archive.read(tmp_path / "none.capsule.zip")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DamagedError):
        archive.read(tmp_path / "empty")
