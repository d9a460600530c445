"""Detection of MPI in the programs that ranks start, by their shared libraries."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from string import Template
from typing import BinaryIO

from capsule import leavings
from capsule.execute.workload import Setting
from capsule.launch import families
from capsule.launch.families import MpiProgram
from capsule.runtimes import elf, programs
from capsule.runtimes.base import Invocation, tail_since
from capsule.runtimes.elf import Needs

# programs that start the one which is named behind their own options
_WRAPPERS = {
    *("env", "nice", "ionice", "chrt", "nohup", "setsid", "timeout", "stdbuf", "taskset"),
    *("numactl", "time", "catchsegv", "strace", "ltrace", "perf", "valgrind", "gdb", "prlimit"),
}
_SHELLS = {"sh", "bash", "dash", "ksh", "zsh", "ash", "busybox"}
_INTERPRETERS = {"perl", "ruby", "Rscript", "R", "julia", "node", "java", "lua", "octave", "php"}
# what a container is asked for: the first of the words that is a file, all of it, and its path
_FIND = (
    'for word do path=$(command -v -- "$word") && [ -f "$path" ] && printf "%s\\n" "$path" >&2 &&'
    ' exec cat -- "$path"; done; exit 1'
)
_FIND_SECONDS = 120.0
_SEARCHED = "LD_LIBRARY_PATH"
_SYSTEM = tuple(f"{folder}/{platform.machine()}-linux-gnu" for folder in ("/lib", "/usr/lib"))
_LIBRARIES = (*_SYSTEM, "/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")
# of libraries that need others
_MOST_LOOKED_AT = 300


def find(
    invocations: Sequence[Invocation], setting: Setting, scratch: Path
) -> tuple[MpiProgram | None, ...]:
    """Return the program of MPI that each rank starts, by rank; None for one that starts another
    program.

    Args:
        invocations: How each rank is started: whatever is made before that is there.
        setting: How ranks are started.
        scratch: A folder of ours, for the copy of a program of the image.
    """
    return tuple(_find(one, setting, scratch) for one in invocations)


def _find(invocation: Invocation, setting: Setting, scratch: Path) -> MpiProgram | None:
    words = tuple(_candidates(invocation))
    of_image = []
    for word in words:
        place = _place(word, invocation, setting)
        if place is None:
            of_image.append(word)
            continue
        stream = leavings.open_file(Path(os.path.realpath(place)))
        if stream is None:
            continue
        with stream:
            found = _read(word, stream, _seen_from(word, invocation), invocation, setting)
        if found or word == words[0]:
            return found
    if not of_image:
        return None
    key = tuple(of_image)
    if key not in setting.programs:
        setting.programs[key] = _ask(key, invocation, setting, scratch)
    return setting.programs[key]


def _candidates(invocation: Invocation) -> Iterator[str]:
    """Yield the words of a command that may be the program which it comes to, the likeliest
    first.
    """
    command = invocation.command
    name = PurePosixPath(command[0]).name
    if programs.is_python(name) or name in _INTERPRETERS:
        return
    if name not in _WRAPPERS | _SHELLS:
        yield command[0]
        return
    for word in command[1:]:
        words = [word]
        if name in _SHELLS:
            with suppress(ValueError):
                words = shlex.split(Template(word).safe_substitute(invocation.environment))
        yield from filter(_is_program, words)


def _is_program(word: str) -> bool:
    name = PurePosixPath(word).name
    if not name or "=" in word or word.startswith("-"):
        return False
    return not (programs.is_python(name) or name in _INTERPRETERS | _WRAPPERS | _SHELLS)


def _place(word: str, invocation: Invocation, setting: Setting) -> str | None:
    """Return a program's path on this machine; empty if missing, None if it is the image's."""
    contained = setting.runtime.contained
    if "/" not in word:
        return None if contained else shutil.which(word, path=programs.search_path()) or ""
    path = PurePosixPath(_seen_from(word, invocation))
    return str(path) if not contained else _behind(path, invocation, setting)


def _behind(path: PurePosixPath, invocation: Invocation, setting: Setting) -> str | None:
    """Return the file of this machine that a container sees at a path, or None."""
    for mount in sorted(invocation.mounts, key=lambda one: -len(one.target)):
        inside = setting.runtime.inside(mount)
        if path.is_relative_to(inside):
            place = mount.source / path.relative_to(inside)
            real = Path(os.path.realpath(place))
            # a link may lead into the image
            return str(real) if real.is_relative_to(os.path.realpath(mount.source)) else None
    return None


def _seen_from(word: str, invocation: Invocation) -> str:
    """Return a path as the program's own."""
    return os.path.normpath(os.path.join(invocation.cwd, word))  # noqa: PTH118 - as it is seen


def _read(
    word: str, stream: BinaryIO, path: str, invocation: Invocation, setting: Setting
) -> MpiProgram | None:
    """Return the program of MPI in a file; None for another one, as far as its libraries are
    seen.
    """
    program = elf.needs(stream)
    if program is None:
        return None
    left, seen = [(program, _folders(program, path, invocation, setting))], set[str]()
    while left and len(seen) < _MOST_LOOKED_AT:
        needs, folders = left.pop(0)
        if library := next(filter(families.is_library, needs.libraries), None):
            own = next((one for one in needs.libraries if one.startswith("libmpi.so")), library)
            known = (families.find_by_name(one) for one in (library, own))
            return MpiProgram(
                word=word,
                library=library,
                family=next(filter(None, known), None),
                candidates=(*(f"{folder}/{own}" for folder in folders), own),
            )
        for name in needs.libraries:
            places = [] if name in seen else [f"{one}/{name}" for one in (*folders, *_LIBRARIES)]
            seen.add(name)
            found = ((one, _read_needs(one, invocation, setting)) for one in places)
            place, further = next((one for one in found if one[1] is not None), ("", None))
            if further is not None:
                left.append((further, _folders(further, place, invocation, setting)))
    return None


def _read_needs(path: str, invocation: Invocation, setting: Setting) -> Needs | None:
    """Return the needs of a library; None if it is missing or only in the image."""
    place: str | None = path
    if setting.runtime.contained:
        place = _behind(PurePosixPath(path), invocation, setting)
    stream = leavings.open_file(Path(os.path.realpath(place))) if place else None
    if stream is None:
        return None
    with stream:
        return elf.needs(stream)


def _folders(needs: Needs, path: str, invocation: Invocation, setting: Setting) -> list[str]:
    """Return the folders in which the loader searches before the system's."""
    own = {} if setting.runtime.contained else os.environ
    told = invocation.environment.get(_SEARCHED, own.get(_SEARCHED, "")).split(os.pathsep)
    origin = str(PurePosixPath(path).parent)
    folders = [
        one.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)
        for one in (*needs.folders, *told)
    ]
    return [one for one in folders if one.startswith("/")]


def _ask(
    words: Sequence[str], invocation: Invocation, setting: Setting, scratch: Path
) -> MpiProgram | None:
    """Return the same of a program of the image, of which a container gives a copy."""
    copy, errors = scratch / "program.bin", scratch / "program.txt"
    asked = replace(
        invocation,
        command=("sh", "-c", _FIND, "sh", *words),
        stdin=None,
        joins=False,
        scratch=None,
        stdout=copy,
        stderr=errors,
    )
    try:
        running = setting.runtime.start(setting.prepared, asked)
        try:
            ended = running.wait(_FIND_SECONDS)
        finally:
            running.stop()
        if ended is None or ended.exit_code != 0 or (stream := leavings.open_file(copy)) is None:
            return None
        # an engine may have warned before
        *_, path = tail_since(errors, 0).splitlines() or [""]
        with stream:
            return _read(words[0], stream, path, invocation, setting)
    finally:
        for one in (copy, errors):
            one.unlink(missing_ok=True)
