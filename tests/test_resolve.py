"""What a run uses here is decided once, from the request and the site file together."""

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule import image as images
from capsule import manifest as manifests
from capsule import runtimes
from capsule.errors import CannotRunError, UsageError
from capsule.image import Image
from capsule.manifest.model import Resources
from capsule.resolve import Request, Used, choose, resolve
from capsule.runtimes import gpus, visible
from capsule.runtimes.base import Prepared
from capsule.runtimes.host import Host
from capsule.watch import Watch
from tests.support.patience import PATIENCE_SECONDS
from tests.support.records import make_image, manifest_document

WriteSite = Callable[[Mapping[str, str]], None]

OTHER = "docker://127.0.0.1:1/other:1"


class Contained:
    """An engine that has every image at hand."""

    contained = True

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(
        self, image: Image | None, *, cache: Path, keep_keyring: bool = False, own: bool = True
    ) -> Prepared:
        return Prepared(handle="")


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the engines that were chosen; `docker` is the first usable one."""
    names: list[str] = []

    def choose(name: str, *, needs_image: bool) -> Host | Contained:
        names.append(name)
        first = "docker" if needs_image else "host"
        name = first if name == "auto" else name
        return Host() if name == "host" else Contained(name)

    monkeypatch.setattr(runtimes, "choose", choose)
    monkeypatch.setattr(images, "resolve", lambda *_, **__: make_image())
    return names


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteSite:
    """Call it to write the site file."""

    def write(settings: Mapping[str, str]) -> None:
        path = tmp_path / "site.json"
        path.write_text(json.dumps(settings))
        monkeypatch.setenv("CAPSULE_SITE", str(path))

    write({})
    return write


def request(
    folder: Path, *, image: bool = True, override: str | None = None, **changes: Any
) -> Request:
    document = manifest_document(image=image)
    del document["datasets"], document["benchmarks"][0]["datasets"]
    (folder / "train.py").write_text("")
    manifest = manifests.read(json.dumps(document).encode(), where="it", folder=folder)
    return Request(manifest=manifest, image=override, inputs=folder, **changes)


@pytest.mark.parametrize(
    ("runtime", "wanted", "image", "engine"),
    [
        (None, "auto", True, "docker"),
        (None, "auto", False, "host"),
        ("apptainer", "auto", True, "apptainer"),
        ("apptainer", "docker", True, "docker"),
        ("apptainer", "auto", False, "host"),
        ("host", "auto", True, "host"),
        ("host", "docker", True, "docker"),
    ],
)
def test_the_command_line_decides_then_the_site_for_an_image_then_what_is_there(
    tmp_path: Path,
    engines: list[str],
    site: WriteSite,
    runtime: str | None,
    wanted: str,
    image: bool,
    engine: str,
) -> None:
    site({"runtime": runtime} if runtime else {})
    resolved = resolve(request(tmp_path, image=image, runtime=wanted))
    assert resolved.runtime.name == engine
    assert len(engines) == 1
    assert (resolved.image is None) == (engine == "host")


def test_what_ran_before_is_used_again(tmp_path: Path, engines: list[str], site: WriteSite) -> None:
    used = Used(image=make_image(), datasets=())
    resolved = resolve(request(tmp_path, image=False, used=used))
    assert resolved.image == used.image
    without = replace(used, image=None)
    assert resolve(request(tmp_path, used=without)).runtime.name == "host"
    with pytest.raises(UsageError, match="ran without an image"):
        resolve(request(tmp_path, used=without, runtime="docker"))


def test_an_image_for_another_machine_is_not_started(
    tmp_path: Path, engines: list[str], site: WriteSite
) -> None:
    other = replace(make_image(), platform="linux/s390x")
    with pytest.raises(CannotRunError, match="is for linux/s390x, but this machine is linux/"):
        resolve(request(tmp_path, image=False, used=Used(image=other, datasets=())))


@pytest.mark.parametrize(
    ("image", "used", "code", "words"),
    [
        (True, None, "image-replaced", "replaced"),
        (False, None, "image-named", "the manifest names no image"),
        (True, Used(image=None, datasets=()), "image-named", "the original ran without an image"),
        (False, Used(image=make_image(), datasets=()), "image-replaced", "replaced"),
    ],
)
def test_an_image_that_was_asked_for_replaces_one_only_where_there_was_one(
    tmp_path: Path,
    engines: list[str],
    site: WriteSite,
    image: bool,
    used: Used | None,
    code: str,
    words: str,
) -> None:
    resolved = resolve(request(tmp_path, image=image, used=used, override=OTHER))
    (note,) = resolved.notes
    assert note.code == code
    assert words in note.sentence
    assert OTHER in note.sentence


def test_more_threads_than_cpus_are_noted(
    tmp_path: Path, engines: list[str], site: WriteSite
) -> None:
    wanted = request(tmp_path)
    resources = replace(wanted.manifest.resources, cpus_per_rank=10_000)
    wanted = replace(wanted, manifest=replace(wanted.manifest, resources=resources))
    assert [note.code for note in resolve(wanted).notes] == ["oversubscribed"]


def test_frameworks_that_lack_the_device_are_noted(
    tmp_path: Path, engines: list[str], site: WriteSite
) -> None:
    wanted = request(tmp_path)
    assert resolve(wanted).notes == ()
    manifest = replace(wanted.manifest, left_out=("jax", "numpy"))
    (note,) = resolve(replace(wanted, manifest=manifest)).notes
    assert (note.code, dict(note.facts or ())) == (
        "frameworks-left-out",
        {"frameworks": ("jax", "numpy")},
    )
    assert note.sentence.startswith("left out jax, numpy: capsule runs jax, numpy on CPUs only")


def test_nothing_is_made(
    tmp_path: Path, engines: list[str], site: WriteSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = request(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    resolve(wanted)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_long_preparation_is_told_of_while_it_lasts(
    tmp_path: Path, engines: list[str], site: WriteSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = threading.Event()

    class Slow(Contained):
        def prepare(
            self, image: Image | None, *, cache: Path, keep_keyring: bool = False, own: bool = True
        ) -> Prepared:
            assert pending.wait(PATIENCE_SECONDS)
            return super().prepare(image, cache=cache)

    class Waiting(Watch):
        def image_pending(self, seconds: float) -> None:
            pending.set()

    monkeypatch.setattr(runtimes, "choose", lambda name, needs_image: Slow("apptainer"))
    monkeypatch.setattr("capsule.watch._PENDING_SECONDS", 0.001)
    assert resolve(request(tmp_path), Waiting()).runtime.name == "apptainer"
    assert pending.is_set()


def test_an_image_that_takes_long_to_hash_or_build_is_told_of(
    tmp_path: Path, engines: list[str], site: WriteSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = threading.Event()

    def read_slowly(*_: object, **__: object) -> Image:
        assert pending.wait(PATIENCE_SECONDS)
        return make_image()

    class Waiting(Watch):
        def image_pending(self, seconds: float) -> None:
            pending.set()

    monkeypatch.setattr("capsule.image.resolve", read_slowly)
    monkeypatch.setattr("capsule.watch._PENDING_SECONDS", 0.001)
    wanted = replace(request(tmp_path), image="sif:slow.sif")
    assert choose(wanted, Waiting()).image == make_image()


@pytest.mark.parametrize("is_node", [False, True])
def test_gpus_of_an_allocation_are_looked_for_on_its_nodes(
    tmp_path: Path,
    engines: list[str],
    site: WriteSite,
    monkeypatch: pytest.MonkeyPatch,
    is_node: bool,
) -> None:
    """A login node need not have any; where a job's script runs, there are ranks too."""
    srun = tmp_path / "bin/srun"
    srun.parent.mkdir()
    srun.write_text("#!/bin/sh\necho slurm 23.02.1\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{srun.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    if is_node:
        monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setattr(gpus, "find", lambda *_: None)
    asked = request(tmp_path, image=False)
    manifest = replace(asked.manifest, resources=Resources(nodes=2, gpus_per_rank=1))
    asked = replace(asked, manifest=manifest)
    if is_node:
        with pytest.raises(CannotRunError, match="this machine has no GPU with a driver"):
            resolve(asked)
    else:
        assert resolve(asked).launcher.name == "srun"


def test_a_network_that_benchmarks_ask_for_is_noted(
    tmp_path: Path, engines: list[str], site: WriteSite
) -> None:
    wanted = request(tmp_path)
    first = replace(wanted.manifest.benchmarks[0], id="first", online=True)
    for benchmarks, says in (
        ((first,), "benchmark first says"),
        ((first, replace(first, id="second"), replace(first, online=False)), "first and 1 more"),
    ):
        manifest = replace(wanted.manifest, benchmarks=benchmarks)
        (note,) = resolve(replace(wanted, manifest=manifest)).notes
        assert note.code == "online"
        assert note.sentence.startswith(f"workloads could reach the network: {says}")
        assert note.sentence.endswith('"online": true')
        on_host = resolve(replace(wanted, manifest=manifest, runtime="host")).notes
        assert "online" not in [note.code for note in on_host]


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Numbers of GPUs that were looked for here, and then asked of the engine."""
    log: list[tuple[str, int]] = []
    monkeypatch.setattr(visible, "require", lambda count, _: log.append(("here", count)))
    monkeypatch.setattr(Host, "check_gpus", lambda _, count, *__: log.append(("engine", count)))
    return log


@pytest.mark.parametrize(("gpus_per_rank", "count"), [(2, 6), (0, None)])
def test_the_engine_is_asked_for_the_gpus_of_all_ranks(
    tmp_path: Path,
    engines: list[str],
    site: WriteSite,
    asked_for: list[tuple[str, int]],
    gpus_per_rank: int,
    count: int | None,
) -> None:
    asked = request(tmp_path, image=False)
    resources = Resources(ranks_per_node=3, gpus_per_rank=gpus_per_rank)
    resolve(replace(asked, manifest=replace(asked.manifest, resources=resources)))
    assert asked_for == [(who, count) for who in ("here", "engine") if count is not None]


@pytest.mark.parametrize(
    ("is_sealed", "where", "advice"),
    [
        (False, "/resources/gpus_per_rank", "of the machine"),
        (True, "/resources/gpus_per_rank", "--device cpu"),
        # such as a driver that is too old for the image
        (True, None, "of the machine"),
    ],
)
def test_a_sealed_manifest_is_verified_without_the_gpu_that_lacks(
    tmp_path: Path,
    engines: list[str],
    site: WriteSite,
    monkeypatch: pytest.MonkeyPatch,
    is_sealed: bool,
    where: str | None,
    advice: str,
) -> None:
    def refuse(count: int, _: object) -> None:
        raise CannotRunError(f"{count} missing", where=where, advice="advice of the machine")

    monkeypatch.setattr(visible, "require", refuse)
    asked = request(tmp_path, image=False)
    folder = None if is_sealed else asked.manifest.folder
    manifest = replace(asked.manifest, resources=Resources(gpus_per_rank=1), folder=folder)
    with pytest.raises(CannotRunError) as caught:
        resolve(replace(asked, manifest=manifest))
    assert (caught.value.what, caught.value.where) == ("1 missing", where)
    assert advice in str(caught.value.advice)
