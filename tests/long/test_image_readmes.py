"""The images are built of wheels alone by the lines of their READMEs; `test_models` has models'."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import image_readmes
from tests.support.engines import docker, registry_host
from tests.support.long_run import COUNT, COVERS

pytestmark = [pytest.mark.long, pytest.mark.engines]


@pytest.mark.parametrize(("image", "module"), [("torch", "torch"), ("tensorflow", "tensorflow")])
def test_an_image_is_built_without_a_network(
    record_property: Callable[[str, object], None], tmp_path: Path, image: str, module: str
) -> None:
    name = f"capsule-test/{image}-by-readme"
    image_readmes.build(image, tmp_path / image, base=f"{registry_host()}/base", name=name)
    words = ("run", "--rm", "--network", "none", name, "python", "-c")
    printed = docker(*words, f"import {module}; print('imported')")
    assert printed.splitlines()[-1] == "imported"
    docker("rmi", name)
    record_property(COVERS, "images built by the lines of their READMEs")
    record_property(COUNT, 1)
