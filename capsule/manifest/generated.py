"""Generated datasets of a manifest: parameters, and formats in which benchmarks read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capsule.manifest import readings, rules
from capsule.manifest.problems import Problems, instead, quote

OWN = frozenset({"generator", "digest"})
"""Fields of a generated dataset that are no parameters."""


def check(raw: Mapping[str, Any], problems: Problems) -> None:
    """Note generators, parameters and formats that there are none of.

    Args:
        raw: The manifest, of which entries with a problem already are left alone.
        problems: Collects what is wrong.
    """
    for here, entry in rules.entries(raw, "datasets"):
        if "generator" in entry and not problems.below(here):
            _check_parameters(entry, here, problems)
    datasets = dict(rules.entries(raw, "datasets"))
    for here, entry in rules.entries(raw, "benchmarks"):
        if not problems.below(here) and readings.reads(entry):
            name = entry["datasets"][0]
            place = "/datasets/" + name
            if not problems.below(place):
                readings.check(entry, datasets.get(place, {}), here, problems)


def _check_parameters(entry: Mapping[str, Any], here: str, problems: Problems) -> None:
    # whoever reads operators and networks would wait for it
    from capsule.levels.data import generators

    made = generators.GENERATORS.get(entry["generator"])
    if made is None:
        known = instead(entry["generator"], generators.GENERATORS)
        message = f"unknown generator {quote(entry['generator'])}; {known}"
        problems.add(f"{here}/generator", message)
        return
    names = [parameter.name for parameter in made.parameters]
    parameters = {name: value for name, value in entry.items() if name not in OWN}
    for name in parameters.keys() - names:
        message = f"{made.name} has no parameter {quote(name)}; {instead(name, names)}"
        problems.add(f"{here}/{name}", message)
    for name, value in parameters.items():
        if name in names:
            try:
                generators.complete(made.name, {name: value})
            except ValueError as error:
                problems.add(f"{here}/{name}", str(error))
