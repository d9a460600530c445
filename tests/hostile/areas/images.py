"""What registries answer, and what a capsule says of its image."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO
from urllib.request import Request, urlopen

from capsule.digest import of_bytes
from capsule.image import reference
from capsule.jsons import Json
from tests.hostile.case import Case, Prepare
from tests.support import registries
from tests.support.capsules import pack, rehash, sample_files, unpack
from tests.support.command import NOISY, User, write_manifest, write_script
from tests.support.engines import (
    engine_cache,
    push_tiny,
    registry_host,
    share_images,
    small_image,
)
from tests.support.registries import Answer, http, make_config, make_index, make_manifest

IMAGE = "data/records/image.json"
Files = dict[str, bytes]


# --- registries -----------------------------------------------------------------------------------


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
    "changed-layer": _changed_layer,
    "another-for-the-engine": _another_for_the_engine,
}


# --- capsules -------------------------------------------------------------------------------------


def _forged(change: Callable[[Files], None]) -> Prepare:
    """Check a capsule with an image, changed so that every hash of the bag fits again."""

    def prepare(user: User) -> list[str | Path]:
        files = dict(sample_files())
        change(files)
        return ["check", pack(rehash(files), user.folder / "forged.capsule.zip")]

    return prepare


def _say(name: str, value: Json) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        document = json.loads(files[IMAGE])
        document["image"][name] = value
        files[IMAGE] = json.dumps(document).encode()

    return change


def _index_of_others(files: Files) -> None:
    """An index that does not list the manifest, with its digest where it belongs."""
    body = make_index(b"another manifest")
    files["data/records/image-index.json"] = body
    _say("index_digest", str(of_bytes(body)))(files)


_OTHER = f"registry.example.org/tiny@{of_bytes(b'another image')}"


# --- engines --------------------------------------------------------------------------------------


_CACHE = {"CAPSULE_CACHE": str(engine_cache())}


def _run(user: User, engine: str, script: str) -> list[str | Path]:
    write_script(user.folder, script)
    manifest = write_manifest(user.folder, image={"reference": small_image()}, seeds=[1, 2])
    share_images(user.home)
    return ["run", manifest, "--runtime", engine, "--output", "own.capsule.zip"]


def _pin_another(engine: str) -> Prepare:
    """A capsule that ran in one image of the registry and pins another, to be verified here."""

    def prepare(user: User) -> list[str | Path]:
        ended = user.run(*_run(user, engine, NOISY), **_CACHE)
        assert ended.returncode == 0, ended.stderr
        files = unpack(user.folder / "own.capsule.zip")
        _say("pinned", push_tiny("one").pinned)(files)
        forged = pack(rehash(files), user.folder / "forged.capsule.zip")
        return ["verify", forged, "--runtime", engine, "--trust"]

    return prepare


def _name_another(engine: str) -> Prepare:
    """The same, and the reference is the pinned image's as well: only the bytes are the first's."""

    def prepare(user: User) -> list[str | Path]:
        ended = user.run(*_run(user, engine, NOISY), **_CACHE)
        assert ended.returncode == 0, ended.stderr
        files = unpack(user.folder / "own.capsule.zip")
        pinned = push_tiny("one").pinned
        _say("pinned", pinned)(files)
        _say("reference", f"docker://{pinned}")(files)
        forged = pack(rehash(files), user.folder / "forged.capsule.zip")
        return ["verify", forged, "--runtime", engine, "--trust"]

    return prepare


def _run_from(name: str, engine: str) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        # bytes of its own: of a layer that an engine has already it would fetch nothing
        tag = secrets.token_hex(8)
        push_tiny(tag)
        push_tiny("two")
        return [*_run(user, engine, NOISY), "--image", f"docker://{_host()}/{name}:{tag}"]

    return prepare


def _plant(user: User) -> list[str | Path]:
    """Somebody filled the cache: name and labels are those of the image, its files are not."""
    arguments = _run(user, "apptainer", NOISY)
    ended = user.run(*arguments, **_CACHE)
    assert ended.returncode == 0, ended.stderr
    (user.folder / "own.capsule.zip").unlink()
    digest = reference.parse(small_image()).digest
    assert digest is not None
    folder = user.home / ".cache/capsule/sif"
    folder.mkdir(parents=True)
    planted = folder / f"{digest.hex}.sif"
    shutil.copyfile(engine_cache() / "sif" / planted.name, planted)
    with planted.open("r+b") as stream:
        # labels come first in the file, the root file system last
        stream.seek(1 << 20)
        stream.write(bytes(planted.stat().st_size - (1 << 20)))
    (user.home / ".local/state/capsule/images").unlink()
    return arguments


_OPEN_KERNEL_SETTINGS = (
    "import os\n"
    "for path in ('/proc/sys/kernel/core_pattern', '/proc/irq/default_smp_affinity',\n"
    "             '/sys/kernel/mm/transparent_hugepage/enabled', '/sys/power/state',\n"
    "             '/sys/module/kernel/parameters/panic', '/etc/localtime'):\n"
    "    try:\n"
    "        os.close(os.open(path, os.O_WRONLY))\n"
    "    except OSError:\n"
    "        continue\n"
    "    raise SystemExit(path + ' can be written')\n"
)


def _open_kernel_settings(engine: str) -> Prepare:
    return lambda user: _run(user, engine, _OPEN_KERNEL_SETTINGS + NOISY)


CASES = (
    Case(
        name="registry/control-character-in-variant",
        prepare=_resolve("variant"),
        status=4,
        says="is no part of a platform",
        says_not="\x1b",
    ),
    Case(
        name="registry/no-platform",
        prepare=_resolve("no-platform"),
        status=4,
        says="names no platform",
    ),
    Case(
        name="registry/control-character-in-media-type",
        prepare=_resolve("media-type"),
        status=4,
        says="a layer has a media type",
    ),
    Case(
        name="registry/size-that-is-true",
        prepare=_resolve("true-bytes"),
        status=4,
        says="a layer has a size in bytes",
    ),
    Case(
        name="registry/variable-that-is-no-text",
        prepare=_resolve("variables"),
        status=4,
        says="a variable is no text",
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
        says="has no manifests/1",
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
        says="does not answer",
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
        says="compresses its answer",
    ),
    Case(
        name="registry/another-manifest-behind-the-index",
        prepare=_resolve("other-manifest"),
        status=4,
        says="and calls them",
    ),
    Case(
        name="image/names-one-pins-another",
        prepare=_forged(_say("pinned", _OTHER)),
        status=4,
        says="pinned cannot be what is stated",
    ),
    Case(
        name="image/another-manifest-digest",
        prepare=_forged(_say("manifest_digest", str(of_bytes(b"another image")))),
        status=4,
        says="manifest_digest cannot be what is stated",
    ),
    Case(
        name="image/another-reference",
        prepare=_forged(_say("reference", f"docker://{_OTHER}")),
        status=4,
        says="what the reference names is",
    ),
    Case(
        name="image/another-platform",
        prepare=_forged(_say("platform", "linux/arm64")),
        status=4,
        says="platform cannot be what is stated",
    ),
    Case(
        name="image/no-reference-to-a-registry",
        prepare=_forged(_say("reference", "tiny")),
        status=4,
        says="not an image reference",
    ),
    Case(
        name="image/index-without-the-manifest",
        prepare=_forged(_index_of_others),
        status=4,
        says="does not list the manifest",
    ),
    *(
        Case(
            name=f"image/{word}-under-{engine}",
            prepare=prepare(engine),
            status=4,
            says=says,
            variables=_CACHE,
            engine=engine,
        )
        for engine in ("apptainer", "docker")
        for word, prepare, says in (
            ("pins-another", _pin_another, "pinned cannot be what is stated"),
            ("names-and-pins-another", _name_another, "what the reference names is"),
        )
    ),
    Case(
        name="image/planted-in-the-cache",
        prepare=_plant,
        status=0,
        says="own.capsule.zip",
        variables={"CAPSULE_CACHE": ""},
        engine="apptainer",
        # what Apptainer itself takes to make it again
        mib=4096,
        seconds=600,
    ),
    *(
        Case(
            name=f"registry/{name}-under-{engine}",
            prepare=_run_from(name, engine),
            status=6,
            says="cannot pull the image",
            variables=_CACHE,
            engine=engine,
            seconds=300,
        )
        for engine in ("apptainer", "docker")
        for name in ("changed-layer", "another-for-the-engine")
    ),
    *(
        Case(
            name=f"image/writes-kernel-settings-under-{engine}",
            prepare=_open_kernel_settings(engine),
            status=0,
            says="own.capsule.zip",
            says_not="can be written",
            variables=_CACHE,
            engine=engine,
            seconds=300,
        )
        for engine in ("apptainer", "docker")
    ),
)
