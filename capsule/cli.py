"""The command `capsule`: its argument tree, one handler a verb, and the only exit."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from capsule import __version__
from capsule.errors import BugError, CapsuleError

if TYPE_CHECKING:
    pass

_EXITS = """\
exit codes:
  0 done, REPRODUCED     1 DIFFERENT              2 bad usage or manifest   3 INCONCLUSIVE
  4 damaged or untrusted 5 execution failed       6 cannot run here        70 a fault of capsule
  130, 143 interrupted; go on with --resume
"""


class _Terminated(KeyboardInterrupt):
    """SIGTERM, told apart from Ctrl-C by its exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminate)
    from capsule.console import Console

    console = Console()
    try:
        code: int = _verb(arguments.verb)(arguments, console)
        return code
    except CapsuleError as error:
        console.fail(str(error))
        return error.exit_code
    except KeyboardInterrupt as stop:
        console.say("interrupted; a run that was under way goes on with --resume and its folder")
        return 143 if isinstance(stop, _Terminated) else 130
    except BrokenPipeError:
        # what is still to be written goes nowhere, or the interpreter would end with 120
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return 141
    except Exception as error:
        if arguments.debug:
            raise
        console.fail(
            f"a fault of capsule {__version__}: {type(error).__name__}: {error}\n"
            "  run it again with --debug and report what it prints"
        )
        return BugError.exit_code


def _terminate(_number: int, _frame: Any) -> NoReturn:
    raise _Terminated


def _verb(name: str) -> Any:
    from capsule import verbs

    return getattr(verbs, name.replace("-", "_"))


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        if sys.version_info >= (3, 14):
            options["suggest_on_error"] = True
        super().__init__(
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **options,
        )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="capsule",
        description="Re-run a published deep-learning benchmark number elsewhere, and judge it.",
        epilog=_EXITS,
    )
    parser.add_argument("--version", action="version", version=f"capsule {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of a fault")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    for add in (
        _add_run,
        _add_verify,
        _add_diff,
        _add_check,
        _add_show,
        _add_init,
        _add_lint,
        _add_inventory,
        _add_data,
        _add_image,
    ):
        add(verbs)
    return parser


def _new(verbs: Any, name: str, purpose: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=purpose, description=purpose[0].upper() + purpose[1:] + ".", epilog=example
    )
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1000:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and 1000")
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _frameworks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--frameworks",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="these of the manifest's frameworks alone, such as those that the image has",
    )


def _execution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime",
        choices=("auto", "apptainer", "docker", "host"),
        default="auto",
        help="what starts the image; auto: Apptainer, else Docker; host without an image",
    )
    parser.add_argument("--image", metavar="REF", help="docker://HOST/NAME@sha256:..., recorded")
    parser.add_argument("--output", metavar="FILE", help="the capsule to write")
    parser.add_argument("--work", metavar="DIR", help="folder of the run while it is under way")
    parser.add_argument("--resume", metavar="DIR", help="go on with an interrupted run")
    parser.add_argument(
        "--keep-hosts", action="store_true", help="record host names and serial numbers in clear"
    )


def _add_run(verbs: Any) -> None:
    parser = _new(
        verbs,
        "run",
        "run a manifest's benchmarks and seal one capsule",
        "examples:\n  capsule run manifests/quickstart.json\n"
        "  capsule run manifest.json --image docker://registry.example/torch@sha256:...\n"
        "  capsule run manifests/level0.json --frameworks torch,numpy --image docker://...\n"
        "  capsule run --resume quickstart-1a2b3c4d.run",
    )
    parser.add_argument("manifest", nargs="?", metavar="MANIFEST")
    _frameworks(parser)
    _execution(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    _json(parser)


def _add_verify(verbs: Any) -> None:
    parser = _new(
        verbs,
        "verify",
        "re-execute a capsule here with fresh seeds and judge its claims",
        "example:\n  capsule verify stranger.capsule.zip --trust",
    )
    parser.add_argument("capsule", metavar="CAPSULE", help="a capsule file or folder")
    _execution(parser)
    parser.add_argument(
        "--trust", action="store_true", help="let a stranger's capsule execute its code here"
    )
    parser.add_argument(
        "--allow-host", action="store_true", help="let it execute without a container"
    )
    parser.add_argument(
        "--levels",
        choices=("capsule", "own"),
        default="capsule",
        help="measure with the capsule's own program (default) or with this version's",
    )
    parser.add_argument(
        "--runs",
        type=_count,
        metavar="N",
        help="number of fresh seeds; by default what confirms every claim with power 0.8, if "
        "nothing changed, and at least as many as the original has",
    )
    parser.add_argument(
        "--until-decided",
        action="store_true",
        help="stop at the first of the manifest's planned looks that decides every claim",
    )
    _json(parser)


def _add_diff(verbs: Any) -> None:
    parser = _new(
        verbs,
        "diff",
        "judge the claims of one capsule by the runs of others",
        "examples:\n  capsule diff original.capsule.zip rerun.capsule.zip\n"
        "  capsule diff original.capsule.zip here.capsule.zip there.capsule.zip",
    )
    parser.add_argument("original", metavar="A")
    parser.add_argument("reruns", metavar="B", nargs="+")
    _json(parser)


def _add_check(verbs: Any) -> None:
    parser = _new(
        verbs,
        "check",
        "check a capsule's integrity and form; executes nothing",
        "example:\n  capsule check a.capsule.zip",
    )
    parser.add_argument("capsule", metavar="CAPSULE")
    _json(parser)


def _add_show(verbs: Any) -> None:
    parser = _new(
        verbs, "show", "show what a capsule holds", "example:\n  capsule show a.capsule.zip --json"
    )
    parser.add_argument("capsule", metavar="CAPSULE")
    _json(parser)


def _add_init(verbs: Any) -> None:
    parser = _new(
        verbs,
        "init",
        "write a manifest to start from",
        "example:\n  capsule init my-benchmark.json",
    )
    parser.add_argument("path", metavar="FILE")


def _add_lint(verbs: Any) -> None:
    parser = _new(
        verbs,
        "lint",
        "check a manifest, and say what its number of seeds can confirm",
        "example:\n  capsule lint manifests/quickstart.json",
    )
    parser.add_argument("manifest", metavar="MANIFEST")
    _frameworks(parser)
    _json(parser)


def _add_inventory(verbs: Any) -> None:
    parser = _new(
        verbs, "inventory", "print what this machine is", "example:\n  capsule inventory --json"
    )
    parser.add_argument("--keep-hosts", action="store_true", help="host names in clear")
    _json(parser)


def _add_data(verbs: Any) -> None:
    data = _new(verbs, "data", "name or make datasets", "example:\n  capsule data hash corpus/")
    kinds = data.add_subparsers(dest="kind", required=True, metavar="KIND", parser_class=_Parser)
    hash_ = _new(kinds, "hash", "print the digest of a file or folder", "")
    hash_.add_argument("path", metavar="PATH")
    hash_.add_argument("--rehash", action="store_true", help="do not use the cache of digests")
    _json(hash_)
    generate = _new(
        kinds,
        "generate",
        "make a synthetic dataset",
        "example:\n  capsule data generate regression out/ samples=256 features=8 seed=7",
    )
    generate.add_argument("generator", metavar="GENERATOR")
    generate.add_argument("target", metavar="DIR")
    generate.add_argument("parameters", nargs="*", metavar="NAME=VALUE")
    _json(generate)


def _add_image(verbs: Any) -> None:
    image = _new(
        verbs,
        "image",
        "resolve or build images",
        "example:\n  capsule image resolve docker://registry.example/torch:1.0",
    )
    kinds = image.add_subparsers(dest="kind", required=True, metavar="KIND", parser_class=_Parser)
    resolve = _new(kinds, "resolve", "print the digests behind a reference", "")
    resolve.add_argument("reference", metavar="REF")
    _json(resolve)
    build = _new(
        kinds,
        "build",
        "build a recipe folder with Docker",
        "example:\n  capsule image build images/torch --wheelhouse wheels/ --push "
        "docker://localhost:5000/torch:1.0",
    )
    build.add_argument("folder", metavar="DIR")
    build.add_argument("--base", metavar="IMAGE", help="base image, BASE of the Dockerfile")
    build.add_argument("--wheelhouse", metavar="DIR", help="Python wheels, for no network")
    build.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="build argument"
    )
    build.add_argument("--push", metavar="REF", help="push it and print its reference by digest")
    _json(build)
