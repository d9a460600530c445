"""Summary of the samples of a device: points, extremes, integrals, energy, use."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.record import Quantity
from capsule.telemetry import spans
from capsule.telemetry.sources import Facts, Sample
from capsule.telemetry.spans import Activity, Span
from capsule.telemetry.trace import Track

CARD = Facts(device="0000:3b:00.0", source="nvml", wrap_joules=1e15, limit_watts=700.0)
PACKAGE = Facts(device="package-0", source="rapl", wrap_joules=1000.0, limit_watts=200.0)
IDLE = Sample(
    joules=0.0, memory_bytes=4 << 20, power_watts=70.0, utilization=0.0, reasons=0, own=0, others=0
)
TEN_SECONDS = Span(100.0, 110.0)
TIMES = tuple(99.96 + number / 10 for number in range(102))


def track(
    *,
    change: Callable[[float], dict[str, float | None]] = lambda _: {},
    facts: Facts = CARD,
    times: Sequence[float] = TIMES,
) -> Track:
    """Ten samples a second from just before to just after ten seconds."""
    samples = [
        {**IDLE._asdict(), "joules": 70.0 * (time - 99.96), **change(time)} for time in times
    ]
    return Track(
        facts=facts,
        times=array("d", times),
        columns={
            name: array("d", [math.nan if one[name] is None else one[name] for one in samples])
            for name in Sample._fields
        },
    )


def summarize(seen: Track, whole: Span = TEN_SECONDS, most_points: int = 1000) -> Activity:
    return spans.summarize(seen, whole, (whole,), most_points)


def quantity(activity: Activity, name: str) -> Quantity:
    (found,) = [one for one in activity.quantities if one.name == name]
    return found


# points, extremes, integrals


def test_few_samples_are_kept_all() -> None:
    activity = summarize(track())
    assert activity.seconds == 10.0
    assert activity.samples == len(activity.times) == 100
    assert activity.times[0] == pytest.approx(0.06)
    assert activity.times[-1] == pytest.approx(9.96)
    power = quantity(activity, "power_watts")
    assert (power.least, power.largest) == (70.0, 70.0)
    assert power.seconds == pytest.approx(9.9)
    assert power.integral == pytest.approx(693.0)
    assert [one.name for one in activity.quantities] == [
        "memory_bytes",
        "power_watts",
        "utilization",
    ]


def test_many_samples_are_thinned_evenly_and_statistics_are_of_all() -> None:
    peak = 105.16

    def spike(time: float) -> dict[str, float | None]:
        return {"power_watts": 700.0 if abs(time - peak) < 0.01 else 70.0}

    activity = summarize(track(change=spike), most_points=7)
    assert len(activity.times) == 7
    gaps = [b - a for a, b in zip(activity.times, activity.times[1:], strict=False)]
    assert max(gaps) - min(gaps) < 0.11
    assert (activity.times[0], activity.times[-1]) == pytest.approx((0.06, 9.96))
    power = quantity(activity, "power_watts")
    assert 700.0 not in power.values
    assert (power.least, power.largest) == (70.0, 700.0)
    assert power.integral == pytest.approx(693.0 + 63.0)


@given(count=st.integers(0, 400), most=st.integers(0, 50))
def test_thinning_keeps_both_ends_and_order(count: int, most: int) -> None:
    kept = list(spans._choose(5, 5 + count, most))
    assert len(kept) == min(count, most)
    assert kept == sorted(set(kept))
    if len(kept) > 1:
        assert (kept[0], kept[-1]) == (5, 4 + count)


def test_a_gap_counts_in_no_integral() -> None:
    times = [99.95, 100.5, 101.0, 105.0, 105.5, 109.9]
    power = quantity(summarize(track(times=times)), "power_watts")
    assert power.seconds == pytest.approx(1.0)
    assert power.integral == pytest.approx(70.0)


def test_a_reading_that_failed_is_a_hole_in_its_own_series_alone() -> None:
    def fail(time: float) -> dict[str, float | None]:
        return {"power_watts": None} if 103 < time < 105 else {}

    activity = summarize(track(change=fail))
    power, memory = (quantity(activity, name) for name in ("power_watts", "memory_bytes"))
    assert sum(map(math.isnan, power.values)) == 20
    # two intervals more than samples have one end without a value
    assert power.seconds == pytest.approx(9.9 - 2.1)
    assert memory.seconds == pytest.approx(9.9)
    assert not any(map(math.isnan, memory.values))


def test_a_quantity_that_was_never_read_is_absent() -> None:
    activity = summarize(track(change=lambda _: {"power_watts": None}))
    assert "power_watts" not in [one.name for one in activity.quantities]


def test_reasons_hold_from_one_sample_to_the_next() -> None:
    def limit(time: float) -> dict[str, float | None]:
        # power and temperature, then power, then a bit without a name
        return {"reasons": 0x24 if time < 103 else 0x4 if time < 106 else 0x8000}

    throttled = summarize(track(change=limit)).throttled
    assert list(throttled) == ["power-limit", "thermal-limit"]
    assert throttled["thermal-limit"] == pytest.approx(3.0)
    assert throttled["power-limit"] == pytest.approx(6.0)


@pytest.mark.parametrize("times", [[], [99.9], [99.9, 110.1]])
def test_an_attempt_between_two_samples_has_none(times: list[float]) -> None:
    activity = summarize(track(times=times))
    assert (activity.samples, activity.times, activity.quantities) == (0, (), ())
    assert (activity.is_gapless, activity.use) == (False, "not seen")


# energy


def test_energy_is_the_difference_of_the_readings_at_both_ends() -> None:
    activity = summarize(track())
    assert activity.energy_gap is None
    # the nearest samples lie 0.04 s before the ends
    assert activity.joules == pytest.approx(700.0)


def test_only_what_is_timed_counts() -> None:
    timed = (Span(101.05, 103.05), Span(105.05, 107.05))
    activity = spans.summarize(track(), TEN_SECONDS, timed, 10)
    assert activity.joules == pytest.approx(280.0)
    nothing = spans.summarize(track(), TEN_SECONDS, (), 10)
    assert (nothing.joules, nothing.energy_gap) == (None, "uncovered")


@pytest.mark.parametrize(
    ("timed", "gap"),
    [
        # a tenth of a second can be all beside the samples, or little of it
        (Span(102.0, 102.1), "uncovered"),
        (Span(102.0, 102.01), "uncovered"),
        (Span(101.96, 102.06), None),
        (Span(102.0, 104.0), "uncovered"),
        (Span(102.0, 107.1), None),
        (Span(50.0, 105.0), "uncovered"),
        (Span(105.0, 200.0), "uncovered"),
    ],
)
def test_readings_have_to_lie_close_to_both_ends(timed: Span, gap: str | None) -> None:
    activity = spans.summarize(track(), TEN_SECONDS, (timed,), 10)
    assert activity.energy_gap == gap
    assert (activity.joules is None) == (gap is not None)


@pytest.mark.parametrize(
    ("change", "gap"),
    [
        ({"joules": None}, "no-counter"),
        ({"joules": 0.0}, "wrapped"),
        ({"others": 1.0}, "other-processes"),
        ({"others": None}, "unknown-processes"),
        ({"own": 1.0}, None),
    ],
)
def test_one_bad_moment_leaves_no_energy(change: dict[str, float | None], gap: str | None) -> None:
    seen = track(change=lambda time: change if abs(time - 104.96) < 0.01 else {})
    activity = summarize(seen)
    assert activity.energy_gap == gap
    assert (activity.joules is None) == (gap is not None)


@pytest.mark.parametrize(
    ("facts", "gap"),
    [
        (CARD._replace(is_mig=True), "mig"),
        (CARD._replace(wrap_joules=None), "no-counter"),
        # without a limit no wrap can be excluded
        (CARD._replace(limit_watts=None), "wrapped"),
        # 0.1 s at 700 W are 70 J
        (CARD._replace(wrap_joules=69.0), "wrapped"),
        (CARD._replace(wrap_joules=71.0), None),
    ],
)
def test_a_counter_that_may_have_wrapped_counts_nothing(facts: Facts, gap: str | None) -> None:
    assert summarize(track(facts=facts)).energy_gap == gap


def test_a_pause_of_the_sampler_can_hide_a_wrap() -> None:
    # 1000 J at 200 W take 5 s
    times = [99.95, 100.05, *(104.0, 104.1, 109.95, 110.05)]
    assert summarize(track(times=times, facts=PACKAGE)).energy_gap == "wrapped"
    times = [99.95, 100.05, *(104.0, 104.1, 107.0, 109.95, 110.05)]
    assert summarize(track(times=times, facts=PACKAGE)).energy_gap is None


def test_a_package_has_energy_whoever_uses_it_and_no_use() -> None:
    hidden = {name: None for name in Sample._fields if name != "joules"}
    activity = summarize(track(facts=PACKAGE, change=lambda _: dict(hidden)))
    assert activity.joules == pytest.approx(700.0)
    assert (activity.use, activity.quantities, activity.throttled) == ("not seen", (), {})


# use


def test_a_device_that_nothing_touched_is_unused() -> None:
    assert summarize(track()).use == "unused"


@pytest.mark.parametrize(
    ("change", "use"),
    [
        ({"own": 1.0}, "used"),
        ({"own": 1.0, "others": 3.0}, "used"),
        ({"own": None}, "not seen"),
        ({"others": 1.0}, "not seen"),
        ({"others": None}, "not seen"),
        ({"utilization": 0.01}, "not seen"),
        ({"utilization": None}, "not seen"),
        ({"memory_bytes": None}, "not seen"),
        ({"memory_bytes": float(54 << 20)}, "not seen"),
        ({"memory_bytes": float((54 << 20) - 1)}, "unused"),
    ],
)
@pytest.mark.parametrize("moment", [100.06, 105.06, 109.96])
def test_one_moment_decides_the_use(
    change: dict[str, float | None], use: str, moment: float
) -> None:
    seen = track(change=lambda time: change if abs(time - moment) < 0.01 else {})
    assert summarize(seen).use == use


def test_the_memory_before_the_attempt_counts() -> None:
    def grow(time: float) -> dict[str, float | None]:
        return {"memory_bytes": float(60 << 20)} if time > 100 else {}

    assert summarize(track(change=grow)).use == "not seen"
    # what others held all the time is no growth
    held = track(change=lambda _: {"memory_bytes": float(60 << 30)})
    assert summarize(held).use == "unused"


@pytest.mark.parametrize(
    ("whole", "use"),
    [
        (Span(100.0, 104.99), "not seen"),
        (Span(100.0, 105.0), "unused"),
        # the sampler began too late, or ended too soon
        (Span(99.9, 109.0), "not seen"),
        (Span(100.0, 111.2), "not seen"),
        (Span(100.0, 110.9), "unused"),
    ],
)
def test_only_who_looked_all_the_time_says_unused(whole: Span, use: str) -> None:
    assert summarize(track(), whole).use == use


@pytest.mark.parametrize(("pause", "use"), [(0.99, "unused"), (1.1, "not seen")])
def test_a_pause_of_the_sampler_can_hide_a_use(pause: float, use: str) -> None:
    before = [99.96 + number / 10 for number in range(50)]
    times = [*before, *(before[-1] + pause + number / 10 for number in range(60))]
    activity = summarize(track(times=times))
    assert (activity.use, activity.is_gapless) == (use, use == "unused")


def test_an_instance_of_a_card_is_never_unused() -> None:
    assert summarize(track(facts=CARD._replace(is_mig=True))).use == "not seen"
    amd = CARD._replace(source="amdgpu", wrap_joules=None)
    unknown = track(facts=amd, change=lambda _: {"own": None, "others": None})
    assert summarize(unknown).use == "not seen"
