"""The README inside a capsule tells how to run it by hand: its lines give the number."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.doors.capsules import bases
from tests.support.capsules import seal
from tests.support.command import User
from tests.support.engines import engine_cache, python_image
from tests.support.patience import PATIENCE_SECONDS
from tests.support.records import make_record

SCRIPT = """
import json, os, random, sys
import capsule_regions
seed, factor = int(sys.argv[1]), float(sys.argv[2])
assert os.environ["CAPSULE_SEED"] == str(seed), os.environ
assert os.environ["GREETING"] == "it's a 'day'; $HOME \\\\ ü"
assert sys.argv[3] == "a b $HOME `id` *"
with open(sys.argv[4]) as words:
    assert words.read() == "42"
assert sys.stdin.read() == "42"
assert sys.argv[5] == os.environ["CAPSULE_DATA_FILE"]
with open(sys.argv[5]) as one, open(sys.argv[6] + "/a b.txt") as other:
    assert (one.read(), other.read()) == ("one", "other")
with open("prepared") as prepared:
    assert prepared.read() == str(seed)
print("factor is", factor)
capsule_regions.report("loss", factor * random.Random(seed).random())
"""

SETUP = """
import os, sys
assert sys.stdin.read() == ""
with open(os.path.join(sys.argv[2], "prepared"), "w") as prepared:
    prepared.write(sys.argv[1])
"""


def write(folder: Path, **changes: object) -> Path:
    """A command with everything that a shell could get wrong."""
    (folder / "my code").mkdir()
    (folder / "my code" / "main.py").write_text(SCRIPT)
    (folder / "my code" / "prepare.py").write_text(SETUP)
    (folder / "my code" / "words.txt").write_text("42")
    (folder / "one.txt").write_text("one")
    (folder / "more").mkdir()
    (folder / "more" / "a b.txt").write_text("other")
    words = ["{seed}", "{factor}", "a b $HOME `id` *", "my code/words.txt", "{data:file}"]
    document = {
        "name": "hand",
        "title": "By hand",
        "authors": [{"name": "Ada"}],
        "license": "CC-BY-4.0",
        "seeds": [11, 12, 13],
        "datasets": {"file": {"path": "one.txt"}, "more": {"path": "more"}},
        "benchmarks": [
            {
                "id": "hand",
                "command": ["python3", "my code/main.py", *words, "{data:more}"],
                "setup": ["python3", "my code/prepare.py", "{seed}", "{out}"],
                "inputs": ["my code"],
                "stdin": "my code/words.txt",
                "datasets": ["file", "more"],
                "cases": {"factor": [3, 5]},
                "environment": {"GREETING": "it's a 'day'; $HOME \\ ü"},
                "metrics": {"loss": {}, "shown": {"from": {"pattern": "factor is ([0-9.]+)"}}},
            }
        ],
        **changes,
    }
    path = folder / "hand.json"
    path.write_text(json.dumps(document))
    return path


def write_odd_names(folder: Path, **changes: object) -> Path:
    """The same with names that no archive has as they are."""
    text = write(folder, **changes).read_text()
    odd = {
        "words.txt": "w:ö 1%.txt",
        "prepare.py": "aux.py",
        "my code": "mein cöde",
        "one.txt": "数",
    }
    for name, other in odd.items():
        (path,) = folder.rglob(name)
        path.rename(path.with_name(other))
        text = text.replace(name, other)
    (folder / "hand.json").write_text(text)
    return folder / "hand.json"


def write_copied(folder: Path, **changes: object) -> Path:
    """The same as a program that writes beside its own code, in a copy of it."""
    document = json.loads(write(folder, **changes).read_text())
    document["benchmarks"][0]["cwd"] = {"copy": "my code"}
    (folder / "hand.json").write_text(json.dumps(document))
    script = SCRIPT.replace('open("prepared")', 'open(os.environ["CAPSULE_OUT"] + "/prepared")')
    writes = "\nopen('beside', 'x')\nopen(os.path.dirname(__file__) + '/cache', 'x')\n"
    (folder / "my code" / "main.py").write_text(script + writes)
    return folder / "hand.json"


def unpack(capsule: Path, folder: Path) -> tuple[list[str], Path]:
    """The blocks of the README's section, and the folder that they are for."""
    with zipfile.ZipFile(capsule) as archive:
        archive.extractall(folder)
    text = (folder / "data" / "README.md").read_text()
    section = re.search(r"^## Run the commands by hand\n(.*?)^## ", text, re.M | re.S)
    assert section is not None
    return re.findall(r"(?:^ {4}.*\n)+", section[1], re.M), folder / "data"


def execute(blocks: list[str], folder: Path, home: Path) -> float:
    """Run blocks as they stand there, and return the number that was reported."""
    ended = subprocess.run(
        ["bash", "-euc", "\n".join(blocks)],
        cwd=folder,
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "factor is 5.0" in ended.stdout
    (line,) = (folder / "out" / "hand" / "results.jsonl").read_text().splitlines()
    return float(json.loads(line)["value"])


def sealed_value(capsule: Path) -> float:
    with zipfile.ZipFile(capsule) as archive:
        lines = map(json.loads, archive.read("data/results/samples.jsonl").splitlines())
        (value,) = next(
            one["values"]
            for one in lines
            if one["metric"] == "hand/factor5/command/loss" and one["seed"] == 11
        )
    return float(value)


def test_a_line_of_the_readme_gives_the_number_on_the_host(author: User, tmp_path: Path) -> None:
    ended = author.run("run", write(author.folder), "-o", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    capsule = author.folder / "a.capsule.zip"
    (block,), folder = unpack(capsule, tmp_path / "un packed")
    assert execute([block], folder, author.home) == sealed_value(capsule)


def test_a_line_of_the_readme_gives_files_their_names(author: User, tmp_path: Path) -> None:
    ended = author.run("run", write_odd_names(author.folder), "-o", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    capsule = author.folder / "a.capsule.zip"
    (names, block), folder = unpack(capsule, tmp_path / "un packed")
    assert (folder / "inputs/mein c=C3=B6de/=61ux.py").is_file()
    assert execute([names, block], folder, author.home) == sealed_value(capsule)
    assert (folder / "inputs/mein cöde/w:ö 1%.txt").is_file()


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("carried", [True, False])
def test_a_line_of_the_readme_finds_the_data(
    author: User, tmp_path: Path, carried: bool, is_folder: bool
) -> None:
    points = author.folder / "points" / "the points.txt"
    points.parent.mkdir()
    points.write_text("7")
    place = points.parent if is_folder else points
    path = write(author.folder)
    script = author.folder / "my code" / "main.py"
    reader = f"""
import glob
for place in (sys.argv[-1], os.environ["CAPSULE_DATA_MY_POINTS"]):
    (file,) = glob.glob(place + "/*") if {is_folder} else [place]
    assert open(file).read() == "7"
"""
    script.write_text(SCRIPT + reader)
    document = json.loads(path.read_text())
    relative = str(place.relative_to(author.folder))
    document["datasets"]["my-points"] = {"path": relative, "embed": carried}
    document["benchmarks"][0]["command"].append("{data:my-points}")
    document["benchmarks"][0]["datasets"].append("my-points")
    path.write_text(json.dumps(document))
    ended = author.run("run", path, "-o", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    capsule = author.folder / "a.capsule.zip"
    (block,), folder = unpack(capsule, tmp_path / "un packed")
    if carried:
        shutil.rmtree(points.parent)
    else:
        block = block.replace("/path/to/my-points", shlex.quote(str(place)))
    assert execute([block], folder, author.home) == sealed_value(capsule)
    assert author.run("check", capsule).returncode == 0


@pytest.fixture(scope="module")
def apptainer_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Apptainer keeps what it made of an image."""
    return tmp_path_factory.mktemp("apptainer-cache")


@pytest.mark.engines
@pytest.mark.parametrize("write_manifest", [write, write_odd_names, write_copied])
def test_a_line_of_the_readme_gives_the_number_under_each_engine(
    author: User,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    apptainer_cache: Path,
    write_manifest: Callable[..., Path],
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    monkeypatch.setenv("APPTAINER_CACHEDIR", str(apptainer_cache))
    manifest = write_manifest(author.folder, image={"reference": python_image()}, seeds=[11])
    ended = author.run("run", manifest, "-o", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    capsule = author.folder / "a.capsule.zip"
    for place, engine in enumerate(("docker", "apptainer")):
        blocks, folder = unpack(capsule, tmp_path / engine)
        *first, by_docker, by_apptainer = blocks
        chosen = (by_docker, by_apptainer)[place]
        assert engine in chosen
        assert execute([*first, chosen], folder, author.home) == sealed_value(capsule)


def test_the_lines_start_what_capsule_starts(stranger: User, tmp_path: Path) -> None:
    path = seal(tmp_path, make_record())
    shown = stranger.json("verify", path, "--dry-run")["first"]
    blocks, _ = unpack(path, tmp_path / "unpacked")
    by_docker, by_apptainer = (shlex.split(block) for block in blocks[1:])
    seed = shown["environment"]["CAPSULE_SEED"]
    due = {name: value.replace(seed, "17") for name, value in shown["environment"].items()}
    here = {word.partition("=")[::2] for word in after(by_docker, "--env")}
    # this record is of another machine, whose threads and settings were not kept
    kept = {name: due[name] for name in dict(here) if name in due}
    assert dict(here) == {**kept, "PYTHONPATH": ""}
    missing = due.keys() - dict(here).keys()
    assert all(name.endswith("_THREADS") or name in FIXED for name in missing), missing
    prefix = "APPTAINERENV_"
    there = {word.partition("=")[::2] for word in by_apptainer if word.startswith(prefix)}
    assert {(f"{prefix}{name}", value) for name, value in here if name != "HOME"} == there
    program, *words = shown["command"]
    assert after(by_docker, "--entrypoint") == [program]
    assert by_docker[-len(words) :] == words
    assert by_apptainer[-len(words) - 1 :] == [program, *words]
    targets = {one["target"] for one in shown["mounts"]} - {"/capsule/library"}
    for option, line in (("--volume", by_docker), ("--bind", by_apptainer)):
        assert {word.split(":")[1] for word in after(line, option)} == targets
    assert after(by_docker, "--workdir") == after(by_apptainer, "--pwd") == [shown["cwd"]]
    assert after(by_docker, "--network") == after(by_apptainer, "--network") == ["none"]


FIXED = ("LC_ALL", "TZ", "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED")


def after(line: list[str], option: str) -> list[str]:
    """What stands behind an option, each time."""
    return [line[place + 1] for place, word in enumerate(line) if word == option]


def test_data_that_is_not_carried_is_filled_in_at_one_place(author: User, tmp_path: Path) -> None:
    data = {"file": {"path": "one.txt", "embed": False}, "more": {"path": "more"}}
    ended = author.run("run", write(author.folder, datasets=data), "-o", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    capsule = author.folder / "a.capsule.zip"
    (block,), folder = unpack(capsule, tmp_path / "un packed")
    assert block.count("/path/to/") == 1
    lies = shlex.quote(str(author.folder / "one.txt"))
    filled = block.replace("/path/to/file", lies)
    assert execute([filled], folder, author.home) == sealed_value(capsule)


def test_what_cannot_be_shown_is_left_to_the_manifest(author: User) -> None:
    ended = author.run("run", rewrite(write(author.folder), "\u202e"), "-o", "a.zip")
    assert ended.returncode in (0, 5), ended.stderr
    with zipfile.ZipFile(author.folder / "a.zip") as archive:
        text = archive.read("data/README.md").decode()
    assert "The command has characters that this text cannot show" in text
    assert "\u202e" not in text


def rewrite(manifest: Path, sign: str) -> Path:
    """The manifest with a sign among the words that steers a terminal."""
    document = json.loads(manifest.read_text())
    document["benchmarks"][0]["command"].append(f"x{sign}y")
    manifest.write_text(json.dumps(document))
    return manifest


def test_what_only_capsule_starts_is_said() -> None:
    readme = bases()["operators"]["data/README.md"].decode()
    assert "Only the program `capsule` can start" in " ".join(readme.split())
    assert "docker run" not in readme
