"""The way to a Docker daemon: its address, its version, its errors, and requests that end."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import requests
import urllib3
from docker import APIClient
from docker.errors import APIError, DockerException, create_api_error_from_http_exception
from docker.tls import TLSConfig
from docker.utils import kwargs_from_env, version_lt

from capsule import plain
from capsule.digest import of_bytes
from capsule.errors import CannotRunError, CapsuleError
from capsule.runtimes.containers import PULL_SECONDS

# Docker 19.03; what older ones cannot do: device requests
MIN_API = "1.40"
# what any engine that lives answers at once
PROMPT_SECONDS = 60
# for one that unpacks, or a busy machine
_PATIENCE_SECONDS = 600
_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_ADVICE = "start the daemon, join the group docker, or set DOCKER_HOST to another address"
# the SDK lets through what it stands on: `requests`, and for streams urllib3
FAULTS = (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError)
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)


class _Client(APIClient):
    """The SDK's client, whose every request ends after some time of silence."""

    def __init__(self, url: str, tls: TLSConfig | None, version: str, seconds: int) -> None:
        # with a version it asks for none here, where a failure would leave a socket open
        super().__init__(base_url=url, version=version, timeout=seconds, tls=tls or False)
        # proxies, logins and certificates of the environment are those of other servers
        self.trust_env = False
        self._path = getattr(self.get_adapter(self.base_url), "socket_path", None)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request; `pull` would wait for ever."""
        kwargs["timeout"] = kwargs.get("timeout") or self.timeout
        if self._path is not None:
            # where this fails, the SDK would leave its own socket open
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(self.timeout)
                try:
                    probe.connect(self._path)
                except OSError as error:
                    raise requests.ConnectionError(error) from error
        return super().send(request, **kwargs)


class Daemon:
    """A Docker daemon that answers, and that capsule can use.

    Attributes:
        address: Where it answers.
        server: What it says of its version.

    Raises:
        CannotRunError: There is none, or it is another engine's, too old or of no use.
    """

    def __init__(self) -> None:
        self.address, self._tls = _find_address()
        if self.address.lower().startswith("ssh:"):
            raise CannotRunError(
                f"Docker's daemon at {self.address} runs on another machine, which lacks this"
                " machine's files",
                advice="run capsule on the machine of the daemon",
            )
        with asked(f"no Docker daemon answers at {self.address}", advice=_ADVICE):
            with self._connect(MIN_API, PROMPT_SECONDS) as client:
                self.server = client.version(api_version=False)
            self._version = _choose_version(self.server, self.address)

    @property
    def is_local(self) -> bool:
        """Return whether it is known to be on this machine."""
        return self.api.base_url.startswith("http+docker:")

    @property
    def is_encrypted(self) -> bool:
        """Return whether it is reached over TLS, which knows no end of one direction alone."""
        return self.api.base_url.startswith("https:")

    @cached_property
    def api(self) -> APIClient:
        """Return a client for requests that end soon."""
        return self._connect(self._version, _PATIENCE_SECONDS)

    @cached_property
    def transfers(self) -> APIClient:
        """Return a client for requests that move images."""
        return self._connect(self._version, PULL_SECONDS)

    @cached_property
    def _prompt(self) -> APIClient:
        return self._connect(self._version, PROMPT_SECONDS)

    def require_life(self) -> None:
        """Stop unless the daemon answers at once.

        Raises:
            CannotRunError: It is gone, or frozen.
        """
        with asked():
            self._prompt.ping()

    def wait_for_bytes(self, stream: socket.socket) -> None:
        """Wait until a socket of the daemon has something to read, or ends.

        Raises:
            CannotRunError: Nothing comes, and the daemon does not answer any more.
        """
        waiting = select.poll()
        waiting.register(stream, select.POLLIN)
        while not waiting.poll(1000 * PROMPT_SECONDS):
            self.require_life()

    @contextmanager
    def fetch(self, place: str, *, head: bool = False, **parameters: str) -> Iterator[Any]:
        """Ask for what the SDK has no call for that ends; yield the response."""
        client = self.api if head else self.transfers
        response = client.request(
            "HEAD" if head else "GET",
            f"{client.base_url}/v{client.api_version}{place}",
            params=parameters,
            stream=True,
        )
        with response:
            try:
                response.raise_for_status()
            except requests.HTTPError as error:
                create_api_error_from_http_exception(error)
            yield response

    def _connect(self, version: str, seconds: int) -> APIClient:
        return _Client(self.address, self._tls, version, seconds)


@contextmanager
def asked(failure: str = "", *, advice: str | None = None) -> Iterator[None]:
    """Turn what the SDK raises into what a user can act on.

    Raises:
        CannotRunError: In the engine's words, or with the cause of their absence.
    """
    try:
        yield
    except CapsuleError:
        raise
    except (*FAULTS, *_UNREADABLE) as error:
        if not failure and isinstance(error, requests.ConnectionError | requests.Timeout):
            failure = "Docker's daemon cannot be reached"
        words = f"{failure}: {_explain(error)}" if failure else _explain(error)
        raise CannotRunError(words, advice=advice) from None


def exhaust(events: Iterable[Mapping[str, Any]]) -> None:
    """Wait for the end of an answer whose status is 200 from its first byte on.

    Raises:
        CannotRunError: One of its events is an error.
    """
    for event in events:
        if "error" in event:
            raise CannotRunError(plain.last_lines(str(event["error"]), 1000))


def _explain(error: BaseException) -> str:
    """Return the engine's own words, or the cause of their absence."""
    if isinstance(error, APIError) and error.explanation:
        return plain.last_lines(str(error.explanation), 1000)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError | requests.Timeout):
            return "the daemon accepts a connection, but does not answer"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        inner = (one for one in cause.args if isinstance(one, BaseException))
        cause = cause.__cause__ or cause.__context__ or next(inner, None)
    return plain.last_lines(f"{type(error).__name__}: {error}", 1000)


def _find_address() -> tuple[str, TLSConfig | None]:
    """Return the address of the daemon, as Docker's own client finds it, and how to encrypt.

    Raises:
        CannotRunError: A context or its certificates cannot be read.
    """
    with asked("cannot find the address of Docker's daemon"):
        if host := os.environ.get("DOCKER_HOST"):
            verified = os.environ.get("DOCKER_TLS_VERIFY")
            return host, kwargs_from_env()["tls"] if verified else None
        # not by the SDK's ContextAPI: without a config.json it looks below the current folder
        folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
        current = _read_json(folder / "config.json").get("currentContext")
        name = os.environ.get("DOCKER_CONTEXT") or current or "default"
        if name == "default":
            return _DEFAULT_ADDRESS, None
        return _read_context(folder / "contexts", str(name))


def _read_context(folder: Path, name: str) -> tuple[str, TLSConfig | None]:
    key = of_bytes(name.encode()).hex
    endpoint = _read_json(folder / "meta" / key / "meta.json").get("Endpoints", {}).get("docker")
    if endpoint is None:
        raise CannotRunError(
            f"no Docker context {name!r}",
            advice="list the contexts with `docker context ls`",
        )
    place, is_verified = folder / "tls" / key / "docker", not endpoint.get("SkipTLSVerify")
    ca, cert, private = (place / f"{part}.pem" for part in ("ca", "cert", "key"))
    if is_verified and not place.is_dir():
        return str(endpoint["Host"]), None
    return str(endpoint["Host"]), TLSConfig(
        client_cert=(str(cert), str(private)) if cert.exists() else None,
        ca_cert=str(ca) if ca.exists() else None,
        verify=is_verified,
    )


def _read_json(path: Path) -> dict[str, Any]:
    """Read a file of Docker's settings; nothing where there is none."""
    try:
        settings: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return settings


def _choose_version(server: Mapping[str, Any], address: str) -> str:
    """Return the version of the API that is spoken: the daemon's own.

    Raises:
        CannotRunError: It is Podman's, or too old.
    """
    version = str(server["ApiVersion"])
    if any("podman" in str(one["Name"]).lower() for one in server.get("Components") or ()):
        raise CannotRunError(
            f"Podman answers at {address}, expected Docker",
            advice="use --runtime podman",
        )
    if version_lt(version, MIN_API):
        raise CannotRunError(
            f"Docker {server['Version']} at {address} has API version {version}; capsule needs"
            f" {MIN_API} or later",
            advice="update Docker to 19.03 or later, or use --runtime apptainer or podman",
        )
    return version
