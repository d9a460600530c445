"""docs/reference/capsule-format.md says how to verify a capsule by hand: follow it exactly."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from capsule import archive
from capsule.record import Record
from tests.support.capsules import pack, rehash, run, seal, unpack
from tests.support.records import make_files, make_record

Files = dict[str, bytes]
Damage = Callable[[Files], Files]

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "capsule-format.md"


def follow(capsule: Path) -> subprocess.CompletedProcess[str]:
    """Run every command of the page, in order, in an empty folder."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    work = capsule.parent / "work"
    work.mkdir()
    environment = {"PATH": os.environ["PATH"], "CAPSULE": str(capsule)}
    return run("bash", "-euo", "pipefail", "-c", "\n".join(blocks), cwd=work, env=environment)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(make_record(), id="contained"),
        pytest.param(make_record(failed=(18,)), id="with a failed trial"),
        pytest.param(make_record(image=False), id="on the host"),
    ],
)
def test_a_whole_capsule_passes_every_command(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "a.capsule.zip"

    capsule_id = archive.write(record, make_files(), path)
    result = follow(path)
    assert result.returncode == 0, result.stderr
    assert f"{capsule_id}  tagmanifest-sha256.txt" in result.stdout
    assert "train/default/command/final_loss" in result.stdout


def flip(name: str) -> Damage:
    def damage(files: Files) -> Files:
        return files | {name: files[name][:-2] + bytes([files[name][-2] ^ 1]) + files[name][-1:]}

    return damage


def forge(name: str, old: bytes, new: bytes) -> Damage:
    """Change one file and make every hash fit again: only what follows from it can tell."""

    def damage(files: Files) -> Files:
        assert old in files[name]
        return rehash(files | {name: files[name].replace(old, new, 1)})

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        flip("data/results/samples.jsonl"),
        flip("data/README.md"),
        flip("bag-info.txt"),
        flip("manifest-sha256.txt"),
        flip("tagmanifest-sha256.txt"),
        lambda files: files | {"data/extra.txt": b"extra"},
        lambda files: files | {"fetch.txt": b"http://127.0.0.1/ 1 data/x\n"},
        lambda files: {name: data for name, data in files.items() if name != "data/README.md"},
        forge("data/results/samples.jsonl", b'"values":[0.', b'"values":[1.'),
        forge("data/manifest.json", b"A tiny", b"A tall"),
        forge("data/records/plan.json", b'"train"', b'"trait"'),
        forge("data/levels/__main__.py", b"0", b"1"),
        forge("data/records/image-config.json", b"amd64", b"arm64"),
        forge("data/records/image-manifest.json", b'"size": 6', b'"size": 7'),
    ],
)
def test_a_damaged_capsule_fails(tmp_path: Path, damage: Damage) -> None:
    files = unpack(seal(tmp_path))
    assert follow(pack(damage(files), tmp_path / "b.capsule.zip")).returncode != 0


def test_one_byte_changed_in_the_file_fails(tmp_path: Path) -> None:
    path = seal(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b'"values":[') + 12] ^= 1
    path.write_bytes(data)
    assert follow(path).returncode != 0
