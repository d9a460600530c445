"""`capsule init` and `capsule lint`: write a manifest, and know what it is good for."""

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


@dataclass(frozen=True, kw_only=True)
class InitArguments:
    """What was typed after `init`.

    Attributes:
        command: Words of a command behind `--`, None without one.
        metric: Names, each with an expression that finds its number, or None.
        model: `LIBRARY/NAME` of an untrained model, None without one.
    """

    path: Path
    command: tuple[str, ...] | None = None
    metric: Sequence[tuple[str, str | None]] = ()
    model: str | None = None


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
    parser.add_argument(
        "--model",
        metavar="LIBRARY/NAME",
        help="write a manifest for an untrained model of torchvision, timm or transformers, and"
        " beside it the file that makes it",
    )


def _metric(text: str) -> tuple[str, str | None]:
    """A metric's name, and how its number is found, as typed."""
    name, equals, pattern = text.partition("=")
    return name, pattern if equals else None


def _init(arguments: InitArguments, console: Console) -> int:
    """Write a manifest, never over another file, and its schema beside it."""
    from capsule import schema

    path = arguments.path
    texts = _texts(arguments)
    _write_new(texts)
    try:
        # editors complete the manifest's fields from it
        path.with_name("manifest-1.schema.json").write_bytes(schema.text("manifest-1"))
    except OSError as error:
        raise _no_place(path, error) from None
    what = " and ".join(map(str, texts))
    if arguments.model is None:
        following = ("lint",) if arguments.command is None else ("run", "--try")
        console.data(f"wrote {what}; next: {verb.command(*following, path, flags={})}")
    else:
        library = arguments.model.partition("/")[0]
        tried = verb.command("run", "--try", path, flags={"--image": "REF"})
        console.data(f"wrote {what}; next, in an image that has {library}: {tried}")
    return 0


def _write_new(texts: Mapping[Path, bytes]) -> None:
    """Write files: all of them, or none.

    Raises:
        UsageError: One is there already, or cannot be written.
    """
    written: list[Path] = []
    for path, text in texts.items():
        try:
            with path.open("xb") as stream:
                written.append(path)
                stream.write(text)
        except OSError as error:
            for one in written:
                one.unlink(missing_ok=True)
            raise _no_place(path, error) from None


def _no_place(path: Path, error: OSError) -> UsageError:
    if isinstance(error, FileExistsError):
        return UsageError("exists already", where=str(path), advice="choose another name")
    return UsageError(f"cannot be written: {error.strerror}", where=str(path))


def _texts(arguments: InitArguments) -> dict[Path, bytes]:
    """What is to be written where."""
    from capsule.manifest.named import starter_by_name
    from capsule.manifest.starter import starter, starter_of

    path, command = arguments.path, arguments.command
    if arguments.model is not None:
        if command is not None or arguments.metric:
            beside = "--metric" if command is None else "a command behind --"
            raise UsageError(
                f"--model and {beside} exclude each other",
                advice="a model's metrics are known: leave out what is a command's",
            )
        named = starter_by_name(path.stem, arguments.model)
        return {path: named.manifest, path.with_name(f"{path.stem}.py"): named.module}
    if command is None:
        if arguments.metric:
            raise UsageError(
                "--metric is a number of a command's, and there is no command",
                advice="write it behind --, as in: --metric loss -- python3 train.py",
            )
        return {path: starter(path.stem)}
    metrics = dict(arguments.metric)
    if len(metrics) < len(arguments.metric):
        raise UsageError("--metric names one metric twice")
    return {path: starter_of(path.stem, command, metrics, path.parent)}


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
            checked, hints = capsule.record.manifest, lint.hints_of_runs(capsule.record)
            measured = lint.warnings_of_runs(capsule.record)
            warnings = lint.warnings(checked, sealed=True)
    else:
        checked = manifest.load(path, arguments.frameworks)
        seeds.require_winner(checked)
        carried = inputs.collect(checked, checked.folder).files
        archive.require_room(plan.make(checked), carried=tuple(carried.values()))
        hints, measured = lint.hints(checked), []
        warnings = lint.warnings(checked, launcher=site.load().launcher)
    warnings = list(dict.fromkeys((*measured, *warnings)))
    outlook = lint.outlook(checked)
    if arguments.json:
        claims = [asdict(claim) for claim in outlook]
        facts = {
            "manifest": str(path),
            "warnings": report.warnings_to_json(warnings),
            "hints": hints,
            "claims": claims,
        }
        console.document(facts)
        return 0
    for claim in outlook:
        console.data(claim.sentence)
    for warning in warnings:
        console.data(f"warning: {warning} [{warning.code}]")
    for hint in hints:
        console.data(f"hint: {hint}")
    console.data(f"{path} is valid")
    return 0


INIT = Verb(
    name="init",
    examples=(
        "capsule init my-benchmark.json",
        "capsule init mine.json --metric loss -- python3 train.py --seed {seed}",
        "capsule init resnet.json --model torchvision/resnet18",
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
