"""What a registry does to whoever waits for it: each ends within one time, and in little memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from capsule.errors import CannotRunError
from capsule.image import reference, transfer
from capsule.image.transfer import Transfer
from tests.support.registries import Answer, drip, http, serve


@pytest.fixture
def pause() -> Iterator[threading.Event]:
    """Set at the end of a test, so that what drips stops."""
    event = threading.Event()
    yield event
    event.set()


def get(host: str) -> bytes:
    with Transfer(reference.parse(f"docker://{host}/made:1")) as conversation:
        return conversation.get("manifests/1", accept="*/*", limit_bytes=1 << 20).body


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n"


@pytest.mark.parametrize(
    ("before", "again"),
    [
        (HEAD + b"\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["body", "header", "continue", "silence", "chunks"],
)
def test_one_time_bounds_the_whole_answer(
    monkeypatch: pytest.MonkeyPatch, pause: threading.Event, before: bytes, again: bytes
) -> None:
    def answer(path: str, out: BinaryIO) -> None:
        out.write(before)
        drip(out, again, pause=pause)

    monkeypatch.setattr(transfer, "_TOTAL_SECONDS", 0.1)
    with serve(answer) as host, pytest.raises(CannotRunError, match=r"whole answer within 0\.1 s"):
        get(host)
    pause.set()


def redirect(target: str) -> Answer:
    return lambda path, out: send(out, http(b"", status="302 Found", Location=target))


def send(out: BinaryIO, data: bytes) -> None:
    out.write(data)


@pytest.mark.parametrize("target", ["http://198.51.100.7/x", "file:///etc/passwd", "http://[::1"])
def test_a_redirect_leads_to_no_other_protocol(target: str) -> None:
    with serve(redirect(target)) as host, pytest.raises(CannotRunError, match="refused a redirect"):
        get(host)


def test_a_redirect_is_followed_without_the_login() -> None:
    heads: list[str] = []
    with (
        serve(lambda path, out: send(out, http(b"blob")), heads) as other,
        serve(redirect(f"http://{other}/store"), heads) as host,
    ):
        conversation = Transfer(reference.parse(f"docker://{host}/made:1"))
        conversation._authorization = "Bearer secret"
        with conversation:
            answer = conversation.get("manifests/1", accept="*/*", limit_bytes=100)
    assert answer.body == b"blob"
    assert ["secret" in head for head in heads] == [True, False]
    assert heads[1].startswith("GET /store ")


def test_a_redirect_in_a_circle_ends() -> None:
    with serve(redirect("/again")) as host, pytest.raises(CannotRunError, match="more than 10"):
        get(host)
