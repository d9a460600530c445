"""Docker, by its command line: what it does otherwise than Podman."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property

from capsule import schema
from capsule.errors import CannotRunError
from capsule.image.reference import Reference
from capsule.runtimes.base import Invocation, Mount
from capsule.runtimes.client import Client
from capsule.runtimes.containers import ContainerEngine

# the client hands those of its settings to every container, but where one is named; without a value
# in its environment, such a one is unset
_PROXIES = tuple(
    name
    for kind in ("http", "https", "ftp", "no", "all")
    for name in (f"{kind}_proxy", f"{kind}_proxy".upper())
)

# how the daemon tells that it cannot reach what is to be mounted
_CLOSED = ("permission denied", "bind source path does not exist")


class Docker(ContainerEngine):
    """The Docker engine that `DOCKER_HOST` or the current context names."""

    name = "docker"
    client = Client(
        program="docker",
        title="Docker",
        removal=("rm", "--force", "--volumes"),
        copying=("cp", "--follow-link"),
        dropped=frozenset(_PROXIES),
    )

    def version(self) -> str:
        """Ask the daemon.

        Raises:
            CannotRunError: No client, or no daemon answers; names the address that was tried.
        """
        self.client.require()
        try:
            answer = self.client.ask("version", "--format", "{{json .Server}}")
        except CannotRunError as error:
            raise CannotRunError(
                f"no Docker daemon answers: {error.what}",
                advice="start it, join the group docker, or name another address in DOCKER_HOST",
            ) from None
        server = schema.parse(answer, where="docker version")
        if not isinstance(server, dict) or "ApiVersion" not in server:
            raise CannotRunError(
                "the program docker here is another engine under its name",
                advice="where that is Podman: --runtime podman",
            )
        return f"Docker {server['Version']}"

    def observe(self) -> Mapping[str, str]:
        """Nothing more."""
        return {}

    def pull_words(self, reference: Reference) -> tuple[str, ...]:  # noqa: ARG002
        """None: the daemon itself speaks plain HTTP to a registry on loopback."""
        return ()

    def create_words(self, invocation: Invocation) -> tuple[str, ...]:
        """The caller's user, a limit that the kernel keeps, and no proxies of the client's."""
        pids = () if invocation.pids is None else ("--pids-limit", str(invocation.pids))
        unset = (name for name in _PROXIES if name not in invocation.environment)
        return (
            *("--user", self._user, *pids, *self.memory_words(invocation)),
            *(word for name in unset for word in ("--env", name)),
        )

    def limits_memory(self) -> bool:
        """As the daemon says."""
        return self.client.ask("info", "--format", "{{json .MemoryLimit}}").strip() == b"true"

    def explain_refusal(self, message: str, mounts: Sequence[Mount]) -> str:
        """A folder that the caller can enter, and the daemon cannot."""
        sources = [mount.source for mount in mounts if str(mount.source) in message]
        if not any(words in message for words in _CLOSED) or not any(
            one.exists() for one in sources
        ):
            return message
        return (
            f"{message}; Docker's daemon cannot enter that folder, though you can: it is on a"
            " network disk that does not trust root, or the daemon is another user's or"
            " machine's. Name a run folder on a local disk with --work, or use --runtime apptainer"
            " or podman"
        )

    def device_words(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        """Through NVIDIA's container toolkit."""
        # quoted for the option's own reader of CSV
        return ("--gpus", f'"device={",".join(devices)}"')

    def device_advice(self, message: str) -> str | None:
        """The toolkit is missing."""
        lacks = "could not select device driver" in message
        return "add NVIDIA's container toolkit, or use --runtime apptainer" if lacks else None

    @cached_property
    def _user(self) -> str:
        # a daemon without root maps the caller to root inside; what it writes is the caller's then
        if b"rootless" in self.client.ask("info", "--format", "{{json .SecurityOptions}}"):
            return "0:0"
        return f"{os.getuid()}:{os.getgid()}"
