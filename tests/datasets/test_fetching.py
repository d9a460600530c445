"""Datasets that are fetched: by their digest, whole, resumed, unpacked, and from nowhere worse."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest

from capsule import datasets, offline
from capsule.datasets import download, fetching
from capsule.datasets.fetching import Fetched
from capsule.errors import CannotRunError, DamagedError
from capsule.manifest import DatasetSpec
from capsule.record import Dataset
from capsule.site import Site
from tests.support.downloads import shelve
from tests.support.registries import Answer, drip, http, serve

DATA = bytes(range(256)) * 2000
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


@pytest.fixture(autouse=True)
def _in_no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_PAUSES_SECONDS", (0.0, 0.0))


def spec(
    url: str, digest: str | None = DIGEST, *, unpack: bool = False, path: str | None = None
) -> DatasetSpec:
    return DatasetSpec(
        name="corpus", parameters={}, url=url, digest=digest, unpack=unpack, path=path
    )


def fetch(
    wanted: DatasetSpec, base: Path, used: Dataset | None = None, most_bytes: int = 1 << 30
) -> Fetched:
    return fetching.fetch(
        wanted,
        used=used,
        folder=None,
        site=Site(file=base / "site.json"),
        cache=base / "cache",
        most_bytes=most_bytes,
    )


def always(data: bytes) -> Answer:
    """A server's only answer."""

    def answer(_: str, out: BinaryIO) -> None:
        out.write(data)

    return answer


def make_used(digest: str, size: int, files: int = 1) -> Dataset:
    return Dataset(name="corpus", digest=digest, bytes=size, files=files, source="path")


def left(base: Path) -> list[str]:
    """Everything below the cache but for its list of digests."""
    cache = base / "cache"
    return sorted(
        str(path.relative_to(cache)) for path in cache.rglob("*") if "sqlite" not in path.name
    )


def test_what_is_fetched_is_found_by_its_digest(tmp_path: Path) -> None:
    with shelve(DATA) as shelf:
        fetched = fetch(spec(shelf.url()), tmp_path)
        again = fetch(spec(shelf.url()), tmp_path)
    assert (fetched.state, fetched.digest, fetched.sentence) == ("fetched", DIGEST, None)
    assert (again.state, again.path, len(shelf.heads)) == ("here", fetched.path, 1)
    without_address = DatasetSpec(name="other", parameters={}, digest=DIGEST)
    dataset, path = datasets.obtain(
        without_address,
        folder=None,
        site=Site(file=tmp_path / "site.json"),
        cache=tmp_path / "cache",
    )
    assert (path.name, path.read_bytes(), dataset.source) == ("corpus.bin", DATA, "fetched")
    assert not [name for name in left(tmp_path) if name.startswith("fetching/")]


def test_without_a_digest_it_is_told_what_to_write_down(tmp_path: Path) -> None:
    with shelve(DATA) as shelf:
        fetched = fetch(spec(shelf.url(), None), tmp_path)
    assert fetched.sentence == f'write down "digest": "{DIGEST}"'
    assert fetch(spec(shelf.url()), tmp_path).state == "here"


def test_other_bytes_than_the_digest_says_are_not_kept(tmp_path: Path) -> None:
    other = "sha256:" + "0" * 64
    with (
        shelve(DATA) as shelf,
        pytest.raises(DamagedError, match=f"is {DIGEST}, expected {other}"),
    ):
        fetch(spec(shelf.url(), other), tmp_path)
    assert left(tmp_path) == ["fetching"]


PAGE = b"<!DOCTYPE html><html>please accept the licence</html>"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize 12345678\n" % (
    b"0" * 64
)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (PAGE, f"the server sent an HTML page ({len(PAGE)} bytes) instead of the data"),
        (b"\xef\xbb\xbf\n<!-- x -->\n<HTML lang=en>", "the server sent an HTML page"),
        (POINTER, "without its data (11.8 MiB)"),
    ],
)
@pytest.mark.parametrize("digest", [DIGEST, None])
@pytest.mark.parametrize("unpack", [False, True])
def test_a_page_in_place_of_data_is_told_as_such(
    tmp_path: Path, data: bytes, words: str, digest: str | None, unpack: bool
) -> None:
    with shelve(data) as shelf:
        wanted = spec(shelf.url("corpus.tar.gz"), digest, unpack=unpack)
        with pytest.raises(DamagedError) as raised:
            fetch(wanted, tmp_path)
    assert words in str(raised.value)
    assert "owner has changed" not in str(raised.value)
    assert left(tmp_path) in ([], ["fetching"])


def test_a_page_that_is_the_data_is_kept(tmp_path: Path) -> None:
    digest = f"sha256:{hashlib.sha256(PAGE).hexdigest()}"
    with shelve(PAGE) as shelf:
        assert fetch(spec(shelf.url("corpus.bin"), digest), tmp_path).digest == digest
        assert fetch(spec(shelf.url("page.html"), None), tmp_path).digest == digest


@pytest.mark.parametrize("tag", ['"1"', ""])
def test_a_download_that_breaks_off_goes_on_where_it_ended(tmp_path: Path, tag: str) -> None:
    with shelve(DATA, tag=tag, most=200_000) as shelf:
        fetched = fetch(spec(shelf.url()), tmp_path)
    assert fetched.digest == DIGEST
    starts = [head.partition("Range: bytes=")[2].partition("-")[0] for head in shelf.heads]
    assert starts == ["", "200000", "400000"]


def test_a_later_call_goes_on_too(tmp_path: Path) -> None:
    with shelve(DATA, most=1000) as shelf:
        with pytest.raises(CannotRunError, match=r"stopped after 2\.9 KiB") as caught:
            fetch(spec(shelf.url()), tmp_path)
        assert caught.value.advice == "try again later; the download continues where it stopped"
        shelf.most = None
        assert fetch(spec(shelf.url()), tmp_path).digest == DIGEST
    assert "Range: bytes=3000-" in shelf.heads[-1]


def test_a_rest_of_unknown_length_leaves_the_reserve_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, heads = [1 << 40], list[str]()

    def answer(_: str, out: BinaryIO) -> None:
        if "Range: bytes=3000-" in heads[-1]:
            free[0] = (64 << 20) - 1
            out.write(b"HTTP/1.0 206 Partial Content\r\nContent-Range: bytes 3000-9999/*\r\n\r\n")
            out.write(DATA[3000:])
        else:
            out.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(DATA))
            out.write(DATA[:3000])

    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free[0]))
    with (
        serve(answer, heads) as host,
        pytest.raises(CannotRunError, match="the disk has too little space"),
    ):
        fetch(spec(f"http://{host}/x"), tmp_path)


def test_the_rest_of_another_file_is_not_taken(tmp_path: Path) -> None:
    with shelve(bytes(len(DATA)), most=1000) as shelf:
        with pytest.raises(CannotRunError):
            fetch(spec(shelf.url()), tmp_path)
        shelf.data, shelf.tag, shelf.most = DATA, '"2"', None
        assert fetch(spec(shelf.url()), tmp_path).digest == DIGEST


def test_without_digest_and_tag_it_begins_anew(tmp_path: Path) -> None:
    with shelve(bytes(len(DATA)), tag="", most=1000) as shelf:
        with pytest.raises(CannotRunError):
            fetch(spec(shelf.url(), None), tmp_path)
        shelf.data, shelf.most = DATA, None
        assert fetch(spec(shelf.url(), None), tmp_path).digest == DIGEST
    assert not any("Range" in head for head in shelf.heads)


def test_one_that_was_killed_at_its_end_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with shelve(DATA) as shelf:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(fetching, "_check", kill)
            fetch(spec(shelf.url()), tmp_path)
        assert fetch(spec(shelf.url()), tmp_path).digest == DIGEST
    assert f"Range: bytes={len(DATA)}-" in shelf.heads[1]
    assert len(shelf.heads) == 2


def test_a_copy_that_was_changed_is_fetched_again(tmp_path: Path) -> None:
    with shelve(DATA) as shelf:
        path = fetch(spec(shelf.url()), tmp_path).path
        assert path is not None
        path.write_bytes(b"changed")
        with pytest.raises(DamagedError, match="expected"):
            datasets.obtain(
                spec(shelf.url()),
                folder=None,
                site=Site(file=tmp_path / "site.json"),
                cache=tmp_path / "cache",
            )
        assert fetch(spec(shelf.url()), tmp_path).state == "fetched"
    assert path.read_bytes() == DATA


def test_no_more_comes_than_a_capsule_says(tmp_path: Path) -> None:
    used = make_used(DIGEST, len(DATA) - 1)
    with (
        shelve(DATA) as shelf,
        pytest.raises(
            DamagedError,
            match=rf"has {len(DATA)} bytes \(500\.0 KiB\), more than the limit of 511999 bytes",
        ),
    ):
        fetch(spec(shelf.url()), tmp_path, used)
    endless = always(b"HTTP/1.0 200 OK\r\n\r\n" + bytes(1 << 20))
    with (
        serve(endless) as host,
        pytest.raises(DamagedError, match="has more than the limit of 1000 bytes"),
    ):
        fetch(spec(f"http://{host}/x"), tmp_path, most_bytes=1000)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("file:///etc/passwd", "which is not https"),
        ("ftp://127.0.0.1/x", "which is not https"),
        ("http://user:secret@127.0.0.1/x", "refused a redirect to an address with a login"),
        ("http://169.254.169.254/latest/meta-data", "cloud metadata address"),
        ("http://2852039166/latest/meta-data", "cloud metadata address"),
        ("http://[fe80::1]/x", "cloud metadata address"),
        ("http://[::1", "refused a redirect to an invalid address"),
        ("http://169.254.169.254\\.a.example/x", "which cannot be read"),
        ("/again", "redirects more than 10 times"),
    ],
)
def test_a_redirect_leads_to_nothing_worse(tmp_path: Path, target: str, words: str) -> None:
    moved = http(b"", status="302 Found", Location=target)
    with (
        serve(always(moved)) as host,
        pytest.raises(CannotRunError, match=words),
    ):
        fetch(spec(f"http://{host}/x"), tmp_path)


def test_nothing_is_downloaded_where_nothing_may_be_connected_to(tmp_path: Path) -> None:
    with (
        offline.enforce(True),
        pytest.raises(CannotRunError, match="--offline forbids fetching it"),
    ):
        fetch(spec("https://example.org/x"), tmp_path)


def test_a_redirect_is_followed(tmp_path: Path) -> None:
    with shelve(DATA) as shelf:
        moved = http(b"", status="302 Found", Location=shelf.url("elsewhere"))
        with serve(always(moved)) as host:
            fetched = fetch(spec(f"http://{host}/corpus.bin"), tmp_path)
    assert (fetched.digest, fetched.path and fetched.path.name) == (DIGEST, "corpus.bin")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("404 Not Found", "answered HTTP 404"),
        ("403 Forbidden", "answered HTTP 403"),
        ("503 Busy", "cannot be fetched: the server answered HTTP 503"),
    ],
)
def test_what_is_not_served_is_told(tmp_path: Path, status: str, words: str) -> None:
    with (
        serve(always(http(b"", status=status))) as host,
        pytest.raises(CannotRunError, match=words),
    ):
        fetch(spec(f"http://{host}/x"), tmp_path)


def test_whoever_waits_for_next_to_nothing_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_STALL_SECONDS", 0.2)
    enough = threading.Event()

    def answer(_: str, out: BinaryIO) -> None:
        out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        drip(out, b"x", pause=enough)

    with serve(answer) as host, pytest.raises(CannotRunError, match="download stalled: less than"):
        fetch(spec(f"http://{host}/x"), tmp_path)
    enough.set()


TREE = {"a.txt": b"1", "b/c.txt": b"22"}


def make_tar(files: Mapping[str, bytes], top: str = "", mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            member = tarfile.TarInfo(f"{top}{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def make_zip(files: Mapping[str, bytes], top: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{top}{name}", data)
    return buffer.getvalue()


def digest_of(files: Mapping[str, bytes], base: Path) -> str:
    for name, data in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(data)
    return str(datasets.digest(base, cache=base.parent / "digests").digest)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
@pytest.mark.parametrize("top", ["", "./", "corpus-1.0/"])
def test_an_archive_is_unpacked_where_that_is_asked_for(
    tmp_path: Path, mode: str, top: str
) -> None:
    expected = digest_of(TREE, tmp_path / "tree")
    data = make_zip(TREE, top) if mode == "zip" else make_tar(TREE, top, mode)
    with shelve(data) as shelf:
        fetched = fetch(spec(shelf.url("c.tgz"), expected, unpack=True), tmp_path)
        without = fetch(spec(shelf.url("c.tgz"), None, unpack=True), tmp_path)
        packed = f"sha256:{hashlib.sha256(data).hexdigest()}"
        as_it_is = fetch(spec(shelf.url("c.tgz"), packed), tmp_path)
    assert (without.digest, without.state) == (expected, "fetched")
    assert fetched.path is not None and as_it_is.path is not None
    assert {
        str(path.relative_to(fetched.path)): path.read_bytes()
        for path in fetched.path.rglob("*")
        if path.is_file()
    } == TREE
    assert as_it_is.path.read_bytes() == data


def test_a_digest_of_all_that_an_archive_holds_is_met_too(tmp_path: Path) -> None:
    whole = {f"top/{name}": data for name, data in TREE.items()}
    expected = digest_of(whole, tmp_path / "tree")
    with shelve(make_tar(whole)) as shelf:
        fetched = fetch(spec(shelf.url(), expected, unpack=True), tmp_path)
    assert fetched.path is not None and (fetched.path / "top/a.txt").read_bytes() == b"1"


def test_links_inside_become_copies(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        link = tarfile.TarInfo("d/link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "../a.txt"
        tar.addfile(link)
        member = tarfile.TarInfo("a.txt")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"1"))
        hard = tarfile.TarInfo("hard.txt")
        hard.type, hard.linkname = tarfile.LNKTYPE, "a.txt"
        tar.addfile(hard)
    expected = digest_of({"a.txt": b"1", "d/link.txt": b"1", "hard.txt": b"1"}, tmp_path / "tree")
    with shelve(buffer.getvalue()) as shelf:
        fetched = fetch(spec(shelf.url(), expected, unpack=True), tmp_path)
    assert fetched.path is not None
    for name in ("d/link.txt", "hard.txt"):
        assert not (fetched.path / name).is_symlink()
        assert (fetched.path / name).stat().st_nlink == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CannotRunError("no space")])
def test_an_unpacking_that_is_cut_off_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def stop(_: object, target: Path, **__: object) -> None:
        target.mkdir()
        (target / "half").write_bytes(b"1")
        raise error

    with shelve(make_tar(TREE)) as shelf:
        wanted = spec(shelf.url(), None, unpack=True)
        with monkeypatch.context() as patch, pytest.raises(type(error)):
            patch.setattr(fetching, "unpack", stop)
            fetch(wanted, tmp_path)
        assert not [name for name in left(tmp_path) if "half" in name or "unpacked" in name]
        fetched = fetch(wanted, tmp_path)
    assert fetched.state == "fetched"
    assert len(shelf.heads) == 2


def test_a_doi_alone_is_told(tmp_path: Path) -> None:
    wanted = DatasetSpec(name="corpus", parameters={}, digest=DIGEST, doi="10.5555/1")
    fetched = fetch(wanted, tmp_path)
    assert fetched.state == "missing"
    assert fetched.sentence is not None
    assert "published as https://doi.org/10.5555/1; obtain the dataset, and" in fetched.sentence
