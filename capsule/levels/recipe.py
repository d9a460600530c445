"""Recipe of a training in a job, and its parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .catalog import training
from .fields import Fields


@dataclass(frozen=True)
class Scheme:
    """Scheme by which the ranks of a job train together.

    Attributes:
        name: Key of `catalog.schemes.SCHEMES`.
        numbers: All that it takes.
        over: `mpi`, or None for torch's process group.
    """

    name: str
    numbers: Mapping[str, float]
    over: str | None = None


@dataclass(frozen=True)
class Target:
    """The quality that a training is to reach.

    Attributes:
        value: In the unit of the network's quality, `catalog.training.QUALITY`.
        stop: True if training ends when it is reached, and not after its last epoch.
    """

    value: float
    stop: bool


@dataclass(frozen=True)
class Recipe:
    """Recipe of a network's training.

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
        tuning: Layouts and kernels.
        has_own_optimizer: True if the optimizer is that of a file.
        scheme: How ranks train together; None for one process. The batch is that of all of them.
        batch_norm_group: Samples that ranks normalize together, a micro-batch of one rank; None
            where a rank's samples are not grouped.
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
    tuning: training.Tuning = training.NO_TUNING
    has_own_optimizer: bool = False
    scheme: Scheme | None = None
    batch_norm_group: int | None = None

    def micro_batch(self, samples: int) -> int:
        """Return the number of a process's samples per micro-batch of a step."""
        return self.batch_norm_group or samples // self.accumulate

    def parts(self, samples: int) -> int:
        """Return the number of micro-batches of a process in a step."""
        return samples // self.micro_batch(samples)


def read_recipe(fields: Fields) -> Recipe:
    """Return a recipe out of a job, without the scheme of its ranks.

    Raises:
        JobError: It is none; names the field.
    """
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
        tuning=(_tuning(fields.object("tuning")) if fields.has("tuning") else training.NO_TUNING),
    )


def _augmentation(fields: Fields) -> training.Augmentation:
    most = training.MOST_PIXELS
    return training.Augmentation(
        fields.whole("crop", 0, most), fields.truth("flip"), fields.whole("cutout", 0, most)
    )


def _tuning(fields: Fields) -> training.Tuning:
    modes = tuple(training.COMPILE_MODES)
    return training.Tuning(
        channels_last=fields.has("channels_last") and fields.truth("channels_last"),
        fused=fields.has("fused") and fields.truth("fused"),
        compile_mode=fields.choice("compile_mode", modes) if fields.has("compile_mode") else "",
        cuda_graphs=fields.has("cuda_graphs") and fields.truth("cuda_graphs"),
    )
