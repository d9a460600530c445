"""Whose code may run here: one's own, and what somebody said yes to after reading what it is.

Asked once the engine is decided and before anything is fetched, so that what the screen announces
is what runs: engine, image, network, program, the author's files and commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

from capsule import reading, software
from capsule import resolve as resolving
from capsule import site as sites
from capsule.archive import Capsule
from capsule.durations import duration
from capsule.errors import CannotRunError, UntrustedError
from capsule.execute import inputs, payload
from capsule.execute.workspace import Workspace
from capsule.manifest import (
    Benchmark,
    Collective,
    Command,
    Manifest,
    Network,
    Operator,
    Reading,
    Recipe,
)
from capsule.options import Limits
from capsule.plan import Plan
from capsule.resolve import Choice, Request, Resolved
from capsule.sizes import size
from capsule.trust import ledger, outlook
from capsule.trust.outlook import Outlook
from capsule.watch import SILENT, Watch

_INPUTS = "inputs/"
_SHOWN_FILES = _SHOWN_DATASETS = 12
_SHOWN_BENCHMARKS = 40
_SHOWN_SOFTWARE = 4


@dataclass(frozen=True, kw_only=True)
class Code:
    """What would be executed here.

    Attributes:
        name: Id of the capsule, or the folder of the run.
        own: Whether it is this user's.
        whose: What makes it a stranger's, as a sentence.
        inputs: Sizes in bytes of the author's files.
        program: Digest of the measuring program.
        software: What the original was measured with, in words; none for a run.
    """

    name: str
    own: bool
    whose: str
    inputs: Mapping[str, int]
    program: str | None
    software: Sequence[str] = ()


class Permission(Protocol):
    """What somebody said yes to."""

    @property
    def trust(self) -> bool:
        """A stranger's code may run here."""

    @property
    def allow_host(self) -> bool:
        """It may do so less contained than by an engine."""


def of_capsule(opened: Capsule, *, own_levels: bool) -> Code:
    """The code of a capsule: one's own where one sealed it, wherever its bytes lie now.

    Args:
        opened: The capsule.
        own_levels: Whether this version's program measures, and not the capsule's.
    """
    sizes = opened.sizes
    return Code(
        name=opened.id,
        own=ledger.holds(opened.id),
        whose=f"{opened.id} was not sealed by you",
        inputs={name: sizes[name] for name in sizes if name.startswith(_INPUTS)},
        program=reading.own_program(opened.record.manifest)
        if own_levels
        else opened.record.levels["digest"],
        software=software.describe(opened.record.software),
    )


def of_folder(workspace: Workspace, manifest: Manifest) -> Code:
    """The code in the folder of a run: one's own where one began it, at this place.

    Raises:
        UsageError: Its inputs are not the plain files that a run copies.
        DamagedError: One is missing.
    """
    files = inputs.copies(manifest, workspace.inputs)
    return Code(
        name=str(workspace.to_resume),
        own=ledger.has_begun(workspace.folder),
        whose=f"{workspace.to_resume} was not begun by you at this place",
        inputs={f"{_INPUTS}{name}": path.stat().st_size for name, path in files.items()},
        program=payload.program(workspace.levels),
    )


def of_verification(opened: Capsule, workspace: Workspace) -> Code:
    """The code in the folder of a verification: one's own where the capsule is, too.

    Raises:
        UsageError: As for `of_folder`.
        DamagedError: As for `of_folder`.
    """
    code = of_folder(workspace, opened.record.manifest)
    capsule = of_capsule(opened, own_levels=False)
    if not code.own:
        return code
    return replace(capsule, inputs=code.inputs, program=code.program)


def require_consent(
    code: Code,
    request: Request,
    permission: Permission,
    prospect: Outlook,
    watch: Watch = SILENT,
) -> Choice:
    """Decide what starts a run, and stop unless that code may run so.

    Args:
        code: Whose it is.
        request: What it needs of this machine.
        permission: What somebody said yes to.
        prospect: What will come of it.
        watch: Is told what would run, where that is not this user's.

    Raises:
        UntrustedError: Nobody said that it may run, or run without a container.
        CannotRunError: No engine can be used here.
    """
    if code.own:
        return resolving.choose(request, watch)
    screen = partial(_announce, code, request, prospect, watch)
    try:
        choice = resolving.choose(request, watch)
    except CannotRunError as error:
        screen(None, [f"by no engine: {error.what}"])
        if permission.trust:
            raise
        raise _refusal(code, ("--trust",)) from None
    screen(choice, list(_engine(request, choice)))
    flags = ("--trust",) if choice.runtime.contained else ("--trust", "--allow-host")
    if not permission.trust:
        raise _refusal(code, flags)
    if not choice.runtime.contained and not permission.allow_host:
        raise UntrustedError(
            "it would run on this host without a container",
            where=code.name,
            advice="use --runtime apptainer, docker or podman, or say --allow-host"
            if request.has_image
            else "it has no image: say --allow-host, in an account or a virtual machine that has"
            " nothing to lose; or name an image that has what its programs need, with --image"
            " docker://HOST/NAME:TAG",
            flags=flags,
        )
    return replace(choice, own=False)


def require_containment(code: Code, resolved: Resolved, permission: Permission) -> None:
    """Stop where the engine turns out not to contain a stranger's code as it was announced.

    Raises:
        UntrustedError: It does not, and nobody said that this will do.
    """
    reason = resolved.prepared.open_network
    if code.own or permission.allow_host or reason is None:
        return
    raise UntrustedError(
        f"{resolved.runtime.name} cannot keep it off the network here: {reason}",
        where=code.name,
        advice="use another engine with --runtime, or say --allow-host",
        flags=("--trust", "--allow-host"),
    )


def _refusal(code: Code, flags: tuple[str, ...]) -> UntrustedError:
    return UntrustedError(
        "a stranger's code would be executed",
        where=code.name,
        advice="when you have read what would run and trust where it comes from:"
        f" {' and '.join(flags)}",
        flags=flags,
    )


def _announce(
    code: Code,
    request: Request,
    prospect: Outlook,
    watch: Watch,
    choice: Choice | None,
    engine: list[str],
) -> None:
    lines = [
        outlook.describe(request.manifest),
        outlook.describe_extent(prospect),
        *engine,
        *(f"measured by its author with {line}" for line in code.software[:_SHOWN_SOFTWARE]),
        *outlook.describe_needs(request, choice),
        *_limits(prospect.limits),
        outlook.describe_writes(prospect),
        *_files(code, request.manifest),
        *_benchmarks(request.manifest.benchmarks, prospect.plan),
    ]
    if fault := ledger.fault():
        lines.append(f"what you sealed and began is not known: {fault}")
    watch.stranger(code.whose, lines)


def _engine(request: Request, choice: Choice) -> Iterator[str]:
    if request.keep_keyring:
        yield "with your keys of the kernel in its reach, such as Kerberos tickets (--keep-keyring)"
    if not choice.runtime.contained:
        yield "on this host, without a container"
        if request.has_image:
            yield "without the image that it was measured in"
        return
    assert choice.image is not None
    whose = "that you named" if request.image else "that it names"
    name = choice.image.pinned or choice.image.reference
    yield f"by {choice.runtime.name} in the image {whose}, {name}"
    yield "with no network but where a line below says so"
    site = sites.load()
    for target, source in site.binds.items():
        yield f"with {source} of this machine at {target}, read-only, as its site file says"
    for path in site.mpi[:1]:
        yield f"with {path}, this machine's own MPI, in the place of the image's, as it says"


def _limits(limits: Limits) -> Iterator[str]:
    if limits.walltime is not None:
        yield f"for at most {duration(limits.walltime)} (--walltime)"
    if limits.disk is not None:
        yield f"with at most {size(limits.disk)} on the disk in each process start (--disk)"
    if limits.pids is not None:
        yield f"with at most {limits.pids} processes and threads in each (--pids)"
    if limits.memory is not None:
        yield f"with at most {size(limits.memory)} of memory in each (--memory)"


def _files(code: Code, manifest: Manifest) -> Iterator[str]:
    own = code.program == reading.own_program(manifest)
    yield "measured by this version's program" if own else "measured by a program of its own"
    for name, size_bytes in islice(code.inputs.items(), _SHOWN_FILES):
        yield f"{name}, {size_bytes} bytes"
    if (more := len(code.inputs) - _SHOWN_FILES) > 0:
        yield f"and {more} more files: `unzip -l` lists those of a capsule"


def _benchmarks(every: tuple[Benchmark, ...], plan: Plan) -> Iterator[str]:
    """Those of which anything would be started."""
    planned = {trial.benchmark.id for group in plan.groups for trial in group.trials}
    benchmarks = [benchmark for benchmark in every if benchmark.id in planned]
    for benchmark in benchmarks[:_SHOWN_BENCHMARKS]:
        yield f"{benchmark.id}: {_describe(benchmark)}"
    if (more := len(benchmarks) - _SHOWN_BENCHMARKS) > 0:
        yield f"and {more} more benchmarks: `capsule show` lists them"


def _describe(benchmark: Benchmark) -> str:
    network = ", with network" if benchmark.online else ""
    match benchmark.subject:
        case Command() as command:
            return f"{_command(command, len(benchmark.cases))}{network}"
        case Operator(name=name, source=source):
            kind = "operator"
        case Network(name=name, source=source):
            kind = "network"
        case Reading():
            return f"reading of the dataset {', '.join(benchmark.datasets)}{network}"
        case Collective():
            names = dict.fromkeys(str(case.parameters["collective"]) for case in benchmark.cases)
            return f"exchange of arrays between ranks by {', '.join(names)}{network}"
        case Recipe(name=name, source=source, own_optimizer=optimizer):
            kind = "training of the network"
            if optimizer:
                name = f"{name} by the author's optimizer {optimizer.path}"
    whose = "the author's " if source else ""
    return f"{whose}{kind} {name}{network}"


def _command(command: Command, cases: int) -> str:
    words = repr(" ".join(command.words))
    if command.setup:
        words = f"{' '.join(command.setup)!r}, and then {words}"
    copy = "a copy of " if command.copies_cwd else ""
    where = f", started in {copy}{command.cwd}" if command.cwd else ""
    reads = f", reading {command.stdin}" if command.stdin else ""
    variables = "".join(f", {name}={value!r}" for name, value in command.environment.items())
    seeded = ", its seeds replaced" if command.injects_seed else ""
    return f"{words}{where}{reads}{variables}{seeded}{f', {cases} cases' if cases > 1 else ''}"
