"""A paper prints one line: where the capsule lies, and its id. That line verifies."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
import requests

from capsule.digest import of_bytes
from tests.support import publishing
from tests.support.command import User, write_manifest, write_script
from tests.support.engines import registry_host, small_image
from tests.support.publishing import DOI, by_path, id_of
from tests.support.registries import http, serve

CONSENT = ("--trust", "--allow-host")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capsule whose claim is so narrow that it stays open."""
    author = User.make(tmp_path_factory.mktemp("sealed"))
    write_script(author.folder)
    claim = {
        "metric": "tiny/default/command/loss",
        "type": "equivalence",
        "margin": {"absolute": 0.02},
    }
    manifest = write_manifest(author.folder, claims=[claim])
    ended = author.run("run", manifest, "-o", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    return author.folder / "a.capsule.zip"


@pytest.fixture
def files() -> dict[str, bytes]:
    """What the server has, by path; filled in once its address is known."""
    return {}


@pytest.fixture
def host(files: dict[str, bytes], sealed: Path) -> Iterator[str]:
    body = sealed.read_bytes()
    with serve(by_path(files)) as name:
        files |= {
            "/table2.capsule.zip": http(body),
            **publishing.zenodo(f"http://{name}", body),
            **publishing.registry("paper/tiny", body),
        }
        yield name


@pytest.mark.parametrize("where", ["url", "registry", "doi"])
def test_the_line_that_a_paper_prints_verifies(
    stranger: User, sealed: Path, host: str, where: str
) -> None:
    place = {
        "url": f"http://{host}/table2.capsule.zip",
        "registry": f"oci://{host}/paper/tiny:1",
        "doi": DOI,
    }[where]
    number = id_of(sealed.read_bytes())
    words = ("verify", place, "--id", number[:12], *CONSENT)
    ended = stranger.run(*words, CAPSULE_ZENODO=f"http://{host}")
    assert ended.returncode in (0, 3), ended.stderr
    assert f"original     {number[:12]}" in ended.stdout
    (verification,) = stranger.folder.iterdir()
    assert verification.name.endswith(".verification.zip")


def test_what_goes_on_needs_neither_login_nor_server(
    stranger: User, sealed: Path, host: str, files: dict[str, bytes]
) -> None:
    number = id_of(sealed.read_bytes())
    place = f"http://me:secret@{host}/table2.capsule.zip?key=secret"
    # two runs that happen to be close decide it, which is then no case of going on
    for word in "abcdefgh":
        ended = stranger.run("verify", place, *CONSENT, "--runs", "2", "--nonce", word)
        if ended.returncode != 0:
            break
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "secret" not in ended.stdout + ended.stderr
    named = f"capsule verify http://{host}/table2.capsule.zip"
    (cut_off,) = (line for line in ended.stderr.splitlines() if "to resume if interrupted" in line)
    assert f"{named} --resume " in cut_off
    assert f"--id {number}" in cut_off
    (way_on,) = (line for line in ended.stdout.splitlines() if "to settle it: " in line)
    assert named in way_on
    files.clear()
    again = stranger.run(*shlex.split(way_on.partition(": capsule ")[2]))
    assert again.returncode in (0, 3), again.stderr
    assert "counts runs of earlier verifications: 2 of" in again.stdout


def test_every_reader_takes_what_was_published(stranger: User, sealed: Path, host: str) -> None:
    number = id_of(sealed.read_bytes())
    url = f"http://{host}/table2.capsule.zip"
    checked = stranger.run("check", url, "--id", number)
    assert checked.returncode == 0, checked.stderr
    assert f"id {number}" in checked.stdout
    assert stranger.json("show", url)["id"] == number
    judged = stranger.run("diff", url, sealed, "--id", number[:12])
    assert judged.returncode in (0, 1, 3), judged.stderr
    assert list(stranger.folder.iterdir()) == []


def push(capsule: bytes, name: str) -> str:
    """Put an artifact of one file into the real registry, as `oras push` does; its digest."""
    place = f"http://{registry_host()}/v2/{name}"
    for blob in (publishing.EMPTY, capsule):
        begun = requests.post(f"{place}/blobs/uploads/", timeout=60)
        target = urljoin(place, begun.headers["Location"])
        joint = "&" if "?" in target else "?"
        url = f"{target}{joint}digest={of_bytes(blob)}"
        requests.put(url, data=blob, timeout=60).raise_for_status()
    manifest = publishing.artifact(capsule)
    kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
    pushed = requests.put(f"{place}/manifests/1", data=manifest, headers=kind, timeout=60)
    pushed.raise_for_status()
    return str(of_bytes(manifest))


@pytest.mark.engines
def test_a_real_registry_hands_it_out(stranger: User, sealed: Path) -> None:
    digest = push(sealed.read_bytes(), "capsule-test/published")
    number = id_of(sealed.read_bytes())
    for name in ("published:1", f"published@{digest}", f"published:1@{digest}"):
        place = f"oci://{registry_host()}/capsule-test/{name}"
        ended = stranger.run("check", place)
        assert ended.returncode == 0, ended.stderr
        assert f"id {number}" in ended.stdout
    ended = stranger.run("check", f"oci://{registry_host()}/capsule-test/published:none")
    assert ended.returncode == 6
    assert "lacks manifests/none of this capsule" in ended.stderr
    ended = stranger.run("check", small_image().replace("docker://", "oci://"))
    assert ended.returncode == 6
    assert "the registry sent a container image, expected a capsule" in ended.stderr


@pytest.mark.parametrize("verb", ["verify", "check", "show", "diff"])
def test_an_id_holds_for_a_file_too(stranger: User, sealed: Path, verb: str) -> None:
    other = "0" * 12
    rest = [sealed] if verb == "diff" else []
    ended = stranger.run(verb, sealed, *rest, "--id", other)
    assert ended.returncode == 4, ended.stderr
    number = id_of(sealed.read_bytes())
    assert f"its id is {number}, expected {other}" in ended.stderr
    assert list(stranger.folder.iterdir()) == []


def test_nothing_is_fetched_where_the_output_has_no_place(stranger: User, host: str) -> None:
    (stranger.folder / "b.zip").touch()
    ended = stranger.run("verify", f"http://{host}/table2.capsule.zip", "-o", "b.zip")
    assert ended.returncode == 2, ended.stderr
    assert "fetching" not in ended.stderr
