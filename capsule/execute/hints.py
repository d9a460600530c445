"""Advice for a failed trial, based on evidence.

Each rule reads the output of the trial, checks the author's machine, and names the key of the
manifest to change. A rule without evidence on this machine gives no advice.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capsule import leavings, plain
from capsule.execute.workload import INPUTS, Setting
from capsule.execute.workspace import Workspace
from capsule.manifest import Benchmark, Command, commands
from capsule.manifest.pitfalls import find_word_pitfalls, name_interpreter
from capsule.manifest.problems import quote
from capsule.manifest.siblings import find_module
from capsule.record import Attempt
from capsule.runtimes import programs
from capsule.runtimes.programs import Origin, locate_module
from capsule.starts import LACKING

# what shells, and engines after them, end with where a program cannot be started
_NOT_STARTED = (126, 127, 255)
_SETUP = "the setup command: "
_MODULE = re.compile(r"No module named ['\"]?(\w[\w.]*)")
_LIBRARY = re.compile(r"([\w.+-]+\.so[.\d]*): cannot open shared object file")
_MISSING = re.compile(
    r"""(?xim)
    No\ such\ file\ or\ directory:\ b?['"](?P<python>[^'"\n]+)['"]
    | can't\ open\ file\ ['"](?P<script>[^'"\n]+)['"]
    | no\ such\ file\ or\ directory,\ \w+\ ['"](?P<node>[^'"\n]+)['"]
    | No\ such\ file\ or\ directory\ @\ \w+\ -\ (?P<ruby>\S+)
    | opening\ file\ "(?P<julia>[^"\n]+)":\ No\ such\ file
    | cannot\ open\ (?:compressed\ )?file\ ['"](?P<r>[^'"\n]+)['"]
    | unable\ to\ open\ file.{0,40}?name\ =\ ['"](?P<hdf>[^'"\n]+)['"]
    | (?:cannot\ open|open|stat|access)\ ['"]?(?P<open>[^'"\s:]+)['"]?:\ no\ such\ file
    | ^(?:[\w./+-]+:\ )*(?:line\ \d+:\ )?['"]?(?P<shell>(?!ENOENT)[^\s'":]+)['"]?
      :\ No\ such\ file\ or\ directory
    | (?P<java>\S+)\ \(No\ such\ file\ or\ directory\)
    | (?P<numpy>\S+\.np[yz])\ not\ found\.
    """
)
_UNSET = re.compile(
    r"""(?xm)
    (?:^|[\s:])\$?(?P<shell>[A-Za-z_]\w*):\ (?:unbound\ variable|parameter\ (?:null\ or\ )?not\ set)
    | key\ "(?P<julia>[A-Za-z_]\w*)"\ not\ found
    """
)
_KEY_ERROR = re.compile(r"^KeyError: '([A-Za-z_]\w*)'$", re.MULTILINE)
_OF_ENVIRON = re.compile(r"File \"(?:<frozen os>|[^\"]*/os\.py)\"")
_NO_TERMINAL = re.compile(r"\$TERM\b|TERM environment variable|Error opening terminal")
_NO_DISPLAY = re.compile(r"\$DISPLAY\b|connect to (?:X server|display)|cannot open display")
_NO_NAME = re.compile(r"No username set in the environment|getpwuid\(\): uid not found")
# by Python, and by shells and C programs, which name the file first
_READ_ONLY = re.compile(
    r"Read-only file system: (?:'([^'\n]*)'|\"([^\"\n]*)\")|([^\s:'\"]+): Read-only file system"
)
# PyTorch's DataLoader and torchrun, concurrent.futures, subprocess, and shells
_KILLED = re.compile(
    r"""(?xm)
    killed\ by\ signal:\ Killed | Signal\ 9\ \(SIGKILL\) | exit\ ?code\s*:?\ *=?\ *-9\b
    | died\ with\ <Signals\.SIGKILL | terminated\ abruptly\ while\ the\ future | \bKilled\s*$
    """
)
_NO_REPOSITORY = re.compile(r"not a git repository|InvalidGitRepositoryError")
# who captures what git says tells its exit status alone
_GIT_FAILED = re.compile(r"\bgit\b[^\n]*(?:\b(?:status|code) |ProcessExited\()128\b")
_USUAL = {
    *("USER", "LOGNAME", "TERM", "SHELL", "HOSTNAME", "LANG", "DISPLAY", "EDITOR", "MAIL"),
    *("SCRATCH", "WORK", "PROJECT", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"),
}
"""Variables that a shell of a person, or a site's profile, commonly sets."""
_EXAMPLES = {"USER": "user", "LOGNAME": "user", "TERM": "xterm", "LANG": "C.UTF-8"}
_SECRET = re.compile(r"(?i)key|token|secret|passw|credential")
_OF_TRIALS = {"PATH", "HOME", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH"}
"""Variables that every trial has, whatever the caller's are."""
_FIND = 'change the program to read files below $CAPSULE_INPUTS, or set "cwd" to an input folder'
# e_machine of ELF, by what `uname -m` calls it
_MACHINES = {
    3: ("i386", "i686"),
    21: ("ppc64", "ppc64le"),
    22: ("s390x",),
    40: ("arm", "armv7l"),
    62: ("x86_64",),
    183: ("aarch64", "arm64"),
    243: ("RISC-V", "riscv64"),
}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The environment of a failed trial's author, and the part of it that the trial had.

    Attributes:
        benchmark: Of which it was a trial.
        folder: Where the manifest's files lie, None where they are not at hand.
        inputs: Where the trial saw the inputs.
        carried: Where the run keeps them, None where that is not at hand.
        places: Folders that were the trial's own, as it saw them: its home and where it started.
        contained: Whether it ran in a container.
        programs: Where the machine's own programs lie by name, without a container.
        variables: The caller's environment.
        home: The caller's.
        locate: Where a Python (the path) has a module in the caller's environment.
    """

    benchmark: Benchmark
    folder: Path | None
    inputs: str
    carried: Path | None = None
    places: tuple[str, ...] = ()
    contained: bool
    programs: Mapping[str, str]
    variables: Mapping[str, str]
    home: Path
    locate: Callable[[str, str], Origin] = locate_module

    @classmethod
    def of(
        cls, workspace: Workspace, benchmark: Benchmark, setting: Setting, places: Sequence[str]
    ) -> Scene:
        """The scene of a trial of a run on this machine.

        Args:
            workspace: The run's.
            benchmark: The trial's.
            setting: How it was started.
            places: As the attribute.
        """
        contained = setting.runtime.contained
        return cls(
            benchmark=benchmark,
            folder=workspace.header.folder,
            inputs=INPUTS if contained else str(workspace.work / "inputs"),
            carried=workspace.inputs,
            places=tuple(places),
            contained=contained,
            programs=setting.prepared.programs,
            variables=os.environ,
            home=Path.home(),
        )


@dataclass(frozen=True, kw_only=True)
class _Failure:
    """A failed attempt of a command: what it said, the words that were started, and where."""

    attempt: Attempt
    scene: Scene
    command: Command
    words: tuple[str, ...]
    text: str

    @property
    def script(self) -> str | None:
        """The first word of the command that names an input file, None without one."""
        scene = self.scene
        if scene.folder is None:
            return None
        below = (one for one in self.words if commands.is_below(one, scene.benchmark.inputs))
        return next((one for one in below if (Path(scene.folder) / one).is_file()), None)

    def has(self, path: str) -> bool:
        """Return whether a path relative to the manifest exists on this machine."""
        return self.scene.folder is not None and os.path.lexists(self.scene.folder / path)

    def is_input(self, path: str) -> bool:
        """Return whether a path relative to the manifest is among the inputs."""
        carried = self.scene.carried
        is_named = commands.is_below(path, self.scene.benchmark.inputs)
        return is_named and (carried is None or os.path.lexists(carried / path))


def hint(attempt: Attempt, scene: Scene) -> list[str]:
    """Return advice, one sentence each, the most telling first; empty if there is none.

    Args:
        attempt: What failed.
        scene: Where.
    """
    hints = list(_about_protocol(attempt))
    command = scene.benchmark.subject
    if isinstance(command, Command):
        of_setup = attempt.message.startswith(_SETUP)
        failure = _Failure(
            attempt=attempt,
            scene=scene,
            command=command,
            words=command.setup if of_setup else command.words,
            text=attempt.message.removeprefix(_SETUP),
        )
        hints += [one for rule in _RULES for one in rule(failure)]
    return [plain.clean(one) for one in dict.fromkeys(hints)]


def _about_protocol(attempt: Attempt) -> Iterator[str]:
    message = attempt.message
    if attempt.reason == "timeout":
        yield 'raise "timeout" in the manifest, or shorten the trial'
    if message.startswith(LACKING):
        yield (
            'add "from" to the metric (where to read the number), or append'
            ' {"metric": NAME, "value": NUMBER} to $CAPSULE_RESULTS'
        )
    if "EOFError" in message:
        yield (
            "stdin is closed: pass the answer as an argument, or name an input file with"
            ' "stdin" beside "command"'
        )
    if "no seed was injected" in message:
        yield (
            'if the command runs no Python program: remove "seeding", and pass {seed} as an'
            " argument"
        )


def _about_program(failure: _Failure) -> Iterator[str]:
    """Why the program itself could not be started."""
    attempt, scene = failure.attempt, failure.scene
    if attempt.reason != "not-started" and attempt.exit_code not in _NOT_STARTED:
        return
    name = failure.words[0]
    path = scene.folder / name if scene.folder and failure.is_input(name) else None
    if path is None and attempt.reason == "not-started" and "/" not in name:
        if not failure.has(name):
            yield (
                f"no program {name} in the image: add the program to the image"
                if scene.contained
                else f"no program {name} on your PATH: install the program, or load its environment"
                " module"
            )
        return
    if interpreter := name_interpreter(scene.benchmark, scene.folder):
        yield (
            f"the script needs {interpreter} to start: install {interpreter}, or correct the first"
            " line of the script"
        )
    place = path or (None if scene.contained else programs.find(name))
    if place is not None and (made_for := _foreign_machine(place)):
        own = platform.machine()
        yield (
            f"{quote(name)} is built for {made_for}, but this machine is {own}: build {quote(name)}"
            f" for {own}"
        )


def _foreign_machine(path: Path) -> str | None:
    """The machine that a program was made for, None where it is this one or none is told."""
    stream = leavings.open_file(Path(os.path.realpath(path)))
    if stream is None:
        return None
    with stream:
        head = stream.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    number = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
    names = _MACHINES.get(number, (f"another machine (ELF machine number {number})",))
    return None if platform.machine() in names else names[0]


def _about_words(failure: _Failure) -> Iterator[str]:
    """Mistakes in the command that explain what the trial said."""
    started = failure.attempt.reason != "not-started"
    for pitfall in find_word_pitfalls(failure.scene.benchmark, failure.scene.folder):
        # a file explains a failure only where that names it
        if pitfall.file and started and pitfall.file.rpartition("/")[2] not in failure.text:
            continue
        yield pitfall.sentence


def _about_module(failure: _Failure) -> Iterator[str]:
    """Return where a module lies on this machine that a Python program did not find."""
    names = _MODULE.findall(failure.text)
    if not names:
        return
    name = names[-1].rstrip(".")
    top = name.partition(".")[0]
    if failure.scene.folder is not None:
        found = find_module(name, failure.scene.folder, failure.script)
        if found is not None:
            yield _bring_in_module(failure, name, found)
            return
    if failure.scene.contained:
        yield f"the image's Python has no module {top}: add the module to the image"
        return
    word = next((one for one in failure.words if programs.is_python(one)), "python3")
    python = failure.scene.programs.get(word) or str(programs.find(word) or "")
    if python:
        yield _explain_origin(failure.scene.locate(python, top), top, Path(word).name, python)


def _bring_in_module(failure: _Failure, name: str, found: str) -> str:
    parts, top = found.split("/"), name.partition(".")[0]
    depth = len(name.split("."))
    folder, package = "/".join(parts[:-depth]), "/".join(parts[: len(parts) - depth + 1])
    path = f'"env", "PYTHONPATH={{inputs}}{f"/{folder}" if folder else ""}"'
    looks_there = folder == (failure.script or "").rpartition("/")[0]
    if failure.is_input(found):
        return (
            f"input {quote(package)} provides module {top}, but its folder is not on Python's path:"
            f" begin the command with {path}"
        )
    # of a package all is needed, unless its author chose
    is_chosen = any(one.startswith(f"{package}/") for one in failure.scene.benchmark.inputs)
    more = "" if looks_there else f", and begin the command with {path}"
    return (
        f"{quote(found)} provides module {name}, but is not among the inputs:"
        f' add {quote(found if is_chosen else package)} to "inputs"{more}'
    )


def _explain_origin(origin: Origin, module: str, word: str, python: str) -> str:
    if origin.kind == "user":
        return (
            f"module {module} was installed with `pip install --user`, which a trial does not use:"
            f" install it into a virtual environment whose {word} is first on your PATH"
        )
    if origin.kind == "path":
        return (
            f"module {module} is on your PYTHONPATH, which a trial does not get: begin the command"
            f' with "env", "PYTHONPATH={origin.folder}", or add the package to "inputs"'
        )
    if origin.kind == "own":
        return (
            f"{word} on this machine is {python} and has module {module}, but the trial used"
            " another Python: install the module in the trial's Python"
        )
    return (
        f"{word} on this machine is {python}, which has no module {module}: install the module"
        f" for {python}, or put a Python with the module first on your PATH"
    )


def _about_library(failure: _Failure) -> Iterator[str]:
    """Return where a shared library lies that was not found."""
    for name in dict.fromkeys(_LIBRARY.findall(failure.text)):
        folders = failure.scene.variables.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        place = next((one for one in folders if one and (Path(one) / name).exists()), None)
        if place is not None and failure.scene.contained:
            yield (
                f"{name} is in {place} of your LD_LIBRARY_PATH, which a container does not get: add"
                " the library to the image"
            )
        elif place is None and not failure.scene.contained:
            yield (
                f"your LD_LIBRARY_PATH, which a trial gets unchanged, lacks {name}: load the"
                " environment module that provides the library"
            )


def _about_variables(failure: _Failure) -> Iterator[str]:
    """Variables that the caller has, or shells commonly have, and a trial has not."""
    text = failure.text
    names = [match["shell"] or match["julia"] for match in _UNSET.finditer(text)]
    if _OF_ENVIRON.search(text):
        names += _KEY_ERROR.findall(text)
    if _NO_TERMINAL.search(text):
        names.append("TERM")
    if _NO_DISPLAY.search(text):
        names.append("DISPLAY")
    if _NO_NAME.search(text):
        names.append("USER")
    for name in dict.fromkeys(names):
        is_known = name in failure.scene.variables or name in _USUAL
        if not is_known or name in failure.command.environment or name in _OF_TRIALS:
            continue
        if name == "DISPLAY":
            yield (
                "DISPLAY is not set in a trial, which has no screen: draw to a file; for matplotlib"
                ' set "environment": {"MPLBACKEND": "Agg"}'
            )
        elif _SECRET.search(name):
            yield (
                f"{name} is not set in a trial, whose environment is clean, and a value in the"
                f" manifest would be published: change the program to run without {name}"
            )
        elif commands.refuse_variable(name) is None:
            # never the caller's value: it may be private
            yield (
                f"{name} is not set in a trial, whose environment is clean: set it with"
                f' "environment": {{"{name}": "{_EXAMPLES.get(name, "...")}"}} beside "command"'
            )
        else:
            yield (
                f"{name} is not set in a trial, whose environment is clean: begin the command with"
                f' "env", "{name}=..."'
            )


def _about_memory(failure: _Failure) -> Iterator[str]:
    """Yield advice for a killed subprocess of the trial."""
    if _KILLED.search(failure.text):
        yield (
            "SIGKILL ended a process of the trial, most likely for lack of memory: use a smaller"
            " batch, fewer workers or more memory"
        )


def _about_repository(failure: _Failure) -> Iterator[str]:
    folder = failure.scene.folder
    is_clone = folder is not None and any(
        (one / ".git").exists() for one in (folder, *folder.parents)
    )
    if _NO_REPOSITORY.search(failure.text) or (is_clone and _GIT_FAILED.search(failure.text)):
        yield (
            ".git is not in a capsule, so git finds no repository in a trial: change the"
            ' program to run without git, or pass the commit in "environment": {"COMMIT": "..."}'
            ' beside "command"'
        )


def _about_inputs(failure: _Failure) -> Iterator[str]:
    """An input folder that the trial could only read."""
    scene, command = failure.scene, failure.command
    for match in _READ_ONLY.finditer(failure.text):
        path = next(filter(None, match.groups()), "")
        is_relative = not path.startswith("/") and command.cwd is not None
        if scene.contained and (is_relative or path.startswith(f"{scene.inputs}/")):
            rest = path.removeprefix(f"{scene.inputs}/")
            inputs = [one for one in scene.benchmark.inputs if commands.is_below(rest, [one])]
            copied = command.cwd or next(iter(inputs), "FOLDER")
            yield (
                "inputs are read-only in a container: change the program to write to $CAPSULE_OUT,"
                " or, if it writes beside its own code, set"
                f' "cwd": {{"copy": {quote(copied)}}}'
            )
            return


def _about_files(failure: _Failure) -> Iterator[str]:
    """Return where a file lies on this machine that the trial did not find."""
    scene = failure.scene
    told = {one.file for one in find_word_pitfalls(scene.benchmark, scene.folder)}
    for match in _MISSING.finditer(failure.text):
        path = next(filter(None, match.groups()))
        if _split_place(path, scene)[1] not in told and (sentence := _explain_file(failure, path)):
            yield sentence


def _explain_file(failure: _Failure, path: str) -> str | None:
    scene = failure.scene
    is_of_home, rest = _split_place(path, scene)
    if scene.folder is not None and not rest.startswith("/"):
        beside = (failure.script or "").rpartition("/")[0]
        places = (failure.command.cwd, beside, "")
        was_there = path.startswith(f"{scene.inputs}/")
        for near in dict.fromkeys(os.path.normpath(f"{place or '.'}/{rest}") for place in places):
            if near != "." and not near.startswith("..") and failure.has(near):
                if was_there and failure.is_input(near):
                    return None
                return _bring_in_file(near, is_input=failure.is_input(near), path=path)
    if is_of_home and rest and os.path.lexists(scene.home / rest):
        return (
            f"~/{rest} is in your home, but a trial has an empty HOME: make ~/{rest} a dataset, or"
            ' copy it beside the manifest and add it to "inputs"'
        )
    if scene.contained and path.startswith("/") and os.path.lexists(path):
        return (
            f"{path} is on this machine, but not in the container: make {path} a dataset, or"
            ' copy it beside the manifest and add it to "inputs"'
        )
    if scene.contained and "/" not in path and shutil.which(path):
        return (
            f"program {path} is on this machine, but not in the image: add the program to the image"
        )
    return None


def _split_place(path: str, scene: Scene) -> tuple[bool, str]:
    """A path relative to the inputs or to a folder of the trial; whether it is of the latter."""
    for is_own, place in ((False, scene.inputs), *((True, one) for one in scene.places)):
        if path.startswith(f"{place}/"):
            return is_own, path.removeprefix(f"{place}/").lstrip("/")
    return False, path


def _bring_in_file(near: str, *, is_input: bool, path: str) -> str:
    if is_input:
        return f"{quote(near)} is among the inputs, but a trial starts in an empty folder: {_FIND}"
    more = "" if path.startswith("/") else f", and {_FIND}"
    return (
        f'{quote(near)} is beside the manifest, but not among the inputs: add it to "inputs"{more}'
    )


_RULES: tuple[Callable[[_Failure], Iterator[str]], ...] = (
    _about_program,
    _about_words,
    _about_module,
    _about_library,
    _about_variables,
    _about_memory,
    _about_repository,
    _about_inputs,
    _about_files,
)
