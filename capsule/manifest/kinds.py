"""Subjects of benchmarks: operator, network, training, data, collective, command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from capsule.levels.catalog import NETWORKS, training
from capsule.levels.catalog.serving import Serving

LEVEL_OF_RANKS = 3
"""The level of trainings that ranks share, and of what they exchange alone."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A Level 0 subject, measured by `levels`.

    Attributes:
        name: In the catalogue, or the path of the user's file.
        source: Path below the inputs of the user's file that defines it, None for the catalogue's.
        dtype: Element type of its tensors.
        repetitions: Timed calls in one trial, after `warmup` untimed-in-the-summary ones.
        roofline: True if what the machine can do at most is measured beside it.
        conditions: Those of `catalog.CONDITIONS` that hold for each call.
    """

    level: ClassVar[int] = 0
    name: str
    source: str | None = None
    dtype: str = "float32"
    repetitions: int = 30
    warmup: int = 3
    roofline: bool = False
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Network:
    """A Level 1 subject, measured by `levels`.

    Attributes:
        trains: True if its training is measured too, where the framework trains. The others are
            those of `Operator`.
        serving: How queries come whose latencies are measured too; None for none.
    """

    level: ClassVar[int] = 1
    name: str
    source: str | None = None
    trains: bool = True
    dtype: str = "float32"
    repetitions: int = 30
    warmup: int = 3
    serving: Serving | None = None
    conditions: tuple[str, ...] = ()


class Target(NamedTuple):
    """The quality that a training is to reach.

    Attributes:
        value: In the unit of the network's quality; at least it, or at most where less is better.
        stop: True if training ends when it is reached, and not after its last epoch.
    """

    value: float
    stop: bool


class Scheme(NamedTuple):
    """Scheme by which ranks train one network together.

    Attributes:
        name: In the catalogue.
        numbers: All that it takes.
        over: What carries its exchanges, one of `schemes.OVER`; None for torch's process group.
    """

    name: str
    numbers: Mapping[str, float]
    over: str | None = None

    def to_json(self) -> dict[str, str | float]:
        """Return the scheme as plans and jobs have it."""
        over = {"over": self.over} if self.over else {}
        return {"name": self.name, **over, **self.numbers}


class Settings(NamedTuple):
    """Settings of a recipe's case, with all defaults filled in.

    Attributes:
        sizes: Options of the network that differ from its own.
        batch: Samples of a step.
        epochs: Passes over the training data.
        optimizer: Its name in the catalogue, or the path of the user's file below the inputs.
        numbers: All that the optimizer takes, the learning rate `lr` among them.
        schedule: Its name in the catalogue.
        schedule_numbers: All that the schedule takes.
        target: None for none.
        milestones: Epochs, of the schedule that has them.
        accumulate: Equal micro-batches of a step, whose gradients are averaged.
        checkpoint_epochs: After so many epochs each it can be taken up again; None for never.
        sampler: In which order samples are taken, its name in the catalogue.
        workers: Threads that gather minibatches ahead of the steps.
        augmentation: What is done to each picture of a minibatch.
        tuning: Layouts and kernels, which change the speed.
        scheme: How ranks share each batch; None for the training of one process.
        batch_norm_group: Samples of a batch that are normalized together; None where nothing is.
        ranks: That share each batch; None where the resources say how many.
    """

    sizes: Mapping[str, int]
    batch: int
    epochs: int
    optimizer: str
    numbers: Mapping[str, float]
    schedule: str
    schedule_numbers: Mapping[str, float]
    target: Target | None
    milestones: tuple[int, ...] = ()
    accumulate: int = 1
    checkpoint_epochs: int | None = None
    sampler: str = "shuffled"
    workers: int = 0
    augmentation: training.Augmentation = training.NO_AUGMENTATION
    tuning: training.Tuning = training.NO_TUNING
    scheme: Scheme | None = None
    batch_norm_group: int | None = None
    ranks: int | None = None


class Scaling(NamedTuple):
    """Comparison of a training's cases with different numbers of ranks.

    Attributes:
        kind: True if the batch that the author wrote is that of all ranks, or of each.
        bases: By the name of a case that of the one, with the fewest ranks, that it is held to;
            those with the fewest are left out.
    """

    kind: Literal["strong", "weak"]
    bases: Mapping[str, str]


class Module(NamedTuple):
    """Facts about a user's `torch.nn.Module`.

    Attributes:
        quality: Metric by which it is judged.
        choices: Predictions of one sample that are judged.
    """

    quality: str
    choices: int


class OwnOptimizer(NamedTuple):
    """Facts about a user's optimizer.

    Attributes:
        path: Path of the file, below the inputs.
        numbers: What it takes besides the learning rate, with defaults.
        has_formula: True if its steps can be held to one.
    """

    path: str
    numbers: Mapping[str, float]
    has_formula: bool


class Recipe(NamedTuple):
    """A subject of Level 2, or with ranks of Level 3: a network in training, measured by `levels`.

    Attributes:
        name: In the catalogue, or the path of the user's file below the inputs.
        dtype: Element type of its tensors.
        settings: By the name of the case.
        module: What the user's file says, None for a network of the catalogue.
        own_optimizer: What the user's file says, None for an optimizer of the catalogue.
    """

    name: str
    dtype: str
    settings: Mapping[str, Settings]
    module: Module | None = None
    own_optimizer: OwnOptimizer | None = None

    @property
    def level(self) -> int:
        """Return the level of Deep500."""
        return LEVEL_OF_RANKS if any(one.scheme for one in self.settings.values()) else 2

    @property
    def source(self) -> str | None:
        """Return the path below the inputs of the user's file that defines it, None for the
        catalogue's.
        """
        return self.name if self.module else None

    @property
    def quality(self) -> str:
        """Return the metric by which it is judged."""
        return self.module.quality if self.module else training.QUALITY[self.name]

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return metrics that are not there because its optimizer has no formula."""
        if self.own_optimizer is None or self.own_optimizer.has_formula:
            return ()
        return training.BY_FORMULA_OF_MODULES if self.module else training.BY_FORMULA

    def choices(self, case: str) -> int:
        """Return predictions of one sample of a case that are judged."""
        if self.module:
            return self.module.choices
        sizes = NETWORKS[self.name].complete({**self.settings[case].sizes, "batch": 1})
        return training.choices(self.name, sizes)


class Reading(NamedTuple):
    """A Level 2 subject without a network: a generated dataset, read by `levels` in some formats.

    Attributes:
        batch: Samples of a minibatch.
        epochs: Passes over the samples of each case, whose parameters are `format` and `cache`.
        sampler: In which order samples are taken, its name in the catalogue.
    """

    batch: int
    epochs: int
    sampler: str

    @property
    def level(self) -> int:
        """Return the level of Deep500."""
        return 2


class Collective(NamedTuple):
    """A Level 3 subject without a training: operations by which ranks exchange arrays.

    Attributes:
        repetitions: Timed calls in one trial of each case, whose parameters are `collective` and
            `bytes`, after `warmup` ones.
    """

    repetitions: int
    warmup: int

    @property
    def level(self) -> int:
        """Return the level of Deep500."""
        return LEVEL_OF_RANKS


@dataclass(frozen=True, kw_only=True)
class Command:
    """Any program of the author's, one process (or one for each rank) a trial.

    Attributes:
        words: Argument list, run in the image; placeholders in braces as `templates` has them.
        setup: Words of what is run before it in each process start, untimed; none for nothing.
        environment: Variables that it gets besides those of every workload; placeholders likewise.
        cwd: Where it starts, an input folder or one below; None for the folder that it may write.
        copies_cwd: True if it may write there, in a copy that each process start has of its own.
        stdin: What it reads as its standard input, an input file or one below; None for nothing.
        injects_seed: True if it is a Python program whose own seeds are replaced.
        ranks_independent: True if several ranks of it are separate on purpose.
        declares_world: True if its author says that its ranks form a world which nobody sees.
        gpu_required: True if a run fails in which a rank used none of its GPUs.
    """

    words: tuple[str, ...]
    setup: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    copies_cwd: bool = False
    stdin: str | None = None
    injects_seed: bool = False
    ranks_independent: bool = False
    declares_world: bool = False
    gpu_required: bool = False


class Search(NamedTuple):
    """Search over the cases of a benchmark.

    Attributes:
        metric: Name of the metric that decides which trial is best, of one with a direction.
        method: `grid`, `random` or `halton`.
        studies: Into how many groups the cases fall, in their order, see `search.sizes`.
    """

    metric: str
    method: str
    studies: int


Subject = Operator | Network | Recipe | Reading | Collective | Command
"""Subject of a benchmark; code that treats kinds differently uses one `match`."""
