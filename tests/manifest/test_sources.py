"""Where a manifest says that a number is: what is taken, and what is refused in which words."""

import pytest

from capsule.jsons import Json, JsonObject
from capsule.manifest.sources import Column, EventTag, LogKey, Pattern, Pointer, Source
from tests.manifest.test_reader import complaint, read, variant

ONE = "exactly one of pattern, json, csv, mllog and tensorboard"
CURVE = "epoch (?P<step>[0-9]+) loss (?P<value>.*)"


def metric(source: Json, **fields: Json) -> JsonObject:
    benchmark: JsonObject = {
        "id": "train",
        "command": ["true"],
        "metrics": {"loss": {**fields, "from": source}},
    }
    return variant(benchmarks=[benchmark], claims=[])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"pattern": "(x)"}, Pattern(text="stdout", pattern="(x)")),
        (
            {"pattern": CURVE, "occurrence": "all", "file": "a/log.txt"},
            Pattern(text="out/a/log.txt", pattern=CURVE, occurrence="all"),
        ),
        ({"json": "/a", "stream": "stderr"}, Pointer(text="stderr", pointer="/a")),
        (
            {"csv": "loss", "file": "stdout", "step": "epoch"},
            Column(text="out/stdout", column="loss", step="epoch"),
        ),
        ({"mllog": "loss"}, LogKey(text="stdout", key="loss")),
        (
            {"tensorboard": "train/loss", "file": "runs"},
            EventTag(text="out/runs/scalars.tfevents", tag="train/loss"),
        ),
    ],
)
def test_a_source_is_read(source: JsonObject, expected: Source) -> None:
    (loss,) = read(metric(source)).benchmarks[0].metrics
    assert loss.source == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, ONE),
        ({"pattern": "(x)", "json": ""}, ONE),
        ({"tensorboard": "loss"}, "tensorboard needs file: the folder"),
        ({"csv": "a", "file": "{out}/log"}, "the path is already relative to {out}"),
        ({"csv": "a", "file": "{sed}.csv"}, "unknown placeholder {sed}; did you mean {seed}?"),
        ({"csv": "a", "file": "{data:a}"}, "this benchmark has no datasets"),
        ({"csv": "a", "file": "{{seed}}"}, '"{seed}" is not a plain relative path'),
        ({"csv": "a", "file": "a", "stream": "stderr"}, "found both file and stream"),
        ({"csv": "a", "occurrence": "all"}, "occurrence is for a pattern"),
        ({"mllog": "a", "step": "b"}, "step is for csv"),
        ({"regex": "(x)"}, "unknown field"),
        ({"json": "a/b"}, "not a JSON pointer"),
        ({"pattern": "x"}, "has no group for the number"),
        ({"pattern": "(x)(y)"}, "has 2 groups, expected one for the number"),
        ({"pattern": "(?P<loss>x)"}, "unknown group 'loss': the groups are value and step"),
        ({"pattern": "(?P<step>x)", "occurrence": "all"}, "none for the number"),
        ({"pattern": CURVE}, 'add "occurrence": "all"'),
        ({"pattern": "(x"}, "invalid pattern: missing )"),
        ({"pattern": "(x)(?!y)"}, "look-around, as in (?=...), is not supported"),
        ({"pattern": r"(x)\1"}, r"backreferences to a group, as in \1, are not supported"),
        ({"pattern": r"(\pL{1,200})"}, "is too large"),
    ],
)
def test_what_means_nothing_is_refused(source: JsonObject, words: str) -> None:
    assert words in complaint(metric(source))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"pattern": "(x)"}, 'needs "occurrence": "all" and a group (?P<step>...)'),
        ({"csv": "a", "file": "a"}, 'needs "step", the name of the column with the steps'),
        ({"json": "", "file": "a"}, "a JSON document has no steps"),
    ],
)
def test_a_curve_needs_steps(source: JsonObject, words: str) -> None:
    assert words in complaint(metric(source, per="step"))


def test_a_tag_per_step_is_a_curve() -> None:
    source: JsonObject = {"tensorboard": "train/loss", "file": "runs"}
    (loss,) = read(metric(source, per="step")).benchmarks[0].metrics
    text = "out/runs/scalars.tfevents"
    assert loss.source == EventTag(text=text, tag="train/loss", is_curve=True)


@pytest.mark.parametrize("value", ["../../etc", "a b", ".hidden", "/etc/passwd"])
def test_a_parameter_that_makes_no_plain_path_is_refused(value: str) -> None:
    source: JsonObject = {"csv": "a", "file": "{set}/log.csv"}
    benchmark: JsonObject = {
        "id": "train",
        "command": ["true"],
        "cases": [{"name": "a", "set": "a"}, {"name": "b", "set": value}],
        "metrics": {"loss": {"from": source}},
    }
    message = complaint(variant(benchmarks=[benchmark], claims=[]))
    assert "in the case b is not a plain relative path" in message
