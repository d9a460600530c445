"""How a SIF is made: packed fast where engine and kernel can, and once for any other fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capsule.errors import CannotRunError
from capsule.runtimes.conversion import convert
from tests.support.records import make_image

FAST = "--mksquashfs-args -comp zstd -Xcompression-level 1"
ENGINE = """#!/bin/sh
if [ "$2" = --help ]; then echo "{help}"; exit; fi
echo "$*" >>"{folder}/calls"
case "$*" in *zstd*) {fast};; *) {plain};; esac
for last in "$@"; do target=$before; before=$last; done
echo made >"$target"
"""


@pytest.fixture
def engine(tmp_path: Path) -> Callable[..., str]:
    def make(flags: str = "--mksquashfs-args string", fast: str = ":", plain: str = ":") -> str:
        path = tmp_path / "apptainer"
        path.write_text(ENGINE.format(help=flags, folder=tmp_path, fast=fast, plain=plain))
        path.chmod(0o755)
        return str(path)

    return make


def calls(folder: Path) -> list[str]:
    return [
        "fast" if FAST in line else "plain" for line in (folder / "calls").read_text().splitlines()
    ]


def fail(words: str) -> str:
    return f"echo 'FATAL: {words}' >&2; exit 255"


@pytest.mark.parametrize(
    ("options", "refusal", "expected"),
    [
        ({}, None, ["fast"]),
        ({"flags": "no such flag"}, None, ["plain"]),
        ({"fast": fail("while creating squashfs: no compressor zstd")}, None, ["fast", "plain"]),
        ({}, "failed to mount squashfs image", ["fast", "plain"]),
        ({}, "no user namespaces here", ["fast"]),
    ],
)
def test_it_is_packed_fast_where_engine_and_kernel_can(
    engine: Callable[..., str],
    options: dict[str, str],
    refusal: str | None,
    expected: list[str],
    tmp_path: Path,
) -> None:
    target = tmp_path / "made.sif"
    convert(make_image(), target, program=engine(**options), try_start=lambda _: refusal)
    assert target.read_text() == "made\n"
    assert calls(tmp_path) == expected


def test_what_cannot_be_fetched_is_asked_for_once(
    engine: Callable[..., str], tmp_path: Path
) -> None:
    fault = fail("dial tcp: connection refused")
    program = engine(fast=fault, plain=fault)
    with pytest.raises(CannotRunError, match="cannot pull the image: dial tcp") as error:
        convert(make_image(), tmp_path / "made.sif", program=program, try_start=lambda _: None)
    assert "cannot reach" in str(error.value.advice)
    assert calls(tmp_path) == ["fast"]
