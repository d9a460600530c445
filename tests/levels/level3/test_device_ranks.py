"""Ranks on devices: values of ranks on CPUs, times of the device's clock, and ranks that leave."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from capsule.execute.reports import Journal, TrialReport, merge
from capsule.levels.catalog import schemes, training
from tests.support import ranks, ranks_faults, trials
from tests.support.jobs import NEEDS_TORCH
from tests.support.journal_events import ONE
from tests.support.ranks import Outcome, Scenario, trial
from tests.support.ranks_faults import (
    ALLREDUCE,
    BUCKETED,
    LARGEST,
    LOCAL,
    MODELS,
    NEIGHBOURS,
    QUANTIZED,
    RESNET,
    SERVER,
    SHARDED,
)

pytestmark = NEEDS_TORCH

TIMED = tuple(trial(one, epochs=1) for one in (SERVER, BUCKETED, MODELS, LOCAL, LARGEST, QUANTIZED))
TRIALS = (
    trial(ALLREDUCE, workers=1),
    *TIMED,
    trial(NEIGHBOURS, epochs=1),
    trial(SHARDED, epochs=1),
    trial(ALLREDUCE, "float32", dtype="float32", epochs=1),
    trial(BUCKETED, "groups", epochs=1, **RESNET),
    trial({"name": "independent"}, epochs=1),
)
AGAIN = trial(ALLREDUCE), trial(ALLREDUCE, "again", epochs=1)
LOST, LOST_BY_CPUS = "a rank loses its device", "a rank of CPUs loses its device"
LEAVES, SHARED = "a rank beside devices leaves", "one device for all"
SCENARIOS = (
    Scenario("host", 2, TRIALS),
    Scenario("devices", 2, TRIALS, "devices", device="cuda"),
    Scenario("three hosts", 3, TRIALS[:3]),
    Scenario("three devices", 3, TRIALS[:3], "devices", device="cuda"),
    Scenario("lost", 2, AGAIN[:1], LOST, device="cuda", lost=1),
    Scenario("lost-by-cpus", 2, AGAIN[:1], LOST_BY_CPUS, lost=1),
    Scenario("leaves", 2, AGAIN, LEAVES, device="cuda"),
    Scenario("shared", 2, AGAIN[:1], SHARED, device="cuda"),
)
PORTABLE = {
    facts.name
    for facts in (
        *training.metrics("accuracy", has_target=False, stops=False),
        *(one for name in schemes.SCHEMES for one in schemes.metrics(name)),
    )
    if facts.kind == "portable"
}

Outcomes = dict[str, dict[str, Outcome]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    data = ranks_faults.write(tmp_path_factory.mktemp("data"))
    return ranks.run(tmp_path_factory.mktemp("devices"), data, SCENARIOS)


@pytest.mark.parametrize(("there", "here"), [("host", "devices"), ("three hosts", "three devices")])
def test_ranks_on_devices_reach_what_ranks_on_cpus_do(
    outcomes: Outcomes, there: str, here: str
) -> None:
    for identity, due in outcomes[there].items():
        found = outcomes[here][identity]
        for one in (due, found):
            assert {end["outcome"] for end in one.ends} == {"completed"}, one.ends
        for theirs, ours in zip(due.values, found.values, strict=True):
            for metric in PORTABLE & theirs.keys():
                assert ours[metric] == theirs[metric], (identity, metric)
            assert ours.keys() - theirs.keys() <= {"copy_time", "peak_memory_bytes"}
            assert theirs.keys() <= ours.keys()
        assert found.evaluated.keys() == due.evaluated.keys()
        for name, array in due.evaluated.items():
            assert numpy.array_equal(found.evaluated[name], array), (identity, name)


@pytest.mark.parametrize("identity", [one["id"] for one in (TRIALS[0], *TIMED)])
def test_times_are_those_of_the_device(outcomes: Outcomes, identity: str) -> None:
    from tests.support.device_plants import COMPUTE, EXCHANGE, REST

    for values in outcomes["devices"][identity].values:
        messages = values["messages"]
        exchanging = tuple(EXCHANGE * one for one in messages)
        assert values["communication_time"] == pytest.approx(exchanging)
        # what a step computes while its buckets are under way is no wait
        beside = REST if identity == "bucketed" else 0.0
        waits = tuple(one * (EXCHANGE - beside) for one in messages)
        assert values["wait_time"] == pytest.approx(waits)
        assert values["step_time"] == pytest.approx([COMPUTE + one for one in exchanging])
    # both wait equally long on devices that are equally fast
    imbalance = outcomes["devices"][identity].values[0]["load_imbalance"]
    assert imbalance == pytest.approx([0.0] * len(imbalance), abs=1e-12)


@pytest.mark.parametrize("scenario", ["lost", "lost-by-cpus"])
def test_a_rank_that_loses_its_device_ends_the_trial_of_all(
    outcomes: Outcomes, scenario: str
) -> None:
    from tests.support.device_plants import LOST

    waiting, leaving = outcomes[scenario]["allreduce"].ends
    words = f"AcceleratorError: {LOST}"
    assert (leaving["outcome"], leaving["message"]) == ("failed", words)
    assert leaving["leaves"] is True
    # its own device works, so its process goes on
    assert (waiting["outcome"], waiting.get("leaves")) == ("failed", None)
    if scenario == "lost":
        assert waiting["message"] == f"RankLeftError: rank 1 left the trial: {words}"


def test_a_run_tells_of_the_rank_that_lost_its_device(outcomes: Outcomes) -> None:
    ends = outcomes["lost"]["allreduce"].ends
    reports = [
        TrialReport(
            trial=ONE.id,
            outcome="failed",
            reason="error",
            message=end["message"],
            seconds=1.0,
            leaves=end.get("leaves", False),
        )
        for end in ends
    ]
    journals = [Journal(software={}, environment={}, reports=(one,)) for one in reports]
    (only,) = merge(journals, (ONE,)).reports
    assert only.message.startswith("rank 1: AcceleratorError: CUDA error")
    assert only.leaves


def test_ranks_go_on_with_the_next_trial_where_one_left_the_last(outcomes: Outcomes) -> None:
    waiting, leaving = outcomes["leaves"]["allreduce"].ends
    assert (leaving["reason"], leaving["message"]) == ("out-of-memory", "MemoryError: planted")
    assert waiting["message"] == "RankLeftError: rank 1 left the trial: MemoryError: planted"
    again = outcomes["leaves"]["again"]
    assert {one["outcome"] for one in again.ends} == {"completed"}, again.ends
    alone = outcomes["devices"]["allreduce"].values[0]["train_loss"]
    assert again.values[0]["train_loss"] == alone[:1]


def test_ranks_that_share_a_device_are_refused(outcomes: Outcomes) -> None:
    for end in outcomes["shared"]["allreduce"].ends:
        assert (end["outcome"], end["reason"]) == ("failed", "error")
        assert end["message"] == (
            "ValueError: ranks 0 and 1 have the same GPU (GPU-0), but NCCL needs one for each rank:"
            " let the scheduler give each rank its own GPU"
        )


class Started(Exception):
    """A process group was asked for."""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_process_group_gets_the_device_of_the_rank(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torch import distributed

    from capsule.levels import communicators

    asked: dict[str, Any] = {}

    def init_process_group(backend: str, **how: Any) -> None:
        asked.update(how, backend=backend)
        raise Started

    monkeypatch.setattr(distributed, "init_process_group", init_process_group)
    # of a torch that does not know which device it is
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace())
    with pytest.raises(Started), communicators.connect(0, 1, None, device, device=device):
        raise AssertionError
    del asked["store"]
    due: dict[str, Any] = {"backend": "gloo", "rank": 0, "world_size": 1}
    if device == "cuda":
        due |= {"backend": "cpu:gloo,cuda:nccl", "device_id": torch.device("cuda", 0)}
    assert asked == due


def test_arrays_of_several_peers_are_passed_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch import distributed

    from capsule.levels import communicators

    batches: list[list[tuple[str, int]]] = []

    def post(operations: list[Any]) -> list[Any]:
        batches.append([(one.op.__name__, one.peer) for one in operations])
        return []

    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        monkeypatch.setattr(distributed, "batch_isend_irecv", post)
        # torch's own refuses peers that there are not
        operation = lambda op, _, peer: SimpleNamespace(op=op, peer=peer)  # noqa: E731
        monkeypatch.setattr(distributed, "P2POp", operation)
        one = communicators.Communicator()
        first, *others = one.swap(torch.ones(3), [1, 2])
        assert (len(first), len(others)) == (3, 1)
        one.trade({2: torch.ones(1)}, {})
        assert one.swap(torch.ones(3), []) == []
        one.trade({}, {})
    finally:
        distributed.destroy_process_group()
    assert batches == [
        [("irecv", 1), ("irecv", 2), ("isend", 1), ("isend", 2)],
        [("isend", 2)],
    ]


class Late:
    """A clock of a device that has come to some marks, which are their own times."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: deque[float] = deque()

    def mark(self) -> float:
        raise AssertionError

    def has_passed(self, mark: float) -> bool:
        return mark <= self.now

    def seconds(self, begin: float, end: float) -> float:
        if end > self.now:
            self.waits.append(end)
            self.now = end
        assert begin <= self.now, "an event that is not reached yet"
        return end - begin


def test_steps_are_read_once_a_device_has_done_them() -> None:
    from capsule.levels.communicators import Traffic
    from capsule.levels.level3.steptimes import StepTimes

    clock = Late()
    times = StepTimes(clock)
    # two buckets under way at once, then a gap, then an exchange by itself
    spans = [(1.0, 4.0), (2.0, 5.0), (7.0, 8.0)]
    traffic = Traffic(exchanges=list(spans), waits=[(4.5, 5.0), (7.0, 8.0)])
    times.note(0.0, 9.0, traffic)
    assert (times.whole, list(clock.waits)) == ([], [])
    assert (traffic.exchanges, traffic.waits) == ([], [])
    times.note(10.0, 13.0, Traffic())
    clock.now = 12.0
    # none that is done waits for one that is not
    times.note(13.0, 14.0, Traffic(exchanges=[(13.5, 13.75)]))
    assert (times.whole, times.exchanging, times.waiting) == ([9.0], [5.0], [1.5])
    assert list(clock.waits) == []
    times.read_rest()
    assert (times.whole, times.exchanging) == ([9.0, 3.0, 1.0], [5.0, 0.0, 0.25])
    assert times.waiting == [1.5, 0, 0]


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_what_nccl_cannot_exchange_is_refused(scheme: str) -> None:
    refused = {"asynchronous-parameter-server", "stale-synchronous", "spatial", "pipelined"}
    reason = schemes.refuse_device(scheme, "cuda")
    assert (reason is not None) == (scheme in refused)
    assert reason is None or (scheme in reason and "on cpu only" in reason)
    assert schemes.refuse_device(scheme, "cpu") is None


def test_a_job_for_a_device_that_a_scheme_lacks_is_refused(tmp_path: Path) -> None:
    from capsule.levels import job, level3
    from capsule.levels.report import Report

    document = {
        **trials.JOB,
        "framework": "torch",
        "device": "cuda",
        "data": {"glyphs": str(tmp_path)},
        "trials": [trial({"name": "stale-synchronous", "staleness": 1})],
    }
    (one,) = job.parse(document, {}).trials
    framework: Any = None
    with pytest.raises(ValueError, match="stale-synchronous ranks train on cpu only"):
        level3.measure(one, framework, Report(lambda _: None))
