"""One run has one capsule with one id, wherever and however often it is taken up."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from capsule import api, places
from capsule.options import ResumeOptions, RunOptions
from tests.support.command import User, write_manifest, write_script


class Cut(api.Watch):
    """Interrupts a run once every trial has its outcome."""

    def end(self) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def folder(author: User, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that is measured, and not sealed."""
    monkeypatch.chdir(author.folder)
    monkeypatch.setenv("HOME", str(author.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    write_script(author.folder)
    manifest = write_manifest(author.folder)
    with pytest.raises(KeyboardInterrupt):
        api.run(manifest, RunOptions(runtime="host"), Cut())
    (folder,) = author.folder.glob("*.run")
    return folder


def test_what_is_measured_is_sealed_with_one_id(folder: Path) -> None:
    copy = shutil.copytree(folder, folder.with_name("copy.run"))
    one = api.resume(folder, ResumeOptions(output=Path("a.zip")))
    anywhere = ResumeOptions(output=Path("b.zip"), trust=True, allow_host=True)
    other = api.resume(copy, anywhere)
    assert one.id == other.id


def test_a_run_that_was_sealed_elsewhere_is_not_sealed_again(folder: Path) -> None:
    copy = shutil.copytree(folder, folder.with_name("copy.run"))
    sealed = api.resume(folder, ResumeOptions(output=Path("a.zip")))
    # as if it had been killed between its capsule and the removal of its folder
    (copy / "sealing.json").write_text(json.dumps({"target": str(sealed.path.absolute())}))
    again = api.resume(copy, ResumeOptions(output=Path("b.zip")))
    assert (again.id, again.path) == (sealed.id, sealed.path)
    assert not copy.exists()
    assert not Path("b.zip").exists()


def test_a_sealed_run_needs_nothing_of_what_it_ran_with(author: User, folder: Path) -> None:
    copy = shutil.copytree(folder, folder.with_name("copy.run"))
    sealed = api.resume(folder, ResumeOptions(output=Path("a.zip")))
    header = json.loads((copy / "run.json").read_text())
    header["setup"]["runtime"] = "docker"
    (copy / "run.json").write_text(json.dumps(header))
    assert api.resume(copy, ResumeOptions(output=Path("a.zip"))).id == sealed.id


def test_what_a_killed_sealing_left_is_gone_after_the_next_one(folder: Path) -> None:
    header = json.loads((folder / "run.json").read_text())
    draft = f".a.zip.{header['setup']['uuid'][:8]}.capsule.partial"
    Path(draft).write_text("half of it")
    (folder / "sealing.json").write_text(json.dumps({"target": str(Path("a.zip").absolute())}))
    api.resume(folder, ResumeOptions(output=Path("b.zip")))
    assert not Path(draft).exists()


def test_what_killed_processes_left_of_run_folders_is_gone_after_the_next_start(
    author: User, folder: Path
) -> None:
    (author.folder / ".a.run.0a1b2c3d.capsule-done" / "starts").mkdir(parents=True)
    (author.folder / ".b.run.0a1b2c3d.capsule-partial" / "inputs").mkdir(parents=True)
    api.resume(folder)
    assert not [path.name for path in author.folder.iterdir() if path.name.startswith(".")]


def test_what_another_process_is_making_stays(author: User, folder: Path) -> None:
    partial = author.folder / ".b.run.0a1b2c3d.capsule-partial"
    partial.mkdir()
    lock = places.hold(partial)
    assert lock is not None
    with lock:
        api.resume(folder)
        assert partial.is_dir()


def test_a_link_in_place_of_a_log_is_not_sealed(author: User, folder: Path) -> None:
    secret = author.home / "secret"
    secret.write_text("key of its owner")
    log = folder / "starts" / "0001" / "stdout.txt"
    log.unlink(missing_ok=True)
    log.symlink_to(secret)
    sealed = api.resume(folder, ResumeOptions(output=Path("a.zip")))
    with zipfile.ZipFile(sealed.path) as capsule:
        assert not [name for name in capsule.namelist() if name.endswith("0001-stdout.txt")]
