"""Verbs of the command line: arguments, action, and the step between them."""

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
        "--full",
        action="store_true",
        help="print all claims, and all differences in environment",
    )


def add_frameworks(parser: ArgumentParser) -> None:
    """Add `--frameworks`."""
    parser.add_argument(
        "--frameworks",
        type=names,
        metavar="NAME,...",
        help="run only these frameworks, for example the frameworks in the image (default: all"
        " frameworks of the manifest)",
    )


def add_runtime(parser: ArgumentParser) -> None:
    """Add what starts a run, and in which image."""
    parser.add_argument(
        "--runtime",
        choices=("auto", "apptainer", "docker", "podman", "host"),
        help="container engine. auto (default): the site file's engine, or the first of Apptainer,"
        " Docker, Podman that works; host if the manifest names no image",
    )
    parser.add_argument(
        "--image",
        metavar="REF",
        help="image to use (default: the manifest's image): docker://HOST/NAME@sha256:..., or a"
        " file (SIF, OCI layout, docker save)",
    )


def add_execution(parser: ArgumentParser) -> None:
    """Add the options that `run` and `verify` share."""
    add_runtime(parser)
    add_output(parser)
    parser.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="run folder, removed after sealing (default: a new NAME-*.run in the current folder)",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="show the workload's output live (default on a terminal: last line only)",
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="resume the interrupted run in DIR"
    )
    add_offline(parser)
    add_privacy(parser)
    add_keyring(parser)


def add_output(parser: ArgumentParser) -> None:
    """Add `--output`."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="capsule to write (default: a new file in the current folder)",
    )


def add_keyring(parser: ArgumentParser) -> None:
    """Add the option that leaves the user's keys in reach of a workload."""
    parser.add_argument(
        "--keep-keyring",
        action="store_true",
        help="let workloads read your kernel keys, for example AFS tokens (default: hide the keys)."
        " Recorded",
    )


def add_offline(parser: ArgumentParser) -> None:
    """Add the option that keeps capsule itself off the network."""
    parser.add_argument(
        "--offline",
        action="store_true",
        help="use no network; run `capsule stage` first to fetch image and datasets",
    )


def add_privacy(parser: ArgumentParser) -> None:
    """Add the options on what is sealed of this machine and its user."""
    parser.add_argument(
        "--keep-hosts",
        action="store_true",
        help="record host names and serial numbers in plain text (default: salted hashes)",
    )
    parser.add_argument(
        "--strict-privacy",
        action="store_true",
        help="refuse to seal if a host name, user name or likely key is found (default: warn)",
    )


def add_permission(parser: ArgumentParser, whose: str) -> None:
    """Add the options that allow untrusted code to run."""
    parser.add_argument("--trust", action="store_true", help=f"allow running the code of {whose}")
    parser.add_argument(
        "--allow-host",
        action="store_true",
        help="allow this code to run without a container, or under an engine that cannot isolate"
        " the code from the network",
    )


def add_limits(parser: ArgumentParser, *, of_untrusted: bool = False) -> None:
    """Add what a run may take.

    Args:
        parser: Of a verb.
        of_untrusted: Whether untrusted capsules have limits by default.
    """

    def default(usual: str) -> str:
        return f" (default: none{f'; for untrusted capsules {usual}' * of_untrusted})"

    parser.add_argument(
        "--walltime",
        type=seconds,
        metavar="HH:MM:SS",
        help="stop the run after this time; resume it with --resume"
        + default("10 times the original's duration, 1000 times with --device cpu, plus a reserve"),
    )
    parser.add_argument(
        "--disk",
        type=size,
        metavar="SIZE",
        help="disk limit per process start, for example 500M or 20G"
        + default("10 times the original's largest log, plus a reserve"),
    )
    parser.add_argument(
        "--pids",
        type=tasks,
        metavar="N",
        help="limit of processes and threads per process start"
        + default("a number derived from ranks and threads"),
    )
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="memory limit per process start, for example 8G; a trial that exceeds it fails"
        " (default: none)",
    )


def seconds(text: str) -> int:
    """Return a typed duration in seconds."""
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise argparse.ArgumentTypeError(
            f"expected a duration HH:MM:SS, for example 12:00:00, found {text!r}"
        )
    hours, minutes, rest = map(int, parts)
    total = 3600 * hours + 60 * minutes + rest
    if total == 0:
        raise argparse.ArgumentTypeError(
            f"expected a duration of at least 00:00:01 (HH:MM:SS), found {text!r}"
        )
    return total


def size(text: str) -> int:
    """Return a typed size in bytes."""
    number, unit = text.rstrip("KMGTiB"), text.lstrip("0123456789").removesuffix("B")
    power = _UNITS.get(unit.removesuffix("i"))
    if power is None or not number.isdecimal() or not 0 < len(number) < 10 or int(number) == 0:
        raise argparse.ArgumentTypeError(
            f"expected a size, for example 500M or 20G, found {text!r}"
        )
    return int(number) << power


def tasks(text: str) -> int:
    """Return a typed number of processes and threads."""
    if not text.isdecimal() or not _FEWEST_TASKS <= int(text) <= _MOST_TASKS:
        raise argparse.ArgumentTypeError(
            f"expected a whole number from {_FEWEST_TASKS} to {_MOST_TASKS}, found {text!r}"
        )
    return int(text)


def count(text: str) -> int:
    """Return a typed number of runs."""
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_RUNS:
        raise argparse.ArgumentTypeError(
            f"expected a whole number from 1 to {_MOST_RUNS}, found {text!r}"
        )
    return int(text)


def pair(text: str) -> tuple[str, str]:
    """Return a typed NAME=VALUE as its two parts."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def setting(text: str) -> tuple[str, Scalar]:
    """Return a typed FIELD=VALUE of a manifest as its two parts."""
    from capsule.manifest import mutable

    try:
        return mutable.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def path(text: str) -> Path:
    """Return a typed path of this machine."""
    from capsule.fetching import is_remote

    if is_remote(text):
        raise argparse.ArgumentTypeError(
            f"expected a file of this machine, found the address {text}; download the file first"
        )
    return Path(text)


def names(text: str) -> tuple[str, ...]:
    """Return typed words that commas separate."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def refuse_several(verb: str, one: str, words: Sequence[str]) -> UsageError:
    """Return the error where a shell pattern matched several files, and the verb takes one."""
    return UsageError(
        f"{verb} accepts one {one}, found {len(words)}: {', '.join(words)}",
        advice=f"name one {one}",
    )


def refuse_beside_resume(options: StartOptions, kind: type[StartOptions]) -> None:
    """Raise where an option contradicts how a run was begun.

    Args:
        options: Typed beside `--resume`.
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
    """Return the error of an option that `--resume` excludes."""
    return UsageError(
        f"--resume and {option} exclude each other",
        advice=f"leave {option} out: the run folder records the options of the run",
    )


def without_resume(option: str) -> UsageError:
    """Return the error of an option that needs `--resume`."""
    return UsageError(
        f"{option} needs --resume: capsule already trusts a manifest that you name",
        advice=f"leave {option} out",
    )


def limit_flags(limits: Limits) -> dict[str, str | None]:
    """Return the limits as options to type again."""
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
    """Return a command line to type; a flag with several values is repeated.

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
    """Return the command line that settles open claims, None where there is none.

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
        "--device": further.device,
    }
    return command("verify", original, flags={**rest, **flags})
