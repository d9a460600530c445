"""Names of files that metrics are read from, with placeholders: `runs/{case}/log-{seed}.txt`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from capsule.manifest import commands, templates
from capsule.manifest.model import Case
from capsule.manifest.problems import Problems, quote
from capsule.schema import pointer

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*", re.ASCII)
_LONGEST = 200


def check(metrics: Mapping[str, Any], cases: Sequence[Case], here: str, problems: Problems) -> None:
    """Note placeholders that nobody can fill, and names that are none once they are filled.

    Args:
        metrics: The metrics of a command, which fit the schema.
        cases: Its cases.
        here: JSON pointer of the metrics.
        problems: Collects what is wrong.
    """
    for name, metric in metrics.items():
        file = metric.get("from", {}).get("file")
        if file is None:
            continue
        place = here + pointer(name, "from", "file")
        known = commands.placeholders(cases, commands.NAME_PLACEHOLDERS)
        unknown = [one for one in templates.names(file) if one not in known]
        for one in unknown:
            problems.add(place, _fault(one, known))
        if not unknown:
            _check_names(file, cases, place, problems)


def _fault(name: str, known: Sequence[str]) -> str:
    if name == "out":
        return "the path is already relative to {out}; remove {out}"
    return commands.fault(name, known)


def _check_names(file: str, cases: Sequence[Case], place: str, problems: Problems) -> None:
    for case in cases:
        values = commands.name_values(case, trial="a/b/c/0", seed=0, rank=0)
        name = templates.fill(file, values)
        if not _PLAIN.fullmatch(name) or len(name) > _LONGEST:
            of_case = "" if len(cases) == 1 else f" in the case {case.name}"
            due = f"of at most {_LONGEST} characters, such as logs/train.csv"
            message = f"{quote(name)}{of_case} is not a plain relative path {due}"
            problems.add(place, message)
            return
