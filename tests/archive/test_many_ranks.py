"""Capsules of more ranks than can have series of their own."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import archive, cli, manifest, notes, plan, rankseries, reading, report, summary
from capsule.archive import ranks as archive_ranks
from capsule.errors import DamagedError
from capsule.record import Attempt, Outcome, RankSamples, Record, Samples
from tests.support import manyranks
from tests.support.capsules import carry, forge
from tests.support.command import User

pytestmark = pytest.mark.slow

RANKS, STEPS = 72, 5
BENCHMARKS = ["allreduce", "local-sgd"]
METRIC = ("train", "time")
LINE = Samples(
    metric="train/default/command/time",
    trial="train/default/command/1",
    attempt=1,
    seed=1,
    unit="s",
    direction="lower",
    kind="machine",
    resolution=0.0,
    per="rank",
    warmup=0,
    values=(),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> manyranks.Template:
    """A real training by two ranks, of which each test makes many."""
    return manyranks.run_template(User.make(tmp_path_factory.mktemp("template")), BENCHMARKS)


@pytest.fixture(scope="module")
def sealed(
    template: manyranks.Template, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The same trainings whole, and reduced as where there is no room."""
    folder = tmp_path_factory.mktemp("sealed")
    wanted = manyranks.document(RANKS, steps=STEPS, benchmarks=BENCHMARKS, seeds=2)
    paths = {name: folder / f"{name}.zip" for name in ("whole", "reduced")}
    with pytest.MonkeyPatch.context() as patch:
        manyranks.seal(template, wanted, folder / "run", paths["whole"])
        patch.setattr(rankseries, "MOST_WHOLE", 0)
        manyranks.seal(template, wanted, folder / "run", paths["reduced"])
    return paths


def read(path: Path) -> Record:
    """What a capsule states, all of it held against the rest."""
    with reading.read(path) as capsule:
        return capsule.record


def test_every_number_of_a_run_is_the_same_whole_and_reduced(sealed: dict[str, Path]) -> None:
    whole, reduced = (read(path) for path in sealed.values())
    assert summary.metrics_document(whole) == summary.metrics_document(reduced)
    assert whole.claims == reduced.claims
    kept = [one for one in whole.samples if isinstance(one, RankSamples)]
    assert kept
    assert not any(one.is_reduced for one in kept)
    assert {one.ranks for one in kept} == {RANKS}
    assert {one.count for one in kept} == {1, 3 * STEPS}


def test_the_record_names_what_was_reduced_and_nothing_else_is(sealed: dict[str, Path]) -> None:
    whole, reduced = (read(path) for path in sealed.values())
    assert notes.REDUCED not in {note.code for note in whole.notes}
    (note,) = [note for note in reduced.notes if note.code == notes.REDUCED]
    lines = [one for one in reduced.samples if isinstance(one, RankSamples)]
    gone = {one.metric.rpartition("/")[2] for one in lines if one.is_reduced}
    assert gone == {"bytes_sent", "bytes_received", "messages"} | {
        *("communication_time", "wait_time", "step_time")
    }
    assert all(name in note.sentence for name in gone)
    # one value of each rank is all that there is
    assert all(one.count > rankseries.MANY_STEPS for one in lines if one.is_reduced)
    assert str(RANKS) in note.sentence


def test_a_step_is_what_all_ranks_had_at_it(sealed: dict[str, Path]) -> None:
    of_whole, of_reduced = (
        {(one.metric, one.seed): one for one in read(path).samples if isinstance(one, RankSamples)}
        for path in sealed.values()
    )
    for key, line in of_reduced.items():
        rows = [rankseries.row(of_whole[key], rank) for rank in range(RANKS)]
        assert list(line.values) == [statistics.median(row) for row in rows]
        if not line.is_reduced:
            continue
        assert list(line.last) == [row[-1] for row in rows]
        for step, column in enumerate(zip(*rows, strict=True)):
            assert line.least[step] == min(column)
            assert line.median[step] == statistics.median(column)
            assert line.largest[step] == max(column)
            assert line.digests[step] == sha256(pack(f"<{RANKS}d", *column)).hexdigest()


def test_a_table_has_every_value_that_is_kept(sealed: dict[str, Path]) -> None:
    for path, each in ((sealed["whole"], 3 * STEPS), (sealed["reduced"], 1)):
        rows = list(csv.DictReader(io.StringIO("\n".join(report.samples_to_csv(read(path))))))
        times = [row for row in rows if row["metric"].endswith("/step_time")]
        assert len(times) == 2 * len(BENCHMARKS) * RANKS * each
        assert {int(row["rank"]) for row in times} == set(range(RANKS))


def test_people_see_it_and_the_command_takes_it(
    sealed: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in sealed.values():
        assert cli.main(["check", str(path)]) == 0
        assert cli.main(["show", str(path)]) == 0
    assert "step_time" in capsys.readouterr().out
    assert cli.main(["diff", *map(str, sealed.values())]) in (0, 1, 3)


def change(name: str, **fields: object) -> Callable[[Record], Record]:
    """Other fields of the first series of a name."""

    def made(record: Record) -> Record:
        lines = list(record.samples)
        place = next(n for n, one in enumerate(lines) if one.metric.endswith(f"/{name}"))
        lines[place] = replace(lines[place], **fields)  # type: ignore[arg-type]
        return replace(record, samples=tuple(lines))

    return made


def unname(record: Record) -> Record:
    """The same without the note on what was reduced."""
    kept = tuple(one for one in record.notes if one.code != notes.REDUCED)
    return replace(record, notes=kept)


COUNT = 3 * STEPS
FORGED = {
    "bytes": change("bytes_sent", digests=("0" * 64,) * COUNT),
    "world": change("world_size", values=(71.0,) * RANKS, whole=(71.0,) * RANKS),
    "last": change("step_time", last=(0.005,) * RANKS),
    "fewer": change("step_time", values=(0.005,) * (RANKS - 1)),
    "beyond": change("step_time", values=(9.0,) * RANKS),
    "order": change("step_time", least=(8.0,) * COUNT, largest=(9.0,) * COUNT),
    "short": change("step_time", median=(0.005,)),
    "number": change("state_bytes", values=(1.0,) * RANKS),
    "count": change("step_time", count=COUNT - 1),
    "unnamed": unname,
}


@pytest.mark.parametrize("name", FORGED)
def test_a_folded_series_that_cannot_be_is_refused(
    sealed: dict[str, Path], tmp_path: Path, name: str
) -> None:
    with reading.read(sealed["reduced"]) as capsule:
        forged = FORGED[name](capsule.record)
        path = forge(forged, carry(capsule), tmp_path / "forged")
    with pytest.raises(DamagedError):
        read(path)


def fold(
    rows: Sequence[Sequence[float]],
    *,
    whole: bool,
    outcome: Outcome = "completed",
    warmup: int = 0,
) -> list[Samples]:
    """What becomes of series, by rank; a rank with none has reported nothing."""
    attempt = Attempt(
        trial=LINE.trial,
        attempt=1,
        group="g",
        seed=1,
        seed_source="manifest",
        outcome=outcome,
        started="2026-12-01T10:00:00+00:00",
        seconds=1.0,
        ranks=len(rows),
    )
    lines = [
        replace(LINE, rank=rank, values=row, warmup=warmup) for rank, row in enumerate(rows) if row
    ]
    return list(rankseries.fold(lines, {LINE.trial: attempt}, {METRIC: whole}))


@pytest.mark.parametrize(
    ("ranks", "steps", "whole", "folded", "reduced"),
    [
        (64, 11, False, False, False),
        (65, 10, False, True, False),
        (65, 11, False, True, True),
        (65, 11, True, True, False),
    ],
)
def test_up_to_64_ranks_or_10_steps_every_value_stays(
    ranks: int, steps: int, whole: bool, folded: bool, reduced: bool
) -> None:
    rows = [[rank + step / 16 for step in range(steps)] for rank in range(ranks)]
    lines = fold(rows, whole=whole)
    assert len(lines) == (1 if folded else ranks)
    first = lines[0]
    assert isinstance(first, RankSamples) is folded
    if isinstance(first, RankSamples):
        assert first.is_reduced is reduced
        assert list(rankseries.faults(first)) == []
        assert reduced or [*first.whole] == [value for row in rows for value in row]


@given(st.data())
def test_whatever_ranks_reported_the_worst_of_them_is_the_run(data: st.DataObject) -> None:
    ranks, steps = data.draw(st.integers(65, 70)), data.draw(st.integers(1, 13))
    warmup = data.draw(st.integers(0, steps - 1))
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
    rows = data.draw(
        st.lists(st.lists(numbers, min_size=steps, max_size=steps), min_size=ranks, max_size=ranks)
    )
    due = max(statistics.median(row[warmup:]) for row in rows)
    for whole in (False, True):
        (line,) = fold(rows, whole=whole, warmup=warmup)
        assert isinstance(line, RankSamples)
        assert list(rankseries.faults(line)) == []
        assert math.isclose(max(line.values), due)
        written = archive_ranks.write(line)
        (again,) = archive_ranks.read([written], where="ranks")
        assert archive_ranks.write(again) == written


def test_what_a_run_that_failed_left_is_kept_as_far_as_it_goes() -> None:
    rows: list[list[float]] = [[1.0] * 20, [], *([2.0] * 12 for _ in range(70))]
    (line,) = fold(rows, whole=True, outcome="failed")
    assert isinstance(line, RankSamples)
    assert (line.count, line.last[0], line.last[2]) == (0, 1.0, 2.0)
    assert math.isnan(line.values[1])
    assert list(rankseries.faults(line)) == []
    # but of one that completed nothing is left out
    assert len(fold([row or [1.0] for row in rows], whole=True)) == 72


def make(ranks: int, steps: int = 50) -> plan.Plan:
    """The plan of `manifests/level3.json` by so many ranks."""
    text = json.dumps(manyranks.document(ranks, steps=steps)).encode()
    return plan.make(manifest.read(text, where="level3.json", folder=None))


@pytest.mark.parametrize("ranks", [2, 64, 72, 4096])
def test_level_3_fits(ranks: int) -> None:
    archive.require_room(make(ranks), carried=())


def test_what_is_kept_whole_follows_from_the_manifest() -> None:
    def whole(ranks: int) -> set[str]:
        kept = archive.Projection(make(ranks)).kept
        return {name for (benchmark, name), one in kept.items() if benchmark == "allreduce" and one}

    every = whole(72)
    assert "messages" in every
    # what a claim is about stays longest
    assert whole(640) == {"bytes_sent", "state_bytes", "step_time"}
    assert whole(4096) == set()


def test_lint_says_before_anything_runs_what_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.json"
    wanted = manyranks.document(4096, steps=50)
    path.write_text(json.dumps(wanted))
    assert cli.main(["lint", str(path)]) == 0
    collective = {
        **{"id": "exchange", "level": 3, "collectives": ["all-reduce"], "bytes": [8, 1024]},
        **{"frameworks": ["torch"], "repetitions": 1000},
    }
    path.write_text(json.dumps({**wanted, "benchmarks": [collective], "claims": []}))
    capsys.readouterr()
    assert cli.main(["lint", str(path)]) == 2
    assert "the limit is" in capsys.readouterr().err
