"""The doors that inputs of strangers come through."""

from __future__ import annotations

from tests.fuzz.campaign import Door
from tests.fuzz.doors import capsules, checkouts, images, manifests, reports, values

DOORS: tuple[Door, ...] = (
    manifests.MANIFEST,
    capsules.BYTES,
    capsules.MEMBERS,
    values.VALUES,
    reports.JOURNAL,
    reports.RESULTS,
    images.REGISTRY,
    checkouts.CHECKOUT,
)
