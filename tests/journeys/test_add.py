"""Runs add up: a verification goes on where an earlier one ended, and says what it counts."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule import archive, digest, notes
from capsule.origin import Added, Verification
from capsule.record import Record
from tests.journeys.test_resume import attempts_in, kill_tree, wait_for_workload
from tests.support.capsules import carry, pack, rehash, unpack
from tests.support.command import REPORT, Document, User, write_manifest, write_script
from tests.support.forging import with_settings
from tests.support.records import make_image

LOSS, TIME = "tiny/default/command/loss", "tiny/default/command/time"
# the resolution is coarser than chance: two runs leave a claim open, three never, by any seeds
STEP = """
import time
print("seed", seed)
report("loss", 1 + random.Random(seed).uniform(-1e-4, 1e-4))
report("time", 1 + time.time_ns() % 1000 / 1e7)
"""
# a run is held while somebody's file lies there
HELD = """
import pathlib, time
while pathlib.Path(HOLD).exists():
    pathlib.Path(os.environ["CAPSULE_OUT"], "under-way").write_text("")
    time.sleep(0.02)
"""
BENCHMARK: Document = {
    "id": "tiny",
    "command": ["python3", "tiny.py"],
    "inputs": ["tiny.py"],
    "metrics": {
        "loss": {"direction": "lower", "resolution": 0.01},
        "time": {"direction": "lower", "kind": "machine", "unit": "s", "resolution": 0.01},
    },
}
CLAIM: Document = {"metric": LOSS, "type": "equivalence", "margin": {"absolute": 0.01}}
CLAIM_OF_TIME: Document = {**CLAIM, "metric": TIME}


def seal_original(author: User, name: str = "a.zip", **changes: object) -> None:
    """Five published runs of something that reports a number and a time."""
    hold = f"HOLD = {str(author.folder / 'hold')!r}"
    write_script(author.folder, REPORT + hold + HELD + STEP)
    manifest = write_manifest(
        author.folder, **{"benchmarks": [BENCHMARK], "claims": [CLAIM, CLAIM_OF_TIME], **changes}
    )
    ended = author.run("run", manifest, "--output", name)
    assert ended.returncode == 0, ended.stderr


def verify(author: User, name: str, *words: str, code: int = 0) -> Document:
    """The verdict of a verification that is sealed under a name."""
    return author.json("verify", "a.zip", "--output", name, *words, code=code)


def claim_of(verdict: Document, metric: str) -> Document:
    (claim,) = [one for one in verdict["claims"] if one["metric"] == metric]
    document: Document = claim
    return document


def record_of(capsule: Path) -> Record:
    with archive.read(capsule) as opened:
        return opened.record


def losses(record: Record) -> dict[int, float]:
    return {line.seed: line.values[0] for line in record.samples if line.metric == LOSS}


def test_two_verifications_have_the_seeds_and_the_judgement_of_one_longer(author: User) -> None:
    seal_original(author)
    verify(author, "first.zip")
    summed = verify(author, "sum.zip", "--add", "first.zip")
    long = verify(author, "long.zip", "--runs", "10")
    one, other = (record_of(author.folder / name) for name in ("sum.zip", "long.zip"))
    assert losses(one) == losses(other)
    assert one.plan_digest == other.plan_digest
    assert [attempt.seed for attempt in one.attempts] == [a.seed for a in other.attempts]
    loss = claim_of(summed, LOSS)
    assert loss["look"]["number"] == 2
    assert loss == claim_of(long, LOSS)
    # of the machine nothing is added up
    time = claim_of(summed, TIME)
    ran_now = [attempt.seed for attempt in one.attempts][5:]
    assert time["rerun"]["seeds"] == sorted(ran_now)
    assert time["look"]["number"] is None
    assert "judged by the 5 new runs" in " ".join(note["sentence"] for note in time["notes"])
    check_what_is_told(author, summed)


def check_what_is_told(author: User, summed: Document) -> None:
    """What was added is sealed with the sum, and every command that reads it says so."""
    first, counted = record_of(author.folder / "first.zip"), record_of(author.folder / "sum.zip")
    with archive.read(author.folder / "first.zip") as opened:
        name = opened.id
    assert counted.chain == (Added(id=name, runs=5),)
    assert summed["sides"]["rerun"]["added"] == [{"id": name, "runs": 5}]
    for words in (("check", "sum.zip"), ("show", "--full", "sum.zip")):
        assert name in author.run(*words).stdout, words
    compared = author.run("diff", "a.zip", "sum.zip")
    assert compared.returncode == 0
    assert "(n=10)" in compared.stdout
    assert f"5 of {name[:12]}; machine metrics are" in " ".join(compared.stdout.split())
    # every attempt of the first one is there, on its own node, with its log
    assert [a.started for a in counted.attempts[:5]] == [a.started for a in first.attempts]
    assert counted.nodes[counted.attempts[0].nodes[0]] == first.nodes[0]
    with zipfile.ZipFile(author.folder / "sum.zip") as sealed:
        logs = [one for one in sealed.namelist() if one.startswith("data/logs/")]
        assert len(logs) == 10
        log = sealed.read(f"data/logs/{name[:12]}/0001-stdout.txt").decode()
    assert log == f"seed {first.attempts[0].seed}\n"
    # beside what it counts already it is no machine of its own
    several = author.run("diff", "a.zip", "first.zip", "sum.zip")
    assert f"both capsules contain the runs of {name[:12]}" in " ".join(several.stdout.split())


def test_a_chain_is_added_by_its_last_capsule_or_by_all_of_them(author: User) -> None:
    seal_original(author, claims=[CLAIM])
    verify(author, "first.zip", "--runs", "2", code=3)
    verify(author, "second.zip", "--add", "first.zip", "--runs", "4")
    verify(author, "third.zip", "--add", "second.zip")
    chain = record_of(author.folder / "third.zip").chain
    assert [one.runs for one in chain] == [2, 2]
    verify(author, "same.zip", "--add", "first.zip", "--add", "second.zip")
    same = record_of(author.folder / "same.zip")
    assert same.chain == chain
    assert losses(same) == losses(record_of(author.folder / "third.zip"))
    assert len(losses(same)) == 5


def test_an_open_verdict_ends_with_the_command_that_decides_it(author: User) -> None:
    seal_original(author, claims=[CLAIM])
    ended = author.run("verify", "a.zip", "--runs", "2", "--output", "first.zip")
    assert ended.returncode == 3, ended.stdout
    told = ended.stdout.splitlines()[-1]
    assert told == "to settle it: capsule verify a.zip --add first.zip --runs 5"
    compared = author.run("diff", "a.zip", "first.zip")
    assert compared.stdout.splitlines()[-1] == told
    assert author.json("diff", "a.zip", "first.zip", code=3)["next"] in told
    decided = author.json(*told.split()[4:])
    assert (decided["verdict"], decided["next"]) == ("REPRODUCED", None)
    assert claim_of(decided, LOSS)["rerun"]["values"] == 5


def test_times_that_are_open_are_not_decided_by_adding(author: User) -> None:
    seal_original(author)
    verdict = verify(author, "first.zip", "--runs", "2", code=3)
    assert verdict["next"] == "capsule verify a.zip --runs 5"


def test_further_looks_are_taken_until_every_claim_is_decided(author: User) -> None:
    claim = {**CLAIM, "looks": [3, 5, 10], "margin": {"absolute": 0.005}}
    seal_original(author, claims=[claim])
    verify(author, "first.zip", code=3)
    ended = author.run("verify", "a.zip", "--until-decided", "--add", "first.zip", "--output", "s")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "look at 3 runs" not in ended.stderr
    assert "look at 5 runs: REPRODUCED" in ended.stderr
    origin = record_of(author.folder / "s").origin
    assert isinstance(origin, Verification)
    assert (origin.look, origin.runs, len(losses(record_of(author.folder / "s")))) == (2, 10, 5)


def test_a_killed_verification_resumes_with_what_it_adds(author: User) -> None:
    seal_original(author, claims=[CLAIM])
    verify(author, "first.zip")
    words = ("verify", "a.zip", "--add", "first.zip")
    (author.folder / "hold").touch()
    running = author.start(*words, "--runs", "7")
    folder = wait_for_workload(author, running)
    kill_tree(running)
    (author.folder / "hold").unlink()
    (author.folder / "first.zip").unlink()
    refused = author.run(*words, "--resume", folder)
    assert refused.returncode == 2
    assert "--resume and --add exclude each other" in refused.stderr
    ended = author.run("verify", "a.zip", "--resume", folder, "--output", "sum.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counted = record_of(author.folder / "sum.zip")
    assert [one.runs for one in counted.chain] == [5]
    assert len(losses(counted)) == 7
    outcomes = [one["outcome"] for one in attempts_in(author.folder / "sum.zip")]
    assert outcomes == [*["completed"] * 5, "interrupted", *["completed"] * 2]
    assert not folder.exists()


# what does not add up


def reseal(capsule: Path, target: Path, change: Callable[[Record], Record]) -> None:
    """The same capsule, sealed with another record by somebody who changed it."""
    with archive.read(capsule) as opened:
        record = change(opened.record)
        has_levels = bool(record.levels["digest"])
        files = [one for one in carry(opened) if has_levels or not one.path.startswith("levels/")]
        archive.write(record, files, target)


def with_origin(**changes: Any) -> Callable[[Record], Record]:
    return lambda record: replace(record, origin=replace(record.origin, **changes))


def without_second_seed(record: Record) -> Record:
    """Its seeds have a gap."""
    gone = record.plan["groups"][1]
    plan = {**record.plan, "groups": [one for one in record.plan["groups"] if one is not gone]}
    return replace(
        record,
        plan=plan,
        plan_digest=str(digest.of_json(plan)),
        attempts=tuple(one for one in record.attempts if one.seed != gone["seed"]),
        samples=tuple(one for one in record.samples if one.seed != gone["seed"]),
    )


def without_an_outcome(record: Record) -> Record:
    """A run of it never ended."""
    last = record.attempts[-1]
    cut = replace(last, outcome="interrupted", reason="killed", exit_code=None)
    return replace(record, attempts=(*record.attempts[:-1], cut))


def by_other_levels(record: Record) -> Record:
    own = with_origin(levels="own")(record)
    return replace(own, levels={"digest": None, "release": "0.0.1"})


def in_another_image(record: Record) -> Record:
    image = make_image()
    note = notes.choice_of_image(image.reference, replaces=False, verifies=True)
    named = with_origin(image=image.reference)(record)
    return replace(named, image=image, contained=True, runtime="docker", notes=(note,))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> User:
    """An original, another one, and verifications of them, all sound."""
    user = User.make(tmp_path_factory.mktemp("seen"))
    seal_original(user, claims=[CLAIM])
    seal_original(user, "other.zip", claims=[CLAIM], seeds=[6, 7, 8])
    verify(user, "first.zip", "--runs", "2", code=3)
    verify(user, "longer.zip", "--runs", "3")
    of_other = user.run("verify", "other.zip", "--output", "of-other.zip")
    assert of_other.returncode in (0, 3), of_other.stderr
    first = user.folder / "first.zip"
    for name, change in {
        "nonce": with_origin(nonce="n"),
        "gap": without_second_seed,
        "open": without_an_outcome,
        "levels": by_other_levels,
        "image": in_another_image,
    }.items():
        source = user.folder / ("longer.zip" if name == "gap" else "first.zip")
        reseal(source, first.with_name(name), change)
    pack(
        rehash(with_settings({"/resources/walltime": "01:00:00"})(unpack(first))),
        first.with_name("set"),
    )
    whole = first.read_bytes()
    first.with_name("damaged").write_bytes(whole.replace(b"completed", b"complexed", 1))
    return user


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["a.zip"], 2, "--add needs a verification"),
        (["of-other.zip"], 2, "verifies capsule"),
        (["nowhere.zip"], 2, "no such capsule"),
        (["damaged"], 4, "damaged"),
        (["nonce"], 4, "fresh seed number 1 is"),
        (["set"], 4, "/resources/walltime: it is fixed"),
        (["gap"], 4, "fresh seed number 2 is"),
        (["open"], 4, "lacks a final outcome"),
        (["levels"], 2, "different measuring code: earlier runs used"),
        (["image"], 2, "different images: earlier runs used"),
        (["first.zip", "--runs", "2"], 2, "has 2 runs, and --runs 2 is the total"),
        (["longer.zip", "--runs", "1"], 2, "has 3 runs, and --runs 1 is the total"),
        (["first.zip", "--add", "longer.zip"], 2, "a seed counts only once"),
        (["first.zip", "--add", "first.zip"], 2, "a seed counts only once"),
        (["first.zip", "--runs", "4", "--until-decided"], 2, "exclude each other"),
    ],
)
def test_what_does_not_add_up_is_refused_before_anything_runs(
    seen: User, words: Sequence[str], code: int, message: str
) -> None:
    before = sorted(seen.folder.iterdir())
    refused = seen.run("verify", "a.zip", "--add", *words, "--output", "new.zip")
    assert refused.returncode == code, refused.stderr
    assert message in " ".join(refused.stderr.split())
    assert sorted(seen.folder.iterdir()) == before


NOTES_OF_OTHERS = (
    {"code": "new-thing", "facts": {"n": 1}, "sentence": "\u202e{0.__class__} " + 400 * "x"},
    {"code": "narrowed", "sentence": "REPRODUCED by everybody"},
    {"code": "online", "facts": {"reason": "asked"}, "sentence": "nothing was online"},
)


def of_another_version(record: Record) -> Record:
    """Sealed by a version with other words, and with notes that nobody here knows."""
    stated = tuple(notes.from_json(one) for one in NOTES_OF_OTHERS)
    return replace(record, tool="0.9.0", notes=(*record.notes, *stated))


def test_notes_of_other_versions_are_added_as_untrusted_or_in_our_words(author: User) -> None:
    seal_original(author, claims=[CLAIM])
    verify(author, "ours.zip", "--runs", "2", code=3)
    reseal(author.folder / "ours.zip", author.folder / "first.zip", of_another_version)
    verify(author, "second.zip", "--add", "first.zip", "--runs", "4")
    # what was inherited once is inherited again
    verify(author, "third.zip", "--add", "second.zip", "--runs", "5")
    for name in ("second.zip", "third.zip"):
        assert author.run("check", name).returncode == 0
        stated = {note["code"]: note["sentence"] for note in author.json("show", name)["notes"]}
        assert stated["online"] == "workloads could reach the network: asked"
        assert "unchecked" in stated
    written = record_of(author.folder / "third.zip").notes
    assert not any(map(notes.is_forged, written))
    said = [note.sentence for note in written if note.code == "unchecked"]
    unchecked = " (unverified text of the capsule): "
    assert said[0].startswith(f"new-thing{unchecked}\\u202e{{0.__class__}} xxx")
    assert said[0].endswith("x...")
    assert len(said[0]) < 400
    assert said[1:] == [f"narrowed{unchecked}REPRODUCED by everybody"]


def test_a_plan_whose_looks_are_taken_asks_for_a_number(author: User) -> None:
    seal_original(author, claims=[{**CLAIM, "looks": [3, 4]}])
    verify(author, "first.zip", "--runs", "4")
    refused = author.run("verify", "a.zip", "--add", "first.zip")
    assert refused.returncode == 2
    assert "has 4 runs, and every planned look was taken" in refused.stderr
    assert "--runs 5 or more" in refused.stderr
