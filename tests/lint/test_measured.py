"""What is told at sealing will hurt whoever re-executes a capsule, and how it is mended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from capsule import diff, lint, notes, report, stats
from capsule.jsons import Json
from capsule.record import Record
from tests.report.test_report import draw
from tests.support.command import User, write_manifest, write_script
from tests.support.judging import codes
from tests.support.records import LOSS, SEEDS, STEP_TIME, ClaimDocument, make_node, make_record

EQUAL = dict.fromkeys(SEEDS, 0.731)
SPREAD = dict(zip(SEEDS, (1.0, 1.1, 0.9, 1.2, 0.8), strict=True))
BUSY = "load 9.04 on 2 processors"


def claim(**changes: object) -> ClaimDocument:
    return {"metric": LOSS, "type": "equivalence", **changes}


def warnings(losses: Mapping[int, float], *claims: ClaimDocument) -> list[str]:
    """What is told of the claims of a record alone, of which the rest is told elsewhere."""
    record = make_record(seeds=tuple(losses), losses=losses, asked=claims, image=False)
    return [one for one in lint.warnings_of_runs(record) if one.startswith(LOSS)]


def on_node(load: float, threads: int = 2, gpus: Json = None) -> Record:
    node = make_node()
    node["class"]["cpu"]["threads"] = threads
    node["class"]["gpus"] = gpus
    node["state"]["momentary"] = {"system": {"load_average_1_minute": load}}
    return make_record(image=False, nodes=(node,))


def test_a_claim_that_confirms_something_is_not_warned_of() -> None:
    assert warnings(SPREAD, claim(margin={"absolute": 0.5})) == []


@pytest.mark.parametrize(
    ("losses", "asked", "message"),
    [
        (SPREAD, claim(type="threshold", at_most=0.9), "the mean of your runs, 1, already breaks"),
        (SPREAD, claim(type="bound", at_most=1.15), "one of your runs, 1.2, already breaks"),
        (SPREAD, claim(type="bound", at_least=0.85), "one of your runs, 0.8, already breaks"),
        (EQUAL, claim(), "all 5 runs have the value 0.731 under different seeds"),
        (EQUAL, claim(), 'or write "seeding": "inject"'),
        (
            SPREAD,
            claim(margin={"absolute": 0.05}),
            "confirms it in fewer than 20 %",
        ),
        (SPREAD, claim(margin={"absolute": 0.3}), "the margin 0.3 is too tight: with the"),
        (SPREAD, claim(margin={"absolute": 0.05}), ". Seal again with"),
        (SPREAD, claim(margin={"absolute": 1e-6}), "Widen the margin, or make the runs vary less"),
        (SPREAD, claim(margin={"ratio": 1.05}), "the margin factor 1.05 is too tight"),
        (
            dict(list(SPREAD.items())[:3]),
            claim(),
            "and 6 re-runs (the last look) confirm a margin of 2 sd in fewer",
        ),
        (SPREAD, claim(margin={"sd": 0.5}), "Seal again with more than 50 seeds"),
        (SPREAD, claim(), "Seal again with 8 seeds, or widen the margin (`--add-seeds`"),
        ({17: 1.0}, claim(margin={"absolute": 0.5}), "one run gives no spread"),
        ({17: 1.0}, claim(), "1 of 1 runs have a value, too few for a margin"),
        (SPREAD, claim(margin={"relative": 1}), "the margin 1 is at least the mean, 1"),
    ],
)
def test_what_a_claim_will_suffer_from_is_told(
    losses: Mapping[int, float], asked: ClaimDocument, message: str
) -> None:
    assert message in "\n".join(warnings(losses, asked))


@pytest.mark.parametrize("kind", ["exact", "ratio"])
def test_equal_values_are_what_some_claims_are_about(kind: str) -> None:
    assert warnings(EQUAL, claim(type=kind)) == []


def test_a_margin_around_zero_is_not_held_against_the_mean() -> None:
    around = dict(zip(SEEDS, (-1.0, 1.0, 0.5, -0.5, 0.1), strict=True))
    assert "than the mean" not in "\n".join(warnings(around, claim(margin={"absolute": 9})))


def test_so_many_seeds_as_are_named_confirm_the_margin() -> None:
    (sentence,) = warnings(SPREAD, claim(margin={"absolute": 0.2}))
    named = int(sentence.partition("Seal again with ")[2].split()[0])
    alpha, random, hits = stats.default_alpha(0.05), np.random.default_rng(5), 0
    spread = stats.Runs.of(SPREAD).sd / stats.c4(5)
    region = stats.Region(lower=-0.2, upper=0.2)
    for _ in range(500):
        a, b = (stats.Runs.of(dict(enumerate(random.normal(0, spread, named)))) for _ in range(2))
        interval = stats.shift(a, b, alpha=alpha)
        assert interval is not None
        hits += stats.decide(interval, region).word == "REPRODUCED"
    assert hits / 500 > 0.74


def test_no_number_of_re_runs_means_none() -> None:
    alpha = stats.default_alpha(0.05)
    spread = 0.05 / (stats.Runs.of(SPREAD).sd / stats.c4(5))
    assert stats.narrowest_margin(5, 500, alpha=alpha, power=0.2) > spread


def test_metrics_that_one_claim_matches_are_told_of_together() -> None:
    record = make_record(asked=[claim(metric="train/*/*/*", type="bound", at_most=0)])
    (broken,) = [one for one in lint.warnings_of_runs(record) if one.code == "claim-contradicted"]
    assert broken.startswith(f"{LOSS} (and 1 more of this claim's metrics): one of your runs")


def test_without_a_primary_claim_nothing_can_be_reproduced() -> None:
    record = make_record(asked=[claim(primary=False)])
    assert lint.warnings_of_runs(record)[0].startswith("no primary claim")


def test_a_command_that_ignores_its_seed_is_told_of_though_nothing_is_claimed() -> None:
    record = make_record(losses=EQUAL, asked=[claim(metric=STEP_TIME, type="ratio")])
    assert "under different seeds" not in "\n".join(lint.warnings_of_runs(record))
    manifest = dataclasses.replace(record.manifest, claims=())
    unclaimed = dataclasses.replace(record, manifest=manifest, claims=())
    assert any(
        one.startswith(f"{LOSS}: all 5 runs have the value 0.731")
        for one in lint.warnings_of_runs(unclaimed)
    )


# image, data, machine


def test_an_image_that_nobody_else_gets_is_told_of() -> None:
    record = make_record()
    assert record.image is not None
    assert "is in a registry on this machine" in "\n".join(lint.warnings_of_runs(record))
    assert "is in a registry on this machine" in "\n".join(lint.warnings(record.manifest))
    for name, sentence in (
        ("docker-daemon:torch:2", "only this machine's engine has the image"),
        ("sif:torch.sif", "the image sif:torch.sif is a local file. Publish the file"),
    ):
        image = dataclasses.replace(record.image, reference=name, pinned=None)
        local = dataclasses.replace(record, image=image)
        assert sentence in "\n".join(lint.warnings_of_runs(local))


def test_data_without_a_source_is_told_of() -> None:
    record = make_record()
    for shown in (lint.warnings_of_runs(record), lint.warnings(record.manifest)):
        assert any(one.startswith("dataset ramp has no generator") for one in shown)


@pytest.mark.parametrize(
    ("url", "doi"), [("https://data.example/ramp", None), (None, "10.5281/zenodo.1")]
)
def test_data_that_anybody_can_fetch_is_not_told_of(url: str | None, doi: str | None) -> None:
    record = make_record()
    (spec,) = record.manifest.datasets
    manifest = dataclasses.replace(
        record.manifest, datasets=(dataclasses.replace(spec, url=url, doi=doi),)
    )
    published = dataclasses.replace(record, manifest=manifest)
    for shown in (lint.warnings_of_runs(published), lint.warnings(manifest)):
        assert "dataset-without-source" not in [one.code for one in shown]


def test_data_that_the_capsule_carries_is_not_told_of(author: User) -> None:
    write_script(author.folder)
    (author.folder / "points.txt").write_text("1 2 3\n")
    for carried, embed in ((True, {}), (False, {"embed": False})):
        points = {"path": "points.txt", **embed}
        manifest = write_manifest(author.folder, datasets={"points": points})
        capsule = author.folder / f"{carried}.zip"
        author.json("run", manifest, "-o", capsule)
        for linted in (manifest, capsule):
            told = {one["code"] for one in author.json("lint", linted)["warnings"]}
            assert ("dataset-without-source" in told) is not carried
            assert ("dataset-undigested" in told) is (linted == manifest)


def test_a_busy_machine_is_told_of_at_sealing_in_show_and_beside_the_verdict() -> None:
    busy, idle = on_node(9.04), on_node(0.4)
    assert f"machine busy at start ({BUSY})" in "\n".join(lint.warnings_of_runs(busy))
    assert f"when the run began: {BUSY}" in draw(report.draw_record(busy, None, full=True), 200)
    assert "busy" not in "\n".join(lint.warnings_of_runs(idle))
    assert "busy" not in draw(report.draw_record(idle, None, full=True), 200)
    differences = diff.compare(busy, idle)
    (note,) = [one for one in differences.notes if one.code == "busy"]
    assert note.sentence.startswith(f"machine of the original busy at start ({BUSY})")
    assert "busy" not in codes(diff.compare(idle, idle))


def test_a_busy_machine_matters_to_machine_metrics_alone() -> None:
    busy = on_node(9.04)
    (warning,) = [one for one in lint.warnings_of_runs(busy) if one.code == "busy"]
    assert not lint.is_relevant(warning, busy.manifest)
    told, timed = (
        make_record(asked=[claim(metric=STEP_TIME, type=kind)]) for kind in ("ratio", "equivalence")
    )
    assert not lint.is_relevant(warning, told.manifest)
    assert lint.is_relevant(warning, timed.manifest)


def test_a_load_that_nobody_recorded_is_none() -> None:
    assert "busy" not in "\n".join(lint.warnings_of_runs(make_record(image=False)))
    assert "busy" not in "\n".join(lint.warnings_of_runs(on_node(3.9, threads=8)))


def test_a_gpu_that_nothing_used_is_told_of() -> None:
    gpus: Json = [{"model": "Example GPU"}, {"model": "Example GPU"}]
    record = on_node(0.1, gpus=gpus)
    shown = "\n".join(lint.warnings_of_runs(record))
    assert "the machine has 2 GPUs (Example GPU) that no process used" in shown
    assert '"resources": {"gpus_per_rank": 1}' in shown
    resources = dataclasses.replace(record.manifest.resources, gpus_per_rank=1)
    manifest = dataclasses.replace(record.manifest, resources=resources)
    used = dataclasses.replace(record, manifest=manifest)
    assert "GPU" not in "\n".join(lint.warnings_of_runs(used))


# on the command line


def test_sealing_tells_the_gravest_first_and_lint_tells_the_same_of_the_capsule(
    author: User,
) -> None:
    write_script(author.folder, SAME)
    on_loss = {"metric": "tiny/default/command/loss"}
    manifest = write_manifest(
        author.folder,
        claims=[{**on_loss, "type": "equivalence"}, {**on_loss, "type": "bound", "at_most": 1}],
    )
    ended = author.run("run", manifest, "--runtime", "host", "--output", "a.zip")
    shown = " ".join(ended.stdout.split())
    assert "warning: tiny/default/command/loss: " in shown
    assert shown.index("[claim-contradicted]") < shown.index("[equal-values]")
    of_lint = author.json("lint", "a.zip")["warnings"]
    facts = author.json("run", manifest, "--runtime", "host")
    assert facts["warnings"][:2] == of_lint[:2]
    assert of_lint[0]["code"] == "claim-contradicted"


SAME = """
import json, os
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    results.write(json.dumps({"metric": "loss", "value": 2.5}) + "\\n")
"""


def test_generators_that_keep_a_seed_and_a_seed_that_nothing_uses_are_warned_of() -> None:
    record = make_record(image=False)
    (benchmark,) = (one.id for one in record.manifest.benchmarks)
    kept = notes.kept_seeds(
        benchmark=benchmark, seeds=5, generators=(("f", "0", "train.py:12"),), more=1
    )
    unused = notes.unused_injection(benchmark=benchmark, runs=5)
    elsewhere = notes.unused_injection(benchmark="another", runs=5)
    before = lint.warnings_of_runs(record)
    record = dataclasses.replace(record, notes=(*record.notes, kept, unused, elsewhere))
    more = [one for one in lint.warnings_of_runs(record) if one not in before]
    assert [(one.code, one.pointer) for one in more] == [
        ("seeds-kept", "/benchmarks/0/seeding"),
        ("injection-unused", "/benchmarks/0/seeding"),
    ]
    assert f"{benchmark}: the injected seed does not change these generators: f(0) in" in more[0]
    assert "train.py:12, and 1 more. Let each take its seed from CAPSULE_SEED" in more[0]
