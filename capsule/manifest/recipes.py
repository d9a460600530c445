"""Turn an entry of Level 2 into a benchmark: how a network is trained, case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capsule.levels import catalog
from capsule.levels.catalog import schemes, training
from capsule.manifest import closed, commands, scaling, search, subjects, trained
from capsule.manifest.facts import metric_of
from capsule.manifest.kinds import LEVEL_OF_RANKS, Recipe, Scheme, Search, Settings, Target
from capsule.manifest.model import Benchmark, Case, Metric
from capsule.manifest.numbers import CONSTANT, check_names, read_augmentation, require_count
from capsule.manifest.problems import Problems, instead, quote
from capsule.manifest.trained import Trained
from capsule.schema import pointer

Raw = Mapping[str, Any]
Lacking = Mapping[str, frozenset[str]]
_DTYPES = ("float32", "tf32", training.MIXED)
_OWN = ("batch", "epochs", "accumulate", "workers")


def read(
    raw: Raw, here: str, device: str, files: subjects.Files, problems: Problems
) -> Benchmark | None:
    """Return one entry that fits the schema, or None after noting what is wrong with it.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        device: `cpu` or `cuda`, which decides what can be trained.
        files: Where a user's file is read from.
        problems: Collects what is wrong.
    """
    dtype = raw.get("dtype", "float32")
    network = trained.read(raw, here, files, problems)
    if network is None:
        return None
    for place, reason in trained.refusals(raw, network, dtype, device, here):
        problems.add(place, reason)
    if dtype not in _DTYPES or (dtype == "tf32" and device != "cuda"):
        message = f"training in {quote(dtype)} on {device} is not supported; use float32"
        problems.add(f"{here}/dtype", message)
    _check_tuning(raw, network, device, here, problems)
    _check_scheme(raw, network, dtype, device, here, problems)
    target = _target(raw.get("target"), network, f"{here}/target", problems)
    cases = _cases(raw, here, problems)
    check_names(raw, here, problems, network.numbers(raw) if network.optimizer else None)
    if problems.below(here):
        return None
    settings = _settings_of(raw, cases, network, target, here, problems)
    closed.check(raw, settings, here, problems)
    if problems.below(here):
        return None
    facts = training.metrics(
        network.quality,
        has_target=target is not None,
        stops=target is not None and target.stop,
        is_module=network.module is not None,
        mixed=dtype == training.MIXED,
        has_formula=network.has_formula,
        copies=device == "cuda",
    )
    if scheme := raw.get("scheme"):
        facts += schemes.metrics(scheme["name"])
    lacking = {
        name: frozenset(
            one.name
            for one in facts
            if one.needs == "memory" and not catalog.reports_memory(name, device)
        )
        for name in raw["frameworks"]
    }
    metrics = tuple(map(metric_of, facts))
    searched = search.read(raw, metrics, here, problems)
    return _benchmark(raw, network, cases, settings, metrics, lacking, searched)


def restate(
    raw: Raw,
    here: str,
    cases: tuple[Case, ...],
    metrics: tuple[Metric, ...],
    lacking: Lacking,
    module: Raw | None,
    optimizer: Raw | None,
    planned: Mapping[str, Raw] | None,
    problems: Problems,
) -> Benchmark | None:
    """Return the benchmark with the plan's statements; trainings follow from the manifest.

    So the default of a number never changes. One that a later version adds is not in older plans,
    and has the default that makes no difference.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        cases: As the plan has them.
        metrics: Likewise.
        lacking: Likewise.
        module: What it says of a user's network, as `trained.to_json` gave it.
        optimizer: What it says of a user's optimizer, likewise.
        planned: What `to_json` gave for each case, by its name; None where no plan was made yet.
        problems: Collects where the two contradict each other.
    """
    network = trained.restate(raw, module, optimizer, here, problems)
    if network is None:
        return None
    # a plan has no device, and CPUs have every scheme
    _check_scheme(raw, network, raw.get("dtype", "float32"), "cpu", here, problems)
    if (own := _cases(raw, here, problems)) != cases:
        found, due = (quote([dict(case.parameters) for case in side]) for side in (cases, own))
        message = f"the plan has the cases {found}, expected {due} as in the manifest"
        problems.add(f"{here}/cases", message)
    if problems.below(here):
        return None
    settings = _all_settings(raw, network, cases, here, problems)
    closed.check(raw, settings, here, problems)
    for name, made in settings.items():
        if planned is None:
            continue
        if name not in planned:
            problems.add(here, f"the plan lacks the training of the case {name}")
        elif not _is_part(planned[name], whole := to_json(made)):
            message = f"the plan's training of the case {name} differs from the manifest's"
            problems.add(here, message + _difference(planned[name], whole))
    searched = search.read(raw, metrics, here, problems)
    if problems.below(here):
        return None
    return _benchmark(raw, network, cases, settings, metrics, lacking, searched)


def _is_part(planned: Any, whole: Any) -> bool:
    """Return whether all that a plan says stands in what was made anew, field by field."""
    if not isinstance(planned, Mapping):
        return bool(planned == whole)
    return isinstance(whole, Mapping) and all(
        name in whole and _is_part(value, whole[name]) for name, value in planned.items()
    )


def _difference(planned: Any, whole: Mapping[str, Any]) -> str:
    """Return the first field in which a plan contradicts what was made anew, and both values."""
    if not isinstance(planned, Mapping):
        return f": found {quote(planned)}, expected {quote(whole)}"
    name = next(name for name, value in planned.items() if not _is_part({name: value}, whole))
    expected = quote(whole[name]) if name in whole else "no such field"
    return f" in {quote(name)}: found {quote(planned[name])}, expected {expected}"


def to_json(settings: Settings) -> dict[str, Any]:
    """Return the settings as plans and jobs have them."""
    target = settings.target
    return {
        "sizes": dict(settings.sizes),
        "batch": settings.batch,
        "epochs": settings.epochs,
        "optimizer": {_origin(settings.optimizer): settings.optimizer, **settings.numbers},
        "schedule": {
            "name": settings.schedule,
            **settings.schedule_numbers,
            **({"milestones": list(settings.milestones)} if settings.milestones else {}),
        },
        **({"accumulate": settings.accumulate} if settings.accumulate > 1 else {}),
        **({"target": {"value": target.value, "stop": target.stop}} if target else {}),
        **({"checkpoint_epochs": settings.checkpoint_epochs} if settings.checkpoint_epochs else {}),
        # as plans have it from before there were others
        **({"sampler": settings.sampler} if settings.sampler != "shuffled" else {}),
        **({"workers": settings.workers} if settings.workers else {}),
        **({"augmentation": made._asdict()} if any(made := settings.augmentation) else {}),
        **({"tuning": _tuning_to_json(settings.tuning)} if any(settings.tuning) else {}),
        **({"scheme": one.to_json()} if (one := settings.scheme) else {}),
        **({"batch_norm_group": settings.batch_norm_group} if settings.batch_norm_group else {}),
        **({"ranks": settings.ranks} if settings.ranks else {}),
    }


def _tuning_to_json(tuning: training.Tuning) -> dict[str, bool | str]:
    return {name: value for name, value in tuning._asdict().items() if value}


def _origin(optimizer: str) -> str:
    """Return the field that names an optimizer: no name in the catalogue ends as a file's does."""
    return "name" if optimizer in training.OPTIMIZERS else "file"


def checkpoint_epochs(benchmark: Benchmark, case: str) -> int | None:
    """After how many epochs each a trial can be taken up again, None where it cannot."""
    settings = benchmark.subject.settings if isinstance(benchmark.subject, Recipe) else {}
    return settings[case].checkpoint_epochs if case in settings else None


def has_checkpoint(benchmark: Benchmark, case: str, epochs: int) -> bool:
    """Return whether a trial can be taken up after so many epochs; after the last one there is no
    need.
    """
    settings = benchmark.subject.settings if isinstance(benchmark.subject, Recipe) else {}
    every = checkpoint_epochs(benchmark, case)
    return every is not None and not epochs % every and epochs < settings[case].epochs


def _benchmark(
    raw: Raw,
    network: Trained,
    cases: tuple[Case, ...],
    settings: Mapping[str, Settings],
    metrics: tuple[Metric, ...],
    lacking: Lacking,
    searched: Search | None,
) -> Benchmark:
    return Benchmark(
        id=raw["id"],
        subject=Recipe(
            name=network.name,
            dtype=raw.get("dtype", "float32"),
            settings=settings,
            module=network.module,
            own_optimizer=network.optimizer,
        ),
        cases=cases,
        frameworks=tuple(raw["frameworks"]),
        inputs=tuple(raw.get("inputs", ())),
        datasets=tuple(raw["datasets"]),
        metrics=metrics,
        lacking=lacking,
        # thousands of trials that last a second each would wait for imports most of their time
        isolation=raw.get("isolation", "group" if searched else "trial"),
        search=searched,
        scaling=scaling.read(raw, cases),
    )


def _cases(raw: Raw, here: str, problems: Problems) -> tuple[Case, ...]:
    # no word of a training has placeholders
    return commands.write_out(raw.get("cases"), f"{here}/cases", problems, reserved=())


def _check_scheme(
    raw: Raw, network: Trained, dtype: str, device: str, here: str, problems: Problems
) -> None:
    """Note a scheme that is none, or that what is trained cannot have."""
    scheme = raw.get("scheme")
    if "batch_norm_group" in raw and raw["level"] != LEVEL_OF_RANKS:
        message = f"batch_norm_group needs level 3, found level {raw['level']}"
        message += "; in one process, use accumulate"
        problems.add(f"{here}/batch_norm_group", message)
    if (scheme is not None) != (raw["level"] == LEVEL_OF_RANKS):
        message = (
            "a training of level 2 has no scheme; set level 3"
            if scheme
            else 'level 3 needs a scheme: add for example "scheme": {"name": "allreduce"}'
        )
        problems.add(here, message)
    elif scheme and scheme["name"] not in schemes.SCHEMES:
        message = f"no scheme {quote(scheme['name'])}; {instead(scheme['name'], schemes.SCHEMES)}"
        problems.add(f"{here}/scheme/name", message)
    elif scheme:
        known = ["name", "over", *(one.name for one in schemes.SCHEMES[scheme["name"]].numbers)]
        for name in set(scheme) - set(known):
            message = f"{scheme['name']} does not accept {quote(name)}; {instead(name, known)}"
            problems.add(f"{here}/scheme" + pointer(name[:200]), message)
        if no := schemes.refuse_device(scheme["name"], device):
            problems.add(f"{here}/scheme/name", no)
        if "over" in scheme and (no := schemes.refuse_over(scheme["name"], device)):
            problems.add(f"{here}/scheme/over", no)
        if "checkpoint_epochs" in raw and (no := schemes.refuse_checkpoints(scheme["name"])):
            problems.add(f"{here}/checkpoint_epochs", no)
        if no := schemes.refuse_optimizer(scheme["name"], raw["optimizer"].get("name", "")):
            problems.add(f"{here}/optimizer", no)
        for index, framework in enumerate(raw["frameworks"]):
            how = framework, raw["optimizer"].get("name", ""), dtype
            if reason := schemes.refusal(*how, is_module=network.module is not None):
                problems.add(f"{here}/frameworks/{index}", reason)


def _check_tuning(raw: Raw, network: Trained, device: str, here: str, problems: Problems) -> None:
    """Note choices that a framework, the device or the optimizer cannot have."""
    optimizer = network.optimizer.path if network.optimizer else raw["optimizer"]["name"]
    for name in raw["frameworks"]:
        no = training.refuse_tuning(
            _read_tuning(raw),
            name,
            device,
            optimizer,
            is_module=network.module is not None,
            by_ranks=raw["level"] == LEVEL_OF_RANKS,
        )
        if no:
            problems.add(f"{here}/tuning", no)


def _read_scheme(raw: Raw | None) -> Scheme | None:
    if raw is None:
        return None
    numbers = schemes.SCHEMES[raw["name"]].numbers
    return Scheme(raw["name"], training.complete(numbers, raw), raw.get("over"))


def _target(raw: Raw | None, network: Trained, here: str, problems: Problems) -> Target | None:
    if raw is None:
        return None
    quality = network.quality
    if raw["metric"] != quality:
        problems.add(
            f"{here}/metric",
            f"found {raw['metric']}, expected {quality}, the quality of {network.name}",
        )
    wanted = "at_most" if training.is_error(quality) else "at_least"
    if wanted not in raw:
        problems.add(here, f"a {_better(quality)} {quality} is better: write {wanted}")
        return None
    return Target(value=raw[wanted], stop=raw.get("stop", False))


def _better(quality: str) -> str:
    return "lower" if training.is_error(quality) else "higher"


def _all_settings(
    raw: Raw, network: Trained, cases: Sequence[Case], here: str, problems: Problems
) -> dict[str, Settings]:
    """Return the settings of each case by name; incomplete if something is wrong."""
    target = _target(raw.get("target"), network, f"{here}/target", problems)
    check_names(raw, here, problems, network.numbers(raw) if network.optimizer else None)
    if problems.below(here):
        return {}
    return _settings_of(raw, cases, network, target, here, problems)


def _settings_of(
    raw: Raw,
    cases: Sequence[Case],
    network: Trained,
    target: Target | None,
    here: str,
    problems: Problems,
) -> dict[str, Settings]:
    scaling.check(raw, cases, here, problems)
    settings: dict[str, Settings] = {}
    if problems.below(here):
        return settings
    for index, case in enumerate(cases):
        if made := _settings(raw, case, network, target, _place(raw, index, here), problems):
            settings[case.name] = made
        elif "search" in raw:
            # what is wrong with one point is so with thousands
            break
    return settings


def _settings(
    raw: Raw, case: Case, network: Trained, target: Target | None, here: str, problems: Problems
) -> Settings | None:
    """Return the settings of one case: the entry's fields, overridden by the case."""
    optimizer, schedule = raw["optimizer"], raw.get("schedule", CONSTANT)
    numbers = network.numbers(raw)
    schedule_numbers = training.SCHEDULES[schedule["name"]]
    options = network.options
    known = (
        *_OWN,
        scaling.RANKS,
        *sorted(options),
        *(one.name for one in (*numbers, *schedule_numbers)),
    )
    for name in case.parameters:
        if name not in known:
            message = f"a case cannot vary {quote(name)}; {instead(name, known)}"
            problems.add(here + pointer(name[:200]), message)
    if problems.below(here):
        return None
    whole = {
        **{"accumulate": 1, "workers": 0},
        **{name: raw[name] for name in _OWN if name in raw},
        **case.parameters,
    }
    # 14.0 is a JSON integer too
    sizes = {
        name: int(value) if isinstance(value, float) and value % 1 == 0 else value
        for name, value in case.parameters.items()
        if name in options
    }
    try:
        for name in _OWN:
            require_count(name, whole[name])
        ranks, accumulate = scaling.read_ranks(case), int(whole["accumulate"])
        batch = int(whole["batch"]) * (ranks or 1 if raw.get("scaling") == "weak" else 1)
        require_count("batch", batch)
        if batch % accumulate:
            raise ValueError(f"accumulate {accumulate} does not divide batch {batch}")
        if accumulate > 1 and network.module:
            raise ValueError("accumulate does not work for a torch.nn.Module: remove accumulate")
        return Settings(
            sizes=network.check(sizes),
            batch=batch,
            epochs=int(whole["epochs"]),
            optimizer=network.optimizer.path if network.optimizer else optimizer["name"],
            numbers=training.complete(numbers, {**optimizer, **case.parameters}),
            schedule=schedule["name"],
            schedule_numbers=training.complete(schedule_numbers, {**schedule, **case.parameters}),
            target=target,
            milestones=training.read_milestones(schedule["name"], schedule.get("milestones")),
            accumulate=accumulate,
            checkpoint_epochs=int(raw["checkpoint_epochs"]) if "checkpoint_epochs" in raw else None,
            sampler=raw.get("sampler", "shuffled"),
            workers=int(whole["workers"]),
            augmentation=read_augmentation(raw.get("augmentation", {}), network.name),
            tuning=_read_tuning(raw),
            scheme=_read_scheme(raw.get("scheme")),
            batch_norm_group=int(raw["batch_norm_group"]) if "batch_norm_group" in raw else None,
            ranks=ranks,
        )
    except ValueError as error:
        problems.add(here, str(error))
        return None


def _read_tuning(raw: Raw) -> training.Tuning:
    return training.Tuning(**raw.get("tuning", {}))


def _place(raw: Raw, index: int, here: str) -> str:
    """Return the place of the entry's `index`-th case."""
    cases = raw.get("cases")
    if cases is None:
        return here
    if "search" in raw:
        return f"{here}/search/space"
    return f"{here}/cases/{index}" if isinstance(cases, Sequence) else f"{here}/cases"
