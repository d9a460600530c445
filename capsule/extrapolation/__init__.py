"""What steps of trainings take among more ranks than have run, by a model of what they exchange.

sealed runs -> what operations took -> latency and bandwidth -> steps among any number of ranks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, stdev

from capsule.errors import UsageError
from capsule.extrapolation.measured import Measured, find, find_reasons
from capsule.record import Record
from capsule.stats import RelativeFit, fit_relative, student_quantile

ALPHA = 0.05
_GATHERING = ("top-k", "quantized")
_MEND = (
    "seal trainings of several schemes or bucket sizes, such as manifests/level3.json, at 2 to 4"
    " ranks that have a core each, and name all of those capsules"
)
CAVEATS = (
    "the model is of a flat network, on which no transfer is in the way of another, however many"
    " ranks there are; how far others are from it: docs/measurements.md",
    "each rank takes as many samples as it did, and every number of ranks goes by one algorithm",
)


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number with its interval, at 95 %.

    Attributes:
        value: The best.
        lower: Not below 0.
        upper: The other end.
    """

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Point:
    """What the model was fitted to.

    Attributes:
        training: Benchmark and case.
        ranks: How many there were.
        algorithms: Operation and algorithm of each, such as `all-reduce by ring`.
        messages: One after the other in a step that exchanges anything.
        bytes: Likewise.
        measured: Seconds, the median over runs.
        model: Seconds.
    """

    training: str
    ranks: int
    algorithms: tuple[str, ...]
    messages: float
    bytes: float
    measured: float
    model: float


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A step among some number of ranks.

    Attributes:
        training: Benchmark and case.
        ranks: How many there would be.
        samples: Of each in a step.
        computing: Seconds, as measured.
        communication: Seconds of all that is exchanged in a step, the rest of it hidden or not.
        step: Seconds; None where more than the exchange grows with ranks.
        measured: Seconds of such a step where there were so many ranks, the median over runs.
    """

    training: str
    ranks: int
    samples: int
    computing: float
    communication: Number
    step: Number | None
    measured: float | None


@dataclass(frozen=True, kw_only=True)
class Extrapolation:
    """All that is predicted, with what it rests on.

    Attributes:
        latency: Seconds of a message without bytes.
        seconds_per_byte: One over the bandwidth.
        spread: Standard deviation of what was measured from the model, in parts of it.
        points: What it was fitted to.
        predictions: By training, the fewest ranks first.
        left_out: What was measured and not used, with the reason.
        caveats: How far it may be trusted.
    """

    latency: Number
    seconds_per_byte: Number
    spread: float
    points: tuple[Point, ...]
    predictions: tuple[Prediction, ...]
    left_out: tuple[str, ...]
    caveats: tuple[str, ...]


def extrapolate(records: Sequence[Record], worlds: Sequence[int]) -> Extrapolation:
    """Fit the model to what some capsules measured, and predict by it.

    Args:
        records: Of the same machine and network.
        worlds: Numbers of ranks, at least one each.

    Raises:
        UsageError: Too little was measured to fit two numbers and see how wrong they are.
    """
    measured = [one for record in records for one in find(record)]
    used, left_out = _choose(measured)
    unknown = dict.fromkeys(pair for record in records for pair in find_reasons(record))
    left_out += [f"{training}: {reason}" for training, reason in unknown]
    rows = [one.cost(one.ranks) for one in used]
    fit = fit_relative(rows, [median(one.exchanging) for one in used])
    if fit is None:
        raise UsageError(_lack(len(used), left_out), advice=_MEND)
    return Extrapolation(
        latency=_around(fit, (1.0, 0.0), value=False),
        seconds_per_byte=_around(fit, (0.0, 1.0), value=False),
        spread=fit.spread,
        points=tuple(_point(fit, one) for one in used),
        predictions=tuple(_predict(fit, used, worlds)),
        left_out=tuple(left_out),
        caveats=tuple(_caveats(fit, used)),
    )


def _choose(measured: Sequence[Measured]) -> tuple[list[Measured], list[str]]:
    """What may be fitted to, and in words what may not."""
    alone = [one for one in measured if one.sharing is None]
    over = any(one.nodes > 1 for one in alone)
    used, left_out = [], []
    for one in measured:
        reason = one.sharing
        if reason is None and over and one.nodes == 1:
            reason = "its ranks are on one node, and others use a network"
        if reason is None and not min(one.exchanging) > 0:
            reason = "its operations took no time that the clock could tell"
        if reason is None:
            used.append(one)
        else:
            left_out.append(f"{one.training} at {one.ranks} ranks: {reason}")
    return used, left_out


def _lack(points: int, left_out: Sequence[str]) -> str:
    known = f"{points} exchange{'' if points == 1 else 's'} of synchronous schemes"
    what = (
        f"a latency and a bandwidth cannot be fitted to {known}: that takes three, of which not all"
        " have messages of one size"
    )
    return "\n".join((what, *(f"left out: {one}" for one in left_out)))


def _around(fit: RelativeFit, factors: Sequence[float], *, value: bool) -> Number:
    best = fit.give(factors)
    reach = fit.reach(factors, alpha=ALPHA, value=value)
    return Number(value=best, lower=max(0.0, best - reach), upper=best + reach)


def _point(fit: RelativeFit, one: Measured) -> Point:
    cost = one.cost(one.ranks)
    return Point(
        training=one.training,
        ranks=one.ranks,
        algorithms=tuple(f"{does.name} by {does.algorithm}" for does in one.operations),
        messages=cost.messages,
        bytes=cost.bytes,
        measured=median(one.exchanging),
        model=fit.give(cost),
    )


def _predict(
    fit: RelativeFit, used: Sequence[Measured], worlds: Sequence[int]
) -> Iterator[Prediction]:
    """Of each training and number of samples, by the runs that most ranks shared."""
    kinds: dict[tuple[str, int], list[Measured]] = {}
    for one in used:
        kinds.setdefault((one.training, one.samples), []).append(one)
    for (training, samples), alike in kinds.items():
        largest = max(alike, key=lambda one: one.ranks)
        known = {one.ranks: median(one.step) for one in alike}
        for ranks in sorted({*known, *worlds}):
            communication = _around(fit, largest.cost(ranks).times(largest.part), value=True)
            yield Prediction(
                training=training,
                ranks=ranks,
                samples=samples,
                computing=median(largest.computing),
                communication=communication,
                step=_step(largest, communication),
                measured=known.get(ranks),
            )


def _step(one: Measured, communication: Number) -> Number | None:
    """Computing, and of the communication what goes on beside nothing else."""
    if one.scheme in _GATHERING:
        return None
    computing, hidden = median(one.computing), median(one.hidden) * one.part
    runs = len(one.computing)
    reach = 0.0
    if runs > 1:
        # that of another run, and of the middle of those there are
        error = stdev(one.computing) * (1 + 1 / runs) ** 0.5
        reach = student_quantile(runs - 1, ALPHA) * error
    best, lower, upper = (
        computing + max(0.0, seconds - hidden)
        for seconds in (communication.value, communication.lower, communication.upper)
    )
    return Number(
        value=best,
        lower=max(0.0, best - ((best - lower) ** 2 + reach**2) ** 0.5),
        upper=best + ((upper - best) ** 2 + reach**2) ** 0.5,
    )


def _caveats(fit: RelativeFit, used: Sequence[Measured]) -> Iterator[str]:
    ranks = sorted({one.ranks for one in used})
    yield (
        f"fitted at {' and '.join(map(str, ranks))} ranks: beyond {ranks[-1]} it rests on the"
        " algorithms alone"
    )
    if all(one.nodes == 1 for one in used):
        yield "all ranks were on one node: the numbers are of its memory, and of no network"
    zero = [n for n, one in zip(("latency", "bandwidth"), fit.coefficients, strict=True) if not one]
    for name in zero:
        yield f"the {name} could not be told from none"
    if any(len(one.computing) == 1 for one in used):
        yield "of one run alone it is not known how much another one's computing differs"
    if any(one.scheme in _GATHERING for one in used):
        names = " and ".join(_GATHERING)
        yield f"with {names} a rank adds up more the more ranks there are: no step is predicted"
    yield from CAVEATS


def draw(result: Extrapolation) -> Iterator[str]:
    """The model in lines, then a table for each training, then what it rests on."""
    latency, inverse = result.latency, result.seconds_per_byte
    yield (
        f"a message takes {_time(latency)}, and a megabyte {_time(inverse, 1e6)};"
        f" fitted to {len(result.points)} exchanges, which are off by {result.spread:.0%}"
    )
    algorithms = {(one.training): one.algorithms for one in result.points}
    title: tuple[str, int] | None = None
    for one in result.predictions:
        if title != (one.training, one.samples):
            title = one.training, one.samples
            by = ", ".join(algorithms[one.training])
            yield (
                f"{one.training}: {by}; {one.samples} samples on each rank, which compute"
                f" {_seconds(one.computing)}"
            )
            yield f"  {'ranks':>9}  {'communication':>32}  {'step':>32}  measured"
        step = "not predicted" if one.step is None else _time(one.step)
        seen = "" if one.measured is None else _seconds(one.measured)
        yield f"  {one.ranks:9,}  {_time(one.communication):>32}  {step:>32}  {seen}".rstrip()
    for words in result.left_out:
        yield f"left out: {words}"
    for words in result.caveats:
        yield f"note: {words}"


def _time(number: Number, times: float = 1.0) -> str:
    value, lower, upper = (
        _seconds(one * times) for one in (number.value, number.lower, number.upper)
    )
    return f"{value} ({lower} to {upper})"


def _seconds(value: float) -> str:
    """Three digits, in the unit that suits.

    >>> _seconds(0.0123456), _seconds(2.5e-5), _seconds(0.0), _seconds(75.0)
    ('12.3 ms', '25 us', '0 s', '75 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size or not value:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
