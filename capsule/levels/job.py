"""The job: what one process measures, read from the host's file and checked field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from .catalog import CONDITIONS, collectives, reading, schemes
from .catalog.serving import SCENARIOS, Serving
from .fields import Fields, JobError, Scalar
from .recipe import Recipe, Scheme, Target, read_recipe

__all__ = ["Context", "Job", "JobError", "Recipe", "Scheme", "Target", "Trial", "parse", "read"]

FORMAT = "capsule-job/1"

RANK = "CAPSULE_RANK"
"""Variable that says which of a job's ranks this process is; 0 where it is not set."""

RENDEZVOUS = "CAPSULE_RENDEZVOUS"
"""Variable that says where the ranks of a training meet: a URL that torch takes."""

SUBJECTS = {0: "operator", 1: "network", 2: "network", 3: "network"}
"""Field that names what a trial measures, by level."""

TRAINING = 2
"""The level of which a trial has a recipe or a reading."""

TOGETHER = 3
"""The level of which a trial has a recipe with a scheme, or a collective."""

_SEEDS = 2**32
_SHOWN = 80


@dataclass(frozen=True)
class Context:
    """Settings common to all trials of a process.

    Attributes:
        framework: As in the catalogue.
        seed: Seed of every random generator, 32 bits.
        determinism: `default`, or `strict` for deterministic algorithms only.
        device: `cpu` or `cuda`.
        threads: Threads inside one operation.
        rank: Which of the processes of the job this one is, from 0.
        ranks: How many processes run the job together.
        data: Where each dataset lies, by name.
        formats: What the files of a dataset are, by name, a key of `data.formats.layouts.FORMATS`;
            one that is not here has an array in each file.
        rendezvous: Where the ranks of a training meet; None where nothing says it.
    """

    framework: str
    seed: int
    determinism: str
    device: str
    threads: int
    rank: int
    ranks: int
    data: Mapping[str, Path]
    formats: Mapping[str, str]
    rendezvous: str | None = None


@dataclass(frozen=True)
class Trial:
    """One case to measure.

    Attributes:
        context: What it shares with the other trials of the process.
        id: Unique in the job.
        benchmark: Id of the benchmark that it is a trial of.
        level: Key of `SUBJECTS`.
        subject: Name of the operator or network; empty for a reading and a collective.
        source: File in which a user defines the subject; None for one of the catalogue.
        trains: True if the training of a network is measured where it has a loss.
        dtype: Word of `catalog.DTYPES`.
        case: Name of the case.
        parameters: Parameters of the case, by name.
        repetitions: Timed calls after the warm-up, at least 1; of trainings and readings always 1.
        warmup: Calls before those.
        roofline: True if the machine's roofline is measured beside an operator.
        serving: How queries come to a network, whose latencies are measured too; None for none.
        conditions: Those of `catalog.CONDITIONS` under which it is timed.
        recipe: Recipe; only of a training of Level 2 or 3.
        reading: Settings of a trial of Level 2 that only reads.
        collective: Settings of a trial of Level 3 that only exchanges.
        datasets: Names of the datasets that it reads, keys of `context.data`.
    """

    context: Context
    id: str
    benchmark: str
    level: int
    subject: str
    source: str | None
    trains: bool
    dtype: str
    case: str
    parameters: Mapping[str, Scalar]
    repetitions: int
    warmup: int
    datasets: tuple[str, ...]
    recipe: Recipe | None = None
    reading: reading.Reading | None = None
    collective: collectives.Collective | None = None
    roofline: bool = False
    serving: Serving | None = None
    conditions: tuple[str, ...] = ()

    @property
    def goes_over_mpi(self) -> bool:
        """Return whether ranks exchange anything of it over MPI."""
        if self.collective is not None:
            return self.context.framework == collectives.MPI
        scheme = self.recipe.scheme if self.recipe else None
        return scheme is not None and scheme.over == "mpi" and self.context.ranks > 1


@dataclass(frozen=True)
class Job:
    """The trials of one process, in the order that they run."""

    context: Context
    trials: tuple[Trial, ...]


def read(path: Path, variables: Mapping[str, str]) -> Job:
    """Return the job in a file, for the rank that the environment names.

    Args:
        path: A JSON file of the form `capsule-job/1`.
        variables: The environment.

    Raises:
        JobError: It is no job, or has no such rank; one sentence names the file and the field.
        OSError: It cannot be read.
    """
    try:
        document = json.loads(path.read_bytes(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise JobError(f"{path} is not JSON: {error}") from None
    try:
        return parse(document, variables)
    except JobError as error:
        raise JobError(f"{path}: {error}") from None


def parse(document: object, variables: Mapping[str, str]) -> Job:
    """`read` for a document that has been decoded.

    Raises:
        JobError: See `read`; the message names the field alone.
    """
    fields = Fields(document, "")
    if fields.take("format") != FORMAT:
        fields.refuse("format", json.dumps(FORMAT))
    context = _context(fields, variables)
    trials = tuple(
        _trial(Fields(entry, f"trials[{index}]"), context)
        for index, entry in enumerate(fields.array("trials"))
    )
    ids: set[str] = set()
    for trial in trials:
        if trial.id in ids:
            raise JobError(f"two trials have the id {trial.id!r}")
        ids.add(trial.id)
    return Job(context, trials)


def _context(fields: Fields, variables: Mapping[str, str]) -> Context:
    ranks = fields.whole("ranks", 1)
    return Context(
        framework=fields.text("framework"),
        seed=fields.whole("seed", 0, _SEEDS - 1),
        determinism=fields.choice("determinism", ("default", "strict")),
        device=fields.choice("device", ("cpu", "cuda")),
        threads=fields.whole("threads", 1),
        rank=_rank(variables.get(RANK, "0"), ranks),
        ranks=ranks,
        data={name: Path(path) for name, path in fields.texts("data").items()},
        formats=fields.texts("formats") if fields.has("formats") else {},
        rendezvous=variables.get(RENDEZVOUS),
    )


def _rank(word: str, ranks: int) -> int:
    # int() alone would take "+1", " 1" and digits of other scripts
    if not (re.fullmatch("[0-9]{1,9}", word) and int(word) < ranks):
        raise JobError(
            f"{RANK} is {word[:_SHOWN]!r}, expected a whole number from 0 to {ranks - 1}"
            f" for a job of {ranks} ranks"
        )
    return int(word)


def _trial(fields: Fields, context: Context) -> Trial:
    level = fields.whole("level", min(SUBJECTS), max(SUBJECTS))
    datasets = tuple(fields.words("datasets"))
    absent = [name for name in datasets if name not in context.data]
    if absent:
        raise JobError(
            f"{fields.where('datasets')} names {absent[0]!r}, but the field 'data' has no"
            " such entry"
        )
    reads = level == TRAINING and fields.has("reading")
    exchanges = level == TOGETHER and fields.has("collective")
    trains, calls = level >= TRAINING and not (reads or exchanges), level < TRAINING or exchanges
    return Trial(
        context=context,
        id=fields.text("id"),
        benchmark=fields.text("benchmark"),
        level=level,
        subject="" if reads or exchanges else fields.text(SUBJECTS[level]),
        source=fields.text("source") if fields.has("source") else None,
        trains=fields.truth("trains") if fields.has("trains") else True,
        dtype=fields.text("dtype"),
        case=fields.text("case"),
        parameters=fields.scalars("parameters"),
        repetitions=fields.whole("repetitions", 1) if calls else 1,
        warmup=fields.whole("warmup", 0) if calls else 0,
        datasets=datasets,
        conditions=tuple(word for word in CONDITIONS if fields.has(word) and fields.truth(word)),
        recipe=_find_recipe(fields, context, level) if trains else None,
        reading=_reading(fields.object("reading")) if reads else None,
        collective=_collective(fields.object("collective"), context) if exchanges else None,
        roofline=fields.has("roofline") and fields.truth("roofline"),
        serving=_serving(fields.object("serving")) if fields.has("serving") else None,
    )


def _find_recipe(fields: Fields, context: Context, level: int) -> Recipe:
    chosen = fields.object("recipe")
    recipe = read_recipe(chosen)
    if level != TOGETHER:
        return recipe
    _require_meeting(context)
    scheme = chosen.object("scheme")
    name = scheme.choice("name", tuple(schemes.SCHEMES))
    has_groups = chosen.has("batch_norm_group")
    return replace(
        recipe,
        scheme=Scheme(
            name,
            scheme.complete(schemes.SCHEMES[name].numbers),
            scheme.choice("over", schemes.OVER) if scheme.has("over") else None,
        ),
        batch_norm_group=chosen.whole("batch_norm_group", 1) if has_groups else None,
    )


def _require_meeting(context: Context) -> None:
    if context.ranks > 1 and not context.rendezvous:
        raise JobError(
            f"{RENDEZVOUS} is not set, but {context.ranks} ranks need this address to connect"
        )


def _collective(fields: Fields, context: Context) -> collectives.Collective:
    _require_meeting(context)
    return collectives.Collective(
        name=fields.choice("name", tuple(collectives.COLLECTIVES)),
        size=fields.whole("size", collectives.ITEM_BYTES),
    )


def _serving(fields: Fields) -> Serving:
    scenario = fields.choice("scenario", SCENARIOS)
    rate = fields.number("rate") if scenario == "server" else None
    return Serving(scenario, fields.whole("queries", 1), rate)


def _reading(fields: Fields) -> reading.Reading:
    generator = fields.object("generator")
    return reading.Reading(
        generator=generator.choice("name", tuple(reading.DECODED)),
        parameters=generator.scalars("parameters"),
        format=fields.text("format"),
        cache=fields.choice("cache", reading.CACHES),
        batch=fields.whole("batch", 1),
        epochs=fields.whole("epochs", 1),
        sampler=fields.choice("sampler", reading.SAMPLERS),
    )


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
