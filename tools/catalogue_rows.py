"""Rows of tables of the reference: frameworks, optimizers and schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from capsule.levels import catalog
from capsule.levels.catalog import FrameworkFacts, collectives, schemes, training
from capsule.manifest import readings


def abilities() -> Iterator[tuple[str, ...]]:
    """Yield a row for each level and subject: what each framework does of it."""
    names, facts = catalog.FRAMEWORKS, catalog.FRAMEWORKS.values()
    trains = [training.refusal(name, "sgd", "float32") is None for name in names]
    mixes = [training.refusal(name, "sgd", training.MIXED) is None for name in names]
    searches = [training.refusal(name, "lbfgs", "float32") is None for name in names]
    modules = [training.refusal(name, "sgd", "float32", is_module=True) is None for name in names]
    ranks = [schemes.refusal(name, "sgd", "float32") is None for name in names]
    exchanges = [collectives.refuse(name, "cpu") is None for name in names]
    gradients = [one.networks and one.differentiates for one in facts]
    total = len(catalog.OPERATORS)
    yield _row(f"L0 operators, of {total}", [_count_operators(name) for name in names])
    yield _row("L0 operator of your own", [one.user_operators or False for one in facts])
    yield _row("L1 network, inference", [one.networks for one in facts])
    yield _row("L1 network, gradients", gradients)
    yield _row("L1 `torch.nn.Module`", [one.modules for one in facts])
    yield _row("L2 training", trains)
    yield _row("L2 training in `bfloat16-mixed`", mixes)
    yield _row("L2 training by `lbfgs`", searches)
    yield _row("L2 training of a `torch.nn.Module`", modules)
    yield _row("L2 optimizer of your own", [one.user_optimizers or False for one in facts])
    yield _row("L2 reading", [name == readings._FRAMEWORK for name in names])
    yield _row("L3 training by several ranks", ranks)
    yield _row("L3 collectives", exchanges)


def element_types() -> Iterator[tuple[str, ...]]:
    """Yield a row for each framework: its package and its element types."""
    for name, facts in catalog.FRAMEWORKS.items():
        yield name, facts.package, ", ".join(facts.dtypes), _cuda_types(facts)


def gaps() -> Iterator[tuple[str, ...]]:
    """Yield a row for each operator that a framework does not have everywhere."""
    for name, facts in catalog.FRAMEWORKS.items():
        for operator, reason in facts.lacks.items():
            yield name, f"`{operator}`", "everywhere", reason
        for dtype, operators in facts.inexact.items():
            shown = ", ".join(f"`{one}`" for one in operators)
            yield name, shown, dtype, "the framework is less exact than the element type"
        for operator, reason in facts.nondeterministic.items():
            shown = f"`{operator}`" if operator else "all"
            yield name, shown, "CUDA with determinism `strict`", reason


def numbers() -> Iterator[tuple[str, ...]]:
    """Yield a row for each optimizer and schedule: its numbers with their defaults."""
    for kind, entries in (("optimizer", training.OPTIMIZERS), ("schedule", training.SCHEDULES)):
        for name, takes in entries.items():
            shown = [
                f"`{one.name}` {'required' if one.default is None else f'{one.default:g}'}"
                for one in takes
            ]
            shown += ["`milestones` required"] * (name == "multistep")
            yield f"{kind} `{name}`", ", ".join(shown)


def _row(title: str, cells: Iterable[bool | str]) -> tuple[str, ...]:
    words = {True: "yes", False: "-"}
    return (title, *(cell if isinstance(cell, str) else words[cell] for cell in cells))


def _count_operators(framework: str) -> str:
    return str(sum(framework in one.frameworks for one in catalog.OPERATORS.values()))


def _cuda_types(facts: FrameworkFacts) -> str:
    return "-" if facts.cuda is None else ", ".join((*facts.dtypes, *facts.cuda))
