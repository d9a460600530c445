"""What ranks would exchange on a machine of any size, as a user asks about it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import capsule.levels
from capsule import process
from capsule.errors import BugError, CannotRunError, CapsuleError, ManifestError, UsageError
from capsule.levels.catalog import schemes
from capsule.manifest import LEVEL_OF_RANKS, Manifest, Recipe, recipes
from capsule.manifest.kinds import Scheme

CAVEAT = (
    "counted at the call, over torch's process group `fake`: counts are those of so many ranks,"
    " values and times would not be"
)


_MOST_SECONDS = 3600.0
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True)
class Count:
    """What one rank exchanges in a training.

    Attributes:
        benchmark: Its id.
        case: Its name.
        scheme: Its name.
        numbers: All that the scheme takes.
        elements: Of all trained parameters.
        item: Bytes of each.
        ranks: How many there are.
        rank: Which of them, from 0.
        bytes_sent: In each step.
        bytes_received: In each step.
        messages: In each step.
    """

    benchmark: str
    case: str
    scheme: str
    numbers: Mapping[str, float]
    elements: int
    item: int
    ranks: int
    rank: int
    bytes_sent: tuple[int, ...]
    bytes_received: tuple[int, ...]
    messages: tuple[int, ...]


@dataclass(frozen=True)
class _Training:
    benchmark: str
    case: str
    recipe: Recipe
    scheme: Scheme

    def request(self) -> Mapping[str, object]:
        """As the program that counts takes it."""
        settings = self.recipe.settings[self.case]
        chosen = recipes.to_json(settings)
        return {
            "network": self.recipe.name,
            "sizes": {**settings.sizes, "batch": settings.batch_norm_group or 1},
            "dtype": self.recipe.dtype,
            "optimizer": chosen["optimizer"],
            # whatever carries it, it is as much
            "scheme": self.scheme._replace(over=None).to_json(),
        }

    def read(self, row: Mapping[str, Any]) -> Count:
        """What the program answers of a rank."""
        return Count(
            benchmark=self.benchmark,
            case=self.case,
            scheme=self.scheme.name,
            numbers=self.scheme.numbers,
            ranks=row["ranks"],
            rank=row["rank"],
            elements=row["elements"],
            item=row["item"],
            **{name: tuple(row[name]) for name in schemes.TRAFFIC},
        )


def count(manifest: Manifest, worlds: Sequence[int]) -> Sequence[Count]:
    """Count what the trainings of a manifest would exchange among so many ranks.

    Of each the first rank is played and the last, of up to four all. Every rank takes one sample a
    step, or one group that is normalized together: bytes do not depend on it.

    Args:
        manifest: With a training of Level 3.
        worlds: Numbers of ranks.

    Raises:
        ManifestError: It has no such training, or one that ranks cannot share.
        CannotRunError: This machine has no torch that can count.
        BugError: What was counted is not what the scheme exchanges by its definition.
    """
    trainings = tuple(_find(manifest))
    if not trainings:
        raise ManifestError(
            "has no training of which ranks exchange anything",
            where=manifest.name,
            advice=f'one has "level": {LEVEL_OF_RANKS} and a scheme, as in manifests/level3.json',
        )
    program = Path(capsule.levels.__file__).parent
    request = {"trainings": [one.request() for one in trainings], "worlds": list(worlds)}
    done = process.run(
        [sys.executable, "-P", str(program), "count", "traffic"],
        input_bytes=json.dumps(request).encode(),
        timeout_seconds=_MOST_SECONDS,
        limit_bytes=_MOST_BYTES,
    )
    if done.exit_code != 0:
        raise _explain(done.exit_code, done.stderr.decode(errors="replace").strip())
    answers = json.loads(done.stdout)
    counts = [
        training.read(row)
        for training, rows in zip(trainings, answers, strict=True)
        for row in rows
    ]
    for one in counts:
        hold(one)
    return counts


def hold(count: Count) -> None:
    """See that a rank exchanges what its scheme is defined to exchange.

    Raises:
        BugError: It does not.
    """
    columns = count.bytes_sent, count.bytes_received, count.messages
    for step, counted in enumerate(zip(*columns, strict=True), 1):
        place = count.rank, count.ranks, count.elements, count.item, step
        if counted != (due := schemes.traffic(count.scheme, count.numbers, *place)):
            raise BugError(
                f"rank {count.rank} of {count.ranks} exchanges {counted} in step {step} of"
                f" {count.scheme}, and {due} by its definition",
                where=f"{count.benchmark}/{count.case}",
            )


def _find(manifest: Manifest) -> Iterator[_Training]:
    for benchmark in manifest.benchmarks:
        match benchmark.subject:
            case Recipe(level=level) as recipe if level == LEVEL_OF_RANKS:
                for case, settings in recipe.settings.items():
                    assert settings.scheme is not None
                    meaning = schemes.SCHEMES[settings.scheme.name]
                    if meaning.independent:
                        continue
                    if meaning.splits_network:
                        raise ManifestError(
                            f"{settings.scheme.name} ranks share the network, and what they"
                            " exchange is counted of numbers of ranks that can, in a run",
                            where=f"{manifest.name}: {benchmark.id}/{case}",
                            advice="leave it out, or `capsule run` it at the numbers of ranks"
                            " that you have",
                        )
                    yield _Training(benchmark.id, case, recipe, settings.scheme)


def _explain(status: int | None, message: str) -> CapsuleError:
    """What the program ended with, as an error."""
    if status == 2:
        return UsageError(message)
    if status == 6:
        return CannotRunError(
            f"cannot count what ranks exchange: {message.replace('this image', 'this Python')}",
            where=sys.executable,
            advice="it takes torch: `pip install 'capsule-hpc[torch]'`",
        )
    return BugError(message)


def draw(counts: Sequence[Count]) -> Iterator[str]:
    """The counts in lines, those of ranks that exchange the same in one."""
    tables: dict[str, dict[tuple[int, ...], list[int]]] = {}
    for one in counts:
        size = f"{one.elements * one.item:,} bytes of parameters"
        title = f"{one.benchmark}/{one.case}: {one.scheme}, {size}; in {len(one.messages)} steps"
        row = one.ranks, sum(one.bytes_sent), sum(one.bytes_received), sum(one.messages)
        tables.setdefault(title, {}).setdefault(row, []).append(one.rank)
    for title, rows in tables.items():
        yield title
        yield f"  {'ranks':>11}  {'bytes sent':>15}  {'received':>19}  {'messages':>8}  by rank"
        for (ranks, sent, received, messages), alike in rows.items():
            numbers = f"{ranks:11,}  {sent:15,}  {received:19,}  {messages:8,}"
            yield f"  {numbers}  {', '.join(map(str, alike))}"
    yield CAVEAT
