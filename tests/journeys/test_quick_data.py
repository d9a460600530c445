"""`verify --quick` asks for no data that only benchmarks read which it leaves out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import archive, digest
from tests.journeys.test_add import HELD, record_of
from tests.journeys.test_quick import SECONDARY, WIDE, flat, metric
from tests.journeys.test_resume import kill_tree, wait_for_workload
from tests.support.capsules import carry, forge
from tests.support.command import NOISY, REPORT, Document, User, write_manifest, write_script


def _benchmark(name: str, *datasets: str) -> Document:
    return {
        "id": name,
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "datasets": list(datasets),
        "metrics": {"loss": {"direction": "lower"}},
    }


@pytest.fixture
def sealed(author: User) -> User:
    """A capsule of which what decides reads `own`; all else lies no longer here."""
    hold = f"HOLD = {str(author.folder / 'hold')!r}"
    write_script(author.folder, REPORT + hold + HELD + NOISY)
    for name in ("own", "other", "small"):
        (author.folder / name).write_text(f"the data {name}")
    manifest = write_manifest(
        author.folder,
        seeds=[1, 2, 3, 4],
        datasets={
            "own": {"path": "own", "embed": False},
            "other": {"path": "other", "embed": False},
            "small": {"path": "small"},
        },
        benchmarks=[_benchmark("beside", "other", "small"), _benchmark("main", "own")],
        claims=[{"metric": metric("main"), **WIDE}, {"metric": metric("beside"), **SECONDARY}],
    )
    ended = author.run("run", manifest, "-o", "a.zip")
    assert ended.returncode == 0, ended.stderr
    (author.folder / "other").unlink()
    settle(author, "own")
    return author


def settle(user: User, *names: str) -> None:
    """A site file that says where data lies."""
    places = {str(digest.of_file(user.folder / name)): str(user.folder / name) for name in names}
    file = user.home / ".config/capsule/site.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"data": places}))


def _used(capsule: Path) -> set[str]:
    return {one.name for one in record_of(capsule).datasets}


def test_data_of_what_is_left_out_is_not_asked_for(sealed: User) -> None:
    whole = sealed.run("verify", "a.zip")
    assert whole.returncode == 6
    assert "dataset 'other' with digest" in whole.stderr
    # what the capsule carries is carried on
    preview = sealed.json("verify", "a.zip", "--quick", "--dry-run")
    assert {one["name"] for one in preview["here"]["data"]} == {"own", "small"}
    ended = sealed.run("verify", "a.zip", "--quick", "-o", "quick.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert _used(sealed.folder / "quick.zip") == {"own", "small"}
    assert sealed.run("check", "quick.zip").returncode == 0
    for words in (("diff", "a.zip", "quick.zip"), ("verify", "quick.zip", "--quick")):
        assert sealed.run(*words).returncode == 0, words
    added = sealed.run("verify", "a.zip", "--quick", "--add", "quick.zip")
    assert added.returncode == 0, added.stdout + added.stderr
    # which data it was nobody can know from there
    whole = sealed.run("verify", "quick.zip")
    assert whole.returncode == 6
    assert "a quick verification, which leaves datasets out" in flat(whole.stderr)
    assert "or verify the original" in flat(whole.stderr)


def test_data_that_what_decides_reads_is_asked_for(sealed: User) -> None:
    settle(sealed)
    ended = sealed.run("verify", "a.zip", "--quick")
    assert ended.returncode == 6
    assert "dataset 'own' with digest" in ended.stderr


def test_a_killed_one_goes_on_without_it(sealed: User) -> None:
    (sealed.folder / "hold").touch()
    running = sealed.start("verify", "a.zip", "--quick")
    folder = wait_for_workload(sealed, running)
    kill_tree(running)
    (sealed.folder / "hold").unlink()
    ended = sealed.run("verify", "a.zip", "--resume", folder, "-o", "quick.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert _used(sealed.folder / "quick.zip") == {"own", "small"}


@pytest.mark.parametrize(
    ("kept", "words", "message"),
    [
        # nobody says what data it was that was judged
        ({"small"}, ("check", "forged.zip"), "read dataset own, which is missing from the record"),
        ({"own"}, ("diff", "a.zip", "forged.zip"), "its datasets differ from the original's: "),
    ],
)
def test_one_that_hides_its_data_is_refused(
    sealed: User, kept: set[str], words: tuple[str, ...], message: str
) -> None:
    assert sealed.run("verify", "a.zip", "--quick", "-o", "quick.zip").returncode == 0
    with archive.read(sealed.folder / "quick.zip") as quick:
        datasets = tuple(one for one in quick.record.datasets if one.name in kept)
        files = [
            file
            for file in carry(quick)
            if not file.path.startswith("datasets/") or file.path.split("/")[1] in kept
        ]
        forge(replace(quick.record, datasets=datasets), files, sealed.folder / "forged.zip")
    refused = sealed.run(*words)
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert message in flat(refused.stderr)
