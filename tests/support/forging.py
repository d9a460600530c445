"""What a careful forger makes of honest capsules: one thing changed, and all else made to fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from capsule import archive, digest, manifest, notes, summary, verdict
from capsule import plan as plans
from capsule.archive.indented import pretty
from capsule.origin import Extension, Original, Verification
from capsule.record import Record
from tests.support.capsules import CRATE
from tests.support.command import REPORT, Document, User, write_manifest, write_script
from tests.support.records import make_image

LOSS, STEP = "tiny/default/command/loss", "tiny/default/command/step"
SCRIPT = f"""{REPORT}
import time
report("loss", 1 + random.Random(seed).uniform(-0.001, 0.001))
for _ in range(6):
    report("step", time.perf_counter_ns() % 10**9 / 1e9 + 1)
"""
BENCHMARK: Document = {
    "id": "tiny",
    "command": ["python3", "tiny.py"],
    "inputs": ["tiny.py"],
    "metrics": {
        "loss": {"direction": "lower"},
        "step": {"direction": "lower", "kind": "machine", "unit": "s"},
    },
}
CLAIMS: list[Document] = [
    {"metric": LOSS, "type": "equivalence", "margin": {"relative": 0.05}},
    {"metric": LOSS, "type": "bound", "at_most": 2.0},
]
# two benchmarks that decide, and one that does not
ALSO, MORE = "also/default/command/loss", "more/default/command/loss"
SEVERAL: list[Document] = [
    CLAIMS[0],
    {**CLAIMS[0], "metric": ALSO},
    {**CLAIMS[0], "metric": MORE, "primary": False},
]
ANOTHER_DAY = "2020-01-01T00:00:00.000+00:00"
Change = Callable[[Record], Record]
Files = dict[str, bytes]


@cache
def honest() -> Mapping[str, bytes]:
    """An original, further ones, and verifications of the first, by name."""
    with TemporaryDirectory(prefix="capsule-") as folder:
        user = User.make(Path(folder))
        write_script(user.folder, SCRIPT)
        changes: Document = {"benchmarks": [BENCHMARK], "claims": CLAIMS}
        path = write_manifest(user.folder, **changes)
        _run(user, "run", path, "--output", "a")
        path = write_manifest(user.folder, **changes, seeds=[6, 7, 8, 9, 10])
        _run(user, "run", path, "--output", "other")
        for name, words in {
            "b": (),
            "seven": ("--runs", "7"),
            "ten": ("--runs", "10"),
            "word": ("--nonce", "committee 7"),
        }.items():
            _run(user, "verify", "a", "--output", name, *words)
        benchmarks = [{**BENCHMARK, "id": name} for name in ("tiny", "also", "more")]
        path = write_manifest(user.folder, benchmarks=benchmarks, claims=SEVERAL)
        _run(user, "run", path, "--output", "several")
        _run(user, "verify", "several", "--output", "whole")
        _run(user, "verify", "several", "--quick", "--output", "quick")
        names = ("a", "other", "b", "seven", "ten", "word", "several", "whole", "quick")
        return {name: (user.folder / name).read_bytes() for name in names}


def _run(user: User, *words: str | Path) -> None:
    ended = user.run(*words)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def as_it_is(record: Record) -> Record:
    return record


def with_plan(record: Record, plan: Mapping[str, Any]) -> Record:
    return replace(record, plan=plan, plan_digest=str(digest.of_json(plan)))


def with_origin(**changes: Any) -> Change:
    return lambda record: replace(record, origin=replace(record.origin, **changes))


def _fresh(record: Record) -> list[int]:
    groups = record.plan["groups"]
    return [one["seed"] for one in groups if one["trials"][0]["seed_source"] == "fresh"]


def _reseed(record: Record, seeds: Mapping[int, int]) -> Record:
    """The same runs under other seeds."""

    def other(trial: str) -> str:
        subject, _, seed = trial.rpartition("/")
        return f"{subject}/{seeds[int(seed)]}"

    groups = [
        {
            **group,
            "id": f"{group['id'].rpartition('-')[0]}-{seeds[group['seed']]}",
            "seed": seeds[group["seed"]],
            "trials": [
                {**trial, "id": other(trial["id"]), "seed": seeds[trial["seed"]]}
                for trial in group["trials"]
            ],
        }
        for group in record.plan["groups"]
    ]
    samples = (replace(one, trial=other(one.trial), seed=seeds[one.seed]) for one in record.samples)
    record = replace(
        record,
        attempts=tuple(
            replace(one, trial=other(one.trial), seed=seeds[one.seed]) for one in record.attempts
        ),
        samples=tuple(sorted(samples, key=lambda one: (one.metric, one.seed))),
    )
    return with_plan(record, {**record.plan, "groups": groups})


def chosen_seeds(record: Record) -> Record:
    return _reseed(record, {seed: 100 + place for place, seed in enumerate(_fresh(record))})


def _keep(seeds: list[int], record: Record) -> Record:
    groups = [
        {**group, "id": f"{number:04d}-command-{group['seed']}"}
        for number, group in enumerate(
            (group for group in record.plan["groups"] if group["seed"] in seeds), 1
        )
    ]
    record = replace(
        record,
        attempts=tuple(one for one in record.attempts if one.seed in seeds),
        samples=tuple(one for one in record.samples if one.seed in seeds),
    )
    return with_plan(record, {**record.plan, "groups": groups})


def best_of_ten(record: Record) -> Record:
    losses = {one.seed: one.values[0] for one in record.samples if one.metric == LOSS}
    best = sorted(losses, key=lambda seed: losses[seed])[:5]
    return with_origin(runs=5, look=1)(_keep(best, record))


def without_a_trial(record: Record) -> Record:
    return _keep(_fresh(record)[:-1], record)


def without_an_outcome(record: Record) -> Record:
    last = record.attempts[-1]
    cut = replace(last, outcome="interrupted", reason="killed", exit_code=None)
    return replace(record, attempts=(*record.attempts[:-1], cut))


def _original() -> Record:
    with TemporaryDirectory(prefix="capsule-") as folder:
        path = Path(folder) / "a"
        path.write_bytes(honest()["a"])
        with archive.read(path) as capsule:
            return capsule.record


def copy_runs(metrics: tuple[str, ...], runs: int) -> Change:
    """So many of the original's runs under fresh seeds."""

    def change(record: Record) -> Record:
        original = _original()
        seeds = dict(zip(_fresh(record)[:runs], original.manifest.seeds, strict=False))
        source = {(one.metric, one.seed): one.values for one in original.samples}
        return replace(
            record,
            samples=tuple(
                replace(one, values=source[one.metric, seeds[one.seed]])
                if one.seed in seeds and one.metric in metrics
                else one
                for one in record.samples
            ),
        )

    return change


def earlier(record: Record) -> Record:
    attempts = tuple(replace(one, started=ANOTHER_DAY) for one in record.attempts)
    return replace(record, started=ANOTHER_DAY, ended=ANOTHER_DAY, attempts=attempts)


def earlier_trial(record: Record) -> Record:
    first, *rest = record.attempts
    return replace(record, attempts=(replace(first, started=ANOTHER_DAY), *rest))


def with_manifest(**fields: object) -> Change:
    """Another manifest, with the plan that `verify` would have made of it."""

    def change(record: Record) -> Record:
        raw = {**json.loads(record.manifest.source), **fields}
        other = manifest.read(json.dumps(raw).encode(), where="forged", folder=None)
        plan = plans.make(other, verifies=record.verifies, runs=len(_fresh(record)) or None)
        return with_plan(replace(record, manifest=other), plans.to_json(plan))

    return change


def only_of(*benchmarks: str) -> Change:
    """The runs of some benchmarks, under names as if there never were others."""

    def change(record: Record) -> Record:
        kept = (
            group for group in record.plan["groups"] if _is_of(benchmarks, group["trials"][0]["id"])
        )
        groups = [
            {**group, "id": f"{number:04d}-command-{group['seed']}"}
            for number, group in enumerate(kept, 1)
        ]
        record = replace(
            record,
            attempts=tuple(one for one in record.attempts if _is_of(benchmarks, one.trial)),
            samples=tuple(one for one in record.samples if _is_of(benchmarks, one.metric)),
        )
        return with_plan(record, {**record.plan, "groups": groups})

    return change


def _is_of(benchmarks: tuple[str, ...], path: str) -> bool:
    return path.partition("/")[0] in benchmarks


def quick(*changes: Change) -> Change:
    """Some changes, and an origin that says that what decides nothing was left out."""

    def change(record: Record) -> Record:
        for one in (*changes, with_origin(quick=True)):
            record = one(record)
        return record

    return change


def made_later(*metrics: str) -> Change:
    """The same claims, of which some pretend that they were made after the runs."""

    def change(record: Record) -> Record:
        claims = (
            replace(one, later=True, primary=False) if one.metric in metrics else one
            for one in record.claims
        )
        return replace(record, claims=tuple(claims))

    return change


def widen(record: Record) -> Record:
    first, *rest = record.claims
    return replace(record, claims=(replace(first, lower=-1e6, upper=1e6), *rest))


def without_claims(record: Record) -> Record:
    return replace(record, claims=record.claims[:-1])


def with_claims_twice(record: Record) -> Record:
    return replace(record, claims=(*record.claims, record.claims[-1]))


def with_claims_exchanged(record: Record) -> Record:
    return replace(record, claims=record.claims[::-1])


def without_notes(record: Record) -> Record:
    return replace(record, notes=())


def with_a_note(record: Record) -> Record:
    made_up = notes.choice_of_image("docker://example/a:1", replaces=True, verifies=False)
    return replace(record, notes=(*record.notes, made_up))


def with_a_reworded_note(record: Record) -> Record:
    first, *rest = record.notes
    return replace(record, notes=(replace(first, sealed="all of it was contained"), *rest))


def with_a_note_of_comparisons(record: Record) -> Record:
    busy = notes.Note(code="busy", facts=(("load", "load 9"),), sentence="load 9")
    return replace(record, notes=(*record.notes, notes.from_json(notes.to_json(busy))))


def with_notes_twice(record: Record) -> Record:
    return replace(record, notes=(*record.notes, *record.notes))


def by_own_levels(record: Record) -> Record:
    """A program of the verifier's own that is no release's."""
    return with_origin(levels="own")(replace(record, levels={**record.levels, "release": None}))


def as_original(record: Record) -> Record:
    """A verification that pretends to be somebody's own run."""
    plan = {**record.plan, "verifies": None}
    return with_plan(replace(record, origin=Original()), plan)


def as_original_all_through(record: Record) -> Record:
    """The same with a manifest that has the seeds: a run of one's own like any other."""
    raw = {**json.loads(record.manifest.source), "seeds": _fresh(record)}
    own = manifest.read(json.dumps(raw).encode(), where="forged", folder=None)
    attempts = tuple(replace(one, seed_source="manifest") for one in record.attempts)
    record = replace(record, origin=Original(), manifest=own, attempts=attempts)
    record = with_plan(record, plans.to_json(plans.make(own)))
    return replace(record, claims=verdict.freeze(own.claims, summary.run_values(record)))


def as_verification(record: Record) -> Record:
    """An original that pretends to verify another one."""
    of = "0" * 64
    plan = {**record.plan, "verifies": of}
    return with_plan(replace(record, origin=Verification(of=of, look=1, runs=5)), plan)


def as_extension(record: Record) -> Record:
    return replace(record, origin=Extension(of="0" * 64, seeds=2))


def in_another_order(record: Record) -> Record:
    first, second, *rest = record.plan["groups"]
    return with_plan(record, {**record.plan, "groups": [second, first, *rest]})


def with_other_parameters(record: Record) -> Record:
    groups = [
        {**group, "trials": [{**one, "parameters": {"n": 1}} for one in group["trials"]]}
        for group in record.plan["groups"]
    ]
    return with_plan(record, {**record.plan, "groups": groups})


def in_an_image(record: Record) -> Record:
    return replace(record, image=make_image(), contained=True, runtime="docker", notes=())


def with_settings(changed: Mapping[str, Any]) -> Callable[[Files], Files]:
    """A verification whose record says that it set this; the writer would see that it did not."""

    def change(files: Files) -> Files:
        record = json.loads(files["data/capsule.json"])
        record["origin"]["set"] = dict(changed)
        return {**files, "data/capsule.json": pretty(record)}

    return change


def with_another_readme(files: Files) -> Files:
    name = "data/README.md"
    return {**files, name: files[name].replace(b"This is a capsule", b"This is the truth")}


def with_another_crate(files: Files) -> Files:
    crate = json.loads(files[CRATE])
    (root,) = (one for one in crate["@graph"] if one["@id"] == "./")
    root["name"] = "Winner of the year"
    return {**files, CRATE: pretty(crate)}
