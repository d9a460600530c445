"""Commands that are allowed, but usually a mistake."""

from __future__ import annotations

import codecs
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from capsule import leavings
from capsule.manifest import commands, siblings, templates, warnings
from capsule.manifest.kinds import Command
from capsule.manifest.model import Benchmark
from capsule.manifest.problems import nearest, quote
from capsule.sentences import Sentence

_OF_SHELLS = {"&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1"}
_INTERPRETERS = {
    **{".py": "python3", ".bash": "bash", ".jl": "julia", ".R": "Rscript", ".r": "Rscript"},
    **{".pl": "perl", ".rb": "ruby", ".lua": "lua", ".js": "node"},
}
_SCRIPTS = (".py", ".sh", ".bash", ".jl", ".R", ".r", ".pl", ".rb", ".lua", ".m", ".js")
_HEAD_BYTES = 256
_MOST_NAMES = 1000
_SEED = b"CAPSULE_SEED"
_MPI = ("mpi4py", "MPI_Init", "MPI_INIT")
# calls in C, Fortran and Python, but for what a comment holds
_MPI_CALLS = (
    re.compile(rb"(?m)^(?!\s*(?://|\*|/\*|!))[^\n/]*\bP?MPI_Init(_thread)?\s*\("),
    re.compile(rb"(?mi)^(?![cC*!])[^\n!'\"]*\bcall\s+mpi_init(_thread)?\b"),
    re.compile(rb"(?m)^\s*(from|import)\s+mpi4py\b"),
)
_TAKES_RANK = re.compile(
    rb"CAPSULE_(LOCAL_)?RANK|CAPSULE_RENDEZVOUS|PMIX?_RANK|OMPI_COMM_WORLD|SLURM_PROCID|MPI_Init"
    rb"|mpi4py|torchrun|distributed\.(run|launch)\b|rdzv|/capsule/shared"
)
_UNSET = re.compile(rb"""["'](RANK|WORLD_SIZE)["']""")
_MOST_SEARCHED, _SEARCHED_BYTES = 100, 1 << 20
_SHELLS = {"sh", "bash", "dash", "ksh", "zsh"}
# words and variables by which programs of ranks are told where to meet, as torchrun's are
_MEETS = re.compile(r"(?i)rdzv|rendezvous|master[_-]?(addr|port)")
_UNEXPANDED = re.compile(r"\$[\w({]|`")
_LOOPBACK = re.compile(r"(?i)[= ]\W*(localhost|127\.|0\.0\.0\.0|\[?::1)")


@dataclass(frozen=True, kw_only=True)
class Pitfall:
    """A probable mistake of an author.

    Attributes:
        sentence: What, and what would mend it.
        file: Path of the file that it is about, empty for none.
    """

    sentence: Sentence
    file: str = ""


def find_pitfalls(benchmark: Benchmark, folder: Path | None) -> Iterator[Sentence]:
    """Return probable mistakes in a benchmark, one sentence each.

    Args:
        benchmark: The benchmark.
        folder: Where its files lie, None where they are not at hand.
    """
    command = benchmark.subject
    if not isinstance(command, Command):
        return
    yield from _about_parameters(benchmark, command)
    yield from (one.sentence for one in find_word_pitfalls(benchmark, folder))


def find_word_pitfalls(benchmark: Benchmark, folder: Path | None) -> Iterator[Pitfall]:
    """Yield the pitfalls that can make a trial fail: in the words of a command, and in the files
    named.

    Args:
        benchmark: See `find_pitfalls`.
        folder: See `find_pitfalls`.
    """
    command = benchmark.subject
    if not isinstance(command, Command):
        return
    for words in filter(None, (command.setup, command.words)):
        for sentence in _about_words(words, benchmark):
            yield Pitfall(sentence=sentence)
        if folder is not None:
            yield from _about_files(words, benchmark, command, folder)
            yield from _about_imports(words, benchmark, command, folder)


def seed_pitfall(benchmark: Benchmark, folder: Path | None) -> Sentence | None:
    """Return why a command most likely takes no seed, None where it does or nobody can tell.

    Args:
        benchmark: The benchmark.
        folder: See `find_pitfalls`.
    """
    command = benchmark.subject
    if not isinstance(command, Command) or folder is None or command.injects_seed:
        return None
    texts = [*command.setup, *command.words, *command.environment.values()]
    if any("seed" in templates.names(text) for text in texts) or not benchmark.inputs:
        return None
    if all(metric.kind == "machine" for metric in benchmark.metrics):
        return None
    names = _names(folder, benchmark)
    if len(names) > _MOST_SEARCHED or any(_holds(folder / name, _SEED) for name in names):
        return None
    return warnings.WARNINGS("seed-unused")


def uses_mpi(benchmark: Benchmark, folder: Path, *, compiled: bool = True) -> bool:
    """Return whether a file of a command, or a word of it, names MPI's package of Python, or
    begins MPI.

    What the image itself has is not looked into.

    Args:
        benchmark: The benchmark.
        folder: Where its files lie.
        compiled: True if sources of compiled programs count.
    """
    command = benchmark.subject
    if not isinstance(command, Command):
        return False
    signs = _MPI if compiled else _MPI[:1]
    if any(sign in word for word in command.words for sign in signs):
        return True
    words = [sign.encode() for sign in signs]
    names = _names(folder, benchmark)[:_MOST_SEARCHED]
    return any(_holds(folder / name, *words) for name in names)


def ranks_pitfall(
    benchmark: Benchmark, folder: Path | None, ranks: int, *, joins: bool
) -> Sentence | None:
    """Return why each of several ranks of a command most likely does all of the work, None where
    not.

    Args:
        benchmark: The benchmark.
        folder: See `find_pitfalls`.
        ranks: How many are asked for.
        joins: True if what starts them joins ranks of MPI.
    """
    command = benchmark.subject
    if ranks == 1 or joins or folder is None or not isinstance(command, Command):
        return None
    if command.ranks_independent:
        return None
    names = _names(folder, benchmark)[:_MOST_SEARCHED]
    sources = {name: _read(folder / name) for name in names}
    for name, text in sources.items():
        if call := next(filter(None, (one.search(text) for one in _MPI_CALLS)), None):
            has_package = b"mpi4py" in call[0]
            return warnings.WARNINGS("ranks-apart", file=name, has_package=has_package, ranks=ranks)
    texts = [*command.setup, *command.words, *command.environment.values()]
    is_told = any({"rank", "ranks"} & {*templates.names(text)} for text in texts)
    is_told = is_told or any(_TAKES_RANK.search(text.encode()) for text in texts)
    has_program = any(commands.is_below(word, benchmark.inputs) for word in command.words)
    if is_told or command.declares_world or not has_program:
        return None
    if any(_TAKES_RANK.search(text) for text in sources.values()):
        return None
    unset = {one.decode() for text in sources.values() for one in _UNSET.findall(text)}
    named = tuple(name for name in ("RANK", "WORLD_SIZE") if name in unset)
    return warnings.ranks_alike(ranks=ranks, unset=named)


def find_lost_meeting(benchmark: Benchmark, *, are_apart: bool) -> str | None:
    """Return the words of a command by which ranks would fail to meet, or None.

    No shell reads its words, so that a variable stands there as it was written; and a name that is
    each node itself has each node form a world of its own.

    Args:
        benchmark: The benchmark.
        are_apart: True if its ranks are to run on several nodes.
    """
    command = benchmark.subject
    if not isinstance(command, Command):
        return None
    texts = [f"{name}={text}" for name, text in command.environment.items()]
    if PurePosixPath(command.words[0]).name not in _SHELLS:
        texts += command.words[1:]
        texts += [f"{one} {value}" for one, value in pairwise(command.words) if "=" not in one]
    for text in filter(_MEETS.search, texts):
        if _UNEXPANDED.search(text):
            return f"{quote(text)}: no shell expands the variable"
        if are_apart and _LOOPBACK.search(text):
            return f"{quote(text)}: each node uses this address for itself"
    return None


def _holds(path: Path, *words: bytes) -> bool:
    text = _read(path)
    return any(word in text for word in words)


def _read(path: Path) -> bytes:
    """Return the beginning of an input; nothing of what is no file: a pipe is waited for by
    nobody.
    """
    stream = leavings.open_file(path)
    if stream is None:
        return b""
    with stream:
        return stream.read(_SEARCHED_BYTES)


def _about_parameters(benchmark: Benchmark, command: Command) -> Iterator[Sentence]:
    """Yield parameters of cases that make no difference."""
    from capsule.manifest.sources import OUT

    files = [
        metric.source.text
        for metric in benchmark.metrics
        if metric.source is not None and metric.source.text.startswith(OUT)
    ]
    texts = [*command.setup, *command.words, *command.environment.values(), *files]
    used = {name for text in texts for name in templates.names(text)}
    if "case" in used:
        return
    for name in dict.fromkeys(name for case in benchmark.cases for name in case.parameters):
        if name not in used:
            yield warnings.WARNINGS("parameter-unused", parameter=name)


def _about_words(words: tuple[str, ...], benchmark: Benchmark) -> Iterator[Sentence]:
    program = words[0]
    if " " in program and not commands.is_below(program, benchmark.inputs):
        try:
            parts = shlex.split(program)
        except ValueError:
            parts = program.split()
        yield warnings.joined_words(program=program, instead=(*parts, *words[1:]))
    for word in words[1:]:
        if word in _OF_SHELLS:
            yield warnings.WARNINGS("shell-word", word=word)


def _about_files(
    words: tuple[str, ...], benchmark: Benchmark, command: Command, folder: Path
) -> Iterator[Pitfall]:
    # what else ends as a script does may be what the program writes
    script = next((word for word in words[1:] if not word.startswith("-")), None)
    for word in words:
        if word.startswith(("/", "-", "..")) or any(templates.names(word)):
            continue
        path = templates.fill(word, {})
        if commands.is_below(path, benchmark.inputs):
            continue
        # no word is too long for `os.path`
        if command.cwd is not None and os.path.exists(folder / command.cwd / path):  # noqa: PTH110
            continue
        if os.path.isfile(folder / path):  # noqa: PTH113
            yield Pitfall(sentence=warnings.WARNINGS("input-missing", word=word), file=path)
        elif word in (words[0], script) and word.endswith(_SCRIPTS) and not command.setup:
            known = _names(folder, benchmark)
            names = {name.rpartition("/")[2]: name for name in known}
            near = names.get(word.rpartition("/")[2]) or nearest(word, known)
            yield Pitfall(sentence=warnings.missing_file(word=word, near=near), file=path)
    if commands.is_below(words[0], benchmark.inputs):
        for sentence in _about_program(words[0], folder / words[0]):
            yield Pitfall(sentence=sentence)


def _about_imports(
    words: tuple[str, ...], benchmark: Benchmark, command: Command, folder: Path
) -> Iterator[Pitfall]:
    """Yield modules beside a Python script that it imports, and that are not among the inputs."""
    for word in words:
        below = [word, *([f"{command.cwd}/{word}"] if command.cwd else [])]
        scripts = (one for one in below if commands.is_below(one, benchmark.inputs))
        script = next((one for one in scripts if one.endswith(".py")), None)
        if script is None:
            continue
        for path in siblings.find_imports(script, folder):
            if not commands.is_below(path, benchmark.inputs) and not _is_partly(path, benchmark):
                sentence = warnings.WARNINGS("import-missing", script=script, module=path)
                yield Pitfall(sentence=sentence, file=path)


def _is_partly(path: str, benchmark: Benchmark) -> bool:
    """Return whether some files of a package are inputs: whoever chose them knows which are
    needed.
    """
    return any(name.startswith(f"{path}/") for name in benchmark.inputs)


def _names(folder: Path, benchmark: Benchmark) -> list[str]:
    """Return files among the inputs, and beside the manifest."""
    names = [name for name in benchmark.inputs if (folder / name).is_file()]
    for top in benchmark.inputs:
        for path, _, files in os.walk(folder / top):
            names += (os.path.relpath(Path(path, file), folder) for file in files)
            if len(names) > _MOST_NAMES:
                return names
    return names


def name_interpreter(benchmark: Benchmark, folder: Path | None) -> str | None:
    """Return the interpreter of the script that is the command, or None.

    Args:
        benchmark: The benchmark.
        folder: See `find_pitfalls`.
    """
    command = benchmark.subject
    if not isinstance(command, Command) or folder is None:
        return None
    if not commands.is_below(command.words[0], benchmark.inputs):
        return None
    line = _read_head(folder / command.words[0]).partition(b"\n")[0].decode(errors="replace")
    return line[2:].strip() if line.startswith("#!") else None


def _about_program(name: str, path: Path) -> Iterator[Sentence]:
    head = _read_head(path)
    line = head.partition(b"\n")[0]
    if line.startswith(b"#!") and line.endswith(b"\r"):
        yield warnings.WARNINGS("windows-lines", file=name)
    elif head.startswith(codecs.BOM_UTF8):
        yield warnings.WARNINGS("byte-order-mark", file=name)
    elif head and not head.startswith(b"#!") and b"\0" not in head:
        starter = _INTERPRETERS.get(path.suffix, "sh")
        yield warnings.WARNINGS("interpreter-missing", file=name, starter=starter)


def _read_head(path: Path) -> bytes:
    stream = leavings.open_file(Path(os.path.realpath(path)))
    if stream is None:
        return b""
    with stream:
        return stream.read(_HEAD_BYTES)
