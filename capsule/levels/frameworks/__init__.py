"""Frameworks behind one small interface, each imported only by the job that needs it."""

from __future__ import annotations

import sys
from importlib import import_module, util

from ..catalog import FRAMEWORKS
from .base import Framework, FrameworkError


def load(name: str, device: str, threads: int | None, determinism: str) -> Framework:
    """Import a framework and bring it into the state that a job asks for.

    Args:
        name: One of `catalog.FRAMEWORKS`.
        device: `cpu` or `cuda`.
        threads: Threads inside one operation; None leaves the framework's own choice.
        determinism: `default`, or `strict` for deterministic algorithms only.

    Raises:
        FrameworkError: It is unknown, not installed, or has no such device.
    """
    if name not in FRAMEWORKS:
        raise FrameworkError(f"unknown framework {name!r}; known: {', '.join(FRAMEWORKS)}")
    facts = FRAMEWORKS[name]
    if util.find_spec(facts.package) is None:
        raise FrameworkError(
            f"{name} is not installed for the measuring Python, {sys.executable}: install {name},"
            " or use an image that has it"
        )
    module = import_module(f".{facts.module}", __package__)
    framework: Framework = module.create(device, threads, determinism)
    return framework


__all__ = ["Framework", "FrameworkError", "load"]
