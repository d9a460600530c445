"""Programs of this machine that run without a container, and their description in a record.

A record names a program by a class of paths: a system folder in full, otherwise only its top
folder, because the rest of the path is private.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from capsule import process
from capsule import site as sites
from capsule.errors import CannotRunError, CapsuleError
from capsule.localpaths import LocalPaths
from capsule.manifest import Command, Manifest, commands
from capsule.runtimes.base import Prepared
from capsule.site import Site

PREFIX = "program "
"""Prefix of the names of observations about programs."""
LEVELS = "python of levels"
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_ASK_SECONDS = 60.0  # a first start from a cold network disk
_OLDEST = (3, 9)
_MOST_LETTERS = 1000
_FACTS = (
    "import os, platform, sys; print(platform.python_implementation(), platform.python_version(),"
    " 'conda environment' if os.path.isdir(os.path.join(sys.prefix, 'conda-meta')) else"
    " 'virtual environment' if sys.prefix != sys.base_prefix else '-', sys.executable or '-',"
    " sep='\\n')"
)
# a module beside the caller, in the current folder, is none of Python's
_LOCATE = """
import importlib.util, os, site, sys
sys.path = [folder for folder in sys.path if folder not in ("", os.getcwd())]
spec = importlib.util.find_spec(sys.argv[1])
places = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin or ""]
named = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
def below(folder):
    return any(place.startswith(os.path.join(folder, "")) for place in places)
path = next((folder for folder in named if below(os.path.abspath(folder))), None)
if spec is None:
    print("none")
elif path is not None:
    print("path", path)
else:
    print("user" if below(site.getusersitepackages()) else "own")
"""


def search_path() -> str:
    """Return the folders where the caller finds programs, in the caller's order.

    A relative one is meant from where the caller is, not from where a workload will be.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(str(Path(folder).absolute()) for folder in folders)


def is_python(word: str) -> bool:
    """Return whether a program is a Python by its name.

    >>> is_python("/opt/py/bin/python3.12"), is_python("bash")
    (True, False)
    """
    return _PYTHON.fullmatch(Path(word).name) is not None


def find(word: str) -> Path | None:
    """Return the program that this word of a command starts, or None."""
    place = shutil.which(word, path=search_path())
    return Path(place) if place and Path(place).is_absolute() else None


def interpreter(chosen: str | None, *, where: str) -> str:
    """Return the interpreter of capsule's own program on this machine.

    Args:
        chosen: A path, or a name that is looked for as the caller's shell would; None for the
            interpreter that runs now.
        where: Who chose it.

    Raises:
        CannotRunError: It is not there, is no Python or too old a one.
    """
    if chosen is None:
        return sys.executable or "python3"
    path = find(chosen)
    if path is None:
        raise CannotRunError(
            f"no program {chosen}", where=where, advice="name an interpreter of Python 3.9 or later"
        )
    facts = _ask(path)
    if facts is None or tuple(map(int, re.findall(r"\d+", facts[1])[:2])) < _OLDEST:
        raise CannotRunError(
            f"expected Python 3.9 or later, found {path}"
            + ("" if facts is None else f" ({facts[0]} {facts[1]})"),
            where=where,
            advice="name another program",
        )
    return str(path)


def choose(prepared: Prepared, manifest: Manifest, site: Site) -> Prepared:
    """Without a container: which Python and which other programs of this machine run."""
    are_commands = [isinstance(one.subject, Command) for one in manifest.benchmarks]
    # scripts of any kind start python3
    words = (*commands.programs(manifest.benchmarks), "python3") if any(are_commands) else ()
    places, python = locate(words), prepared.python
    if not all(are_commands):
        chosen, where = sites.interpreter(site)
        python = places[LEVELS] = interpreter(chosen, where=where)
    observations = {**prepared.observations, **observe(places)}
    return replace(prepared, observations=observations, python=python, programs=places)


def locate(words: Iterable[str]) -> dict[str, str]:
    """Return the places of the programs that these words start; empty if missing."""
    return {word: str(find(word) or "") for word in dict.fromkeys(words) if _is_plain(word)}


def observe(places: Mapping[str, str]) -> dict[str, str]:
    """Return the observations of programs by name: `program python3` and so on.

    Args:
        places: As `locate` gives them.
    """
    return {
        f"{PREFIX}{word}": describe(Path(place)) if place else "not there"
        for word, place in places.items()
    }


def describe(path: Path) -> str:
    """Return a program in a few words: for a Python its version and kind, and the class of its
    path.
    """
    facts = _ask(path) if is_python(path.name) else None
    if facts is None:
        return _classify(path)
    kind, version, environment, executable = facts
    # a shim stands for another one
    place = _classify(path if executable == "-" else Path(executable))
    return f"{kind} {version}{'' if environment == '-' else f' of a {environment}'}, {place}"


def _ask(path: Path) -> list[str] | None:
    """Return the implementation, version, kind of environment and path of a Python; None for what
    is none.
    """
    if str(path) == sys.executable:
        return _own_facts()
    try:
        environment = {**os.environ, "PATH": search_path()}
        command = [str(path), "-I", "-c", _FACTS]
        answer = process.run(command, env=environment, timeout_seconds=_ASK_SECONDS)
    except CapsuleError:
        return None
    facts = answer.stdout.decode(errors="replace").splitlines()
    is_one = answer.exit_code == 0 and len(facts) == 4 and re.match(r"\d+\.\d+", facts[1])
    # what is sealed holds no control characters
    return facts if is_one and all(map(_is_plain, facts)) else None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Location of a Python module in the caller's environment.

    Attributes:
        kind: `user` for packages of `pip install --user`, `path` for a folder of PYTHONPATH, `own`
            for the Python's own, `none` where it has no such module, or cannot be asked.
        folder: Folder of PYTHONPATH, where that is the kind; else empty.
    """

    kind: Literal["user", "path", "own", "none"]
    folder: str = ""


def locate_module(python: str, module: str) -> Origin:
    """Ask a Python where the caller's environment has a module, without importing it.

    Args:
        python: Its path.
        module: The first part of the module's name.
    """
    environment = {**os.environ, "PATH": search_path()}
    command = [python, "-c", _LOCATE, module]
    try:
        answer = process.run(command, env=environment, timeout_seconds=_ASK_SECONDS)
    except CapsuleError:
        return Origin(kind="none")
    # what a site customization prints comes before
    lines = answer.stdout.decode(errors="replace").splitlines()
    word, _, folder = (lines or [""])[-1].partition(" ")
    kinds: tuple[Literal["user", "path", "own"], ...] = ("user", "path", "own")
    kind = next((one for one in kinds if one == word and answer.exit_code == 0), None)
    return Origin(kind="none") if kind is None else Origin(kind=kind, folder=folder)


def _is_plain(text: str) -> bool:
    return text.isprintable() and len(text) <= _MOST_LETTERS


def _own_facts() -> list[str]:
    import platform

    kind = "virtual environment" if sys.prefix != sys.base_prefix else "-"
    if (Path(sys.prefix) / "conda-meta").is_dir():
        kind = "conda environment"
    version = platform.python_version()
    return [platform.python_implementation(), version, kind, sys.executable]


def _classify(path: Path) -> str:
    """Return the class of a path.

    >>> _classify(Path("/usr/bin/python3")), _classify(Path("/apps/torch/2.1/bin/python"))
    ('/usr/bin/python3', 'below /apps')
    """
    text = LocalPaths().clean_text(str(path))
    if text.startswith("$HOME"):
        return "below $HOME"
    is_system = any(text.startswith(f"{folder}/") for folder in _SYSTEM)
    if is_system and len(path.parts) <= 5 and _is_plain(text):
        return text
    if not _is_plain(path.parts[1]):
        return "elsewhere"
    return f"below /{path.parts[1]}" if len(path.parts) > 2 else "in /"
