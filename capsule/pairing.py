"""Two variants on one node, in turn: which machine effects are left once everything else is equal.

A round is one process start of either side, under the same seed. Who goes first changes from round
to round, A B B A, so that neither a drift of the machine nor what the other side leaves behind in
caches favours a side.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from capsule import interruption, places, sealing
from capsule import plan as plans
from capsule import session as sessions
from capsule.digest import of_bytes
from capsule.errors import DamagedError, UsageError, add_advice
from capsule.execute import loop
from capsule.execute.workspace import read_file, write_durably
from capsule.interruption import CutOff
from capsule.manifest import Manifest, with_seeds
from capsule.manifest.paths import match
from capsule.options import PairOptions
from capsule.origin import Side
from capsule.plan import Plan
from capsule.record import Execution
from capsule.resolve import Resolved
from capsule.schema import parse
from capsule.sealing import Sealed
from capsule.session import Session, Terms
from capsule.verdict.advising import MOST_OF_A_PAIR
from capsule.watch import Watch

_FOLDERS, _FLAGS = ("a.run", "b.run"), ("--output-a", "--output-b")
_HEADER = "pair.json"
_FORMAT = "capsule-pair/1"


@dataclass(frozen=True, kw_only=True)
class CutOffPair:
    """A pair that was interrupted, as its folder has it.

    Attributes:
        targets: See `Sides`.
    """

    folder: Path
    targets: tuple[Path, Path]
    a: CutOff
    b: CutOff

    @property
    def both(self) -> tuple[CutOff, CutOff]:
        """Return A and B."""
        return self.a, self.b


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Both runs of a pair, and the folder that holds theirs.

    Attributes:
        targets: The capsules that the pair set out to write, of A and of B.
    """

    folder: Path
    targets: tuple[Path, Path]
    a: Session
    b: Session

    @property
    def both(self) -> tuple[Session, Session]:
        """Return A and B."""
        return self.a, self.b

    @property
    def side(self) -> Side:
        """Return the pair, from A's origin."""
        origin = self.a.setup.origin
        assert isinstance(origin, Side)
        return origin


def plan(a: Manifest, b: Manifest, options: PairOptions) -> tuple[Plan, Plan]:
    """Return the plans of both sides under the same seeds: A's, and derived ones if more are due.

    Raises:
        UsageError: It is no number of pairs, no margin, or the two do not start the same processes.
    """
    if not 1 < options.margin < float("inf"):
        raise UsageError(
            f"--margin is {options.margin:g}, expected a ratio above 1",
            advice="use for example --margin 1.01, which allows 1 %",
        )
    wanted = len(a.seeds) if options.pairs is None else options.pairs
    if not 2 <= wanted <= MOST_OF_A_PAIR:
        raise UsageError(
            f"expected 2 to {MOST_OF_A_PAIR} rounds, found {wanted}",
            advice="use for example --pairs 20",
        )
    source = of_bytes(a.source).hex
    further = plans.fresh_seeds(source, a.seeds, count=max(0, wanted - len(a.seeds)))
    seeds = (*a.seeds[:wanted], *further)
    first, second = (plans.make(with_seeds(side, seeds)) for side in (a, b))
    starts = zip_longest(_starts(first), _starts(second))
    for number, (of_a, of_b) in enumerate(starts, 1):
        if of_a != of_b:
            raise UsageError(
                f"process start {number} differs between the variants: A {_describe(of_a)};"
                f" B {_describe(of_b)}",
                advice="give both variants the same frameworks, number of ranks and kind of"
                " benchmarks",
            )
    return first, second


def _starts(side: Plan) -> list[tuple[str, int, int]]:
    return [(group.framework, group.seed, group.ranks) for group in side.groups]


def _describe(start: tuple[str, int, int] | None) -> str:
    if start is None:
        return "has fewer process starts"
    framework, seed, ranks = start
    return f"has framework {framework}, seed {seed}, {ranks} rank{'s' * (ranks != 1)}"


def patterns(a: Plan, b: Plan, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of the metrics to judge.

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
                f"{pattern} matches no machine metric that both variants have",
                advice=f"use for example {next(iter(machine))}"
                if machine
                else 'declare the same metric with "kind": "machine" in both manifests',
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
        raise UsageError(
            "no metric to compare: the variants share no machine metric in seconds",
            advice="use --metrics to name a machine metric that both variants have",
        )
    return chosen


def begin(
    planned: tuple[Plan, Plan],
    resolved: tuple[Resolved, Resolved],
    options: PairOptions,
) -> Sides:
    """Make the folder of a new pair with those of both runs, whole or not at all.

    Raises:
        UsageError: Nothing to judge.
        ExecutionError: It cannot be written.
    """
    pair = uuid.uuid4()
    terms = _terms(planned, options, pair)
    setups = [sessions.set_up(*side) for side in zip(planned, resolved, terms, strict=True)]
    name = f"{planned[0].manifest.name}-{pair.hex[:8]}"
    folder = options.work or Path(f"{name}.pair")
    targets = (
        options.output_a or Path(f"{name}.a.capsule.zip"),
        options.output_b or Path(f"{name}.b.capsule.zip"),
    )
    whole = tuple(zip(_FOLDERS, planned, setups, resolved, terms, strict=True))
    with places.new_folder(folder) as unnamed:
        for run, plan, setup, uses, term in whole:
            sessions.lay_out(unnamed / run, plan, setup, uses, term, place=folder / run)
        _keep_targets(unnamed, targets)
    first, second = (
        sessions.enter(folder / run, plan, setup, uses) for run, plan, setup, uses, _ in whole
    )
    return Sides(folder=folder, targets=targets, a=first, b=second)


def _terms(
    planned: tuple[Plan, Plan], options: PairOptions, pair: uuid.UUID
) -> tuple[Terms, Terms]:
    metrics, order = patterns(*planned, options.metrics), _order(planned[0])

    def term(side: Literal["a", "b"], image: str | None) -> Terms:
        origin = Side(
            pair=str(pair), side=side, order=order, margin=options.margin, metrics=metrics
        )
        return Terms(image=image, keep_hosts=options.keep_hosts, side=origin)

    return term("a", options.image_a), term("b", options.image_b)


def _order(side: Plan) -> str:
    """Return the order in each round: A and B in turn, for each framework."""
    rounds: Counter[str] = Counter()
    letters = []
    for group in side.groups:
        letters.append("ab"[rounds[group.framework] % 2])
        rounds[group.framework] += 1
    return "".join(letters)


def _keep_targets(folder: Path, targets: tuple[Path, Path]) -> None:
    """Note where both capsules go: what goes on elsewhere must not seal a side twice."""
    a, b = (str(target.absolute()) for target in targets)
    text = json.dumps({"format": _FORMAT, "a": a, "b": b})
    write_durably(folder / _HEADER, text.encode())


@add_advice("the run folder was changed; start a new pair")
def _read_targets(folder: Path) -> tuple[Path, Path]:
    header = folder / _HEADER
    if not header.is_file():
        inside = (folder.parent / _HEADER).is_file()
        raise UsageError(
            f"{_HEADER} is missing, expected the run folder of an interrupted pair",
            where=str(folder),
            advice=f"capsule pair --resume {folder.parent}"
            if inside
            else "give the folder that the interrupted pair printed; its name ends in .pair",
        )
    match parse(read_file(header), where=str(header)):
        case {"format": form, "a": str(a), "b": str(b)} if form == _FORMAT and "\0" not in a + b:
            return places.near(Path(a)), places.near(Path(b))
        case {"format": str(form)} if form != _FORMAT:
            raise UsageError(
                f"another version of capsule began this pair: {_HEADER} has format {form!r:.40},"
                f" expected {_FORMAT!r}",
                where=str(folder),
                advice="resume the pair with the version of capsule that began the pair",
            )
    raise DamagedError(
        f"expected the format {_FORMAT} and the paths of two capsules, a and b", where=str(header)
    )


def reopen(folder: Path) -> CutOffPair:
    """Read the folder of a pair that was interrupted.

    Raises:
        UsageError: It is none, or one of its sides is missing.
        DamagedError: As for `interruption.reopen`.
    """
    targets = _read_targets(folder)
    for name in _FOLDERS:
        if not (folder / name).is_dir():
            raise UsageError(
                f"run folder {name} is missing in the folder of the pair",
                where=str(folder),
                advice=f"restore {name}, or start a new pair",
            )
    a, b = (interruption.reopen(folder / name, verifies=None) for name in _FOLDERS)
    return CutOffPair(folder=folder, targets=targets, a=a, b=b)


def complete(
    cut_off: CutOffPair, outputs: tuple[Path | None, Path | None], watch: Watch, *, own: bool
) -> tuple[Sealed, Sealed] | None:
    """Finish the sealing of a pair that was ended between its capsules and its folder's removal.

    Returns:
        What it had sealed; None unless both sides are.
    """
    sealed = []
    for side, output, first in zip(cut_off.both, outputs, cut_off.targets, strict=True):
        if (capsule := sealing.recover(side, output or first, first)) is None:
            return None
        sealed.append(capsule)
    a, b = sealed
    sealing.leave(sealed, cut_off.folder, watch, own=own)
    return a, b


def take_up(
    cut_off: CutOffPair, resolved: tuple[Resolved, Resolved], watch: Watch, *, own: bool
) -> Sides:
    """End what the dead runs left behind, and be ready to go on; both folders must be locked.

    Raises:
        CannotRunError: The pair began on another node.
    """
    for side in cut_off.both:
        interruption.require_its_node(side)
    a, b = (
        sessions.take_up(side, uses, watch, own=own)
        for side, uses in zip(cut_off.both, resolved, strict=True)
    )
    return Sides(folder=cut_off.folder, targets=cut_off.targets, a=a, b=b)


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
                loop.finish(run.workspace, group, run.setting, watch, run.room)
    finally:
        watch.end()
    a, b = (run.gatherer.collect(run.plan) for run in sides.both)
    return a, b


def check_outputs(outputs: tuple[Path | None, Path | None], work: Path | None) -> None:
    """Stop before anything runs, if a capsule that was asked for has no place.

    Raises:
        UsageError: Something lies there already, there is no such folder, or both name one file.
        ExecutionError: A folder cannot be written.
    """
    for flag, output in zip(_FLAGS, outputs, strict=True):
        places.check(output=output, work=work, flag=flag)
    a, b = outputs
    if a is not None and b is not None:
        _refuse_same(a, b)


def _refuse_same(a: Path, b: Path) -> None:
    if a.resolve() == b.resolve():
        raise UsageError(
            f"{' and '.join(_FLAGS)} name the same file",
            where=str(b),
            advice="name two files: a pair is sealed as two capsules",
        )


def targets(
    sides: Sides, outputs: tuple[Path | None, Path | None]
) -> tuple[Sealed | Path, Sealed | Path]:
    """Return the places of both capsules, or the capsules that an interrupted call sealed.

    Args:
        sides: The pair.
        outputs: What is asked for now, None for where the pair set out to write.

    Raises:
        UsageError: Something else lies there, both are one file, or it is in the pair's folder.
        ExecutionError: A folder cannot be written.
    """
    wanted: list[Sealed | Path] = []
    for run, output, first, flag in zip(sides.both, outputs, sides.targets, _FLAGS, strict=True):
        target = output or first
        sealed = sealing.recover(run, target, first)
        if sealed is None:
            sealing.check(target, sides.folder, flag=flag)
        wanted.append(sealed or target)
    a, b = wanted
    _refuse_same(*(place.path if isinstance(place, Sealed) else place for place in (a, b)))
    return a, b


def seal(
    sides: Sides,
    executions: tuple[Execution, Execution],
    targets: tuple[Sealed | Path, Sealed | Path],
    strict_privacy: bool,
    watch: Watch,
) -> tuple[Sealed, Sealed]:
    """Write both capsules, list them as this user's own if their code is, and remove the folder.

    Args:
        sides: The pair.
        executions: What became of A and of B.
        targets: As `targets` gave them; what is sealed already is kept.
        strict_privacy: See `sealing.seal`.
        watch: As there.

    Raises:
        UsageError: Something else lies at a target by now.
        ExecutionError: A capsule cannot be written, and the folder stays.
    """
    write = partial(sealing.write, strict_privacy=strict_privacy, watch=watch)
    a, b = (
        target
        if isinstance(target, Sealed)
        else write(run, execution, sessions.assemble(run, execution), target)
        for run, execution, target in zip(sides.both, executions, targets, strict=True)
    )
    sealing.leave((a, b), sides.folder, watch, own=sides.a.own and sides.b.own)
    return a, b
