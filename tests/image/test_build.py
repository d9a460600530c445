"""Images built from recipe folders by a real Docker, and pushed to a real registry."""

import json
import re
from pathlib import Path

import pytest

from capsule import image
from capsule.digest import Digest, of_bytes
from capsule.errors import CannotRunError, ExecutionError
from capsule.image import build, engines, reference, registry
from capsule.manifest import ImageSpec
from tests.support.command import User
from tests.support.engines import docker, registry_host, small_image

README = Path(__file__).parents[2] / "README.md"
SOME = of_bytes(b"some")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    folder = tmp_path / "Recipe one"
    (folder / "wheelhouse").mkdir(parents=True)
    (folder / "wheelhouse/.gitignore").write_text("*\n")
    (folder / "Dockerfile").write_text(
        "ARG BASE=scratch\nFROM ${BASE}\nARG WORD=none\nCOPY wheelhouse/ /wheels/\n"
        "LABEL word=${WORD}\n"
    )
    return folder


@pytest.mark.engines
def test_a_real_registry_serves_what_the_reference_pins() -> None:
    pinned = image.resolve(ImageSpec(reference=small_image()), folder=None)
    assert small_image() == f"docker://{pinned.pinned}"
    assert pinned.platform == "linux/amd64"
    assert pinned.layers


@pytest.mark.engines
def test_a_recipe_is_built_and_described_by_the_bytes_that_docker_has(
    recipe: Path, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "some-1.whl").write_bytes(b"wheel")
    (wheels / "notes.txt").write_bytes(b"no wheel")
    built = build.build(recipe, wheelhouse=wheels, arguments={"WORD": "a b"})
    assert (built.pinned, built.manifest_digest, built.manifest) == (None, None, None)
    assert built.config is not None
    assert built.config_digest == of_bytes(built.config)
    described = json.loads(built.config)
    assert described["config"]["Labels"]["word"] == "a b"
    assert docker("inspect", "--format", "{{.Id}}", "capsule/recipe-one") == str(
        built.config_digest
    )
    assert [str(layer.diff_id) for layer in built.layers] == described["rootfs"]["diff_ids"]
    assert sorted(path.name for path in (recipe / "wheelhouse").iterdir()) == [".gitignore"]


@pytest.mark.engines
def test_a_pushed_recipe_is_pinned_by_what_the_registry_serves(recipe: Path) -> None:
    built = build.build(recipe, push=f"docker://{registry_host()}/capsule-test/recipe:1")
    assert built.pinned == f"{registry_host()}/capsule-test/recipe@{built.manifest_digest}"
    assert registry.resolve(reference.parse(f"docker://{built.pinned}")).config == built.config


@pytest.mark.engines
def test_the_documented_line_builds_and_pushes(author: User) -> None:
    (line,) = re.findall(r"`capsule (image build \S+ --push \S+)`", README.read_text())
    folder = author.folder / "recipe"
    folder.mkdir()
    base = small_image().removeprefix("docker://")
    (folder / "Dockerfile").write_text(f"FROM {base}\nLABEL capsule.test=documented\n")
    tag = f"docker://{registry_host()}/capsule-test/documented:1"
    words = line.replace("images/torch", str(folder)).replace(
        "docker://localhost:5000/torch:1", tag
    )
    facts = author.json(*words.split())
    assert facts["pinned"] == (
        f"{registry_host()}/capsule-test/documented@{facts['manifest_digest']}"
    )
    # what was pushed is what the next line of the documentation names
    assert (
        author.json("image", "resolve", f"docker://{facts['pinned']}")["pinned"] == facts["pinned"]
    )


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("localhost:5000/torch:1", "did you mean docker://localhost:5000/torch:1"),
        (f"docker://localhost:5000/torch@{SOME}", "name a tag: docker://localhost:5000/torch"),
        ("docker://torch:1", "name the registry"),
        ("docker://docker.io/torch:1", "only Docker itself may push"),
        ("docker://localhost:5000/Torch:1", "not an image name"),
        ("", "not an image reference"),
    ],
)
def test_what_cannot_be_pushed_is_refused_before_anything_is_built(
    author: User, target: str, words: str
) -> None:
    # neither a Dockerfile nor an engine is needed to learn it
    ended = author.run("image", "build", author.folder, "--push", target, PATH="")
    assert ended.returncode == 2
    assert "--push" in ended.stderr
    assert words in ended.stderr


@pytest.mark.engines
def test_a_build_that_fails_says_its_last_words(recipe: Path) -> None:
    (recipe / "Dockerfile").write_text("FROM scratch\nCOPY no-such-file /\n")
    with pytest.raises(ExecutionError, match="no-such-file"):
        build.build(recipe)


@pytest.mark.engines
def test_an_image_that_no_engine_has_is_named() -> None:
    with pytest.raises(CannotRunError, match=str(SOME)[:20]), engines.save(Digest(hex=SOME.hex)):
        pass
