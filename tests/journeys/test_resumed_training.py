"""Trainings through the whole product, killed while they run: the curves are those of no kill."""

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capsule import api, archive
from capsule.errors import DamagedError
from capsule.record import Record, sample_order
from tests.journeys.test_resume import attempts_in, descendants, kill_tree
from tests.support.capsules import carry, forge
from tests.support.command import User
from tests.support.engines import engine_cache, torch_image
from tests.support.patience import until

EPOCHS = 120
SMALL: dict[str, Any] = {
    "name": "small",
    "title": "A small training",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "seeds": [1],
    "determinism": "strict",
    "datasets": {
        "glyphs": {
            "generator": "glyphs",
            "samples": 90,
            "test_samples": 30,
            "side": 12,
            "classes": 3,
        }
    },
    "benchmarks": [
        {
            "id": "digits",
            "level": 2,
            "network": "lenet",
            "datasets": ["glyphs"],
            "frameworks": ["numpy"],
            "batch": 20,
            "epochs": EPOCHS,
            "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
            "target": {"metric": "accuracy", "at_least": 0.4},
            "cases": [{"name": "default", "side": 12, "classes": 3}],
            "checkpoint_epochs": 1,
        }
    ],
}
SUBJECT = "digits/default/numpy"
CURVES = ("train_loss", "loss", "accuracy", "mean_absolute_error", "mean_iou")
EVERYTHING = (
    *("glyphs", {"side": 12, "classes": 3, "channels": 3}),
    *("resnet9", {"side": 12, "width": 2, "classes": 3, "dropout": 30}),
)
"""Dropout and normalization by batch, to train with micro-batches and workers."""
DEEP = (
    *("storms", {"height": 16, "width": 16}),
    *("deepcam", {"height": 16, "width": 16, "divisor": 32, "middle": 0}),
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, ...]]:
    user = User.make(tmp_path_factory.mktemp("undisturbed"))
    ended = user.run("run", write(user), "--runtime", "host", "--output", "whole.zip")
    assert ended.returncode == 0, ended.stderr
    return read_curves(user.folder / "whole.zip")


def write(user: User, manifest: Mapping[str, Any] = SMALL) -> Path:
    path = user.folder / "small.json"
    path.write_text(json.dumps(manifest))
    return path


def read_curves(capsule: Path) -> dict[str, tuple[float, ...]]:
    """Of the attempt that completed."""
    with api.open(capsule) as sealed:
        last = max(one.attempt for one in sealed.record.attempts)
        return {
            name: tuple(line.values)
            for line in sealed.record.samples
            if line.attempt == last and (name := line.metric.rpartition("/")[2]) in CURVES
        }


def start(
    author: User, written: Callable[[Path], bool], what: str, *words: str
) -> tuple[Any, Path]:
    """Start the run, and wait until something is there in its first out folder."""
    path = author.folder / "small.json"
    manifest = path if path.exists() else write(author)
    how = words or ("--runtime", "host")
    running = author.start("run", manifest, *how, "--output", "cut.zip")

    def there() -> bool:
        assert running.poll() is None, author.talk.read_text()
        return any(map(written, author.folder.glob("*.run/starts/0001/out")))

    until(there, what)
    (folder,) = author.folder.glob("*.run")
    return running, folder


def has_checkpoint(out: Path) -> bool:
    return (out / "checkpoints/digits/default.npz").exists()


def is_written_after(path: Path, nanoseconds: int) -> bool:
    return path.stat().st_mtime_ns > nanoseconds


def test_a_run_goes_on_by_itself_when_its_workload_was_killed(
    author: User, undisturbed: dict[str, tuple[float, ...]]
) -> None:
    running, _ = start(author, has_checkpoint, "a checkpoint")
    os.kill(descendants(running.pid)[-1], signal.SIGKILL)
    assert running.wait() == 0, author.talk.read_text()
    assert_resumed(author, undisturbed, "killed")


def test_kills_without_end_are_survived_where_each_attempt_got_further(
    author: User, undisturbed: dict[str, tuple[float, ...]]
) -> None:
    running, folder = start(author, has_checkpoint, "a checkpoint")
    kills = 4  # more than are survived on the spot
    for number in range(1, kills + 1):
        out = folder / f"starts/{number:04}/out"
        until(partial(has_checkpoint, out), "a checkpoint")
        path = out / "checkpoints/digits/default.npz"
        until(partial(is_written_after, path, path.stat().st_mtime_ns), "a later one")
        os.kill(descendants(running.pid)[-1], signal.SIGKILL)
    assert running.wait() == 0, author.talk.read_text()
    capsule = author.folder / "cut.zip"
    attempts = attempts_in(capsule)
    assert [one["outcome"] for one in attempts] == kills * ["interrupted"] + ["completed"]
    assert read_curves(capsule) == undisturbed


def test_a_run_that_was_killed_as_a_whole_goes_on_from_the_checkpoint(
    author: User, undisturbed: dict[str, tuple[float, ...]]
) -> None:
    # as soon as it is seen that one is written, where it is not written any more
    def writes_another(out: Path) -> bool:
        return has_checkpoint(out) and any(out.rglob("*.partial"))

    running, folder = start(author, writes_another, "a write")
    kill_tree(running)
    ended = author.run("run", "--resume", folder, "--output", "cut.zip")
    assert ended.returncode == 0, ended.stderr
    assert_resumed(author, undisturbed, "lost")


def assert_resumed(author: User, undisturbed: dict[str, tuple[float, ...]], reason: str) -> None:
    capsule = author.folder / "cut.zip"
    first, last = attempts_in(capsule)
    assert (first["outcome"], first["reason"]) == ("interrupted", reason)
    assert "resumed_after" not in first
    assert last["outcome"] == "completed"
    after = last.get("resumed_after", 0)
    assert after > 0
    assert read_curves(capsule) == undisturbed
    assert not list(author.folder.glob("*.run"))
    shown = author.json("show", capsule)["metrics"]
    assert shown[f"{SUBJECT}/accuracy"]["missing"] == 0
    assert shown[f"{SUBJECT}/time_to_target"]["missing"] == 1
    with api.open(capsule) as sealed:
        assert not [name for name in sealed.digests if name.endswith(".npz")]
        times = [one for one in sealed.record.samples if one.metric == f"{SUBJECT}/epoch_time"]
    assert len(times[-1].values) == EPOCHS - after


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    author = User.make(tmp_path_factory.mktemp("resumed"))
    running, _ = start(author, has_checkpoint, "a checkpoint")
    os.kill(descendants(running.pid)[-1], signal.SIGKILL)
    assert running.wait() == 0, author.talk.read_text()
    return author.folder / "cut.zip"


def with_attempt(number: int, **fields: Any) -> Callable[[Record], Record]:
    def forged(record: Record) -> Record:
        attempts = list(record.attempts)
        attempts[number] = replace(attempts[number], **fields)
        return replace(record, attempts=tuple(attempts))

    return forged


def with_another_first_loss(record: Record) -> Record:
    samples = list(record.samples)
    place = next(
        n for n, one in enumerate(samples) if one.attempt == 2 and one.metric.endswith("train_loss")
    )
    first, *values = samples[place].values
    samples[place] = replace(samples[place], values=(first / 2, *values))
    return replace(record, samples=tuple(samples))


def with_a_time(record: Record) -> Record:
    """Of the whole, in a resumed attempt."""
    line = next(one for one in record.samples if one.metric.endswith("epochs_to_target"))
    facts: dict[str, Any] = {"unit": "s", "kind": "machine", "resolution": 1e-9}
    timed = replace(line, metric=f"{SUBJECT}/time_to_target", **facts)
    return replace(record, samples=tuple(sorted([*record.samples, timed], key=sample_order)))


FORGED: list[tuple[Callable[[Record], Record], str]] = [
    (with_attempt(1, resumed_after=None), "completed without samples of"),
    (with_attempt(0, resumed_after=1), "from a checkpoint, but is the first attempt"),
    (
        with_attempt(1, resumed_after=EPOCHS - 1),
        "of this attempt",
    ),
    (
        with_attempt(1, resumed_after=EPOCHS),
        "after 120 epochs, but its benchmark writes no checkpoint at this epoch",
    ),
    (with_another_first_loss, "as in the earlier attempt"),
    (with_a_time, "the attempt was resumed, but the metric needs the whole trial"),
]


@pytest.mark.parametrize(("change", "message"), FORGED)
def test_a_resumed_attempt_that_cannot_have_been_so_is_damage(
    resumed: Path, tmp_path: Path, change: Callable[[Record], Record], message: str
) -> None:
    path = tmp_path / "forged.zip"
    with archive.read(resumed) as capsule:
        forge(change(capsule.record), carry(capsule), path)
    with pytest.raises(DamagedError) as refusal:
        archive.read(path).close()
    assert message in " ".join(str(refusal.value).split())


def test_a_checkpoint_that_is_no_file_is_left_where_it_lies(
    author: User, undisturbed: dict[str, tuple[float, ...]]
) -> None:
    running, folder = start(author, has_checkpoint, "a checkpoint")
    kill_tree(running)
    checkpoint = folder / "starts/0001/out/checkpoints/digits/default.npz"
    checkpoint.unlink()
    checkpoint.symlink_to("/etc/passwd")
    ended = author.run("run", "--resume", folder, "--output", "cut.zip")
    assert ended.returncode == 0, ended.stderr
    assert "resumed_after" not in attempts_in(author.folder / "cut.zip")[-1]
    assert read_curves(author.folder / "cut.zip") == undisturbed


@pytest.mark.engines
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(EVERYTHING, id="everything"),
        pytest.param(DEEP, id="deep", marks=pytest.mark.long),
    ],
)
def test_engines_agree_in_every_bit_though_a_kill_came_between(
    author: User, kind: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    generator, numbers, network, sizes = kind
    benchmark = {
        **SMALL["benchmarks"][0],
        "network": network,
        "frameworks": ["torch"],
        "datasets": [generator],
        "batch": 4,
        "epochs": 40,
        **{"accumulate": 2, "workers": 2},
        "cases": [{"name": "default", **sizes}],
    }
    del benchmark["target"]
    made = {"generator": generator, "samples": 12, "test_samples": 4, **numbers}
    manifest = {**SMALL, "datasets": {generator: made}, "benchmarks": [benchmark]}
    manifest["resources"] = {"cpus_per_rank": 2}
    image = ("--image", torch_image())
    path = write(author, manifest)
    ended = author.run("run", path, "--runtime", "docker", *image, "--output", "whole.zip")
    assert ended.returncode == 0, ended.stderr
    how = ("--runtime", "apptainer", *image)
    running, folder = start(author, has_checkpoint, "a checkpoint", *how)
    kill_tree(running)
    ended = author.run("run", "--resume", folder, "--output", "cut.zip")
    assert ended.returncode == 0, ended.stderr
    cut = author.folder / "cut.zip"
    assert attempts_in(cut)[-1]["resumed_after"] > 0
    curves = read_curves(author.folder / "whole.zip")
    assert len(curves) == 3
    assert read_curves(cut) == curves
