"""Pairs that are killed, fail or are asked for nonsense: nothing is lost and nothing done twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import pytest

from tests.journeys.test_pair import METRICS, TIME, record_of, starts_of, write_side
from tests.support.command import User

# dies by SIGKILL at the start of the n-th call of a function, as a node that fails would
DEATH = """
import os, signal, sys
if "capsule" in sys.orig_argv:
    from importlib import import_module
    module = import_module({module!r})
    right, calls = module.{function}, []
    def dies(*args, **kwargs):
        calls.append(1)
        if len(calls) == {call}:
            os.kill(os.getpid(), signal.SIGKILL)
        return right(*args, **kwargs)
    module.{function} = dies
"""
OUTPUTS = ("--output-a", "a.zip", "--output-b", "b.zip")


def kill_pair(author: User, module: str, function: str, call: int, *words: str) -> None:
    """Start a pair of four rounds in the folder w, and kill it there."""
    killer = author.folder / "killer"
    killer.mkdir()
    (killer / "sitecustomize.py").write_text(
        DEATH.format(module=module, function=function, call=call)
    )
    a, b = write_side(author, "a", 1.0), write_side(author, "b", 1.0)
    ended = author.run("pair", a, b, "--pairs", "4", "--work", "w", *words, PYTHONPATH=str(killer))
    assert ended.returncode == -9, ended.stderr


def capsules_in(author: User) -> list[str]:
    return sorted(path.name for path in author.folder.glob("**/*.zip"))


def test_a_pair_killed_between_its_two_run_folders_left_nothing_to_go_on_with(
    author: User,
) -> None:
    kill_pair(author, "capsule.session", "lay_out", 2)
    assert not (author.folder / "w").exists()
    refused = author.run("pair", "--resume", "w")
    assert refused.returncode == 2
    assert "expected the run folder of an interrupted pair" in refused.stderr
    # what the dead one left is not in the way
    ended = author.run("pair", "a/tiny.json", "b/tiny.json", "--pairs", "4", "--work", "w")
    assert ended.returncode in (0, 3), ended.stderr


@pytest.mark.parametrize(
    ("module", "function", "call", "words"),
    [
        pytest.param("capsule.execute.loop", "finish", 4, OUTPUTS, id="within round 2"),
        pytest.param("capsule.sealing", "write", 1, (), id="unsealed"),
        pytest.param("capsule.sealing", "write", 2, OUTPUTS, id="A is sealed"),
        pytest.param("capsule.sealing", "write", 2, (), id="A is sealed under its usual name"),
        pytest.param("capsule.places", "discard", 1, OUTPUTS, id="both are sealed"),
    ],
)
def test_a_pair_killed_anywhere_ends_with_one_capsule_a_side_and_one_verdict(
    author: User, module: str, function: str, call: int, words: Sequence[str]
) -> None:
    kill_pair(author, module, function, call, *words)
    before = {name: (author.folder / name).read_bytes() for name in capsules_in(author)}
    # whoever goes on names no capsules where they were named, and others where they were not
    ended = author.run("pair", "--resume", "w", *(() if words else OUTPUTS), "--json")
    assert ended.returncode in (0, 3), ended.stderr
    assert json.loads(ended.stdout)["claims"][0]["original"]["values"] == 4
    assert not (author.folder / "w").exists()
    names = capsules_in(author)
    assert len(names) == 2
    if words:
        assert names == ["a.zip", "b.zip"]
    for name, sealed in before.items():
        assert (author.folder / name).read_bytes() == sealed
    origins = [record_of(author.folder / name)["origin"] for name in names]
    assert {origin["side"] for origin in origins} == {"a", "b"}
    for name in names:
        assert len(starts_of(author.folder / name)) == 4
    ledger = author.home / ".local" / "state" / "capsule" / "sealed.txt"
    assert len(set(ledger.read_text().split())) == 2


ROLES = re.compile(r"original|re-run|re-exec", re.IGNORECASE)


def sentences_of(document: object) -> Iterator[str]:
    """Every sentence of a verdict, however deep."""
    items = document.items() if isinstance(document, dict) else ()
    for key, value in items:
        if key == "sentence":
            yield value
        yield from sentences_of(value)
    for value in document if isinstance(document, list) else ():
        yield from sentences_of(value)


@pytest.mark.parametrize(
    ("broken", "condition", "code", "sentence"),
    [
        ("b", "seed == 3", 0, "0 of 6 runs of A failed, 1 of 6 of B"),
        ("b", "True", 1, "B has no run with a value"),
        ("a", "True", 1, "A has no run with a value"),
        ("a", "seed != 3", 3, "5 of 6 runs of A failed, 0 of 6 of B"),
    ],
)
def test_failures_are_told_of_a_and_b_and_of_no_original(
    author: User, broken: str, condition: str, code: int, sentence: str
) -> None:
    for name in "ab":
        write_side(author, name, 1.0, title=f"Variant {name}")
    script = author.folder / broken / "tiny.py"
    call = 'report("time"'
    failing = f"if {condition}: raise SystemExit(3)\n{call}"
    script.write_text(script.read_text().replace(call, failing))
    sides = ("a/tiny.json", "b/tiny.json")
    ended = author.run("pair", *sides, "--pairs", "6", *OUTPUTS)
    assert ended.returncode == code, ended.stderr
    assert "A: Variant a; B: Variant b" in ended.stdout
    whole = author.run("diff", "a.zip", "b.zip", "--full").stdout
    assert sentence in " ".join(whole.split())
    document = author.json("diff", "b.zip", "a.zip", code=code)
    texts = [ended.stdout, whole, *sentences_of(document)]
    assert not list(filter(ROLES.search, texts))
    assert "the ratio of A to B" in document["notes"][0]["sentence"]


def test_a_side_is_a_capsule_like_any_other_beside_all_but_its_own_other_side(
    author: User,
) -> None:
    loss = {"direction": "lower"}
    claims = [{"metric": "*/*/*/loss", "type": "equivalence", "margin": {"absolute": 0.5}}]
    a = write_side(author, "a", 1.0, claims=claims, metrics={**METRICS, "loss": loss})
    script = author.folder / "a" / "tiny.py"
    script.write_text(script.read_text() + 'report("loss", 1 + own)\n')
    # the same manifest twice is how alike equal runs are; a pattern may match more than is judged
    wide = author.json("pair", a, "--pairs", "6", "--metrics", "*/*/*/*", *OUTPUTS)
    assert [claim["metric"] for claim in wide["claims"]] == [TIME]
    assert wide["reported"] == []
    other = ("--output-a", "c.zip", "--output-b", "d.zip")
    assert author.run("pair", a, "--pairs", "6", *other).returncode in (0, 3)
    # the seeds of both pairs are the same: no evidence of what the author claims
    strangers = author.json("diff", "a.zip", "d.zip", code=3)
    assert [(claim["metric"][-4:], claim["verdict"]) for claim in strangers["claims"]] == [
        ("loss", "INCONCLUSIVE")
    ]
    several = author.run("diff", "c.zip", "a.zip", "d.zip")
    assert several.returncode == 2
    assert "A and C are the two sides of one pair" in several.stderr
    verified = author.json("verify", "a.zip", "--output", "v.zip")
    assert [(claim["metric"][-4:], claim["verdict"]) for claim in verified["claims"]] == [
        ("loss", "REPRODUCED")
    ]


def test_a_pair_of_which_a_side_is_gone_says_so(author: User) -> None:
    kill_pair(author, "capsule.execute.loop", "finish", 4)
    (author.folder / "w" / "b.run").rename(author.folder / "b.run")
    refused = author.run("pair", "--resume", "w")
    assert refused.returncode == 2
    assert "b.run is missing in the folder of the pair" in refused.stderr
    (author.folder / "b.run").rename(author.folder / "w" / "b.run")
    for words, message in (
        (("--output-a", "w/a.zip"), "the capsule's path is in the run folder"),
        (("--output-a", "c.zip", "--output-b", "c.zip"), "name the same file"),
    ):
        refused = author.run("pair", "--resume", "w", *words)
        assert refused.returncode == 2
        assert message in refused.stderr
    assert author.run("pair", "--resume", "w").returncode in (0, 3)


def test_a_pair_goes_on_nowhere_but_on_its_node(author: User) -> None:
    kill_pair(author, "capsule.execute.loop", "finish", 4)
    path = author.folder / "w" / "b.run" / "nodes" / "0000.json"
    node = path.read_text()
    elsewhere = json.loads(node)
    elsewhere["class"]["cpu"] = {"model": "another"}
    path.write_text(json.dumps(elsewhere))
    refused = author.run("pair", "--resume", "w")
    assert refused.returncode == 6
    assert "began on another machine" in refused.stderr
    path.write_text(node)
    assert author.run("pair", "--resume", "w").returncode in (0, 3)


def test_a_walltime_that_is_used_up_names_the_folder_of_the_pair(author: User) -> None:
    a = write_side(author, "a", 1.0, resources={"cpus_per_rank": 1, "walltime": "00:00:01"})
    script = author.folder / "a" / "tiny.py"
    script.write_text(script.read_text() + "import time; time.sleep(0.6)\n")
    ended = author.run("pair", a, "--pairs", "3", "--work", "w")
    assert ended.returncode == 5
    assert "a.run" not in ended.stderr
    assert "capsule pair --resume w" in ended.stderr
