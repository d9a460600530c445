"""Container engines, one module each."""

from __future__ import annotations

from capsule.errors import CannotRunError, UsageError
from capsule.runtimes.base import Availability, Runtime

NAMES = ("apptainer", "docker", "podman", "host")
_ENGINES = ("apptainer", "docker", "podman")


def choose(name: str, *, needs_image: bool) -> Runtime:
    """Return the engine of that name, or with `auto` the first one that is usable here.

    `auto` never runs a manifest's image uncontained: without an engine it stops. For a manifest
    without an image it is `host`, since an engine has nothing to start.

    Args:
        name: `auto`, or one of `NAMES`.
        needs_image: True if there is an image to run.

    Raises:
        UsageError: No such engine.
        CannotRunError: The engine cannot be used here, or under `auto` none can; says why.
    """
    if name == "auto":
        return _first() if needs_image else make("host")
    runtime = make(name)
    availability = runtime.available()
    if not availability.usable:
        raise CannotRunError(
            f"{name} does not work on this machine: {availability.reason}",
            advice="choose another engine, or --runtime auto for the first engine that works",
        )
    return runtime


def available_all() -> dict[str, Availability]:
    """Return every engine, and whether it can be used here."""
    return {name: make(name).available() for name in NAMES}


def engines() -> list[Runtime]:
    """Return every engine that starts images, whether it is usable here or not."""
    return [make(name) for name in _ENGINES]


def make(name: str) -> Runtime:
    """Return the engine of that name, whether it is usable here or not.

    Raises:
        UsageError: No such engine.
    """
    if name == "apptainer":
        from capsule.runtimes.apptainer import Apptainer

        return Apptainer()
    if name == "docker":
        from capsule.runtimes.docker import Docker

        return Docker()
    if name == "podman":
        from capsule.runtimes.podman import Podman

        return Podman()
    if name == "host":
        from capsule.runtimes.host import Host

        return Host()
    raise UsageError(f"no such engine: {name!r}", advice=f"choose auto, {', '.join(NAMES)}")


def _first() -> Runtime:
    reasons = []
    for name in _ENGINES:
        runtime = make(name)
        availability = runtime.available()
        if availability.usable:
            return runtime
        reasons.append(f"{name}: {availability.reason}")
    raise CannotRunError(
        f"no engine on this machine can run the manifest's image ({'; '.join(reasons)})",
        advice="install an engine, or measure this machine's own software with --runtime host",
    )
