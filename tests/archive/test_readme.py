"""README.md of a capsule, for somebody who has found the file and nothing else."""

from tests.support.capsules import sample_files
from tests.support.records import make_record

TEXT = sample_files()["data/README.md"].decode()


def test_it_names_project_version_and_source_and_no_package_index() -> None:
    assert f"version {make_record().tool} of the project capsule-hpc" in " ".join(TEXT.split())
    assert "python3 -m pip install ." in TEXT
    assert "pip install capsule" not in TEXT
    assert "pypi" not in TEXT.lower()


def test_it_says_how_to_verify_with_and_without_the_program() -> None:
    assert "capsule verify tiny-training.capsule.zip --trust" in TEXT
    assert "sha256sum -c tagmanifest-sha256.txt" in TEXT
