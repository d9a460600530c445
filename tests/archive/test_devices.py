"""Activity of devices in a capsule: stored, checked, summed to energy, noted, shown."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from capsule import (
    archive,
    deviceseries,
    digest,
    earlier,
    reading,
    report,
    rereading,
    summary,
    verdict,
)
from capsule import manifest as manifests
from capsule.archive import byhand
from capsule.errors import DamagedError
from capsule.jsons import Json
from capsule.lint import surroundings
from capsule.manifest import Command, paths
from capsule.record import Attempt, DeviceSeries, Quantity, Reason, Record, device_order
from tests.support.capsules import forge, read_files, rehash, seal, unpack
from tests.support.records import (
    SEEDS,
    make_attempt,
    make_files,
    make_plan,
    make_record,
    manifest_document,
)

ENERGY = "train/default/command/energy"
FILE = "data/results/devices.jsonl"
POWER = Quantity(
    name="power_watts",
    values=(70.0, math.nan, 90.0),
    least=60.0,
    largest=100.0,
    integral=800.0,
    seconds=9.9,
)
CARD = DeviceSeries(
    trial=f"train/default/command/{SEEDS[0]}",
    attempt=1,
    rank=0,
    node=0,
    device="0000:3b:00.0",
    source="nvml",
    seconds=10.0,
    samples=5,
    is_gapless=True,
    use="used",
    joules=700.25,
    energy_gap=None,
    times=(0.0, 5.0, 9.9),
    quantities=(POWER,),
    throttled={"power-limit": 1.5},
)
UNUSED = replace(CARD, use="unused")
PACKAGE = replace(
    CARD, device="package-0", source="rapl", use="not seen", times=(), quantities=(), throttled={}
)


def of_seeds(*lines: DeviceSeries, seeds: tuple[int, ...] = SEEDS) -> list[DeviceSeries]:
    return [replace(one, trial=f"train/default/command/{seed}") for seed in seeds for one in lines]


def record(
    *devices: DeviceSeries,
    gpus: int = 1,
    required: bool = False,
    asked: list[dict[str, Any]] | None = None,
    failed: Mapping[int, Reason] = {},
    **changes: Any,
) -> Record:
    """A record with these devices; the attempts of `failed` seeds have that reason."""
    document = manifest_document(asked=asked)
    document["resources"] = {"gpus_per_rank": gpus}
    if required:
        document["benchmarks"][0]["gpu_required"] = True
    manifest = manifests.read(json.dumps(document).encode(), where="manifest", folder=None)
    plan = make_plan(manifest, SEEDS)
    attempts = [make_attempt(seed) for seed in SEEDS]
    made = make_record(
        manifest=manifest,
        plan=plan,
        plan_digest=str(digest.of_json(plan)),
        devices=tuple(sorted(devices, key=device_order)),
        attempts=tuple(
            replace(one, outcome="failed", reason=failed[one.seed]) if one.seed in failed else one
            for one in attempts
        ),
        claims=(),
        **changes,
    )
    claims = verdict.freeze(manifest.claims, summary.run_values(made))
    return replace(made, claims=claims, notes=tuple(filter(None, [deviceseries.note(made)])))


def read(path: Path) -> Record:
    with archive.read(path) as capsule:
        return capsule.record


def test_devices_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = record(*of_seeds(CARD, PACKAGE, replace(PACKAGE, device="package-1")))
    path = seal(tmp_path, made)
    assert list(map(repr, read(path).devices)) == list(map(repr, made.devices))
    line = json.loads(unpack(path)[FILE].splitlines()[0])
    assert (line["device"], line["joules"], line["energy_gap"]) == ("0000:3b:00.0", 700.25, None)
    assert line["throttled"] == [{"reason": "power-limit", "seconds": 1.5}]
    assert line["quantities"][0]["values"] == [70.0, None, 90.0]
    with reading.read(path) as capsule:
        assert len(capsule.record.devices) == 3 * len(SEEDS)


def test_long_series_are_equal_too(tmp_path: Path) -> None:
    times = tuple(number / 100 for number in range(1000))
    series = replace(POWER, values=(70.0, *[80.0] * 998, math.nan))
    made = record(replace(CARD, samples=4000, times=times, quantities=(series,)))
    assert list(map(repr, read(seal(tmp_path, made)).devices[0].times)) == list(map(repr, times))


def test_a_record_without_devices_has_no_such_file(tmp_path: Path) -> None:
    path = seal(tmp_path, record())
    assert FILE not in unpack(path)
    assert ENERGY not in summary.run_values(read(path))
    assert "devices" not in report.record_to_json(read(path), None)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda line: line[:-1] + b" \n", "canonical form"),
        (lambda line: line.replace(b"700.25", b"700.250"), "canonical form"),
        (lambda _: b'{"a":1}\n', "attempt is missing"),
        (lambda _: b"", "empty"),
        (lambda line: line[:-1], "lacks its line end"),
    ],
)
def test_a_file_in_another_form_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes], fault: str
) -> None:
    files = unpack(seal(tmp_path, record(CARD)))
    files[FILE] = change(files[FILE])
    with pytest.raises(DamagedError, match=fault):
        read_files(rehash(files), tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("device", '"gpu 1"'),
        ("source", '"guess"'),
        ("use", '"maybe"'),
        ("samples", "-1"),
        ("energy_gap", '"tired"'),
        ("joules", '"700"'),
        ("joules", "-1.0"),
        ("times", "[0.0,null]"),
    ],
)
def test_a_value_that_the_schema_excludes_is_refused(
    tmp_path: Path, field: str, value: str
) -> None:
    files = unpack(seal(tmp_path, record(CARD)))
    line = json.loads(files[FILE])
    line[field] = json.loads(value)
    files[FILE] = digest.canonical_json(line) + b"\n"
    with pytest.raises(DamagedError, match=field):
        read_files(rehash(files), tmp_path)


def power(**changes: Any) -> dict[str, Any]:
    return {"quantities": (replace(POWER, **changes),)}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"attempt": 2}, "lacks this attempt"),
        ({"trial": "train/default/command/99"}, "lacks this attempt"),
        ({"rank": 1}, "found rank 1, expected 0 to 0"),
        ({"node": 3}, "found node 3, expected one of 0"),
        ({"samples": 2}, "found 3 points, expected at most 2 of 2 samples"),
        ({"times": (0.0, 5.0, 10.1)}, "do not increase"),
        ({"times": (0.0, 5.0, 4.0)}, "do not increase"),
        ({"energy_gap": "wrapped"}, "either an energy or the reason"),
        ({"joules": None}, "either an energy or the reason"),
        ({"use": "unused", "is_gapless": False}, "its samples cannot show that"),
        ({"use": "unused", "source": "amdgpu"}, "its samples cannot show that"),
        ({"quantities": (POWER, POWER)}, "expected each once"),
        (power(values=(70.0, 80.0)), "found 2 values of power_watts, expected 3"),
        (power(values=(70.0, 80.0, 101.0)), "expected values from 60 to 100"),
        (power(integral=1000.0), "the integral of power_watts"),
        (power(integral=500.0), "the integral of power_watts"),
        (power(seconds=11.0, integral=880.0), "found 11 s of an attempt of 10 s"),
        ({"throttled": {"idle": 10.5}}, "found 10.5 s of an attempt of 10 s"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    made = record(replace(CARD, **changes))
    with pytest.raises(DamagedError, match=fault):
        read(forge(made, make_files(), tmp_path / "a.zip"))


def test_each_device_of_an_attempt_stands_once_and_in_order(tmp_path: Path) -> None:
    for devices in ((CARD, CARD), (PACKAGE, CARD)):
        made = replace(record(), devices=devices)
        with pytest.raises(DamagedError, match="expected ascending order"):
            read(forge(made, make_files(), tmp_path / "a.zip"))


def test_without_a_request_there_are_packages_alone(tmp_path: Path) -> None:
    assert read(seal(tmp_path, record(PACKAGE, gpus=0))).devices == (PACKAGE,)
    with pytest.raises(DamagedError, match="the manifest asks for none"):
        read(forge(record(CARD, gpus=0), make_files(), tmp_path / "b.zip"))


# energy


def joules(made: Record) -> list[float | None]:
    metric = summary.run_values(made).get(ENERGY)
    return [] if metric is None else [run.value for run in metric.runs]


def test_the_energy_of_a_run_is_that_of_all_its_cards_and_of_no_package() -> None:
    second = replace(CARD, device="0000:c1:00.0", joules=100.0)
    made = record(*of_seeds(CARD, second, PACKAGE), gpus=2)
    assert joules(made) == [800.25] * len(SEEDS)
    metric = summary.run_values(made)[ENERGY]
    assert (metric.unit, metric.kind, metric.direction, metric.per) == (
        "J",
        "machine",
        "lower",
        "trial",
    )


def test_without_gpus_it_is_that_of_all_packages() -> None:
    made = record(*of_seeds(PACKAGE, replace(PACKAGE, device="package-1", joules=9.75)), gpus=0)
    assert joules(made) == [710.0] * len(SEEDS)


@pytest.mark.parametrize(
    "lines",
    [
        (replace(CARD, joules=None, energy_gap="mig"),),
        # one of two cards, or a package beside none
        (CARD, replace(CARD, device="0000:c1:00.0", joules=None, energy_gap="wrapped")),
        (CARD,),
        (PACKAGE,),
    ],
)
def test_without_every_card_a_run_has_no_energy(lines: tuple[DeviceSeries, ...]) -> None:
    whole = of_seeds(CARD, replace(CARD, device="0000:c1:00.0"), seeds=SEEDS[1:])
    made = record(*of_seeds(*lines, seeds=SEEDS[:1]), *whole, gpus=2)
    assert joules(made) == [None, *[1400.5] * 4]
    run = summary.run_values(made)[ENERGY].runs[0]
    assert run.status == "missing"


def test_a_failed_run_has_no_energy_and_has_failed() -> None:
    made = record(*of_seeds(CARD), failed={SEEDS[0]: "exit"})
    runs = summary.run_values(made)[ENERGY].runs
    assert [run.status for run in runs] == ["failed", *["ok"] * 4]


def test_energy_is_in_the_document_that_every_reader_computes(tmp_path: Path) -> None:
    path = seal(tmp_path, record(*of_seeds(CARD)))
    document = json.loads(unpack(path)["data/results/metrics.json"])["metrics"]
    assert document[ENERGY]["mean"] == 700.25
    files = unpack(path)
    files[FILE] = files[FILE].replace(b"700.25", b"600.25")
    with pytest.raises(DamagedError):
        read_files(rehash(files), tmp_path)


def claim(metric: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"metric": metric, "type": "equivalence", "margin": {"relative": 0.1}, **fields}]


def test_a_claim_names_the_energy_or_is_not_about_it() -> None:
    devices = of_seeds(CARD)
    named = record(*devices, asked=claim("train/*/command/energy"))
    assert [one.metric for one in named.claims] == [ENERGY]
    assert named.claims[0].upper == pytest.approx(70.025)
    every = record(*devices, asked=claim("train/*/command/*"))
    assert ENERGY not in [one.metric for one in every.claims]


def test_a_claim_on_energy_survives_a_machine_without_counters(tmp_path: Path) -> None:
    made = record(asked=claim(ENERGY))
    assert joules(made) == [None] * len(SEEDS)
    assert made.claims[0].margin_source == "none"
    with reading.read(seal(tmp_path, made)) as capsule:
        assert [one.metric for one in capsule.record.claims] == [ENERGY]


def test_an_authors_own_energy_is_the_authors() -> None:
    document = manifest_document()
    document["benchmarks"][0]["metrics"]["energy"] = {"unit": "kWh"}
    manifest = manifests.read(json.dumps(document).encode(), where="manifest", folder=None)
    (benchmark,) = manifest.benchmarks
    found = paths.metric_paths([benchmark])
    assert [metric.unit for path, metric in found if path == ENERGY] == ["kWh"]


# use


def test_runs_that_did_not_use_their_gpu_are_noted(tmp_path: Path) -> None:
    made = record(*of_seeds(UNUSED, seeds=SEEDS[:2]), *of_seeds(CARD, seeds=SEEDS[2:]))
    (note,) = made.notes
    assert note.code == "ran-without-gpu"
    assert note.sentence.startswith("2 runs of train asked for a GPU and did not use it")
    path = seal(tmp_path, made)
    with reading.read(path):
        pass
    with pytest.raises(DamagedError, match="a note is missing"):
        reading.read(seal(tmp_path, replace(made, notes=()), name="b.zip"))
    with pytest.raises(DamagedError, match="does not follow from the record"):
        reading.read(seal(tmp_path, replace(record(), notes=made.notes), name="c.zip"))


@pytest.mark.parametrize("other", ["used", "not seen"])
def test_one_device_that_may_be_in_use_is_enough(other: Any) -> None:
    second = replace(UNUSED, device="0000:c1:00.0", use=other)
    assert record(*of_seeds(UNUSED, second), gpus=2).notes == ()


def test_a_requirement_and_what_was_seen_belong_together(tmp_path: Path) -> None:
    failed: dict[int, Reason] = {SEEDS[0]: "ran-without-gpu"}
    target = tmp_path / "a.zip"
    with archive.read(seal(tmp_path, record(UNUSED, required=True, failed=failed))):
        pass
    # without samples nothing speaks against it
    with archive.read(seal(tmp_path, record(required=True, failed=failed), name="b.zip")):
        pass
    for made, fault in (
        (record(UNUSED, failed=failed), 'its benchmark lacks "gpu_required"'),
        (record(CARD, required=True, failed=failed), "each rank used a GPU or may have"),
        (record(UNUSED, required=True), "rank 0 did not use the required GPU"),
    ):
        with pytest.raises(DamagedError, match=fault):
            read(forge(made, make_files(), target))


def test_lint_of_a_capsule_names_the_benchmark() -> None:
    warnings = list(surroundings.of_nodes(record(*of_seeds(UNUSED))))
    assert [(one.code, one.pointer) for one in warnings] == [("ran-without-gpu", "/benchmarks/0")]


# merging and showing


def test_devices_of_an_earlier_verification_follow_their_nodes(tmp_path: Path) -> None:
    path = seal(tmp_path, record(CARD))
    with archive.read(path) as capsule:
        other = record(*of_seeds(UNUSED, seeds=SEEDS[1:2]))
        merged = earlier.merge(other, earlier.Earlier(capsule=capsule, seeds=SEEDS[:1]))
    assert [(one.use, one.node) for one in merged.devices] == [("used", 1), ("unused", 0)]


def printed(made: Record, *, full: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, width=200)
    for part in report.draw_record(made, None, full=full):
        console.print(part)
    return out.getvalue()


def test_show_prints_devices_in_full_alone() -> None:
    made = record(*of_seeds(CARD), *of_seeds(replace(PACKAGE, joules=None, energy_gap="wrapped")))
    whole = printed(made, full=True)
    assert "Devices during the runs" in whole
    rows = [one for one in whole.splitlines() if f"command/{SEEDS[0]} " in one]
    (line,) = [one for one in rows if "3b:00" in one]
    for cell in ("used", "700 J", "80.8 W", "power-limit 1.5 s"):
        assert cell in line
    assert whole.count("wrapped") == len(SEEDS)
    assert "Devices during the runs" not in printed(made, full=False)


def test_json_has_the_activity_without_its_points() -> None:
    document: Any = report.record_to_json(record(CARD), None)
    (device,) = document["devices"]
    assert device["quantities"]["power_watts"] == {
        "least": 60.0,
        "largest": 100.0,
        "mean": pytest.approx(800 / 9.9),
    }
    assert (device["joules"], device["use"], device["throttled"]) == (
        700.25,
        "used",
        {"power-limit": 1.5},
    )
    assert "times" not in device


def test_points_are_fewer_where_there_are_many_attempts_and_devices() -> None:
    assert deviceseries.count_points(1, 1) == 1000
    assert deviceseries.count_points(50, 8) == 500
    assert deviceseries.count_points(100_000, 64) == 20
    assert deviceseries.count_points(0, 0) == 1000


def test_only_settled_attempts_count() -> None:
    interrupted = replace(make_attempt(SEEDS[0]), outcome="interrupted", reason="killed")
    again = make_attempt(SEEDS[0], attempt=2)
    others: list[Attempt] = [make_attempt(seed) for seed in SEEDS[1:]]
    made = record(CARD, replace(CARD, attempt=2, joules=5.0))
    made = replace(made, attempts=(interrupted, again, *others))
    assert deviceseries.sum_joules(made) == {CARD.trial: 5.0}


@pytest.mark.parametrize("gpus", [2, 0])
def test_commands_by_hand_ask_for_the_gpus_of_the_run(gpus: int) -> None:
    made = record(gpus=gpus)
    text = "\n".join(byhand.lines(made, made.manifest.benchmarks, {}))
    by_docker, by_apptainer = text.count("docker run"), text.count("apptainer exec")
    assert min(by_docker, by_apptainer) > 0
    assert text.count("--gpus ") == text.count("--gpus 2 ") == by_docker * (gpus > 0)
    assert text.count(" --nv") == by_apptainer * (gpus > 0)
    assert "None" not in text


def test_another_reading_of_its_texts_mends_no_run_that_left_its_gpu_unused() -> None:
    unused, done = SEEDS[0], SEEDS[1]
    made = record(*of_seeds(UNUSED), required=True, failed={unused: "ran-without-gpu"})
    (benchmark,) = made.manifest.benchmarks
    assert isinstance(benchmark.subject, Command)
    benchmark = replace(benchmark, subject=replace(benchmark.subject, injects_seed=False))
    keeps = {one.seed: rereading._keeps_outcome(one, benchmark, (), made) for one in made.attempts}
    assert (keeps[unused], keeps[done]) == (True, False)


@pytest.mark.parametrize(
    ("gpus", "words"), [([{"model": "A"}], "a GPU (A)"), ([{}, {}], "2 GPUs (unknown GPU)")]
)
def test_gpus_that_nobody_asked_for_are_named(gpus: list[Json], words: str) -> None:
    made = record(gpus=0, nodes=({"class": {"gpus": gpus}},))
    (warning,) = surroundings.of_nodes(made)
    assert f"the machine has {words} that no process used" in str(warning)
    # of requested ones their use is told instead
    assert list(surroundings.of_nodes(record(gpus=1, nodes=made.nodes))) == []
