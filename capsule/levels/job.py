"""The job: what one process measures, read from the host's file and checked field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Union

from .catalog import training

FORMAT = "capsule-job/1"

RANK = "CAPSULE_RANK"
"""Variable that says which of a job's ranks this process is; 0 where it is not set."""

SUBJECTS = {0: "operator", 1: "network", 2: "network"}
"""Field that names what a trial measures, by level."""

TRAINING = 2
"""The level of which a trial has a recipe."""

Scalar = Union[int, float, str]

_SEEDS = 2**32
_SHOWN = 80


class JobError(Exception):
    """A file that is no job, or a process that is none of its ranks; the message says why."""


@dataclass(frozen=True)
class Context:
    """What all trials of a process have in common.

    Attributes:
        framework: As in the catalogue.
        seed: Of every random generator, 32 bits.
        determinism: `default`, or `strict` for deterministic algorithms only.
        device: `cpu` or `cuda`.
        threads: Threads inside one operation.
        rank: Which of the processes of the job this one is, from 0.
        ranks: How many processes run the job together.
        data: Where each dataset lies, by name.
        formats: What the files of a dataset are, by name, a key of `data.formats.layouts.FORMATS`;
            one that is not here has an array in each file.
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


@dataclass(frozen=True)
class Target:
    """The quality that a training is to reach.

    Attributes:
        value: In the unit of the network's quality, `catalog.training.QUALITY`.
        stop: Whether training ends when it is reached, and not after its last epoch.
    """

    value: float
    stop: bool


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Attributes:
        batch: Samples of a step.
        epochs: Passes over the training data.
        optimizer: Key of `catalog.training.OPTIMIZERS`, or the path of a user's file.
        numbers: All that the optimizer takes.
        schedule: Key of `catalog.training.SCHEDULES`.
        schedule_numbers: All that the schedule takes.
        milestones: Those of the schedule, none but for `multistep`.
        target: None for none.
        accumulate: Equal micro-batches of a step, whose gradients are averaged.
        checkpoint_epochs: After so many epochs each a checkpoint is written; None for none.
        sampler: Key of `catalog.training.SAMPLERS`.
        workers: Threads that gather minibatches ahead of the steps.
        augmentation: What is done to each picture of a minibatch.
        has_own_optimizer: Whether the optimizer is that of a file.
    """

    batch: int
    epochs: int
    optimizer: str
    numbers: Mapping[str, float]
    schedule: str
    schedule_numbers: Mapping[str, float]
    milestones: tuple[int, ...]
    target: Target | None
    accumulate: int
    checkpoint_epochs: int | None = None
    sampler: str = "shuffled"
    workers: int = 0
    augmentation: training.Augmentation = training.NO_AUGMENTATION
    has_own_optimizer: bool = False


@dataclass(frozen=True)
class Trial:
    """One case to measure.

    Attributes:
        context: What it shares with the other trials of the process.
        id: Unique in the job.
        benchmark: Id of the benchmark that it is a trial of.
        level: Key of `SUBJECTS`.
        subject: Name of the operator or network.
        source: File in which a user defines the subject; None for one of the catalogue.
        trains: Whether the training of a network is measured where it has a loss.
        dtype: Word of `catalog.DTYPES`.
        case: Name of the case.
        parameters: Of the case, by name.
        repetitions: Timed calls after the warm-up, at least 1; of Level 2 always 1.
        warmup: Calls before those.
        recipe: Of Level 2 alone.
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


@dataclass(frozen=True)
class Job:
    """The trials of one process, in the order that they run."""

    context: Context
    trials: tuple[Trial, ...]


def read(path: Path, variables: Mapping[str, str]) -> Job:
    """The job in a file, for the rank that the environment names.

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
    fields = _Fields(document, "")
    if fields.take("format") != FORMAT:
        fields.refuse("format", json.dumps(FORMAT))
    context = _context(fields, variables)
    trials = tuple(
        _trial(_Fields(entry, f"trials[{index}]"), context)
        for index, entry in enumerate(fields.array("trials"))
    )
    ids: set[str] = set()
    for trial in trials:
        if trial.id in ids:
            raise JobError(f"two trials have the id {trial.id!r}, and a journal knows each by it")
        ids.add(trial.id)
    return Job(context, trials)


def _context(fields: _Fields, variables: Mapping[str, str]) -> Context:
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
    )


def _rank(word: str, ranks: int) -> int:
    # int() alone would take "+1", " 1" and digits of other scripts
    if not (re.fullmatch("[0-9]{1,9}", word) and int(word) < ranks):
        raise JobError(
            f"{RANK} is {word[:_SHOWN]!r}, expected a whole number from 0 to {ranks - 1}"
            f" for a job with ranks {ranks}"
        )
    return int(word)


def _trial(fields: _Fields, context: Context) -> Trial:
    level = fields.whole("level", min(SUBJECTS), max(SUBJECTS))
    datasets = tuple(fields.words("datasets"))
    absent = [name for name in datasets if name not in context.data]
    if absent:
        raise JobError(
            f"{fields.where('datasets')} names {absent[0]!r}, and data does not say where it lies"
        )
    return Trial(
        context=context,
        id=fields.text("id"),
        benchmark=fields.text("benchmark"),
        level=level,
        subject=fields.text(SUBJECTS[level]),
        source=fields.text("source") if fields.has("source") else None,
        trains=fields.truth("trains") if fields.has("trains") else True,
        dtype=fields.text("dtype"),
        case=fields.text("case"),
        parameters=fields.scalars("parameters"),
        repetitions=fields.whole("repetitions", 1) if level < TRAINING else 1,
        warmup=fields.whole("warmup", 0) if level < TRAINING else 0,
        datasets=datasets,
        recipe=_recipe(fields.object("recipe")) if level == TRAINING else None,
    )


def _recipe(fields: _Fields) -> Recipe:
    optimizer, schedule = fields.object("optimizer"), fields.object("schedule")
    is_own = optimizer.has("file")
    if is_own:
        # which of them it takes, the file says
        chosen, numbers = optimizer.text("file"), optimizer.numbers("file")
    else:
        chosen = optimizer.choice("name", tuple(training.OPTIMIZERS))
        numbers = optimizer.complete(training.OPTIMIZERS[chosen])
    shape = schedule.choice("name", tuple(training.SCHEDULES))
    target = fields.object("target") if fields.has("target") else None
    return Recipe(
        batch=fields.whole("batch", 1),
        epochs=fields.whole("epochs", 1),
        optimizer=chosen,
        numbers=numbers,
        has_own_optimizer=is_own,
        schedule=shape,
        schedule_numbers=schedule.complete(training.SCHEDULES[shape]),
        milestones=schedule.milestones(shape),
        target=Target(target.number("value"), target.truth("stop")) if target else None,
        accumulate=fields.whole("accumulate", 1) if fields.has("accumulate") else 1,
        checkpoint_epochs=(
            fields.whole("checkpoint_epochs", 1) if fields.has("checkpoint_epochs") else None
        ),
        sampler=(
            fields.choice("sampler", tuple(training.SAMPLERS))
            if fields.has("sampler")
            else "shuffled"
        ),
        workers=(fields.whole("workers", 0, training.MOST_WORKERS) if fields.has("workers") else 0),
        augmentation=(
            _augmentation(fields.object("augmentation"))
            if fields.has("augmentation")
            else training.NO_AUGMENTATION
        ),
    )


def _augmentation(fields: _Fields) -> training.Augmentation:
    most = training.MOST_PIXELS
    return training.Augmentation(
        fields.whole("crop", 0, most), fields.truth("flip"), fields.whole("cutout", 0, most)
    )


class _Fields:
    """The fields of a JSON object, each taken as what it must be."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise JobError(f"{path or 'the job'} is {_quote(value)}, expected an object")
        self._values: dict[str, object] = value
        self._path = path

    def where(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        return name in self._values

    def take(self, name: str) -> object:
        if name not in self._values:
            raise JobError(f"{self._path or 'the job'} has no field {name!r}")
        return self._values[name]

    def refuse(self, name: str, expected: str) -> NoReturn:
        raise JobError(f"{self.where(name)} is {_quote(self._values[name])}, expected {expected}")

    def text(self, name: str) -> str:
        value = self.take(name)
        return value if isinstance(value, str) else self.refuse(name, "a string")

    def choice(self, name: str, words: Sequence[str]) -> str:
        value = self.text(name)
        return value if value in words else self.refuse(name, " or ".join(map(json.dumps, words)))

    def truth(self, name: str) -> bool:
        value = self.take(name)
        return value if isinstance(value, bool) else self.refuse(name, "true or false")

    def whole(self, name: str, least: int, most: int | None = None) -> int:
        value = self.take(name)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < least
            or (most is not None and value > most)
        ):
            end = "" if most is None else f" and <= {most}"
            self.refuse(name, f"a whole number >= {least}{end}")
        return value

    def array(self, name: str) -> list[object]:
        value = self.take(name)
        return value if isinstance(value, list) else self.refuse(name, "an array")

    def words(self, name: str) -> list[str]:
        values = self.array(name)
        strings = [value for value in values if isinstance(value, str)]
        return strings if len(strings) == len(values) else self.refuse(name, "strings alone")

    def object(self, name: str) -> _Fields:
        return _Fields(self.take(name), self.where(name))

    def number(self, name: str) -> float:
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse(name, "a number")
        return value

    def numbers(self, but: str) -> dict[str, float]:
        return {name: self.number(name) for name in self._values if name != but}

    def complete(self, numbers: tuple[training.Number, ...]) -> dict[str, float]:
        try:
            return training.complete(numbers, self._values)
        except ValueError as error:
            raise JobError(f"{self._path}: {error}") from None

    def milestones(self, schedule: str) -> tuple[int, ...]:
        try:
            return training.read_milestones(schedule, self._values.get("milestones"))
        except ValueError as error:
            raise JobError(f"{self._path}: {error}") from None

    def texts(self, name: str) -> dict[str, str]:
        fields = _Fields(self.take(name), self.where(name))
        return {key: fields.text(key) for key in fields._values}

    def scalars(self, name: str) -> dict[str, Scalar]:
        fields = _Fields(self.take(name), self.where(name))
        return {key: fields._scalar(key) for key in fields._values}

    def _scalar(self, name: str) -> Scalar:
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            self.refuse(name, "a number or a string")
        return value


def _quote(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")
