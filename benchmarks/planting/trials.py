"""Runs right and wrong trials in this process, and has the shipped manifests' claims judge them."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

import numpy

from capsule import freezing, manifest
from capsule.diff import Pair
from capsule.levels import catalog, frameworks, job, operators, run
from capsule.levels.frameworks.base import Framework, require
from capsule.levels.frameworks.torch import Torch
from capsule.levels.frameworks.torch import operators as native
from capsule.levels.instruments import errors, memory
from capsule.levels.level1 import check, layers
from capsule.levels.report import Report
from capsule.record import FrozenClaim
from capsule.runs import MetricRuns, Run
from capsule.verdict import claim

from . import networks
from .faults import REACHED, SPOTS, Fault, displacement

SEEDS = (17, 18, 19)
MANIFESTS = Path(__file__).parents[2] / "manifests"
ROUNDING = 2.0
"""Units of `displacement` that no fault is large enough to be told by."""

Values = Mapping[str, float]
"""One value per metric of a trial."""


@dataclass(frozen=True)
class Outcome:
    """What became of one fault in one dtype.

    Attributes:
        word: `caught`; else `unreached` where the planted code never ran, `below` where all that
            it moved is within rounding, and `missed`.
        size: How far it moved what it is in, relative to that; median over the seeds. None where
            it shows in later calls alone.
        ratio: The largest error over its bound that any claim saw.
        by: The metrics whose claims are DIFFERENT.
    """

    word: str
    size: float | None
    ratio: float
    by: tuple[str, ...]


KEPT: dict[bytes, Any] = {}
"""What `prepare` has computed once, by its arguments."""


def prepare(*, derivatives: bool) -> Torch:
    """torch on one thread, and what trials of one seed repeat computed once.

    Args:
        derivatives: Whether gradients are held against differences too, which grants what the
            ratio by its side grants and more, and so tells of faults in formulas alone.
    """
    framework = frameworks.load("torch", "cpu", 1, "default")
    assert isinstance(framework, Torch)
    for owner, name in (
        (operators, "bounds"),
        (operators, "gradient_bounds"),
        (operators, "due"),
        (operators, "due_gradients"),
        (check, "right"),
    ):
        setattr(owner, name, _kept(getattr(owner, name)))
    # times of layers are no claim's business here
    layers.seconds = lambda graph, *_: [1e-3] * len(graph.inference)
    memory.watch = lambda _: _Blind()
    if not derivatives:
        errors.derivatives = lambda *_: 0.0
    gc.freeze()
    return framework


class _Blind:
    """Memory is no claim's business either, and to look at it takes longer than a trial."""

    def reset_peak(self) -> None:
        pass

    def peak(self) -> int:
        return 0


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__qualname__.encode()

    def call(*arguments: Any) -> Any:
        digest = hashlib.sha256(name)
        _feed(digest, arguments)
        key = digest.digest()
        if key not in KEPT:
            KEPT[key] = function(*arguments)
        return KEPT[key]

    return call


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, numpy.ndarray):
        digest.update(repr((value.shape, value.dtype)).encode() + value.tobytes())
    elif isinstance(value, Mapping):
        for key in sorted(value):
            digest.update(key.encode())
            _feed(digest, value[key])
    elif isinstance(value, (tuple, list)):
        for one in value:
            _feed(digest, one)
    elif isinstance(value, check.Part):
        digest.update(repr((value.graph.name, value.share)).encode())
        _feed(digest, value.inputs)
    elif isinstance(value, operators.Operator):
        digest.update(value.name.encode())
    else:
        digest.update(repr(value).encode())


@contextmanager
def _planted(fault: Fault | None, framework: Framework) -> Iterator[None]:
    if fault is None:
        yield
        return
    if fault.subject in catalog.NETWORKS:
        assert isinstance(framework, Torch)
        with networks.plant(fault, framework):
            yield
        return
    right = native.OPERATIONS[fault.subject]
    native.OPERATIONS[fault.subject] = fault.plant(right)
    try:
        yield
    finally:
        native.OPERATIONS[fault.subject] = right


def subject_case(subject: str, case: int) -> Mapping[str, int]:
    """The parameters of a trial."""
    if subject in catalog.NETWORKS:
        return networks.case_of(subject, case)
    return catalog.OPERATORS[subject].cases["quick"][case][1]


def measure(
    framework: Framework, subject: str, case: int, dtype: str, seed: int, fault: Fault | None
) -> Values | None:
    """The value of each metric with one value, None of a trial that failed."""
    level = 1 if subject in catalog.NETWORKS else 0
    entry = {
        "level": level,
        job.SUBJECTS[level]: subject,
        "dtype": dtype,
        "parameters": dict(subject_case(subject, case)),
        "repetitions": 4 if level == 0 else 2,
    }
    with _planted(fault, framework):
        return run_entry(framework, entry, seed)


def run_entry(framework: Framework, fields: Mapping[str, Any], seed: int) -> Values | None:
    """The value of each metric with one value of one trial, None of one that failed.

    Args:
        framework: Where it runs.
        fields: Those of a job's entry that are not the same for all trials here.
        seed: The trial's.
    """
    entry = {
        "id": "trial",
        "benchmark": "benchmark",
        "case": "default",
        "warmup": 1,
        "datasets": [],
        **fields,
    }
    document = {
        "format": job.FORMAT,
        "framework": framework.name,
        "seed": seed,
        "determinism": "default",
        "device": "cpu",
        "threads": 1,
        "ranks": 1,
        "data": {},
        "trials": [entry],
    }
    (trial,) = job.parse(document, {}).trials
    values: dict[str, float] = {}

    def write(line: Any) -> None:
        if len(line.values) == 1:
            values[line.metric] = line.values[0]

    try:
        run.load_level(trial.level)(trial, framework, Report(write))
    except (ValueError, RuntimeError, MemoryError):
        return None
    return values


@cache
def claims(level: int) -> tuple[manifest.Claim, ...]:
    return tuple(
        one
        for one in manifest.load(MANIFESTS / f"level{level}.json").claims
        if one.primary and one.type != "ratio"
    )


def runs(values: Sequence[Values | None], metrics: Iterable[str]) -> dict[str, MetricRuns]:
    """Three runs of each metric, as the record of a capsule gives them."""
    made = {}
    for metric in metrics:
        path = f"benchmark/default/torch/{metric}"
        made[path] = MetricRuns(
            metric=path,
            unit="1",
            direction="lower",
            kind="portable",
            resolution=0.0,
            per="trial",
            runs=tuple(map(_run, SEEDS, [one and one.get(metric) for one in values])),
        )
    return made


def _run(seed: int, value: float | None) -> Run:
    finite = value is not None and isfinite(value)
    return Run(
        seed=seed,
        seed_source="fresh",
        trial=f"benchmark/default/torch/{seed}",
        status="ok" if finite else "failed",
        value=value if finite else None,
        not_finite=None if finite else value,
    )


def judge(
    level: int, right: Sequence[Values | None], wrong: Sequence[Values | None]
) -> tuple[tuple[str, ...], float]:
    """The metrics whose claims are DIFFERENT, and the largest error over its bound."""
    metrics = dict.fromkeys(name for one in (*right, *wrong) if one for name in one)
    originals, reruns = runs(right, metrics), runs(wrong, metrics)
    different, worst = [], 0.0
    frozen: Sequence[FrozenClaim] = freezing.freeze(claims(level), originals)
    for one in frozen:
        rerun = reruns[one.metric]
        pair = Pair(
            metric=one.metric,
            claim=one,
            seeds="fresh",
            original=originals[one.metric],
            rerun=rerun,
        )
        if claim.judge(pair).word == "DIFFERENT":
            different.append(one.metric.rpartition("/")[2])
        if one.upper is not None:
            worst = max([worst, *(value / one.upper for value in rerun.values)])
    return tuple(different), worst


class Bench:
    """Faults one after the other, beside right trials that are run once.

    Attributes:
        alarms: Right trials that a claim of theirs contradicts, by subject, case and dtype.
    """

    def __init__(self) -> None:
        self.framework = prepare(derivatives=False)
        self.alarms: dict[tuple[str, int, str], tuple[str, ...]] = {}
        self._right: dict[tuple[str, int, str], list[Values | None]] = {}

    def right(self, subject: str, case: int, dtype: str) -> list[Values | None]:
        """Right trials, one per seed."""
        key = subject, case, dtype
        if key not in self._right:
            values = [measure(self.framework, *key, seed, None) for seed in SEEDS]
            self._right[key] = values
            level = 1 if subject in catalog.NETWORKS else 0
            # against themselves: a bound that these break is broken in the original
            different, worst = judge(level, [dict.fromkeys(values[0] or (), 1.0)] * 3, values)
            if different or worst > 1:
                self.alarms[key] = different
        return self._right[key]

    def plant(self, fault: Fault, dtype: str) -> Outcome:
        """Three trials with the fault, and what is said of them."""
        right = self.right(fault.subject, fault.case, dtype)
        is_network = fault.subject in catalog.NETWORKS
        wrong, moved, reached = [], [], False
        for seed in SEEDS:
            SPOTS.clear()
            REACHED.clear()
            wrong.append(measure(self.framework, fault.subject, fault.case, dtype, seed, fault))
            reached |= bool(REACHED)
            spots = list(SPOTS) if is_network else [self._move(fault, dtype, seed)]
            moved += [spot for spot in spots if spot is not None]
        by, ratio = judge(1 if is_network else 0, right, wrong)
        most = max((units for _, units in moved), default=float("inf"))
        word = "missed"
        if by:
            word = "caught"
        elif not reached:
            word = "unreached"
        elif most <= ROUNDING:
            word = "below"
        later = fault.place == "later calls" or not moved
        size = None if later else median(relative for relative, _ in moved)
        return Outcome(word, size, ratio, by)

    def _move(self, fault: Fault, dtype: str, seed: int) -> tuple[float, float] | None:
        """How far results or gradients of an operator are moved; None where calls differ."""
        if fault.place == "later calls":
            return None
        right = self._results(None, fault, dtype, seed)
        try:
            wrong = self._results(fault, fault, dtype, seed)
        except (ValueError, RuntimeError):
            return float("inf"), float("inf")
        moves = [
            displacement(*pair) if pair[0].shape == pair[1].shape else (float("inf"),) * 2
            for pair in zip(right, wrong, strict=True)
        ]
        return max(move[0] for move in moves), max(move[1] for move in moves)

    def _results(self, planted: Fault | None, fault: Fault, dtype: str, seed: int) -> list[Any]:
        operator = operators.load(fault.subject)
        entry = catalog.OPERATORS[fault.subject]
        sizes = entry.complete(subject_case(fault.subject, fault.case))
        place = self.framework.from_numpy
        with _planted(planted, self.framework):
            tensors = [place(one, dtype) for one in operator.inputs(sizes, dtype, seed)]
            named = self.framework.operators
            if fault.way == "forward":
                function, operands = named.operation(operator, sizes, tuple(tensors))
            else:
                upstream = tuple(place(one, dtype) for one in operator.upstream(sizes, dtype, seed))
                gradient = require(named.gradient, "torch", "differentiate")
                wrt = operator.wrt(sizes)
                function, operands = gradient(operator, sizes, tuple(tensors), wrt, upstream)
            return list(operators.several(function(*operands)))
