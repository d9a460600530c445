"""Podman, by its command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from capsule import process, schema
from capsule.digest import Digest
from capsule.errors import CannotRunError, DamagedError, add_advice
from capsule.image.reference import parse
from capsule.inventory.tree import compress
from capsule.runtimes import answers, client, slots
from capsule.runtimes.answers import ContainerFacts, ImageFacts
from capsule.runtimes.base import Invocation, Mount, Prepared, Running
from capsule.runtimes.container import Container
from capsule.runtimes.containers import (
    LABEL,
    PULL_SECONDS,
    TEMPORARY,
    ContainerEngine,
    list_variables,
    name_network,
    shared_memory_bytes,
)
from capsule.runtimes.slots import Slot

_PAUSE_SECONDS = 0.05
# where descriptions of devices lie
_CDI = ("etc/cdi", "var/run/cdi")
_HOSTS = "127.0.0.1 localhost\n::1 localhost\n"
_OTHER = "use another version of Podman, or another engine: --runtime apptainer or --runtime docker"
_ADVICE = "install newuidmap, add the user to /etc/subuid, and check with `podman info`"


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Facts about this machine's Podman.

    Attributes:
        version: Its own.
        rootless: Its containers' root is the caller.
        limits_tasks: The kernel holds a container to a number of processes and threads.
        limits_memory: The same of memory.
        limits_cpus: The kernel binds a container to CPUs.
    """

    version: str
    rootless: bool
    limits_tasks: bool
    limits_memory: bool
    limits_cpus: bool


class Podman(ContainerEngine):
    """Podman, as root or as an ordinary user; it has no daemon."""

    name = "podman"
    title = "Podman"

    def version(self) -> str:
        """Ask it.

        Raises:
            CannotRunError: It is not there, or cannot work for this user.
        """
        return f"Podman {self._facts.version}"

    def observe(self) -> Mapping[str, str]:
        """Return the user that root inside is, and the watcher of the number of processes."""
        observations = {
            "user": "rootless, the caller is root inside" if self._facts.rootless else "root"
        }
        if not self._facts.limits_tasks:
            observations["process_limit"] = "counted once a second, without a control group"
        return observations

    def limits_memory(self) -> bool:
        """Return whether this user's control groups have the memory controller."""
        return self._facts.limits_memory

    def limits_cpus(self) -> bool:
        """Return whether this user's control groups have the controller of CPUs."""
        return self._facts.limits_cpus

    def identify(self, name: str) -> Digest:
        """Return the identity of an image of Podman."""
        client.require()
        answer = client.ask("image", "inspect", "--format", "{{.Id}}", name)
        return Digest.parse(f"sha256:{answer.decode(errors='replace').strip()}", where=name)

    def save(self, name: str, target: Path) -> None:
        """Save an image of Podman to a file."""
        client.ask("image", "save", "--output", str(target), name, timeout_seconds=PULL_SECONDS)

    def remove(self, name: str) -> None:
        """End and forget a container."""
        client.remove(name)

    def device_advice(self, message: str) -> str | None:
        """Return the remedy for missing descriptions of devices."""
        if "CDI" not in message and "nvidia.com/gpu" not in message:
            return None
        return "describe the devices: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"

    def _name_device(self, slot: Slot, name: str) -> str:
        """Return the name of a GPU in its description: a UUID in newer ones, else an index.

        Indices are those of the machine, on which `nvidia-ctk cdi generate` was called.
        """
        described = (path for folder in _CDI for path in (self._root / folder).glob("*"))
        if slot.uuid and any(slot.uuid in _read_text(path) for path in described):
            return slot.uuid
        index = slots.find_index(slot, self._root)
        return name if index is None else str(index)

    def _inspect_image(self, name: str) -> ImageFacts | None:
        answer = client.try_to("image", "inspect", name)
        return None if answer is None else answers.read_image(_read_one(answer))

    def _pull(self, pinned: str) -> None:
        # plain HTTP for a registry on loopback, which Docker speaks by itself
        is_loopback = parse(f"docker://{pinned}").is_loopback
        words = ("--tls-verify=false",) if is_loopback else ()
        client.ask("pull", "--quiet", *words, pinned, timeout_seconds=PULL_SECONDS)

    def _load(self, archive: Path) -> None:
        client.ask("load", "--input", str(archive), timeout_seconds=PULL_SECONDS)

    def _create(self, name: str, prepared: Prepared, invocation: Invocation, *, held: bool) -> None:
        network = name_network(prepared, invocation)
        mounts = (*prepared.binds, *invocation.mounts)
        client.ask(
            *("create", "--name", name, "--label", f"{LABEL}={invocation.label}"),
            *("--read-only", "--init", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *(word for one in TEMPORARY.items() for word in ("--tmpfs", ":".join(one))),
            *("--shm-size", f"{shared_memory_bytes()}b"),
            # the output goes to our files as it comes: no second copy in the engine's folder
            *("--log-driver", "none"),
            *(() if invocation.stdin is None else ("--interactive",)),
            *(() if network is None else ("--network", network)),
            *self._own_words(invocation, held=held),
            *_list_devices(invocation.devices),
            *(word for mount in mounts for word in ("--mount", _bind(mount))),
            *(
                word
                for item in list_variables(invocation).items()
                for word in ("--env", "=".join(item))
            ),
            *("--workdir", invocation.cwd),
            # not the image's entry point: under every engine the command is the whole command
            *("--entrypoint", invocation.command[0]),
            prepared.handle,
            *invocation.command[1:],
        )

    def _own_words(self, invocation: Invocation, *, held: bool) -> tuple[str, ...]:
        """Return the caller's user, limits where there are some, and nothing of Podman's own
        additions.
        """
        user = "0:0" if self._facts.rootless else f"{os.getuid()}:{os.getgid()}"
        words = (
            *(() if invocation.network else _own_hosts(invocation)),
            *("--user", user, "--pull", "never", "--http-proxy=false", "--read-only-tmpfs=false"),
            # files of the caller are shown as they are, rather than labelled for one container
            *("--security-opt", "label=disable"),
        )
        if invocation.cpus:
            words = (*words, "--cpuset-cpus", compress(list(invocation.cpus)))
        if held:
            # with swap as large as that there is none beside it
            most = str(invocation.memory)
            words = (*words, "--memory", most, "--memory-swap", most)
        if not self._facts.limits_tasks:
            return words
        # its own default is 2048
        return (*words, "--pids-limit", str(-1 if invocation.pids is None else invocation.pids))

    def _follow(self, name: str, invocation: Invocation, *, held: bool) -> Running:
        return Attached(name, invocation, limits_memory=held)

    def _try_devices(self, name: str, handle: str, devices: tuple[str, ...]) -> None:
        words = ("--network", "none", *_list_devices(devices), "--entrypoint", "true")
        client.ask("create", "--name", name, *words, handle)
        client.ask("start", name)

    def _list(self, label: str) -> list[str]:
        marked = f"label={LABEL}={label}"
        answer = client.ask("ps", "--all", "--quiet", "--no-trunc", "--filter", marked)
        return answer.decode().split()

    @cached_property
    def _facts(self) -> _Facts:
        client.require()
        try:
            with add_advice(_OTHER):
                answer = schema.parse(client.ask("info", "--format", "json"), where="podman info")
            host = answer["host"]
            remote = host.get("serviceIsRemote") is True
            controllers = host.get("cgroupControllers") or ()
            facts = _Facts(
                version=str(answer["version"]["Version"]),
                rootless=host["security"]["rootless"] is True,
                limits_tasks="pids" in controllers,
                limits_memory="memory" in controllers,
                limits_cpus="cpuset" in controllers,
            )
        except CannotRunError as error:
            raise CannotRunError(f"Podman does not work: {error.what}", advice=_ADVICE) from None
        except (KeyError, TypeError, AttributeError) as error:
            raise CannotRunError(
                f"unknown format of `podman info` ({type(error).__name__}: {error})",
                advice=_OTHER,
            ) from None
        if remote:
            raise CannotRunError(
                "Podman starts containers on another machine, which lacks this machine's files",
                advice="unset CONTAINER_HOST, or run capsule on that machine",
            )
        return facts


def _list_devices(devices: tuple[str, ...]) -> tuple[str, ...]:
    """Name NVIDIA devices as the Container Device Interface does."""
    return tuple(word for name in devices for word in ("--device", f"nvidia.com/gpu={name}"))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _bind(mount: Mount) -> str:
    """Return a mount as one line of CSV, so that a path may hold commas, colons and quotes."""
    fields = ["type=bind", f"src={mount.source}", f"dst={mount.target}"]
    if not mount.writable:
        fields.append("readonly")
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def _own_hosts(invocation: Invocation) -> tuple[str, ...]:
    """Return a hosts file that names nothing of this machine, whose own Podman would copy."""
    hosts = invocation.stdout.with_name("hosts")
    hosts.write_text(_HOSTS)
    return ("--no-hosts", "--mount", _bind(Mount(source=hosts, target="/etc/hosts")))


class Attached(Container):
    """A container that an attached client follows.

    Raises:
        CannotRunError: The engine's program is gone.
    """

    title = Podman.title

    def __init__(self, name: str, invocation: Invocation, *, limits_memory: bool) -> None:
        super().__init__(name, invocation, limits_memory=limits_memory)
        self._client = client.attach(name, invocation)

    def _wait_for_output(self, timeout_seconds: float) -> bool:
        return self._client.wait(timeout_seconds) is not None

    def _inspect(self) -> ContainerFacts:
        return answers.read_container(_read_one(client.ask("container", "inspect", self._name)))

    def _end(self) -> None:
        # a stop before the start would be no stop at all
        while not self._inspect().begun and not self._wait_for_output(_PAUSE_SECONDS):
            pass
        client.try_to("stop", "--time", str(process.STOP_SECONDS), self._name)

    def _abandon(self) -> None:
        self._client.stop()

    def _is_program(self, path: str) -> bool:
        return client.is_program(self._name, path)

    def _remove(self) -> None:
        client.remove(self._name)


@add_advice(_OTHER)
def _read_one(answer: bytes) -> object:
    """Read the answer of `inspect` about one thing.

    Raises:
        DamagedError: It is about none, or several.
    """
    entries = schema.parse(answer, where="podman inspect")
    if not isinstance(entries, list) or len(entries) != 1:
        found = f"{len(entries)} entries" if isinstance(entries, list) else "no list"
        raise DamagedError(
            f"Podman's answer has {found}, expected a list of one entry", where="podman inspect"
        )
    return entries[0]
