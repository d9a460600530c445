"""An image is made from a requirements file as the page says, pulled by digest, and run."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.command import User, write_manifest, write_script
from tests.support.engines import docker, registry_host, small_image
from tests.support.patience import PATIENCE_SECONDS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "containers-and-images.md"


@pytest.mark.engines
def test_an_image_of_a_requirements_file_is_pushed_resolved_and_run(author: User) -> None:
    text = PAGE.read_text()
    dockerfile = re.search(r"^```dockerfile\n(.*?)^```", text, re.M | re.S)
    assert dockerfile is not None
    (author.folder / "Dockerfile").write_text(dockerfile[1])
    # the base has it already: nothing is fetched
    (author.folder / "requirements.txt").write_text("numpy\n")
    name = f"{registry_host()}/page/fit:1"
    lines = re.findall(r"^ {4}(docker .* registry\.example/fit:1.*)$", text, re.M)
    assert len(lines) == 2
    base = small_image().removeprefix("docker://")
    for line in lines:
        command = line.replace("registry.example/fit:1", name)
        command = command.replace("build", f"build --network none --build-arg BASE={base}", 1)
        subprocess.run(command, shell=True, cwd=author.folder, check=True, timeout=PATIENCE_SECONDS)
    pinned = author.json("image", "resolve", f"docker://{name}")["pinned"]
    write_script(author.folder)
    manifest = write_manifest(
        author.folder, image={"reference": f"docker://{pinned}"}, seeds=[1, 2]
    )
    ended = author.run("run", manifest, "--runtime", "docker", "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(author.run("show", "a.capsule.zip", "--json").stdout)["image"]
    docker("rmi", name)
