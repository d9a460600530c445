"""What registries answer, to capsule and to the engines that it starts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO
from urllib.request import Request, urlopen

from capsule.digest import of_bytes
from capsule.jsons import Json
from tests.hostile.areas.images import CACHE, run
from tests.hostile.case import Case, Prepare
from tests.support import registries
from tests.support.command import NOISY, User
from tests.support.engines import (
    push_tiny,
    registry_host,
)
from tests.support.registries import Answer, http, make_config, make_index, make_manifest


@cache
def _host() -> str:
    """One server for all of them, to the end of the process: a name says how it lies."""

    def answer(path: str, out: BinaryIO) -> None:
        if path == "/v2/":
            out.write(http(b"{}", Docker_Distribution_Api_Version="registry/2.0"))
        else:
            _ANSWERS[path.split("/")[2]](path, out)

    server = registries.start(answer)
    return f"127.0.0.1:{server.server_address[1]}"


def _resolve(name: str) -> Prepare:
    return lambda user: ["image", "resolve", f"docker://{_host()}/{name}:1"]


def _image(
    name: str, *, config: Mapping[str, Json] = {}, manifest: Mapping[str, Json] = {}
) -> Answer:
    body = make_config(**config)
    return registries.answers(registries.image_answers(name, body, make_manifest(body, **manifest)))


def _save(name: str) -> Prepare:
    return lambda user: ["image", "save", f"docker://{_host()}/{name}:1", "image.tar"]


def _layer(name: str, served: bytes, *, size: int = 7) -> Answer:
    """An image whose one layer is stated to be `layer A`, so many bytes long."""
    digest = str(of_bytes(_LAYER))
    body = make_config(rootfs={"type": "layers", "diff_ids": [str(of_bytes(b"a"))]})
    layers: list[Json] = [{"mediaType": "a/b", "digest": digest, "size": size}]
    files = registries.image_answers(name, body, make_manifest(body, layers=layers))
    return registries.answers({**files, f"/v2/{name}/blobs/{digest}": served})


def _endless_layer(path: str, out: BinaryIO) -> None:
    if not path.endswith(str(of_bytes(_LAYER))):
        _layer("endless-layer", b"")(path, out)
        return
    out.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        out.write(bytes(1 << 16))


def _login(challenge: str) -> Answer:
    def answer(path: str, out: BinaryIO) -> None:
        out.write(http(b"", status="401 Unauthorized", WWW_Authenticate=challenge))

    return answer


def _send_on(path: str, out: BinaryIO) -> None:
    """A redirect whose own body never ends."""
    if path.endswith("/elsewhere"):
        out.write(http(b"{}", status="404 Not Found"))
        return
    place = f"http://{_host()}/v2/endless-redirect/elsewhere"
    out.write(f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {place}\r\n\r\n".encode())
    while True:
        out.write(bytes(1 << 16))


def _circle(path: str, out: BinaryIO) -> None:
    place = f"http://{_host()}{path}"
    out.write(http(b"", status="307 Temporary Redirect", Location=place))


def _endless_chunk_line(path: str, out: BinaryIO) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        out.write(b"0" * (1 << 16))


def _nested_token(path: str, out: BinaryIO) -> None:
    if path.endswith("/token"):
        out.write(http(b"[" * (1 << 19)))
    else:
        realm = f"http://{_host()}/v2/nested-token/token"
        _login(f'Bearer realm="{realm}"')(path, out)


def _other_manifest(path: str, out: BinaryIO) -> None:
    """An index, and behind the digest that it names the manifest of something else."""
    named, served = (make_manifest(make_config(variant=word)) for word in ("v1", "v2"))
    if path.endswith("/1"):
        out.write(http(make_index(named), Content_Type=registries.INDEX_TYPE))
    else:
        header = f"sha256:{of_bytes(named).hex}"
        out.write(http(served, Content_Type=registries.MANIFEST_TYPE, Docker_Content_Digest=header))


def _relay(path: str) -> bytes:
    """The body of a real registry's answer for an image of one file."""
    _, _, name = path.partition("/v2/")
    rest = name.partition("/")[2]
    real = f"http://{registry_host()}/v2/capsule-test/tiny/{rest}"
    wanted = Request(real, headers={"Accept": _MANIFEST})
    with urlopen(wanted) as answer:
        body: bytes = answer.read()
    return body


def _changed_layer(path: str, out: BinaryIO) -> None:
    """Everything is the real registry's, but for one bit of the layer."""
    body = _relay(path)
    if body[:1] != b"{":
        body = body[:-1] + bytes([body[-1] ^ 1])
    out.write(http(body, Content_Type=_MANIFEST if "manifests" in path else "a/b"))


def _another_for_the_engine(path: str, out: BinaryIO) -> None:
    """By its tag, as capsule asks, one image; by that one's digest, as engines ask, another."""
    name, _, digest = path.partition("/manifests/")
    if digest.startswith("sha256:"):
        body = _relay(f"{name}/manifests/two")
        out.write(http(body, Content_Type=_MANIFEST, Docker_Content_Digest=digest))
    else:
        out.write(http(_relay(path), Content_Type=_MANIFEST if digest else "a/b"))


_LAYER = b"layer A"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_ANSWERS: Mapping[str, Answer] = {
    "variant": _image("variant", config={"variant": "v1\x1b[2J\n"}),
    "no-platform": _image("no-platform", config={"os": None}),
    "media-type": _image(
        "media-type",
        manifest={
            "layers": [
                {"mediaType": "a/b\n", "digest": str(of_bytes(b"A")), "size": 1},
                {"mediaType": "a/b", "digest": str(of_bytes(b"B")), "size": 1},
            ]
        },
    ),
    "true-bytes": _image(
        "true-bytes",
        manifest={"layers": [{"mediaType": "a/b", "digest": str(of_bytes(b"A")), "size": True}]},
    ),
    "variables": _image("variables", config={"config": {"Env": [["CUDA_VERSION", 1]]}}),
    "long-challenge": _login("Bearer " + "a" * 60_000),
    "quoted-challenge": _login("Bearer " + 'a="",' * 12_000),
    "endless-redirect": _send_on,
    "circle": _circle,
    "chunk-line": _endless_chunk_line,
    "nested-token": _nested_token,
    "compressed": registries.answers(
        {"/v2/compressed/manifests/1": http(b"\x1f\x8b", Content_Encoding="gzip, gzip")}
    ),
    "other-manifest": _other_manifest,
    "wrong-layer": _layer("wrong-layer", http(b"layer B")),
    "short-layer": _layer("short-layer", http(b"layer")),
    "boundless-layer": _layer("boundless-layer", http(b"layer A"), size=2**53 - 1),
    "endless-layer": _endless_layer,
    "changed-layer": _changed_layer,
    "another-for-the-engine": _another_for_the_engine,
}


def _run_from(name: str, engine: str) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        # bytes of its own: of a layer that an engine has already it would fetch nothing
        tag = secrets.token_hex(8)
        push_tiny(tag)
        push_tiny("two")
        return [*run(user, engine, NOISY), "--image", f"docker://{_host()}/{name}:{tag}"]

    return prepare


CASES = (
    *(
        Case(name=f"registry/save-of-{name}", prepare=_save(name), status=status, says=says)
        for name, status, says in (
            ("wrong-layer", 4, "the layer"),
            ("short-layer", 4, "bytes, expected 7"),
            ("endless-layer", 4, "exceeds its stated size of 7 bytes"),
            ("boundless-layer", 6, "are free"),
        )
    ),
    Case(
        name="registry/control-character-in-variant",
        prepare=_resolve("variant"),
        status=4,
        says="of a platform, expected letters",
        says_not="\x1b",
    ),
    Case(
        name="registry/no-platform",
        prepare=_resolve("no-platform"),
        status=4,
        says='the image configuration lacks "os"',
    ),
    Case(
        name="registry/control-character-in-media-type",
        prepare=_resolve("media-type"),
        status=4,
        says="expected TYPE/SUBTYPE",
    ),
    Case(
        name="registry/size-that-is-true",
        prepare=_resolve("true-bytes"),
        status=4,
        says="a layer has the size 'True', expected 0 to",
    ),
    Case(
        name="registry/variable-that-is-no-text",
        prepare=_resolve("variables"),
        status=4,
        says='"Env" has the entry',
    ),
    Case(
        name="registry/challenge-of-60-kB",
        prepare=_resolve("long-challenge"),
        status=6,
        says="asks for a login",
        seconds=20,
    ),
    Case(
        name="registry/challenge-of-12000-parts",
        prepare=_resolve("quoted-challenge"),
        status=6,
        says="asks for a login",
        seconds=20,
    ),
    Case(
        name="registry/redirect-with-endless-body",
        prepare=_resolve("endless-redirect"),
        status=6,
        says="lacks manifests/1",
        mib=256,
    ),
    Case(
        name="registry/redirect-in-a-circle",
        prepare=_resolve("circle"),
        status=6,
        says="redirects more than",
    ),
    Case(
        name="registry/chunk-line-without-end",
        prepare=_resolve("chunk-line"),
        status=6,
        says="did not answer",
        mib=256,
    ),
    Case(
        name="registry/token-of-brackets",
        prepare=_resolve("nested-token"),
        status=6,
        says="sent no token",
    ),
    Case(
        name="registry/compressed-twice",
        prepare=_resolve("compressed"),
        status=6,
        says="expected an uncompressed answer",
    ),
    Case(
        name="registry/another-manifest-behind-the-index",
        prepare=_resolve("other-manifest"),
        status=4,
        says="but its header states",
    ),
    *(
        Case(
            name=f"registry/{name}-under-{engine}",
            prepare=_run_from(name, engine),
            status=6,
            says="cannot pull the image",
            variables=CACHE,
            engine=engine,
            seconds=300,
        )
        for engine in ("apptainer", "docker", "podman")
        for name in ("changed-layer", "another-for-the-engine")
    ),
)
