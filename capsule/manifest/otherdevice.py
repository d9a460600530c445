"""Another device than the author's, chosen by a verifier: what does not run there, and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from capsule.levels import catalog
from capsule.levels.catalog import collectives, determinism, schemes
from capsule.manifest.facts import metric_of
from capsule.manifest.kinds import Collective, Command, Network, Operator, Reading, Recipe
from capsule.manifest.model import Benchmark, Manifest
from capsule.manifest.problems import Problems, quote

Raw = Mapping[str, Any]
OTHERS = {"cpu": "cuda", "cuda": "cpu"}
"""The other device, by device."""

EQUAL_BITS = "equal bits are judged on the author's device only"
"""Reason why claims of `compares_bits` are not judged."""

# what an author may write instead: a verifier runs what was sealed, or nothing
_INSTEAD = re.compile(r"; use .*", re.DOTALL)
_NAMED = 5


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
    """Return whether a verifier chose another device for one of two manifests than the other's."""
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
    """Return what does not run on the device that a verifier chose, with one reason each."""
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
    """Return a benchmark with what its frameworks refuse and lack on a device.

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
        benchmark = _move_metrics(benchmark, stated, device)
    elif device is None and (stated or own is not None):
        problems.add(here, "the plan is of another device, but the record names none")
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
        one for one in benchmark.metrics if not all(one.name in names for names in lacking.values())
    )
    kept = frozenset(one.name for one in metrics)
    return replace(
        benchmark,
        metrics=metrics,
        lacking={name: names & kept for name, names in lacking.items()},
        author_lacking=None,
        refusals={},
    )


def restore_all(manifest: Manifest) -> Manifest:
    """Return a manifest with its benchmarks as they are on the author's device."""
    if manifest.other_device is None:
        return manifest
    return replace(manifest, benchmarks=tuple(map(restore, manifest.benchmarks)))


def _move_metrics(benchmark: Benchmark, refused: Collection[str], device: str) -> Benchmark:
    """Return a benchmark with the metrics that its trials yield on the other device.

    Args:
        benchmark: As on the author's device.
        refused: Frameworks that do not run there.
        device: The other device.
    """
    subject = benchmark.subject
    if not isinstance(subject, Operator | Network):
        return benchmark
    # of a user's file nothing is known here but that it yields what others of its kind do
    typical = "gemm" if isinstance(subject, Operator) else "lenet"
    known = catalog.SUBJECTS.get("" if subject.source else subject.name, catalog.SUBJECTS[typical])
    due: dict[str, AbstractSet[str]] = {}
    gained: dict[str, catalog.MetricFacts] = {}
    for framework in benchmark.frameworks:
        own = due[framework] = {metric.name for metric in benchmark.due(framework)}
        if framework in refused:
            continue
        there, here = (
            {facts.name: facts for facts in catalog.due(known, framework, one)}
            for one in (OTHERS[device], device)
        )
        needs = {facts.needs for name, facts in there.items() if name in own}
        more = {
            name: facts
            for name, facts in here.items()
            if name not in there and facts.needs in needs
        }
        due[framework] = own - (there.keys() - here.keys()) | more.keys()
        gained |= more
    names = {metric.name for metric in benchmark.metrics}
    metrics = benchmark.metrics + tuple(
        metric_of(facts) for name, facts in gained.items() if name not in names
    )
    every = frozenset(metric.name for metric in metrics)
    lacking = {framework: every - due[framework] for framework in benchmark.frameworks}
    own_lacking = {
        framework: every - {metric.name for metric in benchmark.due(framework)}
        for framework in benchmark.frameworks
    }
    if lacking == own_lacking:
        return benchmark
    return replace(benchmark, metrics=metrics, lacking=lacking, author_lacking=own_lacking)


def _find_refusals(
    benchmark: Benchmark, entry: Raw, device: str, *, is_strict: bool
) -> dict[str, str]:
    """Return reasons of this device alone: whatever else is refused today, the original ran."""
    if isinstance(benchmark.subject, Command):
        needs_gpu = device == "cpu" and entry.get("gpu_required", False)
        return {"command": "the command requires a GPU (gpu_required)"} if needs_gpu else {}
    refusals = {}
    for name in benchmark.frameworks:
        reason = _refuse(benchmark, name, device, is_strict=is_strict)
        if reason and not _refuse(benchmark, name, OTHERS[device], is_strict=is_strict):
            refusals[name] = _INSTEAD.sub("", reason)
    return refusals


def _refuse(benchmark: Benchmark, framework: str, device: str, *, is_strict: bool) -> str | None:
    """Return why a framework cannot run a benchmark on a device; None where it can."""
    facts = catalog.FRAMEWORKS[framework]
    if device == "cuda" and facts.cuda is None:
        return f"{framework} has no device 'cuda'"
    reason: str | None = None
    name = ""
    match benchmark.subject:
        case Collective():
            reason = collectives.refuse(framework, device)
        case Recipe() as recipe:
            name, reason = recipe.name, _refuse_training(recipe, framework, device)
        case Operator() | Network() as subject:
            name, dtype = subject.name, subject.dtype
            listed = None if subject.source else catalog.SUBJECTS.get(name)
            if listed is not None:
                reason = catalog.refusal(listed, framework, dtype, device)
            elif device == "cpu" and dtype not in facts.dtypes:
                reason = f"{framework} does not support {dtype} on cpu"
        case Command() | Reading():
            pass
    return reason or (determinism.refusal(framework, device, name) if is_strict else None)


def _refuse_training(recipe: Recipe, framework: str, device: str) -> str | None:
    # whoever reads operators and networks would wait for it
    from capsule.manifest import recipes

    if reason := recipes.refuse_dtype(recipe.dtype, device):
        return reason
    settings = next(iter(recipe.settings.values()))
    if settings.scheme is None:
        return None
    how = framework, device, settings.optimizer, recipe.dtype
    return schemes.refusal(*how, is_module=recipe.module is not None)
