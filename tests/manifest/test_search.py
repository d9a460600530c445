"""Searches: what is drawn, what is written of it, and what each mistake is told."""

import json
import sys
from typing import Any

import pytest

from capsule import lint, manifest, plan
from capsule.errors import ManifestError
from capsule.manifest import Benchmark, Manifest
from tests.manifest.test_recipes import WHOLE, read, source

SPACE: dict[str, Any] = {
    "lr": {"from": 0.001, "to": 1, "scale": "log"},
    "batch": [10, 20, 50],
    "epochs": {"from": 1, "to": 4, "whole": True},
}
SEARCH: dict[str, Any] = {
    "method": "halton",
    "metric": "final_accuracy",
    "points": 16,
    "studies": 4,
    "seed": 7,
    "space": SPACE,
}
GRID: dict[str, Any] = {
    "method": "grid",
    "metric": "final_accuracy",
    "studies": 3,
    "space": {"lr": {"from": 0.01, "to": 1, "scale": "log", "count": 3}, "batch": [10, 20]},
}
COMMAND: dict[str, Any] = {
    "id": "tiny",
    "command": ["python3", "train.py", "{lr}", "{optimizer}"],
    "metrics": {"loss": {"direction": "lower"}, "size": {}},
    "search": {
        "method": "random",
        "metric": "loss",
        "points": 5,
        "studies": 3,
        "space": {"lr": {"from": 0.1, "to": 0.2}, "optimizer": ["adam", "sgd"]},
    },
}


def search(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in {**SEARCH, **fields}.items() if value is not None}


def searched(**fields: Any) -> Manifest:
    return read(source(search=search(**fields)))


def only(read_manifest: Manifest) -> Benchmark:
    (benchmark,) = read_manifest.benchmarks
    return benchmark


def whole(entry: dict[str, Any], *claims: str, **fields: Any) -> bytes:
    written = [{"metric": metric, "type": "exact"} for metric in claims]
    return json.dumps({**WHOLE, **fields, "benchmarks": [entry], "claims": written}).encode()


def complaint(data: bytes, **options: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        read(data, **options)
    return str(caught.value)


@pytest.mark.parametrize("method", ["halton", "random"])
def test_points_lie_in_the_space_and_fill_it(method: str) -> None:
    cases = only(searched(method=method, points=32)).cases
    assert len(cases) == 4 * 32
    assert [cases[0].name, cases[32].name, cases[-1].name] == ["s1-p01", "s2-p01", "s4-p32"]
    columns = {name: [one.parameters[name] for one in cases] for name in SPACE}
    rates = [float(rate) for rate in columns["lr"]]
    assert min(rates) >= 0.001
    assert max(rates) <= 1
    # each third of the scale has about a third of the points
    decades = [sum(10**n <= 1000 * rate <= 10 ** (n + 1) for rate in rates) for n in range(3)]
    assert all(30 <= count <= 56 for count in decades), decades
    assert set(columns["batch"]) == {10, 20, 50}
    assert all(columns["epochs"].count(epochs) >= 20 for epochs in (1, 2, 3, 4))
    assert all(isinstance(epochs, int) for epochs in columns["epochs"])


@pytest.mark.parametrize("method", ["halton", "random"])
def test_studies_differ_and_a_seed_decides(method: str) -> None:
    first, again, other = (
        [case.parameters for case in only(searched(method=method, seed=seed)).cases]
        for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other
    studies = [first[start : start + 16] for start in range(0, 64, 16)]
    assert all(studies[0] != study for study in studies[1:])
    for study in studies:
        assert len({json.dumps(point) for point in study}) == 16


def test_a_grid_is_dealt_out_to_the_studies() -> None:
    benchmark = only(read(source(search=GRID)))
    assert {(one.parameters["lr"], one.parameters["batch"]) for one in benchmark.cases} == {
        (rate, batch) for rate in (0.01, 0.1, 1.0) for batch in (10, 20)
    }
    assert [one.name for one in benchmark.cases][::2] == ["s1-p1", "s2-p1", "s3-p1"]


def test_whole_numbers_of_a_grid_reach_from_end_to_end() -> None:
    space = {"epochs": {"from": 1, "to": 9, "whole": True, "count": 5}}
    benchmark = only(read(source(search={**GRID, "space": space})))
    assert sorted(one.parameters["epochs"] for one in benchmark.cases) == [1, 3, 5, 7, 9]


def test_what_was_drawn_is_written_and_never_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = searched()
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    again = read(drawn.source)
    assert again == drawn
    assert len(drawn.source.decode().splitlines()) < 150, "a point stands in a line"
    raw = json.loads(drawn.source)
    assert raw["benchmarks"][0]["search"] == SEARCH
    raw["benchmarks"][0]["cases"][0]["lr"] = 0.5
    assert only(read(json.dumps(raw).encode())).cases[0].parameters["lr"] == 0.5
    seeds = manifest.with_seeds(drawn, (3, 4))
    assert seeds.benchmarks == drawn.benchmarks
    subjects = plan.to_json(plan.make(drawn))["subjects"]
    assert read(drawn.source, subjects).benchmarks == drawn.benchmarks


def test_a_search_of_a_command_is_written_too() -> None:
    drawn = read(whole(COMMAND, "tiny/search/command/score"))
    assert read(drawn.source, []) == drawn
    assert {case.parameters["optimizer"] for case in only(drawn).cases} == {"adam", "sgd"}


def test_a_capsule_has_the_points_written() -> None:
    message = complaint(whole(COMMAND), subjects=[])
    assert "/benchmarks/0/search: the points of the search are missing" in message


def test_trials_of_a_search_share_a_process() -> None:
    assert only(searched()).isolation == "group"
    assert only(read(source(search=SEARCH, isolation="trial"))).isolation == "trial"
    planned = plan.make(read(source(search=search(points=500), frameworks=["numpy"])))
    assert len(planned.groups) == len(planned.manifest.seeds) == 2
    assert sum(len(group.trials) for group in planned.groups) == 4000


def test_a_hundred_thousand_points_are_read() -> None:
    entry = {**COMMAND, "search": {**COMMAND["search"], "points": 20_000, "studies": 5}}
    entry["search"]["space"] = {"lr": {"from": 0, "to": 1}}
    entry["command"] = ["python3", "train.py", "{lr}"]
    drawn = read(whole(entry, seeds=[1]))
    assert len(only(drawn).cases) == 100_000
    entry["search"] |= {"points": 20_001}
    assert "numbers, expected at most 100000 points" in complaint(whole(entry))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": None}, '/search: halton needs "points"'),
        ({"method": "sobol"}, '"sobol" is unknown'),
        ({"metric": "final_acuracy"}, "did you mean 'final_accuracy'?"),
        ({"metric": "parameters"}, "parameters has no direction"),
        ({"studies": 2}, "/search/studies"),
        ({"space": {}}, "/search/space"),
        ({"space": {"lr": {"from": 1, "to": 1}}}, 'found "from" 1 and "to" 1: from must be'),
        ({"space": {"lr": {"from": 0, "to": 1, "scale": "log"}}}, "0 has no logarithm"),
        ({"space": {"epochs": {"from": 1, "to": 2.5, "whole": True}}}, "must be whole"),
        ({"space": {"lr": {"from": 0.1, "to": 1, "count": 3}}}, "count is only for grids"),
        ({"space": {"lr": [0.1, 0.1]}}, "0.1 is given twice"),
        ({"space": {"lr": ["0.1", 0.2]}}, "a training can vary only numbers"),
        ({"space": {"lr": 0.1}}, '"from": 0.001'),
        ({"points": 2, "space": {"learning_rate": [0.1, 0.2]}}, "a case cannot vary"),
        ({"space": {"batch": {"from": 1, "to": 64}}}, "/search/space: batch is"),
        ({"space": {"name": [1, 2]}}, "'name' is a reserved name"),
        ({"space": {"lr": [0.1, 0.2]}}, "the space has only about 2 points"),
        ({"method": "grid", "space": {"lr": [0.1, 0.2]}}, 'remove "points"'),
    ],
)
def test_a_wrong_search_is_told(change: dict[str, Any], message: str) -> None:
    told_of = complaint(source(search=search(**change)))
    assert message in told_of
    assert told_of.count("\n") < 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": {"lr": {"from": 0.1, "to": 1}}}, "or a range with count"),
        ({"space": {"lr": [0.1, 0.2]}}, "makes 2 points, but 3 studies need at least 3"),
    ],
)
def test_a_wrong_grid_is_told(change: dict[str, Any], message: str) -> None:
    assert message in complaint(source(search={**GRID, **change}))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((0, "lr"), 2, "lr of s1-p01 is 2, which is not in the space"),
        ((0, "batch"), 11, "batch of s1-p01 is 11"),
        ((1, "epochs"), 1.5, "epochs of s1-p02"),
        ((0, "name"), "best", 'found "best", expected a case with the name s1-p01'),
    ],
)
def test_written_points_are_held_to_the_space(
    path: tuple[int, str], value: Any, message: str
) -> None:
    raw = json.loads(searched().source)
    raw["benchmarks"][0]["cases"][path[0]][path[1]] = value
    assert message in complaint(json.dumps(raw).encode())


def test_a_point_that_is_missing_is_told() -> None:
    raw = json.loads(searched().source)
    raw["benchmarks"][0]["cases"].pop()
    assert "found 63 points, expected 64 points in 4 studies" in complaint(json.dumps(raw).encode())


@pytest.mark.parametrize(
    "points", [[], {}, None, [1] * 15, [{"name": "s1-p1"}] * 15, [[]] * 100_001, "points"]
)
def test_anything_else_in_place_of_points_is_told(points: Any) -> None:
    assert "/benchmarks/0/cases: " in complaint(whole({**COMMAND, "cases": points}))


def test_what_is_large_without_points_is_no_manifest() -> None:
    many = [{**COMMAND, "id": f"tiny-{number}"} for number in range(1000)]
    data = json.dumps({**WHOLE, "benchmarks": many}).encode()
    assert "expected at most 256 KiB" in complaint(data)
    assert "expected at most 16384 KiB" in complaint(whole(COMMAND) + b" " * (1 << 24))


def test_more_numbers_than_a_manifest_holds_are_not_drawn() -> None:
    space = {f"x{number}": {"from": 0, "to": 1} for number in range(100)}
    entry = {**COMMAND, "command": ["true"]}
    entry["search"] = {**COMMAND["search"], "points": 3334, "space": space}
    assert "makes 10002 points of 100 numbers" in complaint(whole(entry))
    entry["search"] = {
        "method": "grid",
        "metric": "loss",
        "space": {name: [1, 2, 3] for name in space},
    }
    assert "numbers, expected at most 100000 points" in complaint(whole(entry))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("tiny/s1-p1/command/loss", "is about one point of a search"),
        ("*/s3-p5/*/loss", "is about one point of a search"),
        ("tiny/search/command/best", "the best of all trials of a search is partly luck"),
        ("tiny/search/command/loss", "cannot be claimed"),
        ("tiny/serch/command/score", "matches no metric"),
    ],
)
def test_only_the_score_is_claimed(metric: str, message: str) -> None:
    assert message in complaint(whole(COMMAND, metric))


@pytest.mark.parametrize("metric", ["tiny/search/command/score", "tiny/*/*/score", "*/*/*/*"])
def test_a_claim_on_the_score_is_taken(metric: str) -> None:
    warnings = lint.warnings(read(whole(COMMAND, metric)))
    assert "search-unclaimed" not in [one.code for one in warnings]


def test_a_search_that_nobody_judges_is_told() -> None:
    warnings = lint.warnings(read(whole(COMMAND, "tiny/*/command/loss")))
    assert any("Claim tiny/search/*/score" in one for one in warnings)
