"""`capsule init` and `capsule lint`: write a manifest, and know what it is good for."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UsageError
from capsule.verbs import verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class InitArguments:
    """What was typed after `init`.

    Attributes:
        command: Words of a command behind `--`, None without one.
        metric: Names, each with an expression that finds its number, or None.
    """

    path: Path
    command: tuple[str, ...] | None = None
    metric: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, kw_only=True)
class LintArguments:
    """What was typed after `lint`."""

    manifest: Path
    frameworks: tuple[str, ...] = ()
    json: bool = False


def _add_init(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path",
        type=Path,
        metavar="FILE",
        help="the manifest to write; behind -- stands the command that it is to run, if any",
    )
    parser.add_argument(
        "--metric",
        action="append",
        type=_metric,
        metavar="NAME[=PATTERN]",
        help="a number of the command's: one that it reports, or that a regular expression with one"
        " group finds in what it prints",
    )


def _metric(text: str) -> tuple[str, str | None]:
    """A metric's name, and how its number is found, as typed."""
    name, equals, pattern = text.partition("=")
    return name, pattern if equals else None


def _init(arguments: InitArguments, console: Console) -> int:
    """Write a manifest, never over another file, and its schema beside it."""
    from capsule import schema

    path, text, is_ours = arguments.path, _text(arguments), False
    try:
        with path.open("xb") as stream:
            is_ours = True
            stream.write(text)
        # editors complete the manifest's fields from it
        path.with_name("manifest-1.schema.json").write_bytes(schema.text("manifest-1"))
    except FileExistsError:
        advice = "choose another name"
        raise UsageError("exists already", where=str(path), advice=advice) from None
    except OSError as error:
        if is_ours:
            path.unlink(missing_ok=True)
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path)) from None
    following = ("lint",) if arguments.command is None else ("run", "--try")
    console.data(f"wrote {path}; next: {verb.command(*following, path, flags={})}")
    return 0


def _text(arguments: InitArguments) -> bytes:
    """Return the manifest that is to be written."""
    from capsule.manifest.starter import starter, starter_of

    path, command = arguments.path, arguments.command
    if command is None:
        if arguments.metric:
            raise UsageError(
                "--metric is a number of a command's, and there is no command",
                advice="write it behind --, as in: --metric loss -- python3 train.py",
            )
        return starter(path.stem)
    metrics = dict(arguments.metric)
    if len(metrics) < len(arguments.metric):
        raise UsageError("--metric names one metric twice")
    return starter_of(path.stem, command, metrics, path.parent)


def _add_lint(parser: ArgumentParser) -> None:
    parser.add_argument(
        "manifest",
        type=verb.path,
        metavar="MANIFEST",
        help="a manifest; or a capsule, whose runs tell more",
    )
    verb.add_frameworks(parser)
    verb.add_json(parser)


def _lint(arguments: LintArguments, console: Console) -> int:
    from zipfile import is_zipfile

    from capsule import archive, lint, manifest, plan, reading, report, seeds, site
    from capsule.execute import inputs

    path = arguments.manifest
    # a pipe has no end to look for a directory at
    if path.is_dir() or (path.is_file() and is_zipfile(path)):
        if arguments.frameworks:
            advice = "leave --frameworks out, or lint the manifest"
            raise UsageError("a capsule is linted as it is", where=str(path), advice=advice)
        with reading.read(path) as capsule:
            checked = capsule.record.manifest
            measured = lint.warnings_of_runs(capsule.record)
            warnings = lint.warnings(checked, sealed=True)
    else:
        checked = manifest.load(path, arguments.frameworks)
        seeds.require_winner(checked)
        carried = inputs.collect(checked, checked.folder).files
        archive.require_room(plan.make(checked), carried=tuple(carried.values()))
        measured = []
        warnings = lint.warnings(checked, launcher=site.load().launcher)
    warnings = list(dict.fromkeys((*measured, *warnings)))
    outlook = lint.outlook(checked)
    if arguments.json:
        claims = [asdict(claim) for claim in outlook]
        facts = {
            "manifest": str(path),
            "warnings": report.warnings_to_json(warnings),
            "claims": claims,
        }
        console.document(facts)
        return 0
    for claim in outlook:
        console.data(claim.sentence)
    for warning in warnings:
        console.data(f"warning: {warning} [{warning.code}]")
    console.data(f"{path} is valid")
    return 0


INIT = Verb(
    name="init",
    examples=(
        "capsule init my-benchmark.json",
        "capsule init mine.json --metric loss -- python3 train.py --seed {seed}",
    ),
    one="path",
    takes_command=True,
    add=_add_init,
    act=verb.door(InitArguments, _init),
)

LINT = Verb(
    name="lint",
    examples=("capsule lint manifests/quickstart.json",),
    one="manifest",
    add=_add_lint,
    act=verb.door(LintArguments, _lint),
)
