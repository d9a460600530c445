"""Datasets: the digest against coreutils, the file cache, finding and making."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import datasets
from capsule.datasets import DatasetDigest, Progress, filecache
from capsule.errors import CannotRunError, DamagedError, UsageError
from capsule.levels.data import generators
from capsule.manifest import DatasetSpec
from capsule.record import Dataset
from capsule.site import Site
from tests.support.properties import examples

PIPELINE = """cd "$1" && find -L . -type f -printf '%P\\0' | LC_ALL=C sort -z \\
    | xargs -0 sha256sum -- | sha256sum"""

names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0\r\n"), min_size=1, max_size=6
).filter(lambda name: name not in (".", "..", "-"))
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
trees = st.dictionaries(paths, st.binary(max_size=40), min_size=1, max_size=8).filter(
    lambda tree: not any(a != b and b.startswith(f"{a}/") for a in tree for b in tree)
)


def write(tree: Mapping[str, bytes], folder: Path) -> Path:
    for name, content in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def digest(path: Path, progress: Progress | None = None) -> DatasetDigest:
    """The digest with a cache of its own, so that it is always of the bytes."""
    with tempfile.TemporaryDirectory() as cache:
        return datasets.digest(path, cache=Path(cache), progress=progress)


def digest_of(tree: Mapping[str, bytes]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return str(digest(write(tree, Path(folder))).digest)


def by_hand(folder: Path) -> str:
    command = ["sh", "-c", PIPELINE, "sh", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return "sha256:" + done.stdout.split()[0]


def test_the_documented_pipeline_is_the_tested_one() -> None:
    squeezed = " ".join(PIPELINE.replace('cd "$1"', "cd FOLDER").split())
    assert squeezed in " ".join(datasets.__doc__.split())


@examples(30)
@given(trees)
def test_coreutils_give_the_same_digest(tree: Mapping[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = write(tree, Path(name))
        actual = digest(folder)
        assert str(actual.digest) == by_hand(folder)
        assert actual.files == len(tree)
        assert actual.bytes == sum(map(len, tree.values()))


def test_coreutils_give_the_same_digest_of_awkward_names(tmp_path: Path) -> None:
    tree = {"a/b": b"1", "a-b": b"2", "a.b": b"3", "-x": b"4", " ": b"5", "é/ü": b"6", "a/-": b"7"}
    assert str(digest(write(tree, tmp_path)).digest) == by_hand(tmp_path)


@examples(40)
@given(trees, st.data())
def test_any_change_changes_the_digest(tree: Mapping[str, bytes], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(tree)))
    other = dict(tree)
    change = data.draw(st.sampled_from(["byte", "name", "less", "more"]))
    if change == "byte":
        other[name] = data.draw(st.binary(max_size=40).filter(lambda new: new != tree[name]))
    elif change == "name":
        other[f"{name}~"] = other.pop(name)
    elif change == "more":
        other[f"{name}~"] = b""
    elif len(other) > 1:
        del other[name]
    else:
        other[name] += b"\0"
    assert digest_of(other) != digest_of(tree)


@given(trees, st.randoms(use_true_random=False))
@examples(20)
def test_the_order_of_making_does_not_count(tree: Mapping[str, bytes], random: Random) -> None:
    shuffled = list(tree.items())
    random.shuffle(shuffled)
    assert digest_of(dict(shuffled)) == digest_of(tree)


def test_times_modes_and_empty_folders_do_not_count(tmp_path: Path) -> None:
    before = digest(write({"x/y": b"1"}, tmp_path))
    (tmp_path / "empty/folder").mkdir(parents=True)
    (tmp_path / "x/y").chmod(0o700)
    os.utime(tmp_path / "x/y", (1, 1))
    assert digest(tmp_path) == before


def test_a_file_has_its_plain_sha256(tmp_path: Path) -> None:
    file = tmp_path / "corpus.bin"
    file.write_bytes(b"some bytes")
    actual = digest(file)
    assert actual.digest.hex == hashlib.sha256(b"some bytes").hexdigest()
    assert (actual.bytes, actual.files) == (10, 1)


def test_a_link_to_a_file_inside_counts_as_that_file(tmp_path: Path) -> None:
    write({"real/a": b"1", "b": b"2"}, tmp_path)
    (tmp_path / "real/link").symlink_to("../b")
    (tmp_path / "hop").symlink_to("real/link")
    actual = digest(tmp_path)
    assert str(actual.digest) == by_hand(tmp_path)
    assert actual.files == 4


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("/etc/hostname", "leaves the dataset"),
        ("../outside", "leaves the dataset"),
        ("../data/b", "leaves the dataset"),
        ("sub", "link to a folder"),
        ("nothing", "is a link to a missing file"),
        ("link", "is a link to a missing file"),
    ],
)
def test_other_links_are_refused(tmp_path: Path, target: str, what: str) -> None:
    (tmp_path / "outside").write_bytes(b"")
    folder = write({"data/b": b"2", "data/sub/c": b"3"}, tmp_path) / "data"
    (folder / "link").symlink_to(target)
    with pytest.raises(UsageError, match=what) as caught:
        digest(folder)
    assert caught.value.where == str(folder)


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "-", os.fsdecode(b"\xff")])
def test_names_that_have_no_plain_line_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UsageError, match="name") as caught:
        digest(tmp_path)
    str(caught.value).encode()
    assert "\n" not in caught.value.what


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is a device, pipe or socket"):
        digest(tmp_path)


def test_nothing_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the dataset is an empty folder"):
        digest(tmp_path)
    with pytest.raises(CannotRunError, match="No such file"):
        digest(tmp_path / "none")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CannotRunError):
        digest(tmp_path / "loop")


def test_progress_ends_with_everything(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    write({f"{n}": bytes(3_000_000) for n in range(4)}, tmp_path)
    digest(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (12_000_000, 12_000_000)
    assert seen == sorted(seen)


# --- the cache of file digests ---

OLD = Path(json.__file__)  # a file that nobody wrote in the last two seconds
WRONG = "0" * 64


def poison(cache: Path, path: Path, status: os.stat_result) -> None:
    with filecache.open_digests(cache) as kept:
        kept.keep([(str(path), filecache.stamp(status), WRONG)])


def test_an_unchanged_file_is_not_read_again_unless_asked(tmp_path: Path) -> None:
    right = digest(OLD).digest.hex
    file = OLD.resolve()
    poison(tmp_path, file, file.stat())
    assert datasets.digest(OLD, cache=tmp_path).digest.hex == WRONG
    assert datasets.digest(OLD, cache=tmp_path, rehash=True).digest.hex == right
    assert datasets.digest(OLD, cache=tmp_path).digest.hex == right


def test_a_file_with_another_stamp_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"1")
    poison(tmp_path / "cache", file, file.stat())
    before = file.stat()
    file.write_bytes(b"2")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    actual = datasets.digest(file, cache=tmp_path / "cache").digest.hex
    assert actual == hashlib.sha256(b"2").hexdigest()


@pytest.mark.parametrize("which", ["folder", "file"])
def test_what_others_may_write_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """Pytest's own folder keeps others out, so the cache lies elsewhere."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
        base = Path(name)
        base.chmod(0o755)
        cache = base / "cache"
        cache.mkdir(mode=0o755)
        poison(cache, OLD.resolve(), OLD.stat())
        assert datasets.digest(OLD, cache=cache).digest.hex == WRONG
        (cache if which == "folder" else cache / "file-digests-1.sqlite").chmod(0o777)
        assert datasets.digest(OLD, cache=cache).digest.hex != WRONG
        assert (tmp_path / "own/capsule/file-digests-1.sqlite").exists()


def test_a_file_of_this_moment_is_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"1")
    datasets.digest(file, cache=tmp_path / "cache")
    datasets.digest(OLD, cache=tmp_path / "cache")
    with filecache.open_digests(tmp_path / "cache") as kept:
        assert kept.find(str(file)) is None
        assert kept.find(str(OLD.resolve())) is not None


def test_a_cache_that_cannot_be_kept_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"not a folder")
    expected = digest(OLD)
    assert datasets.digest(OLD, cache=tmp_path / "file/cache") == expected
    (tmp_path / "file-digests-1.sqlite").write_bytes(b"not a database, whatever its name says" * 9)
    assert datasets.digest(OLD, cache=tmp_path) == expected
    assert datasets.digest(OLD, cache=tmp_path) == expected
    with filecache.open_digests(tmp_path) as kept:
        assert kept.find(str(OLD.resolve())) is not None


def test_many_at_once_use_one_cache(tmp_path: Path) -> None:
    folder = OLD.parent
    code = (
        "import sys; from pathlib import Path; from capsule import datasets;"
        "print(datasets.digest(Path(sys.argv[1]), cache=Path(sys.argv[2])).digest)"
    )

    def run(_: int) -> str:
        command = [sys.executable, "-c", code, str(folder), str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(run, range(4))) == {str(digest(folder).digest)}


# --- finding ---


def spec(**fields: Any) -> DatasetSpec:
    return DatasetSpec(**{"name": "universe", "parameters": {}} | fields)


def obtain(
    wanted: DatasetSpec,
    tmp_path: Path,
    *,
    folder: Path | None = None,
    data: Mapping[str, Path] | None = None,
) -> tuple[Dataset, Path]:
    site = Site(file=tmp_path / "site.json", data=data or {})
    return datasets.obtain(wanted, folder=folder, site=site, cache=tmp_path / "cache")


@pytest.fixture
def universe(tmp_path: Path) -> Path:
    return write({"stars": b"bright", "dust/grains": b"dark"}, tmp_path / "here/universe")


def test_a_path_beside_the_manifest(tmp_path: Path, universe: Path) -> None:
    named = str(digest(universe).digest)
    wanted = spec(path="universe", digest=named)
    dataset, path = obtain(wanted, tmp_path, folder=universe.parent)
    assert path == universe
    assert (dataset.name, dataset.digest, dataset.source) == ("universe", named, "path")
    assert (dataset.bytes, dataset.files) == (10, 2)


def test_a_path_without_a_digest_is_named(tmp_path: Path, universe: Path) -> None:
    dataset, _ = obtain(spec(path="universe"), tmp_path, folder=universe.parent)
    assert dataset.digest == by_hand(universe)


def test_a_strangers_path_is_found_by_digest_alone(tmp_path: Path, universe: Path) -> None:
    named = str(digest(universe).digest)
    wanted = spec(path="here/universe", digest=named)
    dataset, path = obtain(wanted, tmp_path, data={named: universe})
    assert (path, dataset.source) == (universe, "site")


def test_a_changed_byte_stops_and_names_both_digests_and_the_file(
    tmp_path: Path, universe: Path
) -> None:
    named = str(digest(universe).digest)
    stars = universe / "stars"
    poison(tmp_path / "cache", stars, stars.stat())
    stars.write_bytes(b"brighter")
    for wanted, folder, data in (
        (spec(path="universe", digest=named), universe.parent, None),
        (spec(digest=named), None, {named: universe}),
    ):
        with pytest.raises(DamagedError) as caught:
            obtain(wanted, tmp_path, folder=folder, data=data)
        assert named in caught.value.what
        assert by_hand(universe) in caught.value.what
        assert "changed since it was last hashed: stars" in caught.value.what
        assert caught.value.where == str(universe)
        assert caught.value.exit_code == 4


def test_a_dataset_that_is_nowhere_says_what_to_add(tmp_path: Path) -> None:
    named = "sha256:" + "7" * 64
    with pytest.raises(CannotRunError) as caught:
        obtain(spec(digest=named, path="universe"), tmp_path, folder=tmp_path)
    assert caught.value.exit_code == 6
    assert json.dumps({"data": {named: "/path/to/data"}}) in (caught.value.advice or "")
    assert str(tmp_path / "site.json") in (caught.value.advice or "")
    with pytest.raises(CannotRunError, match="has no digest to search for"):
        obtain(spec(path="universe"), tmp_path, folder=tmp_path)


# --- making ---

REGRESSION: dict[str, Any] = {"generator": "regression", "parameters": {"samples": 50, "seed": 3}}


def test_generated_data_is_made_once(tmp_path: Path) -> None:
    dataset, path = obtain(spec(**REGRESSION), tmp_path)
    made = {file.name: (file.stat().st_ino, file.read_bytes()) for file in path.iterdir()}
    again, same = obtain(spec(**REGRESSION, digest=dataset.digest), tmp_path)
    assert (again, same) == (dataset, path)
    assert {f.name: (f.stat().st_ino, f.read_bytes()) for f in path.iterdir()} == made
    assert dataset.source == "generator"
    assert dataset.digest == generators.digest(generators.read(path))
    assert not list((tmp_path / "cache/data").glob(".*"))


def test_defaults_and_their_values_are_the_same_data(tmp_path: Path) -> None:
    _, a = obtain(spec(**REGRESSION), tmp_path)
    full = {"samples": 50, "features": 8, "seed": 3}
    _, b = obtain(spec(generator="regression", parameters=full), tmp_path)
    assert a == b


def test_a_damaged_copy_is_made_again(tmp_path: Path) -> None:
    dataset, path = obtain(spec(**REGRESSION), tmp_path)
    for harm in ((path / "y.npy").write_bytes, (path.parent / "origin.json").write_bytes):
        harm(b"{")
        assert obtain(spec(**REGRESSION), tmp_path) == (dataset, path)
        assert dataset.digest == generators.digest(generators.read(path))


def forge(entry: Path, cache: Path) -> None:
    """Fill the arrays with zeros, and say in the entry that this is what was generated."""
    for file in (entry / "arrays").iterdir():
        file.write_bytes(file.read_bytes()[:128] + bytes(file.stat().st_size - 128))
    tree = datasets.digest(entry / "arrays", cache=cache).digest
    origin = json.loads((entry / "origin.json").read_text())
    (entry / "origin.json").write_text(json.dumps(origin | {"tree": str(tree)}))


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("forgets", [False, True])
def test_generated_data_that_was_changed_is_made_again(
    tmp_path: Path, pinned: bool, forgets: bool
) -> None:
    dataset, path = obtain(spec(**REGRESSION), tmp_path)
    forge(path.parent, tmp_path / "cache")
    if forgets:
        (tmp_path / "cache/file-digests-1.sqlite").unlink()
    digest = dataset.digest if pinned else None
    assert obtain(spec(**REGRESSION, digest=digest), tmp_path) == (dataset, path)
    assert dataset.digest == generators.digest(generators.read(path))


def test_generated_data_that_was_changed_is_not_found_by_its_digest(tmp_path: Path) -> None:
    dataset, path = obtain(spec(**REGRESSION), tmp_path)
    forge(path.parent, tmp_path / "cache")
    with pytest.raises(CannotRunError, match="is missing on this machine"):
        obtain(spec(digest=dataset.digest), tmp_path)


def test_one_dataset_in_the_place_of_another_is_made_again(tmp_path: Path) -> None:
    other = {**REGRESSION, "parameters": {"samples": 50, "seed": 4}}
    (a, path), (_, beside) = (obtain(spec(**one), tmp_path) for one in (REGRESSION, other))
    shutil.rmtree(path.parent)
    shutil.copytree(beside.parent, path.parent)
    assert obtain(spec(**REGRESSION), tmp_path) == (a, path)
    assert a.digest == generators.digest(generators.read(path))


def test_data_in_use_stays_where_it_is_if_its_digest_was_forgotten(tmp_path: Path) -> None:
    _, path = obtain(spec(**REGRESSION), tmp_path)
    before = [file.stat().st_ino for file in path.iterdir()]
    (tmp_path / "cache/file-digests-1.sqlite").unlink()
    obtain(spec(**REGRESSION), tmp_path)
    assert [file.stat().st_ino for file in path.iterdir()] == before


def test_other_generated_data_than_expected_stops(tmp_path: Path) -> None:
    expected = "sha256:" + "5" * 64
    with pytest.raises(DamagedError) as caught:
        obtain(spec(**REGRESSION, digest=expected), tmp_path)
    actual = generators.digest(generators.generate("regression", REGRESSION["parameters"]))
    assert expected in caught.value.what
    assert actual in caught.value.what


def test_generated_data_is_found_by_digest_alone(tmp_path: Path) -> None:
    dataset, path = obtain(spec(**REGRESSION), tmp_path)
    assert obtain(spec(digest=dataset.digest), tmp_path) == (dataset, path)


def test_wrong_generators_and_parameters_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown generator 'bigbang'") as caught:
        obtain(spec(generator="bigbang"), tmp_path)
    assert "regression" in (caught.value.advice or "")
    with pytest.raises(UsageError, match="sample"):
        obtain(spec(generator="regression", parameters={"sample": 1}), tmp_path)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"not a folder")
    with pytest.raises(CannotRunError, match="cannot write generated data") as caught:
        obtain(spec(**REGRESSION), tmp_path)
    assert "CAPSULE_CACHE" in (caught.value.advice or "")
