"""Consent: which code may run on this machine.

The user's own code may. For untrusted code capsule prints what it would run, and asks. It asks once
the engine is chosen and before anything is fetched, so that what the screen shows is what runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

from capsule import launch, reading, software
from capsule import resolve as resolving
from capsule import site as sites
from capsule.archive import Capsule
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
    otherdevice,
)
from capsule.plan import Plan
from capsule.resolve import Choice, Request, Resolved
from capsule.trust import ledger, outlook
from capsule.trust.outlook import Outlook
from capsule.watch import SILENT, Watch

_INPUTS = "inputs/"
_SHOWN_FILES = 12
_SHOWN_BENCHMARKS = 40
_SHOWN_SOFTWARE = 4
_SHOWN_DIGITS = 12
_PLAIN_WORD = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Code:
    """Code that a run would execute.

    Attributes:
        name: Id of the capsule, or the folder of the run.
        own: Whether it is this user's.
        whose: The reason why it is untrusted, as a clause.
        label: The name as the screen shows it.
        inputs: Sizes in bytes of the author's files.
        program: Digest of the measuring code.
        software: The software that the original was measured with; none for a run.
    """

    name: str
    own: bool
    whose: str
    label: str
    inputs: Mapping[str, int]
    program: str | None
    software: Sequence[str] = ()


class Permission(Protocol):
    """The options by which a user allows untrusted code to run."""

    @property
    def trust(self) -> bool:
        """Return whether untrusted code may run."""

    @property
    def allow_host(self) -> bool:
        """Return whether untrusted code may run without a container, or with an open network."""


def of_capsule(opened: Capsule, *, own_levels: bool) -> Code:
    """Return the code of a capsule, which is own where this user sealed it.

    Args:
        opened: The capsule.
        own_levels: Whether this installation's program measures, and not the capsule's.
    """
    sizes = opened.sizes
    return Code(
        name=opened.id,
        own=ledger.holds(opened.id),
        whose="You did not seal this capsule",
        label=f"id {opened.id[:_SHOWN_DIGITS]}",
        inputs={name: sizes[name] for name in sizes if name.startswith(_INPUTS)},
        program=reading.own_program(opened.record.manifest)
        if own_levels
        else opened.record.levels["digest"],
        software=software.describe(opened.record.software),
    )


def of_folder(workspace: Workspace, manifest: Manifest) -> Code:
    """Return the code of a run folder, which is own where this user began the run in it.

    Raises:
        UsageError: An input is no plain file.
        DamagedError: An input is missing.
    """
    files = inputs.copies(manifest, workspace.inputs)
    return Code(
        name=str(workspace.to_resume),
        own=ledger.has_begun(workspace.folder),
        whose="You did not begin this run in this folder",
        label=f"folder {workspace.to_resume}",
        inputs={f"{_INPUTS}{name}": path.stat().st_size for name, path in files.items()},
        program=payload.program(workspace.levels),
    )


def of_verification(opened: Capsule, workspace: Workspace) -> Code:
    """Return the code of a verification's folder, which is own where its capsule is, too.

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
    """Choose the engine of a run, and raise unless its code may run so.

    Args:
        code: To run.
        request: What the run needs of this machine.
        permission: What the user allows.
        prospect: What the run would start and write.
        watch: Receives what untrusted code would run.

    Raises:
        UntrustedError: The user did not allow the code to run, or to run without a container.
        CannotRunError: No engine works on this machine.
    """
    if code.own:
        return resolving.choose(request, watch)
    screen = partial(_announce, code, request, prospect, watch)
    try:
        choice = resolving.choose(request, watch)
    except CannotRunError as error:
        screen(None, [f"container: no engine works on this machine: {error.what}"])
        if permission.trust:
            raise
        raise _refusal(code, ("--trust",)) from None
    screen(choice, list(_describe_engine(request, choice)))
    flags = ("--trust",) if choice.runtime.contained else ("--trust", "--allow-host")
    if not permission.trust:
        raise _refusal(code, flags)
    if not choice.runtime.contained and not permission.allow_host:
        raise _refuse_host(code, flags, has_image=request.has_image)
    return replace(choice, own=False)


def require_containment(code: Code, resolved: Resolved, permission: Permission) -> None:
    """Raise where the engine turns out to leave the network open to untrusted code.

    Raises:
        UntrustedError: It does, and the user did not allow that.
    """
    reason = resolved.prepared.open_network
    if code.own or permission.allow_host or reason is None:
        return
    another = "use another engine (--runtime docker or --runtime podman), or "
    raise UntrustedError(
        f"Not started. {resolved.runtime.name} cannot isolate this code from the network: {reason}",
        where=code.name,
        advice=f"{'' if reason == launch.SHARED else another}add --allow-host",
        flags=("--trust", "--allow-host"),
    )


def _refusal(code: Code, flags: tuple[str, ...]) -> UntrustedError:
    return UntrustedError(
        f"Not started. If you trust the source of this code: add {' '.join(flags)}",
        where=code.name,
        flags=flags,
    )


def _refuse_host(code: Code, flags: tuple[str, ...], *, has_image: bool) -> UntrustedError:
    """Return the error of trusted code that lacks a container."""
    packages = f": {'; '.join(code.software[:_SHOWN_SOFTWARE])}" if code.software else ""
    way_out = (
        "--runtime apptainer, --runtime docker or --runtime podman"
        if has_image
        else f"--image docker://HOST/NAME:TAG with an image that has the code's packages{packages}"
    )
    return UntrustedError(
        f"Not started. No container: {outlook.UNCONTAINED}",
        where=code.name,
        advice=f"add {way_out}\n"
        "or add --allow-host, preferably in an account or a virtual machine without valuable data",
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
    manifest = request.manifest
    facts = [
        *_describe_benchmarks(manifest.benchmarks, prospect.plan),
        f"starts: {outlook.describe_extent(prospect)}",
        *_describe_files(code),
        *outlook.describe_data(request, contained=choice is not None and choice.runtime.contained),
        *engine,
        f"GPUs: {outlook.describe_devices(manifest)}",
        *(f"not run: {sentence}" for sentence in otherdevice.list_left_out(manifest)),
        f"limits: {outlook.describe_limits(prospect.limits)}",
        f"writes: {outlook.describe_writes(prospect)}",
        f"from: {outlook.describe_origin(manifest)}, {code.label}",
        *(f"packages: {line}" for line in code.software[:_SHOWN_SOFTWARE]),
        f"code: {_describe_program(code, manifest)}",
    ]
    if fault := ledger.fault():
        facts.append(
            f"ledger: capsule cannot use the list of your capsules and run folders: {fault}"
        )
    watch.stranger(code.whose, facts)


def _describe_engine(request: Request, choice: Choice) -> Iterator[str]:
    """Yield what the code can reach: container, files of this machine, keys and network."""
    online = [one.id for one in request.manifest.benchmarks if one.online]
    if not choice.runtime.contained:
        yield f"container: NONE: {outlook.UNCONTAINED}"
        if request.has_image:
            yield "container: capsule ignores the image that the manifest names"
    else:
        assert choice.image is not None
        whose = "named by --image" if request.image else "named by the manifest"
        name = choice.image.pinned or choice.image.reference
        yield f"container: {choice.runtime.name}, image {name} ({whose})"
        yield f"container: {outlook.describe_size(choice)}"
        site = sites.load()
        for target, source in site.binds.items():
            yield f"mounts: {source} of this machine at {target}, read-only (site file)"
        for path in site.mpi[:1]:
            yield f"mounts: {path}, this machine's MPI, in place of the image's MPI (site file)"
    if request.keep_keyring:
        yield (
            "keyring: the code can use your kernel keys, such as Kerberos tickets (--keep-keyring)"
        )
    yield f"network: {outlook.describe_network(online, contained=choice.runtime.contained)}"


def _describe_program(code: Code, manifest: Manifest) -> str:
    if code.program == reading.own_program(manifest):
        return "measuring code identical to this installation's"
    return "measuring code NOT identical to this installation's: the author's measuring code runs"


def _describe_files(code: Code) -> Iterator[str]:
    for name, size_bytes in islice(code.inputs.items(), _SHOWN_FILES):
        yield f"files: {name} ({size_bytes} bytes)"
    if (more := len(code.inputs) - _SHOWN_FILES) > 0:
        yield f"files: and {more} more files: `unzip -l` lists the files of a capsule"


def _describe_benchmarks(every: tuple[Benchmark, ...], plan: Plan) -> Iterator[str]:
    """Yield what each benchmark runs of which the plan has a trial."""
    planned = {trial.benchmark.id for group in plan.groups for trial in group.trials}
    benchmarks = [benchmark for benchmark in every if benchmark.id in planned]
    for benchmark in benchmarks[:_SHOWN_BENCHMARKS]:
        name = f"{benchmark.id}: " if len(benchmarks) > 1 else ""
        if isinstance(benchmark.subject, Command) and benchmark.subject.setup:
            yield f"setup: {name}{_quote(benchmark.subject.setup)} (before each start)"
        yield f"command: {name}{_describe(benchmark)}"
    if (more := len(benchmarks) - _SHOWN_BENCHMARKS) > 0:
        yield f"command: and {more} more benchmarks: `capsule show` lists them"


def _describe(benchmark: Benchmark) -> str:
    match benchmark.subject:
        case Command() as command:
            return _describe_command(command, len(benchmark.cases))
        case Operator(name=name, source=source):
            kind = "operator"
        case Network(name=name, source=source):
            kind = "network"
        case Reading():
            return f"reading of the dataset {', '.join(benchmark.datasets)}"
        case Collective():
            names = dict.fromkeys(str(case.parameters["collective"]) for case in benchmark.cases)
            return f"exchange of arrays between ranks by {', '.join(names)}"
        case Recipe(name=name, source=source, own_optimizer=optimizer):
            kind = "training of the network"
            if optimizer:
                name = f"{name} by the author's optimizer {optimizer.path}"
    whose = "the author's " if source else ""
    return f"{whose}{kind} {name}"


def _describe_command(command: Command, cases: int) -> str:
    facts: list[str] = []
    if command.cwd:
        facts.append(f"in {'a copy of ' if command.copies_cwd else ''}{command.cwd}")
    if command.stdin:
        facts.append(f"stdin {command.stdin}")
    facts += (f"{name}={value!r}" for name, value in command.environment.items())
    if command.injects_seed:
        facts.append("its seeds replaced")
    if cases > 1:
        facts.append(f"{cases} cases")
    details = f" ({'; '.join(facts)})" if facts else ""
    return f"{_quote(command.words)}{details}"


def _quote(words: Iterable[str]) -> str:
    """Return words as a shell takes them, with placeholders such as {seed} as they are."""
    return " ".join(one if _PLAIN_WORD.fullmatch(one) else shlex.quote(one) for one in words)
