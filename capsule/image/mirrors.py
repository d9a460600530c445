"""Fetch an image from where this site keeps copies, and from its own registry where that fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from capsule.image import Image
from capsule.image.reference import Reference, parse


@dataclass(frozen=True, kw_only=True)
class Access:
    """Access to registries from this machine.

    Attributes:
        mirrors: Host of a registry -> `HOST[:PORT][/PATH]` that has the same images.
        cache: Folder that keeps documents for machines without a network, None for none.
    """

    mirrors: Mapping[str, str] = field(default_factory=dict)
    cache: Path | None = None


def find(reference: Reference, mirrors: Mapping[str, str]) -> Reference | None:
    """Return the same image on the mirror of its registry, None where that has none.

    >>> str(find(parse("docker://debian:12"), {"docker.io": "site.example:5000/hub"}))
    'docker://site.example:5000/hub/library/debian:12'
    """
    mirror = mirrors.get(reference.registry)
    if mirror is None:
        return None
    host, _, path = mirror.partition("/")
    repository = f"{path}/{reference.repository}" if path else reference.repository
    return replace(reference, registry=host, repository=repository)


def reroute(image: Image, mirrors: Mapping[str, str]) -> Image | None:
    """Return an image that an engine would fetch from a mirror, by the same digest; None without
    one.
    """
    if image.pinned is None:
        return None
    mirror = find(parse(f"docker://{image.pinned}"), mirrors)
    if mirror is None or mirror.digest is None:
        return None
    return replace(image, pinned=mirror.pin(mirror.digest))
