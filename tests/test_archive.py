"""A capsule holds exactly what was put in, appears whole or not at all, and is read strictly."""

import dataclasses
import json
import math
import os
import stat
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capsule import archive, digest
from capsule.archive import names
from capsule.archive.container import Entry, directory, local_header
from capsule.errors import BugError, DamagedError, ExecutionError, UsageError
from capsule.record import File
from tests.support.capsules import pack, rehash, run, seal, unpack, write_folder
from tests.support.records import SEEDS, make_attempt, make_files, make_record

SAMPLES = "data/results/samples.jsonl"
# every example writes one and the same file anew, so that it may share its folder
LIGHT = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session")
def sealed(tmp_path_factory):
    return seal(tmp_path_factory.mktemp("sealed"))


@pytest.fixture(scope="session")
def whole(sealed):
    return sealed.read_bytes()


@pytest.fixture(scope="session")
def files(sealed):
    return unpack(sealed)


def read_files(files, tmp_path):
    with archive.read(pack(files, tmp_path / "b.capsule.zip")) as capsule:
        return capsule


# what goes in comes out


@pytest.mark.parametrize(
    "record",
    [
        make_record(),
        make_record(image=False, failed=(17, 21)),
        make_record(seeds=(1, 2), fresh=(1, 2), verifies="ab" * 32, notes=("uncontained", "é")),
        make_record(
            attempts=(
                make_attempt(17, outcome="interrupted", reason="lost", seconds=None),
                make_attempt(17, attempt=2),
                *(make_attempt(seed) for seed in SEEDS[1:]),
            ),
            samples=tuple(
                dataclasses.replace(line, attempt=2 if line.seed == 17 else 1)
                for line in make_record().samples
            ),
        ),
    ],
)
def test_a_record_is_read_as_it_was_written(tmp_path, record):
    path = seal(tmp_path, record)
    with archive.read(path) as capsule:
        assert capsule.record == record
    folder = write_folder(unpack(path), tmp_path / "folder")
    with archive.read(folder) as unpacked:
        assert unpacked.record == record
        assert unpacked.id == capsule.id


def test_samples_of_failed_attempts_keep_what_is_not_finite(tmp_path):
    record = make_record(seeds=(17,))
    values = (1.0, math.inf, -math.inf, 5e-324, -0.0, math.nan)
    record = dataclasses.replace(
        record,
        attempts=(make_attempt(17, failed=True),),
        samples=(dataclasses.replace(record.samples[0], values=values),),
    )
    with archive.read(seal(tmp_path, record)) as capsule:
        found = capsule.record.samples[0].values
    assert list(map(repr, found)) == list(map(repr, values))


def test_one_record_has_one_byte_string(tmp_path):
    first = seal(tmp_path, name="a.capsule.zip")
    second = seal(tmp_path, files=list(reversed(make_files())), name="b.capsule.zip")
    assert first.read_bytes() == second.read_bytes()
    assert stat.S_IMODE(first.stat().st_mode) == 0o644


def test_the_id_is_the_digest_of_the_tag_manifest(tmp_path, sealed, files):
    written = archive.write(make_record(), make_files(), tmp_path / "a.capsule.zip")
    assert written == digest.of_bytes(files["tagmanifest-sha256.txt"]).hex
    with archive.read(sealed) as capsule:
        assert capsule.id == written


def test_carried_files_come_out_again(tmp_path, sealed):
    with archive.read(sealed) as capsule:
        assert capsule.open("inputs/train.py") == b"print('training')\n"
        written = capsule.extract("logs", tmp_path / "out")
        assert capsule.extract("nothing", tmp_path / "none") == ()
        with pytest.raises(KeyError):
            capsule.open("../bagit.txt")
    assert written == (tmp_path / "out/0001/stderr.txt", tmp_path / "out/0001/stdout.txt")
    assert written[1].read_bytes() == b"step 1\nstep 2\n"
    assert not (tmp_path / "none").exists()


def test_a_file_changed_after_reading_is_not_handed_out(tmp_path, files):
    folder = write_folder(files, tmp_path / "folder")
    with archive.read(folder) as capsule:
        (folder / "data/levels/__main__.py").write_bytes(b"raise SystemExit(1)\n")
        with pytest.raises(DamagedError, match="levels/__main__"):
            capsule.open("levels/__main__.py")
        with pytest.raises(DamagedError, match="levels/__main__"):
            capsule.extract("levels", tmp_path / "out")
    assert not (tmp_path / "out/__main__.py").exists()


def test_large_files_are_carried(tmp_path):
    big = tmp_path / "big.bin"
    big.write_bytes(os.urandom(3 << 20))
    path = seal(tmp_path, files=[*make_files(), File(path="inputs/big.bin", source=big)])
    with archive.read(path) as capsule:
        assert capsule.open("inputs/big.bin") == big.read_bytes()


def test_check_tells_what_holds(sealed):
    facts = archive.check(sealed)
    assert facts[0].startswith("id ")
    assert "not signed" in facts


def test_setup_survives_the_run_folder():
    from capsule.record import Setup

    record = make_record()
    shared = {field.name for field in dataclasses.fields(record)}
    setup = Setup(
        variables={"PYTHONHASHSEED": "0"},
        threads=2,
        **{
            field.name: getattr(record, field.name)
            for field in dataclasses.fields(Setup)
            if field.name in shared
        },
    )
    kept = json.loads(json.dumps(archive.setup_to_json(setup)))
    assert archive.setup_from_json(kept) == setup


# sealing


def test_nothing_half_written_is_left(tmp_path):
    missing = File(path="inputs/gone.bin", source=tmp_path / "gone.bin")
    with pytest.raises(ExecutionError, match=r"gone\.bin"):
        seal(tmp_path, files=[*make_files(), missing])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("record", [make_record(attempts=()), make_record(image=None)])
def test_a_record_that_contradicts_itself_is_not_sealed(tmp_path, record):
    with pytest.raises(BugError):
        seal(tmp_path, record)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["inputs/a b.py", "inputs/é.py", "inputs/.hidden", "inputs/NUL.txt", "inputs/TRAIN.py"]
)
def test_names_that_do_not_travel_are_refused_before_anything_is_written(tmp_path, name):
    with pytest.raises(UsageError, match="rename"):
        seal(tmp_path, files=[*make_files(), File(path=name, source=b"")])
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(ExecutionError, match="No such file"):
        seal(tmp_path / "nowhere")


def test_a_full_disk_leaves_no_capsule(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        "import os\n"
        "from pathlib import Path\n"
        "from capsule.errors import ExecutionError\n"
        "from capsule.record import File\n"
        "from tests.support.capsules import seal\n"
        "from tests.support.records import make_files\n"
        f"disk = Path({str(disk)!r})\n"
        "big = File(path='inputs/big.bin', source=bytes(1 << 20))\n"
        "try:\n"
        "    seal(disk, files=[*make_files(), big])\n"
        "except ExecutionError as error:\n"
        "    print(os.listdir(disk), error)\n"
    )
    mount = f"mount -t tmpfs -o size=256k tmpfs '{disk}' && exec \"$@\""
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if run(*command, "true", cwd=tmp_path).returncode:
        pytest.skip("no user namespaces here, so no small disk to fill")
    result = run(*command, sys.executable, "-c", script, cwd=Path(__file__).parent.parent)
    assert result.stdout.startswith("[] "), result.stderr
    assert "no space left" in result.stdout


# damage


@settings(LIGHT, max_examples=60)
@given(data=st.data())
def test_a_capsule_cut_short_is_damaged(tmp_path, whole, data):
    end = data.draw(st.integers(0, len(whole) - 1))
    path = tmp_path / "cut.capsule.zip"
    path.write_bytes(whole[:end])
    with pytest.raises(DamagedError):
        archive.read(path)


@settings(LIGHT, max_examples=150)
@given(data=st.data())
def test_any_changed_byte_is_damage(tmp_path, whole, data):
    position = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.integers(1, 255))
    changed = bytearray(whole)
    changed[position] ^= change
    path = tmp_path / "changed.capsule.zip"
    path.write_bytes(changed)
    with pytest.raises(DamagedError):
        archive.read(path)


@settings(LIGHT, max_examples=40)
@given(data=st.data())
def test_any_changed_byte_of_a_folder_is_damage(tmp_path, files, data):
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


def test_every_defect_is_named_at_once(tmp_path, files):
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


def test_bytes_around_the_zip_are_damage(tmp_path, whole):
    for data in (b"#!/bin/sh\n" + whole, whole + b"\0", whole + whole, b""):
        path = tmp_path / "b.capsule.zip"
        path.write_bytes(data)
        with pytest.raises(DamagedError):
            archive.read(path)


def rewrite(files, tmp_path, change, **options):
    """Zip with Python's zipfile, which writes what our writer never would."""
    import zipfile

    path = tmp_path / "foreign.capsule.zip"
    with zipfile.ZipFile(path, "w", **options) as target:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100644 << 16
            target.writestr(change(info) or info, files[name])
    return path


def test_a_zip_of_the_same_form_by_another_writer_is_read(tmp_path, files, whole):
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
def test_zip_entries_of_any_other_kind_are_refused(tmp_path, files, attribute, value):
    def change(info):
        if info.filename == "data/README.md":
            setattr(info, attribute, value)

    with pytest.raises(DamagedError):
        archive.read(rewrite(files, tmp_path, change))


def test_a_zip_comment_is_refused(tmp_path, files):
    import zipfile

    path = rewrite(files, tmp_path, lambda info: None)
    with zipfile.ZipFile(path, "a") as target:
        target.comment = b"hello"
    with pytest.raises(DamagedError):
        archive.read(path)


def craft(entries, tmp_path, *, contents=None, listed=None):
    """A zip with these local entries and a directory that lists others."""
    body = b"".join(local_header(entry) + contents for entry in entries)
    path = tmp_path / "crafted.capsule.zip"
    path.write_bytes(body + directory(entries if listed is None else listed))
    return path


def entry(name, offset=0, size=0, crc=0):
    return Entry(name=name, size_bytes=size, crc=crc, offset=offset)


def test_a_local_name_that_differs_from_the_directory_is_refused(tmp_path):
    path = craft([entry("aaaa")], tmp_path, contents=b"", listed=[entry("bbbb")])
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
def test_a_directory_that_is_not_one_row_of_entries_is_refused(tmp_path, listed):
    body = local_header(entry("a")) + local_header(entry("b"))
    end = body + directory(listed)
    path = tmp_path / "crafted.capsule.zip"
    path.write_bytes(end)
    with pytest.raises(DamagedError):
        archive.read(path)


def test_a_directory_of_absurd_size_is_refused_quickly(tmp_path):
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
def test_names_that_could_mean_another_file_are_refused(tmp_path, files, name):
    with pytest.raises(DamagedError, match=r"name|longer|device"):
        read_files(files | {name: b""}, tmp_path)


@pytest.mark.parametrize(
    "pair", [("data/a", "data/A"), ("data/a", "data/a/b"), ("data/a/x", "data/A/y")]
)
def test_names_that_clash_are_refused(tmp_path, files, pair):
    with pytest.raises(DamagedError):
        read_files(files | dict.fromkeys(pair, b""), tmp_path)
    assert names.clashes(sorted(pair))


@given(st.text(max_size=300))
def test_a_permitted_name_is_plain(name):
    if names.fault(name) is None:
        assert name.isascii()
        assert len(name) <= 200
        assert Path("/root", name).resolve() == Path("/root") / name


# the bag


def edit(name, change):
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
def test_a_bag_in_another_form_is_refused(tmp_path, files, damage):
    with pytest.raises(DamagedError):
        read_files(damage(files), tmp_path)


@pytest.mark.parametrize("name", ["bagit.txt", "bag-info.txt", "manifest-sha256.txt"])
def test_a_tag_file_that_is_gone_is_named(tmp_path, files, name):
    rest = {key: data for key, data in files.items() if key != name}
    with pytest.raises(DamagedError, match=f"missing {name}"):
        read_files(rest, tmp_path)


def retag(files):
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
def test_tag_files_that_say_something_else_are_refused(tmp_path, files, damage):
    with pytest.raises(DamagedError):
        read_files(retag(damage(files)), tmp_path)


def test_a_signature_beside_the_manifests_is_allowed(tmp_path, files):
    capsule = read_files(files | {"signatures/ada.sig": b"signature"}, tmp_path)
    assert capsule.record == make_record()


# folders


def test_links_and_special_files_in_a_folder_are_refused(tmp_path, files):
    readme = "data/README.md"
    for number, make in enumerate(
        (
            lambda path: path.symlink_to("/etc/passwd"),
            lambda path: path.symlink_to("capsule.json"),
            os.mkfifo,
            lambda path: path.mkdir(),
        )
    ):
        folder = write_folder(files, tmp_path / str(number))
        (folder / readme).unlink()
        make(folder / readme)
        with pytest.raises(DamagedError, match=r"README\.md"):
            archive.read(folder)


def test_a_linked_folder_within_a_folder_is_refused(tmp_path, files):
    folder = write_folder(files, tmp_path / "folder")
    (folder / "data/logs").rename(tmp_path / "logs")
    (folder / "data/logs").symlink_to(tmp_path / "logs")
    with pytest.raises(DamagedError, match="data/logs"):
        archive.read(folder)


def test_no_capsule_at_all(tmp_path):
    with pytest.raises(UsageError):
        archive.read(tmp_path / "none.capsule.zip")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DamagedError):
        archive.read(tmp_path / "empty")


# JSON, with every hash made to fit


DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("data/capsule.json", b'"notes": []', b'"notes": [], "notes": []'),
        ("data/capsule.json", b'"notes": []', b'"notes": [NaN]'),
        ("data/capsule.json", b'"notes": []', b'"notes": [1e999]'),
        ("data/capsule.json", b'"notes": []', b'"notes": ' + DEEP),
        ("data/capsule.json", b'"notes": []', b'"notes": ["\\ud800"]'),
        ("data/capsule.json", b'"notes": []', b'"notes": ["\\u001b[2J"]'),
        ("data/capsule.json", b'"notes": []', b'"notes": {}'),
        ("data/capsule.json", b'"notes": []', b'"notes": [], "more": 1'),
        ("data/capsule.json", b'"alpha": 0.05', b'"alpha": ' + b"9" * 100_000),
        ("data/capsule.json", b"{", b"\xef\xbb\xbf{"),
        ("data/capsule.json", b"{", b"["),
        ("data/capsule.json", b"capsule-record/1", b"capsule-record/2"),
        ("data/capsule.json", b'"tool": "0.1.0"', b'"tool": "0.1.0\\n"'),
        ("data/records/hardware.json", b'"load": 0.25', b'"load": Infinity'),
        ("data/results/attempts.jsonl", b'"outcome":"completed"', b'"outcome":"won"'),
        ("data/results/attempts.jsonl", b'"attempt":1', b'"attempt":1,"attempt":1'),
        (SAMPLES, b'"values":[', b'"values":[1e999,'),
        (SAMPLES, b'"values":[', b'"values":[NaN,'),
        (SAMPLES, b'"values":[', b'"values":["nan",'),
        (SAMPLES, b'"values":[', b'"values":[true,'),
        (SAMPLES, b'"values":[', b'"values":[1,'),
        (SAMPLES, b'"values":[', b'"values":[[1.0],'),
        (SAMPLES, b'"values":[', b'"values":[' + DEEP),
        (SAMPLES, b'"values":[', b'"values":[' + b"9" * 100_000 + b","),
        (SAMPLES, b'"values":[', b'"values":[1_0.0,'),
        (SAMPLES, b'"unit":"1"', b'"unit":"1","unit":"1"'),
        (SAMPLES, b'"unit":"1"', b'"unit":1'),
        (SAMPLES, b'"seed":17', b'"seed":true'),
        (SAMPLES, b'"seed":17', b'"seed":4294967296'),
        (SAMPLES, b'"warmup":0', b'"warmup":2'),
        (SAMPLES, b'"warmup":0}\n', b'"warmup":0} \n{}\n'),
        ("data/ro-crate-metadata.json", b'"@graph": [', b'"@graph": [1, '),
        ("data/ro-crate-metadata.json", b'"@graph": [', b'"@graph": [{"@type": "File"}, '),
    ],
)
def test_json_that_is_not_strict_is_refused(tmp_path, files, name, old, new):
    assert old in files[name]
    forged = rehash(files | {name: files[name].replace(old, new, 1)})
    with pytest.raises(DamagedError):
        read_files(forged, tmp_path)


def forge_json(name, change):
    def forge(files):
        value = json.loads(files[name])
        change(value)
        return rehash(files | {name: json.dumps(value).encode()})

    return forge


def forge_text(name, old, new, count=1):
    def forge(files):
        assert old in files[name]
        return rehash(files | {name: files[name].replace(old, new, count)})

    return forge


def set_in(*path, to):
    def change(value):
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return change


OTHER = f"sha256:{'0' * 64}"
OTHER_UUID = "00000000-0000-4000-8000-000000000000"


def image_layer(field):
    return forge_json("data/records/image.json", set_in("image", "layers", 0, field, to=OTHER))


@pytest.mark.parametrize(
    "forge, named",
    [
        (forge_text("data/manifest.json", b"A tiny", b"A tall"), "manifest.json"),
        (forge_text("data/records/plan.json", b"train.py", b"other.py"), "plan's digest"),
        (forge_json("data/capsule.json", set_in("verifies", to="0" * 64)), "another capsule"),
        (forge_json("data/capsule.json", set_in("plan", to=OTHER)), "plan's digest"),
        (forge_json("data/capsule.json", set_in("levels", "digest", to=OTHER)), "levels/"),
        (
            forge_json("data/capsule.json", set_in("ended", to="2026-02-01T10:00:00+00:00")),
            "before it starts",
        ),
        (
            forge_json("data/capsule.json", set_in("ended", to="2026-99-01T10:00:00+00:00")),
            "no time",
        ),
        (forge_json("data/capsule.json", set_in("claims", 0, "metric", to="a/b/c/d")), "no metric"),
        (forge_json("data/capsule.json", set_in("claims", 0, "lower", to=1)), "allows nothing"),
        (
            forge_json("data/capsule.json", set_in("claims", 0, "pattern", "alpha", to=0.5)),
            "none of the manifest's",
        ),
        (forge_json("data/capsule.json", set_in("datasets", 0, "name", to="x")), "dataset x"),
        (forge_json("data/capsule.json", set_in("uuid", to=OTHER_UUID)), "bag-info"),
        (forge_text("data/results/attempts.jsonl", b"command/17", b"command/99"), "no such trial"),
        (forge_text("data/results/attempts.jsonl", b'"attempt":1', b'"attempt":2'), "numbered"),
        (forge_text("data/results/attempts.jsonl", b'"seed":17', b'"seed":18'), "another seed"),
        (forge_text("data/results/attempts.jsonl", b'"node":0', b'"node":1'), "node"),
        (
            forge_text("data/results/attempts.jsonl", b'"reason":null', b'"reason":"exit"'),
            "exclude each other",
        ),
        (forge_text(SAMPLES, b'"unit":"1"', b'"unit":"s"'), "differ from the metric's"),
        (forge_text(SAMPLES, b'"seed":17', b'"seed":16'), "another trial"),
        (forge_text(SAMPLES, b"final_loss", b"final_lost"), "no such metric"),
        (forge_text(SAMPLES, b'"values":[', b'"values":["NaN",'), "not finite"),
        (forge_text(SAMPLES, b'"values":[0.', b'"values":[5.'), "metrics.json"),
        (forge_text("data/results/metrics.json", b'"failed": 0', b'"failed": 1'), "metrics.json"),
        (forge_text("data/records/image-config.json", b"amd64", b"arm64"), "configuration"),
        (forge_text("data/records/image-manifest.json", b'"size": 6', b'"size": 7'), "manifest"),
        (image_layer("diff_id"), "diff_ids"),
        (image_layer("digest"), "other layers"),
        (lambda files: rehash(files | {"data/levels/more.py": b""}), "levels/"),
        (lambda files: rehash(files | {"data/more.txt": b""}), "no place in a capsule"),
        (
            forge_text("data/ro-crate-metadata.json", b'"@type": "File"', b'"@type": "Note"'),
            "describes otherwise",
        ),
    ],
)
def test_a_forgery_whose_hashes_fit_contradicts_itself(tmp_path, files, forge, named):
    with pytest.raises(DamagedError) as caught:
        read_files(forge(files), tmp_path)
    assert named in str(caught.value)


def test_forging_nothing_is_accepted(tmp_path, files):
    assert rehash(files) == files
    assert read_files(rehash(files), tmp_path).record == make_record()
