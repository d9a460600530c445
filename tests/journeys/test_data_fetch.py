"""Data with an address: fetched by its author, sealed by digest, fetched again by an evaluator."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

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
        assert "`capsule data fetch MANIFEST` fetches it and prints the digest" in refused.stderr
        fetched = author.run("data", "fetch", "mine.json")
        assert fetched.returncode == 0, fetched.stderr
        assert f'write down "digest": "{DIGEST}"' in fetched.stdout
        write(author, **source, digest=DIGEST)
        sealed = author.run("run", "mine.json", "-o", "a.capsule.zip")
        assert sealed.returncode == 0, sealed.stderr
        shown = author.run("show", "a.capsule.zip").stdout
        for words in (shelf.url(), "doi:10.5555/1", "licence CC0-1.0", "A ramp", DIGEST):
            assert words in shown

        stranger = User.make(tmp_path, "stranger")
        shutil.copy(author.folder / "a.capsule.zip", stranger.folder)
        verify = ("verify", "a.capsule.zip", "--trust", "--allow-host")
        missing = stranger.run(*verify)
        assert missing.returncode == 6
        assert "`capsule data fetch`" in missing.stderr
        (one,) = stranger.json("data", "fetch", "a.capsule.zip")
        assert (one["state"], one["digest"]) == ("fetched", DIGEST)
        (again,) = stranger.json("data", "fetch", "a.capsule.zip")
        assert (again["state"], again["path"]) == ("here", one["path"])
        verified = stranger.run(*verify)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert f"data corpus, {len(DATA)} bytes, {shelf.url()}, doi:10.5555/1" in verified.stderr


def test_what_cannot_be_fetched_is_told(author: User) -> None:
    write(author, digest=DIGEST, doi="10.5555/1")
    ended = author.run("data", "fetch", "mine.json")
    assert ended.returncode == 6
    assert "it is published as https://doi.org/10.5555/1: get it" in ended.stdout
    (author.folder / "corpus.bin").write_bytes(DATA)
    write(author, path="corpus.bin")
    ended = author.run("data", "fetch", "mine.json")
    assert (ended.returncode, DIGEST in ended.stdout) == (0, True)
    ended = author.run("data", "fetch", "nothing.json")
    assert (ended.returncode, "No such file" in ended.stderr) == (2, True)
