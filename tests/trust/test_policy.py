"""A stranger's code and the engine: judged by what was decided, wherever that was."""

import json
from pathlib import Path

import pytest

from capsule import digest
from capsule import manifest as manifests
from tests.support.capsules import seal
from tests.support.command import User, write_manifest, write_script
from tests.support.records import SEEDS, make_plan, make_record, manifest_document


@pytest.fixture
def with_image(tmp_path: Path) -> Path:
    """A stranger's capsule that ran in a container, and needs no data."""
    document = manifest_document()
    del document["datasets"], document["benchmarks"][0]["datasets"]
    manifest = manifests.read(json.dumps(document).encode(), where="manifest.json", folder=None)
    plan = make_plan(manifest, SEEDS)
    record = make_record(
        manifest=manifest, plan=plan, plan_digest=str(digest.of_json(plan)), datasets=()
    )
    return seal(tmp_path, record)


def site(user: User, **settings: str) -> dict[str, str]:
    """Write the user's site file; returns the variable that names it."""
    path = user.home / "site.json"
    path.write_text(json.dumps(settings))
    return {"CAPSULE_SITE": str(path)}


def test_a_site_that_prefers_the_host_runs_no_strangers_capsule_on_it(
    with_image: Path, stranger: User
) -> None:
    host = site(stranger, runtime="host")
    ended = stranger.run("verify", with_image, "--trust", "--runs", "1", **host)
    assert ended.returncode == 4, ended.stderr
    assert "--allow-host" in ended.stderr
    assert list(stranger.folder.iterdir()) == []
    words = ("verify", with_image, "--trust", "--runs", "1", "--allow-host", "--full")
    allowed = stranger.run(*words, **host)
    assert allowed.returncode == 3, allowed.stderr
    assert "ran on the host, not in a container" in allowed.stdout


def test_a_site_that_prefers_the_host_does_not_drop_an_image_that_is_named(
    with_image: Path, stranger: User
) -> None:
    host = site(stranger, runtime="host")
    image = "docker://127.0.0.1:1/other@sha256:" + "0" * 64
    ended = stranger.run("verify", with_image, "--trust", "--image", image, **host)
    assert ended.returncode == 2, ended.stderr
    assert "would be ignored" in ended.stderr
    assert list(stranger.folder.iterdir()) == []


def test_nothing_is_fetched_for_a_stranger_whom_nobody_trusts(
    with_image: Path, stranger: User
) -> None:
    ended = stranger.run("verify", with_image)
    assert ended.returncode == 4
    assert "python3 train.py" in ended.stderr
    assert "--trust" in ended.stderr
    assert not (stranger.home / ".cache").exists()


def test_a_site_that_prefers_an_engine_still_measures_the_host_where_there_is_no_image(
    author: User,
) -> None:
    write_script(author.folder)
    manifest = write_manifest(author.folder, seeds=[1])
    ended = author.run("run", manifest, **site(author, runtime="apptainer"))
    assert ended.returncode == 0, ended.stderr
    assert "ran on the host, not in a container" in ended.stdout


def test_a_site_whose_engine_is_missing_is_what_is_to_be_changed(
    with_image: Path, author: User, tmp_path: Path
) -> None:
    settings = site(author, runtime="apptainer")
    ended = author.run("verify", with_image, "--trust", PATH=str(tmp_path), **settings)
    assert ended.returncode == 6, ended.stderr
    assert "site.json#/runtime" in ended.stderr


def test_the_screen_says_whose_it_is_how_long_it_takes_and_what_it_writes(
    with_image: Path, stranger: User, tmp_path: Path
) -> None:
    nothing = {"PATH": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    for words, starts in ((), 5), (("--runs", "2", "-o", "b.zip"), 2):
        ended = stranger.run("verify", with_image, *words, **nothing)
        assert ended.returncode == 4
        screen = " ".join(ended.stderr.split())
        assert 'from Ada Author, Ben Author, "A tiny training run"' in screen
        assert "paper https://doi.org/10.5555/12345678" in screen
        assert f"starts {starts} process starts, about " in screen
        whose = "the original" if starts == 5 else "the original's 5 trials"
        assert f"({whose} took 7.5 s)" in screen
        assert "GPUs none" in screen
        output = words[-1] if words else "tiny-training-….verification.zip"
        assert f"writes ./tiny-training-….run, ./{output}, ~/.cache/capsule" in screen


def test_the_screen_names_data_and_devices(stranger: User, tmp_path: Path) -> None:
    document = manifest_document()
    document["resources"] = {"gpus_per_rank": 2}
    manifest = manifests.read(json.dumps(document).encode(), where="manifest.json", folder=None)
    plan = make_plan(manifest, SEEDS)
    record = make_record(manifest=manifest, plan=plan, plan_digest=str(digest.of_json(plan)))
    ended = stranger.run("verify", seal(tmp_path, record))
    assert ended.returncode == 4, ended.stderr
    screen = " ".join(ended.stderr.split())
    assert "GPUs 2 " in screen
    assert "data ramp, 64 bytes in 1 file, no source stated" in screen
