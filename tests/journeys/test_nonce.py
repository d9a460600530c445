"""Seeds that follow from a word too, which neither author nor verifier has chosen."""

from __future__ import annotations

import hashlib

from capsule import archive
from tests.journeys.test_add import BENCHMARK, CLAIM, HELD, STEP, losses, record_of
from tests.journeys.test_resume import kill_tree, wait_for_workload
from tests.support.command import REPORT, User, write_manifest, write_script

WORD = "committee 7"


def seal_original(author: User) -> str:
    """Its id."""
    hold = f"HOLD = {str(author.folder / 'hold')!r}"
    write_script(author.folder, REPORT + hold + HELD + STEP)
    manifest = write_manifest(author.folder, benchmarks=[BENCHMARK], claims=[CLAIM])
    ended = author.run("run", manifest, "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    with archive.read(author.folder / "a.zip") as capsule:
        return capsule.id


def due(capsule_id: str, count: int, word: str = WORD) -> set[int]:
    """The seeds that the published rule makes."""
    texts = (f"capsule-seed-2\n{capsule_id}\n{word}\n{place}\n" for place in range(count))
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return {int.from_bytes(digest[:8], "big") % 2**31 for digest in digests}


def test_seeds_follow_from_the_word_and_everything_tells_it(author: User) -> None:
    capsule_id = seal_original(author)
    verified = author.json("verify", "a.zip", "--nonce", WORD, "--output", "b.zip")
    record = record_of(author.folder / "b.zip")
    assert set(losses(record)) == due(capsule_id, 5)
    assert (record.nonce, verified["sides"]["rerun"]["nonce"]) == (WORD, WORD)
    (change,) = verified["changes"]
    assert change == {
        "code": "nonce",
        "sentence": f"a re-run under seeds drawn with --nonce {WORD!r}",
    }
    assert verified["sentence"].endswith(change["sentence"])
    assert author.json("show", "b.zip")["nonce"] == WORD
    assert f"nonce {WORD}" in " ".join(author.run("show", "b.zip").stdout.split())
    compared = author.run("diff", "a.zip", "b.zip")
    assert compared.returncode == 0
    assert change["sentence"] in " ".join(compared.stdout.split())


def test_runs_are_added_under_the_same_word_alone(author: User) -> None:
    capsule_id = seal_original(author)
    first = author.run("verify", "a.zip", "--nonce", WORD, "--runs", "2", "--output", "b.zip")
    assert first.returncode == 3, first.stdout
    last = first.stdout.splitlines()[-1]
    assert last.endswith(f"--add b.zip --runs 5 --nonce '{WORD}'")
    for words, message in (
        ((), "drawn with the nonce 'committee 7', the new seeds would be drawn without a nonce"),
        (("--nonce", "8"), "with the nonce 'committee 7', the new seeds would be drawn with"),
    ):
        refused = author.run("verify", "a.zip", "--add", "b.zip", *words)
        assert refused.returncode == 2
        assert message in " ".join(refused.stderr.split())
    author.json("verify", "a.zip", "--add", "b.zip", "--nonce", WORD, "--output", "c.zip")
    assert set(losses(record_of(author.folder / "c.zip"))) == due(capsule_id, 5)


def test_a_killed_verification_goes_on_with_its_word(author: User) -> None:
    capsule_id = seal_original(author)
    (author.folder / "hold").touch()
    running = author.start("verify", "a.zip", "--nonce", WORD)
    folder = wait_for_workload(author, running)
    kill_tree(running)
    (author.folder / "hold").unlink()
    refused = author.run("verify", "a.zip", "--nonce", WORD, "--resume", folder)
    assert refused.returncode == 2
    assert "--resume and --nonce exclude each other" in refused.stderr
    ended = author.run("verify", "a.zip", "--resume", folder, "--output", "b.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    record = record_of(author.folder / "b.zip")
    assert (record.nonce, set(losses(record))) == (WORD, due(capsule_id, 5))
