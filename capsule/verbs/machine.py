"""`capsule inventory`, `doctor`, `site`: hardware of this machine, diagnosis, settings."""

from __future__ import annotations

import uuid
from argparse import ArgumentParser
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.verbs import verb
from capsule.verbs.verb import Family, Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Arguments of `inventory`."""

    keep_hosts: bool = False
    json: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--keep-hosts",
        action="store_true",
        help="print host names and serial numbers in plain text (default: salted hashes)",
    )
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


@dataclass(frozen=True, kw_only=True)
class DoctorArguments:
    """Arguments of `doctor`."""

    image: str | None = None
    json: bool = False


def _add_doctor(parser: ArgumentParser) -> None:
    parser.add_argument(
        "image",
        nargs="?",
        default=None,
        metavar="IMAGE",
        help="also look up this image in its registry: docker://HOST/NAME:TAG",
    )
    verb.add_json(parser)


def _doctor(arguments: DoctorArguments, console: Console) -> int:
    from capsule import doctor, report
    from capsule.errors import CannotRunError

    findings = doctor.examine(arguments.image)
    if arguments.json:
        console.document({"findings": [asdict(finding) for finding in findings]})
    else:
        console.show(*report.draw_findings(findings))
    if any(finding.word == "missing" for finding in findings):
        return CannotRunError.exit_code
    return 0


@dataclass(frozen=True, kw_only=True)
class InitArguments:
    """Arguments of `site init`."""

    file: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ShowArguments:
    """Arguments of `site show`."""

    json: bool = False


def _add_init(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=None,
        metavar="FILE",
        help="site file to write (default: ~/.config/capsule/site.json, for your account);"
        " /etc/capsule/site.json applies to all users",
    )


def _init(arguments: InitArguments, console: Console) -> int:
    from capsule import runtimes, site

    engines = runtimes.engines()
    usable = (engine.name for engine in engines if engine.available().usable)
    own = site.own_file()
    file = arguments.file or own
    cache = site.cache_parent(site.load()) if file == own else None
    site.write(file, runtime=next(usable, "auto"), cache=cache)
    console.data(f"wrote {file}")
    console.data("null keeps the default of a setting")
    console.data("to print the settings in force: `capsule site show`")
    console.data("docs/how-to/set-up-a-site.md explains each setting")
    return 0


def _show(arguments: ShowArguments, console: Console) -> int:
    from capsule import report, site

    wide, own = site.wide_file(), site.own_file()
    settings = site.describe(site.load())
    if arguments.json:
        console.document(
            {
                "files": {"site": str(wide), "own": str(own)},
                "settings": [asdict(setting) for setting in settings],
            }
        )
    else:
        console.show(*report.draw_site(settings, wide, own))
    return 0


DOCTOR = Verb(
    name="doctor",
    examples=("capsule doctor", "capsule doctor docker://registry.example/torch:1 --json"),
    add=_add_doctor,
    act=verb.door(DoctorArguments, _doctor),
)
SITE = Family(
    name="site",
    examples=("capsule site show",),
    verbs=(
        Verb(
            name="init",
            purpose="write a complete site file for this machine",
            examples=("capsule site init", "capsule site init /etc/capsule/site.json"),
            one="file",
            add=_add_init,
            act=verb.door(InitArguments, _init),
        ),
        Verb(
            name="show",
            purpose="print the settings in force, and the source of each",
            examples=("capsule site show",),
            add=verb.add_json,
            act=verb.door(ShowArguments, _show),
        ),
    ),
)
