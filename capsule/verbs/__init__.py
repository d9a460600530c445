"""The verbs of the command, one module a family: its arguments and its action side by side.

    run      run                      read      check, show
    verify   verify                   author    init, lint
    reread   reread
    pair     pair                     machine   inventory
    diff     diff
    data     data hash, generate      image     image resolve, build

Each turns what was typed into a frozen dataclass, calls `capsule.api` with it, or the room behind
where that is all it needs, and prints what comes back. A module is imported when its verb is typed,
and what an action needs when it runs: `capsule --help` must not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capsule.verbs.verb import Family, Verb

TABLE: Mapping[str, str] = {
    "run": "run a manifest's benchmarks and seal one capsule",
    "verify": "re-execute a capsule here with fresh seeds and judge its claims",
    "reread": "read a capsule's numbers again by a corrected manifest; executes nothing",
    "pair": "run two variants by turns on this machine and judge the ratio of their times",
    "diff": "judge the claims of one capsule by the runs of others",
    "check": "check a capsule's integrity and form; executes nothing",
    "show": "show what a capsule holds",
    "init": "write a manifest to start from",
    "lint": "check a manifest, and say what its number of seeds can confirm",
    "inventory": "print what this machine is",
    "data": "name or make datasets",
    "image": "resolve or build images",
}
"""Every verb, and what it is for."""


def load(name: str) -> Verb | Family:  # noqa: PLR0912 - one case a verb
    """The verb of that name, or the family of verbs.

    Raises:
        KeyError: There is none.
    """
    match name:
        case "run":
            from capsule.verbs.run import RUN

            return RUN
        case "verify":
            from capsule.verbs.verify import VERIFY

            return VERIFY
        case "reread":
            from capsule.verbs.reread import REREAD

            return REREAD
        case "pair":
            from capsule.verbs.pair import PAIR

            return PAIR
        case "diff":
            from capsule.verbs.diff import DIFF

            return DIFF
        case "check":
            from capsule.verbs.read import CHECK

            return CHECK
        case "show":
            from capsule.verbs.read import SHOW

            return SHOW
        case "init":
            from capsule.verbs.author import INIT

            return INIT
        case "lint":
            from capsule.verbs.author import LINT

            return LINT
        case "inventory":
            from capsule.verbs.machine import INVENTORY

            return INVENTORY
        case "data":
            from capsule.verbs.data import DATA

            return DATA
        case "image":
            from capsule.verbs.image import IMAGE

            return IMAGE
        case _:
            raise KeyError(name)
