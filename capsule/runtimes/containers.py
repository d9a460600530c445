"""Engines that keep images and containers themselves: Docker and Podman.

What a container sees, how it is started and judged is decided here. What Docker and Podman do
differently is a method of theirs.
"""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from capsule import offline, process
from capsule.digest import Digest
from capsule.errors import CannotRunError, CapsuleError, add_advice
from capsule.image import Image
from capsule.runtimes import gpus, identity, loading, slots, visible
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
from capsule.runtimes.slots import Slot

LABEL = "org.capsule.run"
# the container's own
TEMPORARY = dict.fromkeys(("/tmp", "/var/tmp"), "rw,exec,nosuid,nodev,mode=1777")  # noqa: S108
PULL_SECONDS = 4 * 3600
_ROOM = "free some space in the folder in which the engine keeps images"


class ContainerEngine(ABC):
    """Docker or Podman: create, start, follow, inspect, remove."""

    name: str
    title: str
    contained = True

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    @abstractmethod
    def version(self) -> str:
        """Name and version of the engine, asked of it now.

        Raises:
            CannotRunError: It cannot be used here; says why, and what would do.
        """

    def observe(self) -> Mapping[str, str]:
        """Return observations of this engine beside version, image and network."""
        return {}

    @abstractmethod
    def limits_memory(self) -> bool:
        """Return whether the engine itself limits memory."""

    @abstractmethod
    def limits_cpus(self) -> bool:
        """Return whether the engine can bind a container to CPUs."""

    @abstractmethod
    def identify(self, name: str) -> Digest:
        """Return the identity of an image of a local engine."""

    @abstractmethod
    def save(self, name: str, target: Path) -> None:
        """Save the image of a local engine to a file."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """End and forget a container; one that is gone already is no fault.

        Raises:
            CannotRunError: It stays.
        """

    @abstractmethod
    def _inspect_image(self, name: str) -> ImageFacts | None:
        """Describe an image of the engine, None where it has none of this name."""

    @abstractmethod
    def _pull(self, pinned: str) -> None:
        """Fetch `HOST/NAME@DIGEST` from its registry."""

    @abstractmethod
    def _load(self, archive: Path) -> None:
        """Take the image of an archive as of `docker save`."""

    @abstractmethod
    def _create(self, name: str, prepared: Prepared, invocation: Invocation, *, held: bool) -> None:
        """Create a container that sees nothing but the image, its mounts and its environment.

        Args:
            name: What it is called.
            prepared: The image.
            invocation: What it is to run.
            held: True if the engine limits its memory.
        """

    @abstractmethod
    def _follow(self, name: str, invocation: Invocation, *, held: bool) -> Running:
        """Start a created container, and follow its output."""

    @abstractmethod
    def _try_devices(self, name: str, handle: str, devices: tuple[str, ...]) -> None:
        """Start a container that is handed NVIDIA devices, and does nothing."""

    @abstractmethod
    def _list(self, label: str) -> list[str]:
        """Return the containers of a label, ended ones too."""

    @abstractmethod
    def device_advice(self, message: str) -> str | None:
        """Return the remedy for devices that the engine could not provide."""

    @abstractmethod
    def _name_device(self, slot: Slot, name: str) -> str:
        """Return the engine's name of a GPU."""

    def explain_refusal(self, message: str, mounts: Sequence[Mount]) -> str:  # noqa: ARG002
        """Explain why the engine did not create a container."""
        return message

    def available(self) -> Availability:
        """Ask the engine its version."""
        try:
            return Availability(usable=True, version=self.version())
        except CapsuleError as error:
            reason = f"{error.what}; {error.advice}" if error.advice else error.what
            return Availability(usable=False, version=None, reason=reason)

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
        if image is None:
            raise CannotRunError(
                f"{self.title} needs an image, and the manifest names no image",
                advice="name an image with --image, or add --runtime host",
            )
        loading.require_loadable(image)
        version = self.version()
        facts = self._find(image)
        if facts is None:
            self._fetch(image)
            facts = self._find(image)
        if facts is None:
            raise CannotRunError(
                f"{self.title} lost the image after fetching it",
                where=image.reference,
                advice="run again while no other process removes images",
            )
        identity.check(facts, image, self.title)
        observations = {
            "version": version,
            "image_id": str(facts.identity),
            NETWORK: "isolated",
            **self.observe(),
        }
        return Prepared(handle=str(facts.identity), observations=observations)

    def keeps(self, image: Image, *, cache: Path) -> bool:  # noqa: ARG002
        """Return whether the engine has it."""
        try:
            return self._find(image) is not None
        except CapsuleError:
            return False

    def check_gpus(self, count: int, prepared: Prepared, image: Image | None) -> None:
        """Stop unless the engine can hand so many devices to this image.

        Raises:
            CannotRunError: No device, driver or container toolkit, or a driver that is too old.
        """
        gpus_here = visible.require(count, image, self._root)
        if gpus_here.vendor != "nvidia":
            raise CannotRunError(
                f"{self.title} supports only NVIDIA GPUs, this machine has"
                f" {gpus.TITLES[gpus_here.vendor]} GPUs",
                advice="use --runtime apptainer",
            )
        name = _new_name()
        try:
            self._try_devices(name, prepared.handle, self._name_devices(gpus_here.names[:count]))
        except CannotRunError as error:
            raise CannotRunError(
                f"{self.title} cannot give GPUs to containers: {error.what}",
                advice=self.device_advice(error.what),
            ) from None
        finally:
            self.remove(name)

    def inside(self, mount: Mount) -> str:
        """Return the mount's target."""
        return mount.target

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start a container of our own name; the engine's refusal is a fault of the answer."""
        name = _new_name()
        try:
            can_bind = invocation.gpus.count > 0 and self.limits_cpus()
            invocation = visible.assign(invocation, self._root, can_bind=can_bind)
            invocation = replace(invocation, devices=self._name_devices(invocation.devices))
            held = invocation.memory is not None and self.limits_memory()
            self._create(name, prepared, invocation, held=held)
            return self._follow(name, invocation, held=held)
        except CapsuleError as error:
            self._discard(name)
            mounts = (*prepared.binds, *invocation.mounts)
            return NeverStarted(self.explain_refusal(error.what, mounts))
        except OSError as error:
            self._discard(name)
            return NeverStarted(
                f"cannot write in the folder of {invocation.stdout}: {error.strerror}"
            )
        except BaseException:
            # an interrupt, while nobody else knows the name yet
            self._discard(name)
            raise

    def reap(self, label: str) -> int:
        """Remove the containers that a dead run with this label left; they outlive it."""
        names = self._list(label)
        for name in names:
            self.remove(name)
        return len(names) + process.reap(label)

    def _discard(self, name: str) -> None:
        with suppress(CapsuleError):
            self.remove(name)

    def _name_devices(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the engine's names of NVIDIA GPUs.

        The engine runs outside the job, and indices in a job can count only some of the GPUs.
        """
        if not names:
            return ()
        known = slots.find("nvidia", self._root) or ()
        located = slots.locate("nvidia", names, known, os.environ)
        return tuple(
            # of an instance the slot is its card's
            name if slot is None or name.startswith("MIG-") else self._name_device(slot, name)
            for name, slot in zip(names, located, strict=True)
        )

    def _find(self, image: Image) -> ImageFacts | None:
        """Return the engine's image with the image's digest, or None."""
        names = [image.pinned] if image.pinned else loading.names(image)
        return next(filter(None, map(self._inspect_image, names)), None)

    def _fetch(self, image: Image) -> None:
        if image.pinned is None:
            # from a file, or another engine of this machine
            with loading.archive(image) as archive, add_advice(_ROOM, CannotRunError):
                self._load(archive)
            return
        offline.require_network("the image", where=image.pinned)
        try:
            self._pull(image.pinned)
        except CannotRunError as error:
            raise CannotRunError(
                f"{self.title} cannot pull the image: {error.what}",
                where=image.reference,
                advice=f"pull the image by hand to find the cause: {self.name} pull {image.pinned}",
            ) from None


def list_variables(invocation: Invocation) -> dict[str, str]:
    """Return the environment of a container besides what its image sets."""
    return {
        "HOME": "/tmp",  # noqa: S108 - the container's own
        **invocation.environment,
        process.RUN_MARK: invocation.label,
    }


def shared_memory_bytes() -> int:
    """Return half of the memory, as a host gives its own /dev/shm; 64 MiB break loaders."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def name_network(prepared: Prepared, invocation: Invocation) -> str | None:
    """Return the network that a container gets, None for the engine's own."""
    if prepared.open_network is not None:
        return "host"
    return None if invocation.network else "none"


def _new_name() -> str:
    return f"capsule-{secrets.token_hex(8)}"
