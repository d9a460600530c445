"""Without a container: the caller's own programs run, and the record says which."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from capsule import __file__ as package
from tests.support.command import NOISY, User, write_manifest, write_script

OPERATOR = {
    "id": "relu",
    "level": 0,
    "operator": "relu",
    "cases": {"n": [100]},
    "frameworks": ["numpy"],
    "repetitions": 3,
}
SEALED = ("--output", "a.zip")


def write_python(folder: Path, mark: str = "") -> Path:
    """A program `python3` that tells of its start, and is this one."""
    folder.mkdir(parents=True)
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\necho {mark} >> "{folder}/started"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def path_with(*folders: Path | str) -> str:
    return os.pathsep.join((*map(str, folders), os.environ["PATH"]))


def test_the_callers_path_goes_before_capsules_own(author: User) -> None:
    python = write_python(author.home / "tools", "mine")
    write_script(author.folder)
    manifest = write_manifest(author.folder)
    ended = author.run("run", manifest, *SEALED, PATH=path_with(python.parent))
    assert ended.returncode == 0, ended.stderr
    # asked once, a start for each of five seeds, and once for what it holds
    assert (python.parent / "started").read_text().count("mine") == 7
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"CPython {version}" in " ".join(ended.stdout.split())
    programs = author.json("show", "a.zip")["programs"]
    assert programs.keys() == {"python3"}
    assert str(author.home) not in programs["python3"]


def test_a_relative_folder_is_meant_from_where_the_caller_is(author: User) -> None:
    write_python(author.folder / "tools", "mine")
    write_script(author.folder)
    manifest = write_manifest(author.folder)
    ended = author.run("run", manifest, *SEALED, PATH=path_with("tools"))
    assert ended.returncode == 0, ended.stderr
    assert (author.folder / "tools/started").exists()


def test_a_dry_run_tells_which_programs_would_run_and_starts_none(author: User) -> None:
    python = write_python(author.home / "tools")
    write_script(author.folder)
    manifest = write_manifest(author.folder)
    ended = author.run("run", manifest, "--dry-run", "--json", PATH=path_with(python.parent))
    assert json.loads(ended.stdout)["here"]["programs"] == {"python3": str(python)}
    assert not (python.parent / "started").exists()


def test_our_own_program_runs_by_the_interpreter_that_capsule_runs_under(author: User) -> None:
    python = write_python(author.home / "tools")
    manifest = write_manifest(author.folder, benchmarks=[OPERATOR], claims=[], seeds=[1, 2])
    ended = author.run("run", manifest, *SEALED, PATH=path_with(python.parent))
    assert ended.returncode == 0, ended.stderr
    assert not (python.parent / "started").exists()
    assert author.json("show", "a.zip")["programs"].keys() == {"python of levels"}


def test_or_by_the_one_that_the_user_or_the_site_names(author: User) -> None:
    python = write_python(author.home / "tools")
    manifest = write_manifest(author.folder, benchmarks=[OPERATOR], claims=[], seeds=[1, 2])
    named = {"CAPSULE_PYTHON": "python3", "PATH": path_with(python.parent)}
    ended = author.run("run", manifest, *SEALED, **named)
    assert ended.returncode == 0, ended.stderr
    assert (python.parent / "started").exists()
    (python.parent / "started").unlink()
    site = author.home / ".config/capsule/site.json"
    site.parent.mkdir(parents=True)
    site.write_text(f'{{"python": "{python}"}}')
    ended = author.run("run", manifest, "--output", "b.zip")
    assert ended.returncode == 0, ended.stderr
    assert (python.parent / "started").exists()


def test_an_interpreter_that_is_none_is_told_with_who_named_it(author: User) -> None:
    manifest = write_manifest(author.folder, benchmarks=[OPERATOR], claims=[], seeds=[1, 2])
    for name, words in (("nothing-3", "no program"), ("/bin/sh", "expected Python 3.9")):
        ended = author.run("run", manifest, CAPSULE_PYTHON=name)
        assert ended.returncode == 6
        assert words in ended.stderr
        assert "CAPSULE_PYTHON" in ended.stderr


def test_an_input_of_the_name_of_a_program_is_no_program(author: User) -> None:
    script = author.folder / "python3"
    script.write_text(f"#!{sys.executable}\n{NOISY}")
    script.chmod(0o755)
    benchmark = {
        "id": "tiny",
        "command": ["python3"],
        "inputs": ["python3"],
        "metrics": {"loss": {"direction": "lower"}},
    }
    manifest = write_manifest(author.folder, benchmarks=[benchmark])
    ended = author.run("run", manifest, *SEALED)
    assert ended.returncode == 0, ended.stderr
    # whatever the input starts may begin another one, which is what is told
    programs = author.json("show", "a.zip")["programs"]
    assert programs["python3"].startswith("CPython")


def test_a_run_does_not_go_on_with_another_python(author: User) -> None:
    write_script(author.folder, "raise SystemExit(1)")
    manifest = write_manifest(author.folder)
    environment = author.folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    other = {"PATH": path_with(environment / "bin"), "PYTHONPATH": str(Path(package).parents[1])}
    began = author.run("run", manifest, "--work", "a.run")
    assert began.returncode == 5
    resumed = author.run("run", "--resume", "a.run", "--keep-going", **other)
    assert resumed.returncode == 6
    words = f"python3 is now {environment}/bin/python3 (CPython"
    assert words in resumed.stderr
    resumed = author.run("run", "--resume", "a.run", "--keep-going")
    assert resumed.returncode == 5
    assert "all trials failed" in resumed.stderr


def test_a_module_that_the_callers_python_lacks_is_told_with_which_python_that_is(
    author: User,
) -> None:
    python = write_python(author.home / "tools")
    write_script(author.folder, "import nothing_of_that_name\n")
    manifest = write_manifest(author.folder)
    ended = author.run("run", manifest, PATH=path_with(python.parent))
    assert ended.returncode == 5
    assert "No module named 'nothing_of_that_name'" in ended.stderr
    assert (
        f"python3 on this machine is {python}, which has no module nothing_of_that_name"
        in ended.stderr
    )
