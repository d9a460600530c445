"""Docker, by its SDK, which nothing outside this file imports. Podman's socket answers it too."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from capsule import process
from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.image.reference import parse
from capsule.runtimes import gpus, identity, loading, tini
from capsule.runtimes.base import (
    NETWORK,
    Availability,
    Ended,
    Invocation,
    Mount,
    NeverStarted,
    Prepared,
    Running,
    lacks_tasks,
    split_status,
    tail_since,
)

_LABEL = "org.capsule.run"
_TMPFS = dict.fromkeys(("/tmp", "/var/tmp"), "rw,exec,nosuid,nodev,mode=1777")  # noqa: S108
_STOP_SECONDS = 5
_PATIENCE_SECONDS = 600  # for an answer: a daemon that unpacks takes longer than the SDK's 60


class Docker:
    """The Docker engine that `DOCKER_HOST` or the current context names."""

    name = "docker"
    contained = True

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def available(self) -> Availability:
        """Ask the daemon its version."""
        try:
            with _client() as api:
                version = str(api.version()["Version"])
        except CannotRunError as error:
            return Availability(usable=False, version=None, reason=error.what)
        return Availability(usable=True, version=f"Docker {version}")

    def prepare(self, image: Image | None, *, cache: Path) -> Prepared:  # noqa: ARG002
        """Pull the image by digest unless the daemon has it; it keeps images itself.

        Raises:
            DamagedError: What the daemon has under this digest is another image.
            CannotRunError: No daemon, or it cannot get the image.
        """
        if image is None:
            raise CannotRunError("Docker needs an image, and the manifest names none")
        loading.require_loadable(image)
        with _client() as api, _report_errors("Docker cannot provide the image", image.reference):
            inspection = _inspect(api, image)
            if inspection is None:
                (_pull if image.pinned else loading.load)(api, image)
                inspection = _inspect(api, image)
            identity.check(inspection, image)
            observations = {
                "version": f"Docker {api.version()['Version']}",
                "image_id": str(inspection["Id"]),
                NETWORK: "isolated",
            }
        return Prepared(handle=str(inspection["Id"]), observations=observations)

    def keeps(self, image: Image, *, cache: Path) -> bool:  # noqa: ARG002
        """Whether the daemon has it."""
        with suppress(CannotRunError), _client() as api, _report_errors("Docker", None):
            return _inspect(api, image) is not None
        return False

    def check_gpus(self, count: int, prepared: Prepared, image: Image | None) -> None:
        """Stop unless the daemon can hand so many devices to this image.

        Raises:
            CannotRunError: No device, driver or container toolkit, or a driver that is too old.
        """
        gpus_here = gpus.require(count, image, self._root)
        if gpus_here.vendor != "nvidia":
            raise CannotRunError(
                "Docker hands out NVIDIA devices only, and this machine has AMD ones",
                advice="--runtime apptainer can use them",
            )
        with _client() as api, _report_errors("Docker cannot hand out GPUs", None):
            host = {"device_requests": _device_requests(gpus.choose(count)), "network_mode": "none"}
            made = api.create_container(
                prepared.handle, entrypoint=["true"], host_config=api.create_host_config(**host)
            )
            try:
                api.start(made["Id"])
            finally:
                _remove(api, made["Id"])

    def inside(self, mount: Mount) -> str:
        """The mount's target."""
        return mount.target

    def start(self, prepared: Prepared, invocation: Invocation) -> Running:
        """Start a container of our own name; the engine's refusal is a fault of the answer."""
        try:
            with _client() as api, _report_errors("Docker cannot start the container", None):
                made = _create(api, prepared, invocation)
        except CannotRunError as error:
            return NeverStarted(error.what)
        return _Container(made, invocation)

    def reap(self, label: str) -> int:
        """Remove the containers that a dead run with this label left; they outlive their client."""
        with _client() as api, _report_errors("Docker cannot remove containers", None):
            containers = api.containers(all=True, filters={"label": f"{_LABEL}={label}"})
            for container in containers:
                _remove(api, container["Id"])
        return len(containers)


class _Container:
    """A container, followed by a thread that copies its output and removes it at its end."""

    def __init__(self, container: str, invocation: Invocation) -> None:
        self._container = container
        self._stderr = invocation.stderr
        self._stdout = invocation.stdout
        self._limit = invocation.pids
        self._before = self._stderr.stat().st_size if self._stderr.exists() else 0
        self._kills_before = process.oom_kills()
        self._ended: Ended | None = None
        self._begun = threading.Event()
        self._over = threading.Event()
        threading.Thread(target=self._attend, name=f"capsule-{container[:12]}", daemon=True).start()

    def wait(self, timeout_seconds: float) -> Ended | None:
        """Wait at most so long; None while it still runs."""
        return self._ended if self._over.wait(timeout_seconds) else None

    def tasks(self) -> int:
        """What the daemon counts; 0 where it does not, or the container is gone."""
        import docker

        faults = (docker.errors.DockerException, CannotRunError, KeyError, TypeError, OSError)
        with suppress(*faults), _client() as api:
            stats = api.stats(self._container, stream=False, one_shot=True)
            return int(stats["pids_stats"]["current"])
        return 0

    def stop(self) -> None:
        """SIGTERM, after 5 s SIGKILL to the container, which takes everything in it along."""
        import docker

        # a stop before the start would be no stop at all
        self._begun.wait()
        if not self._over.is_set():
            with _client() as api, suppress(docker.errors.APIError):
                api.stop(self._container, timeout=_STOP_SECONDS)
        self._over.wait()

    def _attend(self) -> None:
        import docker
        import requests

        try:
            with _client() as api:
                try:
                    self._ended = self._follow(api)
                finally:
                    _remove(api, self._container)
        except (
            docker.errors.APIError,
            requests.RequestException,
            CannotRunError,
            OSError,
        ) as error:
            self._ended = Ended(
                exit_code=None, signal=None, engine_fault=f"Docker lost the container: {error}"
            )
        finally:
            self._begun.set()
            self._over.set()

    def _follow(self, api: Any) -> Ended:
        """Attach before the start, so that no word is lost, copy all output, and judge the end."""
        import docker

        with _attach(api, self._container) as frames:
            try:
                api.start(self._container)
            except docker.errors.APIError as error:
                return Ended(exit_code=None, signal=None, engine_fault=_explain(error))
            self._begun.set()
            self._copy(frames)
        api.wait(self._container, timeout=None)
        return self._judge(api, api.inspect_container(self._container)["State"])

    def _copy(self, frames: Iterator[tuple[int, bytes]]) -> None:
        with self._stdout.open("ab", 0) as out, self._stderr.open("ab", 0) as err:
            for stream, data in frames:
                (out if stream == 1 else err).write(data)

    def _judge(self, api: Any, state: Mapping[str, Any]) -> Ended:
        status = int(state["ExitCode"])
        output = tail_since(self._stderr, self._before)
        if fault := tini.fault(api, self._container, status, output):
            return Ended(exit_code=status, signal=None, engine_fault=fault)
        code, number = split_status(status)
        counted = process.oom_kills() != self._kills_before
        killed = status != 0 and (bool(state["OOMKilled"]) or (number == 9 and counted))
        lacking = status != 0 and self._limit is not None and lacks_tasks(output)
        return Ended(exit_code=code, signal=number, out_of_memory=killed, out_of_tasks=lacking)


@contextmanager
def _client() -> Iterator[Any]:
    """The low-level client of the daemon, closed at the end.

    Raises:
        CannotRunError: No daemon answers; names the address that was tried.
    """
    import docker

    address = _address()
    try:
        if address.startswith("unix://"):
            # the SDK buries the reason under four wrappers, and leaves its sockets open
            with socket.socket(socket.AF_UNIX) as door:
                door.connect(address.removeprefix("unix://"))
        client = docker.from_env(timeout=_PATIENCE_SECONDS)
    except (docker.errors.DockerException, OSError, ValueError) as error:
        raise CannotRunError(
            f"no Docker daemon answers at {address}: {error}",
            advice="start it, join the group docker, or name another address in DOCKER_HOST",
        ) from None
    try:
        yield client.api
    finally:
        client.close()


def _address() -> str:
    import docker

    if named := os.environ.get("DOCKER_HOST"):
        return named
    with suppress(docker.errors.DockerException, OSError, ValueError, AttributeError):
        return str(docker.ContextAPI.get_current_context().Host)
    return "unix:///var/run/docker.sock"


@contextmanager
def _report_errors(what: str, where: str | None) -> Iterator[None]:
    import docker
    import requests

    try:
        yield
    except docker.errors.APIError as error:
        message = _explain(error)
        lacks = "could not select device driver" in message
        advice = "add NVIDIA's container toolkit, or use --runtime apptainer" if lacks else None
        raise CannotRunError(f"{what}: {message}", where=where, advice=advice) from None
    except requests.RequestException as error:
        raise CannotRunError(f"{what}: {error}", where=where) from None


def _explain(error: Any) -> str:
    return str(error.explanation or error).strip()[:1000]


def _inspect(api: Any, image: Image) -> Any:
    """What the daemon has under the image's digest, None when it must be fetched."""
    import docker

    for name in [image.pinned] if image.pinned else loading.names(image):
        with suppress(docker.errors.ImageNotFound):
            return api.inspect_image(name)
    return None


def _pull(api: Any, image: Image) -> None:
    reference = parse(f"docker://{image.pinned}")
    lines = api.pull(
        f"{reference.registry}/{reference.repository}",
        tag=str(reference.digest),
        stream=True,
        decode=True,
    )
    for line in lines:
        if "error" in line:
            raise CannotRunError(
                f"Docker cannot pull the image: {line['error']}", where=image.reference
            )


def _create(api: Any, prepared: Prepared, invocation: Invocation) -> str:
    """A container that sees nothing but the image, its mounts and its environment."""
    from docker import types

    mounts = [
        types.Mount(
            type="bind",
            source=str(mount.source),
            target=mount.target,
            read_only=not mount.writable,
        )
        for mount in invocation.mounts
    ]
    host = api.create_host_config(
        mounts=mounts,
        network_mode="bridge" if invocation.network else "none",
        read_only=True,
        tmpfs=_TMPFS,
        # half of the memory, as a host gives its own /dev/shm; Docker's 64 MiB break data loaders
        shm_size=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2,
        init=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        # the output is copied to our files as it comes: no second copy in the daemon's folder
        log_config=types.LogConfig(type="none"),
        device_requests=_device_requests(invocation.devices),
        pids_limit=invocation.pids,
    )
    made = api.create_container(
        prepared.handle,
        # not the image's entry point: under every engine the command is the whole command
        entrypoint=[invocation.command[0]],
        command=list(invocation.command[1:]),
        environment={
            "HOME": "/tmp",  # noqa: S108 - the container's own
            **invocation.environment,
            process.RUN_MARK: invocation.label,
        },
        user=_user(api),
        working_dir=invocation.cwd,
        labels={_LABEL: invocation.label},
        # or proxies of the caller's configuration would be added to the environment
        use_config_proxy=False,
        name=f"capsule-{secrets.token_hex(8)}",
        host_config=host,
    )
    return str(made["Id"])


def _user(api: Any) -> str:
    # a daemon without root maps the caller to root inside; what it writes is the caller's then
    if any("rootless" in option for option in api.info().get("SecurityOptions") or ()):
        return "0:0"
    return f"{os.getuid()}:{os.getgid()}"


def _device_requests(devices: tuple[str, ...]) -> list[Any]:
    from docker import types

    requested = types.DeviceRequest(device_ids=list(devices), capabilities=[["gpu"]])
    return [requested] if devices else []


@contextmanager
def _attach(api: Any, container: str) -> Iterator[Iterator[tuple[int, bytes]]]:
    from docker.utils.socket import frames_iter

    stream = api.attach_socket(container, {"stdout": 1, "stderr": 1, "stream": 1})
    try:
        yield frames_iter(stream, tty=False)  # type: ignore[no-untyped-call]
    finally:
        # closing the stream alone would leave the connection below it open
        getattr(stream, "_response", stream).close()


def _remove(api: Any, container: str) -> None:
    import docker

    # gone already, or somebody else is removing it
    with suppress(docker.errors.NotFound):
        try:
            api.remove_container(container, force=True, v=True)
        except docker.errors.APIError as error:
            if error.status_code != 409:
                raise
            api.wait(container, condition="removed")
