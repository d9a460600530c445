"""Switches that held within trials, and products off tensor cores: read, joined and worded."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capsule import notes
from capsule.execute import journal, precision
from capsule.execute.reports import Journal, TrialReport, merge
from capsule.manifest import Benchmark, Case, Metric, Network, Operator
from capsule.manifest.kinds import Command, Subject
from capsule.plan import Trial

CASE = Case(name="default", parameters={})


def trial(subject: Subject, benchmark: str = "b", framework: str = "torch", seed: int = 1) -> Trial:
    metrics = (Metric(name="loss"),)
    return Trial(
        id=f"{benchmark}/default/{framework}/{seed}",
        benchmark=Benchmark(
            id=benchmark, subject=subject, cases=(CASE,), frameworks=(framework,), metrics=metrics
        ),
        case=CASE,
        framework=framework,
        seed=seed,
        seed_source="manifest",
    )


FLOAT32 = trial(Operator(name="gemm"))
TF32 = trial(Network(name="lenet", dtype="tf32"), "nets")
OFF = {"allow_tf32": False, "sdp_flash": True}
ON = {"allow_tf32": True, "sdp_flash": True}


def told(of: Trial, switches: Mapping[str, bool | None] = {}, kernel: str = "") -> Any:
    report = TrialReport(
        trial=of.id, outcome="completed", switches=switches, off_tensor_cores=kernel
    )
    return of, report


EFFECTIVE: Any = {
    "torch": {
        "threads": 2,
        "settings": {"allow_tf32": True, "blas": [], "missing": {}},
    },
    "numpy": {"settings": {"threads": 1}},
}


def settings(*reported: Any) -> Any:
    settled = precision.add_switches(EFFECTIVE, reported)
    assert settled["numpy"] == EFFECTIVE["numpy"]
    assert settled["torch"]["threads"] == 2
    return settled["torch"]["settings"]


def test_one_element_type_keeps_the_names_of_settings() -> None:
    assert settings(told(FLOAT32, OFF), told(FLOAT32, OFF)) == {
        **EFFECTIVE["torch"]["settings"],
        **OFF,
    }


def test_switches_that_differ_are_told_by_element_type() -> None:
    assert settings(told(FLOAT32, OFF), told(TF32, ON)) == {
        "blas": [],
        "missing": {},
        "sdp_flash": True,
        "dtypes": {"float32": {"allow_tf32": False}, "tf32": {"allow_tf32": True}},
    }


def test_a_switch_that_one_element_type_lacks_is_told_of_the_others() -> None:
    known = settings(told(FLOAT32, {**OFF, "more": True}), told(TF32, OFF))
    assert known["dtypes"] == {"float32": {"more": True}, "tf32": {}}


def test_a_switch_is_on_where_it_was_in_one_trial_whichever_came_first() -> None:
    for order in ([OFF, ON], [ON, OFF]):
        assert settings(*(told(FLOAT32, one) for one in order))["allow_tf32"] is True
    assert settings(told(FLOAT32, {"x": None}), told(FLOAT32, {"x": False}))["x"] is False


def test_without_a_report_settings_stay() -> None:
    assert settings(told(FLOAT32)) == EFFECTIVE["torch"]["settings"]
    assert precision.add_switches({}, []) == {}
    # of a start that never said what its settings are
    assert precision.add_switches({}, [told(FLOAT32, OFF)]) == {"torch": {"settings": OFF}}


def test_products_off_tensor_cores_are_noted_once_for_an_element_type() -> None:
    other = trial(Operator(name="conv2d", dtype="bfloat16"), "conv")
    own = trial(Operator(name="gemm", dtype="bfloat16"), "gemm")
    again = trial(Operator(name="gemm", dtype="bfloat16"), "gemm", seed=2)
    failed = TF32, TrialReport(trial=TF32.id, outcome="failed", off_tensor_cores="sgemm")
    found = list(
        precision.note_plain_products(
            [told(own, kernel="gemv"), told(again, kernel="gemv"), told(other, kernel="x"), failed]
        )
    )
    (note,) = found
    assert note.code == "no-tensor-cores"
    assert dict(note.facts or ()) == {
        "dtype": "bfloat16",
        "case": "gemm/default/torch",
        "kernel": "gemv",
        "cases": 2,
    }
    assert notes.from_json(notes.to_json(note)).sentence == note.sentence
    assert list(precision.note_plain_products([told(own), told(FLOAT32, OFF)])) == []


def test_a_kernels_name_is_text_of_a_stranger() -> None:
    (note,) = precision.note_plain_products([told(FLOAT32, kernel="a\x1b[2Jb")])
    assert "\x1b" not in note.sentence
    assert "a\\x1b[2Jb" in note.sentence


def test_a_command_has_no_element_type() -> None:
    of = trial(Command(words=("train",)), framework="command")
    (note,) = precision.note_plain_products([told(of, kernel="gemv")])
    assert dict(note.facts or ())["dtype"] == ""


HELLO = {
    "event": "hello",
    "format": "capsule-journal/1",
    "rank": 0,
    "ranks": 1,
    "software": {},
    "environment": {},
}


def read(tmp_path: Path, **fields: Any) -> TrialReport:
    """Return the report of a trial whose end has these fields."""
    ended = {
        **{"event": "end", "trial": FLOAT32.id, "outcome": "completed", "reason": None},
        **{"message": "", "seconds": 0.5},
        **fields,
    }
    events = [HELLO, {"event": "begin", "trial": FLOAT32.id}, ended]
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in events))
    found = journal.read(path, [FLOAT32])
    assert found.defect is None
    (report,) = found.reports
    return report


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_a_journal_tells_switches_and_a_kernel(tmp_path: Path, outcome: str) -> None:
    report = read(tmp_path, outcome=outcome, switches=OFF, off_tensor_cores="sgemm")
    assert (report.switches, report.off_tensor_cores) == (OFF, "sgemm")
    assert (read(tmp_path).switches, read(tmp_path).off_tensor_cores) == ({}, "")


@pytest.mark.parametrize(
    ("switches", "kept"),
    [
        *((None, {}), ([], {}), ("x", {}), (3, {})),
        ({"a": True, "b": None, "c": 1, "d": "on", "e": {}, "f": [True]}, {"a": True, "b": None}),
        ({"A": True, "a b": True, "": True, "x" * 81: True, "\n": True, "b": False}, {"b": False}),
        ({f"a{n:03}": True for n in range(500)}, {f"a{n:03}": True for n in range(64)}),
    ],
    ids=str,
)
def test_what_is_no_switch_is_left_out(tmp_path: Path, switches: Any, kept: Any) -> None:
    assert read(tmp_path, switches=switches).switches == kept


def test_a_kernels_name_is_short(tmp_path: Path) -> None:
    assert read(tmp_path, off_tensor_cores="k" * 5000).off_tensor_cores == "k" * 120
    assert read(tmp_path, off_tensor_cores=["k"]).off_tensor_cores == ""


def test_ranks_together_tell_what_the_first_one_does() -> None:
    ranks = [
        Journal(software={}, environment={}, reports=(report,))
        for report in (
            told(FLOAT32)[1],
            told(FLOAT32, ON, "sgemm")[1],
            told(FLOAT32, OFF, "gemv")[1],
        )
    ]
    (report,) = merge(ranks, [FLOAT32]).reports
    assert (report.switches, report.off_tensor_cores) == (ON, "sgemm")
