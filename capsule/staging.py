"""Bring here, while there is a network, what a run that connects to nothing will need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capsule import places, reading, rerun
from capsule import resolve as resolving
from capsule import site as sites
from capsule.datasets import fetching
from capsule.errors import CannotRunError
from capsule.image import Image, kept
from capsule.image.reference import parse
from capsule.manifest import DatasetSpec, Manifest
from capsule.options import StageOptions, VerifyOptions
from capsule.record import Dataset
from capsule.resolve import Choice, Request
from capsule.site import Site
from capsule.trust import policy as trust
from capsule.watch import SILENT, Watch


@dataclass(frozen=True, kw_only=True)
class Staged:
    """What is here now.

    Attributes:
        runtime: Name of the engine.
        image: None without a container.
        handle: What the engine calls it.
        datasets: With their digests.
        data: Where each lies that no capsule carries.
        cache: The folder that a machine without a network has to see, too.
    """

    runtime: str
    image: Image | None
    handle: str
    datasets: tuple[Dataset, ...]
    data: Mapping[str, Path]
    cache: Path


def stage(
    source: str | Path | Manifest, options: StageOptions = StageOptions(), watch: Watch = SILENT
) -> Staged:
    """Bring here what a run of a manifest, or a verification of a capsule, would fetch.

    Args:
        source: A manifest, or the path of a capsule.
        options: As for that run.
        watch: Follows what takes long.

    Raises:
        UsageError: There is no such capsule, or engine and image do not fit together.
        DamagedError: What was fetched is not what its digest promises.
        UntrustedError: It is a stranger's, and nobody said that its image may be started.
        ExecutionError: There is no room for what it carries.
        CannotRunError: Something cannot be had; all else was brought.
    """
    if isinstance(source, Manifest):
        request = Request.of(
            source, options.runtime, options.image, keep_keyring=options.keep_keyring
        )
        return _bring(request, resolving.choose(request), watch)
    with reading.read(Path(source), options.id) as original, places.scratch() as scratch:
        code = trust.of_capsule(original, own_levels=False)
        wanted = VerifyOptions(
            runtime=options.runtime, image=options.image, keep_keyring=options.keep_keyring
        )
        request = rerun.request(original, wanted, scratch)
        prospect = rerun.prospect(original, rerun.plan(original, wanted), wanted, own=code.own)
        choice = trust.require_consent(code, request, options, prospect, watch)
        rerun.lay_out(original, request)
        return _bring(request, choice, watch)


def _bring(request: Request, choice: Choice, watch: Watch) -> Staged:
    """Fetch the image and find or make the data; devices are no matter on a login node."""
    site, image = sites.load(), choice.image
    cache = sites.cache_folder(site)
    records: list[Dataset] = []
    data: dict[str, Path] = {}
    missing: list[CannotRunError] = []
    for spec in request.datasets:
        try:
            dataset, place = _obtain(spec, request, site, watch, own=choice.own)
            records.append(dataset)
            if dataset.source != "capsule":
                data[spec.name] = place
        except CannotRunError as error:
            missing.append(error)
    handle = ""
    if image is not None:
        _keep(image, cache)
        prepared = resolving.obtain_image(choice, site, watch, keep_keyring=request.keep_keyring)
        handle = prepared.handle
    if missing:
        others = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        first = missing[0]
        raise CannotRunError(
            f"{first.what}{others}; all else is staged", where=first.where, advice=first.advice
        )
    return Staged(
        runtime=choice.runtime.name,
        image=image,
        handle=handle,
        datasets=tuple(records),
        data=data,
        cache=cache,
    )


def _obtain(
    spec: DatasetSpec, request: Request, site: Site, watch: Watch, *, own: bool
) -> tuple[Dataset, Path]:
    """A dataset that is here, or that its address has."""
    try:
        return resolving.obtain_dataset(spec, request, site, watch)
    except CannotRunError:
        if spec.url is None:
            raise
    used = {one.name: one for one in request.used.datasets} if request.used else {}
    fetching.fetch(
        spec,
        used=used.get(spec.name),
        folder=request.manifest.folder,
        site=site,
        cache=sites.cache_folder(site),
        own=own,
    )
    return resolving.obtain_dataset(spec, request, site, watch)


def _keep(image: Image, cache: Path) -> None:
    """Keep what an image of a registry is known by; any other is found where it lies."""
    digest = image.index_digest or image.manifest_digest
    if image.pinned is None or digest is None:
        return
    kept.keep((image.index, image.manifest, image.config), cache)
    named = parse(image.reference)
    if named.digest is None:
        kept.note_tag(str(named), digest)
