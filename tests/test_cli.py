"""The command's own promises: fast help, one exit, no traceback, no colour where none is wanted."""

import os
import subprocess
import sys

import pytest

from capsule import cli, verbs
from tests.support.capsules import seal

HEAVY = (
    "numpy",
    "scipy",
    "docker",
    "spython",
    "torch",
    "tensorflow",
    "jsonschema",
    "rich",
    "requests",
)


def test_help_imports_nothing_heavy():
    argv = [sys.executable, "-X", "importtime", "-m", "capsule", "--help"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "capsule.cli" in imported
    assert not {name for name in imported if name.partition(".")[0] in HEAVY}


@pytest.mark.parametrize("verb", verbs.TABLE)
def test_every_verb_has_help_with_an_example(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([verb, "--help"])
    assert stop.value.code == 0
    assert f"capsule {verb}" in capsys.readouterr().out


def test_a_fault_of_ours_is_told_without_a_traceback(monkeypatch, capsys):
    from capsule import api

    def broken(*_):
        raise ZeroDivisionError("one over nothing")

    monkeypatch.setattr(api, "open", broken)
    assert cli.main(["show", "x"]) == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: one over nothing" in said
    assert "--debug" in said
    assert "Traceback" not in said
    with pytest.raises(ZeroDivisionError):
        cli.main(["--debug", "show", "x"])


def test_talk_never_steers_the_terminal(author):
    ended = author.run("check", "\x1b[2Jevil.zip")
    assert ended.returncode == 2
    assert "\x1b" not in ended.stderr


def test_the_inventory_is_json_and_names_every_engine(author):
    found = author.json("inventory")
    assert found["class"]["cpu"]["cores"] >= 1
    assert set(found["engines"]) == {"apptainer", "docker", "host"}
    assert all(each["usable"] or each["reason"] for each in found["engines"].values())


def test_data_can_be_made_and_named(author):
    made = author.json("data", "generate", "regression", "out", "samples=8", "features=2", "seed=7")
    again = author.json(
        "data", "generate", "regression", "two", "samples=8", "features=2", "seed=7"
    )
    assert made == again
    other = author.json(
        "data", "generate", "regression", "three", "samples=8", "features=2", "seed=8"
    )
    assert other["digest"] != made["digest"]
    assert author.run("data", "hash", "out").stdout == author.run("data", "hash", "two").stdout


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize("talk", [subprocess.STDOUT, subprocess.DEVNULL])
def test_a_reader_that_went_away_is_no_verdict(author, words, talk):
    capsule = seal(author.folder)
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        author.argv("show", capsule, *words),
        env=author.environment(),
        stdout=writing,
        stderr=talk,
        check=False,
    )
    os.close(writing)
    assert ended.returncode == 141
