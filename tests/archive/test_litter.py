"""Capsules that a system put files beside, or that another program packed again."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from capsule import archive
from capsule.errors import DamagedError
from tests.support.capsules import sample_files

_LITTER = [
    ".DS_Store",
    "data/.DS_Store",
    "data/inputs/._train.py",
    "__MACOSX/data/._README.md",
    "Icon\r",
    "data/logs/Thumbs.db",
    "data/desktop.ini",
    "data/@eaDir/x/y",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A capsule that somebody unpacked."""
    return lay(tmp_path / "un packed", sample_files())


def lay(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def refuse(path: Path) -> DamagedError:
    """Why a capsule is not read."""
    with pytest.raises(DamagedError) as caught, archive.read(path):
        pass
    return caught.value


def follow(error: DamagedError) -> None:
    """Type the command that an error ends with."""
    subprocess.run(shlex.split(str(error.advice).partition(": ")[2]), check=True)


@pytest.mark.parametrize("names", [*([name] for name in _LITTER), _LITTER])
def test_what_a_system_left_is_named_and_its_removal_is_all_that_it_takes(
    folder: Path, names: list[str]
) -> None:
    with archive.read(folder) as capsule:
        identity = capsule.id
    lay(folder, dict.fromkeys(names, b"left"))
    error = refuse(folder)
    assert "again from its publisher" not in str(error.advice)
    follow(error)
    with archive.read(folder) as capsule:
        assert capsule.id == identity


@pytest.mark.parametrize("name", ["data/extra.py", "notes.txt", "data/.x", "data/DS_Store"])
@pytest.mark.parametrize("beside", [[], _LITTER[:2]])
def test_any_other_surplus_file_is_damage(folder: Path, name: str, beside: list[str]) -> None:
    lay(folder, dict.fromkeys([name, *beside], b""))
    error = refuse(folder)
    assert f"surplus {name}" in error.what
    assert "again from its publisher" in str(error.advice)


def test_a_changed_file_is_damage_whatever_lies_beside_it(folder: Path) -> None:
    lay(folder, {"data/README.md": b"changed", ".DS_Store": b""})
    assert "changed data/README.md" in refuse(folder).what


def test_an_empty_folder_is_removed_as_it_says(folder: Path) -> None:
    (folder / "data" / "em pty").mkdir()
    follow(refuse(folder))
    archive.read(folder).close()


@pytest.mark.parametrize(
    ("prefix", "method", "more"),
    [
        ("", zipfile.ZIP_DEFLATED, ()),
        ("", zipfile.ZIP_STORED, ()),
        ("top/", zipfile.ZIP_DEFLATED, ("__MACOSX/top/._data", "top/.DS_Store")),
    ],
)
def test_a_zip_that_was_packed_again_is_read_once_it_is_unpacked(
    tmp_path: Path, prefix: str, method: int, more: tuple[str, ...]
) -> None:
    again, unpacked = tmp_path / "again.zip", tmp_path / "unpacked"
    with zipfile.ZipFile(again, "w", method) as packed:
        for name, data in reversed(sample_files().items()):
            packed.writestr(prefix + name, data)
        for name in more:
            packed.writestr(name, b"left")
    error = refuse(again)
    assert "another program has repacked" in error.what
    assert f"unzip {again}" in str(error.advice)
    shutil.unpack_archive(again, unpacked)
    shutil.rmtree(unpacked / "__MACOSX", ignore_errors=True)
    if prefix:
        assert f"give {unpacked / 'top'}" in str(refuse(unpacked).advice)
        unpacked /= "top"
        follow(refuse(unpacked))
    archive.read(unpacked).close()
