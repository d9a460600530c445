"""One Level 3 trial: a training of Level 2 whose batches many ranks share, or an exchange alone.

Every rank takes its samples of each batch, of the noise and of what is done to pictures, so that
any number of ranks computes the same; what they exchange is the recipe's scheme.
One scheme is none: each rank trains by itself. The first rank
journals what is that of all, curves and qualities; each one its own bytes and times.
"""

from __future__ import annotations

from ..catalog import schemes, splitting, training
from ..frameworks import Framework
from ..job import Recipe, Trial
from ..level2 import train
from ..report import Report
from . import collectives


def measure(trial: Trial, framework: Framework, report: Report) -> None:
    """Train by a recipe with a scheme, or exchange by a collective.

    Args:
        trial: One with a recipe that has a scheme, and one dataset; or with a collective.
        framework: Where it trains.
        report: Where the values go.

    Raises:
        ValueError: It cannot be trained or exchanged so.
        RuntimeError: Not all ranks came, or one has left.
    """
    if trial.collective is not None:
        collectives.measure(trial, framework, report)
        return
    recipe = trial.recipe
    if recipe is None or recipe.scheme is None:
        found = "no recipe" if recipe is None else "a recipe without a scheme"
        raise ValueError(f"a training of several ranks needs a recipe with a scheme, found {found}")
    _refuse(trial, recipe, recipe.scheme.name)
    # with torch, which other frameworks' images lack
    from ..communicators import Communicator, connect
    from . import instances
    from .ranks import Ranks

    context = trial.context
    if context.rank:
        together = schemes.metrics(recipe.scheme.name)
        report.restrict(one.name for one in together if one.per == "rank")
    missed = None
    is_alone = schemes.SCHEMES[recipe.scheme.name].independent
    where = context.rank, context.ranks, context.rendezvous, trial.id
    # trainings that go on alone exchange nothing on their devices
    with connect(*where, device="cpu" if is_alone else context.device):
        if is_alone:
            missed = instances.measure(trial, framework, report, Communicator())
        else:
            how = context.threads, _read_work(trial), framework.device_clock
            train(trial, framework, report, Ranks(recipe, *how))
    if missed is not None:
        raise missed


def _refuse(trial: Trial, recipe: Recipe, name: str) -> None:
    context, ranks = trial.context, trial.context.ranks
    how = context.framework, recipe.optimizer, trial.dtype
    if reason := schemes.refusal(*how, is_module=trial.source is not None):
        raise ValueError(reason)
    if reason := schemes.refuse_device(name, context.device):
        raise ValueError(reason)
    tuned = recipe.tuning, context.framework, context.device, recipe.optimizer
    if reason := training.refuse_tuning(*tuned, by_ranks=True):
        raise ValueError(reason)
    if reason := schemes.refuse_optimizer(name, recipe.optimizer):
        raise ValueError(reason)
    if recipe.checkpoint_epochs and (reason := schemes.refuse_checkpoints(name)):
        raise ValueError(reason)
    shares = recipe.batch, ranks, recipe.accumulate, recipe.batch_norm_group
    if reason := schemes.refuse_shares(name, trial.subject, *shares):
        raise ValueError(reason)
    network = trial.subject, _read_work(trial).sizes, ranks
    if schemes.SCHEMES[name].splits_network and (reason := splitting.refuse(name, *network)):
        raise ValueError(reason)


def _read_work(trial: Trial) -> splitting.Work:
    recipe = trial.recipe
    assert recipe is not None
    sizes = {name: int(size) for name, size in trial.parameters.items()}
    return splitting.Work(trial.subject, sizes, recipe.batch, recipe.accumulate)
