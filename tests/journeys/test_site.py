"""`capsule site` and `capsule doctor`: what holds on a machine, and what works there."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from tests.support.command import Document, User, write_manifest, write_script

NO_DOCKER = "unix:///nowhere/docker.sock"
KEY = "sha256:" + "0" * 64
OWN = ".config/capsule/site.json"


def bare(author: User, **programs: str) -> dict[str, str]:
    """Variables of a machine that has these programs alone, each a line of shell."""
    folder = author.home / "bin"
    folder.mkdir(exist_ok=True)
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "DOCKER_HOST": NO_DOCKER, "CAPSULE_CACHE": ""}


def examine(author: User, *words: str, code: int, **variables: str) -> dict[str, list[Document]]:
    """What the doctor saw, by area."""
    ended = author.run("doctor", *words, "--json", **variables)
    assert ended.returncode == code, ended.stdout + ended.stderr
    areas: dict[str, list[Document]] = {}
    for finding in json.loads(ended.stdout)["findings"]:
        areas.setdefault(finding["area"], []).append(finding)
    return areas


def test_a_machine_with_nothing_is_told_what_to_ask_for(author: User) -> None:
    areas = examine(author, code=6, **bare(author))
    engines = areas["engine"]
    assert engines[-1]["word"] == "missing"
    assert "no engine can start a container" in engines[-1]["what"]
    assert "ask the site for Apptainer" in engines[-1]["mend"]
    assert "none on the PATH" in areas["host"][0]["what"]
    assert "numpy" in areas["host"][1]["what"]
    ended = author.run("doctor", **bare(author))
    assert ended.returncode == 6
    assert ended.stdout.rstrip().endswith("capsule lacks the items on the lines marked missing")


VERSION = '[ "$1" = --version ] && echo apptainer version 9 && exit 0; '


@pytest.mark.parametrize(
    ("program", "word", "words"),
    [
        ("exit 0", "good", "started a test container without a network"),
        ("echo FATAL: no user namespaces >&2; exit 255", "missing", "no user namespaces"),
        (
            'case "$*" in *--net*) echo FATAL: no network namespaces >&2; exit 255;; esac',
            "limited",
            "cannot keep them off the network: no network namespaces",
        ),
    ],
)
def test_an_engine_is_really_tried(author: User, program: str, word: str, words: str) -> None:
    variables = bare(author, apptainer=VERSION + program)
    # spython starts it by env
    (author.home / "bin/env").symlink_to("/usr/bin/env")
    areas = examine(author, code=6 if word == "missing" else 0, **variables)
    first = areas["engine"][0]
    assert first["word"] == word
    assert words in first["what"]
    assert bool(first["mend"]) == (word != "good")
    assert not list(Path(author.folder).iterdir())


def test_a_cache_that_others_write_and_a_ledger_that_they_do(author: User, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    for folder in (shared, *shared.parents[:3]):
        if folder != Path("/tmp") and folder.stat().st_uid == os.geteuid():
            folder.chmod(0o755)
    shared.chmod(0o777)
    own = shared / str(os.geteuid())
    own.mkdir(mode=0o700)
    (own / "file").write_bytes(bytes(10))
    state = author.home / ".local/state/capsule"
    state.mkdir(parents=True)
    state.chmod(0o777)
    areas = examine(author, code=6, **{**bare(author), "CAPSULE_CACHE": str(shared)})
    (cache,) = areas["cache"]
    assert cache["word"] == "limited"
    assert "10 bytes in 1 files" in cache["what"]
    assert f"other users may write {shared}, so Apptainer cannot keep images there" in cache["what"]
    assert areas["ledger"][0]["word"] == "missing"
    assert "chmod" in areas["ledger"][0]["mend"]


@pytest.mark.engines
def test_docker_is_found_without_its_program(author: User) -> None:
    areas = examine(author, code=0, **{**bare(author), "DOCKER_HOST": os.environ["DOCKER_HOST"]})
    assert areas["engine"][0]["word"] == "good"
    assert areas["engine"][0]["what"].startswith("docker: Docker ")


def test_a_registry_that_is_named_is_asked(author: User) -> None:
    areas = examine(author, "docker://127.0.0.1:1/none:1", code=6, **bare(author))
    assert "did not answer" in areas["registry"][0]["what"]
    areas = examine(author, "no reference", code=6, **bare(author))
    assert "expected an image reference" in areas["registry"][0]["what"]


def test_a_site_file_that_is_none_is_a_finding(author: User) -> None:
    file = author.home / OWN
    file.parent.mkdir(parents=True)
    file.write_text('{"runtimes": 1}')
    areas = examine(author, code=6, **bare(author))
    assert areas.keys() == {"site file"}
    assert f"{file}#" in areas["site file"][0]["what"]


def test_a_site_file_is_written_once_and_changes_nothing(author: User) -> None:
    before = author.json("site", "show")["settings"]
    ended = author.run("site", "init", **bare(author))
    assert ended.returncode == 0, ended.stderr
    file = author.home / OWN
    assert ended.stdout.startswith(f"wrote {file}\n")
    assert stat.S_IMODE(file.stat().st_mode) & 0o022 == 0
    written = json.loads(file.read_text())
    assert written.keys() == {
        *("$schema", "runtime", "launcher", "python", "cache"),
        *("data", "mirrors", "binds", "mpi", "batch"),
    }
    after = author.json("site", "show")["settings"]
    assert [one["value"] for one in after][:2] == [one["value"] for one in before][:2]
    assert {one["source"] for one in after if one["name"] == "runtime"} == {str(file)}
    again = author.run("site", "init", **bare(author))
    assert again.returncode == 2
    assert "already exists, and is not overwritten" in again.stderr
    assert json.loads(file.read_text()) == written


def test_a_scheduler_is_refused_but_for_the_null_that_earlier_versions_wrote(
    author: User,
) -> None:
    file = author.home / OWN
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"scheduler": None}))
    assert author.run("site", "show").returncode == 0
    for name in ("pbs", "slurm"):
        file.write_text(json.dumps({"scheduler": name}))
        ended = author.run("site", "show")
        assert ended.returncode == 2
        assert f"{file}#/scheduler: this field no longer exists" in ended.stderr
        assert "`capsule submit` supports only Slurm" in ended.stderr
        assert "docs/how-to/slurm.md has job scripts for PBS, LSF and Flux" in ended.stderr


def test_everybodys_file_may_be_written_and_read(author: User) -> None:
    wide = author.home / "etc/capsule/site.json"
    ended = author.run("site", "init", wide, **bare(author))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(wide.read_text())["cache"] is None
    wide.write_text(json.dumps({"data": {KEY: "/data/a"}, "mirrors": {"docker.io": "m.example"}}))
    shown = author.run("site", "show", CAPSULE_SITE=str(wide), CAPSULE_CACHE="/fast").stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["cache", f"/fast/{os.geteuid()}", "CAPSULE_CACHE"] in rows
    document = json.loads(author.run("site", "show", "--json", CAPSULE_SITE=str(wide)).stdout)
    settings = {one["name"]: one for one in document["settings"]}
    assert settings[f"data {KEY}"] == {
        "name": f"data {KEY}",
        "value": "/data/a",
        "source": str(wide),
    }
    assert settings["mirrors docker.io"]["value"] == "m.example"
    assert settings["runtime"]["source"] == "by default"


def test_data_of_the_site_is_found_by_its_digest(author: User) -> None:
    (author.home / "corpus").write_bytes(b"1 2 3\n")
    digest = author.json("data", "hash", author.home / "corpus")["digest"]
    wide = author.home / "wide.json"
    wide.write_text(json.dumps({"data": {digest: str(author.home / "corpus")}}))
    write_script(author.folder)
    benchmark = {
        "id": "tiny",
        "command": [sys.executable, "tiny.py"],
        "inputs": ["tiny.py"],
        "datasets": ["corpus"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    manifest = write_manifest(
        author.folder, benchmarks=[benchmark], datasets={"corpus": {"digest": digest}}
    )
    ended = author.run("run", manifest)
    assert ended.returncode == 6
    assert f'{{"data": {{"{digest}"' in ended.stderr
    assert str(author.home / OWN) in ended.stderr
    ended = author.run("run", manifest, CAPSULE_SITE=str(wide))
    assert ended.returncode == 0, ended.stderr
