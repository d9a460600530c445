"""Reading what a workload says of itself."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capsule.execute import journal, results
from capsule.manifest import Benchmark, Case, Metric
from capsule.plan import Trial

METRICS = (Metric(name="loss"), Metric(name="time", unit="s", kind="machine", resolution=1e-9))
CASE = Case(name="default", parameters={})
BENCHMARK = Benchmark(id="b", cases=(CASE,), frameworks=("numpy",), metrics=METRICS)


def trial(seed: int = 1) -> Trial:
    return Trial(
        id=f"b/default/numpy/{seed}",
        benchmark=BENCHMARK,
        case=CASE,
        framework="numpy",
        seed=seed,
        seed_source="manifest",
    )


ONE, TWO = trial(1), trial(2)


def begin(of: Trial) -> dict:
    return {"event": "begin", "trial": of.id}


def samples(of: Trial, metric: str, *values: object, warmup: int = 0) -> dict:
    return {
        "event": "samples",
        "trial": of.id,
        "metric": metric,
        "warmup": warmup,
        "values": list(values),
    }


def end(of: Trial, **changes: object) -> dict:
    event = {"event": "end", "trial": of.id, "outcome": "completed", "reason": None}
    return {**event, "message": "", "seconds": 0.5, **changes}


def whole(of: Trial) -> list[dict]:
    return [begin(of), samples(of, "loss", 0.5), samples(of, "time", 3.0, 1.0, warmup=1), end(of)]


def read(folder: Path, events: list[dict], tail: bytes = b"") -> journal.Journal:
    path = folder / "journal.jsonl"
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    path.write_bytes(b"".join(lines) + tail)
    return journal.read(path, (ONE, TWO))


def test_a_sound_journal_is_read_whole(tmp_path):
    hello = {"event": "hello", "software": {"python": "3.11"}, "environment": {"threads": 2}}
    found = read(tmp_path, [hello, *whole(ONE), *whole(TWO), {"event": "bye"}])
    assert found.defect is None
    assert found.software == {"python": "3.11"}
    assert [report.outcome for report in found.reports] == ["completed", "completed"]
    loss, time = found.reports[0].series
    assert loss.values == (0.5,)
    assert (time.values, time.warmup) == ((3.0, 1.0), 1)


def test_a_journal_that_was_never_written_is_empty(tmp_path):
    assert journal.read(tmp_path / "none", (ONE,)).reports == ()


def test_a_torn_last_line_costs_only_the_trial_under_way(tmp_path):
    found = read(tmp_path, [*whole(ONE), begin(TWO)], tail=b'{"event": "sam')
    assert found.defect is None
    assert [report.outcome for report in found.reports] == ["completed", None]


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([{"event": "begin", "trial": "b/default/numpy/9"}], "not given"),
        ([begin(ONE), begin(TWO)], "out of order"),
        ([begin(TWO)], "out of order"),
        ([samples(ONE, "loss", 1.0)], "not under way"),
        ([begin(ONE), samples(ONE, "speed", 1.0)], "undeclared metric 'speed'"),
        ([begin(ONE), samples(ONE, "loss", 1), samples(ONE, "loss", 2)], "twice"),
        ([begin(ONE), samples(ONE, "loss", "fast")], "'fast' is not a number"),
        ([begin(ONE), samples(ONE, "loss", True)], "not a number"),
        ([begin(ONE), samples(ONE, "loss", 1.0, warmup=1)], "warm-up"),
        ([begin(ONE), end(ONE, outcome="won")], "ends b/default/numpy/1 as 'won'"),
        ([begin(ONE), end(ONE, seconds=-1)], "without a duration"),
        ([{"event": "shutdown"}], "unknown event 'shutdown'"),
        ([[1, 2]], "not an object"),
    ],
)
def test_what_stands_before_a_defect_counts_and_nothing_after_it(tmp_path, events, complaint):
    found = read(tmp_path, [*whole(TWO), *events, *whole(ONE)])
    assert complaint in found.defect
    outcomes = {report.trial: report.outcome for report in found.reports}
    assert outcomes[TWO.id] == "completed"
    assert outcomes.get(ONE.id) is None


def test_a_trial_that_lacks_a_metric_has_failed(tmp_path):
    found = read(tmp_path, [begin(ONE), samples(ONE, "loss", 1.0), end(ONE)])
    assert (found.reports[0].outcome, found.reports[0].reason) == ("failed", "no-result")
    assert "time" in found.reports[0].message


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_metric_that_is_no_number_fails_the_trial_and_is_kept(tmp_path, value):
    events = [begin(ONE), samples(ONE, "loss", value), samples(ONE, "time", 1.0), end(ONE)]
    (report,) = read(tmp_path, events).reports
    assert (report.outcome, report.reason) == ("failed", "non-finite")
    assert not math.isfinite(report.series[0].values[0])


@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from([*whole(ONE), *whole(TWO), {"event": "begin"}, {"event": "end"}, 7, None]),
        max_size=8,
    ).map(lambda lines: b"".join(json.dumps(x).encode() + b"\n" for x in lines))
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_can_break_the_reader_or_complete_a_trial_without_its_metrics(tmp_path, data):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(data)
    for report in journal.read(path, (ONE, TWO)).reports:
        if report.outcome == "completed":
            assert {series.metric for series in report.series} == {"loss", "time"}


def reported(folder: Path, text: str) -> journal.TrialReport:
    path = folder / "results.jsonl"
    path.write_text(text)
    return results.read(path, ONE)


def test_results_of_one_metric_gather_in_order(tmp_path):
    lines = '{"metric": "time", "value": 2}\n{"metric": "loss", "value": 1}\n'
    report = reported(tmp_path, lines + '{"metric": "time", "value": 3}')
    assert report.outcome == "completed"
    assert {series.metric: series.values for series in report.series} == {
        "time": (2.0, 3.0),
        "loss": (1.0,),
    }


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("", "no-result", "loss, time"),
        ("loss 3\n", "bad-result", "line 1 is not JSON: 'loss 3'"),
        ('{"metric": "acc", "value": 3}\n', "bad-result", "the manifest declares loss, time"),
        ('{"metric": "loss", "value": "3"}\n', "bad-result", "'3' is not a number"),
        ('{"metric": "loss"}\n', "bad-result", "line 1"),
        (
            '{"metric": "loss", "value": 1, "step": 1}\n{"metric": "loss", "value": 1}\n',
            "bad-result",
            "line 2: loss has a step beside some values and none beside others",
        ),
        (
            '{"metric": "loss", "value": 1}\n{"metric": "loss", "value": 1, "step": 2}\n',
            "bad-result",
            "line 2: loss has a step beside some values",
        ),
        (
            '{"metric": "loss", "value": 1, "step": 2}\n{"metric": "loss", "value": 1, "step": 2}',
            "bad-result",
            "loss has step 2 after step 2",
        ),
        ('{"metric": "loss", "value": 1, "step": NaN}', "bad-result", "has the step nan"),
        ('{"metric": "loss", "value": 1, "step": null}', "bad-result", "'None' is not a number"),
        ('{"metric": "loss", "value": 1, "epoch": 1}', "bad-result", "line 1"),
        (f'{{"metric": "loss", "value": 1{"0" * 400}}}', "bad-result", "larger than any"),
        (
            '{"metric": "loss", "value": NaN}\n{"metric": "time", "value": 1}\n',
            "non-finite",
            "loss is nan",
        ),
    ],
)
def test_results_that_break_the_protocol_fail_the_trial(tmp_path, text, reason, words):
    report = reported(tmp_path, text)
    assert (report.outcome, report.reason) == ("failed", reason)
    assert words in report.message


def test_a_step_beside_each_value_makes_a_curve(tmp_path):
    lines = [{"metric": "loss", "value": 1 / n, "step": n} for n in (1, 2, 4)]
    lines.insert(1, {"metric": "time", "value": 9})
    report = reported(tmp_path, "\n".join(map(json.dumps, lines)))
    assert report.outcome == "completed"
    assert {series.metric: (series.values, series.steps) for series in report.series} == {
        "loss": ((1.0, 0.5, 0.25), (1.0, 2.0, 4.0)),
        "time": ((9.0,), None),
    }
