"""Where a session connects: names are resolved once, and every address of them is judged."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import requests

from capsule import web
from capsule.addresses import explain_address, explain_refusal
from capsule.datasets.download import download
from capsule.errors import CannotRunError
from tests.support.registries import http, serve

PROVIDER, MACHINE = "cloud metadata address", "belongs to this machine"
_RESOLVE = socket.getaddrinfo

Names = Callable[..., list[str]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Call it with the addresses of names; returns the list of those that are looked up."""
    looked_up: list[str] = []

    def give(**table: str | list[str]) -> list[str]:
        known = {name.replace("_", "."): addresses for name, addresses in table.items()}

        def resolve(host: str, *words: Any, **rest: Any) -> Any:
            if host not in known:
                return _RESOLVE(host, *words, **rest)
            looked_up.append(host)
            addresses = known[host]
            if isinstance(addresses, str):
                addresses = addresses.split()
            return [one for a in addresses for one in _RESOLVE(a, *words, **rest)]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        return looked_up

    return give


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("127.0.0.1", MACHINE),
        ("127.1", MACHINE),
        ("127.255.255.254", MACHINE),
        ("0x7f000001", MACHINE),
        ("0177.0.0.1", MACHINE),
        ("2130706433", MACHINE),
        ("localhost", MACHINE),
        ("LOCALHOST.", MACHINE),
        ("0.0.0.0", MACHINE),
        ("0", MACHINE),
        ("::", MACHINE),
        ("::1", MACHINE),
        ("[::1]", MACHINE),
        ("::ffff:127.0.0.1", MACHINE),
        ("::ffff:7f00:1", MACHINE),
        ("::127.0.0.1", MACHINE),
        ("::ffff:0:127.0.0.1", MACHINE),
        ("64:ff9b::127.0.0.1", MACHINE),
        ("64:ff9b:1::127.0.0.1", MACHINE),
        ("2002:7f00:1::", MACHINE),
        ("2001:0:7f00:1::", MACHINE),
        ("169.254.169.254", PROVIDER),
        ("0xa9fea9fe", PROVIDER),
        ("2852039166", PROVIDER),
        ("0251.0376.0251.0376", PROVIDER),
        ("::ffff:169.254.169.254", PROVIDER),
        ("64:ff9b::a9fe:a9fe", PROVIDER),
        ("2002:a9fe:a9fe::1", PROVIDER),
        ("fe80::1", PROVIDER),
        ("fe80::1%eth0", PROVIDER),
        ("fd00:ec2::254", PROVIDER),
        ("fd00:0ec2:0:0::0254", PROVIDER),
        ("100.100.100.200", PROVIDER),
        ("168.63.129.16", PROVIDER),
        ("224.0.0.1", "multicast or broadcast"),
        ("ff02::1", "multicast or broadcast"),
        ("255.255.255.255", "multicast or broadcast"),
    ],
)
def test_no_spelling_of_an_inner_address_is_asked(address: str, fault: str) -> None:
    assert fault in str(explain_address(address, may_be_this_machine=False))
    shown = f"[{address}]" if ":" in address and "[" not in address else address
    assert explain_refusal("http://a.example/x", f"http://{shown}/x")


@pytest.mark.parametrize(
    "address",
    [
        *("a.example", "127.0.0.1.example.org", "10.0.0.1", "192.168.1.1", "172.16.0.1"),
        *("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "2002:5db8:d822::1"),
        *("::ffff:93.184.216.34", "fd12:3456::1", "100.100.100.201"),
    ],
)
def test_addresses_of_others_are_asked(address: str) -> None:
    assert explain_address(address, may_be_this_machine=False) is None


def greet(path: str, out: BinaryIO) -> None:
    out.write(http(b"hello"))


def ask(url: str, source: web.Source) -> requests.Response:
    with web.Session(url, source=source) as session:
        return session.get(url, timeout=20)


def port(host: str) -> str:
    return host.rpartition(":")[2]


def test_a_name_is_resolved_once_and_the_connection_goes_there(names: Names) -> None:
    heads: list[str] = []
    with serve(greet, heads=heads) as host:
        looked_up = names(mine_example="127.0.0.1")
        assert ask(f"http://mine.example:{port(host)}/", "own").content == b"hello"
    assert looked_up == ["mine.example"]
    assert f"Host: mine.example:{port(host)}" in heads[0]


@pytest.mark.parametrize(
    "addresses", ["127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1", "198.51.100.1 127.0.0.1"]
)
def test_a_strangers_name_that_leads_inwards_is_not_asked(names: Names, addresses: str) -> None:
    heads: list[str] = []
    with serve(greet, heads=heads) as host:
        names(theirs_example=addresses)
        with pytest.raises(CannotRunError, match=MACHINE) as caught:
            ask(f"http://theirs.example:{port(host)}/", "foreign")
    assert caught.value.where == "theirs.example"
    assert heads == []


@pytest.mark.parametrize("source", ["own", "foreign"])
def test_nor_one_that_leads_to_a_clouds_keys(names: Names, source: web.Source) -> None:
    names(theirs_example="169.254.169.254")
    with pytest.raises(CannotRunError, match=PROVIDER):
        ask("http://theirs.example/latest", source)


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0.0.0.0", "[::ffff:127.0.0.1]"])
def test_a_stranger_names_this_machine_plainly_or_not_at_all(tmp_path: Path, host: str) -> None:
    heads: list[str] = []
    with serve(greet, heads=heads) as place:
        url = f"http://{host}:{port(place)}/x"
        with pytest.raises(CannotRunError, match=MACHINE):
            download(url, tmp_path, most_bytes=99, trusts_bytes=True, source="foreign")
        assert heads == []
        assert ask(f"http://127.0.0.1:{port(place)}/", "foreign").content == b"hello"


def test_a_redirect_by_a_name_leads_no_further_inwards(names: Names) -> None:
    """The server that a user typed may be anywhere; those that it names are judged."""
    with serve(greet) as host:
        names(outside_example="198.51.100.1", inner_example="127.0.0.1", cloud_example="fe80::1")
        with web.Session("https://outside.example/", source="typed") as session:
            with pytest.raises(CannotRunError, match=MACHINE):
                session.get(f"http://inner.example:{port(host)}/", timeout=20)
            with pytest.raises(CannotRunError, match=PROVIDER):
                session.get("http://cloud.example/", timeout=20)
        # a server of this machine may name another one
        with web.Session(f"http://inner.example:{port(host)}/", source="typed") as session:
            for name in ("inner.example", "localhost"):
                url = f"http://{name}:{port(host)}/"
                assert session.get(url, timeout=20).content == b"hello"


def test_of_several_addresses_the_next_is_tried(names: Names) -> None:
    with serve(greet) as host:
        # nobody listens there
        names(mine_example=["127.9.9.9", "127.0.0.1"])
        assert ask(f"http://mine.example:{port(host)}/", "own").content == b"hello"


def test_behind_a_proxy_names_are_left_to_it(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[str] = []
    with serve(greet, heads=heads) as host:
        monkeypatch.setenv("http_proxy", f"http://{host}")
        looked_up = names(theirs_example="127.0.0.1")
        assert ask("http://theirs.example/x", "foreign").content == b"hello"
    assert looked_up == []
    assert heads[0].startswith("GET http://theirs.example/x ")


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A server that shows a certificate of `good.example`: its port, and the certificate."""
    if shutil.which("openssl") is None and not os.environ.get("CI"):
        pytest.skip("makes a certificate by openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=good.example", "-addext", "subjectAltName=DNS:good.example"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                    with plain, context.wrap_socket(plain, server_side=True) as connection:
                        connection.recv(4096)
                        connection.sendall(http(b"hello"))
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        yield listener.getsockname()[1], certificate
        listener.shutdown(socket.SHUT_RDWR)


def test_a_certificate_is_held_against_the_name_and_not_the_address(
    names: Names, tls: tuple[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    number, certificate = tls
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    names(good_example="127.0.0.1", other_example="127.0.0.1")
    assert ask(f"https://good.example:{number}/", "own").content == b"hello"
    with pytest.raises(requests.exceptions.SSLError):
        ask(f"https://other.example:{number}/", "own")
