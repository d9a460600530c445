"""Phrases of verdicts: a number, its interval, and the margin with its source."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from capsule.freezing import COUNTED_STEPS, UNKNOWN_RUNS, fraction_error, spreads
from capsule.manifest import Margin
from capsule.population import independent
from capsule.record import FrozenClaim
from capsule.summary import MetricRuns

# of a log or of a list, what a sentence still holds
_LONGEST_QUOTE = 160
_LISTED = 3
# powers of ten between which a number is written out
_SMALLEST_POWER, _LARGEST_POWER = -4, 6
_MOST_DECIMALS = 9


def number(value: float | None, digits: int = 3) -> str:
    """A number as people write it, short enough for a table.

    Below a million the digits before the point are all there, also beyond `digits`: a percentage
    of 99.96 is 100, and 2334 s are not 2.33e+03.

    >>> number(0.00456789), number(1234567.0), number(18.0), number(None)
    ('0.00457', '1.23e6', '18', 'none')
    >>> number(99.96), number(2334.4), number(0.0000654)
    ('100', '2334', '6.54e-5')
    """
    if value is None:
        return "none"
    if not math.isfinite(value):
        return "unbounded" if math.isinf(value) else "not a number"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if value == 0 or _SMALLEST_POWER <= power < _LARGEST_POWER:
        return _trim(f"{value:.{max(0, digits - 1 - power)}f}")
    return f"{_trim(mantissa)}e{power}"


def _trim(digits: str) -> str:
    """Digits without the zeros that end a fraction."""
    short = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if short == "-0" else short


def count(n: int, thing: str, things: str = "") -> str:
    """A number of things, in the singular where it is one.

    >>> count(1, "run"), count(3, "run"), count(2, "pass", "passes")
    ('1 run', '3 runs', '2 passes')
    """
    return f"{n} {thing if n == 1 else things or f'{thing}s'}"


def every(n: int, things: str) -> str:
    """All of two things or more.

    >>> every(2, "claims"), every(3, "claims")
    ('both claims', 'all 3 claims')
    """
    return f"both {things}" if n == 2 else f"all {n} {things}"


def limits(
    estimate: float | None,
    lower: float | None,
    upper: float | None,
    *,
    log: bool,
    is_signed: bool = False,
) -> str:
    """Return an estimate with its interval, put back from logarithms where they were taken.

    >>> limits(0.0, -0.1, 0.1, log=True)
    '1 (interval 0.905 to 1.105)'
    >>> limits(-0.0105, -0.02891, 0.0078, log=False, is_signed=True)
    '-0.0105 (interval -0.0289 to +0.0078)'
    """
    value, low, high = format_interval(estimate, lower, upper, log=log, is_signed=is_signed)
    return f"{value} (interval {low} to {high})"


def format_interval(
    estimate: float | None,
    lower: float | None,
    upper: float | None,
    *,
    log: bool,
    is_signed: bool = False,
) -> tuple[str, str, str]:
    """Return an estimate and its limits, with digits that tell the limits apart.

    Args:
        estimate: None where there is none.
        lower: None where the interval is open.
        upper: None where the interval is open.
        log: Whether these are logarithms, which are put back.
        is_signed: Whether positive numbers have a plus.
    """
    values = [natural(value, log=log) for value in (estimate, lower, upper)]
    finite = [value for value in values if value is not None and math.isfinite(value)]
    write = _writer(finite, is_ratio=log)
    first, low, high = (
        "unbounded"
        if value is None or not math.isfinite(value)
        else f"{'+' * (is_signed and value > 0)}{write(value)}"
        for value in values
    )
    return first, low, high


def _writer(values: Sequence[float], *, is_ratio: bool) -> Callable[[float], str]:
    """Return what writes numbers so that three digits of the distance between them show.

    Args:
        values: The numbers.
        is_ratio: Whether a small one says as much as a large one: each shows three digits, too.
    """
    size = max(map(abs, values), default=0.0)
    width = max(values, default=0.0) - min(values, default=0.0)
    if not 0 < width < math.inf:
        return number
    decimals = max(0, 2 - math.floor(math.log10(width)))
    smallest = min((value for value in values if value > 0), default=size)
    if is_ratio and decimals < 2 - math.floor(math.log10(smallest)):
        return number
    if size < 10**_LARGEST_POWER and decimals <= _MOST_DECIMALS:
        return lambda value: _trim(f"{value:.{decimals}f}")
    digits = min(12, max(3, 2 + math.ceil(math.log10(size) - math.log10(width))))
    return lambda value: number(value, digits)


def natural(value: float | None, *, log: bool) -> float | None:
    """A value on the metric's own scale: a ratio or a value where logarithms were judged."""
    if value is None or not log:
        return value
    return math.exp(value) if value < 700 else math.inf


def margin(claim: FrozenClaim, original: MetricRuns) -> str:
    """Return the frozen margin as a number, and where it came from."""
    value, source = split_margin(claim, original)
    return f"{value} ({source})" if source else value


def split_margin(claim: FrozenClaim, original: MetricRuns) -> tuple[str, str]:
    """Return the frozen margin, and where it came from; empty for the author's own number."""
    end = claim.upper if claim.upper is not None else -(claim.lower or 0.0)
    if end == 0 and claim.scale == "linear":
        return "0", _why_zero(claim, original)
    if claim.margin_source == "spread":
        return number(end), _source(claim, original, end)
    author = claim.pattern.margin or Margin()
    if claim.scale == "log":
        return f"a factor of {number(natural(end, log=True), 4)}", ""
    if author.relative is not None:
        return number(end), f"{number(100 * author.relative)} % of {_mean_of(claim)}"
    return number(end), ""


def _why_zero(claim: FrozenClaim, original: MetricRuns) -> str:
    """Return what leaves no room for any difference; empty where the author wrote 0."""
    author = claim.pattern.margin or Margin()
    if claim.margin_source == "spread":
        if claim.pattern.published is not None:
            return "the published standard deviation is 0"
        return f"{_runs(claim, original)} all have the same value"
    if author.relative is not None:
        return f"{number(100 * author.relative)} % of {_mean_of(claim)}, which is 0"
    return ""


def _mean_of(claim: FrozenClaim) -> str:
    if claim.pattern.published:
        return "the published mean"
    return "the mean of the runs that were sealed first" if claim.later else "the original's mean"


def _source(claim: FrozenClaim, original: MetricRuns, end: float) -> str:
    """Return the source of a default margin in words: a step, a test set or the spread."""
    step = original.resolution if claim.resolution is None else claim.resolution
    if step > 0 and end == 1.5 * step:
        return f"1.5 steps of {number(step)}"
    if original.test_set is not None and end == fraction_error(original):
        return f"one standard error of {original.test_set} test examples"
    source = f"{number(spreads(claim.pattern))} sd of {_runs(claim, original)}"
    if claim.later and original.test_set is not None:
        # runs that came later move the error that the margin may have been no less than
        source = (
            f"the larger of {source} and one standard error of {original.test_set} test examples"
        )
    on_a_half = 0 < end < COUNTED_STEPS * step and (math.floor(end / step) + 0.5) * step == end
    return f"{source}, put halfway between two steps of {number(step)}" if on_a_half else source


def _runs(claim: FrozenClaim, original: MetricRuns) -> str:
    published = claim.pattern.published
    if published is not None:
        return f"the {published.n or UNKNOWN_RUNS} published runs"
    if claim.later:
        return "the runs that were sealed first"
    return f"the original's {len(independent(original).values)} runs"


def shorten(line: str) -> str:
    """A line of somebody's log, cut to what a sentence can hold."""
    return line if len(line) <= _LONGEST_QUOTE else f"{line[: _LONGEST_QUOTE - 3]}..."


def some(numbers: Sequence[int]) -> str:
    """Some numbers, the first of them if they are many.

    >>> some([5]), some([5, 6, 7]), some([5, 6, 7, 8, 9])
    ('5', '5, 6 and 7', '5, 6, 7 and 2 more')
    """
    shown = list(map(str, numbers if len(numbers) <= _LISTED else numbers[:_LISTED]))
    if len(numbers) > _LISTED:
        return f"{', '.join(shown)} and {len(numbers) - _LISTED} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def region(claim: FrozenClaim, original: MetricRuns | None) -> str:
    """Return the region that a frozen claim allows, for a table of claims."""
    if claim.type == "exact":
        return "equal values under equal seeds"
    if claim.type == "ratio":
        return "reported only"
    if claim.type == "threshold":
        return constants(claim)
    if claim.type == "bound":
        return f"every run {constants(claim)}"
    if claim.type == "distribution":
        return f"distance below {number(claim.upper)}"
    if original is None or (claim.lower is None and claim.upper is None):
        return "no margin"
    allowed = margin(claim, original)
    if claim.type == "noninferiority":
        return f"worse by at most {allowed}"
    return f"within {allowed}{' at every step' if claim.type == 'curve' else ''}"


def constants(claim: FrozenClaim) -> str:
    """Return the constants of a claim in words, such as `at most 1`."""
    ends = (("at least", claim.pattern.at_least), ("at most", claim.pattern.at_most))
    return " and ".join(f"{name} {number(value)}" for name, value in ends if value is not None)
