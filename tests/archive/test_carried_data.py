"""What a capsule says of its data and carries of it is one thing, or it is refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from capsule import digest
from capsule.archive import consistency
from capsule.archive.indented import pretty
from capsule.errors import DamagedError
from tests.support.capsules import read_files, rehash, sample_files
from tests.support.records import make_record

Files = dict[str, bytes]
RECORD = "data/capsule.json"
DATA = b"0123456789abcdef" * 4


def state(field: str, value: object) -> Callable[[Files], Files]:
    """The same capsule with another statement on its dataset."""

    def forge(files: Files) -> Files:
        document = json.loads(files[RECORD])
        document["datasets"][0][field] = value
        return files | {RECORD: pretty(document)}

    return forge


def add(name: str) -> Callable[[Files], Files]:
    """The same capsule with another file of data."""
    return lambda files: files | {f"data/datasets/{name}": DATA}


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (state("embedded", True), "dataset ramp has 0 bytes in 0 files with digest none"),
        (state("digest", f"sha256:{'6' * 64}"), "expected .* as in the manifest"),
        (add("ramp/x"), "contains dataset ramp; the record says that"),
        (add("ramp"), "contains dataset ramp; the record says that"),
        (add("other/x"), "the record lacks the dataset of datasets/other"),
    ],
)
def test_data_that_does_not_fit_the_record_is_refused(
    tmp_path: Path, forge: Callable[[Files], Files], words: str
) -> None:
    with pytest.raises(DamagedError, match=words):
        read_files(rehash(forge(dict(sample_files()))), tmp_path)


@pytest.mark.parametrize(
    ("files", "fits"),
    [
        ({"ramp/a.bin": DATA}, True),
        ({"ramp/sub/a.bin": DATA}, True),
        ({"ramp": DATA}, False),
        ({"ramp/a.bin": DATA, "ramp/b.bin": b""}, False),
        ({"ramp/a.bin": DATA[:-1]}, False),
        ({"ramp2/a.bin": DATA}, False),
        ({}, False),
    ],
)
def test_the_files_of_a_dataset_are_those_that_its_digest_names(
    files: Mapping[str, bytes], fits: bool
) -> None:
    record = make_record()
    stated = dataclasses.replace(
        record.datasets[0], embedded=True, digest=str(digest.of_bytes(DATA)), bytes=len(DATA)
    )
    faults = consistency.dataset_faults(
        dataclasses.replace(record, datasets=(stated,)),
        {f"datasets/{name}": digest.of_bytes(data) for name, data in files.items()},
        {f"datasets/{name}": len(data) for name, data in files.items()},
    )
    assert (not list(faults)) is fits
