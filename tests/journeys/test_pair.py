"""Two variants by turns on one node: what the machine makes of one change and nothing else."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.journeys.test_resume import kill_tree
from tests.journeys.test_stage import NOWHERE
from tests.support.command import REPORT, Document, User, write_manifest, write_script
from tests.support.engines import engine_cache, small_image
from tests.support.patience import until

TIME = "tiny/default/command/time"
# a kernel whose time a machine's state moves for both sides alike, and chance a little for each
STEP = """
import pathlib
state = random.Random(seed).gauss(0, 0.05)
own = random.Random(f"{seed} {SLOWER}").gauss(0, 0.004)
report("time", 0.1 * SLOWER * (1 + state + own))
"""
METRICS: Document = {"time": {"direction": "lower", "kind": "machine", "unit": "s"}}


def write_side(
    author: User,
    name: str,
    slower: float,
    *,
    metrics: Document = METRICS,
    **changes: object,
) -> str:
    """A manifest whose kernel takes so many times as long; its path as it is typed."""
    folder = author.folder / name
    folder.mkdir()
    write_script(folder, REPORT + f"SLOWER = {slower}\n" + STEP)
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "metrics": metrics,
    }
    write_manifest(folder, **{"benchmarks": [benchmark], "claims": None, **changes})
    return f"{name}/tiny.json"


def record_of(capsule: Path) -> Document:
    with zipfile.ZipFile(capsule) as opened:
        record: Document = json.loads(opened.read("data/capsule.json"))
    return record


def starts_of(capsule: Path) -> list[tuple[str, int]]:
    with zipfile.ZipFile(capsule) as opened:
        lines = opened.read("data/results/attempts.jsonl").splitlines()
    return [(attempt["started"], attempt["seed"]) for attempt in map(json.loads, lines)]


@pytest.mark.parametrize(
    ("slower", "code", "word"), [(1.0, 0, "REPRODUCED"), (1.02, 1, "DIFFERENT")]
)
def test_a_slow_down_of_two_percent_is_told_from_none(
    author: User, slower: float, code: int, word: str
) -> None:
    a, b = write_side(author, "a", 1.0), write_side(author, "b", slower)
    verdict = author.json("pair", a, b, "--runtime-a", "host", "--pairs", "12", code=code)
    (claim,) = verdict["claims"]
    assert (claim["metric"], claim["verdict"], claim["seeds"]) == (TIME, word, "pair")
    assert claim["original"]["values"] == claim["rerun"]["values"] == 12


def test_the_sides_take_turns_and_two_capsules_say_so(author: User) -> None:
    a, b = write_side(author, "a", 1.0), write_side(author, "b", 1.02)
    ended = author.run("pair", a, b, "--pairs", "6", "--output-a", "a.zip", "--output-b", "b.zip")
    assert ended.returncode in (0, 1, 3), ended.stderr
    assert not list(author.folder.glob("*.pair"))
    one, other = (record_of(author.folder / name) for name in ("a.zip", "b.zip"))
    assert one["origin"]["pair"] == other["origin"]["pair"]
    assert (one["origin"]["side"], other["origin"]["side"]) == ("a", "b")
    starts = [starts_of(author.folder / name) for name in ("a.zip", "b.zip")]
    assert [seed for _, seed in starts[0]] == [seed for _, seed in starts[1]]
    assert [seed for _, seed in starts[0]][:5] == [1, 2, 3, 4, 5]
    turns = sorted(
        (at, side) for side, side_starts in zip("ab", starts, strict=True) for at, _ in side_starts
    )
    assert "".join(side for _, side in turns) == "abbaabbaabba"
    for name in ("a.zip", "b.zip"):
        assert author.run("check", name).returncode == 0
    again = author.run("diff", "a.zip", "b.zip")
    assert again.returncode == ended.returncode
    assert again.stdout in ended.stdout
    # two capsules that are not the two sides of one pair are judged by their claims
    assert author.json("diff", "a.zip", "a.zip", code=3)["claims"] == []


def test_a_pair_that_was_killed_goes_on_where_it_was(author: User) -> None:
    a, b = write_side(author, "a", 1.0), write_side(author, "b", 1.0)
    running = author.start("pair", a, b, "--pairs", "8", "--work", "w")
    ran = author.folder / "w" / "b.run" / "starts" / "0003"
    until(ran.exists, "the third round")
    kill_tree(running)
    for words, advice in (
        (("run", "--resume", "w/a.run"), "capsule pair --resume w"),
        (("pair", a, "--resume", "w"), "exclude each other"),
        (("pair", "--resume", "w", "--pairs", "9"), "exclude each other"),
        (("pair", "--resume", "a"), "pair.json is missing"),
        (("pair", "--resume", "w/b.run"), "capsule pair --resume w"),
    ):
        refused = author.run(*words)
        assert refused.returncode == 2, words
        assert advice in refused.stderr
    ended = author.run("pair", "--resume", "w", "--output-a", "a.zip", "--output-b", "b.zip")
    assert ended.returncode in (0, 3), ended.stderr
    assert not (author.folder / "w").exists()
    origins = [record_of(author.folder / name)["origin"] for name in ("a.zip", "b.zip")]
    assert [origin["order"] for origin in origins] == ["abababab"] * 2
    completed = [len(set(starts_of(author.folder / name))) for name in ("a.zip", "b.zip")]
    assert min(completed) >= 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--margin", "0.99"], "for example --margin 1.01"),
        (["--margin", "nan"], "for example --margin 1.01"),
        (["--pairs", "1"], "2 to 1000 rounds, found 1"),
        (["--metrics", "tiny/*/*/loss"], f"for example {TIME}"),
        (["--output-b", "a/tiny.json"], "name another file with --output-b"),
        (["--output-a", "nowhere/a.zip"], "name a file in another folder with --output-a"),
        (["--output-a", "c.zip", "--output-b", "./c.zip"], "name the same file"),
        (["--work", "w", "--output-b", "w/b.zip"], "the folder for w/b.zip does not exist"),
        (["--work", "a"], "continue the run with --resume"),
    ],
)
def test_what_cannot_be_paired_is_refused_before_anything_runs(
    author: User, words: Sequence[str], message: str
) -> None:
    a = write_side(author, "a", 1.0)
    refused = author.run("pair", a, *words)
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert {path.name for path in author.folder.iterdir()} == {"a"}


def test_sides_that_start_other_processes_are_refused(author: User) -> None:
    a = write_side(author, "a", 1.0)
    gemm = {
        "id": "tiny",
        "level": 0,
        "operator": "gemm",
        "cases": [{"m": 1, "n": 1, "k": 1}],
        "frameworks": ["numpy"],
    }
    b = write_side(author, "b", 1.0, benchmarks=[gemm])
    refused = author.run("pair", a, b)
    assert refused.returncode == 2
    assert "process start 1 differs between the variants" in refused.stderr


@pytest.mark.engines
@pytest.mark.parametrize(
    "engine",
    ["docker", *(pytest.param(name, marks=pytest.mark.long) for name in ("apptainer", "podman"))],
)
def test_what_a_container_costs_is_a_pair(
    author: User, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    a = write_side(author, "a", 1.0, image={"reference": small_image()})
    engines = ("--runtime-a", engine, "--runtime-b", "host")
    verdict = author.json("pair", a, *engines, "--pairs", "12")
    sides = verdict["sides"]
    assert (sides["original"]["runtime"], sides["rerun"]["runtime"]) == (engine, "host")
    assert [claim["verdict"] for claim in verdict["claims"]] == ["REPRODUCED"]


def test_a_pair_connects_to_nothing_where_that_is_said(author: User) -> None:
    manifest = write_side(author, "one", 1)
    ended = author.run("pair", manifest, "--pairs", "2", "--offline", "--work", "a.pair")
    assert ended.returncode in (0, 3), ended.stderr
    # and goes on as it began
    assert "capsule pair --resume a.pair --offline" in ended.stderr


@pytest.mark.engines
def test_an_image_that_a_pair_would_fetch_is_an_error_offline(author: User) -> None:
    manifest = write_side(author, "one", 1)
    nowhere = ("--image-b", NOWHERE, "--runtime-b", "docker", "--offline")
    ended = author.run("pair", manifest, "--pairs", "2", *nowhere)
    assert ended.returncode == 6
    assert "--offline forbids" in ended.stderr
