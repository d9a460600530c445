"""A claim on the mean of a curve's last evaluations, from the manifest to the printed verdict."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import Document, User, write_manifest, write_script

LOSS = "tiny/default/command/loss"
# 1 / epoch and one offset for each seed: the mean of the last three of five epochs is 0.261 + it
CURVE = """import json, os, random
seed = int(os.environ["CAPSULE_SEED"])
noise = random.Random(seed)
offset = noise.gauss(0, 0.01)
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    for epoch in range(1, 6):
        line = {"metric": "loss", "value": 1 / epoch + offset, "step": epoch}
        results.write(json.dumps(line) + "\\n")
"""


def manifest(folder: Path) -> Path:
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "metrics": {"loss": {"direction": "lower", "per": "step"}},
    }
    one: Document = {"metric": LOSS, "type": "equivalence", "margin": {"absolute": 0.1}}
    claims = [{**one, "value": {"mean_of_last": 3}}, one]
    return write_manifest(folder, benchmarks=[benchmark], claims=claims)


def test_both_values_of_a_curve_are_judged_and_told_apart(author: User) -> None:
    write_script(author.folder, CURVE)
    linted = author.run("lint", "--full", manifest(author.folder))
    assert f"{LOSS}, mean of the last 3 evaluations: 5 seeds suffice for" in " ".join(
        linted.stdout.split()
    )
    ran = author.run("run", manifest(author.folder))
    assert "mean of the last 3" in ran.stdout
    (capsule,) = author.folder.glob("*.capsule.zip")
    frozen = author.json("show", capsule)["claims"]
    assert [one["value"] for one in frozen] == [{"mean_of_last": 3}, None]
    assert "mean of the last 3" in " ".join(author.run("show", capsule).stdout.split())
    assert author.run("check", capsule).returncode == 0

    judged = author.json("verify", capsule)
    mean, last = judged["claims"]
    assert judged["verdict"] == "REPRODUCED"
    gap = (1 / 3 + 1 / 4 + 1 / 5) / 3 - 1 / 5
    for side in ("original", "rerun"):
        assert abs(mean[side]["mean"] - last[side]["mean"] - gap) < 1e-9
    (rerun,) = author.folder.glob("*.verification.zip")
    again = author.run("diff", capsule, rerun).stdout
    assert "loss, mean of the last 3 evaluations" in " ".join(again.split())
    whole = author.run("diff", "--full", capsule, rerun).stdout
    assert "loss, mean of the last 3 evaluations" in " ".join(whole.split())


def test_a_workload_without_steps_is_told_in_its_first_trial(author: User) -> None:
    write_script(author.folder, CURVE.replace(', "step": epoch', ""))
    ended = author.run("run", manifest(author.folder))
    assert ended.returncode != 0
    assert "declared per step, but was reported without steps" in ended.stderr


def test_a_manifest_that_does_not_declare_steps_is_refused_with_the_remedy(author: User) -> None:
    write_script(author.folder, CURVE)
    path = manifest(author.folder)
    document = json.loads(path.read_text())
    del document["benchmarks"][0]["metrics"]["loss"]["per"]
    path.write_text(json.dumps(document))
    for verb in ("lint", "run"):
        ended = author.run(verb, path)
        assert ended.returncode == 2
        assert 'declare it "per": "step", and report a step beside each value' in ended.stderr
