"""Apptainer or Singularity. spython pulls, inspects and probes; the workload is `process`'s."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from capsule import places, process
from capsule.errors import CannotRunError, CapsuleError
from capsule.image import Image
from capsule.process import Exit
from capsule.runtimes import arrival, gpus, keyguard, sifs, visible
from capsule.runtimes import keyring as keyrings
from capsule.runtimes.arrival import Arrival
from capsule.runtimes.base import (
    NETWORK,
    Availability,
    Ended,
    Invocation,
    Mount,
    NeverStarted,
    Prepared,
    Running,
    Started,
    Wrapped,
    split_status,
    start_command,
    tail_since,
)
from capsule.runtimes.conversion import convert, find_fatal
from capsule.runtimes.keyring import Keyring

_PROGRAMS = ("apptainer", "singularity")
# each of them decides what the workload sees: docs of `apptainer exec`, tried with 1.4.5
_FLAGS = ("--containall", "--cleanenv", "--no-eval", "--no-home")
# --containall is --contain with namespaces for processes and shared memory besides, in which ranks
# of MPI wait for each other forever
_JOINED_FLAGS = ("--contain", *_FLAGS[1:])
# Each container has a /dev/shm of its own all the same, and to bind another one there is refused:
# MPICH takes it for the node's and waits in it forever. So ranks of one node talk as those of two.
# Addresses of UCX's second version are shorter: those of the first did not arrive whole by Slurm's
# pmi2 where an ordinary user's ranks had loaded torch ("failed to unpack address"; MPICH 5.0.2 with
# UCX 1.20.1, four ranks on two nodes).
_JOINED_VARIABLES = {
    "MPIR_CVAR_NOLOCAL": "1",
    "UCX_TLS": "tcp,self",
    "UCX_ADDRESS_VERSION": "v2",
}
# all that 1.4.5 says of a program that the image lacks or that is none
_NO_PROGRAM = re.compile(
    r"""(?x)
    ".*":\ executable\ file\ not\ found\ in\ \$PATH | stat\ .*:\ no\ such\ file\ or\ directory
    | exec\ .*\ failed:.* | permission\ denied | is\ a\ directory
    """
)
_ISOLATED = ("--net", "--network", "none")
# Of a workload that is started by root the kernel asks no capability to write what user 0 owns: its
# settings, and files of the host that the engine shows by itself. Neither --userns nor --no-privs
# changes that (1.4.5). So all of it is shown read-only, which a user namespace inside cannot undo.
_AS_ROOT = ("--no-privs", "--no-mount", "sys")
_LOCAL_TIME, _HOSTS = Path("/etc/localtime"), Path("/etc/hosts")
_SYS = ("block", "bus", "class", "dev", "devices", "kernel/mm", "module")
_WRITABLE = 0o222
_KEYGUARD = "/capsule/keyguard.py"
# what the engine itself needs; bind paths and options in the caller's environment would leak in
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH")
_KEPT_SETTINGS = ("TMPDIR", "CACHEDIR", "CONFIGDIR")


class Apptainer:
    """Apptainer, or Singularity where that is what is installed."""

    name = "apptainer"
    contained = True

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def available(self) -> Availability:
        """Look for the program and ask its version."""
        program = _program()
        if program is None:
            return Availability(
                usable=False,
                version=None,
                reason="cannot find apptainer or singularity on the PATH (load a module?)",
            )
        try:
            answer = process.run([str(program), "--version"])
        except CapsuleError as error:
            return Availability(usable=False, version=None, reason=error.what)
        if answer.exit_code != 0:
            message = answer.stderr.decode(errors="replace").strip()[-300:]
            return Availability(
                usable=False, version=None, reason=f"{program} --version fails: {message}"
            )
        return Availability(usable=True, version=answer.stdout.decode(errors="replace").strip())

    def prepare(
        self, image: Image | None, *, cache: Path, keep_keyring: bool = False, own: bool = True
    ) -> Prepared:
        """Return the image as a SIF, made unless this user has it already or named one, and tried.

        Raises:
            CannotRunError: It cannot be had or kept, or no container can be started here.
        """
        version = _usable(self.available())
        if image is None:
            raise CannotRunError(
                "Apptainer needs an image, and the manifest names no image",
                advice="name an image with --image, or add --runtime host",
            )
        if image.file is not None and image.file.form == "sif":
            sif = sifs.adopt(image, cache)
        else:
            keyring = "kept" if keep_keyring else _usual_keyring(own=own)
            try_start = partial(_try, keyring=keyring)
            make = partial(convert, image, program=str(_program()), try_start=try_start)
            sif = sifs.obtain(image.identity.digest, cache, make)
        keyring = "kept" if keep_keyring else _choose_keyring(sif.path, own=own)
        refused = _refused_isolation(sif.path, keyring=keyring)
        observations = {
            "version": version,
            "sif_sha256": sif.digest.hex,
            NETWORK: "isolated" if refused is None else f"refused: {refused}",
            **keyrings.observe(keyring),
        }
        if os.geteuid() == 0:
            observations["privileges"] = "root without capabilities, kernel settings read-only"
        return Prepared(
            handle=str(sif.path),
            observations=observations,
            open_network=refused,
            hashing_seconds=sif.hashing_seconds,
            tree=image.tree_digest or sifs.tree(sif, cache),
            keyring=keyring,
        )

    def rehearse(self) -> str | None:
        """Start a container of this machine's own files; why it has a network, None for none.

        Raises:
            CannotRunError: Apptainer cannot be used, or start a container here.
        """
        _usable(self.available())
        with places.scratch() as folder:
            for name in ("dev", "etc", "proc", "root", "sys", "tmp", "usr", "var/tmp"):
                (folder / name).mkdir(parents=True)
            shown = []
            for name in ("usr", "bin", "lib", "lib64"):
                here = Path("/") / name
                if here.is_symlink():
                    (folder / name).symlink_to(here.readlink())
                elif here.is_dir():
                    (folder / name).mkdir(exist_ok=True)
                    shown += ["--mount", _bind(Mount(source=here, target=str(here)))]
            return _refused_isolation(folder, tuple(shown))

    def keeps(self, image: Image, *, cache: Path) -> bool:
        """Return whether a SIF of it lies in the cache, or it is one itself."""
        if image.file is not None and image.file.form == "sif":
            return True
        return sifs.is_kept(image.identity.digest, cache)

    def check_gpus(self, count: int, prepared: Prepared, image: Image | None) -> None:  # noqa: ARG002
        """Stop unless the machine has so many devices, with a driver that suits the image.

        Raises:
            CannotRunError: Says what is missing.
        """
        found = visible.require(count, image, self._root)
        if found.vendor == "intel":
            raise CannotRunError(
                "Apptainer has no option for Intel GPUs, and this machine has Intel GPUs",
                advice="use --runtime host",
            )

    def inside(self, mount: Mount) -> str:
        """Return the mount's target."""
        return mount.target

    def wrap(self, prepared: Prepared, invocation: Invocation) -> Wrapped:
        """`apptainer exec` with everything that contains it.

        Raises:
            CannotRunError: Apptainer is gone.
        """
        program = _program()
        if program is None:
            raise CannotRunError(
                "apptainer is no longer on the PATH", advice="restore the PATH of this run"
            )
        return Wrapped(
            command=(program, "--quiet", "exec", *self._options(prepared, invocation)),
            environment=_environment(invocation, Path(program).name, self._root),
            cwd=Path("/"),
        )

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start the command in the image; the engine's own failure is a fault of the answer."""
        before = invocation.stderr.stat().st_size if invocation.stderr.exists() else 0
        try:
            invocation = visible.assign(invocation, self._root)
            expected = arrival.expect(invocation, place=len(_entry(prepared.keyring)) + 1)
            shown = replace(invocation, mounts=(*invocation.mounts, *expected.mounts))
            started = start_command(prepared, self.wrap(prepared, shown), invocation)
        except CannotRunError as error:
            return NeverStarted(error.what)
        except OSError as error:
            return NeverStarted(
                f"cannot write in the folder of {invocation.stdout}: {error.strerror}"
            )
        return Started(started, partial(_judge, invocation, before, expected))

    def limits_memory(self) -> bool:
        """Return False: own limits need a control group of the user, so memory is watched."""
        return False

    def reap(self, label: str) -> int:
        """End the engine and its containers' processes that a dead run with this label left."""
        return process.reap(label)

    def _options(self, prepared: Prepared, invocation: Invocation) -> list[str]:
        isolated = not invocation.network and prepared.open_network is None
        home = invocation.environment.get("HOME", "/tmp")  # noqa: S108 - the container's own
        mounts = (*prepared.binds, *invocation.mounts)
        return [
            *(_JOINED_FLAGS if invocation.joins else _FLAGS),
            *_keyring_flags(prepared.keyring),
            *_guards(isolated),
            *(_ISOLATED if isolated else ()),
            *self._gpu_flags(invocation.devices),
            *(word for mount in mounts for word in ("--mount", _bind(mount))),
            # without --home the caller's home path is shown inside, though nothing lies there
            *("--home", home, "--pwd", invocation.cwd),
            prepared.handle,
            *_entry(prepared.keyring),
            *invocation.command,
        ]

    def _gpu_flags(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        if not devices:
            return ()
        devices_here = gpus.find(self._root)
        return ("--rocm",) if devices_here and devices_here.vendor == "amd" else ("--nv",)


def _program() -> str | None:
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


def _usable(availability: Availability) -> str:
    if not availability.usable:
        raise CannotRunError(
            f"Apptainer does not work on this machine: {availability.reason}",
            advice="choose another engine with --runtime",
        )
    return str(availability.version)


def _prefix(program_name: str) -> str:
    return program_name.upper()


@cache
def _client(*words: str) -> Any:
    """Return the client of spython, calling the program that is there with a few variables set.

    spython 0.3.14 has the name `singularity` built in, and `pull` no way to hand in variables.
    """
    from spython.main import Client

    class Named(type(Client)):  # type: ignore[misc]
        def _init_command(self, action: Any, flags: Any = None) -> list[str]:
            command: list[str] = super()._init_command(action, flags)
            return [*words, *command[1:]]

    client = Named()
    client.quiet = False
    return client


def _spython(**variables: str) -> Any:
    program = str(_program())
    prefix = _prefix(Path(program).name)
    return _client(
        "env", *(f"{prefix}_{name}={value}" for name, value in variables.items()), program
    )


def _refused_isolation(
    sif: Path, shown: tuple[str, ...] = (), *, keyring: Keyring = "kept"
) -> str | None:
    """Start a container once, without a network; why this user may not, None when they may."""
    refusal = _try(sif, _ISOLATED, shown, keyring=keyring)
    if refusal is None or (without := _try(sif, (), shown, keyring=keyring)) is None:
        return refusal
    raise CannotRunError(
        f"Apptainer is installed, but cannot start a container: {without}",
        advice="ask the site to allow unprivileged user namespaces, or use --runtime docker",
    )


def _choose_keyring(sif: Path, *, own: bool) -> Keyring:
    """Choose how workloads of an image are kept from the user's keys.

    Args:
        sif: The image.
        own: True if the image is this user's: an untrusted Python would set no filter.

    Raises:
        CannotRunError: They cannot be, or the image lies where those keys are needed.
    """
    keyrings.require_reachable([sif])
    usual = _usual_keyring(own=own)
    if usual == "outside":
        return usual
    reasons = []
    # the site's own starter mounts images faster
    ways: tuple[Keyring, ...] = ("inside", "userns") if own else ("userns",)
    for keyring in ways:
        if (fault := _try(sif, keyring=keyring)) is None:
            return keyring
        reasons.append(fault)
    raise CannotRunError(
        "cannot hide your kernel keys from the workload, because Apptainer is installed setuid:"
        f" {'; '.join(reasons)}",
        where=str(sif),
        advice="add python3 to the image, enable user namespaces (--userns), use --runtime docker,"
        " or add --keep-keyring to leave your keys readable",
    )


def _usual_keyring(*, own: bool) -> Keyring:
    """Return the usual way: outside, unless Apptainer's setuid starter comes first.

    It would have no rights where `no_new_privs` is set, which root's filters do without.
    """
    if os.geteuid() == 0 or not _has_setuid_starter():
        return "outside"
    return "inside" if own else "userns"


@cache
def _has_setuid_starter() -> bool:
    """Return whether ordinary users start containers by a program with the rights of root."""
    program = Path(str(_program()))
    answer = process.run([str(program), "buildcfg", "LIBEXECDIR"])
    folder = Path(answer.stdout.decode(errors="replace").strip().removeprefix("LIBEXECDIR="))
    starter = folder / program.name / "bin" / "starter-suid"
    # what does not say where it is has one for all that is known
    return answer.exit_code != 0 or not folder.is_absolute() or starter.exists()


def _keyring_flags(keyring: Keyring) -> tuple[str, ...]:
    if keyring == "userns":
        return ("--userns",)
    if keyring == "inside":
        shown = Mount(source=Path(str(keyguard.__file__)), target=_KEYGUARD)
        return ("--mount", _bind(shown))
    return ()


def _entry(keyring: Keyring) -> tuple[str, ...]:
    """Return the words before a command inside an image."""
    return ("python3", "-I", "-S", _KEYGUARD) if keyring == "inside" else ()


def _try(
    sif: Path,
    flags: tuple[str, ...] = (),
    shown: tuple[str, ...] = (),
    *,
    keyring: Keyring = "kept",
) -> str | None:
    """Try to start a container; return the engine's message if it fails."""
    home = "/tmp"  # noqa: S108 - the container's own
    options = [*_FLAGS, *_guards(bool(flags)), *flags, *shown, *_keyring_flags(keyring)]
    options += ["--home", home, "--pwd", "/"]
    words = [*_entry(keyring), "true"]

    def execute() -> Any:
        if guard := keyrings.guard(keyring):
            guard()
        return _spython().execute(str(sif), words, options=options, return_result=True)

    answer = process.in_thread(execute)
    message = "".join(answer["message"])
    # an image without `true` got as far as looking for it
    if answer["return_code"] == 0 or '"true": executable file not found' in message:
        return None
    return find_fatal(message) or f"exit code {answer['return_code']}"


def _judge(
    invocation: Invocation, offset_bytes: int, expected: Arrival, process_exit: Exit
) -> Ended:
    if process_exit.code is None:
        return Ended(
            exit_code=None,
            signal=process_exit.signal,
            out_of_memory=process_exit.out_of_memory,
            memory=process_exit.memory,
        )
    # 255 is also a program's own, and from its start on so may be a FATAL line
    words = tail_since(invocation.stderr, offset_bytes) if process_exit.code == 255 else ""
    if (fault := find_fatal(words)) and not expected.is_there:
        return Ended(
            exit_code=255,
            signal=None,
            engine_fault=f"cannot start {invocation.command[0]}: {fault}",
            lacks_program=_NO_PROGRAM.fullmatch(fault) is not None,
        )
    code, number = split_status(process_exit.code)
    return Ended(
        exit_code=code,
        signal=number,
        out_of_memory=process_exit.out_of_memory,
        memory=process_exit.memory,
    )


def _guards(isolated: bool) -> tuple[str, ...]:
    """Return options that keep a workload of root from writing to the machine; empty for others.

    Args:
        isolated: It has no network, and a hosts file of its own.
    """
    if os.geteuid() != 0:
        return ()
    own = (path for path in sorted(Path("/proc").iterdir()) if _is_machine_wide(path))
    others = (*(Path("/sys") / name for name in _SYS), _LOCAL_TIME)
    if not isolated:
        others = (*others, _HOSTS)
    paths = (*own, *filter(Path.exists, others))
    mounts = (Mount(source=path, target=str(path)) for path in paths)
    return (*_AS_ROOT, *(word for mount in mounts for word in ("--mount", _bind(mount))))


def _is_machine_wide(path: Path) -> bool:
    """Return whether an entry of /proc is no process's, and could be written."""
    if path.name.isdigit() or path.is_symlink():
        return False
    return path.is_dir() or bool(path.stat().st_mode & _WRITABLE)


def _bind(mount: Mount) -> str:
    fields = ["type=bind", f"src={mount.source}", f"dst={mount.target}"]
    if not mount.writable:
        fields.append("ro")
    # one line of CSV, so that a path may hold commas, colons and quotes
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def _environment(invocation: Invocation, program_name: str, root: Path) -> Mapping[str, str]:
    prefix = _prefix(program_name)
    kept = (*_KEPT, *(f"{prefix}_{name}" for name in _KEPT_SETTINGS))
    joined = _JOINED_VARIABLES if invocation.joins else {}
    workload = {**joined, **invocation.environment, process.RUN_MARK: invocation.label}
    if invocation.devices:
        workload |= visible.variables(invocation.devices, root)
    # set by --home; the engine refuses this one as a variable
    workload.pop("HOME", None)
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        **{f"{prefix}ENV_{name}": value for name, value in workload.items()},
        process.RUN_MARK: invocation.label,
    }
