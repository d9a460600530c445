"""The verbs of the command, one module a family: its arguments and its action side by side.

    run      run                      read      check, show
    submit   submit
    verify   verify                   author    init, lint
    reread   reread                   stage     stage
    pair     pair                     machine   inventory, doctor, site
    diff     diff
    data     data hash, generate      image     image resolve, save
    sweep    sweep show, winner       export    export csv, figure

Each turns what was typed into a frozen dataclass, calls `capsule.api` with it, or the room behind
where that is all it needs, and prints what comes back. A module is imported when its verb is typed,
and what an action needs when it runs: `capsule --help` must not wait.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capsule.verbs.verb import Family, Verb

TABLE: Mapping[str, str] = {
    "run": "run a manifest's benchmarks and seal one capsule",
    "submit": "have Slurm run a manifest, follow the job and show what it sealed",
    "verify": "re-execute a capsule here with fresh seeds and judge its claims",
    "reread": "read a capsule's numbers again by a corrected manifest; executes nothing",
    "pair": "run two variants by turns on this machine and judge the ratio of their times",
    "diff": "judge the claims of one capsule by the runs of others",
    "check": "check a capsule's integrity and form; executes nothing",
    "show": "show what a capsule holds",
    "export": "write a capsule's numbers as CSV, or draw them",
    "sweep": "show what a search gave, or run its winner again",
    "init": "write a manifest to start from",
    "lint": "check a manifest, and say what its number of seeds can confirm",
    "stage": "fetch what a run or verification will need where there is no network",
    "inventory": "print what this machine is",
    "doctor": "try what works on this machine, and say what to ask its site for",
    "site": "write or show the settings of this machine",
    "data": "name, fetch or make datasets",
    "image": "resolve an image, or write it to a file",
}
"""Every verb, and what it is for."""
# where that is not the verb's own name; there it is a constant by its name
_MODULES = {
    "check": "read",
    "show": "read",
    "init": "author",
    "lint": "author",
    "inventory": "machine",
    "doctor": "machine",
    "site": "machine",
}


def load(name: str) -> Verb | Family:
    """The verb of that name, or the family of verbs.

    Args:
        name: One of `TABLE`.
    """
    module = import_module(f"capsule.verbs.{_MODULES.get(name, name)}")
    entry: Verb | Family = getattr(module, name.upper())
    return entry
