"""Capsules come from where they were published: whole, in bounds, and the one that is meant."""

from __future__ import annotations

import base64
import json
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from capsule import addresses, offline
from capsule.digest import of_bytes
from capsule.errors import CannotRunError, CapsuleError, DamagedError, ExecutionError, UsageError
from capsule.fetching import download, is_remote, locations
from capsule.fetching.store import Fetched, fetch
from tests.support import publishing
from tests.support.capsules import sample
from tests.support.patience import PATIENCE_SECONDS
from tests.support.publishing import CONCEPT, DOI, by_path, id_of
from tests.support.registries import Answer, drip, http, serve


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAPSULE_CACHE", str(tmp_path))
    monkeypatch.delenv("CAPSULE_SITE", raising=False)
    own = tmp_path / str(os.geteuid())
    own.mkdir(mode=0o700)
    return own / "capsules"


@pytest.fixture
def pause() -> Iterator[threading.Event]:
    """Set at the end of a test, so that what drips stops."""
    event = threading.Event()
    yield event
    event.set()


def hold(fetched: Fetched, cache: Path) -> None:
    assert fetched.path.read_bytes() == sample()
    assert fetched.id == id_of(sample())
    # nothing else is left, least of all half a capsule
    assert list(cache.iterdir()) == [fetched.path]


def test_from_an_address(cache: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    with serve(by_path({"/a.capsule.zip": http(sample())})) as host:
        fetched = fetch(
            f"http://{host}/a.capsule.zip?token=secret", None, lambda *how: told.append(how)
        )
    hold(fetched, cache)
    assert fetched.name == f"http://{host}/a.capsule.zip"
    assert told[0][0] == fetched.name


def test_in_chunks_whose_length_nobody_knows(cache: Path) -> None:
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(sample()), sample())
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with serve(by_path({"/a": head + body})) as host:
        hold(fetch(f"http://{host}/a"), cache)


@pytest.mark.parametrize("pinned", [True, False])
def test_from_a_registry(cache: Path, pinned: bool) -> None:
    digest = f"@{of_bytes(publishing.artifact(sample()))}" if pinned else ""
    with serve(by_path(publishing.registry("paper/tiny", sample()))) as host:
        fetched = fetch(f"oci://{host}/paper/tiny:1{digest}")
    hold(fetched, cache)
    assert fetched.name == f"oci://{host}/paper/tiny:1{digest}"


@pytest.mark.parametrize(
    "name",
    [
        DOI,
        f"doi:{DOI}",
        f"doi:{CONCEPT}",
        f"https://doi.org/{DOI}",
        "https://zenodo.org/records/18812345",
    ],
)
def test_by_a_doi_that_zenodo_gave(cache: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    files: dict[str, bytes] = {}
    with serve(by_path(files)) as host:
        files |= publishing.zenodo(f"http://{host}", sample())
        monkeypatch.setenv("CAPSULE_ZENODO", f"http://{host}")
        fetched = fetch(name)
    hold(fetched, cache)
    assert fetched.name == f"doi:{CONCEPT if CONCEPT in name else DOI}"


def test_a_copy_of_the_right_id_is_not_fetched_again(cache: Path) -> None:
    heads: list[str] = []
    with serve(by_path({"/a": http(sample())}), heads) as host:
        first = fetch(f"http://{host}/a")
        for expected in (first.id, first.id[:12]):
            assert fetch(f"http://{host}/a", expected) == first
        assert len(heads) == 1
        first.discard()
        hold(fetch(f"http://{host}/a", first.id), cache)


def test_offline_an_id_alone_finds_a_capsule_in_the_cache(cache: Path) -> None:
    with serve(by_path({"/a": http(sample())})) as host:
        address = f"http://{host}/a"
        first = fetch(address)
    with offline.enforce(True):
        assert fetch(address, first.id[:12]) == first
        with pytest.raises(CannotRunError, match="only --id finds a capsule in the cache"):
            fetch(address)
        with pytest.raises(CannotRunError, match="this capsule is missing on this machine"):
            fetch(address, "0" * 12)


def test_another_capsule_than_the_one_that_is_meant_is_not_kept(cache: Path) -> None:
    with (
        serve(by_path({"/a": http(sample())})) as host,
        pytest.raises(DamagedError, match="another capsule than requested"),
    ):
        fetch(f"http://{host}/a", "0" * 12)
    assert list(cache.iterdir()) == []


def test_what_a_killed_download_left_is_removed_by_the_next(cache: Path) -> None:
    left = cache / ".capsule.0123abcd.capsule-partial"
    left.mkdir(parents=True)
    (left / "a.capsule.zip").write_bytes(b"PK")
    with serve(by_path({"/a": http(sample())})) as host:
        hold(fetch(f"http://{host}/a"), cache)


def test_a_cache_that_is_a_file_is_named(cache: Path) -> None:
    cache.write_text("")
    with (
        serve(by_path({"/a": http(sample())})) as host,
        pytest.raises(ExecutionError, match="cannot create the cache folder: File exists") as error,
    ):
        fetch(f"http://{host}/a")
    assert "CAPSULE_CACHE" in str(error.value)


def test_a_login_goes_to_its_own_server_alone() -> None:
    heads: list[str] = []
    with serve(by_path({"/a": http(sample())}), heads) as other:
        onwards = http(b"", status="302 Found", Location=f"http://{other}/a")
        with serve(by_path({"/a": onwards}), heads) as host:
            fetched = fetch(f"http://me:p%40ss@{host}/a")
    word = base64.b64encode(b"me:p@ss").decode()
    assert [f"Basic {word}" in head for head in heads] == [True, False]
    assert fetched.name == f"http://{host}/a"


def test_no_netrc_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    heads: list[str] = []
    with serve(by_path({"/a": http(sample())}), heads) as host:
        fetch(f"http://{host}/a")
    assert "Authorization" not in heads[0]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n"


@pytest.mark.parametrize(
    ("before", "again"),
    [
        (HEAD + b"\r\nPK\x03\x04", b"x"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nP\r\n"),
    ],
    ids=["body", "header", "continue", "silence", "chunks"],
)
def test_what_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
    pause: threading.Event,
    before: bytes,
    again: bytes,
) -> None:
    def answer(path: str, out: BinaryIO) -> None:
        out.write(before)
        drip(out, again, pause=pause)

    monkeypatch.setattr(download, "STALL_SECONDS", 0.1)
    monkeypatch.setattr(download, "_TICK_SECONDS", 0.02)
    monkeypatch.setattr(download, "_CHUNK_BYTES", 1 << 20)
    with (
        serve(answer) as host,
        pytest.raises(CannotRunError, match="download stalled after 0 bytes"),
    ):
        fetch(f"http://{host}/a")
    pause.set()
    assert list(cache.iterdir()) == []


def test_how_far_it_is_is_told_while_it_comes(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    first, told = threading.Event(), list[tuple[int, int | None]]()
    body = sample()

    def answer(path: str, out: BinaryIO) -> None:
        head, piece = http(body)[: -len(body)], download._CHUNK_BYTES
        assert len(body) > piece
        out.write(head + body[:piece])
        out.flush()
        # what has come is told before the rest does
        assert first.wait(PATIENCE_SECONDS)
        out.write(body[piece:])

    def hear(_name: str, done: int, total: int | None) -> None:
        told.append((done, total))
        if done:
            first.set()

    monkeypatch.setattr(download, "STALL_SECONDS", 30)
    monkeypatch.setattr(download, "_TICK_SECONDS", 0.02)
    monkeypatch.setattr(download, "_CHUNK_BYTES", 1 << 10)
    with serve(answer) as host:
        fetch(f"http://{host}/a", None, hear)
    assert told[:2] == [(0, None), (1 << 10, len(body))]


def test_a_full_disk_is_not_told_as_a_broken_connection(cache: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with serve(by_path({"/a": http(sample())})) as host:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))
        try:
            with pytest.raises(ExecutionError, match="cannot be written: File too large") as error:
                fetch(f"http://{host}/a")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert "CAPSULE_CACHE" in str(error.value)
    assert list(cache.iterdir()) == []


def redirect(target: str) -> Answer:
    return by_path({"/a": http(b"", status="302 Found", Location=target)})


@pytest.mark.parametrize("target", ["file:///etc/passwd", "http://[::1", "ftp://a.example/x", ""])
def test_a_redirect_leads_to_no_other_protocol(target: str) -> None:
    with (
        serve(redirect(target)) as host,
        pytest.raises(CannotRunError, match=r"refused a redirect|redirects more"),
    ):
        fetch(f"http://{host}/a")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://a.example/x", "http://a.example/x"),
        ("http://a.example/x", "http://127.0.0.1/x"),
        ("https://a.example/x", "https://localhost/x"),
        ("https://a.example/x", "https:///x"),
        ("http://a.example/x", "http://0.0.0.0/x"),
        ("http://a.example/x", "http://2130706433/x"),
        ("https://a.example/x", "https://[::ffff:127.0.0.1]/x"),
        ("https://a.example/x", "https://localhost./x"),
        ("http://a.example/x", "http://169.254.169.254/x"),
        ("http://127.0.0.1/x", "http://0xa9fea9fe/x"),
        ("https://a.example/x", "https://a.example:99999/x"),
        # a client ends the host at a backslash
        ("http://a.example/x", "http://127.0.0.1\\.a.example/x"),
        ("http://a.example/x", "http://169.254.169.254\\@a.example/x"),
    ],
)
def test_a_redirect_leads_to_nothing_less_safe(url: str, target: str) -> None:
    assert addresses.explain_refusal(url, target)


@pytest.mark.parametrize(
    ("answer", "kind", "match"),
    [
        (http(b"<!DOCTYPE html><html>", Content_Type="text/html"), DamagedError, "a web page"),
        (http(b"\n <html>"), DamagedError, "a web page"),
        (http(b"{}", Content_Type="application/json"), DamagedError, "'application/json'"),
        (http(b""), DamagedError, "the server sends an empty file"),
        (
            http(b"PK\x05\x06" + bytes(18)),
            DamagedError,
            "a file of unknown type instead of a capsule",
        ),
        (http(b"PK\x03\x04" + bytes(99)), DamagedError, "not a capsule"),
        (http(b"x", status="401 Unauthorized"), CannotRunError, "the server refuses access"),
        (
            http(b"x", status="404 Not Found"),
            CannotRunError,
            "the server has no file at this address",
        ),
        (http(b"x", status="503 Busy"), CannotRunError, "answered HTTP 503"),
        (http(b"x", status="206 Partial"), CannotRunError, "answered HTTP 206"),
        (http(b"PK\x03\x04", Content_Encoding="gzip"), DamagedError, "Content-Encoding 'gzip'"),
        (HEAD + b"\r\nPK\x03\x04", CannotRunError, "connection lost after"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999\r\n\r\n",
            DamagedError,
            "the download exceeds",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 130000000000\r\n\r\n", ExecutionError, "are free"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", CannotRunError, "did not answer"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_no_capsule_is_refused(
    cache: Path, answer: bytes, kind: type[CapsuleError], match: str
) -> None:
    with serve(by_path({"/a": answer})) as host, pytest.raises(kind, match=match) as error:
        fetch(f"http://me:secret@{host}/a?token=secret")
    assert "secret" not in str(error.value)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"size": 1}, "bytes, expected 1"),
        ({"size": True}, "lacks a valid address or size"),
        ({"size": "1"}, "lacks a valid address or size"),
        ({"checksum": f"md5:{'0' * 32}"}, "md5 of the download is"),
        ({"checksum": "crc32:00000000"}, "lacks an MD5 or SHA-256"),
        ({"checksum": f"sha256:{'0' * 32}"}, "lacks an MD5 or SHA-256"),
        ({"links": {"self": "file:///etc/passwd"}}, "refused the file address"),
        ({"links": {}}, "lacks a valid address or size"),
        ({"links": None}, "lacks a valid address or size"),
    ],
)
def test_a_record_is_held_to_what_it_says(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], match: str
) -> None:
    files: dict[str, bytes] = {}
    with serve(by_path(files)) as host:
        files |= publishing.zenodo(f"http://{host}", sample(), **changes)
        monkeypatch.setenv("CAPSULE_ZENODO", f"http://{host}")
        with pytest.raises(DamagedError, match=match):
            fetch(DOI)


@pytest.mark.parametrize(
    ("key", "kind", "match"),
    [
        (
            "README.capsule.zip",
            UsageError,
            "has 2 capsules, expected one: README.capsule.zip, tiny-",
        ),
        ("README.md", None, ""),
    ],
)
def test_a_record_of_several_capsules_asks_which(
    monkeypatch: pytest.MonkeyPatch, key: str, kind: type[CapsuleError] | None, match: str
) -> None:
    files: dict[str, bytes] = {}
    with serve(by_path(files)) as host:
        files |= publishing.zenodo(f"http://{host}", sample())
        document = publishing.record(f"http://{host}", sample())
        document["files"][0]["key"] = key
        files[publishing.RECORD] = http(json.dumps(document).encode())
        monkeypatch.setenv("CAPSULE_ZENODO", f"http://{host}")
        if kind is None:
            assert fetch(DOI).id == id_of(sample())
            return
        with pytest.raises(kind, match=match):
            fetch(DOI)


def test_a_doi_of_another_record_is_another_record(monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, bytes] = {}
    with serve(by_path(files)) as host:
        files |= publishing.zenodo(f"http://{host}", sample())
        files["/api/records/7"] = files[publishing.RECORD]
        monkeypatch.setenv("CAPSULE_ZENODO", f"http://{host}")
        with pytest.raises(DamagedError, match="the server sent another record"):
            fetch("10.5281/zenodo.7")


_IMAGE = {"mediaType": "application/vnd.oci.image.config.v1+json"}


@pytest.mark.parametrize(
    ("manifest", "kind", "match"),
    [
        (publishing.artifact(b"PK", layers=[]), CannotRunError, "has 0 files"),
        (publishing.artifact(b"PK", config=_IMAGE), CannotRunError, "sent a container image"),
        (
            publishing.artifact(b"PK", manifests=[]),
            CannotRunError,
            "a document without a list of files",
        ),
        (publishing.artifact(b"PK", layers={}), DamagedError, "breaks its specification"),
        (b"[]", DamagedError, "expected a JSON object"),
        (publishing.artifact(b"other"), CannotRunError, "lacks blobs/sha256:"),
    ],
    ids=["none", "image", "index", "odd", "list", "lost"],
)
def test_an_artifact_that_is_no_capsule_is_refused(
    manifest: bytes, kind: type[CapsuleError], match: str
) -> None:
    files = publishing.registry("a/b", sample(), manifest)
    with serve(by_path(files)) as host, pytest.raises(kind, match=match):
        fetch(f"oci://{host}/a/b:1")


def test_the_blob_is_what_the_manifest_names() -> None:
    files = publishing.registry("a/b", sample())
    blob = next(path for path in files if "blobs" in path)
    changed = sample()[:-1] + bytes([sample()[-1] ^ 1])
    with (
        serve(by_path({**files, blob: http(changed)})) as host,
        pytest.raises(DamagedError, match="sha256 of the download is"),
    ):
        fetch(f"oci://{host}/a/b:1")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("https://", "the address is invalid"),
        ("https://a b/c", "the address is invalid"),
        ("https://a.example:99999/", "the address is invalid"),
        ("https://[::1/", "the address is invalid"),
        ("https://a.example\\@b.example/", "the address is invalid"),
        ("http://me:secret@a.example/x", "would send the login unencrypted"),
        ("http://a.example/x", "plain HTTP cannot authenticate"),
        ("ftp://a.example/x", "cannot fetch a capsule by ftp://"),
        ("docker://a.example/x", "cannot fetch a capsule by docker://"),
        ("oci://a.example/X", "expected a name of lower-case words"),
        ("oci://a.example/x@sha256:0", "not a digest"),
        ("doi:10.1000/182", "not a DOI of Zenodo"),
        ("doi:10.5281/zenodo.0", "not a DOI of Zenodo"),
        ("https://doi.org/10.1000/182", "not a DOI of Zenodo"),
    ],
)
def test_what_names_no_place_is_a_mistake_of_the_command_line(text: str, match: str) -> None:
    assert is_remote(text)
    with pytest.raises(UsageError, match=match) as error:
        fetch(text)
    assert "secret" not in str(error.value)


def test_a_path_stays_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("10.5281").mkdir()
    Path("10.5281/zenodo.1").touch()
    names = ("a.zip", "./a:b.zip", "/a/b", "10.5281", "10.5281/zenodo.1", "oci:a", "https:/a")
    assert not any(map(is_remote, names))
    assert is_remote("10.5281/zenodo.2")


@pytest.mark.parametrize("text", ["https://me:secret@a.example/x?key=secret#secret", DOI])
def test_what_is_shown_of_a_place_names_it_again(text: str) -> None:
    name = locations.parse(text).name
    assert "secret" not in name
    assert locations.parse(name).name == name
