"""Fetch everything that a later run without network needs."""

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
    """Result of staging: the engine, and the image and datasets on this machine.

    Attributes:
        runtime: Name of the engine.
        image: Staged image; None without a container.
        handle: Name of the image in the engine; empty without a container.
        datasets: Staged datasets, with their digests.
        data: Path of each dataset that the capsule itself does not contain, by name.
        cache: Cache folder; a machine without network needs access to this folder.
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
    """Fetch image and datasets for a later run of a manifest or verification of a capsule.

    Args:
        source: A manifest, or the path of a capsule.
        options: Engine, image and consent.
        watch: Receiver of progress.

    Raises:
        UsageError: The capsule does not exist, or engine and image do not fit together.
        DamagedError: Fetched bytes differ from their digest.
        UntrustedError: The capsule is untrusted, and `options.trust` is not set.
        ExecutionError: The disk has no room for the capsule's files.
        CannotRunError: No engine works on this machine; or the image or a dataset cannot be
            fetched, and everything else is staged.
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
    """Fetch the image and find or make the datasets; a login node needs no devices for that."""
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
            f"{first.what}{others}; capsule staged everything else",
            where=first.where,
            advice=first.advice,
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
    """Find a dataset on this machine, or fetch it from its address."""
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
    """Keep the documents that identify a registry's image; other images are found by path."""
    digest = image.index_digest or image.manifest_digest
    if image.pinned is None or digest is None:
        return
    kept.keep((image.index, image.manifest, image.config), cache)
    named = parse(image.reference)
    if named.digest is None:
        kept.note_tag(str(named), digest)
