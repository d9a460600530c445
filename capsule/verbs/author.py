"""The verbs `capsule init` and `capsule lint`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UsageError
from capsule.verbs import verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console
    from capsule.lint import Spread
    from capsule.manifest import Claim


@dataclass(frozen=True, kw_only=True)
class InitArguments:
    """Arguments of `init`.

    Attributes:
        command: Words of the command after `--`, None without one.
        metric: Names of metrics, each with a regular expression that finds its value, or None.
    """

    path: Path
    command: tuple[str, ...] | None = None
    metric: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, kw_only=True)
class LintArguments:
    """Arguments of `lint`."""

    manifest: Path
    frameworks: tuple[str, ...] = ()
    full: bool = False
    json: bool = False


def _add_init(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path",
        type=Path,
        metavar="FILE",
        help="manifest to write. Put the command after --",
    )
    parser.add_argument(
        "--metric",
        action="append",
        type=_metric,
        metavar="NAME[=REGEX]",
        help="a metric: NAME if the script reports it, NAME=REGEX to read it from stdout (one"
        " group, or (?P<step>...) and (?P<value>...) for a curve). Repeatable",
    )


def _metric(text: str) -> tuple[str, str | None]:
    """Return a metric's name and the expression that finds its value, as typed."""
    name, equals, pattern = text.partition("=")
    return name, pattern if equals else None


def _init(arguments: InitArguments, console: Console) -> int:
    """Write a manifest and its schema; refuse to replace a file."""
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
        raise UsageError("already exists", where=str(path), advice=advice) from None
    except OSError as error:
        if is_ours:
            path.unlink(missing_ok=True)
        advice = "name a file in a writable folder"
        what = f"cannot write: {error.strerror}"
        raise UsageError(what, where=str(path), advice=advice) from None
    following = ("lint",) if arguments.command is None else ("run", "--try")
    console.data(f"wrote {path}; next: {verb.command(*following, path, flags={})}")
    return 0


def _text(arguments: InitArguments) -> bytes:
    """Return the text of the manifest."""
    from capsule.manifest.starter import starter, starter_of

    path, command = arguments.path, arguments.command
    if command is None:
        if arguments.metric:
            raise UsageError(
                "--metric is set, but the command is missing",
                advice="put the command after --, as in: --metric loss -- python3 train.py",
            )
        return starter(path.stem)
    metrics = dict(arguments.metric)
    if len(metrics) < len(arguments.metric):
        names = [name for name, _ in arguments.metric]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(
            f"two --metric options have the name {twice!r}",
            advice="give each --metric its own name",
        )
    return starter_of(path.stem, command, metrics, path.parent)


def _add_lint(parser: ArgumentParser) -> None:
    parser.add_argument(
        "manifest",
        type=verb.path,
        metavar="MANIFEST",
        help="a manifest, or a capsule (adds checks against the measured spread)",
    )
    verb.add_frameworks(parser)
    parser.add_argument("--full", action="store_true", help="print all claims and warnings")
    verb.add_json(parser)


def _lint(arguments: LintArguments, console: Console) -> int:
    from zipfile import is_zipfile

    from capsule import archive, lint, manifest, plan, reading, report, seeds, site
    from capsule.execute import inputs

    path = arguments.manifest
    measured: Mapping[Claim, Spread] | None = None
    # a pipe has no end to look for a directory at
    if path.is_dir() or (path.is_file() and is_zipfile(path)):
        if arguments.frameworks:
            advice = "leave --frameworks out, or lint the manifest"
            what = "--frameworks needs a manifest, found a capsule"
            raise UsageError(what, where=str(path), advice=advice)
        with reading.read(path) as capsule:
            checked = capsule.record.manifest
            of_runs = lint.warnings_of_runs(capsule.record)
            measured = lint.spreads_of_runs(capsule.record)
            warnings = [*of_runs, *lint.warnings(checked, sealed=True)]
    else:
        checked = manifest.load(path, arguments.frameworks)
        seeds.require_winner(checked)
        carried = inputs.collect(checked, checked.folder).files
        archive.require_room(plan.make(checked), carried=tuple(carried.values()))
        warnings = lint.warnings(checked, launcher=site.load().launcher)
    warnings = list(dict.fromkeys(warnings))
    if arguments.json:
        claims = [asdict(claim) for claim in lint.outlook(checked)]
        facts = {
            "manifest": str(path),
            "warnings": report.warnings_to_json(warnings),
            "claims": claims,
        }
        console.document(facts)
        return 0
    shown = [one for one in warnings if arguments.full or lint.is_relevant(one, checked)]
    console.show(*report.draw_lint(str(path), checked, shown, measured, full=arguments.full))
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
