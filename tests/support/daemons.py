"""A door before the real Docker daemon: it freezes, slams or speaks TLS."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_PIECE_BYTES = 1 << 16


class Door:
    """Hands bytes on between clients and the daemon of the tests."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        self._listener = listener
        self._context = context
        self._path = os.environ["DOCKER_HOST"].removeprefix("unix://")
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        """Hand on nothing more, and let everybody wait."""
        self._open.clear()

    def slam(self) -> None:
        """End all connections, and accept none."""
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.set()
        for one in (self._listener, *self._sockets):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), ExitStack() as opened:
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
            opened.enter_context(client)
            daemon = opened.enter_context(socket.socket(socket.AF_UNIX))
            self._sockets += [client, daemon]
            daemon.connect(self._path)
            back = threading.Thread(target=self._hand_on, args=(daemon, client), daemon=True)
            back.start()
            self._hand_on(client, daemon)
            back.join()

    def _hand_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                self._open.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def stand_before(folder: Path) -> Iterator[tuple[str, Door]]:
    """The address of a door on a socket of its own, and the door."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "door.sock"))
        listener.listen()
        door = Door(listener)
        yield f"unix://{folder}/door.sock", door
        door.slam()


@contextmanager
def stand_before_over_tcp(certificates: Path | None = None) -> Iterator[tuple[str, Door]]:
    """The same on loopback; with certificates, only for who shows one of them."""
    context = None
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem", certificates / "key.pem")
        context.load_verify_locations(certificates / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listener:
        door = Door(listener, context)
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", door
        door.slam()


@contextmanager
def accept_in_silence(folder: Path) -> Iterator[str]:
    """The address of a socket that accepts whoever comes, and never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "silent.sock"))
        listener.listen()
        yield f"unix://{folder}/silent.sock"


def certify(folder: Path) -> None:
    """Write `ca.pem`, and certificates by it of a server and a client under one key.

    They have the names that Docker's client looks for: `cert.pem` and `key.pem`.
    """
    _openssl(
        folder,
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ca"),
        *("-keyout", "ca-key.pem", "-out", "ca.pem"),
    )
    for name in ("server", "cert"):
        (folder / "extension").write_text("subjectAltName=IP:127.0.0.1\n")
        made = ("-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem")
        key = made if name == "server" else ("-key", "key.pem")
        _openssl(folder, "req", "-new", *key, "-subj", f"/CN={name}", "-out", "request.pem")
        _openssl(
            folder,
            *("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem"),
            *("-CAcreateserial", "-days", "2", "-extfile", "extension", "-out", f"{name}.pem"),
        )


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
