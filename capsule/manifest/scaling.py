"""A training at several numbers of ranks, each a case: what is compared, and what that yields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capsule.levels.catalog import schemes, splitting
from capsule.manifest import collectives
from capsule.manifest.kinds import LEVEL_OF_RANKS, Collective, Command, Recipe, Scaling, Settings
from capsule.manifest.model import Benchmark, Case, Metric
from capsule.manifest.problems import Problems

Raw = Mapping[str, Any]

RANKS = "ranks"
"""Parameter of a case: how many ranks there are in it."""

THROUGHPUT = "training_throughput"
"""Metric by which cases are compared: it has whatever ranks exchange, and however seldom."""

SPEEDUP = Metric(name="speedup", direction="higher", kind="machine", per="trial")
EFFICIENCY = Metric(name="efficiency", direction="higher", kind="machine", per="trial")
SHARE = Metric(name="communication_share", direction="lower", kind="machine", per="trial")
_MOST = 65_536


def check(raw: Raw, cases: Sequence[Case], here: str, problems: Problems) -> None:
    """Note what is no sweep over ranks.

    Args:
        raw: An entry of which all else is right.
        cases: Its.
        here: Its JSON pointer.
        problems: Collects what is wrong.
    """
    place = f"{here}/cases" if "cases" in raw else here
    sizes = [case.parameters.get(RANKS) for case in cases]
    if "scaling" not in raw:
        if sizes.count(None) < len(sizes):
            message = (
                'the cases compare numbers of ranks: set "scaling" to "strong" if "batch" is the'
                ' batch of all ranks together, or to "weak" if "batch" is the batch of each rank'
            )
            problems.add(place, message)
        return
    if raw["level"] != LEVEL_OF_RANKS:
        problems.add(f"{here}/scaling", f"scaling needs level 3, found level {raw['level']}")
    elif schemes.SCHEMES[raw["scheme"]["name"]].independent:
        message = (
            'independent ranks share no work, so their efficiency is undefined: remove "scaling"'
        )
        problems.add(f"{here}/scaling", message)
    elif None in sizes:
        message = 'scaling needs several numbers of ranks in cases, for example {"ranks": [1, 2]}'
        problems.add(f"{here}/scaling", message)
    else:
        for size in sizes:
            whole = isinstance(size, int | float) and not isinstance(size, bool) and size % 1 == 0
            if not whole or not 1 <= float(size or 0) <= _MOST:
                message = f"ranks is {size!r}, expected a whole number from 1 to {_MOST}"
                problems.add(place, message)
        if not problems.below(place) and not _bases(cases):
            message = (
                f"found ranks {', '.join(map(str, sizes))}; scaling needs several numbers of ranks"
                ' in cases that are otherwise equal, for example {"ranks": [1, 2]}'
            )
            problems.add(place, message)


def read_ranks(case: Case) -> int | None:
    """Return the number of ranks of a checked case; None if the resources give it."""
    return int(case.parameters[RANKS]) if RANKS in case.parameters else None


def read(raw: Raw, cases: Sequence[Case]) -> Scaling | None:
    """Return the compared numbers of ranks of an entry, or None."""
    return Scaling(raw["scaling"], _bases(cases)) if "scaling" in raw else None


def _bases(cases: Sequence[Case]) -> Mapping[str, str]:
    """Return, by case name, the otherwise equal case with the fewest ranks."""
    fewest: dict[object, tuple[int, str]] = {}
    for case in cases:
        fewest[_others(case)] = min(fewest.get(_others(case), _size(case)), _size(case))
    return {
        case.name: base
        for case in cases
        for ranks, base in [fewest[_others(case)]]
        if _size(case)[0] > ranks
    }


def _others(case: Case) -> object:
    return frozenset(pair for pair in case.parameters.items() if pair[0] != RANKS)


def _size(case: Case) -> tuple[int, str]:
    return read_ranks(case) or 0, case.name


def ranks_of(benchmark: Benchmark, case: str) -> int | None:
    """Return a case's own number of ranks; None if the resources give it."""
    match benchmark.subject:
        case Recipe(settings=settings):
            return settings[case].ranks
        case _:
            return None


def metrics_in(benchmark: Benchmark, pattern: str) -> tuple[Metric, ...]:
    """Return the metrics that are derived from several ranks or cases; `*` for any case."""
    if benchmark.scaling is None:
        return ()
    cases = (case.name for case in benchmark.cases if pattern in ("*", case.name))
    return tuple(dict.fromkeys(one for case in cases for one in metrics(benchmark, case)))


def metrics(benchmark: Benchmark, case: str) -> tuple[Metric, ...]:
    """Return the same for one of its cases."""
    if benchmark.scaling is None:
        return ()
    share = () if ranks_of(benchmark, case) == 1 else (SHARE,)
    return (*share, SPEEDUP, EFFICIENCY) if case in benchmark.scaling.bases else share


def check_world(benchmarks: Sequence[Benchmark], ranks: int, problems: Problems) -> None:
    """Note what several ranks have no use for, and batches that they cannot share.

    Args:
        benchmarks: All.
        ranks: That the resources have.
        problems: Collects what is wrong.
    """
    for index, one in enumerate(benchmarks):
        match one.subject:
            case Command():
                continue
            case Recipe(settings=settings, level=level) if level == LEVEL_OF_RANKS:
                reasons = (
                    _refuse(how, case, one.subject.name, ranks) for case, how in settings.items()
                )
                if reason := next(filter(None, reasons), None):
                    problems.add(f"/benchmarks/{index}", reason)
            case Collective():
                collectives.check(one, ranks, f"/benchmarks/{index}", problems)
            case _ if ranks > 1:
                message = f"found {ranks} ranks, but {one.id} runs in one process: only commands"
                problems.add("/resources", f"{message} and level 3 have several ranks")


def _refuse(how: Settings, case: str, network: str, ranks: int) -> str | None:
    assert how.scheme is not None
    own = how.ranks or ranks
    if own > ranks:
        return (
            f"the case {case} has {own} ranks, expected at most the {ranks} of the resources: set"
            " nodes times ranks_per_node to the largest number of ranks"
        )
    shares = how.batch, own, how.accumulate, how.batch_norm_group
    name = how.scheme.name
    if (reason := schemes.refuse_shares(name, network, *shares)) is not None:
        return reason
    if schemes.SCHEMES[name].splits_network:
        return splitting.refuse(name, network, how.sizes, own)
    return None
