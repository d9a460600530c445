"""Every screen of every record keeps the rules: nothing too wide, too long, broken or squeezed."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle
from typing import Any, Literal

import pytest
from rich.console import Console, RenderableType

from capsule import diff, report, verdict
from capsule.verdict.model import Verdict
from tests.support import screens
from tests.support.kept import record_of

WIDTHS = (80, 100, 160)
ID, OTHER_ID = "a" * 64, "b" * 64
RUNS = 4
SHIFTS = {"same": 0.0, "beyond": 0.5, "near": 0.012}
WORDS = {"same": "REPRODUCED", "beyond": "DIFFERENT", "near": "INCONCLUSIVE"}
# benchmarks, cases of each, metrics of each case
SHAPES = {1: (1, 1, 1), 3: (1, 1, 3), 40: (2, 4, 5), 1000: (10, 5, 20)}

Kind = Literal["same", "beyond", "near", "mixed"]


def name(kind: str, number: int) -> str:
    """A segment of 60 characters in which a wrapper finds places to break."""
    letters = "".join(random.Random(f"{kind} {number}").choices("bcdfghjklmnpqrstvwxz", k=57))
    return f"{letters[:20]}-{letters[20:34]}.{letters[34:45]}_{letters[45:]}"


def scenario(claims: int, kind: Kind, *, looks: int, failing: bool) -> dict[str, Any]:
    """Runs of both sides as the kept set writes them, each metric claimed once."""
    benchmarks, cases, metrics = SHAPES[claims]
    names = [name("metric", number) for number in range(metrics)]
    kinds = [kind if kind != "mixed" else (*SHIFTS,)[number % 3] for number in range(metrics)]
    units = [
        f"{name('benchmark', one)}/{name('case', case)}/command"
        for one in range(benchmarks)
        for case in range(cases)
    ]

    def runs(side: int, number_of_runs: int) -> Iterator[dict[str, Any]]:
        for place, unit in enumerate(units):
            for run in range(number_of_runs):
                chance = random.Random(f"{side} {unit} {run}")
                values = [1 + chance.gauss(0, 0.01) + side * SHIFTS[one] for one in kinds]
                entry: dict[str, Any] = {"unit": unit, "seed": 17 + run + 1000 * side}
                if side:
                    entry["fresh"] = True
                if failing and run == 0 and side and place % 3 == 0:
                    entry["status"] = "failed"
                else:
                    entry["metrics"] = {
                        one: {"values": [value]} for one, value in zip(names, values, strict=True)
                    }
                yield entry

    margin = {"same": 0.2, "beyond": 0.2, "near": 0.015}
    return {
        "benchmarks": [
            {
                "id": name("benchmark", one),
                "command": ["python3", "train.py"],
                "cases": [{"name": name("case", case), "size": case} for case in range(cases)],
                "metrics": {metric: {"direction": "lower"} for metric in names},
            }
            for one in range(benchmarks)
        ],
        "claims": [
            {
                "metric": f"*/*/*/{metric}",
                "type": "equivalence",
                "margin": {"absolute": margin[one]},
            }
            for metric, one in zip(names, kinds, strict=True)
        ],
        "sides": [
            {"runs": list(runs(0, RUNS))},
            {"verifies": True, "runs": list(runs(1, RUNS * looks))},
        ],
    }


@cache
def judged(kind: Kind, looks: int, failing: bool) -> Verdict:
    """Few claims judged by a verification."""
    both = scenario(3 if kind == "mixed" else 1, kind, looks=looks, failing=failing)
    found = diff.compare(record_of(both, 0), record_of(both, 1), original_id=ID, rerun_id=OTHER_ID)
    return verdict.judge(found)


def multiply(outcome: Verdict, paths: Sequence[str]) -> Verdict:
    """The judgements of a verdict over and over, each for another metric."""
    claims, pairs = [], []
    claimed = [pair for pair in outcome.differences.pairs if pair.claim is not None]
    for path, (one, pair) in zip(
        paths, cycle(zip(outcome.claims, claimed, strict=True)), strict=False
    ):
        assert one.claim is not None
        claim = replace(one.claim, metric=path)
        claims.append(replace(one, metric=path, claim=claim))
        pairs.append(replace(pair, metric=path, claim=claim))
    differences = replace(outcome.differences, pairs=tuple(pairs))
    return replace(outcome, claims=tuple(claims), differences=differences)


def list_paths(claims: int) -> list[str]:
    """The metric paths of so many claims."""
    benchmarks, cases, metrics = SHAPES[claims]
    return [
        f"{name('benchmark', one)}/{name('case', case)}/command/{name('metric', metric)}"
        for one in range(benchmarks)
        for case in range(cases)
        for metric in range(metrics)
    ]


def draw(items: Sequence[RenderableType], width: int) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for item in items:
        console.print(item)
    return stream.getvalue()


CASES: list[tuple[int, Kind, int, bool]] = [
    *((1, kind, looks, False) for kind in ("same", "beyond", "near") for looks in (1, 2)),
    (1, "same", 1, True),
    *((40, kind, 1, False) for kind in ("same", "beyond", "near")),
    *((claims, "mixed", looks, True) for claims in (40, 1000) for looks in (1, 2)),
]


@pytest.mark.parametrize(("claims", "kind", "looks", "failing"), CASES)
def test_a_verdict_keeps_the_rules(claims: int, kind: Kind, looks: int, failing: bool) -> None:
    outcome = judged(kind, looks, failing)
    assert failing or outcome.word == WORDS[kind]
    paths = list_paths(claims)
    for width in WIDTHS:
        screen = draw(report.draw_verdict(multiply(outcome, paths)), width)
        assert screens.find_faults(screen, width, paths) == []


@pytest.mark.parametrize("claims", [1, 40, 1000])
def test_a_record_keeps_the_rules(claims: int) -> None:
    both = scenario(claims, "mixed", looks=1, failing=True)
    for side in (0, 1):
        record = record_of(both, side)
        for width in WIDTHS:
            screen = draw(report.draw_record(record, ID), width)
            assert screens.find_faults(screen, width, list_paths(claims)) == []


# the rules themselves


@pytest.mark.parametrize(
    ("screen", "fault"),
    [
        ("name\n──────────────\naccur   1.0\nacy\n", "breaks a name"),
        ("loss of moons/accur…\n", "cuts a name"),
        ("loss of …uracy\n", "cuts a name"),
        ("moons/default/command/accurac\n", "cuts a name"),
        (
            "a     bbbb   metric\n──────────────────────────\n1     many   accuracy\n      more\n",
            "4 characters, too few to wrap",
        ),
        (f"{'x' * 81}\n", "81 of 80 columns"),
        ("line\n" * 121, "121 lines"),
    ],
)
def test_a_breach_is_found(screen: str, fault: str) -> None:
    faults = screens.find_faults(screen, 80, ["moons/default/command/accuracy"])
    assert fault in faults[0]


@pytest.mark.parametrize(
    "screen",
    [
        "moons/\ndefault/command/\naccuracy   1.0\n",
        "accuracy of moons/…/accuracy, …\n",
        "the default is a fault of the command line: accurately\n",
        f"to decide it: capsule verify {'x' * 81}\n",
        "a   metric    claim\n─────────────────────\n1   accuracy  exact\n2   accuracy\n",
        "line\n" * 120,
    ],
)
def test_a_good_screen_has_no_fault(screen: str) -> None:
    assert screens.find_faults(screen, 80, ["moons/default/command/accuracy"]) == []
