"""What a stranger is shown and told to type is what works."""

import json
import re
import shlex
import zipfile
from pathlib import Path

import pytest

from tests.support.command import User, write_manifest, write_script

NAME = "a stranger's.capsule.zip"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capsule that ran without a container, under the name that its README has for it."""
    author = User.make(tmp_path_factory.mktemp("author"))
    write_script(author.folder)
    ended = author.run("run", write_manifest(author.folder), "--output", "tiny.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return author.folder / "tiny.capsule.zip"


@pytest.fixture
def stranger(tmp_path: Path, sealed: Path) -> User:
    """Somebody else who has it, under two names."""
    stranger = User.make(tmp_path, "stranger")
    for name in ("tiny.capsule.zip", NAME):
        (stranger.folder / name).write_bytes(sealed.read_bytes())
    return stranger


def test_the_line_in_the_readme_gives_a_verdict(stranger: User) -> None:
    with zipfile.ZipFile(stranger.folder / "tiny.capsule.zip") as capsule:
        readme = capsule.read("data/README.md").decode()
    (line,) = re.findall(r"^ *capsule (verify .*)$", readme, re.M)
    assert stranger.run(*shlex.split(line)).returncode in (0, 1, 3)
    assert "same image" not in readme
    assert "Apptainer" not in readme
    assert "--allow-host" in readme.replace(line, "")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--trust"],
        [
            "--runs",
            "2",
            "--walltime",
            "01:00:00",
            "--output",
            "v 1.zip",
            "--nonce",
            "a b",
            "--full",
        ],
    ],
)
def test_a_refusal_prints_the_command_that_permits_what_was_shown(
    stranger: User, words: list[str]
) -> None:
    refused = stranger.run("verify", NAME, *words)
    assert refused.returncode == 4
    line = shlex.split(refused.stderr.splitlines()[-1])
    assert line[:3] == ["capsule", "verify", NAME]
    assert line[line.index("--id") + 1] == stranger.json("show", NAME)["id"]
    assert {"--trust", "--allow-host", *words} <= set(line)
    assert stranger.run(*line[1:]).returncode in (0, 1, 3)
    # and nothing else than what was shown
    other = User.make(stranger.folder, "other")
    write_script(other.folder)
    manifest = write_manifest(other.folder, seeds=[7, 8])
    assert other.run("run", manifest, "--output", "b.zip").returncode == 0
    (stranger.folder / NAME).write_bytes((other.folder / "b.zip").read_bytes())
    (stranger.folder / "v 1.zip").unlink(missing_ok=True)
    assert stranger.run(*line[1:]).returncode == 4


def test_the_measured_software_is_named(stranger: User, sealed: Path) -> None:
    with zipfile.ZipFile(sealed) as capsule:
        software = json.loads(capsule.read("data/records/software.json"))["software"]["command"]
    count = f"{len(software['distributions'])} packages"
    for ended in (stranger.run("show", NAME, "--full"), stranger.run("verify", NAME)):
        words = " ".join(f"{ended.stdout} {ended.stderr}".split())
        assert f"CPython {software['python']['version']}" in words
        assert count in words
