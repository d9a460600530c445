"""Set mutable fields, or another device, of a capsule's manifest for a verification."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from capsule.errors import UsageError
from capsule.manifest import mutable
from capsule.manifest.model import Manifest, Scalar
from capsule.manifest.otherdevice import OTHERS
from capsule.manifest.reader import read


def change(
    manifest: Manifest,
    changed: Mapping[str, Scalar],
    subjects: Sequence[Mapping[str, Any]],
    device: str | None = None,
) -> Manifest:
    """Return a manifest out of a capsule, with what whoever verifies sets of its mutable part.

    Args:
        manifest: As its author wrote it; its text stays.
        changed: JSON pointer to value.
        subjects: What the capsule's plan says of cases and metrics; see `read`.
        device: Device of the verification, `cpu` or `cuda`; None for the capsule's.

    Returns:
        The same manifest if nothing changes.

    Raises:
        UsageError: A value is fixed, or what stands there already.
        ManifestError: It makes no valid manifest.
    """
    other_device = _find_other_device(manifest, device)
    is_moved = other_device != manifest.other_device
    if not changed and not is_moved:
        return manifest
    _, refusals = mutable.put(json.loads(manifest.source), changed)
    for pointer, reason in refusals.items():
        # the other reasons say what to write
        advice = f"leave --set {pointer} out" if reason.startswith("it ") else None
        raise UsageError(f"--set {pointer}: {reason}", where=pointer, advice=advice)
    # how trainings go is what may have been changed, and what runs on a device with the device
    open_subjects = [
        {
            **subject,
            **({"recipes": None} if changed and "recipes" in subject else {}),
            **({"refusals": None} if is_moved else {}),
        }
        for subject in subjects
    ]
    words = [f"{key}={value}" for key, value in changed.items()]
    words += [f"--device {device}"] * is_moved
    return read(
        manifest.source,
        where=f"{manifest.name} with {', '.join(words)}",
        folder=None,
        subjects=open_subjects,
        changed=changed or manifest.changed,
        device=other_device,
    )


def _find_other_device(manifest: Manifest, device: str | None) -> str | None:
    """Return the device that takes the place of the author's; None for the author's."""
    if device is None:
        return manifest.other_device
    own = manifest.resources.device
    author = own if manifest.other_device is None else OTHERS[own]
    return None if device == author else device
