"""Reading the file of results that a command writes."""

import json
from pathlib import Path

import pytest

from capsule.execute import results
from capsule.execute.reports import Journal, TrialReport, merge
from tests.support.journal_events import ONE, encode


def reported(folder: Path, text: str) -> TrialReport:
    path = folder / "results.jsonl"
    path.write_text(text)
    report = results.read(path, ONE, ended_well=True)
    (judged,) = merge([Journal(software={}, environment={}, reports=(report,))], (ONE,)).reports
    return judged


def test_results_of_one_metric_gather_in_order(tmp_path: Path) -> None:
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
        ("", "no-result", "metrics 'loss', 'time' are missing"),
        ("loss 3\n", "bad-result", "line 1 is not JSON: 'loss 3'"),
        (
            '{"metric": "Loss", "value": 3}\n',
            "no-result",
            "metrics 'loss', 'time' are missing; reported Loss, which the manifest",
        ),
        (
            '{"metric": ["loss"], "value": 3}\n',
            "bad-result",
            "has the metric ['loss'], expected a text",
        ),
        ('{"metric": "loss", "value": "3"}\n', "bad-result", "expected a number, found '3'"),
        ('{"metric": "loss"}\n', "bad-result", "line 1"),
        (
            '{"metric": "loss", "value": 1, "step": 1}\n{"metric": "loss", "value": 1}\n',
            "bad-result",
            "line 2: loss has a step for only some of its values",
        ),
        (
            '{"metric": "loss", "value": 1}\n{"metric": "loss", "value": 1, "step": 2}\n',
            "bad-result",
            "line 2: loss has a step for only some of its values",
        ),
        (
            '{"metric": "loss", "value": 1, "step": 2}\n{"metric": "loss", "value": 1, "step": 2}',
            "bad-result",
            "loss has step 2 after step 2",
        ),
        ('{"metric": "loss", "value": 1, "step": NaN}', "bad-result", "has step nan"),
        (
            '{"metric": "loss", "value": 1, "step": null}',
            "bad-result",
            "expected a number, found 'None'",
        ),
        ('{"metric": "loss", "value": 1, "epoch": 1}', "bad-result", "line 1"),
        (
            f'{{"metric": "loss", "value": 1{"0" * 400}}}',
            "bad-result",
            "exceeds 1.8e308, the largest floating-point number",
        ),
        (
            '{"metric": "loss", "value": NaN}\n{"metric": "time", "value": 1}\n',
            "non-finite",
            "loss is nan",
        ),
    ],
)
def test_results_that_break_the_protocol_fail_the_trial(
    tmp_path: Path, text: str, reason: str, words: str
) -> None:
    report = reported(tmp_path, text)
    assert (report.outcome, report.reason) == ("failed", reason)
    assert words in report.message


def test_a_step_beside_each_value_makes_a_curve(tmp_path: Path) -> None:
    lines = [{"metric": "loss", "value": 1 / n, "step": n} for n in (1, 2, 4)]
    lines.insert(1, {"metric": "time", "value": 9})
    report = reported(tmp_path, "\n".join(map(json.dumps, lines)))
    assert report.outcome == "completed"
    assert {series.metric: (series.values, series.steps) for series in report.series} == {
        "loss": ((1.0, 0.5, 0.25), (1.0, 2.0, 4.0)),
        "time": ((9.0,), None),
    }


def test_a_killed_command_s_curve_is_kept_up_to_the_kill(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    lines = [{"metric": "loss", "value": 1 / n, "step": n} for n in (1, 2, 4)]
    path.write_bytes(encode(lines) + b'{"metric": "loss", "va')
    report = results.read(path, ONE, ended_well=False)
    assert report.outcome is None
    assert [(series.values, series.steps) for series in report.series] == [
        ((1.0, 0.5, 0.25), (1.0, 2.0, 4.0))
    ]


def test_results_of_a_command_that_are_too_many_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MOST_SERIES_NUMBERS", 10)
    path = tmp_path / "results.jsonl"
    path.write_text('{"metric": "loss", "value": 0.5}\n' * 11)
    told = results.read(path, ONE, ended_well=True)
    assert (told.outcome, told.reason, told.series) == ("failed", "bad-result", ())
    path.write_text('{"metric": "loss", "value": [%s0.5]}\n' % ("0.5," * 400_000))
    told = results.read(path, ONE, ended_well=True)
    assert (told.outcome, told.reason) == ("failed", "bad-result")
