"""No input of a stranger's ends but by our own errors; what once did is sent again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import campaign
from tests.fuzz.campaign import Door
from tests.fuzz.doors import DOORS
from tests.support.long_run import COUNT, COVERS
from tests.support.properties import scaled

_LONG_SECONDS = 3600
_DOORS = pytest.mark.parametrize("door", [pytest.param(door, id=door.name) for door in DOORS])


@pytest.mark.parametrize(
    ("door", "path"),
    [pytest.param(door, path, id=path.name) for door, path in campaign.kept(DOORS)],
)
def test_what_was_a_fault_is_none_any_more(door: Door, path: Path) -> None:
    fault = campaign.send(door, path.read_bytes())
    assert fault is None, fault.trace


def _send_many(door: Door, random: Random, enough: Callable[[int], bool]) -> int:
    count = 0
    for fault in campaign.run(door, random, enough=enough):
        if fault is not None:
            pytest.fail(f"{fault.trace}\nkept as {fault.keep(campaign.KEPT)}")
        count += 1
    return count


@_DOORS
def test_an_odd_input_ends_by_our_own_errors(door: Door) -> None:
    sent = _send_many(door, Random(door.name), lambda count: count >= door.inputs)
    assert sent == door.inputs


@pytest.mark.long
@_DOORS
def test_an_hour_of_odd_inputs_ends_by_our_own_errors(
    door: Door, record_property: Callable[[str, object], None]
) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    enough = campaign.until(scaled(_LONG_SECONDS) / len(DOORS))
    count = _send_many(door, Random(seed), enough)
    record_property(COVERS, f"odd inputs sent to a door: {door.name}")
    record_property(COUNT, count)
