"""Seeds that nobody can choose: derived from a capsule's id, and from a nonce if one is given."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence

from capsule.errors import UsageError
from capsule.manifest import SEED_RANGE, Manifest

_LONGEST_NONCE = 200
# what each kind of seed follows from besides an id
_FRESH, _ADDED = "capsule-seed-2", "capsule-added-seed-1"
_WINNER = "capsule-winner-seed-1"


def fresh_seeds(
    capsule_id: str,
    originals: Sequence[int],
    *,
    count: int | None = None,
    within: tuple[int, int] = SEED_RANGE,
    nonce: str | None = None,
) -> tuple[int, ...]:
    r"""Return seeds for a verification that nobody could choose: they follow from the capsule's
    own id.

    With n the first 8 bytes, big-endian, of sha256("capsule-seed-2\n<id>\n<i>\n"), or with a nonce
    of sha256("capsule-seed-2\n<id>\n<nonce>\n<i>\n"), seed i is low + n mod (high - low + 1),
    i = 0, 1, 2, ...; one that equals a seed of the original, or an earlier fresh one, is skipped.

    Args:
        capsule_id: 64 lower-case hex digits.
        originals: Seeds of the original.
        count: How many; as many as the original has by default.
        within: Lowest and highest seed that the benchmarks take.
        nonce: A word that the seeds follow from as well, None for none.

    Raises:
        UsageError: There are not so many seeds that the original has not used, or the nonce is
            none: see `require_nonce`.

    >>> fresh_seeds("0" * 64, [17, 18])
    (783472872, 1128986798)
    """
    if nonce is not None:
        require_nonce(nonce)
    wanted = len(originals) if count is None else count
    low, high = within
    taken = {seed for seed in originals if low <= seed <= high}
    if wanted > (left := high - low + 1 - len(taken)):
        raise UsageError(
            f"not enough seeds: {wanted} fresh seeds needed, seed_range {low} to {high} has {left}"
            " left",
            advice=_advise(left),
        )
    source = capsule_id if nonce is None else f"{capsule_id}\n{nonce}"
    return tuple(itertools.islice(_derive(source, taken, within), wanted))


def added_seeds(
    capsule_id: str,
    originals: Sequence[int],
    *,
    count: int,
    within: tuple[int, int] = SEED_RANGE,
) -> tuple[int, ...]:
    r"""Return seeds that an author adds to a run that was sealed, and cannot choose.

    As `fresh_seeds`, of sha256("capsule-added-seed-1\n<id>\n<i>\n"): no verifier draws the same.

    Args:
        capsule_id: 64 lower-case hex digits.
        originals: Seeds of the run.
        count: Number of seeds.
        within: Lowest and highest seed that the benchmarks take.

    Raises:
        UsageError: There are not so many seeds left.

    >>> added_seeds("0" * 64, [17, 18], count=2) == fresh_seeds("0" * 64, [17, 18])
    False
    """
    low, high = within
    taken = {seed for seed in originals if low <= seed <= high}
    if count > (left := high - low + 1 - len(taken)):
        raise UsageError(
            f"not enough seeds: {count} more needed, seed_range {low} to {high} has {left} left",
            advice=_advise(left),
        )
    return tuple(itertools.islice(_derive(capsule_id, taken, within, _ADDED), count))


def winner_seeds(
    capsule_id: str,
    originals: Sequence[int],
    *,
    count: int,
    within: tuple[int, int] = SEED_RANGE,
) -> tuple[int, ...]:
    r"""Return seeds under which the winner of a search is run again, which its author cannot
    choose.

    As `fresh_seeds`, of sha256("capsule-winner-seed-1\n<id>\n<i>\n").

    Args:
        capsule_id: Id of the search's capsule, 64 lower-case hex digits.
        originals: Seeds of the search.
        count: Number of seeds.
        within: Lowest and highest seed that the benchmark takes.

    Raises:
        UsageError: There are not so many seeds left.

    >>> winner_seeds("0" * 64, [17, 18], count=2) == fresh_seeds("0" * 64, [17, 18])
    False
    """
    low, high = within
    taken = {seed for seed in originals if low <= seed <= high}
    if count > (left := high - low + 1 - len(taken)):
        raise UsageError(
            f"not enough seeds: {count} needed, seed_range {low} to {high} has {left} left",
            advice=_advise(left),
        )
    return tuple(itertools.islice(_derive(capsule_id, taken, within, _WINNER), count))


def require_winner(manifest: Manifest) -> None:
    """Check that a search's winner runs under the seeds derived from the search.

    Args:
        manifest: Manifest to check; one without `winner_of` passes.

    Raises:
        UsageError: The seeds differ from the seeds derived from the search.
    """
    winner = manifest.winner_of
    if winner is None:
        return
    due = winner_seeds(
        winner.capsule, winner.seeds, count=len(manifest.seeds), within=manifest.seed_range
    )
    for seed, derived in zip(manifest.seeds, due, strict=True):
        if seed == derived:
            continue
        raise UsageError(
            f"found seed {seed}, expected seed {derived}, which capsule derives from the search:"
            " an author could choose seeds that favour the winner",
            where="/seeds",
            advice="write the manifest with `capsule sweep winner SEARCH --seeds N`",
        )


def require_nonce(word: str) -> None:
    """Check that a nonce is printable and unambiguous.

    Raises:
        UsageError: It is empty or too long, has characters that no one sees, or a space at an end.
    """
    if not 0 < len(word) <= _LONGEST_NONCE or not word.isprintable() or word != word.strip():
        raise UsageError(
            f"invalid nonce {word[:_LONGEST_NONCE]!r}, expected 1 to {_LONGEST_NONCE} printable"
            " characters without a space at either end",
            advice="give the word exactly as announced, for example --nonce 'SC26 committee 7'",
        )


def _advise(left: int) -> str:
    """Return the way out of a range that has too few seeds left."""
    return (
        f"use at most {left} new seed{'s' * (left > 1)}"
        if left
        else "widen seed_range in the manifest"
    )


def _derive(
    source: str, taken: set[int], within: tuple[int, int], rule: str = _FRESH
) -> Iterator[int]:
    low, high = within
    for index in itertools.count():
        text = f"{rule}\n{source}\n{index}\n"
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        seed = low + number % (high - low + 1)
        if seed not in taken:
            taken.add(seed)
            yield seed
