"""Precision of a run's trials: switches that held in them, and products off tensor cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from capsule import notes, plain
from capsule.execute.reports import TrialReport
from capsule.jsons import JsonObject
from capsule.manifest import Network, Operator, Recipe
from capsule.notes import Note
from capsule.plan import Trial

Reported = Sequence[tuple[Trial, TrialReport]]
"""Trials, each with what it reported."""

Switches = Mapping[str, bool | None]


def add_switches(effective: Mapping[str, JsonObject], reported: Reported) -> dict[str, JsonObject]:
    """Return effective settings with the switches that held in trials, for those before any trial.

    A switch with one value in all element types is a setting like others; `dtypes` has the rest, by
    element type.

    Args:
        effective: By framework.
        reported: All trials.
    """
    settled = dict(effective)
    for framework, dtypes in _collect(reported).items():
        environment = settled.get(framework, {})
        before = environment.get("settings")
        names = {name for switches in dtypes.values() for name in switches}
        common = {
            name: values.pop()
            for name in sorted(names)
            if len(values := {switches.get(name) for switches in dtypes.values()}) == 1
        }
        apart = {
            dtype: {name: on for name, on in sorted(switches.items()) if name not in common}
            for dtype, switches in sorted(dtypes.items())
        }
        settings = dict(before) if isinstance(before, Mapping) else {}
        kept = {name: value for name, value in settings.items() if name not in names}
        differing = {"dtypes": apart} if len(common) < len(names) else {}
        settled[framework] = {**environment, "settings": {**kept, **common, **differing}}
    return settled


def note_plain_products(reported: Reported) -> Iterator[Note]:
    """Yield a note for each element type in which a GPU computed products without tensor cores."""
    found: dict[str, dict[str, str]] = {}
    for trial, report in reported:
        if report.off_tensor_cores and report.outcome == "completed":
            case = trial.id.rpartition("/")[0]
            found.setdefault(_name_dtype(trial), {}).setdefault(case, report.off_tensor_cores)
    for dtype, cases in sorted(found.items()):
        case, kernel = next(iter(cases.items()))
        yield notes.plain_products(
            dtype=dtype, case=case, kernel=plain.clean(kernel), cases=len(cases)
        )


def _collect(reported: Reported) -> dict[str, dict[str, Switches]]:
    """Return switches by framework and element type, on where they were in one of its trials."""
    held: dict[str, dict[str, Switches]] = {}
    for trial, report in reported:
        if report.switches:
            dtypes = held.setdefault(trial.framework, {})
            own = dtypes.get(_name_dtype(trial), {})
            now = {name: own.get(name) or on for name, on in report.switches.items()}
            dtypes[_name_dtype(trial)] = {**own, **now}
    return held


def _name_dtype(trial: Trial) -> str:
    """Return the element type of what a trial measures; empty where it has none."""
    match trial.benchmark.subject:
        case Operator(dtype=dtype) | Network(dtype=dtype) | Recipe(dtype=dtype):
            return dtype
    return ""
