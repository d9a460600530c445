"""Mistakes that authors, evaluators and facilities make, and what they must be told of each.

`tests/data/mistakes.json` says what is due: each message names the cause and the way out. Where
`capsule lint` can see the mistake in a manifest, it says the same. How each is made stands in the
modules of this package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.mistakes import evaluators, machines, manifests, scripts
from tests.support.mistakes.making import Prepare

_DUE = Path(__file__).parents[2] / "data" / "mistakes.json"
_PREPARE: dict[str, Prepare] = {
    **manifests.PREPARE,
    **scripts.PREPARE,
    **machines.PREPARE,
    **evaluators.PREPARE,
}


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """What somebody does wrong.

    Attributes:
        name: In a few words.
        prepare: Does it.
        status: Exit code that is due.
        cause: What the message must say of it.
        way_out: What it must say of mending it; empty where the cause says it.
        lint: Whether `capsule lint` of `tiny.json` says both, too.
        variables: Of the environment.
    """

    name: str
    prepare: Prepare
    status: int
    cause: str
    way_out: str = ""
    lint: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


MISTAKES = tuple(
    Mistake(**due, prepare=_PREPARE[due["name"]]) for due in json.loads(_DUE.read_text())
)
