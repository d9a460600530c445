"""Registries that answer as no registry should: raw bytes on a socket of loopback."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, cast

from capsule.digest import of_bytes
from capsule.jsons import Json, JsonObject

OCI = "application/vnd.oci.image"
INDEX_TYPE, MANIFEST_TYPE = f"{OCI}.index.v1+json", f"{OCI}.manifest.v1+json"
_PACE_SECONDS = 0.005
_HELLO = b"\x16"

Answer = Callable[[str, BinaryIO], None]
"""Writes what comes back for a path; nothing more is sent once it returns."""


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    # a client that gives up is what is tested
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever gave up is told nothing."""


@contextmanager
def serve(answer: Answer, heads: list[str] | None = None) -> Iterator[str]:
    """`HOST:PORT` of a server on loopback, for as long as the block runs; `heads` gets requests."""
    with start(answer, heads) as server:
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def start(answer: Answer, heads: list[str] | None = None) -> _Server:
    """The same, to the end of this process unless somebody ends it."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            if self.request.recv(1, socket.MSG_PEEK) == _HELLO:
                # engines try TLS first, and would wait ten seconds for an answer to it
                return
            head = ""
            while (line := self.rfile.readline().decode("latin-1")).strip():
                head += line
            if heads is not None:
                heads.append(head)
            answer(head.split()[1] if head else "", cast("BinaryIO", self.wfile))

    server = _Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


def drip(out: BinaryIO, pieces: bytes, *, pause: threading.Event) -> None:
    """The same bytes again and again, until `pause` is set or the client is gone."""
    while not pause.wait(_PACE_SECONDS):
        out.write(pieces)


def http(body: bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; `Content_Type` in `headers` stands for Content-Type."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def make_config(**changes: Json) -> bytes:
    """The configuration of an image of two layers."""
    document: JsonObject = {
        "os": "linux",
        "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": [str(of_bytes(b"a")), str(of_bytes(b"b"))]},
        **changes,
    }
    return json.dumps(document).encode()


def make_manifest(config: bytes, /, **changes: Json) -> bytes:
    """The manifest of such an image."""
    layers: list[JsonObject] = [
        {"mediaType": f"{OCI}.layer.v1.tar+gzip", "digest": str(of_bytes(blob)), "size": 7}
        for blob in (b"A", b"B")
    ]
    document: JsonObject = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {
            "mediaType": f"{OCI}.config.v1+json",
            "digest": str(of_bytes(config)),
            "size": len(config),
        },
        "layers": layers,
        **changes,
    }
    return json.dumps(document).encode()


def make_index(manifest: bytes, *, architecture: str = "amd64", **changes: Json) -> bytes:
    """An index that lists a manifest for linux, and one that nobody has for s390x."""
    entries: list[JsonObject] = [
        {
            "mediaType": MANIFEST_TYPE,
            "digest": str(of_bytes(body)),
            "size": len(body),
            "platform": {"os": "linux", "architecture": platform},
        }
        for body, platform in ((b"other", "s390x"), (manifest, architecture))
    ]
    document: JsonObject = {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": entries,
        **changes,
    }
    return json.dumps(document).encode()


def answers(files: Mapping[str, bytes]) -> Answer:
    """Whole answers by path, and 404 for every other."""

    def answer(path: str, out: BinaryIO) -> None:
        out.write(files.get(path, http(b"{}", status="404 Not Found")))

    return answer


def image_answers(name: str, config: bytes, manifest: bytes) -> dict[str, bytes]:
    """What a registry answers for an image at `NAME:1`."""
    return {
        f"/v2/{name}/manifests/1": http(manifest, Content_Type=MANIFEST_TYPE),
        f"/v2/{name}/blobs/{of_bytes(config)}": http(config),
    }
