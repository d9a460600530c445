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
    "run": "run a manifest's benchmarks and seal a capsule",
    "submit": "run a manifest in a Slurm job, follow the job and show its capsule",
    "verify": "re-run a capsule on this machine under fresh seeds and judge its claims",
    "reread": "read a capsule's values again with a corrected manifest, without a new run",
    "pair": "run two variants alternately on this machine and judge the ratio of their times",
    "diff": "judge the claims of one capsule by the runs of other capsules",
    "check": "check a capsule's integrity and form, without running it",
    "show": "show the contents of a capsule",
    "export": "write a capsule's numbers as CSV, or draw them",
    "sweep": "show the results of a search, or write a manifest of its winner",
    "init": "write a manifest to start from",
    "lint": "check a manifest, and show which margins its number of seeds can confirm",
    "stage": "fetch image and datasets for an offline run or verification",
    "inventory": "print the hardware and software of this machine",
    "doctor": "diagnose this machine, and say what to ask its site for",
    "site": "write or show the settings of this machine",
    "data": "hash, fetch or generate datasets",
    "image": "print the digests of an image, or write it to a file",
}
"""Purpose of every verb."""
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
    """Return the verb or family of that name.

    Args:
        name: A key of `TABLE`.
    """
    module = import_module(f"capsule.verbs.{_MODULES.get(name, name)}")
    entry: Verb | Family = getattr(module, name.upper())
    return entry
