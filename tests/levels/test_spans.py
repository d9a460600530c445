"""Spans of time in which trials measure."""

from __future__ import annotations

from itertools import chain, pairwise
from pathlib import Path

import pytest

from capsule.levels.catalog.serving import Serving
from capsule.levels.instruments import serving, spans
from capsule.levels.instruments.spans import SPANS, Spans
from tests.support.jobs import end, job, operator, run, samples


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Moments that the clock shows, one look after the other."""
    moments = [float(number) for number in range(10)]
    monkeypatch.setattr(spans, "monotonic", lambda: moments.pop(0))
    return moments


def test_a_call_inside_another_one_is_part_of_its_span(clock: list[float]) -> None:
    taken = Spans()

    @taken.measured
    def inner() -> int:
        return 7

    @taken.measured
    def outer() -> int:
        return inner() + inner()

    assert outer() == 14
    # the inner ones read the clock at their begin alone
    assert taken.take() == [(0.0, 3.0)]
    assert inner() == 7
    assert taken.take() == [(4.0, 5.0)]
    assert taken.take() == []


def test_a_call_that_raises_is_a_span_too(clock: list[float]) -> None:
    taken = Spans()

    @taken.measured
    def fail(message: str) -> None:
        raise ValueError(message)

    with pytest.raises(ValueError, match="no"):
        fail(message="no")
    assert taken.take() == [(0.0, 1.0)]
    assert fail.__name__ == "fail"


def test_too_many_spans_are_none() -> None:
    taken = Spans()

    @taken.measured
    def call() -> None:
        pass

    for _ in range(spans.MOST_SPANS + 1):
        call()
    assert taken.take() == []


@pytest.mark.parametrize("how", [Serving("single-stream", 5), Serving("server", 5, 1e5)])
def test_served_queries_are_a_span_without_the_warm_up(how: Serving) -> None:
    SPANS.take()
    list(serving.serve(how, lambda _: None, 2, batch=1, seed=17))
    ((begin, stop),) = SPANS.take()
    assert begin <= stop


def test_an_operator_measures_while_it_is_called_and_within_its_trial(tmp_path: Path) -> None:
    entries = [operator("gemm", name, m=64, n=32, k=48, repetitions=5) for name in ("a", "b")]
    journal = run(tmp_path, job(entries, "numpy"))
    before = 0.0
    for entry in entries:
        (begin,) = [
            one for one in journal if one["event"] == "begin" and one["trial"] == entry["id"]
        ]
        ended = end(journal, entry["id"])
        moments = [before, begin["at"], *chain.from_iterable(ended["timed"]), ended["at"]]
        assert all(a <= b for a, b in pairwise(moments))
        lines = samples(journal, entry["id"])
        called = sum(lines["forward_time"]["values"]) + sum(lines["backward_time"]["values"])
        measured = sum(b - a for a, b in ended["timed"])
        assert called <= measured <= ended["at"] - begin["at"]
        before = ended["at"]
