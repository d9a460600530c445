"""The site file: a machine's own settings, and errors that name file and field."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from capsule import site
from capsule.errors import UsageError
from capsule.jsons import Json

KEY = "sha256:" + "0" * 64
USER = str(os.geteuid())


def write(folder: Path, settings: Json) -> Path:
    """A site file: JSON, or its text as it is."""
    file = folder / "site.json"
    file.write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return file


@pytest.fixture(autouse=True)
def no_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "WIDE", tmp_path / "etc" / "site.json")


def own(folder: Path, settings: Json) -> Path:
    """The user's own file."""
    place = folder / ".config/capsule"
    place.mkdir(parents=True)
    return write(place, settings)


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    settings = site.load(environ={"HOME": str(tmp_path)})
    assert settings == site.Site(file=tmp_path / ".config/capsule/site.json")


def test_every_setting(tmp_path: Path) -> None:
    settings: Json = {
        "$schema": "site-1.schema.json",
        "runtime": "host",
        "python": "/apps/bin/python3",
        "cache": "/scratch/me",
        "data": {KEY: "/data/universe"},
        "mirrors": {"docker.io": "registry.site:5000/hub/all"},
        "binds": {"/opt/cray": "/opt/cray-2.1"},
        "mpi": ["/opt/cray/lib/libmpi.so.12"],
    }
    file = own(tmp_path, settings)
    assert site.load(environ={"HOME": str(tmp_path)}) == site.Site(
        file=file,
        runtime="host",
        python="/apps/bin/python3",
        cache=Path("/scratch/me"),
        data={KEY: Path("/data/universe")},
        mirrors={"docker.io": "registry.site:5000/hub/all"},
        binds={"/opt/cray": Path("/opt/cray-2.1")},
        mpi=("/opt/cray/lib/libmpi.so.12",),
        sources=dict.fromkeys(
            (
                *("/runtime", "/python", "/cache", f"/data/{KEY}", "/mirrors/docker.io"),
                *("/binds/~1opt~1cray", "/mpi"),
            ),
            file,
        ),
    )


def test_the_users_own_file_goes_over_the_sites_name_by_name(tmp_path: Path) -> None:
    other = KEY.replace("0", "1")
    wide = write(
        tmp_path,
        {
            "runtime": "apptainer",
            "cache": "/scratch/all",
            "data": {KEY: "/data/a", other: "/data/b"},
            "mirrors": {"docker.io": "site.example"},
        },
    )
    file = own(tmp_path, {"cache": "/scratch/me", "data": {other: "/home/b"}})
    merged = site.load(environ={"HOME": str(tmp_path), "CAPSULE_SITE": str(wide)})
    assert (merged.runtime, merged.cache) == ("apptainer", Path("/scratch/me"))
    assert merged.data == {KEY: Path("/data/a"), other: Path("/home/b")}
    assert merged.mirrors == {"docker.io": "site.example"}
    assert merged.where("/runtime") == f"{wide}#/runtime"
    assert merged.where("/cache") == f"{file}#/cache"
    assert merged.sources[f"/data/{KEY}"] == wide
    assert merged.sources[f"/data/{other}"] == file


def test_the_machines_own_file_holds_where_no_other_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = write(tmp_path, {"runtime": "wide"})
    monkeypatch.setattr(site, "WIDE", wide)
    assert site.load(environ={"HOME": str(tmp_path)}).runtime == "wide"
    (tmp_path / "module").mkdir()
    named = write(tmp_path / "module", {"cache": "/c"})
    there = site.load(environ={"HOME": str(tmp_path), "CAPSULE_SITE": str(named)})
    assert (there.runtime, there.cache) == (None, Path("/c"))


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    file = own(tmp_path, {})
    for folder in (tmp_path, *tmp_path.parents[:3]):  # which pytest lets nobody else enter
        if folder.stat().st_uid == os.geteuid() and folder != Path("/tmp"):
            folder.chmod(0o755)
    file.chmod(mode)
    for environ in ({"HOME": str(tmp_path)}, {"HOME": "/x", "CAPSULE_SITE": str(file)}):
        with pytest.raises(UsageError, match=f"other users can write {file}"):
            site.load(environ=environ)
    file.chmod(0o644)
    file.parent.chmod(0o777)
    with pytest.raises(UsageError, match=f"other users can write {file.parent}"):
        site.load(environ={"HOME": str(tmp_path)})


def test_what_is_no_file_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    file = own(tmp_path, {})
    environ = {"HOME": str(tmp_path)}
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UsageError, match="expected a regular file"):
        site.load(environ=environ)
    file.unlink()
    file.mkdir()
    with pytest.raises(UsageError, match="Is a directory"):
        site.load(environ=environ)
    file.rmdir()
    file.symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError, match="No such file"):
        site.load(environ=environ)
    file.unlink()
    file.write_bytes(b"[" * (5 << 20))
    with pytest.raises(UsageError, match="the site file exceeds"):
        site.load(environ=environ)


@pytest.mark.parametrize(
    ("settings", "where", "what"),
    [
        ({"runtimes": "host"}, "#", "runtimes"),
        ({"data": {"sha256:12": "/x"}}, "#/data", "sha256:12"),
        ({"data": {KEY: "relative"}}, f"#/data/{KEY}", "relative"),
        ({"cache": 3}, "#/cache", "3"),
        ({"runtime": ""}, "#/runtime", '""'),
        ({"python": ["python3"]}, "#/python", "python3"),
        ({"mirrors": {"docker.io": "https://m"}}, "#/mirrors/docker.io", "https"),
        ({"mirrors": {"docker.io": "m/../n"}}, "#/mirrors/docker.io", ".."),
        ({"mirrors": {"docker.io/library": "m"}}, "#/mirrors", "docker.io/library"),
        ({"mirrors": ["m"]}, "#/mirrors", "object"),
        ({"mpi": ["lib/libmpi.so.12"]}, "#/mpi/0", "lib/libmpi.so.12"),
        ({"mpi": []}, "#/mpi", "[]"),
        ({"mpi": ["/opt/cray/libmpi.so.12"]}, "#/mpi", "no bind covers"),
        ({"binds": {"/opt/a": "/a"}, "mpi": ["/opt/a/../b"]}, "#/mpi", "expected a plain path"),
        ([], "#", "object"),
        ('{"runtime": "a", "runtime": "b"}', "", "duplicate key 'runtime'"),
        ("{", "", "line 1"),
    ],
)
def test_a_wrong_file_is_named_with_the_field(
    tmp_path: Path, settings: Json, where: str, what: str
) -> None:
    file = own(tmp_path, settings)
    with pytest.raises(UsageError) as caught:
        site.load(environ={"HOME": str(tmp_path)})
    assert caught.value.where == f"{file}{where}"
    assert what in caught.value.what


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        site.load(environ={"HOME": str(tmp_path), "CAPSULE_SITE": str(tmp_path / "none.json")})


def test_the_interpreter_of_our_own_program(tmp_path: Path) -> None:
    none, some = site.Site(file=tmp_path), site.Site(file=tmp_path, python="/py")
    assert site.interpreter(none, environ={})[0] is None
    assert site.interpreter(some, environ={}) == ("/py", f"{tmp_path}#/python")
    named = site.interpreter(some, environ={"CAPSULE_PYTHON": "python3"})
    assert named == ("python3", "CAPSULE_PYTHON")


def test_the_cache_folder(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    own = site.Site(file=tmp_path, cache=Path("/scratch"))
    none = site.Site(file=tmp_path)
    assert site.cache_place(own, environ=home | {"CAPSULE_CACHE": "/fast"}) == Path("/fast") / USER
    assert site.cache_place(own, environ=home) == Path("/scratch") / USER
    assert site.cache_place(none, environ=home | {"XDG_CACHE_HOME": "/x"}) == Path("/x/capsule")
    assert site.cache_place(none, environ=home | {"XDG_CACHE_HOME": "x"}) == (
        tmp_path / ".cache/capsule"
    )
    assert site.cache_place(none, environ=home | {"CAPSULE_CACHE": ""}) == (
        tmp_path / ".cache/capsule"
    )
