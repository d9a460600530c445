"""What of its machine a site has containers shown: asked of every engine, and told beforehand."""

from __future__ import annotations

import json
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from capsule import cli
from tests.support.command import REPORT, Document, User, write_manifest, write_script
from tests.support.engines import engine_cache, small_image

ENGINES = [
    pytest.param(name, marks=pytest.mark.engines) for name in ("apptainer", "docker", "podman")
]
# that each of them shows what it is told to is seen in a test of its own
ONE_ENGINE = [
    pytest.param("docker", marks=pytest.mark.engines),
    *(
        pytest.param(name, marks=[pytest.mark.engines, pytest.mark.long])
        for name in ("apptainer", "podman")
    ),
]
OWN = ".config/capsule/site.json"
NOWHERE = f"docker://127.0.0.1:1/none@sha256:{'0' * 64}"
FOLDER, LIBRARY = "/opt/vendor tree", "/usr/lib/libvendor.so"

SCRIPT = (
    REPORT
    + f"""
import pathlib
shown = (pathlib.Path({FOLDER!r}, "word"), pathlib.Path({LIBRARY!r}))
report("loss", 1 + seed % 997 / 1e5 if all(path.exists() for path in shown) else 2)
for path in shown:
    if path.exists():
        print("holds", path.read_text())
    for name in (path, path.with_name("new")):
        try:
            name.write_text("changed")
            print("wrote", name)
        except OSError as error:
            print("refused", name)
"""
)


def settle(user: User, **binds: Path | str) -> Path:
    """The user's own site file."""
    file = user.home / OWN
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"binds": {name: str(path) for name, path in binds.items()}}))
    return file


def vendor(base: Path) -> Path:
    """A tree of the site's own, by a link, as sites name what changes with a version."""
    tree = base / "vendor-1.2"
    tree.mkdir()
    (tree / "word").write_text("word-of-the-site")
    (tree / "lib.so").write_text("library-of-the-site")
    (base / "vendor").symlink_to(tree)
    return base / "vendor"


def begin(author: User) -> Path:
    write_script(author.folder, SCRIPT)
    return write_manifest(author.folder, seeds=[1, 2], image={"reference": small_image()})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_site_shows_containers_its_own_files_read_only(
    author: User, stranger: User, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    tree, manifest = vendor(tmp_path), begin(author)
    file = settle(author, **{FOLDER: tree, LIBRARY: tree / "lib.so"})
    ended = author.run("run", manifest, "--runtime", engine, "-o", "a.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = author.json("show", "a.zip")
    observed = {
        name: text
        for name, text in shown["image"]["observations"].items()
        if name.startswith("bind ")
    }
    real = tmp_path / "vendor-1.2"
    assert observed == {f"bind {FOLDER}": str(real), f"bind {LIBRARY}": str(real / "lib.so")}
    (note,) = [one for one in shown["notes"] if one["code"] == "site-binds"]
    assert f"of the machine: {FOLDER}, {LIBRARY}" in note["sentence"]
    with zipfile.ZipFile(author.folder / "a.zip") as sealed:
        names = [name for name in sealed.namelist() if name.endswith("stdout.txt")]
        printed = sealed.read(names[0]).decode()
    assert "holds word-of-the-site" in printed and "holds library-of-the-site" in printed
    assert "wrote" not in printed
    assert sorted(path.name for path in real.iterdir()) == ["lib.so", "word"]
    assert (real / "word").read_text() == "word-of-the-site"
    assert (real / "lib.so").read_text() == "library-of-the-site"
    # the missing one is named with its place, and nothing is begun
    settle(author, **{FOLDER: tmp_path / "gone"})
    ended = author.run("run", manifest, "--runtime", engine)
    assert ended.returncode == 6, ended.stdout + ended.stderr
    said = " ".join(ended.stderr.split())
    assert f"{file}#/binds/~1opt~1vendor tree" in said
    assert f"cannot bind {tmp_path}/gone" in said
    assert not list(author.folder.glob("*.run"))
    # another machine shows nothing: who reads the verdict is told of the side that did
    ended = stranger.run("verify", author.folder / "a.zip", "--runtime", engine, "--trust")
    assert ended.returncode in (1, 3), ended.stdout + ended.stderr
    told = " ".join(ended.stdout.split())
    assert "original: the containers could read files of the machine: " in told
    assert "re-run: the containers could read" not in told


@pytest.mark.parametrize("engine", ONE_ENGINE)
def test_a_stranger_is_run_with_this_machines_binds_which_are_told_before(
    author: User, stranger: User, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    tree, manifest = vendor(tmp_path), begin(author)
    binds = {FOLDER: tree, LIBRARY: tree / "lib.so"}
    settle(author, **binds)
    assert author.run("run", manifest, "--runtime", engine, "-o", "a.zip").returncode == 0
    settle(stranger, **binds)
    words = ("verify", author.folder / "a.zip", "--runtime", engine)
    ended = stranger.run(*words)
    assert ended.returncode == 4
    said = " ".join(ended.stderr.split())
    assert f"{tree} of this machine at {FOLDER}, read-only (site file)" in said
    mounts = stranger.json(*words, "--dry-run")["first"]["mounts"]
    assert {"source": str(tree.resolve()), "target": FOLDER, "writable": False} in mounts
    ended = stranger.run(*words, "--trust", "-o", "b.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "both sides: the containers could read files of the machine" in " ".join(
        ended.stdout.split()
    )


@pytest.mark.parametrize("engine", ONE_ENGINE)
def test_a_run_that_is_taken_up_sees_what_it_saw(
    author: User, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    settle(author, **{FOLDER: vendor(tmp_path)})
    write_script(author.folder, "raise SystemExit(1)\n")
    manifest = write_manifest(author.folder, seeds=[1, 2], image={"reference": small_image()})
    words = ("run", manifest, "--runtime", engine, "--work", "a.run")
    assert author.run(*words).returncode == 5
    (author.home / OWN).unlink()
    resume = ("run", "--resume", "a.run", "--keep-going")
    ended = author.run(*resume)
    assert ended.returncode == 6, ended.stdout + ended.stderr
    said = " ".join(ended.stderr.split())
    assert f"expected {tmp_path}/vendor-1.2 as when the run began" in said
    assert f"now gives containers {FOLDER} from nothing" in said
    settle(author, **{FOLDER: tmp_path / "vendor"})
    ended = author.run(*resume)
    assert ended.returncode == 5, ended.stdout + ended.stderr
    assert "sealed" in ended.stdout + ended.stderr


def test_a_dry_run_shows_them(author: User, tmp_path: Path) -> None:
    tree = vendor(tmp_path)
    settle(author, **{FOLDER: tree})
    write_script(author.folder)
    manifest = write_manifest(author.folder, image={"reference": NOWHERE})
    programs = fake_engine(tmp_path)
    ended = author.run("run", manifest, "--dry-run", PATH=str(programs))
    assert ended.returncode == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    assert f"{tree.resolve()} as {FOLDER}, read-only" in shown
    tree.unlink()
    ended = author.run("run", manifest, "--dry-run", PATH=str(programs))
    assert ended.returncode == 0, ended.stderr
    assert f"cannot bind {tree} at {FOLDER}" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(
    ("target", "source", "words"),
    [
        ("/opt/../etc/shadow", "/opt/x", "expected a plain path"),
        ("/opt/./x", "/opt/x", "expected a plain path"),
        ("/opt//x", "/opt/x", "expected a plain path"),
        ("/opt/x/", "/opt/x", "expected a plain path"),
        ("//capsule/inputs", "/opt/x", "expected a plain path"),
        ("//usr/bin", "/opt/x", "expected a plain path"),
        ("/opt/x", "//opt/x", "expected a plain path"),
        ("/opt/x", "/opt/../root", "expected a plain path"),
        ("/opt/\u202ex", "/opt/x", "expected a plain path"),
        ("opt/x", "/opt/x", "write binds as"),
        ("/opt/x", "opt/x", "write binds as"),
        ("/opt/x", "", "write binds as"),
        ("/opt/x,rw", "/opt/x", "write binds as"),
        ("/opt/x:rw", "/opt/x", "write binds as"),
        ("/opt/x", "/opt/x:/etc:rw", "write binds as"),
        ("/opt/x", '/opt/x",rw="', "write binds as"),
        ("/opt/x\n--privileged", "/opt/x", "write binds as"),
        ("/opt/x", "/opt/x\x00", "write binds as"),
        ("/", "/opt/x", "write binds as"),
        ("/proc/sys", "/opt/x", "capsule and the engine set /proc in containers"),
        ("/dev/shm", "/opt/x", "capsule and the engine set /dev in containers"),
        ("/tmp", "/opt/x", "capsule and the engine set /tmp in containers"),
        ("/capsule", "/opt/x", "capsule and the engine set /capsule in containers"),
        ("/capsule/levels/run.py", "/opt/x", "capsule and the engine set /capsule in containers"),
        ("/out/journal.jsonl", "/opt/x", "capsule and the engine set /out in containers"),
        (
            "/.singularity.d/env/00.sh",
            "/opt/x",
            "capsule and the engine set /.singularity.d in containers",
        ),
        ("/etc/passwd", "/opt/x", "capsule and the engine set /etc/passwd in containers"),
        ("/usr/bin/python3", "/opt/x", "the bind would hide programs of the image in /usr/bin"),
        ("/bin", "/opt/x", "the bind would hide programs of the image in /bin"),
        ("/usr", "/opt/x", "would hide everything that an image has in /usr"),
        ("/etc", "/opt/x", "would hide everything that an image has in /etc"),
        ("/lib64", "/opt/x", "would hide everything that an image has in /lib64"),
        ("/usr/lib/x86_64-linux-gnu", "/opt/x", "would hide everything"),
        ("/opt", "/opt/x", "would hide everything that an image has in /opt"),
    ],
)
def test_what_would_shadow_or_steer_is_refused_with_its_field(
    author: User,
    target: str,
    source: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(author.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    file = settle(author, **{target: source})
    assert cli.main(["site", "show"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert f"{file}#/binds" in said


def test_one_bind_within_another_is_refused(author: User) -> None:
    settle(author, **{"/opt/a": "/opt/x", "/opt/a/b": "/opt/y"})
    ended = author.run("site", "show")
    assert ended.returncode == 2
    assert "the path is inside /opt/a, which is bound read-only" in ended.stderr
    settle(author, **{"/opt/a": "/opt/x", "/opt/ab": "/opt/y"})
    assert author.run("site", "show").returncode == 0


def _link_into_the_home(base: Path) -> Path:
    (base / "link").symlink_to(base / "author-home/lib")
    return base / "link"


def _socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda base: _socket(base / "s"), "expected a folder or a regular file"),
        (lambda _: Path("/dev/null"), "expected a folder or a regular file"),
        (lambda base: base / "author-home/lib", "which capsule hides from containers"),
        (lambda base: base, "which capsule hides from containers"),
        (_link_into_the_home, "which capsule hides from containers"),
        (lambda _: Path("/run"), "which contains services of this machine"),
        (lambda _: Path("/proc/self/environ"), "which contains services of this machine"),
    ],
)
def test_what_leads_where_no_container_may_look_stops_a_run(
    author: User,
    tmp_path: Path,
    make: Callable[[Path], Path],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (author.home / "lib").mkdir()
    file = settle(author, **{"/opt/vendor": make(tmp_path)})
    write_script(author.folder)
    manifest = write_manifest(author.folder, image={"reference": NOWHERE})
    monkeypatch.setenv("HOME", str(author.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PATH", str(fake_engine(tmp_path)))
    assert cli.main(["run", str(manifest), "--dry-run", "--runtime", "apptainer"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert f"{file}#/binds/~1opt~1vendor" in said


def test_the_doctor_looks_at_them(author: User, tmp_path: Path) -> None:
    tree = vendor(tmp_path)
    file = settle(author, **{"/opt/vendor": tree})
    (finding,) = findings(author)
    assert finding["word"] == "good"
    assert finding["what"] == f"containers see {tree.resolve()} as /opt/vendor, read-only"
    tree.unlink()
    (finding,) = findings(author)
    assert finding["word"] == "missing"
    assert f"{file}#/binds/~1opt~1vendor: cannot bind {tree} at /opt/vendor" in finding["what"]
    assert "remove the line from the site file" in finding["mend"]


def findings(user: User) -> list[Document]:
    """What the doctor says of binds."""
    ended = user.run("doctor", "--json", DOCKER_HOST="unix:///nowhere/docker.sock")
    every = json.loads(ended.stdout)["findings"]
    return [finding for finding in every if finding["area"] == "binds"]


def fake_engine(base: Path) -> Path:
    """A folder with an engine that only says that it is there."""
    programs = base / "bin"
    programs.mkdir()
    (programs / "apptainer").write_text("#!/bin/sh\necho apptainer version 9\n")
    (programs / "apptainer").chmod(0o755)
    return programs


def test_the_users_bind_takes_the_place_of_the_sites(author: User, tmp_path: Path) -> None:
    wide = tmp_path / "site.json"
    wide.write_text(json.dumps({"binds": {"/opt/a": "/srv/a", "/opt/b": "/srv/b"}}))
    own = settle(author, **{"/opt/b": "/srv/mine"})
    document = json.loads(author.run("site", "show", "--json", CAPSULE_SITE=str(wide)).stdout)
    settings = {one["name"]: one for one in document["settings"]}
    assert settings["binds /opt/a"] == {
        "name": "binds /opt/a",
        "value": "/srv/a",
        "source": str(wide),
    }
    assert (settings["binds /opt/b"]["value"], settings["binds /opt/b"]["source"]) == (
        "/srv/mine",
        str(own),
    )
