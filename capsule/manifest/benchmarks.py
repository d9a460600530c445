"""Turn one `benchmarks` entry into a value with its sweep written out and its metrics known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from capsule.levels import catalog
from capsule.levels.catalog.serving import METRICS as SERVING_METRICS
from capsule.manifest import (
    collectives,
    commands,
    devices,
    filenames,
    readings,
    search,
    serving,
    subjects,
)
from capsule.manifest.facts import metric_of
from capsule.manifest.kinds import Network, Operator, Recipe, Subject
from capsule.manifest.model import Benchmark, Case, Metric
from capsule.manifest.problems import Problems, instead, quote
from capsule.schema import pointer

if TYPE_CHECKING:
    from capsule.manifest.sources import Source

Raw = Mapping[str, Any]
_TRAININGS = (2, 3)


def benchmark(
    raw: Raw, here: str, device: str, files: subjects.Files, problems: Problems
) -> Benchmark | None:
    """Return one entry that fits the schema, or None after noting what is wrong with it.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        device: `cpu` or `cuda`, which decides what can be measured.
        files: Where a user's file is read from.
        problems: Collects what a schema can't say: unknown operators, sets, frameworks, parameters.
            A framework that lacks the device gets no note if another framework has the device.
    """
    if "command" in raw:
        if raw.get("gpu_required") and device == "cpu":
            message = "the resources have no GPU: set gpus_per_rank, or remove gpu_required"
            problems.add(f"{here}/gpu_required", message)
        return _of_command(raw, here, problems)
    if readings.reads(raw):
        return readings.read(raw, here, device, problems)
    if collectives.exchanges(raw):
        return collectives.read(raw, here, device, problems)
    if raw["level"] in _TRAININGS:
        # whoever reads operators and networks would wait for it
        from capsule.manifest import recipes

        return recipes.read(raw, here, device, files, problems)
    return _of_catalogue(raw, here, device, files, problems)


def restate(raw: Raw, here: str, subject: Raw | None, problems: Problems) -> Benchmark | None:
    """Return the benchmark with the plan's cases and metrics: the catalogue may have changed.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        subject: What `subject_to_json` gave when the plan was made, None where the plan lacks it.
        problems: Collects where the two contradict each other.
    """
    if "command" in raw:
        return _of_command(raw, here, problems)
    if subject is None:
        problems.add(here, "the plan lacks the subject of this benchmark")
        return None
    cases = tuple(
        Case(name=case["name"], parameters=case["parameters"]) for case in subject["cases"]
    )
    metrics = tuple(_metric(metric["name"], metric) for metric in subject["metrics"])
    doubled = {"case": [one.name for one in cases], "metric": [one.name for one in metrics]}
    for what, names in doubled.items():
        if (twice := commands.find_repeated(names)) is not None:
            problems.add(here, f"the plan has the {what} {quote(twice)} twice")
    if len(cases) > commands.MOST_CASES or not _writes_out(raw.get("cases"), cases):
        planned = quote([dict(one.parameters) for one in cases])
        message = f"the plan has the cases {planned}, expected {quote(raw.get('cases'))}"
        message += " as in the manifest"
        problems.add(f"{here}/cases", message)
    lacking = {name: frozenset(metrics) for name, metrics in subject["lacking"].items()}
    if list(lacking) != sorted(raw["frameworks"]):
        message = f"the plan has the frameworks {quote(list(lacking))}"
        message += f", expected {quote(sorted(raw['frameworks']))} as in the manifest"
        problems.add(f"{here}/frameworks", message)
    if readings.reads(raw):
        return readings.restate(raw, here, cases, metrics, problems)
    if collectives.exchanges(raw):
        return collectives.restate(raw, here, cases, metrics, problems)
    if raw["level"] in _TRAININGS:
        from capsule.manifest import recipes

        own, planned = (subject.get("module"), subject.get("optimizer")), subject.get("recipes", {})
        return recipes.restate(raw, here, cases, metrics, lacking, *own, planned, problems)
    source = subjects.source(raw)
    return _benchmark(
        raw,
        source[1] if source else raw[subjects.kind(raw)],
        cases,
        {
            "metrics": metrics,
            "lacking": lacking,
        },
    )


def subject_to_json(benchmark: Benchmark) -> dict[str, Any]:
    """Return cases and metrics of a benchmark of Level 0 or 1, as a plan keeps them."""
    known = ("name", "unit", "direction", "kind", "resolution", "per")
    return {
        "benchmark": benchmark.id,
        "cases": [
            {"name": case.name, "parameters": dict(case.parameters)} for case in benchmark.cases
        ],
        "metrics": [{key: getattr(metric, key) for key in known} for metric in benchmark.metrics],
        "lacking": _lacking_to_json(benchmark.lacking),
        **({"refusals": dict(sorted(benchmark.refusals.items()))} if benchmark.refusals else {}),
        **({"author_lacking": _lacking_to_json(own)} if (own := benchmark.author_lacking) else {}),
        **_recipes_to_json(benchmark.subject),
    }


def _lacking_to_json(lacking: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {name: sorted(metrics) for name, metrics in sorted(lacking.items())}


def _recipes_to_json(subject: Subject) -> dict[str, Any]:
    if not isinstance(subject, Recipe):
        return {}
    from capsule.manifest import recipes, trained

    own = trained.to_json(subject.module, subject.own_optimizer)
    settings = {name: recipes.to_json(one) for name, one in subject.settings.items()}
    return {**own, "recipes": settings}


def _writes_out(raw: Any, cases: tuple[Case, ...]) -> bool:
    """Return whether cases are those that an entry writes out; a set has only its name there."""
    if raw is None or isinstance(raw, str):
        return True
    planned = [dict(case.parameters) for case in cases]
    if isinstance(raw, dict):
        if math.prod(map(len, raw.values())) != len(planned):
            return False
        points = [
            dict(zip(raw, values, strict=True)) for values in itertools.product(*raw.values())
        ]
        return all(point in planned for point in points)
    return planned == [
        {key: point[key] for key in point if key != "name"} for point in raw
    ] and all(
        point.get("name", case.name) == case.name for point, case in zip(raw, cases, strict=True)
    )


def _of_command(raw: Raw, here: str, problems: Problems) -> Benchmark | None:
    """Return a benchmark that is any program, with the metrics that it promises."""
    # whoever reads operators and networks would wait for it
    from capsule.manifest import sources

    subject, cases = commands.command(raw, here, problems)
    sources.check(raw["metrics"], f"{here}/metrics", problems)
    if not problems.below(f"{here}/cases"):
        filenames.check(raw["metrics"], cases, f"{here}/metrics", problems)
    if problems.below(here):
        return None
    metrics = tuple(_metric(name, metric) for name, metric in sorted(raw["metrics"].items()))
    searched = search.read(raw, metrics, here, problems)
    return Benchmark(
        id=raw["id"],
        subject=subject,
        cases=cases,
        frameworks=("command",),
        inputs=tuple(raw.get("inputs", ())),
        exclude=tuple(raw.get("exclude", ())),
        datasets=tuple(raw.get("datasets", ())),
        metrics=metrics,
        isolation="trial",
        timeout_seconds=seconds(raw.get("timeout")),
        online=raw.get("online", False),
        search=searched,
    )


def seconds(duration: str | None) -> int | None:
    """Return a duration in seconds.

    >>> seconds("01:30:05")
    5405
    """
    if duration is None:
        return None
    hours, minutes, rest = map(int, duration.split(":"))
    return 3600 * hours + 60 * minutes + rest


def _metric(name: str, raw: Raw) -> Metric:
    return Metric(
        name=name,
        unit=raw.get("unit", "1"),
        direction=raw.get("direction", "none"),
        kind=raw.get("kind", "portable"),
        resolution=float(raw.get("resolution", 0)),
        per=raw.get("per", "call"),
        test_set=int(raw["test_set"]) if "test_set" in raw else None,
        source=_source(raw) if "from" in raw else None,
        aggregate=raw.get("aggregate"),
    )


def _source(raw: Raw) -> Source:
    # as above
    from capsule.manifest import sources

    return sources.read(raw["from"], raw.get("per", "call"), raw.get("unit", "1"))


def _of_catalogue(
    raw: Raw, here: str, device: str, files: subjects.Files, problems: Problems
) -> Benchmark | None:
    subject = subjects.find(raw, here, files, problems)
    if subject is None:
        return None
    dtype = raw.get("dtype", "float32")
    if dtype not in subject.dtypes:
        message = f"unknown element type {quote(dtype)}; {instead(dtype, subject.dtypes)}"
        if dtype in catalog.DTYPES:
            message = f"{subject.name} has no {dtype}; use one of: {', '.join(subject.dtypes)}"
        problems.add(f"{here}/dtype", message)
    else:
        _frameworks(raw, subject, dtype, device, here, problems)
    cases = _cases(raw.get("cases", "quick"), subject, f"{here}/cases", problems)
    _limits(raw["frameworks"], cases, device, here, problems)
    serving.check(raw, here, problems)
    if problems.below(here):
        return None
    besides: tuple[catalog.MetricFacts, ...] = (
        catalog.ROOFLINE_METRICS if raw.get("roofline") else ()
    )
    if served := serving.read(raw):
        besides = SERVING_METRICS[served.scenario]
    metrics = _metrics(subject, tuple(raw["frameworks"]), device, besides)
    return _benchmark(raw, subject.name, cases, metrics)


def _benchmark(
    raw: Raw, name: str, cases: tuple[Case, ...], metrics: Mapping[str, Any]
) -> Benchmark:
    """Return an entry of Level 0 or 1 whose cases and metrics are known."""
    return Benchmark(
        id=raw["id"],
        subject=_subject(raw, name),
        cases=cases,
        frameworks=tuple(raw["frameworks"]),
        inputs=tuple(raw.get("inputs", ())),
        **metrics,
        isolation=raw.get("isolation", "group"),
    )


def _subject(raw: Raw, name: str) -> Subject:
    file = subjects.source(raw)
    source = file[1] if file else None
    dtype = raw.get("dtype", "float32")
    repetitions, warmup = int(raw.get("repetitions", 30)), int(raw.get("warmup", 3))
    conditions = _conditions(raw)
    if subjects.kind(raw) == "operator":
        return Operator(
            name=name,
            source=source,
            dtype=dtype,
            repetitions=repetitions,
            warmup=warmup,
            roofline=raw.get("roofline", False),
            conditions=conditions,
        )
    return Network(
        name=name,
        source=source,
        trains=subjects.trains(raw),
        dtype=dtype,
        repetitions=repetitions,
        warmup=warmup,
        serving=serving.read(raw),
        conditions=conditions,
    )


def _conditions(raw: Raw) -> tuple[str, ...]:
    return tuple(word for word in catalog.CONDITIONS if raw.get(word))


def _frameworks(
    raw: Raw,
    subject: catalog.Subject,
    dtype: str,
    device: str,
    here: str,
    problems: Problems,
) -> None:
    """Note each framework that is unknown, or has the device and cannot run the subject so."""
    lacking = devices.list_lacking(raw["frameworks"], device)
    for index, name in enumerate(raw["frameworks"]):
        if name in lacking:
            continue
        message: str | None = None
        if name not in catalog.FRAMEWORKS:
            message = f"unknown framework {quote(name)}; {instead(name, subject.frameworks)}"
        elif reason := catalog.refusal(subject, name, dtype, device):
            message = reason
        else:
            message = catalog.hindrance(subject, name, _conditions(raw))
        if message:
            problems.add(f"{here}/frameworks/{index}", message)


def _limits(
    names: list[str], cases: tuple[Case, ...], device: str, here: str, problems: Problems
) -> None:
    """Note each framework that cannot keep a limit of memory, where a case sets one."""
    if not any(case.parameters.get("limit_mib") for case in cases):
        return
    for index, name in enumerate(names):
        if name in catalog.FRAMEWORKS and not catalog.reports_memory(name, device):
            message = f"{name} does not report its memory use, so limit_mib cannot be enforced"
            message += f": remove limit_mib, or {name}"
            problems.add(f"{here}/frameworks/{index}", message)


def _metrics(
    subject: catalog.Subject,
    frameworks: tuple[str, ...],
    device: str,
    besides: tuple[catalog.MetricFacts, ...],
) -> dict[str, Any]:
    """Return the metrics of a subject's trials, those besides too, and which of them frameworks
    lack.
    """
    due = {name: (*catalog.due(subject, name, device), *besides) for name in frameworks}
    every = {facts.name: facts for facts_due in due.values() for facts in facts_due}
    lacking = {
        name: frozenset(every) - {facts.name for facts in facts_due}
        for name, facts_due in due.items()
    }
    return {"metrics": tuple(map(metric_of, every.values())), "lacking": lacking}


def _cases(raw: Any, subject: catalog.Subject, here: str, problems: Problems) -> tuple[Case, ...]:
    if isinstance(raw, str):
        if raw not in subject.cases:
            known = instead(raw, subject.cases) if subject.cases else "write out its sizes"
            problems.add(here, f"{subject.name} has no set of cases {quote(raw)}; {known}")
            return ()
        return tuple(Case(name=name, parameters=sizes) for name, sizes in subject.cases[raw])
    if isinstance(raw, dict):
        return _sweep(raw, subject, here, problems)
    cases = [_point(point, subject, f"{here}/{index}", problems) for index, point in enumerate(raw)]
    names = [case.name if case else None for case in cases]
    for index, name in enumerate(names):
        if name and name in names[:index]:
            problems.add(f"{here}/{index}", f"two cases have the name {name!r}; rename one")
    return tuple(case for case in cases if case)


def _sweep(raw: Raw, subject: catalog.Subject, here: str, problems: Problems) -> tuple[Case, ...]:
    if not _parameters_fit(raw, subject, here, problems):
        return ()
    for name, sizes in raw.items():
        if (twice := commands.find_repeated(sizes)) is not None:
            problems.add(f"{here}/{name}", f"{quote(twice)} is given twice")
    if (count := math.prod(map(len, raw.values()))) > commands.MOST_CASES:
        problems.add(here, f"makes {count} cases; at most {commands.MOST_CASES} are allowed")
    if problems.below(here):
        return ()
    names = [name for name in _parameters(subject) if name in raw]
    points = itertools.product(*(raw[name] for name in names))
    return tuple(_case(dict(zip(names, values, strict=True)), subject) for values in points)


def _point(raw: Raw, subject: catalog.Subject, here: str, problems: Problems) -> Case | None:
    sizes = {name: value for name, value in raw.items() if name != "name"}
    if not _parameters_fit(sizes, subject, here, problems):
        return None
    return _case(sizes, subject, raw.get("name"))


def _case(raw: Raw, subject: catalog.Subject, name: str | None = None) -> Case:
    # 64.0 is a JSON integer too
    sizes = {
        parameter: int(raw[parameter]) for parameter in _parameters(subject) if parameter in raw
    }
    return Case(name=name or subject.name_case(sizes), parameters=sizes)


def _parameters(subject: catalog.Subject) -> dict[str, tuple[int, int | None]]:
    """Return the parameters of a case, in the order of its name, with their limits."""
    options = {option.name: (option.least, option.most) for option in subject.options}
    return dict.fromkeys(subject.parameters, (1, None)) | options


def _parameters_fit(raw: Raw, subject: catalog.Subject, here: str, problems: Problems) -> bool:
    allowed = _parameters(subject)
    for name, sizes in raw.items():
        if name not in allowed:
            known = instead(name, list(allowed))
            message = f"{subject.name} has no parameter {quote(name)}; {known}"
            problems.add(here + pointer(name[:200]), message)
            continue
        least, most = allowed[name]
        for value in sizes if isinstance(sizes, list) else [sizes]:
            if value < least or (most is not None and value > most):
                limit = f"of at least {least}" if most is None else f"from {least} to {most}"
                message = f"found {value}, expected a whole number {limit}"
                problems.add(here + pointer(name), message)
    for name in subject.parameters:
        if name not in raw:
            problems.add(here, f"the parameter {name!r} of {subject.name} is missing")
    return not problems.below(here)
