"""State of a training in progress, and its transfer to the next attempt."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..catalog import training
from ..data import checkpoints, samplers
from ..data.checkpoints import CheckpointError
from ..report import Report

Rows = tuple[Any, Any]

STATE = "state/"
"""Before the names of what the trainer keeps."""


@dataclass
class Progress:
    """Progress of a training so far, over all its attempts.

    Attributes:
        quality: Name of the metric.
        curves: Values of the epochs, by the name of the metric.
        of_steps: Values of the steps, by the name of the metric, where many ranks train.
        resumed: How many of the epochs an earlier attempt trained.
        order: Numbers of the samples as they were taken in the first epochs.
        order_fingerprint: Fingerprint of the order of samples, once it is known.
        test_fingerprint: Fingerprint of the data of the first evaluation.
        initial_fingerprint: Fingerprint of a module's parameters before the first step.
        evaluations: What was due and what was predicted in the last ones, None where that is much.
        reached: Epoch at which the target was first met.
        untrained: Loss of the first step.
        class_counts: How often each class was taken in the first epoch; empty where none is.
    """

    quality: str
    curves: dict[str, list[float]] = field(default_factory=dict)
    of_steps: dict[str, list[float]] = field(default_factory=dict)
    resumed: int = 0
    order: list[Any] = field(default_factory=list)
    order_fingerprint: int | None = None
    test_fingerprint: int | None = None
    initial_fingerprint: int | None = None
    evaluations: deque[Rows | None] = field(default_factory=lambda: deque(maxlen=training.LAST))
    reached: int | None = None
    untrained: float | None = None
    class_counts: list[int] = field(default_factory=list)

    @property
    def epochs(self) -> int:
        """Return the number of epochs trained and evaluated."""
        return len(self.curves.get(self.quality, ()))

    def add(self, **values: float) -> None:
        """Append what an epoch came to, by the name of the metric."""
        for metric, value in values.items():
            self.curves.setdefault(metric, []).append(value)

    def add_steps(self, metric: str, values: Sequence[float]) -> None:
        """Append what the steps of an epoch came to."""
        self.of_steps.setdefault(metric, []).extend(values)

    @property
    def takes_order(self) -> bool:
        """Return whether the present epoch is one of the first, whose order counts."""
        return self.epochs < training.ORDERED_EPOCHS

    def add_order(self, order: Any) -> None:
        """Count the samples of the present epoch."""
        self.order.append(order)
        if len(self.order) == training.ORDERED_EPOCHS:
            self.close_order()

    def close_order(self) -> None:
        """Make the fingerprint of the order, unless it is there; no further epoch counts."""
        if self.order_fingerprint is None:
            fingerprint = samplers.Fingerprint()
            for order in self.order:
                fingerprint.add("order", order)
            self.order, self.order_fingerprint = [], fingerprint.value()


Resumed = tuple[Progress, dict[str, Any]]
"""State of a training and of its trainer: numpy arrays by name."""


def report_classes(report: Report, counts: Sequence[int]) -> None:
    """Report how often each class was taken in the first epoch."""
    report.samples("class_counts", counts)
    report.samples("largest_class_share", [max(counts) / sum(counts)])


def save(
    places: Sequence[Path], identity: str, progress: Progress, state: Mapping[str, Any]
) -> None:
    """Write a checkpoint.

    Args:
        places: Places of the file, and of its predecessor if that is kept.
        identity: Says of which training it is.
        progress: After the last epoch.
        state: What the trainer keeps, numpy arrays by name.

    Raises:
        OSError: It cannot be written.
    """
    arrays = {f"{STATE}{name}": array for name, array in state.items()}
    arrays |= {f"order/{number}": one for number, one in enumerate(progress.order)}
    for number, rows in enumerate(progress.evaluations):
        if rows is not None:
            arrays |= {f"expected/{number}": rows[0], f"chosen/{number}": rows[1]}
    facts = {
        "identity": identity,
        "curves": progress.curves,
        "of_steps": progress.of_steps,
        "order": len(progress.order),
        "order_fingerprint": progress.order_fingerprint,
        "test_fingerprint": progress.test_fingerprint,
        "initial_fingerprint": progress.initial_fingerprint,
        "evaluations": [rows is not None for rows in progress.evaluations],
        "reached": progress.reached,
        "untrained": progress.untrained,
        "class_counts": progress.class_counts,
    }
    checkpoints.write(*places, facts=facts, arrays=arrays)


def load(place: Path, identity: str, quality: str) -> Resumed | None:
    """Load an earlier attempt's state of the same training and of its trainer.

    A file that is damaged, or of another training, is discarded with a note on standard error.

    Args:
        place: Place of the file, which need not be there.
        identity: Identity of this training.
        quality: Name of its metric.
    """
    try:
        read = checkpoints.read(place)
        return read and _parse(*read, identity, quality)
    except CheckpointError as error:
        discard(place, str(error))
        return None


def discard(place: Path, reason: str) -> None:
    """Do without a checkpoint, and say why."""
    sys.stderr.write(f"discarded the checkpoint {place}, training starts without it: {reason}\n")


def _parse(
    facts: Mapping[str, Any], arrays: Mapping[str, Any], identity: str, quality: str
) -> Resumed:
    if facts.get("identity") != identity:
        raise CheckpointError(
            "the checkpoint belongs to another training: trial, seed, settings or data differ"
        )
    try:
        progress = Progress(
            quality,
            curves={str(name): list(map(float, curve)) for name, curve in facts["curves"].items()},
            of_steps={str(name): list(map(float, one)) for name, one in facts["of_steps"].items()},
            order=[arrays[f"order/{number}"] for number in range(facts["order"])],
            order_fingerprint=facts["order_fingerprint"],
            test_fingerprint=facts["test_fingerprint"],
            initial_fingerprint=facts["initial_fingerprint"],
            reached=facts["reached"],
            untrained=facts["untrained"],
            class_counts=list(map(int, facts["class_counts"])),
        )
        for number, is_kept in enumerate(facts["evaluations"]):
            names = f"expected/{number}", f"chosen/{number}"
            rows = (arrays[names[0]], arrays[names[1]]) if is_kept else None
            progress.evaluations.append(rows)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{type(error).__name__}: {error}") from None
    progress.resumed = progress.epochs
    if not progress.epochs:
        raise CheckpointError("the checkpoint has 0 completed epochs, expected at least 1")
    state = {name[len(STATE) :]: one for name, one in arrays.items() if name.startswith(STATE)}
    return progress, state
