"""An image as people have it: one image in every form, run in each and verified in every other."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from capsule.image import reference, registry
from tests.support.archives import Made, lay_out, make_tar
from tests.support.command import User, write_manifest
from tests.support.engines import docker, registry_host

pytestmark = pytest.mark.engines

# as small as an image can be in which a benchmark runs
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    FILE *results = fopen(getenv("CAPSULE_RESULTS"), "a");
    int seed = atoi(getenv("CAPSULE_SEED"));
    fprintf(results, "{\"metric\": \"loss\", \"value\": 1.0%03d}\n", seed % 1000);
    return fclose(results);
}
"""
BENCHMARK = {
    "id": "tiny",
    "command": ["/measure"],
    "metrics": {"loss": {"direction": "lower"}},
}
CLAIM = {"metric": "tiny/default/command/loss", "type": "bound", "at_most": 2}


@dataclass(frozen=True, kw_only=True)
class Forms:
    """One image, by the references of its forms."""

    program: bytes
    registry: str
    sif: Path
    layout: Path
    archive: Path
    saved: Path

    def name(self, form: str) -> str:
        return str(getattr(self, form))


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forms]:
    folder = tmp_path_factory.mktemp("forms")
    (folder / "measure.c").write_text(PROGRAM)
    command = ["gcc", "-static", "-o", str(folder / "measure"), str(folder / "measure.c")]
    subprocess.run(command, check=True)
    program = (folder / "measure").read_bytes()
    name = f"{registry_host()}/capsule-test/forms:1"
    docker("import", "-", name, input_bytes=_layer(program))
    docker("push", name)
    docker("save", "--output", str(folder / "saved.tar"), name)
    docker("rmi", name)
    layout = lay_out(_layout(name), folder / "layout")
    files = {
        str(path.relative_to(layout)): path.read_bytes()
        for path in layout.rglob("*")
        if path.is_file()
    }
    (folder / "archive.tar").write_bytes(make_tar(files))
    pulled = registry.resolve(reference.parse(f"docker://{name}"))
    subprocess.run(
        ["apptainer", "pull", folder / "made.sif", f"docker://{name}"],
        env={**os.environ, "APPTAINER_NOHTTPS": "1", "APPTAINER_DISABLE_CACHE": "1"},
        check=True,
        capture_output=True,
    )
    yield Forms(
        program=program,
        registry=f"docker://{pulled.pinned}",
        sif=folder / "made.sif",
        layout=layout,
        archive=folder / "archive.tar",
        saved=folder / "saved.tar",
    )
    docker("rmi", "--force", str(pulled.config_digest))
    shutil.rmtree(folder)


def _layer(program: bytes) -> bytes:
    entry = tarfile.TarInfo("measure")
    entry.mode, entry.size = 0o755, len(program)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(program))
    return data.getvalue()


def _layout(name: str) -> dict[str, bytes]:
    """The registry's own blobs, as `skopeo copy` would lay them out."""
    image = registry.resolve(reference.parse(f"docker://{name}"))
    assert image.manifest is not None
    assert image.config is not None
    blobs = {str(image.manifest_digest): image.manifest, str(image.config_digest): image.config}
    repository = name.partition("/")[2].rpartition(":")[0]
    for layer in image.layers:
        url = f"http://{registry_host()}/v2/{repository}/blobs/{layer.digest}"
        with urllib.request.urlopen(url) as answer:
            blobs[str(layer.digest)] = answer.read()
    entry = f'{{"digest": "{image.manifest_digest}", "size": {len(image.manifest)}}}'
    return {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": f'{{"schemaVersion": 2, "manifests": [{entry}]}}'.encode(),
        **{f"blobs/{name.replace(':', '/')}": body for name, body in blobs.items()},
    }


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(tmp_path / "cache"))


def seal(user: User, image: str, engine: str) -> Path:
    """A capsule that was run in an image, named in the manifest as a user would."""
    manifest = write_manifest(
        user.folder,
        image={"reference": image},
        benchmarks=[BENCHMARK],
        claims=[CLAIM],
        seeds=[1],
    )
    target = user.folder / "own.capsule.zip"
    ended = user.run("run", manifest, "--runtime", engine, "--output", target)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return target


KINDS = {"sif": "tree", "layout": "manifest", "archive": "manifest", "saved": "config"}


@pytest.mark.parametrize(
    ("form", "engine", "others"),
    [
        ("sif", "apptainer", {"saved": "docker", "layout": "apptainer"}),
        ("layout", "docker", {"sif": "apptainer", "saved": "docker", "registry": "apptainer"}),
        ("archive", "apptainer", {"layout": "docker", "saved": "podman"}),
        ("layout", "podman", {"sif": "apptainer", "registry": "podman"}),
        ("saved", "docker", {"archive": "apptainer", "sif": "apptainer"}),
        ("registry", "apptainer", {"saved": "docker", "sif": "apptainer", "layout": "docker"}),
    ],
)
def test_a_capsule_of_one_form_is_verified_in_another(
    forms: Forms, author: User, stranger: User, form: str, engine: str, others: dict[str, str]
) -> None:
    published = seal(author, forms.name(form), engine)
    shown = author.json("show", published)["image"]
    assert shown["identity"]["kind"] == KINDS.get(form, "manifest")
    assert author.run("check", published).returncode == 0
    for number, (other, where) in enumerate(others.items()):
        target = stranger.folder / f"{number}.verification.zip"
        words = ("--runtime", where, "--image", forms.name(other), "--output", target)
        ended = stranger.run("verify", published, *words, "--trust")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        # the image is the original's, so nothing else was judged
        assert "another image" not in ended.stdout
        compared = stranger.json("diff", published, target)
        assert compared["image"] == relate(form, other), other
        assert compared["changes"] == []


def relate(form: str, other: str) -> str:
    if "sif" in (form, other):
        return "same-tree"
    return "same-config" if "saved" in (form, other) else "same-manifest"


def test_another_image_in_a_file_is_told(forms: Forms, author: User, stranger: User) -> None:
    published = seal(author, forms.name("sif"), "apptainer")
    more = Made(layers=[_layer(forms.program), make_tar({"more": b"than the original has"})])
    other = stranger.folder / "other.tar"
    other.write_bytes(make_tar(more.saved()))
    words = ("--runtime", "apptainer", "--image", other)
    ended = stranger.run("verify", published, *words, "--trust")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = "".join(ended.stdout.split())
    assert "anotherimage(docker-archive:other.tar)" in said


@pytest.mark.parametrize("form", ["sif", "saved"])
def test_who_has_no_file_is_told_to_name_one(
    forms: Forms, author: User, stranger: User, form: str, tmp_path: Path
) -> None:
    published = seal(author, forms.name(form), "apptainer")
    shutil.rmtree(tmp_path / "cache")
    ended = stranger.run("verify", published, "--runtime", "apptainer", "--trust")
    assert ended.returncode == 6, ended.stdout + ended.stderr
    assert "name a file with this image: --image FILE" in " ".join(ended.stderr.split())


def test_a_run_that_was_cut_off_goes_on_in_its_file(forms: Forms, author: User) -> None:
    manifest = write_manifest(
        author.folder,
        image={"reference": str(forms.sif)},
        benchmarks=[BENCHMARK],
        claims=[CLAIM],
        seeds=list(range(20)),
    )
    # the first trial starts, and no time is left for the second
    ended = author.run("run", manifest, "--runtime", "apptainer", "--walltime", "0:00:01")
    assert ended.returncode == 5, ended.stdout + ended.stderr
    (folder,) = author.folder.glob("*.run")
    ended = author.run("run", "--resume", folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_sif_that_others_may_exchange_runs_from_a_copy(
    forms: Forms, author: User, tmp_path: Path
) -> None:
    shared = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        shared.chmod(0o777)
        shutil.copyfile(forms.sif, shared / "made.sif")
        seal(author, str(shared / "made.sif"), "apptainer")
    finally:
        shutil.rmtree(shared)
    (kept,) = (tmp_path / "cache" / str(os.getuid()) / "sif").glob("*.sif")
    assert not kept.is_symlink()


def test_docker_says_who_starts_a_sif(forms: Forms, author: User) -> None:
    manifest = write_manifest(
        author.folder, image={"reference": str(forms.sif)}, benchmarks=[BENCHMARK], claims=[CLAIM]
    )
    ended = author.run("run", manifest, "--runtime", "docker")
    assert ended.returncode == 6
    assert "--runtime apptainer" in ended.stderr


def follow_advice(author: User, recipe: str, *words: str) -> tuple[list[str], list[str]]:
    """The commands that stand in the error about a recipe, and the references that they make."""
    manifest = write_manifest(author.folder, image={"build": recipe})
    for line in (("run", str(manifest)), words or ("lint", str(manifest))):
        ended = author.run(*line)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "no longer" in ended.stderr
    advice = " ".join(ended.stderr.split()).partition("no longer")[2]
    names = re.findall(r"and refer to the image as (.*?)(?:; to publish|$)", advice)
    return re.findall(r"`([^`]*)`", advice), names


def test_a_definition_is_built_by_the_printed_command_and_its_sif_verifies(
    forms: Forms, author: User, stranger: User
) -> None:
    definition = f"Bootstrap: localimage\nFrom: {forms.sif}\n\n%labels\n    made here\n"
    (author.folder / "own.def").write_text(definition)
    (command,), (name,) = follow_advice(author, "own.def")
    subprocess.run(shlex.split(command), cwd=author.folder, check=True, capture_output=True)
    manifest = write_manifest(
        author.folder,
        image={"reference": name},
        benchmarks=[BENCHMARK],
        claims=[CLAIM],
        seeds=[1, 2],
    )
    target = author.folder / "own.capsule.zip"
    ended = author.run("run", manifest, "--runtime", "apptainer", "--output", target)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = author.json("show", target)["image"]
    assert (shown["reference"], shown["identity"]["kind"]) == ("sif:own.sif", "tree")
    words = ("--runtime", "apptainer", "--image", author.folder / name, "--trust")
    ended = stranger.run("verify", target, *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "another image" not in ended.stdout


def test_a_folder_is_built_and_pushed_by_the_printed_commands(forms: Forms, author: User) -> None:
    base = forms.registry.removeprefix("docker://")
    recipe = author.folder / "Own image"
    recipe.mkdir()
    (recipe / "Dockerfile").write_text(f"FROM {base}\nLABEL capsule.test=own\n")
    words = ("image", "build", "--wheelhouse", ".", "Own image", "--push", "docker://a/b:1")
    (build, push), (local, pushed) = follow_advice(author, "Own image", *words)
    for command in (build, push.replace("HOST", registry_host())):
        subprocess.run(
            command, shell=True, cwd=author.folder, check=True, capture_output=True, timeout=600
        )
    described = author.json("image", "resolve", local)
    assert described["reference"] == "docker-daemon:own-image"
    served = author.json("image", "resolve", pushed.replace("HOST", registry_host()))
    assert served["pinned"].startswith(f"{registry_host()}/own-image@sha256:")
    assert served["config_digest"] == described["config_digest"]
    docker("rmi", "own-image", f"{registry_host()}/own-image:1")
