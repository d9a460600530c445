"""Images that only an engine of this machine has: named, described, run elsewhere on it."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from capsule import image, process, runtimes
from capsule.digest import of_bytes
from capsule.errors import CannotRunError, UsageError
from capsule.image import Image
from capsule.manifest import ImageSpec
from capsule.runtimes import local as stores
from capsule.runtimes.base import Prepared
from tests.support.command import User, write_manifest, write_script
from tests.support.engines import engine_cache, python_image, small_image
from tests.support.patience import PATIENCE_SECONDS

SOME = of_bytes(b"some")
STORES = {"docker-daemon": "docker", "containers-storage": "podman"}


def call(program: str, *words: str, input_bytes: bytes = b"") -> str:
    ended = process.run(
        [program, *words], input_bytes=input_bytes, timeout_seconds=PATIENCE_SECONDS
    )
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout.decode().strip()


def tar(content: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo("content")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content.encode()))
    return data.getvalue()


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def local(store: str) -> Iterator[str]:
    """A reference to an image that one engine has."""
    name = f"localhost/capsule-test/only-{STORES[store]}-{os.getpid()}:1"
    call(STORES[store], "import", "-", name, input_bytes=tar(f"in {store}"))
    yield f"{store}:{name}"
    for program in STORES.values():
        process.run([program, "rmi", "--force", name], timeout_seconds=PATIENCE_SECONDS)


def resolve(reference: str) -> Image:
    return image.resolve(ImageSpec(reference=reference), folder=None, engines=stores.find)


@pytest.mark.engines
def test_a_real_registry_serves_what_the_reference_pins() -> None:
    pinned = resolve(small_image())
    assert small_image() == f"docker://{pinned.pinned}"
    assert pinned.platform == "linux/amd64"
    assert pinned.layers


@pytest.mark.engines
def test_an_image_that_no_engine_has_is_named() -> None:
    with pytest.raises(CannotRunError, match=str(SOME)[:20]), stores.save(SOME):
        pass


@pytest.mark.engines
def test_it_is_known_by_its_configuration(store: str, local: str) -> None:
    described = resolve(local)
    name = local.partition(":")[2]
    identity = call(STORES[store], "image", "inspect", "--format", "{{.Id}}", name)
    assert str(described.config_digest).endswith(identity)
    assert described.config is not None
    assert of_bytes(described.config) == described.config_digest
    assert described.identity.kind == "config"
    assert (described.reference, described.pinned, described.manifest) == (local, None, None)
    assert [layer.diff_id for layer in described.layers] == [of_bytes(tar(f"in {store}"))]
    assert resolve(f"{store}:{described.config_digest}").config_digest == described.config_digest


@pytest.mark.engines
@pytest.mark.parametrize("engine", ["apptainer", "docker", "podman"])
def test_every_engine_here_runs_it(local: str, tmp_path: Path, engine: str) -> None:
    """It has one file; to start that is as far as an engine can come."""
    described = resolve(local)
    runtime = runtimes.choose(engine, needs_image=True)
    prepared: Prepared = runtime.prepare(described, cache=tmp_path)
    assert runtime.keeps(described, cache=tmp_path)
    if engine != "apptainer":
        assert prepared.observations["image_id"] == str(described.config_digest)


@pytest.mark.engines
def test_an_image_that_is_not_there_is_told(store: str) -> None:
    with pytest.raises(CannotRunError, match="has no such image") as caught:
        resolve(f"{store}:capsule-test/nobody:1")
    assert f"{STORES[store]} image ls" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["docker-daemon:", "docker-daemon:--all", "containers-storage:a b"]
)
def test_a_name_that_is_none_is_bad_usage(text: str) -> None:
    with pytest.raises(UsageError, match="invalid image name") as caught:
        resolve(text)
    assert f"{text.partition(':')[0]}:NAME:TAG" in str(caught.value)


def test_without_the_engine_it_is_told(
    store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(CannotRunError, match=r"not on the PATH|no Docker daemon answers"):
        resolve(f"{store}:torch:1")
    with (
        pytest.raises(
            CannotRunError, match="no registry and no engine on this machine has image"
        ) as caught,
        stores.save(of_bytes(b"image")),
    ):
        pass
    assert "capsule image save" in str(caught.value)


def test_lint_says_that_nobody_else_can_run_it(author: User, store: str) -> None:
    manifest = write_manifest(author.folder, image={"reference": f"{store}:torch:1"})
    write_script(author.folder)
    ended = author.run("lint", manifest)
    assert ended.returncode == 0, ended.stderr
    talk = " ".join((ended.stdout + ended.stderr).split())
    title = STORES[store].capitalize()
    assert f"only {title} on this machine has {store}:torch:1" in talk
    assert f"capsule image save {store}:torch:1 FILE" in talk


@pytest.mark.engines
def test_a_run_of_it_is_verified_under_another_engine(
    author: User, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the author's machine; sealing says that nobody else can."""
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    program, name = STORES[store], f"localhost/capsule-test/numpy-{os.getpid()}:1"
    pinned = python_image().removeprefix("docker://")
    if program == "podman":
        call(program, "pull", "--quiet", "--tls-verify=false", pinned)
    else:
        call(program, "pull", "--quiet", pinned)
    call(program, "tag", pinned, name)
    write_script(author.folder)
    manifest = write_manifest(author.folder, image={"reference": f"{store}:{name}"}, seeds=[1, 2])
    words = ("run", manifest, "--runtime", program, "-o", "a.capsule.zip")
    # Docker is asked without any program
    ended = author.run(*words, **({} if program == "podman" else {"PATH": str(author.folder)}))
    assert ended.returncode == 0, ended.stderr
    talk = " ".join((ended.stdout + ended.stderr).split())
    assert f"others cannot fetch the image {store}:{name}" in talk
    other = "podman" if program == "docker" else "docker"
    verified = author.json("verify", "a.capsule.zip", "--runtime", other)
    assert verified["verdict"] == "REPRODUCED"
    call(program, "rmi", name)
