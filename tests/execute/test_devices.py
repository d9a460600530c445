"""Activity of the devices of a process start, attributed to its trials and ranks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from capsule.execute import devices
from capsule.execute.reports import Journal, TrialReport, Window
from capsule.execute.workspace import Start
from capsule.manifest import Benchmark, Case, Command, Metric, Operator
from capsule.plan import Group, Trial
from capsule.record import DeviceSeries
from capsule.telemetry.sampler import FORMAT
from capsule.telemetry.sources import Facts, Sample

CASE = Case(name="default", parameters={})
IDLE = Sample(
    joules=0.0, memory_bytes=4 << 20, power_watts=70.0, utilization=0.0, reasons=0, own=0, others=0
)
CARD = Facts(device="0000:3b:00.0", source="nvml", wrap_joules=1e15, limit_watts=700.0)
SECOND = CARD._replace(device="0000:c1:00.0")
PACKAGE = Facts(device="package-0", source="rapl", wrap_joules=1e5, limit_watts=200.0)


def group(subject: Command | Operator, *, trials: int = 1, ranks: int = 1) -> Group:
    benchmark = Benchmark(
        id="b",
        subject=subject,
        cases=(CASE,),
        frameworks=("numpy",),
        metrics=(Metric(name="loss"),),
    )
    own = tuple(
        Trial(
            id=f"b/default/numpy/{seed}",
            benchmark=benchmark,
            case=CASE,
            framework="numpy",
            seed=seed,
            seed_source="manifest",
        )
        for seed in range(1, trials + 1)
    )
    return Group(id="g", framework="numpy", seed=1, ranks=ranks, trials=own)


def write(
    start: Start,
    *facts: Facts,
    rank: int = 0,
    seconds: float = 20.0,
    used: Iterable[tuple[str, float, float]] = (),
    ended: bool = True,
) -> None:
    """Lay out the trace of a rank whose process runs from 100 s on.

    Args:
        start: Of the rank.
        facts: Its devices.
        rank: The rank.
        seconds: How long it ran.
        used: Device, begin and end of what its process did there.
        ended: Whether the sampler was told of the end.
    """
    files = start.rank(rank)
    files.folder.mkdir(parents=True, exist_ok=True)
    lines: list[object] = [
        {"format": FORMAT, "devices": [one._asdict() for one in facts]},
        ["begin", "100.0"],
    ]
    for number in range(-1, int(seconds * 10) + 1):
        time = 100.0 + number / 10
        for place, one in enumerate(facts):
            is_used = any(a <= time <= b for device, a, b in used if device == one.device)
            sample = IDLE._replace(joules=70.0 * (time - 99), own=int(is_used))
            lines.append([time + place / 1000, place, *sample])
    lines += [["end", repr(100.0 + seconds)]] * ended
    files.telemetry.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def report(trial: int = 1, *windows: Window, outcome: str | None = "completed") -> TrialReport:
    assert outcome in ("completed", "failed", None)
    return TrialReport(
        trial=f"b/default/numpy/{trial}",
        outcome=outcome,  # type: ignore[arg-type]
        windows=windows,
    )


def journal(*reports: TrialReport) -> Journal:
    return Journal(software={}, environment={}, reports=reports)


def find(
    of: Group, start: Start, *reports: TrialReport, nodes: tuple[int, ...] = (0,)
) -> list[DeviceSeries]:
    return list(
        devices.find(
            journal(*reports),
            of,
            start,
            nodes=nodes,
            attempts={one.trial: 1 for one in reports},
            most_points=1000,
        )
    )


REQUIRED = Command(words=("x",), gpu_required=True)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(number=1, folder=tmp_path)


@pytest.fixture
def both(tmp_path: Path) -> Start:
    """A start of two ranks."""
    return Start(number=1, folder=tmp_path, ranks=2)


def test_a_command_is_the_whole_process(start: Start) -> None:
    write(start, CARD, PACKAGE, used=[(CARD.device, 103, 105)])
    card, package = find(group(Command(words=("x",))), start, report())
    assert (card.device, card.rank, card.node, card.seconds) == (CARD.device, 0, 0, 20.0)
    assert (card.use, card.is_gapless) == ("used", True)
    assert card.joules == pytest.approx(1400.0)
    assert len(card.times) == card.samples == 201
    assert (package.device, package.use, package.times) == ("package-0", "not seen", ())
    assert package.joules == pytest.approx(1400.0)


def test_each_trial_of_a_level_has_what_happened_in_its_time(start: Start) -> None:
    write(start, CARD, SECOND, used=[(CARD.device, 108, 111)])
    windows = (
        Window(0, 101.0, 107.0, ((102.0, 106.0),)),
        Window(0, 107.5, 113.0, ((108.0, 110.0), (111.0, 112.0))),
        Window(0, 114.0),
    )
    reports = [report(n, one) for n, one in enumerate(windows, 1)]
    found = find(group(Operator(name="gemm"), trials=3), start, *reports)
    assert [one.device for one in found] == [CARD.device, SECOND.device] * 3
    assert [one.use for one in found] == ["unused", "unused", "used", "unused"] + ["unused"] * 2
    assert [one.seconds for one in found[::2]] == [6.0, 5.5, 6.0]
    assert [one.joules for one in found[::2]] == [
        pytest.approx(280.0),
        pytest.approx(210.0),
        None,
    ]
    assert found[4].energy_gap == "uncovered"
    assert max(found[0].times) <= 6.0


@pytest.mark.parametrize(
    "window",
    [
        (),
        (Window(1, 101.0, 107.0),),
        # of another clock, or of another process
        (Window(0, 1.0, 7.0),),
        (Window(0, 107.0, 101.0),),
        (Window(0, 101.0, 500.0),),
    ],
)
def test_a_trial_whose_time_cannot_be_is_left_out(start: Start, window: tuple[Window, ...]) -> None:
    write(start, CARD)
    assert find(group(Operator(name="gemm")), start, report(1, *window)) == []


def test_timed_spans_that_cannot_be_count_nothing(start: Start) -> None:
    write(start, CARD)
    for timed in (((102.0, 108.0),), ((104.0, 103.0),), ((103.0, 105.0), (104.0, 106.0))):
        (one,) = find(
            group(Operator(name="gemm")), start, report(1, Window(0, 101.0, 107.0, timed))
        )
        assert (one.joules, one.energy_gap) == (None, "uncovered")


def test_without_the_end_a_process_lasts_to_the_last_sample(start: Start) -> None:
    write(start, CARD, ended=False)
    (one,) = find(group(Command(words=("x",))), start, report(outcome=None))
    assert one.seconds == pytest.approx(20.0)
    assert (one.joules, one.energy_gap) == (None, "uncovered")


def test_without_a_trace_nothing_is_known(start: Start) -> None:
    command = group(REQUIRED)
    assert find(command, start, report()) == []
    assert devices.judge(journal(report()), command, start) == journal(report())


def test_each_rank_has_its_own_devices_and_node(both: Start) -> None:
    write(both, CARD, rank=0, used=[(CARD.device, 101, 119)])
    write(both, CARD, rank=1)
    found = find(group(Command(words=("x",)), ranks=2), both, report(), nodes=(4, 7))
    assert [(one.rank, one.node, one.use) for one in found] == [(0, 4, "used"), (1, 7, "unused")]


def outcome(of: Group, start: Start, wanted: TrialReport) -> TrialReport:
    (judged,) = devices.judge(journal(wanted), of, start).reports
    return judged


def test_a_command_that_requires_its_gpu_fails_without_using_it(start: Start) -> None:
    write(start, CARD, SECOND, PACKAGE)
    failed = outcome(group(REQUIRED), start, report())
    assert (failed.outcome, failed.reason) == ("failed", "ran-without-gpu")
    assert failed.message.startswith(
        "the trial did not use its GPU (0000:3b:00.0, 0000:c1:00.0): in 20 s no process"
    )


def test_one_of_two_devices_in_use_is_enough(start: Start) -> None:
    write(start, CARD, SECOND, used=[(SECOND.device, 119, 119.5)])
    assert outcome(group(REQUIRED), start, report()) == report()


def test_one_rank_without_use_is_too_few(both: Start) -> None:
    write(both, CARD, rank=0, used=[(CARD.device, 101, 119)])
    write(both, SECOND, rank=1)
    failed = outcome(group(REQUIRED, ranks=2), both, report())
    assert failed.reason == "ran-without-gpu"
    assert failed.message.startswith("rank 1 of 2 did not use its GPU (0000:c1:00.0)")


@pytest.mark.parametrize("wanted", [report(outcome=None), report(outcome="failed")])
def test_only_a_completed_trial_fails_for_it(start: Start, wanted: TrialReport) -> None:
    write(start, CARD)
    assert outcome(group(REQUIRED), start, wanted) == wanted


def test_nothing_fails_that_does_not_require_it_or_was_too_short(start: Start) -> None:
    write(start, CARD)
    assert outcome(group(Command(words=("x",))), start, report()) == report()
    write(start, CARD, seconds=4.9)
    assert outcome(group(REQUIRED), start, report()) == report()
    write(start, PACKAGE)
    assert outcome(group(REQUIRED), start, report()) == report()
