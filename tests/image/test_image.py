"""image: what registries serve, and images built here."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import image
from capsule.digest import of_bytes
from capsule.errors import CannotRunError, CapsuleError, DamagedError, UsageError
from capsule.image import documents, reference, registry
from capsule.jsons import JsonObject
from capsule.manifest import ImageSpec
from tests.support.registries import INDEX_TYPE, MANIFEST_TYPE, OCI, make_config, make_manifest

SOME = of_bytes(b"some")


# --- a registry that serves whatever a test gives it --------------------------------------------


@dataclass
class Served:
    """What a registry on loopback answers, by path below /v2/NAME/; None sends nothing."""

    host: str = ""
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    login: str | None = None

    def put(self, path: str, body: bytes, kind: str = "", **headers: str) -> None:
        self.answers[path] = (200, {"Content-Type": kind, **headers}, body)

    def reference(self, version: str = ":1") -> reference.Reference:
        return reference.parse(f"docker://{self.host}/made{version}")


@pytest.fixture
def served() -> Iterator[Served]:
    state = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/v2/made/")
            state.requests.append((path, self.headers.get("Authorization", "")))
            status, headers, body = state.answers.get(path, (404, {}, b"{}"))
            bearer = self.headers.get("Authorization") == "Bearer good"
            if state.login and path.startswith(("manifests", "blobs")) and not bearer:
                status, headers, body = 401, {"WWW-Authenticate": state.login}, b""
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.host = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield state
        server.shutdown()
        thread.join()


def make(
    served: Served, manifest: JsonObject | None = None, config: JsonObject | None = None
) -> dict[str, bytes]:
    """Put a whole image of two layers at the tag `1`.

    Args:
        served: Where to put it.
        manifest: Fields of its manifest to replace.
        config: Fields of its configuration to replace.

    Returns:
        The bytes of its `manifest` and of its `config`.
    """
    data = make_config(**(config or {}))
    body = make_manifest(data, **(manifest or {}))
    kind = str(json.loads(body)["mediaType"])
    served.put("manifests/1", body, kind)
    served.put(f"manifests/{of_bytes(body)}", body, kind)
    served.put(f"blobs/{of_bytes(data)}", data)
    return {"manifest": body, "config": data}


def resolve(served: Served, version: str = ":1") -> image.Image:
    return registry.resolve(served.reference(version), platform="linux/amd64")


def test_an_image_is_pinned_by_the_digests_of_the_bytes_that_came(served: Served) -> None:
    made = make(served)
    pinned = resolve(served)
    assert pinned.manifest_digest == of_bytes(made["manifest"])
    assert pinned.config_digest == of_bytes(made["config"])
    assert (pinned.manifest, pinned.config) == (made["manifest"], made["config"])
    assert pinned.pinned == f"{served.host}/made@{pinned.manifest_digest}"
    assert [layer.diff_id for layer in pinned.layers] == [of_bytes(b"a"), of_bytes(b"b")]
    assert pinned.layers[1].digest == of_bytes(b"B")
    assert (pinned.platform, pinned.index_digest) == ("linux/amd64", None)
    assert resolve(served, f"@{pinned.manifest_digest}").manifest_digest == pinned.manifest_digest


def test_an_index_is_followed_to_this_platform_and_kept(served: Served) -> None:
    made = make(served)
    own = str(of_bytes(made["manifest"]))
    index: JsonObject = {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [
            {"digest": str(SOME), "platform": {"os": "unknown", "architecture": "unknown"}},
            {"digest": str(SOME), "platform": {"os": "linux", "architecture": "arm64"}},
            {"digest": own, "platform": {"os": "linux", "architecture": "amd64"}},
        ],
    }
    body = json.dumps(index).encode()
    served.put("manifests/2", body, INDEX_TYPE)
    pinned = resolve(served, ":2")
    assert (str(pinned.manifest_digest), pinned.index_digest) == (own, of_bytes(body))
    assert pinned.index == body
    with pytest.raises(
        CannotRunError, match=r"expected an image for linux/s390x, the registry has .*linux/arm64"
    ):
        registry.resolve(served.reference(":2"), platform="linux/s390x")


def test_an_image_of_another_platform_cannot_run(served: Served) -> None:
    make(served, config={"architecture": "arm64"})
    with pytest.raises(CannotRunError, match="for linux/arm64, expected linux/amd64"):
        resolve(served)


def test_bytes_of_another_digest_are_damaged(served: Served) -> None:
    made = make(served)
    with pytest.raises(DamagedError) as caught:
        served.put(f"manifests/{SOME}", made["manifest"], MANIFEST_TYPE)
        resolve(served, f"@{SOME}")
    assert str(SOME) in str(caught.value)
    assert str(of_bytes(made["manifest"])) in str(caught.value)
    served.put(f"blobs/{of_bytes(made['config'])}", made["config"] + b" ")
    with pytest.raises(DamagedError, match="the image's configuration is sha256:"):
        resolve(served)


def test_a_digest_header_that_lies_is_damaged(served: Served) -> None:
    made = make(served)
    headers = {"Docker-Content-Digest": str(SOME)}
    served.put("manifests/1", made["manifest"], MANIFEST_TYPE, **headers)
    with pytest.raises(DamagedError, match="but its header states"):
        resolve(served)


LAYER: JsonObject = {"mediaType": f"{OCI}.layer.v1.tar", "digest": str(SOME), "size": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"manifest": {"layers": [LAYER]}}, "as in the image configuration"),
        ({"manifest": {"layers": {}}}, "manifest breaks"),
        ({"manifest": {"layers": [LAYER, {**LAYER, "urls": ["http://h/x"]}]}}, "foreign"),
        ({"manifest": {"layers": [LAYER, {**LAYER, "mediaType": "a/foreign.b"}]}}, "foreign"),
        ({"manifest": {"layers": [LAYER, {**LAYER, "digest": "../../x"}]}}, "manifest breaks"),
        ({"manifest": {"layers": [LAYER, {**LAYER, "size": None}]}}, "manifest breaks"),
        ({"manifest": {"layers": [LAYER, {**LAYER, "size": "7"}]}}, "manifest breaks"),
        ({"manifest": {"layers": [LAYER, 7]}}, "manifest breaks"),
        ({"manifest": {"config": {}}}, "manifest breaks"),
        ({"manifest": {"config": 5}}, "manifest breaks"),
        ({"config": {"rootfs": None}}, "configuration breaks"),
        ({"config": {"rootfs": {"diff_ids": ["md5:1", "md5:2"]}}}, "configuration breaks"),
    ],
)
def test_documents_that_contradict_each_other_are_damaged(
    served: Served, changes: Mapping[str, JsonObject], words: str
) -> None:
    make(served, **changes)
    with pytest.raises(DamagedError, match=words):
        resolve(served)


@pytest.mark.parametrize(
    "changes",
    [
        {"manifests": []},
        {"mediaType": "application/vnd.docker.distribution.manifest.v1+json"},
        {"config": {"mediaType": "application/vnd.cncf.helm.config.v1+json"}},
    ],
)
def test_what_is_no_image_cannot_run(served: Served, changes: JsonObject) -> None:
    make(served, manifest=changes)
    with pytest.raises(
        CannotRunError, match=r"expected an image of Docker's schema 2|expected a container image"
    ):
        resolve(served)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"a":1,"a":2}'])
def test_what_is_no_json_object_is_damaged(served: Served, body: bytes) -> None:
    served.put("manifests/1", body, MANIFEST_TYPE)
    with pytest.raises(DamagedError):
        resolve(served)


def test_an_answer_without_end_is_cut(served: Served) -> None:
    served.put("manifests/1", b" " * (5 << 20), MANIFEST_TYPE)
    with pytest.raises(DamagedError, match=r"exceeds 4\.0 MiB, the limit"):
        resolve(served)


@given(
    body=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["layers", "manifests", "config", "mediaType", "digest", "platform"]
                ),
                inner,
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode())
)
def test_no_answer_of_a_registry_is_our_fault(body: bytes) -> None:
    try:
        document = documents.read(body, kind=MANIFEST_TYPE, where="it")
    except CapsuleError:
        return
    fields = json.loads(body)
    assert ("layers" in fields, "manifests" in fields) == (
        isinstance(document, documents.Manifest),
        isinstance(document, documents.Index),
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "lacks manifests/1"), (403, "refuses"), (500, "HTTP 500"), (429, "HTTP 429")],
)
def test_a_registry_that_does_not_serve_is_told_with_its_host(
    served: Served, status: int, words: str
) -> None:
    served.answers["manifests/1"] = (status, {}, b"")
    with pytest.raises(CannotRunError, match=words) as caught:
        resolve(served)
    assert served.host in str(caught.value)


def test_a_registry_that_is_not_there_is_told_with_its_host(served: Served) -> None:
    with pytest.raises(CannotRunError, match=r"127\.0\.0\.1:1 did not answer.*refused"):
        registry.resolve(reference.parse("docker://127.0.0.1:1/x"))


def store_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str) -> str:
    login = base64.b64encode(b"user:secret").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {host: {"auth": login}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return login


def test_a_token_is_fetched_with_the_stored_login(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(served)
    login = store_login(tmp_path, monkeypatch, served.host)
    served.login = f'Bearer realm="http://{served.host}/token",service="s",scope="pull"'
    served.put("/token?service=s&scope=pull", b'{"token": "good"}')
    assert resolve(served).manifest == made["manifest"]
    assert ("/token?service=s&scope=pull", f"Basic {login}") in served.requests


def test_without_a_login_the_way_out_is_named(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(served)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    served.login = 'Basic realm="x"'
    with pytest.raises(CannotRunError) as caught:
        resolve(served)
    assert f"docker login {served.host}" in str(caught.value)


# of the second, escaped as in a header, a client takes another part for the host than Python does
@pytest.mark.parametrize("host", ["198.51.100.7", r"198.51.100.7\\@127.0.0.1:1"])
def test_a_login_is_never_sent_to_another_machine_in_the_clear(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    make(served)
    store_login(tmp_path, monkeypatch, served.host)
    served.login = f'Bearer realm="http://{host}/token?signature=secret"'
    found = f"found the realm 'http://{host}/token', expected an https:// address"
    with pytest.raises(CannotRunError, match=re.escape(found)):
        resolve(served)


def test_a_scheme_that_is_not_known_is_named(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(served)
    store_login(tmp_path, monkeypatch, served.host)
    for challenge, scheme in (('Digest realm="x"', "Digest"), (" ", "")):
        served.login = challenge
        with pytest.raises(CannotRunError, match=f"scheme '{scheme}', expected Basic or Bearer"):
            resolve(served)


# --- the one entry -------------------------------------------------------------------------------


def test_the_override_takes_the_place_of_the_manifests_image(served: Served) -> None:
    make(served)
    written = f"docker://{served.host}/made:1"
    spec = ImageSpec(reference="docker://localhost:1/never-asked")
    pinned = image.resolve(spec, folder=None, override=written)
    assert pinned.reference == written
    assert image.resolve(ImageSpec(reference=written), folder=None).pinned == pinned.pinned


def test_no_image_at_all_is_bad_usage() -> None:
    with pytest.raises(UsageError, match="expected an image"):
        image.resolve(None, folder=None)
