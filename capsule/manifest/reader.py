"""Read a manifest: strict JSON, then the published schema, then further rules."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from capsule import digest, schema
from capsule.errors import DamagedError, ManifestError, NotJsonError
from capsule.manifest import (
    claims,
    closed,
    devices,
    foreign,
    generated,
    mutable,
    narrow,
    otherdevice,
    retired,
    rules,
    scaling,
    search,
    strict,
    syntax,
)
from capsule.manifest.benchmarks import benchmark, restate, seconds
from capsule.manifest.lines import scan
from capsule.manifest.model import (
    SEED_RANGE,
    Author,
    Benchmark,
    DatasetSpec,
    ImageSpec,
    Manifest,
    Resources,
    Scalar,
    Winner,
)
from capsule.manifest.problems import MOST_SCANNED, Problems, instead, nearest, quote, report
from capsule.manifest.subjects import Files
from capsule.sizes import size

# with the points of a hundred thousand trials; without those of searches it is never large
MOST_BYTES = 1 << 24
_MOST_LEAN_BYTES = 1 << 18
MOST_TRIALS = 100_000
# more than anybody trains beforehand, and within what small generators take (0 to 31328)
LEAST_SEEDS = 10_000
_KINDS = {"command", "operator", "network", "level"}
_MOST_BESIDE = 1000


def load(path: Path, frameworks: Sequence[str] = ()) -> Manifest:
    """Read a manifest file without the frameworks that lack its device.

    The paths in it must exist beside it. A framework that lacks the device is left out where
    another one of the benchmark has it.

    Args:
        path: The file.
        frameworks: If any, what to narrow it to: see `narrow.narrow`.

    Raises:
        ManifestError: The file can't be read, or everything that is wrong with it, each with JSON
            pointer, line and the nearest right name.
        UsageError: No benchmark uses one of `frameworks`, or all of them lack the device.
    """
    data = _load(path)
    whole = read(data, where=str(path), folder=path.parent)
    lacking = devices.list_all_lacking(whole.benchmarks, whole.resources.device)
    data, is_part = narrow.narrow(whole, frameworks, lacking)
    if not is_part:
        return whole
    part = read(data, where=str(path), folder=path.parent)
    left_out = tuple(name for name in lacking if not frameworks or name in frameworks)
    return replace(part, narrowed_from=digest.of_bytes(whole.source), left_out=left_out)


def _advise_missing(path: Path) -> str:
    beside = [one.name for one in islice(path.parent.glob("*.json"), _MOST_BESIDE)]
    near = nearest(path.name, beside)
    return f"did you mean {near}?" if near else "write a first manifest with `capsule init`"


def load_correction(path: Path, subjects: Sequence[Mapping[str, Any]]) -> Manifest:
    """Read a corrected manifest, whose files are in a capsule instead of beside it.

    Args:
        path: The file.
        subjects: What the plan of these runs says of cases and metrics; see `read`.

    Raises:
        ManifestError: As `load`.
    """
    return read(_load(path), where=str(path), folder=None, subjects=subjects)


def _load(path: Path) -> bytes:
    if path.is_dir():
        advice = "give the manifest file in the folder"
        raise ManifestError("is a folder, not a manifest", where=str(path), advice=advice)
    if not path.is_file():
        raise ManifestError("no such file", where=str(path), advice=_advise_missing(path))
    try:
        with path.open("rb") as stream:
            return stream.read(MOST_BYTES + 1)
    except OSError as error:
        advice = "make the file readable, or give another file"
        what = f"cannot be read: {error.strerror}"
        raise ManifestError(what, where=str(path), advice=advice) from None


def with_seeds(manifest: Manifest, seeds: Sequence[int]) -> Manifest:
    """Return the manifest with other seeds, and a text that says so; the same one where they are
    equal.
    """
    if tuple(seeds) == tuple(manifest.seeds):
        return manifest
    raw = {**json.loads(manifest.source), "seeds": list(seeds)}
    # under seeds that do not follow from the search it is a run like any other
    raw.pop("winner_of", None)
    changed = read(
        search.write(raw), where=f"{manifest.name} with other seeds", folder=manifest.folder
    )
    return replace(changed, narrowed_from=manifest.narrowed_from, left_out=manifest.left_out)


def read(
    data: bytes,
    *,
    where: str,
    folder: Path | None,
    subjects: Sequence[Mapping[str, Any]] | None = None,
    changed: Mapping[str, Scalar] = {},
    device: str | None = None,
) -> Manifest:
    """Read the bytes of a manifest, with all frameworks of its benchmarks.

    The points of a search are drawn here, unless that was done before: `source` of what is returned
    has them written out, and nobody draws them anew.

    Args:
        data: The JSON text.
        where: Its name in an error message.
        folder: Where relative paths start; None for a manifest out of a capsule, whose files
            are not looked for.
        subjects: What the plan says of cases and metrics (`benchmarks.subject_to_json`), where
            one was made; None to take them from the catalogue, and from users' files in `folder`.
        changed: JSON pointer to value of what whoever verifies has set instead.
        device: Device that a verifier chose, `cpu` or `cuda`; None for the author's.

    Raises:
        ManifestError: Everything that is wrong, each with JSON pointer and line.
    """
    raw, points = search.take_points(_parse(data, where))
    if len(data) > _MOST_LEAN_BYTES < (lean := len(json.dumps(raw))):
        raise _too_large(lean, _MOST_LEAN_BYTES, where, " without the points of searches")
    problems = Problems()
    raw = retired.replace_build(raw, problems, is_sealed=folder is None)
    raw = _put_right(raw, problems)
    problems.add_violations(raw, "manifest-1")
    if changed and not problems.below(""):
        raw, refusals = mutable.put(raw, changed)
        for pointer, reason in refusals.items():
            problems.add(pointer, reason)
        problems.add_violations(raw, "manifest-1")
    if device is not None and not problems.below(""):
        raw = otherdevice.put(raw, device, problems)
    benchmarks: tuple[Benchmark, ...] = ()
    drawn = False
    if isinstance(raw, dict):
        rules.check(raw, folder, problems)
        _check_seed_range(raw, problems)
        raw, drawn = search.put_points(raw, points, problems, draws=subjects is None)
        benchmarks = _benchmarks(raw, folder, subjects, device, problems)
    problems.stop(data.decode(), where)
    text = search.write(raw) if drawn else data
    if len(text) > MOST_BYTES:
        message = (
            f"too long for a manifest: found {size(len(text))} with the points of searches,"
            f" expected at most {size(MOST_BYTES)}"
        )
        raise ManifestError(message, where=where, advice="search fewer points")
    # in the order in which a capsule keeps them, whichever was typed first
    made = _manifest(raw, benchmarks, text, folder)
    return replace(made, changed=dict(sorted(changed.items())), other_device=device)


def _parse(data: bytes, where: str) -> Any:
    if other := foreign.recognize(data):
        what, way_out = other
        raise ManifestError(what, where=where, advice=way_out)
    if len(data) > (most := MOST_BYTES if b'"search"' in data else _MOST_LEAN_BYTES):
        raise _too_large(len(data), most, where)
    try:
        return schema.parse(data, where=where)
    except DamagedError as error:
        refusals = _refusals(data.decode(errors="replace"))
        if not refusals or isinstance(error, NotJsonError):
            advice = foreign.advise(data)
            raise ManifestError(error.what, where=where, advice=advice) from None
        raise report(refusals, where) from None


def _too_large(found_bytes: int, most_bytes: int, where: str, counted: str = "") -> ManifestError:
    # no more of a file is read
    more = " or more" if found_bytes > MOST_BYTES else ""
    return ManifestError(
        f"too long for a manifest: found {found_bytes / 1024:.1f} KiB{more}{counted}, expected at"
        f" most {most_bytes >> 10} KiB",
        where=where,
        advice="split the benchmarks into several manifests",
    )


def _put_right(raw: Any, problems: Problems) -> Any:
    """Return the same with a command that is spelt otherwise as one, so that no operator is
    missed.
    """
    benchmarks = raw.get("benchmarks") if isinstance(raw, dict) else None
    if not isinstance(benchmarks, list):
        return raw
    entries: list[Any] = []
    for index, entry in enumerate(benchmarks):
        entries.append(entry)
        if not isinstance(entry, dict) or not _KINDS.isdisjoint(entry):
            continue
        here = f"/benchmarks/{index}"
        near = next((name for name in entry if nearest(name, ["command"])), None)
        if near is not None:
            message = f"unknown field {quote(near)}; did you mean 'command'?"
            problems.add(here + schema.pointer(near[:200]), message)
            rest = {name: value for name, value in entry.items() if name != near}
            entries[-1] = {**rest, "command": entry[near]}
        elif "metrics" in entry:
            problems.add(here, "the field 'command' is missing")
            entries[-1] = {**entry, "command": ["true"]}
    return {**raw, "benchmarks": entries}


def _refusals(text: str) -> list[tuple[int, str, str]]:
    lines = scan(text[:MOST_SCANNED])
    twice = [(line, here, "this key is given twice; remove one") for here, line in lines.duplicates]
    numbers = [
        (line, here, f"found {word}, expected a finite number")
        for here, line, word in lines.not_numbers
    ]
    return sorted(twice + numbers)


def _beside(folder: Path | None) -> Files:
    def load(name: str) -> bytes:
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, "the file is not available")
        with (folder / name).open("rb") as stream:
            return stream.read(syntax.MOST_BYTES + 1)

    return load


def _benchmarks(
    raw: Mapping[str, Any],
    folder: Path | None,
    subjects: Sequence[Mapping[str, Any]] | None,
    other_device: str | None,
    problems: Problems,
) -> tuple[Benchmark, ...]:
    """Return the valid benchmarks; claims are checked only if all are valid."""
    usable = not problems.below("/resources")
    device = _resources(raw.get("resources", {})).device if usable else "cpu"
    planned = {subject["benchmark"]: subject for subject in subjects or ()}
    checked = [
        benchmark(entry, here, device, _beside(folder), problems)
        if subjects is None
        else restate(entry, here, planned.get(entry["id"]), problems)
        for here, entry in rules.entries(raw, "benchmarks")
        if not problems.below(here)
    ]
    _dataset_names(raw, problems)
    generated.check(raw, problems)
    right = tuple(one for one in checked if one)
    if problems.below("/benchmarks"):
        return ()
    is_strict = raw.get("determinism") == "strict"
    if subjects is not None:
        places = zip(right, rules.entries(raw, "benchmarks"), strict=True)
        right = tuple(
            otherdevice.place(
                one,
                entry,
                here,
                planned.get(one.id),
                other_device,
                problems,
                is_strict=is_strict,
            )
            for one, (here, entry) in places
        )
    fitting = {
        int(here.rpartition("/")[2]): claims.claim(entry)
        for here, entry in rules.entries(raw, "claims")
        if not problems.below(here)
    }
    claims.check(fitting, right, problems)
    _check_bounds(raw, right, problems)
    _check_winner(raw, right, problems)
    if subjects is None and is_strict:
        strict.check(right, device, problems)
    if not problems.below("/resources"):
        scaling.check_world(right, _resources(raw.get("resources", {})).ranks, problems)
    if not problems.below("/seeds"):
        closed.check_runs(rules.entries(raw, "benchmarks"), len(raw.get("seeds", ())), problems)
    return right


def _dataset_names(raw: Mapping[str, Any], problems: Problems) -> None:
    known = raw.get("datasets", {})
    for here, entry in rules.entries(raw, "benchmarks"):
        names = entry.get("datasets")
        for index, name in enumerate(names if isinstance(names, list) else ()):
            if isinstance(name, str) and isinstance(known, dict) and name not in known:
                more = instead(name, known) if known else 'declare it under "datasets"'
                message = f"no dataset {quote(name)}; {more}"
                problems.add(f"{here}/datasets/{index}", message)


def _check_seed_range(raw: Mapping[str, Any], problems: Problems) -> None:
    if "seed_range" not in raw or problems.below("/seed_range") or problems.below("/seeds"):
        return
    low, high = _seed_range(raw)
    if high - low + 1 < LEAST_SEEDS:
        message = (
            f"{low} to {high} is too narrow: an author could try all seeds; allow at least"
            f" {LEAST_SEEDS} seeds"
        )
        problems.add("/seed_range", message)
    for index, seed in enumerate(raw.get("seeds", ())):
        if not low <= seed <= high:
            problems.add(f"/seeds/{index}", f"{seed} lies outside seed_range, {low} to {high}")


def _check_bounds(
    raw: Mapping[str, Any], benchmarks: Sequence[Benchmark], problems: Problems
) -> None:
    seeds = raw.get("seeds")
    points = sum(len(one.cases) * len(one.frameworks) for one in benchmarks)
    if isinstance(seeds, list) and points * len(seeds) > MOST_TRIALS:
        message = (
            f"{points} combinations of benchmark, case and framework under {len(seeds)} seeds"
            f" make {points * len(seeds)} trials, expected at most {MOST_TRIALS}"
        )
        problems.add("/benchmarks", message)


def _check_winner(
    raw: Mapping[str, Any], benchmarks: Sequence[Benchmark], problems: Problems
) -> None:
    if "winner_of" not in raw or problems.below("/winner_of"):
        return
    point = raw["winner_of"]["point"]
    names = [case.name for one in benchmarks for case in one.cases]
    if names != [point]:
        found = names[0] if len(names) == 1 else f"{len(names)} cases"
        message = f"found {found}, expected only case {quote(point)}: a winner runs alone"
        problems.add("/winner_of/point", message)


def _manifest(
    raw: Mapping[str, Any], benchmarks: tuple[Benchmark, ...], data: bytes, folder: Path | None
) -> Manifest:
    return Manifest(
        name=raw["name"],
        title=raw["title"],
        authors=tuple(Author(**author) for author in raw["authors"]),
        license=raw["license"],
        paper_doi=raw.get("paper", {}).get("doi"),
        image=ImageSpec(**raw["image"]) if "image" in raw else None,
        resources=_resources(raw.get("resources", {})),
        seeds=tuple(map(int, raw["seeds"])),
        seed_range=_seed_range(raw),
        determinism=raw.get("determinism", "default"),
        datasets=tuple(_dataset(name, spec) for name, spec in raw.get("datasets", {}).items()),
        benchmarks=benchmarks,
        claims=tuple(claims.claim(claim) for claim in raw.get("claims", ())),
        mutable=tuple(raw.get("mutable", ())),
        source=data,
        folder=folder,
        winner_of=_winner(raw["winner_of"]) if "winner_of" in raw else None,
    )


def _winner(raw: Mapping[str, Any]) -> Winner:
    return Winner(capsule=raw["capsule"], point=raw["point"], seeds=tuple(map(int, raw["seeds"])))


def _seed_range(raw: Mapping[str, Any]) -> tuple[int, int]:
    low, high = raw.get("seed_range", SEED_RANGE)
    return int(low), int(high)


def _resources(raw: Mapping[str, Any]) -> Resources:
    cpus = raw.get("cpus_per_rank")
    return Resources(
        nodes=int(raw.get("nodes", 1)),
        ranks_per_node=int(raw.get("ranks_per_node", 1)),
        cpus_per_rank=None if cpus is None else int(cpus),
        gpus_per_rank=int(raw.get("gpus_per_rank", 0)),
        walltime_seconds=seconds(raw.get("walltime")),
    )


def _dataset(name: str, raw: Mapping[str, Any]) -> DatasetSpec:
    if "generator" in raw:
        return DatasetSpec(
            name=name,
            digest=raw.get("digest"),
            generator=raw["generator"],
            parameters={key: value for key, value in raw.items() if key not in generated.OWN},
        )
    return DatasetSpec(name=name, parameters={}, **raw)
