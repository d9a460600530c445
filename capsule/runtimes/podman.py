"""Podman, by its command line: what it does otherwise than Docker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from capsule import schema
from capsule.errors import CannotRunError
from capsule.image.reference import Reference
from capsule.runtimes.base import Invocation, Mount
from capsule.runtimes.client import Client
from capsule.runtimes.containers import ContainerEngine, bind

_HOSTS = "127.0.0.1 localhost\n::1 localhost\n"
_ADVICE = "`podman info` must work here; it needs newuidmap and an entry in /etc/subuid for a user"


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """How this Podman runs.

    Attributes:
        version: Its own.
        rootless: Its containers' root is the caller.
        limits_tasks: The kernel holds a container to a number of processes and threads.
        limits_memory: The same of memory.
    """

    version: str
    rootless: bool
    limits_tasks: bool
    limits_memory: bool


class Podman(ContainerEngine):
    """Podman, as root or as an ordinary user; it has no daemon."""

    name = "podman"
    client = Client(
        program="podman",
        title="Podman",
        # else it waits ten seconds for each that does not end by itself
        removal=("rm", "--force", "--volumes", "--time", "0"),
        copying=("cp",),
    )

    def version(self) -> str:
        """Ask it.

        Raises:
            CannotRunError: It is not there, or cannot work for this user.
        """
        return f"Podman {self._facts.version}"

    def observe(self) -> Mapping[str, str]:
        """Who root inside is, and what watches the number of processes."""
        observations = {
            "user": "rootless, the caller is root inside" if self._facts.rootless else "root"
        }
        if not self._facts.limits_tasks:
            observations["process_limit"] = "counted once a second, without a control group"
        return observations

    def pull_words(self, reference: Reference) -> tuple[str, ...]:
        """Plain HTTP for a registry on loopback, which Docker speaks by itself."""
        return ("--tls-verify=false",) if reference.is_loopback else ()

    def create_words(self, invocation: Invocation) -> tuple[str, ...]:
        """The caller's user, a limit where there is one, and nothing of Podman's own additions."""
        user = "0:0" if self._facts.rootless else f"{os.getuid()}:{os.getgid()}"
        words = (
            *(() if invocation.network else _own_hosts(invocation)),
            *("--user", user, "--pull", "never", "--http-proxy=false", "--read-only-tmpfs=false"),
            # files of the caller are shown as they are, rather than labelled for one container
            *("--security-opt", "label=disable"),
        )
        words = (*words, *self.memory_words(invocation))
        if not self._facts.limits_tasks:
            return words
        # its own default is 2048
        return (*words, "--pids-limit", str(-1 if invocation.pids is None else invocation.pids))

    def limits_memory(self) -> bool:
        """Where this user's control groups have the controller."""
        return self._facts.limits_memory

    def device_words(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        """By the names that the Container Device Interface gives them."""
        return tuple(word for name in devices for word in ("--device", f"nvidia.com/gpu={name}"))

    def device_advice(self, message: str) -> str | None:
        """Nobody described the devices."""
        if "CDI" not in message and "nvidia.com/gpu" not in message:
            return None
        return "describe the devices: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"

    @cached_property
    def _facts(self) -> _Facts:
        self.client.require()
        try:
            answer = schema.parse(self.client.ask("info", "--format", "json"), where="podman info")
            host = answer["host"]
            remote = host.get("serviceIsRemote") is True
            facts = _Facts(
                version=str(answer["version"]["Version"]),
                rootless=host["security"]["rootless"] is True,
                limits_tasks="pids" in (host.get("cgroupControllers") or ()),
                limits_memory="memory" in (host.get("cgroupControllers") or ()),
            )
        except CannotRunError as error:
            raise CannotRunError(f"Podman does not work: {error.what}", advice=_ADVICE) from None
        except (KeyError, TypeError, AttributeError) as error:
            raise CannotRunError(f"Podman describes itself in an unknown way: {error}") from None
        if remote:
            raise CannotRunError(
                "Podman here starts containers on another machine, which sees no files of this one",
                advice="unset CONTAINER_HOST, or run capsule on that machine",
            )
        return facts


def _own_hosts(invocation: Invocation) -> tuple[str, ...]:
    """A hosts file that names nothing of this machine, whose own Podman would copy."""
    hosts = invocation.stdout.with_name("hosts")
    hosts.write_text(_HOSTS)
    return ("--no-hosts", "--mount", bind(Mount(source=hosts, target="/etc/hosts")))
