"""The site file: a machine's own settings, and errors that name file and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capsule import site
from capsule.errors import UsageError
from capsule.jsons import Json

KEY = "sha256:" + "0" * 64


def write(folder: Path, settings: Json) -> Path:
    """A site file: JSON, or its text as it is."""
    file = folder / "site.json"
    file.write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return file


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    settings = site.load(environ={"HOME": str(tmp_path)})
    assert settings == site.Site(file=tmp_path / ".config/capsule/site.json")


def test_every_setting(tmp_path: Path) -> None:
    settings: Json = {"runtime": "host", "cache": "/scratch/me", "data": {KEY: "/data/universe"}}
    file = write(tmp_path, settings)
    assert site.load(file) == site.Site(
        file=file,
        runtime="host",
        cache=Path("/scratch/me"),
        data={KEY: Path("/data/universe")},
    )


def test_the_variable_goes_before_the_usual_place(tmp_path: Path) -> None:
    (tmp_path / "capsule").mkdir()
    usual = write(tmp_path / "capsule", {"runtime": "usual"})
    own = write(tmp_path, {"runtime": "own"})
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert site.load(environ=environ) == site.Site(file=usual, runtime="usual")
    assert site.load(environ=environ | {"CAPSULE_SITE": str(own)}).runtime == "own"


@pytest.mark.parametrize(
    ("settings", "where", "what"),
    [
        ({"runtimes": "host"}, "#", "runtimes"),
        ({"data": {"sha256:12": "/x"}}, "#/data", "sha256:12"),
        ({"data": {KEY: "relative"}}, f"#/data/{KEY}", "relative"),
        ({"cache": 3}, "#/cache", "3"),
        ({"runtime": ""}, "#/runtime", '""'),
        ([], "#", "object"),
        ('{"runtime": "a", "runtime": "b"}', "", "duplicate key 'runtime'"),
        ("{", "", "line 1"),
    ],
)
def test_a_wrong_file_is_named_with_the_field(
    tmp_path: Path, settings: Json, where: str, what: str
) -> None:
    file = write(tmp_path, settings)
    with pytest.raises(UsageError) as caught:
        site.load(file)
    assert caught.value.where == f"{file}{where}"
    assert what in caught.value.what


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        site.load(environ={"CAPSULE_SITE": str(tmp_path / "none.json")})


def test_the_cache_folder(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    own = site.Site(file=tmp_path, cache=Path("/scratch"))
    none = site.Site(file=tmp_path)
    assert site.cache_folder(own, environ=home | {"CAPSULE_CACHE": "/fast"}) == Path("/fast")
    assert site.cache_folder(own, environ=home) == Path("/scratch")
    assert site.cache_folder(none, environ=home | {"XDG_CACHE_HOME": "/x"}) == Path("/x/capsule")
    assert site.cache_folder(none, environ=home | {"XDG_CACHE_HOME": "x"}) == (
        tmp_path / ".cache/capsule"
    )
    assert site.cache_folder(none, environ=home | {"CAPSULE_CACHE": ""}) == (
        tmp_path / ".cache/capsule"
    )
