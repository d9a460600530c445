"""Rules of competitions by which a recipe may go: what of it is fixed, and what its entrants tune.

`mlperf-hpc-closed`: the closed division of MLPerf HPC 3.0 (MLCommons' HPC training rules,
2023-05-15), for the workloads that the catalogue has at full size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capsule.manifest import subjects
from capsule.manifest.kinds import Settings, Target
from capsule.manifest.problems import Problems, instead, quote

Raw = Mapping[str, Any]
TRAININGS = 2, 3
"""The levels of recipes."""


@dataclass(frozen=True)
class Closed:
    """Fields of one workload that a closed division fixes.

    Attributes:
        target: Quality that has to be reached.
        runs: Fewest that count, each under a seed of its own.
        optimizers: Those that are allowed, with the numbers that are fixed in each.
        schedules: Those that are allowed.
    """

    target: float
    runs: int
    optimizers: Mapping[str, Mapping[str, float]]
    schedules: tuple[str, ...]


_EPSILON = {"epsilon": 1e-6}

RULES: Mapping[str, Mapping[str, Closed]] = {
    "mlperf-hpc-closed": {
        "cosmoflow": Closed(
            target=0.124,
            runs=10,
            optimizers={"sgd": {"momentum": 0.9, "nesterov": 0}},
            schedules=("constant", "step", "multistep"),
        ),
        "deepcam": Closed(
            target=0.82,
            runs=5,
            optimizers={
                "adam": _EPSILON,
                "adamw": _EPSILON,
                "lamb": _EPSILON,
                "lamb-nvidia": _EPSILON,
            },
            schedules=("multistep", "cosine"),
        ),
    }
}
"""Closed divisions by name and network; batch, epochs and other fields may be tuned."""


def check(raw: Raw, settings: Mapping[str, Settings], here: str, problems: Problems) -> None:
    """Note where a recipe is not by the rules that it names.

    Args:
        raw: Its entry.
        settings: How each case trains.
        here: Its JSON pointer.
        problems: Collects what is wrong.
    """
    file = subjects.source(raw)
    name, network = raw.get("rules"), file[1] if file else raw["network"]
    if name is None:
        return
    if name not in RULES:
        problems.add(f"{here}/rules", f"unknown rules {quote(name)}; {instead(name, RULES)}")
    elif file or network not in RULES[name]:
        known = ", ".join(RULES[name])
        problems.add(f"{here}/rules", f"{name} has no rules for {network}, only for {known}")
    else:
        for case, made in settings.items():
            for field, message in _deviations(RULES[name][network], network, made):
                problems.add(here + field, f"{message} by {name} (case {case})")


def _deviations(closed: Closed, network: str, made: Settings) -> Iterator[tuple[str, str]]:
    """Yield pointer below the entry, and what is to stand there."""
    # whoever reads operators and networks would wait for it
    from capsule.levels.catalog import training

    wanted = Target(value=closed.target, stop=False)
    if made.target is None or made.target._replace(stop=False) != wanted:
        found = "no target" if made.target is None else f"{made.target.value:g}"
        yield "/target", f"found {found}, expected {training.QUALITY[network]} {closed.target:g}"
    if made.sizes:
        size = next(iter(made.sizes))
        yield "/cases", f"found cases that vary {size}, expected the network in full size"
    if made.optimizer not in closed.optimizers:
        yield "/optimizer", f"found {made.optimizer}, expected {_any(closed.optimizers)}"
    for number, value in closed.optimizers.get(made.optimizer, {}).items():
        if (own := made.numbers.get(number)) != value:
            yield f"/optimizer/{number}", f"found {number} {own}, expected {value:g}"
    if made.schedule not in closed.schedules:
        yield "/schedule/name", f"found {made.schedule}, expected {_any(closed.schedules)}"


def check_runs(entries: Iterable[tuple[str, Raw]], seeds: int, problems: Problems) -> None:
    """Note recipes that rules ask for more runs of.

    Args:
        entries: JSON pointer and entry of each benchmark.
        seeds: How many the manifest has.
        problems: Collects what is wrong.
    """
    for _, entry in entries:
        name, network = entry.get("rules"), entry.get("network")
        closed = RULES.get(str(name), {}).get(str(network))
        if closed is not None and seeds < closed.runs:
            message = f"found {seeds} seeds, expected {closed.runs} or more for {network} by {name}"
            problems.add("/seeds", message)


def refuse(rules: str, entry: Raw, field: list[str]) -> str | None:
    """Return why the entrants of a division may not tune a field, None where they may.

    Args:
        rules: Key of `RULES`.
        entry: A training that is by these rules.
        field: Path below the entry: a field of a recipe, and of optimizer or schedule a name.
    """
    closed = RULES[rules][entry["network"]]
    fixed = closed.optimizers.get(entry["optimizer"]["name"], {})
    if field[0] == "optimizer" and field[1] in fixed:
        return f"{rules} fixes {field[1]} at {fixed[field[1]]:g}: no re-run may change it"
    names = {"optimizer": closed.optimizers, "schedule": closed.schedules}
    if field[-1] == "name" and len(names[field[0]]) == 1:
        return f"{rules} fixes the {field[0]}, {_any(names[field[0]])}: no re-run may change it"
    return None


def _any(names: Any) -> str:
    return " or ".join(names)
