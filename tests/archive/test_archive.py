"""A capsule holds exactly what was put in, and appears whole or not at all."""

import dataclasses
import json
import math
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from capsule import archive, digest
from capsule.errors import BugError, CannotRunError, DamagedError, ExecutionError, UsageError
from capsule.origin import Added, Extension, Original, Rereading, Verification
from capsule.record import File, Record
from capsule.sizes import size
from tests.archive.test_whole import open_files
from tests.support.capsules import carry, run, sample, sample_files, seal, unpack, write_folder
from tests.support.records import (
    LOSS,
    SEEDS,
    make_attempt,
    make_files,
    make_image,
    make_record,
    noted,
)
from tests.support.registries import make_index


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "sealed.capsule.zip"
    path.write_bytes(sample())
    return path


@pytest.fixture
def files() -> dict[str, bytes]:
    return dict(sample_files())


# what goes in comes out


@pytest.mark.parametrize(
    "record",
    [
        make_record(),
        make_record(image=False, failed=(17, 21)),
        make_record(
            seeds=(1, 2), fresh=(1, 2), verifies="ab" * 32, notes=noted("uncontained", "é")
        ),
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
def test_a_record_is_read_as_it_was_written(tmp_path: Path, record: Record) -> None:
    path = seal(tmp_path, record)
    with archive.read(path) as capsule:
        assert capsule.record == record
    folder = write_folder(unpack(path), tmp_path / "folder")
    with archive.read(folder) as unpacked:
        assert unpacked.record == record
        assert unpacked.id == capsule.id


def test_every_kind_of_claim_is_read_as_it_was_frozen(tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [
        {"type": "equivalence", "looks": [3, 6, 12], "resolution": 0.5},
        {"type": "equivalence", "margin": {"preset": "strict"}, "paired": True},
        {"type": "noninferiority", "margin": {"sd": 1.5}},
        {"type": "prediction", "published": {"mean": 1.0, "sd": 0.5}, "margin": {"ratio": 2}},
        {"type": "prediction", "published": {"mean": 1.0, "sd": 0.5, "n": 4}},
        {"type": "distribution", "margin": {"distance": 0.25}},
        {"type": "curve"},
        {"type": "threshold", "at_most": 1, "alpha": 0.01},
        {"type": "bound", "at_least": 0},
        {"type": "threshold", "at_least": 1, "mean": "geometric"},
        {"type": "exact", "primary": False},
    ]
    record = make_record(asked=[{"metric": LOSS, **kind} for kind in kinds])
    with archive.read(seal(tmp_path, record)) as capsule:
        assert capsule.record == record
        assert [claim.type for claim in capsule.record.claims] == [kind["type"] for kind in kinds]


def test_a_curve_keeps_its_steps(tmp_path: Path) -> None:
    record = make_record(seeds=(17,))
    curve = dataclasses.replace(
        record.samples[0], values=(3.0, 2.0, 1.5), steps=(0.0, 0.1, 7.0), warmup=1
    )
    record = dataclasses.replace(record, samples=(curve, *record.samples[1:]))
    with archive.read(seal(tmp_path, record)) as capsule:
        assert capsule.record.samples == record.samples


def test_samples_of_failed_attempts_keep_what_is_not_finite(tmp_path: Path) -> None:
    record = make_record(seeds=(17,))
    values = (1.0, math.inf, -math.inf, 5e-324, -0.0, math.nan)
    record = dataclasses.replace(
        record,
        attempts=(make_attempt(17, failed=True),),
        samples=(dataclasses.replace(record.samples[0], values=values),),
    )
    with archive.read(seal(tmp_path, record)) as capsule:
        read = capsule.record.samples[0].values
    assert list(map(repr, read)) == list(map(repr, values))


def test_one_record_has_one_byte_string(tmp_path: Path) -> None:
    first = seal(tmp_path, name="a.capsule.zip")
    second = seal(tmp_path, files=list(reversed(make_files())), name="b.capsule.zip")
    assert first.read_bytes() == second.read_bytes()
    assert stat.S_IMODE(first.stat().st_mode) == 0o644


def test_the_id_is_the_digest_of_the_tag_manifest(
    tmp_path: Path, sealed: Path, files: Mapping[str, bytes]
) -> None:
    written = archive.write(make_record(), make_files(), tmp_path / "a.capsule.zip")
    assert written == digest.of_bytes(files["tagmanifest-sha256.txt"]).hex
    with archive.read(sealed) as capsule:
        assert capsule.id == written


def test_carried_files_come_out_again(tmp_path: Path, sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        assert capsule.open("inputs/train.py") == b"print('training')\n"
        written = capsule.extract("logs", tmp_path / "out")
        assert capsule.extract("nothing", tmp_path / "none") == ()
        with pytest.raises(KeyError):
            capsule.open("../bagit.txt")
    assert written == (tmp_path / "out/0001/stderr.txt", tmp_path / "out/0001/stdout.txt")
    assert written[1].read_bytes() == b"step 1\nstep 2\n"
    assert not (tmp_path / "none").exists()


def test_a_file_changed_after_reading_is_not_handed_out(
    tmp_path: Path, files: Mapping[str, bytes]
) -> None:
    folder = write_folder(files, tmp_path / "folder")
    with archive.read(folder) as capsule:
        (folder / "data/levels/__main__.py").write_bytes(b"raise SystemExit(1)\n")
        with pytest.raises(DamagedError, match="levels/__main__"):
            capsule.open("levels/__main__.py")
        with pytest.raises(DamagedError, match="levels/__main__"):
            capsule.extract("levels", tmp_path / "out")
    assert not (tmp_path / "out/__main__.py").exists()


def test_large_files_are_carried(tmp_path: Path) -> None:
    big = tmp_path / "big.bin"
    big.write_bytes(os.urandom(3 << 20))
    path = seal(tmp_path, files=[*make_files(), File(path="inputs/big.bin", source=big)])
    with archive.read(path) as capsule:
        assert capsule.open("inputs/big.bin") == big.read_bytes()


def test_check_tells_what_holds(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        image = capsule.record.image
        assert image is not None
        assert capsule.facts() == [
            f"id {capsule.id}",
            f"all {len(capsule.digests)} files ({size(sum(capsule.sizes.values()))}) present,"
            " SHA-256 verified",
            "5 attempts and 10 series of samples fit the plan and the manifest",
            "results/metrics.json: identical when computed again from the samples",
            "README.md and the crate follow from the record",
            "claims as in the manifest: 1",
            f"the image's digests form one chain from {image.identity}",
            f"levels/ has digest {capsule.record.levels['digest']}",
            "not signed",
        ]


VERIFICATION = Verification(of="ab" * 32, runs=5, added=(Added(id="cd" * 32, runs=2),))


@pytest.mark.parametrize(
    ("changes", "more", "less"),
    [
        (
            {"tool": "0.1.0"},
            ["README.md and the crate not compared: written by capsule-hpc 0.1.0"],
            ["README.md"],
        ),
        (
            {"origin": VERIFICATION},
            [f"2 runs come from the earlier verification {'cd' * 32}"],
            [],
        ),
        (
            {"origin": Extension(of="ab" * 32, seeds=3)},
            [f"logs, evidence and other files match the predecessor {'ab' * 32}"],
            [],
        ),
        ({"origin": Original()}, [], []),
        ({"image": None, "levels": {"digest": None, "release": None}}, [], ["the", "levels/"]),
    ],
)
def test_check_tells_what_one_capsule_has_and_another_has_not(
    sealed: Path, changes: dict[str, Any], more: list[str], less: list[str]
) -> None:
    with archive.read(sealed) as capsule:
        usual = capsule.facts()
        other = dataclasses.replace(capsule.record, **changes)
        facts = dataclasses.replace(capsule, record=other).facts()
    assert [one for one in facts if one not in usual] == more
    assert [one.partition(" ")[0] for one in usual if one not in facts] == less


def test_check_counts_signatures(sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        sizes = {**capsule.source.sizes, "signatures/a.sig": 9, "signatures/b.sig": 9}
        signed = dataclasses.replace(capsule, source=SimpleNamespace(sizes=sizes))
        assert signed.facts()[-1] == "2 signatures, not checked"


@pytest.mark.parametrize("count", [0, 3, 4, 5])
def test_the_first_values_that_todays_rules_refuse_are_named_and_the_others_counted(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    sentences = [f"value {n}" for n in range(count)]
    monkeypatch.setattr("capsule.archive.texts.refused", lambda record, load: iter(sentences))
    with archive.read(sealed) as capsule:
        assert capsule.refused_values() == []
        monkeypatch.setattr(type(capsule.record.manifest), "reads_texts", True)
        more = [f"and {count - 3} more values"] if count > 3 else []
        assert capsule.refused_values() == sentences[:3] + more


def test_a_capsule_becomes_the_predecessor_of_another(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    folder = write_folder(files, tmp_path / "folder")
    manifest, tags = "manifest-sha256.txt", "tagmanifest-sha256.txt"
    with archive.read(folder) as capsule:
        before = capsule.as_predecessor()
        assert before.record == capsule.record
        assert (before.manifest, before.tag_manifest) == (files[manifest], files[tags])
        for name, what in ((manifest, manifest), (tags, tags)):
            (folder / name).write_bytes(files[name].upper())
            with pytest.raises(DamagedError, match=f"{what} is sha256:"):
                capsule.as_predecessor()
            (folder / name).write_bytes(files[name])


def test_what_a_capsule_was_made_of_is_read_with_it(tmp_path: Path, sealed: Path) -> None:
    made = tmp_path / "made.capsule.zip"
    with archive.read(sealed) as before:
        record = dataclasses.replace(
            before.record,
            uuid="6f1c6b52-5d1e-4a0e-9a35-0d9c5b1f3c12",
            origin=Rereading(of=before.id),
            predecessor=before.as_predecessor(),
            started="2026-03-02T10:00:00+00:00",
            ended="2026-03-02T10:00:00+00:00",
        )
        archive.write(record, carry(before), made)
    with archive.read(made) as capsule:
        assert capsule.record == record
        assert capsule.record.predecessor == record.predecessor
        assert capsule.record.predecessor is not None


def test_too_little_memory_is_told(sealed: Path) -> None:
    with (
        mock.patch("capsule.archive.whole.verify", side_effect=MemoryError),
        pytest.raises(CannotRunError, match="not enough memory to read the capsule"),
    ):
        archive.read(sealed)


def test_an_id_is_read_without_anything_else(tmp_path: Path, sealed: Path) -> None:
    with archive.read(sealed) as capsule:
        expected = capsule.id
    assert archive.identify(sealed, None, where="it") == expected
    assert archive.identify(sealed, expected[:12], where="it") == expected
    (tmp_path / "b").write_bytes(b"no zip")
    before = open_files()
    for path, wanted in ((sealed, "0" * 12), (tmp_path / "b", None)):
        with pytest.raises(DamagedError) as refused:
            archive.identify(path, wanted, where="it")
        assert refused.value.where == "it"
        assert open_files() == before


def test_setup_survives_the_run_folder() -> None:
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
    kept["image"]["pinned"] = "registry.example.org/other:" + "0" * 64
    with pytest.raises(DamagedError, match="pinned contradict its reference"):
        archive.setup_from_json(kept)


def test_the_index_that_an_image_was_chosen_from_is_kept(tmp_path: Path) -> None:
    image = make_image()
    assert image.manifest is not None
    body = make_index(image.manifest)
    image = dataclasses.replace(image, index=body, index_digest=digest.of_bytes(body))
    path = seal(tmp_path, dataclasses.replace(make_record(), image=image))
    with archive.read(path) as capsule:
        assert capsule.record.image == image
        assert capsule.open("records/image-index.json") == body


# sealing


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    missing = File(path="inputs/gone.bin", source=tmp_path / "gone.bin")
    with pytest.raises(ExecutionError, match=r"gone\.bin"):
        seal(tmp_path, files=[*make_files(), missing])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "record", [make_record(attempts=()), dataclasses.replace(make_record(), image=None)]
)
def test_a_record_that_contradicts_itself_is_not_sealed(tmp_path: Path, record: Record) -> None:
    with pytest.raises(BugError):
        seal(tmp_path, record)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["inputs/a\nb.py", "inputs/\u202ea.py", "inputs/.git/config", "inputs/\udcff", "levels/é.py"],
)
def test_names_that_do_not_travel_are_refused_before_anything_is_written(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="rename"):
        seal(tmp_path, files=[*make_files(), File(path=name, source=b"")])
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="No such file"):
        seal(tmp_path / "nowhere")


def test_a_full_disk_leaves_no_capsule(tmp_path: Path) -> None:
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
    result = run(*command, sys.executable, "-c", script, cwd=Path(__file__).parents[2])
    assert result.stdout.startswith("[] "), result.stderr
    assert "no space left" in result.stdout
