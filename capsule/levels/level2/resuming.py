"""Resumption of a training after an interrupted attempt.

Each of several ranks keeps its own checkpoints, and the last but one, too: a kill may come when
some ranks have written the next checkpoint and others have not. All ranks then resume from the last
checkpoint that each of them has. No rank is further ahead, because all ranks finish an epoch before
any of them continues.
"""

from __future__ import annotations

from pathlib import Path

from ..data import checkpoints
from ..frameworks.base import NativeTensor, Resumable, Trainer
from ..job import Recipe, Trial
from ..report import Report
from . import progress
from .prepared import Prepared
from .progress import Progress, Resumed, report_classes
from .team import Team


def places(trial: Trial, recipe: Recipe, report: Report, team: Team) -> tuple[Path, ...]:
    """Return the paths of the last checkpoints; of ranks, the last two; empty for none."""
    if not recipe.checkpoint_epochs or report.folder is None:
        return ()
    last, before = checkpoints.paths(trial.benchmark, trial.case)
    names = (last, before) if team.ranks > 1 else (last,)
    return tuple(report.folder / name for name in names)


def find(trial: Prepared) -> Resumed | None:
    """Find an earlier attempt's state that a trainer accepts, and report it."""
    usable = {}
    for place in trial.checkpoints:
        resumed = progress.load(place, trial.identity, trial.quality)
        if resumed is None:
            continue
        try:
            _restore(trial, _start(trial), resumed)
        except (LookupError, TypeError, ValueError) as error:
            progress.discard(place, f"{type(error).__name__}: {error}")
            continue
        usable[resumed[0].epochs] = place, resumed
    epochs = trial.team.settle(tuple(usable)) if trial.checkpoints else 0
    if not epochs:
        for epoch, (place, _) in usable.items():
            progress.discard(place, f"another rank has no checkpoint of epoch {epoch}")
            place.unlink()
        return None
    place, resumed = usable[epochs]
    if place != trial.checkpoints[0]:
        # a later one, which not all ranks have written, is of no attempt that goes on
        place.replace(trial.checkpoints[0])
    trial.report.resume(epochs)
    return resumed


def begin(trial: Prepared, resumed: Resumed | None) -> tuple[Trainer, Progress]:
    """Return a trainer and what is known, where an earlier attempt was; tells again what that
    told.
    """
    trainer = _start(trial)
    if resumed is None:
        return trainer, Progress(trial.quality)
    report, so_far = trial.report, resumed[0]
    for metric, curve in so_far.curves.items():
        for epoch, value in enumerate(curve, 1):
            report.point(metric, epoch, value)
    for metric, values in so_far.of_steps.items():
        report.samples(metric, values)
    if so_far.untrained is not None:
        report.samples("untrained_loss", [so_far.untrained])
    if so_far.class_counts:
        report_classes(report, so_far.class_counts)
    state = _restore(trial, trainer, resumed)
    trial.team.go_on(so_far.epochs * trial.steps, state)
    return trainer, so_far


def save(trial: Prepared, trainer: Trainer, so_far: Progress) -> None:
    """Write a checkpoint, unless training is over: what is left then takes no time."""
    if trial.checkpoints and so_far.epochs < trial.recipe.epochs:
        assert isinstance(trainer, Resumable)
        state = trial.fetch({**trainer.state(), **trial.team.state()})
        progress.save(trial.checkpoints, trial.identity, so_far, state)


def _start(trial: Prepared) -> Trainer:
    """Return one that has taken no step, and trains with others where there are any."""
    recipe, (first, end) = trial.recipe, trial.team.span(trial.recipe.batch)
    trainer = trial.start(trial.part)
    trial.team.join(trial, trainer, recipe.batch, recipe.parts(end - first))
    return trainer


def _restore(trial: Prepared, trainer: Trainer, resumed: Resumed) -> dict[str, NativeTensor]:
    assert isinstance(trainer, Resumable)
    # in the dtypes that they were kept in
    state = {name: trial.framework.from_numpy(one) for name, one in resumed[1].items()}
    trainer.restore(state)
    return state
