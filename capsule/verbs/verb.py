"""A verb of the command: its arguments, its action, and the one door between them."""

from __future__ import annotations

import argparse
import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from capsule.errors import UsageError

if TYPE_CHECKING:
    from capsule.console import Console
    from capsule.manifest import Scalar
    from capsule.options import Limits, StartOptions
    from capsule.verdict import Verdict

_Arguments = TypeVar("_Arguments")
_MOST_RUNS = 1000
# an engine and an interpreter alone are a few; the kernel counts no further
_FEWEST_TASKS, _MOST_TASKS = 16, 1 << 22
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One verb.

    Attributes:
        name: As it is typed.
        examples: Whole command lines.
        purpose: Of a verb in a family; the others have theirs in `verbs.TABLE`.
        one: What it takes one of; empty for a verb that takes several or none.
        takes_command: Whether what stands behind `--` is a command of somebody's, its `command`.
        add: Adds its arguments to a parser.
        act: Does what the parsed values ask for, and returns the exit code.
    """

    name: str
    examples: tuple[str, ...]
    purpose: str = ""
    one: str = ""
    takes_command: bool = False
    add: Callable[[ArgumentParser], None]
    act: Callable[[Mapping[str, object], Console], int]


class Family(NamedTuple):
    """Verbs under a common word, such as `data hash` and `data generate`."""

    name: str
    examples: tuple[str, ...]
    verbs: tuple[Verb, ...]


def door(
    arguments: Callable[..., _Arguments], act: Callable[[_Arguments, Console], int]
) -> Callable[[Mapping[str, object], Console], int]:
    """An action upon parsed values, which become typed arguments by their names.

    Args:
        arguments: A dataclass whose fields are the parser's destinations; what the command line
            leaves out has the field's own default.
        act: Does what the arguments ask for.
    """

    def run(values: Mapping[str, object], console: Console) -> int:
        return act(arguments(**values), console)

    return run


def add_json(parser: ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_full(parser: ArgumentParser) -> None:
    """Add `--full`."""
    parser.add_argument(
        "--full", action="store_true", help="print every claim and all that is not the same"
    )


def add_frameworks(parser: ArgumentParser) -> None:
    """Add `--frameworks`."""
    parser.add_argument(
        "--frameworks",
        type=names,
        metavar="NAME,...",
        help="these of the manifest's frameworks alone, such as those that the image has",
    )


def add_runtime(parser: ArgumentParser) -> None:
    """Add what starts a run, and in which image."""
    parser.add_argument(
        "--runtime",
        choices=("auto", "apptainer", "docker", "podman", "host"),
        help="what starts the image; auto (default): the site file's choice, else Apptainer, else"
        " Docker, else Podman; host without an image",
    )
    parser.add_argument(
        "--image",
        metavar="REF",
        help="docker://HOST/NAME@sha256:..., or a file: SIF, OCI layout, docker save",
    )


def add_execution(parser: ArgumentParser) -> None:
    """Add what `run` and `verify` have in common."""
    add_runtime(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the capsule to write")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="folder of the run while it is under way"
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="print what the workload prints while it runs; else a terminal shows its last line",
    )
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with an interrupted run")
    add_offline(parser)
    add_privacy(parser)
    add_keyring(parser)


def add_keyring(parser: ArgumentParser) -> None:
    """Add what leaves the user's keys in reach of a workload."""
    parser.add_argument(
        "--keep-keyring",
        action="store_true",
        help="leave your keys of the kernel, such as AFS tokens, in reach of workloads; recorded",
    )


def add_offline(parser: ArgumentParser) -> None:
    """Add what keeps capsule itself off the network."""
    parser.add_argument(
        "--offline",
        action="store_true",
        help="connect to nothing: `capsule stage` brings here what it takes",
    )


def add_privacy(parser: ArgumentParser) -> None:
    """Add what says how much of this machine and its user is sealed."""
    parser.add_argument(
        "--keep-hosts", action="store_true", help="record host names and serial numbers in clear"
    )
    parser.add_argument(
        "--strict-privacy",
        action="store_true",
        help="seal nothing that holds a name of this machine or user, or what looks like a key;"
        " without it that is told",
    )


def add_permission(parser: ArgumentParser, whose: str) -> None:
    """Add what lets somebody else's code run here."""
    parser.add_argument("--trust", action="store_true", help=f"let {whose} execute its code here")
    parser.add_argument(
        "--allow-host",
        action="store_true",
        help="let it execute without a container, or by an engine that cannot close the network",
    )


def add_limits(parser: ArgumentParser, default: str) -> None:
    """Add what a run may take."""
    parser.add_argument(
        "--walltime",
        type=seconds,
        metavar="HH:MM:SS",
        help=f"cut the run off after so long, to be resumed{default}",
    )
    parser.add_argument(
        "--disk",
        type=size,
        metavar="SIZE",
        help=f"what a process start may leave on the disk, such as 500M or 20G{default}",
    )
    parser.add_argument(
        "--pids",
        type=tasks,
        metavar="N",
        help=f"processes and threads that a process start may have{default}",
    )
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="memory that the processes of a start may use together, such as 8G; a trial that uses"
        " more has failed",
    )


def seconds(text: str) -> int:
    """A duration, as typed."""
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration HH:MM:SS, such as 12:00:00")
    hours, minutes, rest = map(int, parts)
    total = 3600 * hours + 60 * minutes + rest
    if total == 0:
        raise argparse.ArgumentTypeError("a run takes more than no time")
    return total


def size(text: str) -> int:
    """A number of bytes, as typed."""
    number, unit = text.rstrip("KMGTiB"), text.lstrip("0123456789").removesuffix("B")
    power = _UNITS.get(unit.removesuffix("i"))
    if power is None or not number.isdecimal() or not 0 < len(number) < 10 or int(number) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 500M or 20G")
    return int(number) << power


def tasks(text: str) -> int:
    """A number of processes and threads, as typed."""
    if not text.isdecimal() or not _FEWEST_TASKS <= int(text) <= _MOST_TASKS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number from {_FEWEST_TASKS} to {_MOST_TASKS}"
        )
    return int(text)


def count(text: str) -> int:
    """A number of runs, as typed."""
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_RUNS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST_RUNS}")
    return int(text)


def pair(text: str) -> tuple[str, str]:
    """NAME=VALUE, as typed."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def setting(text: str) -> tuple[str, Scalar]:
    """FIELD=VALUE of a manifest, as typed."""
    from capsule.manifest import mutable

    try:
        return mutable.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def path(text: str) -> Path:
    """A file or folder of this machine, as typed."""
    from capsule.fetching import is_remote

    if is_remote(text):
        raise argparse.ArgumentTypeError(
            f"{text} is an address, and a file is needed here: download it first"
        )
    return Path(text)


def names(text: str) -> tuple[str, ...]:
    """Words between commas, as typed."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def refuse_several(verb: str, one: str, words: Sequence[str]) -> UsageError:
    """The error where a pattern of the shell's matched several files, and one is meant."""
    return UsageError(
        f"{verb} takes one {one}; these match: {', '.join(words)}", advice="name one of them"
    )


def refuse_beside_resume(options: StartOptions, kind: type[StartOptions]) -> None:
    """Stop where an option asks for something else than what a run was begun with.

    Args:
        options: As given beside `--resume`.
        kind: The class whose fields they are.

    Raises:
        UsageError: Names the option.
    """
    from capsule.options import ResumeOptions

    free = {field.name for field in fields(ResumeOptions)}
    for field in fields(kind):
        if field.name not in free and getattr(options, field.name) != field.default:
            raise conflict(f"--{field.name.replace('_', '-')}")


def conflict(option: str) -> UsageError:
    """The error of an option that stands beside `--resume`."""
    return UsageError(
        f"--resume and {option} exclude each other",
        advice="the run goes on as it was begun, which its folder says",
    )


def without_resume(option: str) -> UsageError:
    """The error of an option that is only of use beside `--resume`."""
    return UsageError(
        f"{option} goes with --resume: a manifest that you name runs as yours",
        advice=f"leave {option} out",
    )


def limit_flags(limits: Limits) -> dict[str, str | None]:
    """The limits that were typed, to be typed again."""
    walltime = None
    if limits.walltime is not None:
        minutes, rest = divmod(int(limits.walltime), 60)
        walltime = f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}"
    return {
        "--walltime": walltime,
        "--disk": None if limits.disk is None else str(limits.disk),
        "--pids": None if limits.pids is None else str(limits.pids),
        "--memory": None if limits.memory is None else str(limits.memory),
    }


def command(
    *words: str | Path, flags: Mapping[str, bool | str | Path | Sequence[str | Path] | None]
) -> str:
    """A command line to type, with the flags that are set, several times where they have values.

    >>> command("check", "my capsule.zip", flags={"--json": True, "--output": None})
    "capsule check 'my capsule.zip' --json"
    >>> command("verify", "a.zip", flags={"--add": ["b.zip", "c.zip"]})
    'capsule verify a.zip --add b.zip --add c.zip'
    """
    line = ["capsule", *map(str, words)]
    for flag, value in flags.items():
        for one in [value] if isinstance(value, bool | str | Path | None) else value:
            if one:
                line += [flag] if one is True else [flag, str(one)]
    return shlex.join(line)


def next_command(
    original: str | Path,
    rerun: Path,
    verdict: Verdict,
    flags: Mapping[str, bool | str | Path | None],
) -> str | None:
    """The command line that decides what is open, None where none is known to.

    Args:
        original: The capsule whose claims are judged, as it was named.
        rerun: The verification of it.
        verdict: Of the two.
        flags: How the verification was asked for, where that is known.
    """
    from capsule.verdict import advise_further

    further = advise_further(verdict)
    if further is None:
        return None
    rest = {
        "--add": rerun if further.add else None,
        "--runs": str(further.runs),
        "--image": further.image,
        "--levels": "own" if further.own_levels else None,
        "--nonce": further.nonce,
        "--quick": further.quick,
    }
    return command("verify", original, flags={**rest, **flags})
