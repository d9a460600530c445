"""Fetch the programs of manifests/third-party by digest, and build the images that they run in."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "manifests" / "third-party"
IMAGES = {"small": "third-party", "torch": "third-party-torch"}
_COMPILED = ("C", "C++", "Fortran")
_PYTHON = "3.11"
_COMPILER = ("gfortran-12", "libgfortran-12-dev", "libgfortran5", "libquadmath0")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A program, as its authors publish it.

    Attributes:
        name: Of its manifest, and of its folder below `sources`.
        origin: `pypi`, `debian` or `git`.
        place: What the origin's client is asked for, `mbw=1.2.2-1.1`, or the repository's address.
        version: Its own, or the day of the commit.
        commit: Of a repository, else empty.
        files: Of a large repository, the folders that are wanted; else all are.
        archive: File name under which it is published; of a repository empty.
        sha256: Of the archive, or of the list of a checkout's files (`digest_of_checkout`).
        language: That it is written in.
        image: Key of `IMAGES`.
    """

    name: str
    origin: str
    place: str
    version: str
    language: str
    sha256: str
    image: str
    archive: str = ""
    commit: str = ""
    files: Sequence[str] = ()


class FetchError(Exception):
    """A source cannot be had, or is another than the one that was written down."""


def read() -> dict[str, Source]:
    """All sources, by name."""
    rows = json.loads((FOLDER / "sources.json").read_text(encoding="utf-8"))
    return {row["name"]: Source(**row) for row in rows}


def fetch(source: Source, to: Path = FOLDER) -> Path:
    """Bring a program and its manifest into a folder.

    Args:
        source: What.
        to: Gets `NAME.json`, the manifest, and `sources/NAME`, where it looks for the program.

    Raises:
        FetchError: It cannot be had, or its digest is wrong; nothing of it is left.
    """
    target = to / "sources" / source.name
    if to != FOLDER:
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(FOLDER / f"{source.name}.json", to)
    if target.exists():
        return target
    archives = to / "sources" / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        fresh = Path(scratch) / source.name
        if source.origin == "git":
            _check_out(source, fresh)
        else:
            archive = _download(source, Path(scratch))
            _unpack(archive, fresh)
            archive.replace(archives / source.archive)
        fresh.rename(target)
    return target


def published_bytes(source: Source, path: str, to: Path = FOLDER) -> bytes:
    """A file as its authors published it: out of the archive, or of the commit.

    Args:
        source: Was fetched into `to`.
        path: Below the program's folder.
        to: As for `fetch`.
    """
    if source.origin == "git":
        folder = to / "sources" / source.name
        words = ["git", "-C", str(folder), "show", f"{source.commit}:{path}"]
        return subprocess.run(words, capture_output=True, check=True).stdout
    archive = to / "sources" / "archives" / source.archive
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(path)
    with tarfile.open(archive) as tar:
        top = tar.getnames()[0].partition("/")[0]
        file = tar.extractfile(f"{top}/{path}")
        assert file is not None, path
        return file.read()


def digest_of_checkout(folder: Path) -> str:
    """As `find . -type f ! -path './.git/*' | LC_ALL=C sort | xargs sha256sum | sha256sum`."""
    files = sorted(
        (f"./{path.relative_to(folder).as_posix()}".encode(), path)
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != ".git"
    )
    listing = [_digest(path).encode() + b"  " + name + b"\n" for name, path in files]
    return hashlib.sha256(b"".join(listing)).hexdigest()


def build_image(kind: str, base: str, *, archived_only: bool = False) -> str:
    """Build an image with the compiled and the installed programs in it; needs Docker.

    Args:
        kind: Key of `IMAGES`.
        base: Image of Debian 12 with Python, and of the kind `torch` with torch.
        archived_only: Without the programs whose source is in a git repository alone.

    Returns:
        The name that Docker knows it under.
    """
    folder, name = ROOT / "images" / IMAGES[kind], f"capsule-test/{IMAGES[kind]}:latest"
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch) / "context"
        shutil.copytree(folder, context)
        _fill_wheelhouse(context)
        if kind == "small":
            _fill_debs(context / "debs")
            for source in read().values():
                if source.language in _COMPILED and not (archived_only and source.commit):
                    target = context / "sources" / source.name
                    shutil.copytree(fetch(source), target, ignore=shutil.ignore_patterns(".git"))
        words = ["docker", "build", "--quiet", "--rm", "--force-rm", "--network", "none"]
        _run([*words, "--build-arg", f"BASE={base}", "--tag", name, str(context)])
    return name


def push_image(name: str, registry: str) -> str:
    """Push an image; returns the reference by digest that a manifest may name.

    Args:
        name: As Docker knows it.
        registry: `HOST:PORT`.
    """
    target = f"{registry}/{name.partition('/')[2].partition(':')[0]}"
    _run(["docker", "tag", name, f"{target}:latest"])
    printed = _run(["docker", "push", f"{target}:latest"])
    digest = printed.rpartition("digest: ")[2].split()[0]
    return f"docker://{target}@{digest}"


def _download(source: Source, scratch: Path) -> Path:
    if source.origin == "pypi":
        _ask_pip(source, scratch)
    else:
        _ask_apt(source, scratch)
    archive = scratch / source.archive
    if not archive.is_file():
        raise FetchError(f"{source.name}: {source.place} came without {source.archive}")
    if (digest := _digest(archive)) != source.sha256:
        raise FetchError(
            f"{source.name}: {source.archive} has SHA-256 {digest}, not {source.sha256}"
        )
    return archive


def _ask_pip(source: Source, scratch: Path) -> None:
    """Let pip look for it, wherever pip is set up to; it takes no file of another digest."""
    lock = scratch / "lock.txt"
    lock.write_text(f"{source.place} --hash=sha256:{source.sha256}\n")
    form = "--only-binary" if source.archive.endswith(".whl") else "--no-binary"
    words = ["download", "--quiet", "--no-deps", "--require-hashes", "--disable-pip-version-check"]
    name = source.place.partition("==")[0]
    _run([sys.executable, "-m", "pip", *words, form, name, "-d", str(scratch), "-r", str(lock)])


def _ask_apt(source: Source, scratch: Path) -> None:
    """Let apt bring a package's source, without Debian's own changes to it."""
    apt = _prepare_apt(scratch / "apt")
    _run([*apt, "source", "--download-only", "--tar-only", source.place], cwd=scratch)


def _prepare_apt(state: Path) -> list[str]:
    """An apt that looks where the machine's own packages come from, with lists of its own."""
    for folder in ("parts", "lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True)
    (state / "parts" / "own.sources").write_text(
        f"Types: deb deb-src\nURIs: {_debian_mirror()}\nSuites: bookworm\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": state / "parts",
        "Dir::State::Lists": state / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": state / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q"]
    for name, value in settings.items():
        apt += ["-o", f"{name}={value}"]
    _run([*apt, "update"])
    return apt


def _debian_mirror() -> str:
    """The mirror that the machine's own apt sources name."""
    form = "$(REPO_URI)|$(RELEASE)|$(ORIGIN)"
    lines = _run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"]).splitlines()
    for line in lines:
        site, release, origin = line.split("|")
        if origin == "Debian" and release == "bookworm":
            return site
    raise FetchError("apt's sources name no Debian 12 mirror; `apt-get update` first")


def _check_out(source: Source, folder: Path) -> None:
    """One commit of a repository, without the files that nobody asked for."""
    git = ["git", "-C", str(folder)]
    folder.mkdir()
    _run([*git, "init", "--quiet"])
    _run([*git, "remote", "add", "origin", source.place])
    if source.files:
        _run([*git, "config", "remote.origin.promisor", "true"])
        _run([*git, "config", "remote.origin.partialclonefilter", "blob:none"])
        _run([*git, "sparse-checkout", "set", "--no-cone", *(f"/{name}/" for name in source.files)])
    _run([*git, "fetch", "--quiet", "--depth", "1", "origin", source.commit])
    _run([*git, "checkout", "--quiet", source.commit])
    if (digest := digest_of_checkout(folder)) != source.sha256:
        raise FetchError(
            f"{source.name}: the files of {source.commit} have digest {digest}, not {source.sha256}"
        )


def _unpack(archive: Path, folder: Path) -> None:
    """The files of an archive, without the one folder that a source archive has around them."""
    whole = archive.parent / "unpacked"
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(whole)
    else:
        with tarfile.open(archive) as tar:
            # Python 3.11 has it from 3.11.4 on; whose digest is right need not be doubted
            tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            tar.extractall(whole)
    entries = list(whole.iterdir())
    (entries[0] if len(entries) == 1 else whole).rename(folder)


def _fill_wheelhouse(context: Path) -> None:
    words = ["download", "--quiet", "--require-hashes", "--only-binary", ":all:", "--no-deps"]
    python = ["--python-version", _PYTHON, "--implementation", "cp", "--disable-pip-version-check"]
    lock, house = context / "requirements.txt", context / "wheelhouse"
    _run([sys.executable, "-m", "pip", *words, *python, "-d", str(house), "-r", str(lock)])


def _fill_debs(folder: Path) -> None:
    """The Fortran compiler, which a base image without a network is given as packages."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        _run([*_prepare_apt(Path(scratch) / "apt"), "download", *_COMPILER], cwd=folder)


def _run(words: Sequence[str], cwd: Path | None = None) -> str:
    environment = {**os.environ, "DOCKER_BUILDKIT": "0", "GIT_TERMINAL_PROMPT": "0"}
    ended = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        raise FetchError(f"failed: {' '.join(words)}\n{(ended.stdout + ended.stderr)[-2000:]}")
    return ended.stdout


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
