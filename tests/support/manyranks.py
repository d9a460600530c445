"""Trainings by any number of ranks as their journals tell them, made of a real one by two ranks.

What the first rank says of the training is that of the real one, as far as it does not follow from
the number of ranks; what every rank says of its steps is made up, and what it exchanged is what its
scheme exchanges.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from capsule import archive, notes, plan, rankseries, record, summary, verdict
from capsule import manifest as manifests
from capsule.archive import remade
from capsule.execute import gather
from capsule.execute.header import Header
from capsule.execute.journal import FORMAT
from capsule.execute.workspace import Start, Workspace
from capsule.levels.catalog import schemes, training
from capsule.manifest import Manifest, Recipe
from capsule.origin import Original
from capsule.plan import Group, Plan, Trial
from capsule.record import Attempt, Dataset, Record, Samples, Setup
from capsule.starts import World
from tests.support.command import Document, User
from tests.support.records import LEVELS_DIGEST, make_files, make_node

LEVEL3 = Path(__file__).parents[2] / "manifests" / "level3.json"
ITEM_BYTES = 4
_BEGAN = "2026-12-01T10:00:00.000+00:00"
_DIGEST = "sha256:" + "d" * 64
_VARIANTS = 16
_OTHERS = ("state_bytes", "threads_per_core", "world_size")


def document(ranks: int, *, steps: int, benchmarks: Sequence[str] = (), seeds: int = 8) -> Document:
    """`manifests/level3.json` with so many ranks, steps in an epoch, benchmarks and seeds."""
    whole: Document = json.loads(LEVEL3.read_text())
    del whole["$schema"], whole["datasets"]["glyphs"]["digest"]
    chosen = [one for one in whole["benchmarks"] if not benchmarks or one["id"] in benchmarks]
    names = {one["id"] for one in chosen}
    if ranks > 2:
        whole["datasets"]["glyphs"]["samples"] = steps * ranks
        whole["resources"] |= {"nodes": ranks // 8, "ranks_per_node": 8}
        chosen = [{**one, "batch": ranks} for one in chosen]
    claims = [
        claim for claim in whole["claims"] if claim["metric"].partition("/")[0] in {"*", *names}
    ]
    first = whole["seeds"][:seeds]
    if len(first) < len(whole["seeds"]):
        claims = [{name: claim[name] for name in claim if name != "looks"} for claim in claims]
    return {**whole, "benchmarks": chosen, "claims": claims, "seeds": first}


@dataclass(frozen=True, kw_only=True)
class Template:
    """What the first of two ranks said, and left behind.

    Attributes:
        series: By benchmark, metric by metric.
        predictions: By benchmark.
        software: Of the framework.
    """

    series: Mapping[str, Sequence[Samples]]
    predictions: Mapping[str, bytes]
    software: Mapping[str, Any]


def run_template(user: User, benchmarks: Sequence[str]) -> Template:
    """Train by two ranks for the sake of what the first one says."""
    path = user.folder / "template.json"
    path.write_text(
        json.dumps(document(2, steps=50, benchmarks=benchmarks, seeds=1) | {"claims": []})
    )
    ended = user.run("run", path, "--runtime", "host", "--output", "template.zip")
    assert ended.returncode == 0, ended.stderr
    series: dict[str, list[Samples]] = {}
    left: dict[str, bytes] = {}
    with archive.read(user.folder / "template.zip") as capsule:
        for line in capsule.record.samples:
            if not line.rank:
                series.setdefault(line.metric.partition("/")[0], []).append(line)
        for attempt in capsule.record.attempts:
            (evidence,) = attempt.evidence
            left[attempt.trial.partition("/")[0]] = capsule.open(evidence.path)
        return Template(series=series, predictions=left, software=capsule.record.software["torch"])


def seal(template: Template, wanted: Document, folder: Path, target: Path) -> Record:
    """Write the journals of every rank, gather them, and seal what came of it."""
    manifest = manifests.read(json.dumps(wanted).encode(), where="level3.json", folder=None)
    planned = plan.make(manifest)
    setup = _setup(manifest)
    header = Header(
        setup=setup,
        folder=None,
        keep_hosts=False,
        salt="",
        runs=None,
        plan=str(planned.digest),
        subjects=(),
        programs={},
    )
    with Workspace.create(folder, header):
        pass
    workspace = Workspace.open(folder)
    gatherer = gather.Gatherer(workspace, archive.Projection(planned).kept)
    for group in planned.groups:
        start = _begin(template, workspace, group, manifest)
        execution = gatherer.collect(planned)
        # of thousands of ranks only one start's are on the disk
        for rank in range(group.ranks):
            start.rank(rank).journal.unlink()
    made = record.assemble(
        setup, planned, execution, nodes=(make_node(),), ended=str(workspace.log.last_end)
    )
    made = replace(made, worlds=_worlds(planned))
    reduced = rankseries.note(made.samples)
    claims = verdict.freeze(manifest.claims, summary.run_values(made))
    made = replace(
        made,
        claims=claims,
        notes=(*made.notes, *([] if reduced is None else [reduced])),
        ended=max(made.ended, _BEGAN),
    )
    archive.write(made, [*make_files()[1:2], *execution.logs], target)
    shutil.rmtree(folder)
    return made


def _begin(template: Template, workspace: Workspace, group: Group, manifest: Manifest) -> Start:
    start = workspace.begin(group, (0,) * group.ranks, _BEGAN)
    for trial in group.trials:
        place = start.rank(0).out / "predictions" / trial.benchmark.id / "default.npy"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(template.predictions[trial.benchmark.id])
    count = int(manifest.datasets[0].parameters["samples"])
    for rank in range(group.ranks):
        events = _journal(template, group, rank, count)
        start.rank(rank).journal.write_text("\n".join(events) + "\n")
    attempts = [
        Attempt(
            trial=trial.id,
            attempt=1,
            group=group.id,
            seed=trial.seed,
            seed_source=trial.seed_source,
            outcome="completed",
            exit_code=0,
            started=_BEGAN,
            seconds=1.5,
            ranks=group.ranks,
            nodes=(0,),
        )
        for trial in group.trials
    ]
    workspace.log.end(start.number, attempts)
    return start


def _journal(template: Template, group: Group, rank: int, count: int) -> Iterator[str]:
    hello = {"event": "hello", "format": FORMAT, "rank": rank, "ranks": group.ranks}
    yield json.dumps({**hello, "software": template.software if rank == 0 else {}})
    for trial in group.trials:
        name = f'"trial":"{trial.id}"'
        yield f'{{"event":"begin",{name}}}'
        own = template.series[trial.benchmark.id]
        for line in own if rank == 0 else ():
            if line.per != "rank":
                yield _line(name, _adapt(line, own, trial, count))
        yield from (f"{text},{name}}}" for text in _of_rank(own, trial, group, rank, count))
        yield f'{{"event":"end",{name},"outcome":"completed","seconds":1.5}}'
    yield '{"event":"bye"}'


def _line(name: str, line: Samples) -> str:
    places = {
        place: list(numbers)
        for place in ("steps", "wall", "active")
        if (numbers := getattr(line, place)) is not None
    }
    metric = line.metric.rpartition("/")[2]
    event = {"event": "samples", "metric": metric, "values": list(line.values), **places}
    return f"{json.dumps(event)[:-1]},{name}}}"


def _settings(trial: Trial) -> Any:
    assert isinstance(trial.benchmark.subject, Recipe)
    return trial.benchmark.subject.settings["default"]


def _adapt(line: Samples, own: Sequence[Samples], trial: Trial, count: int) -> Samples:
    """What of a metric follows from the number of samples, the batch or the seed."""
    settings, name = _settings(trial), line.metric.rpartition("/")[2]
    taken = count // settings.batch * settings.batch
    if name == "training_samples":
        return replace(line, values=(float(count),))
    if name == "class_counts":
        return replace(line, values=(float(taken), *(0.0 for _ in line.values[1:])))
    if name == "largest_class_share":
        return replace(line, values=(1.0,))
    if name == "order_fingerprint":
        epochs = min(training.ORDERED_EPOCHS, settings.epochs)
        return replace(line, values=(remade.fingerprint(settings, count, trial.seed, epochs, ()),))
    return line


def _of_rank(
    own: Sequence[Samples], trial: Trial, group: Group, rank: int, count: int
) -> Iterator[str]:
    settings = _settings(trial)
    steps = count // settings.batch * settings.epochs
    (parameters,) = next(one.values for one in own if one.metric.endswith("/parameters"))
    scheme = settings.scheme.name, tuple(settings.scheme.numbers.items())
    for name, text in _traffic(*scheme, rank > 0, group.ranks, int(parameters), steps):
        yield f'{{"event":"samples","metric":"{name}","values":[{text}]'
    for place, name in enumerate(("communication_time", "wait_time", "step_time")):
        text = _times((rank + place) % _VARIANTS, steps)
        yield f'{{"event":"samples","metric":"{name}","values":[{text}]'
    for name, value in zip(_OTHERS, (1000 + rank % 3, 1, group.ranks), strict=True):
        yield f'{{"event":"samples","metric":"{name}","values":[{value}.0]'


@cache
def _traffic(
    scheme: str,
    numbers: tuple[tuple[str, float], ...],
    is_other: bool,
    ranks: int,
    parameters: int,
    steps: int,
) -> tuple[tuple[str, str], ...]:
    rows = [
        schemes.traffic(scheme, dict(numbers), int(is_other), ranks, parameters, ITEM_BYTES, step)
        for step in range(1, steps + 1)
    ]
    columns = zip(*rows, strict=True)
    return tuple(
        (name, ",".join(f"{value}.0" for value in column))
        for name, column in zip(schemes.TRAFFIC, columns, strict=True)
    )


@cache
def _times(variant: int, steps: int) -> str:
    return ",".join(
        f"0.00{1001 + (step * 7919 + variant * 104729) % 8999}" for step in range(steps)
    )


def _worlds(planned: Plan) -> tuple[World, ...]:
    ranks = planned.groups[0].ranks
    return (World(nodes=(0,) * ranks, means=("gloo",), bytes=1 << 20, seconds=0.5),)


def _setup(manifest: Manifest) -> Setup:
    return Setup(
        uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, manifest.name)),
        origin=Original(),
        started=_BEGAN,
        runtime="host",
        contained=False,
        image=None,
        image_observations={},
        variables={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"},
        threads=1,
        levels={"digest": LEVELS_DIGEST, "release": None},
        datasets=(Dataset(name="glyphs", digest=_DIGEST, bytes=1, files=1, source="generator"),),
        notes=(notes.no_container(),),
    )
