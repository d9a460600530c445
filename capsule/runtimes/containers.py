"""Engines that are called as Docker's command line is: one behaviour, by whatever program.

What a container sees, how it is started, followed and removed is decided here. What Docker and
Podman do differently is a method of theirs.
"""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from capsule import offline, process
from capsule.errors import CannotRunError, CapsuleError
from capsule.image import Image
from capsule.image.reference import Reference, parse
from capsule.runtimes import answers, gpus, identity, loading
from capsule.runtimes.answers import ImageFacts
from capsule.runtimes.base import (
    NETWORK,
    Availability,
    Invocation,
    Mount,
    NeverStarted,
    Prepared,
    Running,
)
from capsule.runtimes.client import Client
from capsule.runtimes.container import Container

_LABEL = "org.capsule.run"
_TEMPORARY = tuple(
    word
    for folder in ("/tmp", "/var/tmp")  # noqa: S108 - the container's own
    for word in ("--tmpfs", f"{folder}:rw,exec,nosuid,nodev,mode=1777")
)
_GUARDS = ("--read-only", "--init", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
_PULL_SECONDS = 4 * 3600.0


class ContainerEngine(ABC):
    """Docker or Podman: `create`, `start --attach`, `inspect`, `rm`."""

    name: str
    contained = True
    client: Client

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    @abstractmethod
    def version(self) -> str:
        """Name and version of the engine, asked of it now.

        Raises:
            CannotRunError: It cannot be used here; says why, and what would do.
        """

    @abstractmethod
    def observe(self) -> Mapping[str, str]:
        """What the record says of this engine beside version, image and network."""

    @abstractmethod
    def pull_words(self, reference: Reference) -> tuple[str, ...]:
        """Options of `pull` for a registry."""

    @abstractmethod
    def create_words(self, invocation: Invocation) -> tuple[str, ...]:
        """Options of `create` that are this engine's own: user, limits, what else it would add.

        Raises:
            CannotRunError: The engine cannot be asked what it can do here.
        """

    @abstractmethod
    def limits_memory(self) -> bool:
        """As the protocol says."""

    def memory_words(self, invocation: Invocation) -> tuple[str, ...]:
        """Options of `create` that limit memory, none where nobody asks or the engine cannot."""
        if invocation.memory is None or not self.limits_memory():
            return ()
        # with swap as large as that there is none beside it
        most = str(invocation.memory)
        return ("--memory", most, "--memory-swap", most)

    @abstractmethod
    def device_words(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        """Options of `create` that hand out NVIDIA devices."""

    @abstractmethod
    def device_advice(self, message: str) -> str | None:
        """What mends that devices could not be handed out, by what the engine said of it."""

    def explain_refusal(self, message: str, mounts: Sequence[Mount]) -> str:  # noqa: ARG002
        """What the engine said when it did not create a container, with what is known of why."""
        return message

    def available(self) -> Availability:
        """Ask the engine its version."""
        try:
            return Availability(usable=True, version=self.version())
        except CapsuleError as error:
            return Availability(usable=False, version=None, reason=error.what)

    def prepare(
        self,
        image: Image | None,
        *,
        cache: Path,  # noqa: ARG002
        keep_keyring: bool = False,  # noqa: ARG002
        own: bool = True,  # noqa: ARG002
    ) -> Prepared:
        """Have the image, by digest; the engine keeps images itself.

        Raises:
            DamagedError: What the engine has under this digest is another image.
            CannotRunError: No engine, or it cannot get the image.
        """
        title = self.client.title
        if image is None:
            raise CannotRunError(f"{title} needs an image, and the manifest names none")
        loading.require_loadable(image)
        version = self.version()
        facts = self._find(image)
        if facts is None:
            self._fetch(image)
            facts = self._find(image)
        if facts is None:
            raise CannotRunError(
                f"{title} does not have the image that it fetched", where=image.reference
            )
        identity.check(facts, image, title)
        observations = {
            "version": version,
            "image_id": str(facts.identity),
            NETWORK: "isolated",
            **self.observe(),
        }
        return Prepared(handle=str(facts.identity), observations=observations)

    def keeps(self, image: Image, *, cache: Path) -> bool:  # noqa: ARG002
        """Whether the engine has it."""
        try:
            return self._find(image) is not None
        except CapsuleError:
            return False

    def check_gpus(self, count: int, prepared: Prepared, image: Image | None) -> None:
        """Stop unless the engine can hand so many devices to this image.

        Raises:
            CannotRunError: No device, driver or container toolkit, or a driver that is too old.
        """
        title = self.client.title
        gpus_here = gpus.require(count, image, self._root)
        if gpus_here.vendor != "nvidia":
            raise CannotRunError(
                f"{title} hands out NVIDIA devices only, and this machine has AMD ones",
                advice="--runtime apptainer can use them",
            )
        words = ("--network", "none", *self.device_words(gpus.choose(count)))
        name = _new_name()
        try:
            self.client.ask(
                "create", "--name", name, *words, "--entrypoint", "true", prepared.handle
            )
            self.client.ask("start", name)
        except CannotRunError as error:
            raise CannotRunError(
                f"{title} cannot hand out GPUs: {error.what}",
                advice=self.device_advice(error.what),
            ) from None
        finally:
            self.client.remove(name)

    def inside(self, mount: Mount) -> str:
        """The mount's target."""
        return mount.target

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start a container of our own name; the engine's refusal is a fault of the answer."""
        name = _new_name()
        try:
            words = self._create_words(prepared, invocation, name)
            self.client.ask("create", *words)
            return Container(
                self.client, name, invocation, limits_memory=bool(self.memory_words(invocation))
            )
        except OSError as error:
            return NeverStarted(f"cannot write beside {invocation.stdout}: {error.strerror}")
        except CapsuleError as error:
            self.client.try_to(*self.client.removal, name)
            mounts = (*prepared.binds, *invocation.mounts)
            return NeverStarted(self.explain_refusal(error.what, mounts))
        except BaseException:
            # an interrupt, while nobody else knows the name yet
            self.client.try_to(*self.client.removal, name)
            raise

    def reap(self, label: str) -> int:
        """Remove the containers that a dead run with this label left; they outlive their client."""
        marked = f"label={_LABEL}={label}"
        names = self.client.ask("ps", "--all", "--quiet", "--no-trunc", "--filter", marked).split()
        for name in names:
            self.client.remove(name.decode())
        return len(names) + process.reap(label)

    def _find(self, image: Image) -> ImageFacts | None:
        """What the engine has under the image's digest, None where it has nothing."""
        for name in [image.pinned] if image.pinned else loading.names(image):
            if (answer := self.client.try_to("image", "inspect", name)) is not None:
                return answers.read_image(answer)
        return None

    def _fetch(self, image: Image) -> None:
        if image.pinned is None:
            self._bring(image)
            return
        offline.require_network("the image", where=image.pinned)
        reference = parse(f"docker://{image.pinned}")
        try:
            self.client.ask(
                *("pull", "--quiet", *self.pull_words(reference), image.pinned),
                timeout_seconds=_PULL_SECONDS,
            )
        except CannotRunError as error:
            raise CannotRunError(
                f"{self.client.title} cannot pull the image: {error.what}", where=image.reference
            ) from None

    def _bring(self, image: Image) -> None:
        """Take an image that no registry has from a file, or another engine of this machine."""
        with loading.archive(image) as archive:
            self.client.ask("load", "--input", str(archive), timeout_seconds=_PULL_SECONDS)

    def _create_words(
        self, prepared: Prepared, invocation: Invocation, name: str
    ) -> tuple[str, ...]:
        """A container that sees nothing but the image, its mounts and its environment."""
        environment = {
            "HOME": "/tmp",  # noqa: S108 - the container's own
            **invocation.environment,
            process.RUN_MARK: invocation.label,
        }
        mounts = (*prepared.binds, *invocation.mounts)
        # half of the memory, as a host gives its own /dev/shm; the 64 MiB of engines break loaders
        shared_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        return (
            *("--name", name, "--label", f"{_LABEL}={invocation.label}"),
            *_GUARDS,
            *_TEMPORARY,
            *("--shm-size", f"{shared_bytes}b"),
            # the output goes to our files as it comes: no second copy in the engine's folder
            *("--log-driver", "none"),
            *(() if invocation.stdin is None else ("--interactive",)),
            *_network_words(prepared, invocation),
            *self.create_words(invocation),
            *(self.device_words(invocation.devices) if invocation.devices else ()),
            *(word for mount in mounts for word in ("--mount", bind(mount))),
            *(word for item in environment.items() for word in ("--env", "=".join(item))),
            *("--workdir", invocation.cwd),
            # not the image's entry point: under every engine the command is the whole command
            *("--entrypoint", invocation.command[0]),
            prepared.handle,
            *invocation.command[1:],
        )


def _network_words(prepared: Prepared, invocation: Invocation) -> tuple[str, ...]:
    if prepared.open_network is not None:
        return ("--network", "host")
    return () if invocation.network else ("--network", "none")


def bind(mount: Mount) -> str:
    """A mount as one line of CSV, so that a path may hold commas, colons and quotes."""
    fields = ["type=bind", f"src={mount.source}", f"dst={mount.target}"]
    if not mount.writable:
        fields.append("readonly")
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def _new_name() -> str:
    return f"capsule-{secrets.token_hex(8)}"
