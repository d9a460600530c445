"""The command `capsule`: arguments, and the only exit."""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import stat
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentError,
    ArgumentParser,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from capsule import __version__, plain, verbs
from capsule.errors import (
    BugError,
    CannotRunError,
    CapsuleError,
    ExecutionError,
    FirstStartError,
    FirstTrialError,
    UntrustedError,
    UsageError,
)

if TYPE_CHECKING:
    from capsule.console import Console
    from capsule.verbs.verb import Family, Verb

_EXITS = """\
exit codes:
  0 done, REPRODUCED     1 DIFFERENT              2 bad usage or manifest   3 INCONCLUSIVE
  4 damaged or untrusted 5 execution failed       6 cannot run here        70 bug in capsule
  129, 130, 143 interrupted (terminal closed, Ctrl-C, SIGTERM); resume with --resume
"""
_BROKEN_PIPE = 141
# Python's 700 made a tenth of `check` a search for garbage among what imports leave for good
_NEW_OBJECTS_BETWEEN_COLLECTIONS = 50_000
# verbs with words that earlier versions knew
_WITH_RETIRED = ("image", "init")
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


# a closed terminal and a lost connection send SIGHUP, a scheduler SIGTERM
_STOPS = (signal.SIGTERM, signal.SIGHUP)


class _Stopped(KeyboardInterrupt):
    """A signal that ends a run as Ctrl-C does, with an exit code of its own.

    Attributes:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _Command(NamedTuple):
    """A command line, parsed; a named tuple, since dataclasses cost `--help` 6 ms."""

    verb: Verb
    values: Mapping[str, object]
    surplus: tuple[str, ...]
    debug: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    gc.set_threshold(_NEW_OBJECTS_BETWEEN_COLLECTIONS)
    command = _parse(argv)
    from capsule.console import Console

    console = Console()
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number, handler in before.items():
        # nohup has SIGHUP ignored: that run is to outlive its terminal
        if handler is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        return _run(command, console)
    except KeyboardInterrupt as stop:
        way_on = console.way_on
        talk = f"interrupted; to resume: {way_on}" if way_on else "interrupted"
        _tell(console, console.say, talk)
        return 128 + (stop.number if isinstance(stop, _Stopped) else signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(command: _Command, console: Console) -> int:
    try:
        _refuse_surplus(command)
        return command.verb.act(command.values, console)
    except CapsuleError as error:
        return _fail(error, console)
    except BrokenPipeError:
        console.hang_up()
        return _BROKEN_PIPE
    except Exception as error:
        if command.debug:
            _trace(error, console)
        failure = _explain(error, debug=command.debug)
        if isinstance(failure, ExecutionError):
            console.hang_up()  # what is full may be where it writes
        return _fail(failure, console)


def _explain(error: Exception, *, debug: bool) -> CapsuleError:
    """Translate an exception of another class: a full disk, a missing folder, a bug."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = str(error.filename) if error.filename else None
        return ExecutionError(
            f"cannot write: {error.strerror}", where=where, advice="free some space"
        )
    if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        return UsageError(
            f"cannot be opened: {error.strerror}",
            where=str(error.filename) if error.filename else None,
            advice="name another file or folder",
        )
    if isinstance(error, OSError) and not _has_folder():
        return CannotRunError(
            "the current folder no longer exists",
            advice="change to an existing folder, and try again",
        )
    if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
        return CannotRunError(
            f"this locale uses {error.encoding}, which cannot encode {error.object!a}",
            advice="set LC_ALL=C.UTF-8",
        )
    return BugError(
        f"bug in capsule {__version__}: {type(error).__name__}: {error}",
        advice="report this message and the traceback above"
        if debug
        else "run the command again with --debug, and report its output",
    )


def _has_folder() -> bool:
    """Return whether the folder in which the command started still exists."""
    try:
        os.getcwd()  # noqa: PTH109 - the command starts without pathlib
    except OSError:
        return False
    return True


def _trace(error: Exception, console: Console) -> None:
    """Show the traceback line by line, because its texts may be untrusted."""
    import traceback

    for line in "".join(traceback.format_exception(error)).split("\n"):
        console.say(line)


def _fail(error: CapsuleError, console: Console) -> int:
    is_question = isinstance(error, UntrustedError) and error.flags
    _tell(console, console.ask if is_question else console.fail, str(error))
    if way_on := console.way_on:
        kept = "finished trials are kept; to resume"
        if isinstance(error, FirstTrialError | FirstStartError):
            kept, way_on = (
                "to seal the first trial as failed and run the other trials",
                f"{way_on} --keep-going",
            )
        _tell(console, console.say, f"{kept}: {way_on}")
    return error.exit_code


def _tell(console: Console, say: Callable[[str], None], text: str) -> None:
    try:
        say(text)
    except OSError:  # standard error is on a full disk, or closed: the exit status says it all
        console.hang_up()


def _stop(number: int, _frame: object) -> NoReturn:
    # a scheduler and its script send one each, a shell and its terminal, too: the second would cut
    # off what the first one ends
    for other in _STOPS:
        signal.signal(other, lambda *_: None)
    _leave_closed_terminal()
    raise _Stopped(number)


def _leave_closed_terminal() -> None:
    """Send what is still printed nowhere: to write to a closed terminal is an error."""
    for descriptor in (1, 2):
        try:
            is_device = stat.S_ISCHR(os.fstat(descriptor).st_mode)
        except OSError:  # closed from the start
            continue
        if is_device and not os.isatty(descriptor):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _parse(argv: Sequence[str] | None) -> _Command:
    argv = sys.argv[1:] if argv is None else argv
    # no option before the verb takes a value, so the first other word is the verb
    name = next((word for word in argv if not word.startswith("-")), None)
    parser = _parser(name)
    if name in _WITH_RETIRED:
        from capsule.verbs import retired

        if advice := retired.advise(argv[argv.index(name) :]):
            parser.error(advice)
    argv, command = _split(argv, name)
    parsed, surplus = parser.parse_known_args(argv)
    values: dict[str, object] = {**vars(parsed), **command}
    verb, debug = values.pop("verb"), values.pop("debug", False)
    from capsule.verbs.verb import Verb

    assert isinstance(verb, Verb)
    if surplus and (not verb.one or any(word.startswith("-") for word in surplus)):
        meant = _suggest_option(surplus, verb)
        parser.error(f"unrecognized arguments: {' '.join(surplus)}{meant}")
    return _Command(verb=verb, values=values, surplus=tuple(surplus), debug=bool(debug))


def _suggest_option(surplus: Sequence[str], verb: Verb) -> str:
    """Return the option that was probably meant, as the end of a sentence."""
    parser = _Parser(prog="capsule", description="capsule")
    verb.add(parser)
    words = [word.partition("=")[0].lower() for word in surplus if word.startswith("--")]
    return _suggest(words[0], re.findall(r"--[a-z-]+", parser.format_help())) if words else ""


def _suggest(word: str, names: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _split(
    argv: Sequence[str], name: str | None
) -> tuple[Sequence[str], Mapping[str, tuple[str, ...]]]:
    """Take off the command that stands behind `--`: none of its words is an option of ours."""
    if "--" not in argv or name is None or name not in verbs.TABLE:
        return argv, {}
    from capsule.verbs.verb import Verb

    entry = verbs.load(name)
    if not (isinstance(entry, Verb) and entry.takes_command):
        return argv, {}
    place = list(argv).index("--")
    return argv[:place], {"command": tuple(argv[place + 1 :])}


def _refuse_surplus(command: _Command) -> None:
    """Stop where a pattern of the shell's matched several files, and one is meant."""
    if command.surplus:
        from capsule.verbs.verb import refuse_several

        one = command.verb.one
        first = str(command.values.get(one))
        raise refuse_several(command.verb.name, one, (first, *command.surplus))


def _parser(name: str | None) -> ArgumentParser:
    """Return the parser of all verbs, with the arguments of the typed verb."""
    parser = _Parser(
        prog="capsule",
        description="Re-run published deep-learning benchmarks and judge the published numbers.",
        epilog=_EXITS,
    )
    parser.add_argument("--version", action="version", version=f"capsule {__version__}")
    parser.add_argument(
        "--debug", action="store_true", help="print the traceback of an internal error"
    )
    subparsers = parser.add_subparsers(required=True, metavar="VERB", parser_class=_Parser)
    # each parser takes a while to make, and only help and a misspelt verb need all of them
    known = name if name in verbs.TABLE else None
    for word in verbs.TABLE if known is None else (known,):
        purpose = verbs.TABLE[word]
        below = subparsers.add_parser(
            word, help=purpose, description=f"{purpose}.", add_help=word == known
        )
        if word == known:
            _fill(below, verbs.load(word))
    return parser


def _fill(parser: ArgumentParser, entry: Verb | Family) -> None:
    head = "examples:" if len(entry.examples) > 1 else "example:"
    parser.epilog = "\n  ".join([head, *entry.examples])
    from capsule.verbs.verb import Verb

    if isinstance(entry, Verb):
        entry.add(parser)
        parser.set_defaults(verb=entry)
        return
    subparsers = parser.add_subparsers(required=True, metavar="VERB", parser_class=_Parser)
    for verb in entry.verbs:
        purpose = verb.purpose
        _fill(subparsers.add_parser(verb.name, help=purpose, description=f"{purpose}."), verb)


class _Parser(ArgumentParser):
    def __init__(
        self, prog: str, description: str, epilog: str | None = None, *, add_help: bool = True
    ) -> None:
        super().__init__(
            prog=prog,
            add_help=add_help,
            description=f"{description[0].upper()}{description[1:]}",
            epilog=epilog,
            allow_abbrev=False,
            # what is left out has the default of its dataclass
            argument_default=SUPPRESS,
            formatter_class=RawDescriptionHelpFormatter,
        )
        self.register("action", None, _Once)
        if sys.version_info >= (3, 14):
            self.suggest_on_error = True

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong, then end; a typed word may come from a pattern."""
        choice = _CHOICE.search(message)
        if choice and not getattr(self, "suggest_on_error", False):
            message += _suggest(choice[1], re.findall(r"[a-z]+", choice[2]))
        super().error(plain.clean(message))


class _Once(Action):
    """Stores a value, and refuses a second one rather than forget the first."""

    _used = False

    def __call__(
        self,
        parser: ArgumentParser,  # noqa: ARG002 - the signature is argparse's
        namespace: object,
        values: object,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        if self._used:
            raise ArgumentError(self, "given twice; give this option once")
        self._used = True
        setattr(namespace, self.dest, values)
