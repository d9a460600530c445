"""`capsule inventory`: what this machine is, as a run on it would record it."""

from __future__ import annotations

import uuid
from argparse import ArgumentParser
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from capsule.verbs import verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What was typed."""

    keep_hosts: bool = False
    json: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("--keep-hosts", action="store_true", help="host names in clear")
    verb.add_json(parser)


def _inventory(arguments: Arguments, console: Console) -> int:
    from capsule import inventory, report, runtimes

    node = inventory.node(salt=uuid.uuid4().hex, keep_hosts=arguments.keep_hosts)
    engines = runtimes.available_all()
    if arguments.json:
        facts = {name: asdict(engine) for name, engine in engines.items()}
        console.document({**node, "engines": facts})
    else:
        console.show(*report.draw_inventory(node, engines))
    return 0


INVENTORY = Verb(
    name="inventory",
    examples=("capsule inventory --json",),
    add=_add,
    act=verb.door(Arguments, _inventory),
)
