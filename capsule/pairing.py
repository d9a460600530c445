"""Two variants on one node, in turn: which machine effects are left once everything else is equal.

A round is one process start of either side, under the same seed. Who goes first changes from round
to round, A B B A, so that neither a drift of the machine nor what the other side leaves behind in
caches favours a side.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from capsule import plan as plans
from capsule import sealing
from capsule import session as sessions
from capsule.digest import of_bytes
from capsule.errors import ExecutionError, UsageError
from capsule.execute import loop
from capsule.manifest import Manifest, with_seeds
from capsule.manifest.paths import match
from capsule.options import PairOptions
from capsule.origin import Side
from capsule.plan import Plan
from capsule.record import Execution
from capsule.resolve import Resolved
from capsule.sealing import Sealed
from capsule.session import CutOff, Session, Terms
from capsule.trust import ledger
from capsule.watch import Watch

_MOST_PAIRS = 1000
_FOLDERS = ("a.run", "b.run")


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Both runs of a pair, and the folder that holds theirs."""

    folder: Path
    a: Session
    b: Session

    @property
    def both(self) -> tuple[Session, Session]:
        """A, then B."""
        return self.a, self.b

    @property
    def side(self) -> Side:
        """What the pair is, as A's origin says it."""
        origin = self.a.setup.origin
        assert isinstance(origin, Side)
        return origin


def plan(a: Manifest, b: Manifest, options: PairOptions) -> tuple[Plan, Plan]:
    """Lay out both sides, under the same seeds: A's, and as many more as it takes.

    Raises:
        UsageError: It is no number of pairs, no margin, or the two do not start the same processes.
    """
    if not 1 < options.margin < float("inf"):
        raise UsageError(
            f"a margin is the ratio up to which two variants count as the same, not"
            f" {options.margin:g}",
            advice="--margin 1.01 allows one percent",
        )
    wanted = len(a.seeds) if options.pairs is None else options.pairs
    if not 2 <= wanted <= _MOST_PAIRS:
        raise UsageError(f"a pair takes from 2 to {_MOST_PAIRS} rounds, not {wanted}")
    source = of_bytes(a.source).hex
    further = plans.fresh_seeds(source, a.seeds, count=max(0, wanted - len(a.seeds)))
    seeds = (*a.seeds[:wanted], *further)
    first, second = (plans.make(with_seeds(side, seeds)) for side in (a, b))
    if _starts(first) != _starts(second):
        raise UsageError(
            "the two sides do not start the same processes",
            advice="both need the same frameworks and number of ranks, and benchmarks of one kind",
        )
    return first, second


def _starts(side: Plan) -> list[tuple[str, int, int]]:
    return [(group.framework, group.seed, group.ranks) for group in side.groups]


def patterns(a: Plan, b: Plan, wanted: Sequence[str]) -> tuple[str, ...]:
    """Which metrics are judged.

    Raises:
        UsageError: A pattern matches no machine metric of both sides, or nothing would be judged.
    """
    there = dict(plans.metric_paths(b.manifest))
    machine = {
        path: metric
        for path, metric in plans.metric_paths(a.manifest)
        if metric.kind == "machine" and path in there and there[path].unit == metric.unit
    }
    for pattern in wanted:
        if not any(match(pattern, path) for path in machine):
            raise UsageError(
                f"{pattern} matches no machine metric that both sides have",
                advice=f"such as {next(iter(machine))}" if machine else "they have none at all",
            )
    claimed = [
        claim.metric
        for claim in a.manifest.claims
        if any(match(claim.metric, path) for path in machine)
    ]
    timed = [
        f"*/*/*/{path.split('/', 3)[3]}" for path, metric in machine.items() if metric.unit == "s"
    ]
    chosen = tuple(dict.fromkeys(wanted or claimed or timed))
    if not chosen:
        raise UsageError("the two sides have no time in common that could be compared")
    return chosen


def begin(
    planned: tuple[Plan, Plan],
    resolved: tuple[Resolved, Resolved],
    options: PairOptions,
) -> Sides:
    """Make the folders of both runs.

    Raises:
        UsageError: There is such a folder already, or nothing to judge.
        ExecutionError: It cannot be written.
    """
    pair = uuid.uuid4()
    a, b = planned
    metrics = patterns(a, b, options.metrics)
    folder = options.work or Path(f"{a.manifest.name}-{pair.hex[:8]}.pair")
    try:
        folder.mkdir()
    except FileExistsError:
        raise UsageError("the folder exists already", where=str(folder)) from None
    except OSError as error:
        raise ExecutionError(f"cannot be made: {error.strerror}", where=str(folder)) from None
    order = _order(a)
    names: tuple[Literal["a", "b"], Literal["a", "b"]] = ("a", "b")
    images = (options.image_a, options.image_b)
    began = [
        sessions.begin(
            side,
            uses,
            Terms(
                image=image,
                keep_hosts=options.keep_hosts,
                side=Side(
                    pair=str(pair), side=name, order=order, margin=options.margin, metrics=metrics
                ),
            ),
            work=folder / run,
        )
        for side, uses, image, name, run in zip(
            planned, resolved, images, names, _FOLDERS, strict=True
        )
    ]
    return Sides(folder=folder, a=began[0], b=began[1])


def _order(side: Plan) -> str:
    """Who goes first in each round: A and B by turns, for each framework."""
    rounds: Counter[str] = Counter()
    letters = []
    for group in side.groups:
        letters.append("ab"[rounds[group.framework] % 2])
        rounds[group.framework] += 1
    return "".join(letters)


def reopen(folder: Path) -> tuple[CutOff, CutOff]:
    """Read the folder of a pair that was interrupted.

    Raises:
        UsageError: It is none.
        DamagedError: As for `session.reopen`.
    """
    a, b = (sessions.reopen(folder / name, verifies=None) for name in _FOLDERS)
    if not isinstance(a.setup.origin, Side) or not isinstance(b.setup.origin, Side):
        raise UsageError("not the folder of a pair", where=str(folder))
    return a, b


@contextmanager
def lock(runs: Sequence[Session | CutOff]) -> Iterator[None]:
    """Hold both folders for this process."""
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run.workspace.lock())
        yield


def perform(sides: Sides, watch: Watch) -> tuple[Execution, Execution]:
    """Run every round that is left, in its order, and read what both sides left behind.

    Raises:
        ExecutionError: It could not be finished; the folder can be taken up again.
    """
    logs = [run.workspace.log for run in sides.both]
    total = sum(len(group.trials) for run in sides.both for group in run.plan.groups)
    watch.begin(
        sides.folder, total, sum(log.is_settled(trial) for log in logs for trial in log.last)
    )
    try:
        rounds = zip(sides.side.order, sides.a.plan.groups, sides.b.plan.groups, strict=True)
        for first, of_a, of_b in rounds:
            turns = [(sides.a, of_a), (sides.b, of_b)]
            for run, group in turns if first == "a" else reversed(turns):
                loop.finish(run.workspace, group, run.setting, watch)
    finally:
        watch.end()
    a, b = (run.gatherer.collect(run.plan) for run in sides.both)
    return a, b


def targets(sides: Sides, outputs: tuple[Path | None, Path | None]) -> tuple[Path, Path]:
    """The capsules to write; by default ones that are named by the pair."""
    usual = f"{sides.a.plan.manifest.name}-{sides.side.pair[:8]}"
    return outputs[0] or Path(f"{usual}.a.capsule.zip"), outputs[1] or Path(
        f"{usual}.b.capsule.zip"
    )


def seal(
    sides: Sides, executions: tuple[Execution, Execution], targets: tuple[Path, Path]
) -> tuple[Sealed, Sealed]:
    """Write both capsules, note them as this user's own, and remove the folder.

    What an interrupted call has sealed already is kept.

    Raises:
        UsageError: Something else lies at a target.
        ExecutionError: A capsule cannot be written, and the folder stays.
    """
    a, b = (
        sealing.find(run, target)
        or sealing.write(run, execution, sessions.assemble(run, execution), target)
        for run, execution, target in zip(sides.both, executions, targets, strict=True)
    )
    try:
        for sealed in (a, b):
            ledger.add(sealed.id)
    finally:
        sealing.remove(sides.folder)
    return a, b
