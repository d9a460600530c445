"""Programs of others: fetched by digest, run under one engine, verified under another."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import third_party
import third_party_sources as programs

from tests.support.command import User
from tests.support.engines import engine_cache, registry_host
from tests.support.long_run import COUNT, COVERS

SOURCES = programs.read()
ARCHIVED = sorted(one.name for one in SOURCES.values() if one.origin in ("pypi", "debian"))
# with how many of its seeds: what is exact needs no more than two
IN_CI = {"libsvm": 2, "simpy": None}


def test_ten_programs_have_manifests_and_six_come_from_archives() -> None:
    manifests = {path.stem for path in programs.FOLDER.glob("*.json")}
    assert manifests - {"sources"} == set(SOURCES)
    assert len(SOURCES) >= 10
    assert len([name for name in ARCHIVED if not SOURCES[name].archive.endswith(".whl")]) >= 6
    assert {"C", "C++", "Fortran", "Python"} <= {one.language for one in SOURCES.values()}


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_no_command_is_a_shell(name: str) -> None:
    manifest = json.loads((programs.FOLDER / f"{name}.json").read_text())
    for benchmark in manifest["benchmarks"]:
        words = benchmark["command"]
        assert Path(words[0]).name not in ("sh", "bash", "dash", "env")
        assert "-c" not in words[:2]
        # nothing but the program's own files
        assert all(path.startswith(f"sources/{name}/") or path == f"sources/{name}" for path in
                   benchmark.get("inputs", ()))  # fmt: skip


@pytest.fixture
def program(tmp_path: Path) -> programs.Source:
    """A program in a repository on this machine."""
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "run.py").write_text("print('loss: 1')\n")
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "run.py"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return programs.Source(
        name="simpy",
        origin="git",
        place=str(folder),
        version="1",
        commit=head.stdout.strip(),
        language="Python",
        image="small",
        sha256=programs.digest_of_checkout(folder),
    )


def test_a_commit_is_fetched_with_its_manifest(program: programs.Source, tmp_path: Path) -> None:
    folder = programs.fetch(program, tmp_path / "here")
    assert (folder / "run.py").read_text() == "print('loss: 1')\n"
    assert (tmp_path / "here" / "simpy.json").is_file()
    assert programs.published_bytes(program, "run.py", tmp_path / "here").startswith(b"print")


def test_another_digest_is_refused_and_nothing_of_it_stays(
    program: programs.Source, tmp_path: Path
) -> None:
    with pytest.raises(programs.FetchError, match="have digest"):
        programs.fetch(replace(program, sha256="0" * 64), tmp_path / "here")
    assert list((tmp_path / "here" / "sources").rglob("*.py")) == []


def count_changes(source: programs.Source, capsule: Path, work: Path) -> int:
    """Count lines added to or taken from a program's files on their way into a capsule."""
    lines, prefix = 0, f"data/inputs/sources/{source.name}/"
    with zipfile.ZipFile(capsule) as archive:
        for name in archive.namelist():
            if name.startswith(prefix):
                before = programs.published_bytes(source, name.removeprefix(prefix), work)
                there, here = before.decode().splitlines(), archive.read(name).decode().splitlines()
                lines += sum(line[:2] in ("+ ", "- ") for line in difflib.ndiff(there, here))
    return lines


def test_a_line_that_was_changed_on_the_way_is_counted(
    program: programs.Source, tmp_path: Path
) -> None:
    programs.fetch(program, tmp_path / "here")
    capsule = tmp_path / "a.zip"
    with zipfile.ZipFile(capsule, "w") as archive:
        archive.writestr("data/inputs/sources/simpy/run.py", "print('loss: 2')\nmore()\n")
    # one line taken, two added
    assert count_changes(program, capsule, tmp_path / "here") == 3


@pytest.mark.engines
@pytest.mark.parametrize(
    "name",
    [name if name in IN_CI else pytest.param(name, marks=pytest.mark.long) for name in ARCHIVED],
)
def test_what_archives_hold_is_fetched_by_digest(name: str, tmp_path: Path) -> None:
    folder = programs.fetch(SOURCES[name], tmp_path)
    manifest = json.loads((tmp_path / f"{name}.json").read_text())
    inputs = [path for one in manifest["benchmarks"] for path in one.get("inputs", ())]
    assert folder.is_dir()
    assert all((tmp_path / path).exists() for path in inputs)


@cache
def image(kind: str) -> str:
    base = os.environ[third_party.BASES[kind]].removeprefix("docker://")
    # what only a git host has is not fetched here
    name = programs.build_image(kind, base, archived_only=True)
    return programs.push_image(name, registry_host())


def judge(author: User, name: str, seeds: int | None = None) -> str:
    """The verdict under Apptainer on what was sealed under Docker, by so many of its seeds."""
    settings = {"CAPSULE_CACHE": str(engine_cache())}
    programs.fetch(SOURCES[name], author.folder)
    manifest = author.folder / f"{name}.json"
    document = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**document, "seeds": document["seeds"][:seeds]}))
    chosen = ("--image", image(SOURCES[name].image), "--runtime", "docker", "-o", "a.capsule.zip")
    ran = author.run("run", f"{name}.json", *chosen, **settings)
    assert ran.returncode == 0, ran.stderr
    assert count_changes(SOURCES[name], author.folder / "a.capsule.zip", author.folder) == 0
    ended = author.run("verify", "a.capsule.zip", "--runtime", "apptainer", "--json", **settings)
    return str(json.loads(ended.stdout)["verdict"])


@pytest.mark.engines
@pytest.mark.parametrize("name", IN_CI)
def test_a_strangers_program_is_reproduced_under_the_other_engine(author: User, name: str) -> None:
    assert judge(author, name, IN_CI[name]) == "REPRODUCED"


@pytest.mark.long
@pytest.mark.engines
@pytest.mark.parametrize("name", [name for name in ARCHIVED if name not in IN_CI])
def test_the_others_run_as_well(
    author: User,
    record_property: Callable[[str, object], None],
    name: str,
) -> None:
    # what is claimed of a time may stay open on a busy machine
    assert judge(author, name) != "DIFFERENT"
    record_property(COVERS, "programs of others, run under Docker and verified under Apptainer")
    record_property(COUNT, 1)
