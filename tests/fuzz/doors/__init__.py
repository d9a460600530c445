"""The doors that inputs of strangers come through."""

from __future__ import annotations

from tests.fuzz.campaign import Door
from tests.fuzz.doors import (
    archives,
    capsules,
    checkouts,
    datasets,
    engines,
    image_files,
    images,
    manifests,
    published,
    reports,
    sites,
    talk,
    texts,
    values,
)

DOORS: tuple[Door, ...] = (
    manifests.MANIFEST,
    capsules.BYTES,
    capsules.MEMBERS,
    values.VALUES,
    reports.JOURNAL,
    reports.RESULTS,
    talk.TALK,
    texts.TEXTS,
    datasets.DATASETS,
    datasets.PREDICTIONS,
    images.REGISTRY,
    published.PUBLISHED,
    image_files.SIF,
    image_files.ARCHIVE,
    checkouts.CHECKOUT,
    sites.SITE,
    archives.ARCHIVE,
    engines.ENGINE,
)
