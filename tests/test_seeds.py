"""Seeds follow from an id and a rule, and nobody chooses them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from capsule import seeds
from capsule.errors import UsageError
from capsule.manifest.model import Winner
from tests.support.records import make_manifest

ID = "ab" * 32
Rule = Callable[..., tuple[int, ...]]


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        (seeds.fresh_seeds, (303869571, 1523094218)),
        (seeds.added_seeds, (1753080548, 2068447963)),
        (seeds.winner_seeds, (908977996, 1272228305)),
    ],
)
def test_each_rule_draws_its_own_seeds(rule: Rule, first: tuple[int, ...]) -> None:
    assert rule(ID, [17, 18], count=2) == first
    # one of the run's is skipped, and so is one that came before
    assert rule(ID, [first[0], 18], count=1) == first[1:]


@pytest.mark.parametrize("rule", [seeds.fresh_seeds, seeds.added_seeds, seeds.winner_seeds])
def test_a_range_gives_as_many_seeds_as_it_has_and_no_more(rule: Rule) -> None:
    within = (3, 9)
    # of these originals three are in the range, at both of its ends
    originals = [3, 5, 9, 2, 10, 77]
    assert set(rule(ID, originals, count=4, within=within)) == {4, 6, 7, 8}
    assert rule(ID, [], count=1, within=(3, 3)) == (3,)
    with pytest.raises(UsageError, match=r"5 .*needed, .*seed_range 3 to 9 has 4 left"):
        rule(ID, originals, count=5, within=within)


def test_a_winner_has_the_seeds_that_follow_from_its_search() -> None:
    due = seeds.winner_seeds(ID, [1, 2], count=5)
    winner = Winner(capsule=ID, point="p1", seeds=(1, 2))
    seeds.require_winner(make_manifest())
    seeds.require_winner(replace(make_manifest(due), winner_of=winner))
    for others in ((*due[:4], due[4] + 1), due[::-1], (1, 2, 3, 4, 5)):
        with pytest.raises(
            UsageError, match=r"expected seed [0-9]+, which capsule derives from the search"
        ) as refusal:
            seeds.require_winner(replace(make_manifest(others), winner_of=winner))
        assert refusal.value.where == "/seeds"


@pytest.mark.parametrize("word", ["x", "SC26 committee 7", "é" * 200])
def test_a_nonce_is_a_word_that_all_read_alike(word: str) -> None:
    seeds.require_nonce(word)
    drawn = seeds.fresh_seeds(ID, [17, 18], nonce=word)
    assert drawn == seeds.fresh_seeds(f"{ID}\n{word}", [17, 18])
    assert drawn != seeds.fresh_seeds(ID, [17, 18])


@pytest.mark.parametrize("word", ["", "x" * 201, " x", "x ", "a\tb", "a\u200bb"])
def test_what_two_people_could_read_differently_is_no_nonce(word: str) -> None:
    with pytest.raises(UsageError, match="invalid nonce"):
        seeds.fresh_seeds(ID, [17, 18], nonce=word)
