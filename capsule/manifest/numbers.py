"""Check of optimizers, schedules and counts of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capsule.levels.catalog import training
from capsule.manifest.model import Scalar
from capsule.manifest.problems import Problems, instead, quote
from capsule.schema import pointer

CONSTANT = {"name": "constant"}
"""The schedule of a recipe that says none."""

_COUNTS = {
    "batch": (1, 2**31 - 1),
    "epochs": (1, 1_000_000),
    "accumulate": (1, 2**31 - 1),
    "workers": (0, training.MOST_WORKERS),
}
"""The least and the most that each may be."""


def check_names(
    raw: Mapping[str, Any],
    here: str,
    problems: Problems,
    own: tuple[training.Number, ...] | None = None,
) -> None:
    """Note an optimizer or a schedule that is unknown, and numbers that it does not take.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        problems: Collects what is wrong.
        own: What an optimizer of a user's file takes; None for one of the catalogue.
    """
    if own is None:
        _check_names(raw["optimizer"], training.OPTIMIZERS, "optimizer", here, problems)
    else:
        _check_fields(raw["optimizer"], own, "file", "optimizer", here, problems)
    _check_names(raw.get("schedule", CONSTANT), training.SCHEDULES, "schedule", here, problems)


def _check_names(
    raw: Mapping[str, Any],
    known: Mapping[str, tuple[training.Number, ...]],
    what: str,
    here: str,
    problems: Problems,
) -> None:
    """Note a name that is unknown, and numbers that it does not take."""
    name = raw["name"]
    if name not in known:
        problems.add(f"{here}/{what}/name", f"unknown {what} {quote(name)}; {instead(name, known)}")
        return
    _check_fields(raw, known[name], "name", what, here, problems)


def _check_fields(
    raw: Mapping[str, Any],
    numbers: tuple[training.Number, ...],
    by: str,
    what: str,
    here: str,
    problems: Problems,
) -> None:
    names = [number.name for number in numbers]
    for field in raw.keys() - {by, "milestones", *names}:
        message = f"{raw[by]} does not accept {quote(field)}; {instead(field, names)}"
        problems.add(here + pointer(what, field[:200]), message)


def require_count(name: str, value: Scalar) -> None:
    """Refuse what is no count of its kind.

    Raises:
        ValueError: Begins with the name.
    """
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
    least, most = _COUNTS[name]
    if not whole or not least <= float(value) <= most:
        raise ValueError(f"{name} is {value!r}, expected a whole number from {least} to {most}")


def read_augmentation(raw: Mapping[str, Any], network: str) -> training.Augmentation:
    """Read the augmentation of an entry.

    Args:
        raw: Fits the schema.
        network: Name of what is trained, or a user's file.

    Raises:
        ValueError: The network takes no pictures that may be augmented.
    """
    # 4.0 is a JSON integer too
    augmentation = training.Augmentation(
        int(raw.get("crop", 0)), raw.get("flip", False), int(raw.get("cutout", 0))
    )
    if any(augmentation) and network not in training.PICTURES:
        networks = ", ".join(training.PICTURES)
        raise ValueError(f"augmentation needs a network of pictures ({networks}), found {network}")
    return augmentation
