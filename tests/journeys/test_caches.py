"""Each user has a cache of their own, which is the same one whatever the home is."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command import User, write_manifest, write_script
from tests.support.engines import small_image, user_python
from tests.support.runtimes import make_sif

GENERATED = {"generator": "regression", "samples": 20, "seed": 1}
READS = """
import glob, json, os
names = glob.glob(os.environ["CAPSULE_DATA_MADE"] + "/*.npy")
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    results.write(json.dumps({"metric": "loss", "value": len(names)}) + "\\n")
"""


@pytest.fixture
def author(tmp_path: Path) -> User:
    return User.make(tmp_path)


@pytest.fixture
def ordinary() -> Iterator[User]:
    """The ordinary user of the tests."""
    account = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    base.chmod(0o755)
    user = User.make(base)
    for folder in (user.home, user.folder):
        os.chown(folder, account.pw_uid, account.pw_gid)
    yield replace(user, python=user_python(), account=account.pw_name)
    shutil.rmtree(base)


def write(user: User, **fields: object) -> Path:
    write_script(user.folder, READS)
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "datasets": ["made"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    fields = {"datasets": {"made": GENERATED}, "benchmarks": [benchmark], "claims": [], **fields}
    return write_manifest(user.folder, seeds=[1, 2], **fields)


def made_in(parent: Path, uid: int) -> set[int]:
    """The inodes of generated arrays in a user's cache."""
    found = parent.glob(f"{uid}/data/*/arrays/*")
    return {path.stat().st_ino for path in found}


def test_the_cache_is_the_same_one_whatever_the_home_is(author: User, tmp_path: Path) -> None:
    manifest, parent = write(author), tmp_path / "scratch"
    inodes = []
    for name in ("login", "compute"):
        home = tmp_path / name
        home.mkdir()
        variables = {"HOME": str(home), "CAPSULE_CACHE": str(parent)}
        ended = author.run("run", manifest, "-o", f"{name}.zip", **variables)
        assert ended.returncode == 0, ended.stderr
        inodes.append(made_in(parent, os.geteuid()))
    assert inodes[0] == inodes[1] != set()
    (own,) = parent.iterdir()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


def test_the_site_file_names_a_parent_too(author: User, tmp_path: Path) -> None:
    site = tmp_path / "site.json"
    site.write_text(f'{{"cache": "{tmp_path / "scratch"}"}}')
    ended = author.run("run", write(author), CAPSULE_SITE=str(site))
    assert ended.returncode == 0, ended.stderr
    assert made_in(tmp_path / "scratch", os.geteuid())


@pytest.mark.parametrize("variable", ["/proc/nowhere", "/dev/null"])
def test_without_a_home_the_cache_goes_with_the_run(author: User, variable: str) -> None:
    manifest = write(author)
    before = set(author.folder.iterdir())
    ended = author.run("run", manifest, "-o", "a.zip", HOME=variable, XDG_CACHE_HOME="")
    assert ended.returncode == 0, ended.stderr
    assert "set CAPSULE_CACHE to " in ended.stderr
    assert set(author.folder.iterdir()) == before | {author.folder / "a.zip"}
    verify = ("verify", "a.zip", "--trust", "--allow-host", "-o", "b.zip")
    verified = author.run(*verify, HOME=variable, XDG_CACHE_HOME="")
    assert verified.returncode in (0, 3), verified.stderr
    tried = author.run("run", "--try", manifest, HOME=variable, XDG_CACHE_HOME="")
    assert tried.returncode == 0, tried.stderr
    names = {author.folder / name for name in ("a.zip", "b.zip")}
    assert set(author.folder.iterdir()) == before | names


def test_a_link_in_the_place_of_the_cache_is_refused(author: User, tmp_path: Path) -> None:
    parent, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    parent.mkdir()
    elsewhere.mkdir()
    (parent / str(os.geteuid())).symlink_to(elsewhere)
    for words in (("run", write(author)), ("stage", "tiny.json"), ("data", "hash", "tiny.py")):
        ended = author.run(*words, CAPSULE_CACHE=str(parent))
        assert ended.returncode == 6, ended.stderr
        assert str(parent / str(os.geteuid())) in ended.stderr
    assert not list(elsewhere.iterdir())
    shown = author.run("site", "show", CAPSULE_CACHE=str(parent))
    assert shown.returncode == 0


@pytest.mark.engines
@pytest.mark.parametrize("home", ["/root", "/proc/nowhere"])
def test_a_home_of_somebody_else_costs_no_command(ordinary: User, home: str) -> None:
    write(ordinary)
    for words in (("site", "show"), ("data", "hash", "tiny.py"), ("run", "--dry-run", "tiny.json")):
        ended = ordinary.run(*words, HOME=home)
        assert ended.returncode == 0, ended.stderr
    examined = ordinary.run("doctor", "--json", HOME=home)
    assert examined.returncode in (0, 6), examined.stderr
    (cache,) = [one for one in json.loads(examined.stdout)["findings"] if one["area"] == "cache"]
    assert cache["word"] == "limited"


@pytest.mark.engines
@pytest.mark.skipif(os.geteuid() != 0, reason="only root is two users")
def test_two_users_share_a_parent_and_nothing_in_it(author: User, ordinary: User) -> None:
    """The ordinary user can neither read nor change what root keeps, nor the other way round."""
    parent = ordinary.folder.parent / "scratch"
    parent.mkdir()
    parent.chmod(0o1777)
    account = pwd.getpwnam(ordinary.account or "")
    for user in (ordinary, author):
        ended = user.run("run", write(user), CAPSULE_CACHE=str(parent))
        assert ended.returncode == 0, ended.stderr
    mine, theirs = made_in(parent, 0), made_in(parent, account.pw_uid)
    assert mine
    assert theirs
    assert not mine & theirs
    for uid in (0, account.pw_uid):
        status = (parent / str(uid)).stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (uid, 0o700)


@pytest.mark.engines
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant a folder for somebody else")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_a_folder_that_somebody_else_planted_is_refused(ordinary: User, mode: int) -> None:
    parent = ordinary.folder.parent / "scratch"
    parent.mkdir()
    parent.chmod(0o1777)
    account = pwd.getpwnam(ordinary.account or "")
    planted = parent / str(account.pw_uid)
    planted.mkdir()
    planted.chmod(mode)
    ended = ordinary.run("run", write(ordinary), CAPSULE_CACHE=str(parent))
    assert ended.returncode == 6, ended.stderr
    assert str(planted) in ended.stderr
    assert not list(planted.iterdir())


@pytest.mark.engines
@pytest.mark.skipif(os.geteuid() != 0, reason="root installs the image")
@pytest.mark.parametrize("home", [None, "/root", "/proc/nowhere"])
def test_an_image_of_the_site_runs_where_it_lies(ordinary: User, home: str | None) -> None:
    """An ordinary user runs a SIF that only root can write, with and without a home."""
    folder = ordinary.folder.parent / "images"
    folder.mkdir()
    folder.chmod(0o755)
    sif = folder / "python.sif"
    shutil.copyfile(make_sif(small_image()), sif)
    manifest = write(ordinary, image={"reference": f"sif:{sif}"})
    variables = {} if home is None else {"HOME": home}
    ended = ordinary.run("run", manifest, "--runtime", "apptainer", "-o", "a.zip", **variables)
    assert ended.returncode == 0, ended.stderr
    kept = [path for path in ordinary.folder.parent.rglob("*.sif") if path != sif]
    assert all(path.is_symlink() and path.resolve() == sif for path in kept)
