"""Data that small trainings share."""

from pathlib import Path

import pytest

from capsule.levels.data import generators
from tests.support.trainings import SMALL


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures for the smallest LeNet."""
    folder = tmp_path_factory.mktemp("glyphs")
    generators.write(generators.generate("glyphs", SMALL), folder)
    return folder
