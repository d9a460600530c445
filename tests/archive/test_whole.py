"""A capsule that is hashed beside something else is taken and refused as one that is read alone."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from capsule import archive, judgement
from capsule.errors import CapsuleError, DamagedError
from tests.support.capsules import pack, rehash, sample, sample_files, write_folder

SAMPLES = "data/results/samples.jsonl"


def damaged(**files: bytes) -> Mapping[str, bytes]:
    return {**sample_files(), **files}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def refusal(path: Path, hashing: archive.Hashing | None = None) -> tuple[str, str | None]:
    with pytest.raises(CapsuleError) as refused:
        archive.read(path, hashing=hashing)
    return refused.value.what, refused.value.where


def test_what_was_hashed_before_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.capsule.zip"
    path.write_bytes(sample())
    with closing(archive.Hashing(path)) as hashing, archive.read(path, hashing=hashing) as beside:
        with archive.read(path) as alone:
            assert (beside.id, beside.record) == (alone.id, alone.record)
        assert beside.open("results/samples.jsonl") == sample_files()[SAMPLES]


@pytest.mark.parametrize("write", [pack, write_folder])
@pytest.mark.parametrize(
    "files",
    [
        {SAMPLES: b"nonsense\n"},
        {"data/surplus": b"a"},
        {"manifest-sha256.txt": b"nonsense"},
    ],
)
def test_it_is_refused_in_the_same_words(
    files: dict[str, bytes],
    write: Callable[[Mapping[str, bytes], Path], Path],
    tmp_path: Path,
) -> None:
    path = write(damaged(**files), tmp_path / "a.capsule.zip")
    with closing(archive.Hashing(path)) as hashing:
        assert refusal(path, hashing) == refusal(path)


def test_a_file_that_is_not_there_or_another_is_refused_when_it_is_asked_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.capsule.zip"
    with closing(archive.Hashing(path)) as hashing:
        assert refusal(path, hashing) == refusal(path)
    path.write_bytes(sample())
    with closing(archive.Hashing(path, "0" * 12)) as hashing:
        assert "another capsule" in refusal(path, hashing)[0]


def test_the_first_of_two_damaged_capsules_is_named(tmp_path: Path) -> None:
    first = pack(rehash(damaged(**{SAMPLES: b"nonsense\n"})), tmp_path / "a.capsule.zip")
    second = pack(damaged(**{SAMPLES: b"nonsense\n"}), tmp_path / "b.capsule.zip")
    with pytest.raises(DamagedError, match=r"a\.capsule\.zip"):
        judgement.diff(first, second)
    with pytest.raises(DamagedError, match=r"a\.capsule\.zip"):
        judgement.diff(first, tmp_path / "none.capsule.zip")


def test_one_that_nobody_asks_for_is_let_go_of(tmp_path: Path) -> None:
    path = pack(damaged(**{"data/logs/long": b"a" * (64 << 20)}), tmp_path / "a.capsule.zip")
    before = open_files()
    archive.Hashing(path).close()
    assert open_files() == before
