"""References to images: what is read, what is filled in, and what each mistake is told."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule.digest import Digest, of_bytes
from capsule.errors import UsageError
from capsule.image import reference

parts = st.from_regex(r"[a-z0-9]{1,8}([._-][a-z0-9]{1,8}){0,2}", fullmatch=True)
names = st.lists(parts, min_size=1, max_size=4).map("/".join)
hosts = st.sampled_from(
    ["registry.example.org", "localhost", "127.0.0.1:5000", "[::1]:5000", "h:1"]
)
tags = st.none() | st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)
digests = st.none() | st.binary().map(of_bytes)


@given(hosts, names, tags, digests)
def test_a_reference_is_read_into_its_parts_and_back(
    host: str, name: str, tag: str | None, digest: Digest | None
) -> None:
    text = f"docker://{host}/{name}{f':{tag}' if tag else ''}{f'@{digest}' if digest else ''}"
    parsed = reference.parse(text)
    assert (parsed.registry, parsed.repository, parsed.digest) == (host, name, digest)
    assert parsed.tag == (tag or (None if digest else "latest"))
    assert reference.parse(str(parsed)) == parsed


@given(st.text() | st.text(alphabet="docker:/.@[]a-Z0_sha256").map("docker://{}".format))
def test_any_text_is_a_reference_or_bad_usage(text: str) -> None:
    try:
        parsed = reference.parse(text)
    except UsageError as error:
        assert error.advice
    else:
        assert reference.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "whole", "endpoint"),
    [
        ("debian", "docker.io/library/debian:latest", "https://registry-1.docker.io"),
        ("docker.io/debian:12", "docker.io/library/debian:12", "https://registry-1.docker.io"),
        ("index.docker.io/a/b", "docker.io/a/b:latest", "https://registry-1.docker.io"),
        ("pytorch/pytorch:2", "docker.io/pytorch/pytorch:2", "https://registry-1.docker.io"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1", "https://ghcr.io"),
        ("localhost/a", "localhost/a:latest", "http://localhost"),
        ("127.8.9.1:5000/a", "127.8.9.1:5000/a:latest", "http://127.8.9.1:5000"),
        ("[::1]:5000/a", "[::1]:5000/a:latest", "http://[::1]:5000"),
        ("10.0.0.1:5000/a", "10.0.0.1:5000/a:latest", "https://10.0.0.1:5000"),
        (
            "localhost.example.org/a",
            "localhost.example.org/a:latest",
            "https://localhost.example.org",
        ),
        (
            "127.0.0.1.example.org/a",
            "127.0.0.1.example.org/a:latest",
            "https://127.0.0.1.example.org",
        ),
    ],
)
def test_what_docker_fills_in_is_filled_in(text: str, whole: str, endpoint: str) -> None:
    parsed = reference.parse(f"docker://{text}")
    assert (str(parsed), parsed.endpoint) == (f"docker://{whole}", endpoint)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("debian:12", "did you mean docker://debian:12"),
        ("oras://h/x", "capsule supports only registries of Docker and OCI; write docker://"),
        ("library://h/x", "only registries of Docker and OCI"),
        ("Upper", r"write docker://HOST\["),
        ("x.sif", "write sif:FILE.*docker-archive:FILE"),
        ("/scratch/me/x.sif", "write sif:FILE.*docker-archive:FILE"),
        ("file:///scratch/me/x.sif", "write sif:FILE.*docker-archive:FILE"),
        ("docker-archive:x.tar", "write sif:FILE.*docker-archive:FILE"),
        ("docker-archive:/a/b.sif", "write sif:FILE.*docker-archive:FILE"),
        ("oci:folder:1", "write sif:FILE.*docker-archive:FILE"),
        ("oci-archive:x.tar", "write sif:FILE.*docker-archive:FILE"),
        (
            "./images/torch",
            "build the image first: run `docker build -t torch ./images/torch`",
        ),
        ("/images/torch", "and refer to the image as docker-daemon:torch; to publish the image"),
        ("localhost:5000/torch:1", "did you mean docker://localhost:5000/torch:1"),
        ("docker://", "expected a name of lower-case words"),
        ("docker://h.org/Upper", "expected a name of lower-case words"),
        ("docker://h.org/a//b", "expected a name of lower-case words"),
        ("docker://h.org/../b", "expected a name of lower-case words"),
        ("docker://h.org/a:", "expected a tag"),
        ("docker://h.org/a:b:c", "expected a tag"),
        ("docker://h.org:0/a", "expected a host"),
        ("docker://h.org:99999/a", "expected a host"),
        ("docker://u@h.org/a", "not a digest"),
        ("docker://[::zz]:1/a", "expected a host"),
        ("docker://h.org/a@sha256:12", "not a digest"),
        (f"docker://h.org/a@sha512:{'0' * 128}", "not a digest"),
        (f"docker://h.org/a@{str(of_bytes(b'some')).upper()}", "not a digest"),
    ],
)
def test_what_is_wrong_with_a_reference_is_said(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        reference.parse(text, where="/image/reference")
    assert re.search(words, str(caught.value), re.DOTALL)
    assert "/image/reference" in str(caught.value)
    archive_or_file = text.endswith(".sif") or text.startswith(("docker-archive", "oci", "/", "."))
    assert not (archive_or_file and "did you mean" in str(caught.value))
