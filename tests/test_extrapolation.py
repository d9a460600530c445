"""`capsule show scaling`: steps among more ranks follow from what operations took among few."""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capsule import cli, extrapolation
from capsule.errors import UsageError
from capsule.extrapolation import Extrapolation
from capsule.extrapolation.costs import reckon
from capsule.manifest import Manifest
from capsule.record import Attempt, Record, Samples
from capsule.starts import World
from tests.support import bulk
from tests.support.command import User, write_manifest
from tests.support.documented import ROOT
from tests.support.jobs import needs_torch
from tests.support.records import make_attempt, make_record

LEVEL3: dict[str, Any] = json.loads((ROOT / "manifests" / "level3.json").read_text())
LATENCY, BANDWIDTH, COMPUTING = 50e-6, 1e9, 4e-3
SIZE = 4 * 61_706
STEPS = 10
# operation, algorithm, bytes, how many of them, and what a rank counts for them
DOES: Mapping[str, tuple[tuple[str, str, int, int], ...]] = {
    "allreduce": (("all-reduce", "ring", SIZE, 1),),
    "bucketed": (("all-reduce", "ring", SIZE // 4, 4),),
    "local-sgd": (("all-reduce", "ring", SIZE, 1),),
    "neighbour-averaging": (("swap", "direct", SIZE, 1),),
    "parameter-server": (("reduce", "ring", SIZE, 1), ("broadcast", "binomial-tree", SIZE, 1)),
    "quantized": (("all-gather", "ring", SIZE // 8, 2),),
}


def read(*names: str, over: str | None = None) -> Manifest:
    """The shipped manifest, with these trainings alone; the first by something else than gloo."""
    chosen = [one for one in LEVEL3["benchmarks"] if one["id"] in names]
    if over is not None:
        chosen[0] = {**chosen[0], "scheme": {**chosen[0]["scheme"], "over": over}}
    claims = [{"metric": "*/*/*/bytes_sent", "type": "exact"}]
    document = {**LEVEL3, "benchmarks": chosen, "claims": claims}
    return bulk.read_manifest({name: one for name, one in document.items() if name != "$schema"})


def exchange(name: str, ranks: int) -> tuple[float, int, int]:
    """Seconds of a step that exchanges, and the bytes and messages that a rank counts."""
    seconds, sent, messages = 0.0, 0, 0
    for operation, algorithm, size, count in DOES[name]:
        cost = reckon(operation, algorithm, ranks, size)
        seconds += count * (cost.messages * LATENCY + cost.bytes / BANDWIDTH)
        peers = min(2, ranks - 1) if operation == "swap" else 1
        sent += size * count * peers * (operation != "broadcast")
        messages += count * peers
    return seconds, sent, messages


def series(name: str, ranks: int, seed: int, noise: float) -> dict[str, list[list[float]]]:
    """Values of each metric, by ranks and steps; the last rank is the one that others wait for."""
    chance = random.Random(f"{name} {ranks} {seed}")
    seconds, sent, messages = exchange(name, ranks)
    period = 5 if name == "local-sgd" else 1
    columns: dict[str, list[list[float]]] = {}
    for rank in range(ranks):
        for step in range(1, STEPS + 1):
            happens = step % period == 0
            waited = 0.0 if rank == ranks - 1 else COMPUTING / 10
            took = (seconds * chance.gauss(1, noise) + waited) * happens
            values = {
                "step_time": COMPUTING - waited * happens + took,
                "communication_time": took,
                "wait_time": took,
                "bytes_sent": sent * happens,
                "messages": messages * happens,
            }
            for metric, value in values.items():
                rows = columns.setdefault(metric, [[] for _ in range(ranks)])
                rows[rank].append(value)
    return columns


def measure(*names: str, ranks: int, cores: int = 4, nodes: int = 1, noise: float = 0.01) -> Record:
    """A record of such trainings on so many nodes, each with so many cores."""
    manifest = read(*names)
    attempts: list[Attempt] = []
    samples: list[Samples] = []
    for name in names:
        for seed in (17, 18, 19):
            trial = f"{name}/default/torch/{seed}"
            places = tuple(range(nodes))
            attempts.append(make_attempt(seed, trial=trial, ranks=ranks, nodes=places))
            for metric, rows in series(name, ranks, seed, noise).items():
                samples += [
                    Samples(
                        metric=f"{name}/default/torch/{metric}",
                        trial=trial,
                        attempt=1,
                        seed=seed,
                        unit="1",
                        direction="none",
                        kind="machine",
                        resolution=0.0,
                        per="rank",
                        rank=rank,
                        warmup=0,
                        values=values,
                    )
                    for rank, values in enumerate(rows)
                ]
    node = {
        "class": {"cpu": {"threads_per_core": 2}},
        "state": {"limits": {"cpu_count": 2 * cores, "cpu_quota": None}},
    }
    return make_record(
        manifest=manifest,
        attempts=tuple(attempts),
        samples=tuple(samples),
        nodes=(node,) * nodes,
        worlds=(World(nodes=tuple(rank % nodes for rank in range(ranks))),),
        environment={"variables": {}, "threads": 1, "effective": {}},
    )


@pytest.fixture(scope="module")
def result() -> Extrapolation:
    """Of all of them, at 2 to 4 ranks."""
    records = [measure(*DOES, ranks=ranks) for ranks in (2, 3, 4)]
    return extrapolation.extrapolate(records, [8, 4096])


def test_what_a_network_is_made_with_is_what_is_fitted(result: Extrapolation) -> None:
    assert result.latency.lower < LATENCY < result.latency.upper
    assert result.seconds_per_byte.lower < 1 / BANDWIDTH < result.seconds_per_byte.upper
    assert result.latency.value == pytest.approx(LATENCY, rel=0.05)
    assert result.spread < 0.05
    assert len(result.points) == 3 * len(DOES)
    assert not result.left_out


@pytest.mark.parametrize("name", [one for one in DOES if one != "quantized"])
@pytest.mark.parametrize("ranks", [2, 4, 8, 4096])
def test_steps_among_more_ranks_are_foretold(result: Extrapolation, name: str, ranks: int) -> None:
    due = COMPUTING + exchange(name, ranks)[0] / (5 if name == "local-sgd" else 1)
    rows = [one for one in result.predictions if one.training == f"{name}/default"]
    assert {one.samples for one in rows} == {5, 7, 10}
    for one in rows:
        if one.ranks == ranks:
            assert one.step is not None
            assert one.step.value == pytest.approx(due, rel=0.05)
            assert one.step.lower < due < one.step.upper
            assert one.measured is None or one.measured == pytest.approx(due, rel=0.05)


def test_what_grows_with_ranks_beside_the_exchange_is_not_foretold(result: Extrapolation) -> None:
    rows = [one for one in result.predictions if one.training == "quantized/default"]
    assert all(one.step is None and one.communication.value > 0 for one in rows)
    assert any("quantized a rank adds up more" in one for one in result.caveats)


def test_it_says_how_far_it_may_be_trusted(result: Extrapolation) -> None:
    told = " ".join(result.caveats)
    assert "beyond 4 it rests on the algorithms alone" in told
    assert "all ranks were on one node" in told
    assert "docs/measurements.md" in told
    drawn = "\n".join(extrapolation.draw(result))
    assert all(f"note: {one}" in drawn for one in result.caveats)
    assert "allreduce/default: all-reduce by ring; 10 samples on each rank" in drawn


def test_ranks_that_share_cores_are_named_and_left_out() -> None:
    crowded = measure(*DOES, ranks=4, cores=3)
    result = extrapolation.extrapolate([measure(*DOES, ranks=2, cores=3), crowded], [8])
    assert {one.ranks for one in result.points} == {2}
    assert "allreduce/default at 4 ranks: ranks 0 to 3 share 3 cores of node 0" in result.left_out
    threads = dataclasses.replace(
        crowded, nodes=measure("allreduce", ranks=4).nodes, environment={"threads": 2}
    )
    with pytest.raises(UsageError, match=r"(?s)0 exchanges.*ranks 0 to 3 of 2 threads share 4 cor"):
        extrapolation.extrapolate([threads], [8])


def test_ranks_that_were_bound_to_one_core_of_many_are_left_out() -> None:
    record = measure(*DOES, ranks=2)
    bound = [
        dataclasses.replace(
            one, metric=one.metric.replace("messages", "threads_per_core"), values=(2.0,)
        )
        for one in record.samples
        if one.metric == "allreduce/default/torch/messages"
    ]
    crowded = dataclasses.replace(record, samples=(*record.samples, *bound))
    result = extrapolation.extrapolate([crowded], [8])
    assert len(result.points) == len(DOES) - 1
    assert result.left_out == (
        "allreduce/default at 2 ranks: ranks 0, 1 share cores: 2 threads on each",
    )


def test_what_goes_over_mpi_is_left_out_as_nobody_knows_how_it_goes() -> None:
    record = dataclasses.replace(measure(*DOES, ranks=2), manifest=read(*DOES, over="mpi"))
    result = extrapolation.extrapolate([record], [8])
    assert len(result.points) == len(DOES) - 1
    assert result.left_out == (
        "allreduce/default: it goes over mpi, and by which algorithms is not in the record",
    )


def test_sharded_state_is_left_out_and_taken_for_nothing_else() -> None:
    """Its two messages of a step are of other sizes, and no all-reduces."""
    record = measure(*DOES, ranks=2)
    (sharded,) = read("sharded").benchmarks
    benchmarks = tuple(
        dataclasses.replace(sharded, id="bucketed") if one.id == "bucketed" else one
        for one in record.manifest.benchmarks
    )
    manifest = dataclasses.replace(record.manifest, benchmarks=benchmarks)
    result = extrapolation.extrapolate([dataclasses.replace(record, manifest=manifest)], [8])
    assert len(result.points) == len(DOES) - 1
    assert result.left_out == (
        "bucketed/default: by which algorithm gloo adds up the parts of ranks is not in the model",
    )


def test_ranks_of_one_node_are_no_measure_of_a_network() -> None:
    apart = measure(*DOES, ranks=4, nodes=2)
    result = extrapolation.extrapolate([apart, measure(*DOES, ranks=2)], [8])
    assert {one.ranks for one in result.points} == {4}
    assert not any("one node" in one for one in result.caveats)
    assert "allreduce/default at 2 ranks: its ranks are on one node, and others use a network" in (
        result.left_out
    )


def test_a_node_that_does_not_tell_its_cores_is_trusted_with_none() -> None:
    silent = dataclasses.replace(measure(*DOES, ranks=2), nodes=({"class": {}, "state": {}},))
    with pytest.raises(UsageError, match="how many cores node 0 has is not in the record"):
        extrapolation.extrapolate([silent], [8])


@pytest.mark.parametrize(
    ("names", "worlds", "exchanges"),
    [
        (("allreduce",), (2,), "1 exchange "),
        (("allreduce", "parameter-server"), (2,), "2 exchanges "),
        # one size at one number of ranks: latency and bandwidth are one number
        (("allreduce", "local-sgd"), (2, 2), "4 exchanges "),
    ],
)
def test_too_few_exchanges_are_not_fitted(
    names: tuple[str, ...], worlds: tuple[int, ...], exchanges: str
) -> None:
    records = [measure(*names, ranks=ranks, noise=0) for ranks in worlds]
    with pytest.raises(UsageError, match=f"cannot be fitted to {exchanges}") as caught:
        extrapolation.extrapolate(records, [8])
    assert "level3.json, at 2 to 4 ranks that have a core each" in str(caught.value)


def test_one_training_at_three_numbers_of_ranks_is_enough() -> None:
    records = [measure("allreduce", ranks=ranks, noise=0) for ranks in (2, 3, 4)]
    result = extrapolation.extrapolate(records, [4096])
    assert result.latency.value == pytest.approx(LATENCY)
    assert result.seconds_per_byte.value == pytest.approx(1 / BANDWIDTH)


def test_a_rank_that_is_alone_and_an_attempt_that_failed_measure_nothing() -> None:
    record = measure(*DOES, ranks=2)
    failed = [dataclasses.replace(one, outcome="failed") for one in record.attempts]
    with pytest.raises(UsageError, match="fitted to 0 exchanges"):
        extrapolation.extrapolate([dataclasses.replace(record, attempts=tuple(failed))], [8])
    with pytest.raises(UsageError, match="fitted to 0 exchanges"):
        extrapolation.extrapolate([make_record()], [8])


def test_a_rank_whose_steps_are_not_all_there_is_not_averaged() -> None:
    record = measure(*DOES, ranks=2)
    first, *rest = record.samples
    cut = dataclasses.replace(first, values=first.values[:-1])
    result = extrapolation.extrapolate([dataclasses.replace(record, samples=(cut, *rest))], [8])
    assert len(result.points) == len(DOES)


@needs_torch
def test_a_sealed_run_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    user = User.make(tmp_path)
    chosen = ("allreduce", "bucketed", "neighbour-averaging", "stale-synchronous")
    small = {"samples": 40, "test_samples": 10, "generator": "glyphs"}
    write_manifest(
        user.folder,
        seeds=[1],
        datasets={"glyphs": small},
        resources={"ranks_per_node": 2, "cpus_per_rank": 1},
        benchmarks=[{**one, "epochs": 1} for one in LEVEL3["benchmarks"] if one["id"] in chosen],
        claims=[{"metric": "*/*/*/bytes_sent", "type": "exact"}],
    )
    done = user.run("run", "tiny.json", "--runtime", "host", "--output", "a.capsule.zip")
    assert done.returncode == 0, done.stderr
    path = str(user.folder / "a.capsule.zip")
    status = cli.main(["show", "scaling", path, "--ranks", "8,4096", "--json"])
    printed = capfd.readouterr()
    if len(os.sched_getaffinity(0)) < 2:
        assert status == 2
        assert "ranks 0, 1 share cores: 2 threads on each" in printed.err
        return
    assert status == 0, printed.err
    document = json.loads(printed.out)
    assert {one["training"] for one in document["points"]} == {
        f"{name}/default" for name in chosen[:3]
    }
    assert any("stale-synchronous/default" in one for one in document["left_out"])
    steps = [one for one in document["predictions"] if one["training"] == "allreduce/default"]
    assert [one["ranks"] for one in steps] == [2, 8, 4096]
    assert steps[0]["measured"] > 0
    assert steps[1]["step"]["value"] < steps[2]["step"]["value"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scaling", "missing.zip"], "missing.zip: no such capsule"),
        (["scaling", "a.zip", "--ranks", "0"], "'0' is not N,..."),
        (["scaling", "a.zip", "--evidence"], "--evidence is of one capsule"),
        (["scaling", "a.zip", "b.zip", "--id", "ad880485dd78"], "--id is of one capsule"),
        (["a.zip", "--ranks", "2"], "and `show scaling CAPSULE...` alone"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        assert cli.main(["show", *words]) == 2
    except SystemExit as ended:
        assert ended.code == 2
    assert message in capfd.readouterr().err
