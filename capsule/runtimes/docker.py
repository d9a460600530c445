"""Docker, by its SDK for Python."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import DeviceRequest, LogConfig
from docker.types import Mount as Bind

from capsule import places
from capsule.digest import Digest
from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.inventory.tree import compress
from capsule.runtimes import answers
from capsule.runtimes.answers import ImageFacts
from capsule.runtimes.base import Invocation, Mount, Prepared, Running
from capsule.runtimes.containers import (
    LABEL,
    TEMPORARY,
    ContainerEngine,
    list_variables,
    name_network,
    shared_memory_bytes,
)
from capsule.runtimes.daemon import Daemon, asked, exhaust
from capsule.runtimes.slots import Slot
from capsule.runtimes.streamed import Streamed, find_mode

# the SDK would hand those of the client's settings to every container; a name without a value
# takes away what the image sets
_PROXIES = tuple(
    name
    for kind in ("http", "https", "ftp", "no", "all")
    for name in (f"{kind}_proxy", f"{kind}_proxy".upper())
)
# how the daemon tells that it cannot reach what is to be mounted
_CLOSED = ("permission denied", "bind source path does not exist")
_REMOVAL_SECONDS = 60.0
_PIECE_BYTES = 1 << 20


class Docker(ContainerEngine):
    """The Docker engine that `DOCKER_HOST` or the current context names."""

    name = "docker"
    title = "Docker"

    def version(self) -> str:
        """Ask the daemon.

        Raises:
            CannotRunError: No daemon answers; names the address that was tried.
        """
        return f"Docker {self._daemon.server['Version']}"

    def limits_memory(self) -> bool:
        """Return whether the daemon limits memory."""
        return self._info.get("MemoryLimit") is True

    def limits_cpus(self) -> bool:
        """Return whether the daemon binds containers to CPUs."""
        return self._info.get("CPUSet") is True

    def prepare(
        self, image: Image | None, *, cache: Path, keep_keyring: bool = False, own: bool = True
    ) -> Prepared:
        """Have the image, and make sure that the daemon sees files of this machine.

        Raises:
            DamagedError: What the engine has under this digest is another image.
            CannotRunError: No engine, it is another machine's, or it cannot get the image.
        """
        prepared = super().prepare(image, cache=cache, keep_keyring=keep_keyring, own=own)
        if not self._daemon.is_local:
            self._require_files(prepared.handle)
        return prepared

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start a container of our own name; the engine's refusal is a fault of the answer.

        Raises:
            CannotRunError: The program reads its standard input, whose end TLS cannot tell.
        """
        if invocation.stdin is not None and self._daemon.is_encrypted:
            raise CannotRunError(
                '"stdin" does not work with a Docker daemon over TLS'
                f" ({self._daemon.address}): the connection cannot signal the end of the input",
                advice="use the daemon's socket on its machine, or --runtime apptainer",
            )
        return super().start(prepared, invocation)

    def identify(self, name: str) -> Digest:
        """Return the identity of an image of the daemon."""
        with asked():
            return answers.read_image(self._api.inspect_image(name)).identity

    def save(self, name: str, target: Path) -> None:
        """Save an image of the daemon to a file."""
        with (
            asked(),
            self._daemon.fetch(f"/images/{name}/get") as response,
            target.open("wb") as stream,
        ):
            for piece in response.iter_content(_PIECE_BYTES):
                stream.write(piece)

    def remove(self, name: str) -> None:
        """End and forget a container; one that is gone already is no fault.

        Raises:
            CannotRunError: It stays.
        """
        self._daemon.require_life()
        deadline = time.monotonic() + _REMOVAL_SECONDS
        while True:
            with asked():
                try:
                    self._api.remove_container(name, v=True, force=True)
                except NotFound:
                    return
                except APIError as error:
                    # somebody else is removing it
                    if error.status_code != 409 or time.monotonic() > deadline:
                        raise
                else:
                    return
            time.sleep(0.1)

    def explain_refusal(self, message: str, mounts: Sequence[Mount]) -> str:
        """Explain a folder that the caller can enter and the daemon cannot."""
        sources = [mount.source for mount in mounts if str(mount.source) in message]
        folders = [str(one) for one in sources if one.exists()]
        if not folders or not any(words in message for words in _CLOSED):
            return message
        return (
            f"Docker's daemon cannot enter {max(folders, key=len)}: the folder is on a network disk"
            " that does not trust root, or the daemon belongs to another user or machine"
            f" ({message}). Name a run folder on a local disk with --work, or use --runtime"
            " apptainer or podman"
        )

    def device_advice(self, message: str) -> str | None:
        """Return the remedy for a missing container toolkit, None for other failures."""
        lacks = "could not select device driver" in message
        return "install NVIDIA's container toolkit, or use --runtime apptainer" if lacks else None

    def _name_device(self, slot: Slot, name: str) -> str:
        return slot.uuid or name

    def _inspect_image(self, name: str) -> ImageFacts | None:
        with asked():
            try:
                return answers.read_image(self._api.inspect_image(name))
            except NotFound:
                return None

    def _pull(self, pinned: str) -> None:
        with asked():
            exhaust(self._daemon.transfers.pull(pinned, stream=True, decode=True))

    def _load(self, archive: Path) -> None:
        with asked("Docker cannot load the image"), archive.open("rb") as stream:
            exhaust(self._daemon.transfers.load_image(stream))

    def _create(self, name: str, prepared: Prepared, invocation: Invocation, *, held: bool) -> None:
        environment = [f"{key}={text}" for key, text in list_variables(invocation).items()]
        unset = [one for one in _PROXIES if one not in invocation.environment]
        memory = invocation.memory if held else None
        self._create_container(
            name,
            prepared.handle,
            # not the image's entry point: under every engine the command is the whole command
            invocation.command,
            labels={LABEL: invocation.label},
            user=self._user,
            working_dir=invocation.cwd,
            stdin_open=invocation.stdin is not None,
            environment=[*unset, *environment],
            host={
                "init": True,
                "read_only": True,
                "cap_drop": ["ALL"],
                "security_opt": ["no-new-privileges"],
                "tmpfs": TEMPORARY,
                "shm_size": shared_memory_bytes(),
                # the output goes to our files as it comes: no second copy in the engine's folder
                "log_config": LogConfig(type="none"),
                "pids_limit": invocation.pids,
                "mem_limit": memory,
                # with swap as large as that there is none beside it
                "memswap_limit": memory,
                "cpuset_cpus": compress(list(invocation.cpus)),
                "network_mode": name_network(prepared, invocation),
                "mounts": list(map(_bind, (*prepared.binds, *invocation.mounts))),
                "device_requests": _request_devices(invocation.devices),
            },
        )

    def _follow(self, name: str, invocation: Invocation, *, held: bool) -> Running:
        return Streamed(self._daemon, self.remove, name, invocation, limits_memory=held)

    def _try_devices(self, name: str, handle: str, devices: tuple[str, ...]) -> None:
        host = {"network_mode": "none", "device_requests": _request_devices(devices)}
        self._create_container(name, handle, ("true",), host=host)
        with asked():
            self._api.start(name)

    def _list(self, label: str) -> list[str]:
        with asked():
            marked = {"label": f"{LABEL}={label}"}
            return [str(one["Id"]) for one in self._api.containers(all=True, filters=marked)]

    def _create_container(
        self,
        name: str,
        handle: str,
        command: tuple[str, ...],
        *,
        host: Mapping[str, Any],
        **config: Any,
    ) -> None:
        with asked():
            self._api.create_container(
                handle,
                name=name,
                entrypoint=[command[0]],
                command=list(command[1:]) or None,
                host_config=self._api.create_host_config(restart_policy={"Name": "no"}, **host),
                use_config_proxy=False,
                **config,
            )

    def _require_files(self, handle: str) -> None:
        """Stop unless the daemon sees a file that is written here.

        Raises:
            CannotRunError: It is another machine's.
        """
        name = f"capsule-{secrets.token_hex(8)}"
        with places.scratch() as folder:
            (folder / name).touch()
            host = {"mounts": [_bind(Mount(source=folder, target="/capsule"))]}
            try:
                self._create_container(name, handle, ("true",), host=host)
                with asked():
                    seen = find_mode(self._daemon, name, f"/capsule/{name}") is not None
            except CannotRunError as error:
                seen, why = False, f": {error.what}"
            else:
                why = ""
            finally:
                self.remove(name)
        if not seen:
            raise CannotRunError(
                f"Docker's daemon at {self._daemon.address} cannot see this machine's files{why}",
                advice="run capsule on the machine of the daemon",
            )

    @property
    def _api(self) -> APIClient:
        return self._daemon.api

    @cached_property
    def _daemon(self) -> Daemon:
        return Daemon()

    @cached_property
    def _info(self) -> Mapping[str, Any]:
        with asked():
            answer: Mapping[str, Any] = self._api.info()
            return answer

    @cached_property
    def _user(self) -> str:
        # a daemon without root maps the caller to root inside; what it writes is the caller's then
        if any("rootless" in str(one) for one in self._info.get("SecurityOptions") or ()):
            return "0:0"
        return f"{os.getuid()}:{os.getgid()}"


def _bind(mount: Mount) -> Bind:
    return Bind(mount.target, str(mount.source), type="bind", read_only=not mount.writable)


def _request_devices(devices: tuple[str, ...]) -> list[DeviceRequest] | None:
    """Ask for NVIDIA devices through NVIDIA's container toolkit."""
    if not devices:
        return None
    return [DeviceRequest(device_ids=list(devices), capabilities=[["gpu"]])]
