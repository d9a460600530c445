"""Manifests on the device that a verifier chose, and reasons for what does not run there."""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from capsule.levels import catalog
from capsule.levels.catalog import determinism
from capsule.manifest.benchmarks import benchmark as read_benchmark
from capsule.manifest.kinds import Command, Network, Operator, Recipe
from capsule.manifest.model import Benchmark, Manifest, Metric
from capsule.manifest.problems import Problems, quote

Raw = Mapping[str, Any]
OTHERS = {"cpu": "cuda", "cuda": "cpu"}
"""The other device, by device."""

EQUAL_BITS = "equal bits are judged on the author's device only"
"""Reason why claims of `compares_bits` are not judged."""

# what an author may write instead: a verifier runs what was sealed, or nothing
_INSTEAD = re.compile(r"(; use|: leave) .*", re.DOTALL)
_NAMED = 5
# entries that stand for those of users' files, by their level
_KINDS: Mapping[int, Raw] = {
    0: {"level": 0, "operator": "gemm"},
    1: {"level": 1, "network": "lenet"},
    2: {
        "level": 2,
        "network": "lenet",
        "datasets": ["glyphs"],
        "batch": 1,
        "epochs": 1,
        "optimizer": {"name": "sgd", "lr": 0.1},
    },
}
_NEEDS = {one.name: one.needs for one in (*catalog.OPERATOR_METRICS, *catalog.NETWORK_METRICS)}


def put(raw: Raw, device: str, problems: Problems) -> Raw:
    """Return the manifest with all ranks on a device: without GPUs, or with one for each.

    Args:
        raw: A manifest that fits the schema.
        device: `cpu` or `cuda`.
        problems: Notes a device that is the author's own.
    """
    resources = raw.get("resources", {})
    if bool(resources.get("gpus_per_rank")) == (device == "cuda"):
        problems.add("/resources", f"the author's device already is {device}")
    return {**raw, "resources": {**resources, "gpus_per_rank": int(device == "cuda")}}


def differ(one: Manifest, other: Manifest) -> bool:
    """Return whether two manifests have different devices by the choice of a verifier."""
    has_choice = one.other_device is not None or other.other_device is not None
    return has_choice and one.resources.device != other.resources.device


def compares_bits(claim_type: str, metric: str, *, of_command: bool) -> bool:
    """Return whether a claim is about equal bits, which another device does not promise.

    Args:
        claim_type: Type of the claim.
        metric: Path or pattern of its metric.
        of_command: True if the metric is of a command, whose author names metrics.
    """
    is_repeatability = metric.rpartition("/")[2] == determinism.METRIC and not of_command
    return claim_type == "exact" or is_repeatability


def list_left_out(manifest: Manifest) -> tuple[str, ...]:
    """Return benchmarks and claims that do not run on the verifier's device, by reason."""
    named: dict[str, list[str]] = {}
    for benchmark in manifest.benchmarks:
        for reason in dict.fromkeys(benchmark.refusals.values()):
            named.setdefault(reason, []).append(benchmark.id)
    claims = manifest.claims if manifest.other_device is not None else ()
    for claim in claims:
        of_command = claim.metric.split("/")[2:3] == ["command"]
        if compares_bits(claim.type, claim.metric, of_command=of_command):
            named.setdefault(EQUAL_BITS, []).append(claim.metric)
    return tuple(f"{_join(names)}: {reason}" for reason, names in named.items())


def _join(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def place(
    benchmark: Benchmark,
    entry: Raw,
    here: str,
    planned: Raw | None,
    device: str | None,
    problems: Problems,
    *,
    is_strict: bool,
) -> Benchmark:
    """Return a benchmark with the refusals and missing metrics of its frameworks on a device.

    Args:
        benchmark: As the plan has it.
        entry: Its entry in the manifest.
        here: JSON pointer of the entry.
        planned: Its subject in the plan, None for a command. Refusals of None are found anew.
        device: Device that the verifier chose, None for the author's.
        problems: Notes refusals that a plan cannot have.
        is_strict: True if the manifest's determinism is strict.
    """
    subject: Raw = planned or {}
    stated, own = subject.get("refusals", {}), subject.get("author_lacking")
    if own is not None:
        lacking = {name: frozenset(metrics) for name, metrics in own.items()}
        benchmark = replace(benchmark, author_lacking=lacking)
    if planned is None or stated is None:
        benchmark = restore(benchmark)
        if device is None:
            return benchmark
        stated = _find_refusals(benchmark, entry, device, is_strict=is_strict)
        benchmark = _move_metrics(benchmark, entry, stated, device)
    elif device is None and (stated or own is not None):
        problems.add(here, "the plan is for another device, but the record names no device")
    for name in (*stated, *(own or ())):
        if name not in benchmark.frameworks:
            message = f"the plan has the framework {quote(name)}, which the benchmark lacks"
            problems.add(f"{here}/frameworks", message)
    return replace(benchmark, refusals=dict(stated)) if stated else benchmark


def restore(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark as it is on its author's device."""
    lacking = benchmark.author_lacking
    if lacking is None:
        return replace(benchmark, refusals={}) if benchmark.refusals else benchmark
    metrics = tuple(
        one
        for one in benchmark.metrics
        if not _lacks(lacking, one.name) or _lacks(benchmark.lacking, one.name)
    )
    kept = frozenset(one.name for one in metrics)
    return replace(
        benchmark,
        metrics=metrics,
        lacking={name: names & kept for name, names in lacking.items()},
        author_lacking=None,
        refusals={},
    )


def _lacks(lacking: Mapping[str, frozenset[str]], name: str) -> bool:
    """Return whether no framework has a metric."""
    return all(name in names for names in lacking.values())


def restore_all(manifest: Manifest) -> Manifest:
    """Return a manifest with its benchmarks as they are on the author's device."""
    if manifest.other_device is None:
        return manifest
    return replace(manifest, benchmarks=tuple(map(restore, manifest.benchmarks)))


def _move_metrics(
    benchmark: Benchmark, entry: Raw, refused: Collection[str], device: str
) -> Benchmark:
    """Return a benchmark with the metrics that its trials yield on the other device.

    Args:
        benchmark: As on the author's device.
        entry: Its entry in the manifest.
        refused: Frameworks that do not run there.
        device: The other device.
    """
    if isinstance(benchmark.subject, Command):
        return benchmark
    due: dict[str, AbstractSet[str]] = {}
    gained: dict[str, Metric] = {}
    for framework in benchmark.frameworks:
        own = due[framework] = {metric.name for metric in benchmark.due(framework)}
        if framework in refused:
            continue
        there, here = (_find_due(entry, framework, one) for one in (OTHERS[device], device))
        needs = {_NEEDS.get(name) for name in there if name in own}
        more = {
            name: metric
            for name, metric in here.items()
            if name not in there and _NEEDS.get(name) in needs
        }
        due[framework] = own - (there.keys() - here.keys()) | more.keys()
        gained |= more
    names = {metric.name for metric in benchmark.metrics}
    more_metrics = (metric for name, metric in gained.items() if name not in names)
    metrics = (*benchmark.metrics, *more_metrics)
    every = frozenset(metric.name for metric in metrics)
    lacking = {framework: every - due[framework] for framework in benchmark.frameworks}
    own_lacking = {
        framework: every - {metric.name for metric in benchmark.due(framework)}
        for framework in benchmark.frameworks
    }
    if lacking == own_lacking:
        return benchmark
    return replace(benchmark, metrics=metrics, lacking=lacking, author_lacking=own_lacking)


def _find_due(entry: Raw, framework: str, device: str) -> dict[str, Metric]:
    """Return the metrics of a trial on a device, by name; of a user's file, whose text is not at
    hand, those of others of its kind.
    """
    made, _ = _read(entry, framework, device)
    if made is None and (kind := _KINDS.get(entry["level"])):
        made, _ = _read({"id": "typical", **kind}, framework, device)
    return {} if made is None else {metric.name: metric for metric in made.due(framework)}


def _find_refusals(
    benchmark: Benchmark, entry: Raw, device: str, *, is_strict: bool
) -> dict[str, str]:
    """Return reasons of this device alone: whatever else is refused today, the original ran."""
    if isinstance(benchmark.subject, Command):
        needs_gpu = device == "cpu" and entry.get("gpu_required", False)
        return {"command": "the command requires a GPU (gpu_required)"} if needs_gpu else {}
    refusals = {}
    for name in benchmark.frameworks:
        reasons = (
            _refuse(benchmark, entry, name, one, is_strict=is_strict)
            for one in (device, OTHERS[device])
        )
        here, there = reasons
        if here and not there:
            refusals[name] = _INSTEAD.sub("", here)
    return refusals


def _refuse(
    benchmark: Benchmark, entry: Raw, framework: str, device: str, *, is_strict: bool
) -> str | None:
    """Return why a framework cannot run a benchmark on a device; None where it can."""
    facts, subject = catalog.FRAMEWORKS[framework], benchmark.subject
    if device == "cuda" and facts.cuda is None:
        return f"{framework} has no device 'cuda'"
    name = ""
    if isinstance(subject, Operator | Network | Recipe):
        name = subject.name
        # all that `cuda` lists is there in addition to what CPUs have
        if device == "cpu" and subject.dtype in (facts.cuda or ()):
            return f"{framework} does not support {subject.dtype} on cpu"
    _, reason = _read(entry, framework, device)
    return reason or (determinism.refusal(framework, device, name) if is_strict else None)


def _read(entry: Raw, framework: str, device: str) -> tuple[Benchmark | None, str | None]:
    """Return an entry in one framework on a device, as for an author, or what is wrong with it."""
    problems = _FirstProblem()
    one = {**entry, "frameworks": [framework]}
    return read_benchmark(one, "", device, _find_no_file, problems), problems.first


class _FirstProblem(Problems):
    """Problems, of which the first is kept.

    Attributes:
        first: None for no problem.
    """

    first: str | None = None

    def add(self, pointer: str, message: str) -> None:
        """Note a problem."""
        super().add(pointer, message)
        self.first = self.first or message


def _find_no_file(name: str) -> bytes:
    raise FileNotFoundError(errno.ENOENT, "the file is not available", name)
