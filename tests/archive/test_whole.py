"""A capsule that is hashed beside something else is taken and refused as one that is read alone."""

import errno
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from capsule import archive, judgement
from capsule.archive import limits, whole
from capsule.errors import CapsuleError, DamagedError, UsageError
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


def test_one_that_was_hashed_and_nobody_asked_for_is_let_go_of(tmp_path: Path) -> None:
    path = pack(sample_files(), tmp_path / "a.capsule.zip")
    before = open_files()
    hashing = archive.Hashing(path)
    hashing.wait()
    assert open_files() == before + 1
    hashing.close()
    assert open_files() == before


def test_nothing_more_is_hashed_once_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []

    def verify(path: Path, expected: str | None = None, *, stop: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not stop() and time.monotonic() < deadline:
            time.sleep(0.01)
        ended.append(stop())
        raise DamagedError("it was not hashed")

    monkeypatch.setattr(whole, "verify", verify)
    archive.Hashing(tmp_path / "a.capsule.zip").close()
    assert ended == [True]


def test_a_capsule_that_is_refused_is_let_go_of(tmp_path: Path) -> None:
    path = pack(rehash(damaged(**{SAMPLES: b"nonsense\n"})), tmp_path / "a.capsule.zip")
    before = open_files()
    # the error that is kept keeps all that it passed through
    with pytest.raises(DamagedError) as refused:
        archive.read(path)
    assert refused.tb
    assert open_files() == before


def test_what_cannot_be_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no such capsule: File name too long"):
        whole.open_source(tmp_path / ("x" * 300))
    with pytest.raises(UsageError, match="no such capsule"):
        whole.open_source(tmp_path / "none")
    path = pack(sample_files(), tmp_path / "a.capsule.zip")

    def refuse(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("capsule.archive.strangers.refuse_file", refuse)
    with pytest.raises(DamagedError, match="cannot read: Input/output error"):
        whole.open_source(path)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("data/results/samples.jsonl", limits.MOST_LINES_BYTES),
        ("data/capsule.json", limits.MOST_DOCUMENT_BYTES),
        ("bag-info.txt", limits.MOST_TAG_BYTES),
        ("data/inputs/big.bin", limits.MOST_BYTES),
    ],
)
def test_a_file_has_as_many_bytes_as_are_read(name: str, most: int) -> None:
    whole._refuse_large({name: most}, "it")
    with pytest.raises(DamagedError):
        whole._refuse_large({name: most + 1}, "it")


def test_small_documents_are_kept_until_they_are_read() -> None:
    names = sorted(whole._DOCUMENTS - whole._COMPARED)
    all_of_them = dict.fromkeys((*names, *whole._COMPARED, "data/inputs/a"), 1)
    assert whole._small(all_of_them) == set(names)
    # the smallest first, and the plan leaves less room
    plan, first, second = "data/records/plan.json", "data/capsule.json", "data/manifest.json"
    assert {plan, first, second} <= set(names)
    room = whole._KEPT_BYTES
    assert whole._small({first: room}) == {first}
    assert whole._small({first: room + 1}) == set()
    assert whole._small({first: room, second: 1}) == {second}
    assert whole._small({plan: room // 2}) == {plan}
    assert whole._small({plan: room // 2, first: 1}) == {first}
