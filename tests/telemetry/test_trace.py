"""Traces as samplers write them, and as nobody but a workload does."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from capsule.telemetry import trace
from capsule.telemetry.sampler import FORMAT
from capsule.telemetry.sources import Facts, Sample

CARD = Facts(device="0000:3b:00.0", source="nvml", wrap_joules=1e15, limit_watts=700.0)
OTHER = Facts(device="package-0", source="rapl")
HEADER = {"format": FORMAT, "devices": [CARD._asdict(), OTHER._asdict()]}


def row(time: object, place: object, **readings: object) -> list[object]:
    return [time, place, *{**Sample()._asdict(), **readings}.values()]


def write(folder: Path, *lines: object, end: str = "\n") -> Path:
    path = folder / "telemetry.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + end)
    return path


GOOD = (HEADER, row(1.0, 0, power_watts=70.0), ["begin", "1.5"], row(2.0, 1, joules=5))


def test_a_trace_is_read_by_device(tmp_path: Path) -> None:
    found = trace.read(write(tmp_path, *GOOD, row(2.0, 0), ["end", "3"], row(3.5, 0)))
    assert (found.began, found.ended) == (1.5, 3.0)
    card, package = found.tracks
    assert card.facts == CARD
    assert list(card.times) == [1.0, 2.0, 3.5]
    assert list(package.columns["joules"]) == [5.0]
    power = card.columns["power_watts"]
    assert power[0] == 70.0
    assert math.isnan(power[1])
    assert {len(column) for column in card.columns.values()} == {3}


def test_the_first_of_two_marks_counts(tmp_path: Path) -> None:
    found = trace.read(write(tmp_path, *GOOD, ["begin", "9"], ["end", "9"], ["end", "10"]))
    assert (found.began, found.ended) == (1.5, 9.0)


def test_without_a_trace_there_are_no_devices(tmp_path: Path) -> None:
    assert trace.read(tmp_path / "nothing") == trace.Trace()
    (tmp_path / "link").symlink_to(write(tmp_path, *GOOD))
    assert trace.read(tmp_path / "link") == trace.Trace()


def test_a_line_that_a_kill_cut_off_is_none(tmp_path: Path) -> None:
    path = write(tmp_path, *GOOD, row(2.0, 0), end="")
    assert list(trace.read(path).tracks[0].times) == [1.0]


@pytest.mark.parametrize(
    "line",
    [
        "text",
        {"a": 1},
        [],
        [1.0],
        ["begin", "soon"],
        ["begin", "nan"],
        ["begin", "1e300"],
        ["stop", "1"],
        row(1.0, 0),
        row(0.5, 0),
        row("2", 0),
        row(True, 0),
        row(2.0, 2),
        row(2.0, -1),
        row(2.0, 0.0),
        row(2.0, True),
        row(2.0, 0, power_watts="70"),
        row(2.0, 0, own=True),
        row(2.0, 0, joules=1e19),
        [*row(2.0, 0), 1],
    ],
)
def test_what_follows_a_foreign_line_counts_no_more(tmp_path: Path, line: object) -> None:
    found = trace.read(write(tmp_path, *GOOD[:2], line, row(9.0, 0), ["end", "9"]))
    assert list(found.tracks[0].times) == [1.0]
    assert (found.began, found.ended) == (None, None)


@pytest.mark.parametrize("text", ["[1, NaN]", "[1" * 99, "\x00", "[2e999]", f"[{2**70}]"])
def test_a_line_that_is_no_json_ends_the_trace(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, *GOOD[:2])
    path.write_text(f"{path.read_text()}{text}\n{json.dumps(row(9.0, 0))}\n")
    assert list(trace.read(path).tracks[0].times) == [1.0]


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        {"format": "capsule-trace/2", "devices": []},
        {"format": FORMAT},
        {"format": FORMAT, "devices": [CARD._asdict(), CARD._asdict()]},
        {"format": FORMAT, "devices": [CARD._asdict()] * 300},
        *(
            {"format": FORMAT, "devices": [{**CARD._asdict(), **change}]}
            for change in (
                {"device": "$HOME"},
                {"device": 3},
                {"source": "mine"},
                {"is_mig": 1},
                {"limit_watts": "much"},
                {"more": 1},
            )
        ),
    ],
)
def test_a_header_of_something_else_has_no_devices(tmp_path: Path, header: object) -> None:
    assert trace.read(write(tmp_path, header, *GOOD[1:])).tracks == ()
