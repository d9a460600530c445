"""Data of a capsule: carried where it is small, else fetched by its author and by an evaluator."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

from capsule import sizes
from tests.support.command import NOISY, User, write_manifest, write_script
from tests.support.downloads import shelve

DATA = b"a ramp\n" * 1000
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
READS = 'import os\nassert open(os.environ["CAPSULE_DATA_CORPUS"], "rb").read(6) == b"a ramp"\n'


@pytest.fixture
def author(tmp_path: Path) -> User:
    return User.make(tmp_path)


def write(user: User, **source: object) -> None:
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "datasets": ["corpus"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    write_script(user.folder, READS + NOISY)
    path = write_manifest(user.folder, benchmarks=[benchmark], datasets={"corpus": source})
    path.rename(user.folder / "mine.json")


def test_data_goes_from_its_address_to_a_verdict(author: User, tmp_path: Path) -> None:
    with shelve(DATA) as shelf:
        source = {
            "url": shelf.url(),
            "doi": "10.5555/1",
            "license": "CC0-1.0",
            "description": "A ramp",
            "embed": False,
        }
        write(author, **source)
        refused = author.run("run", "mine.json")
        assert refused.returncode == 6, refused.stderr
        assert "run `capsule data fetch MANIFEST`, which prints the digest" in refused.stderr
        fetched = author.run("data", "fetch", "mine.json")
        assert fetched.returncode == 0, fetched.stderr
        assert f'write down "digest": "{DIGEST}"' in fetched.stdout
        write(author, **source, digest=DIGEST)
        (data,) = author.json("run", "mine.json", "--dry-run")["here"]["data"]
        assert f"/fetched/{DIGEST.removeprefix('sha256:')}/" in data["path"]
        sealed = author.run("run", "mine.json", "-o", "a.capsule.zip")
        assert sealed.returncode == 0, sealed.stderr
        shown = " ".join(author.run("show", "a.capsule.zip", "--full").stdout.split())
        for words in (shelf.url(), "doi:10.5555/1", "licence CC0-1.0", "A ramp", DIGEST):
            assert words in shown

        stranger = User.make(tmp_path, "stranger")
        shutil.copy(author.folder / "a.capsule.zip", stranger.folder)
        verify = ("verify", "a.capsule.zip", "--trust", "--allow-host")
        missing = stranger.run(*verify)
        assert missing.returncode == 6
        assert "`capsule data fetch`" in missing.stderr
        (one,) = stranger.json("data", "fetch", "a.capsule.zip")["datasets"]
        assert (one["state"], one["digest"]) == ("fetched", DIGEST)
        (again,) = stranger.json("data", "fetch", "a.capsule.zip")["datasets"]
        assert (again["state"], again["path"]) == ("here", one["path"])
        verified = stranger.run(*verify)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert (
        f"data corpus, {sizes.size(len(DATA))} in 1 file, {shelf.url()}, doi:10.5555/1"
        in " ".join(verified.stderr.split())
    )


def test_what_cannot_be_fetched_is_told(author: User) -> None:
    write(author, digest=DIGEST, doi="10.5555/1")
    ended = author.run("data", "fetch", "mine.json")
    assert ended.returncode == 6
    assert "published as https://doi.org/10.5555/1; obtain the dataset" in ended.stdout
    (author.folder / "corpus.bin").write_bytes(DATA)
    write(author, path="corpus.bin")
    ended = author.run("data", "fetch", "mine.json")
    assert (ended.returncode, DIGEST in ended.stdout) == (0, True)
    ended = author.run("data", "fetch", "nothing.json")
    assert (ended.returncode, "no such file" in ended.stderr) == (2, True)


def carry(user: User, **source: object) -> str:
    """Run and seal with data in the capsule; returns what was said."""
    write(user, **source)
    sealed = user.run("run", "mine.json", "-o", "a.capsule.zip")
    assert sealed.returncode == 0, sealed.stderr
    return sealed.stderr


def names(capsule: Path) -> list[str]:
    with zipfile.ZipFile(capsule) as archive:
        prefix = "data/datasets/"
        found = [name for name in archive.namelist() if name.startswith(prefix)]
    return [name.removeprefix(prefix) for name in found]


@pytest.mark.parametrize("kind", ["file", "folder", "folder of one"])
def test_small_data_comes_along(author: User, tmp_path: Path, kind: str) -> None:
    place = author.folder / "ramps"
    reads = READS
    if kind == "file":
        place.write_bytes(DATA)
        expected = ["corpus/ramps"]
    else:
        (place / "sub").mkdir(parents=True)
        (place / "sub/ramp.bin").write_bytes(DATA)
        expected = ["corpus/sub/ramp.bin"]
        reads = READS.replace(
            '["CAPSULE_DATA_CORPUS"]', '["CAPSULE_DATA_CORPUS"] + "/sub/ramp.bin"'
        )
    if kind == "folder":
        (place / "link.bin").symlink_to("sub/ramp.bin")
        expected = ["corpus/link.bin", *expected]
    write(author, path="ramps", license="CC0-1.0")
    write_script(author.folder, reads + NOISY)
    sealed = author.run("run", "mine.json", "-o", "a.capsule.zip")
    assert sealed.returncode == 0, sealed.stderr
    size = sizes.size(7000 * len(expected))
    told = f"dataset corpus ({size}, licence CC0-1.0) will be published inside the capsule"
    assert told in sealed.stderr
    assert names(author.folder / "a.capsule.zip") == expected
    assert "in the capsule" in " ".join(author.run("show", "a.capsule.zip").stdout.split())
    assert author.run("check", "a.capsule.zip").returncode == 0

    stranger = User.make(tmp_path, "stranger")
    shutil.copy(author.folder / "a.capsule.zip", stranger.folder)
    verify = ("verify", "a.capsule.zip", "--trust", "--allow-host", "-o", "b.zip")
    verified = stranger.run(*verify)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    many = f"{size} in {len(expected)} file{'s' * (len(expected) > 1)}"
    screen = " ".join(verified.stderr.split())
    assert f"data corpus, {many}, in the capsule, no source stated" in screen
    assert names(stranger.folder / "b.zip") == expected
    (fetched,) = stranger.json("data", "fetch", "a.capsule.zip")["datasets"]
    assert fetched["state"] == "carried"


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ({"embed": False}, False),
        ({"embed": True}, True),
        ({}, False),
    ],
)
def test_large_data_comes_along_only_where_that_is_said(
    author: User, source: dict[str, object], kept: bool
) -> None:
    with (author.folder / "ramp.bin").open("wb") as stream:
        stream.write(b"a ramp")
        stream.truncate((10 << 20) + 1)
    said = carry(author, path="ramp.bin", **source)
    assert names(author.folder / "a.capsule.zip") == (["corpus/ramp.bin"] if kept else [])
    assert ("will be published inside the capsule" in said) is kept
    linted = author.run("lint", "a.capsule.zip")
    told = " ".join((linted.stdout + linted.stderr).split())
    assert ("dataset corpus has no generator, url or doi" in told) is not kept


def test_names_that_no_capsule_holds_stay_out_unless_they_must_come(author: User) -> None:
    # each of these letters takes six bytes there
    name = "é" * 60
    (author.folder / name).write_bytes(DATA)
    carry(author, path=name)
    assert names(author.folder / "a.capsule.zip") == []
    write(author, path=name, embed=True)
    refused = author.run("run", "mine.json")
    assert (refused.returncode, "/datasets/corpus" in refused.stderr) == (2, True)


def test_a_run_goes_on_with_the_data_that_it_began_with(author: User) -> None:
    (author.folder / "ramp.bin").write_bytes(DATA)
    write(author, path="ramp.bin")
    flag = author.folder / "go"
    write_script(author.folder, f"import os\nassert os.path.exists({str(flag)!r})\n{READS}{NOISY}")
    stopped = author.run("run", "mine.json", "--work", "w.run")
    assert stopped.returncode == 5, stopped.stderr
    (author.folder / "ramp.bin").write_bytes(b"changed since")
    flag.touch()
    resume = ("run", "--resume", "w.run", "--keep-going", "-o", "a.capsule.zip")
    copy = author.folder / "w.run/datasets/corpus/ramp.bin"
    copy.write_bytes(b"changed")
    refused = author.run(*resume)
    assert (refused.returncode, "the copy of dataset 'corpus' is sha256:" in refused.stderr) == (
        4,
        True,
    )
    copy.write_bytes(DATA)
    resumed = author.run(*resume)
    # the first trial, which failed, is an outcome; the others read the copy
    assert (resumed.returncode, "5 of 5 trials finished in" in resumed.stderr) == (5, True), (
        resumed.stderr
    )
    assert resumed.stderr.count("Traceback") == 1
    assert names(author.folder / "a.capsule.zip") == ["corpus/ramp.bin"]


def test_what_is_private_in_carried_data_is_told(author: User) -> None:
    (author.folder / "ramp.bin").write_bytes(DATA + b"AKIA" + b"Q" * 16 + b"\n")
    said = carry(author, path="ramp.bin")
    assert "datasets/corpus/ramp.bin:1001: an AWS key" in said
    write(author, path="ramp.bin")
    refused = author.run("run", "mine.json", "--strict-privacy")
    assert refused.returncode == 2
