"""What lint says would let fewer runs confirm a claim, and whether that is true."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from capsule import lint, stats
from capsule.jsons import Json, JsonObject
from capsule.manifest.starter import starter
from tests.manifest.test_reader import command, read
from tests.support.command import Document, User, write_manifest, write_script

LOSS = "train/default/command/loss"
LOOK = stats.nominal_alpha(0.05, 2)


def hints(seeds: int = 5, per: str = "step", **claim: Json) -> list[str]:
    return hints_of(claim, seeds=seeds, per=per)


def hints_of(claim: JsonObject, seeds: int = 5, per: str = "step") -> list[str]:
    on_loss: JsonObject = {"metric": LOSS, "type": "equivalence", **claim}
    curve = command(metrics={"loss": {"per": per, "direction": "lower"}})
    return lint.hints(read({**curve, "claims": [on_loss], "seeds": list(range(seeds))}))


# ten published seeds


def confirmed(seeds: int, looks: tuple[int, ...], repetitions: int) -> float:
    """How often a default margin is confirmed by the last of these looks, nothing changed."""
    random = np.random.default_rng([10, seeds, *looks])
    hits = 0
    for _ in range(repetitions):
        a = stats.Runs.of(dict(enumerate(random.standard_normal(seeds))))
        fresh = random.standard_normal(looks[-1])
        margin = 2 * a.sd / stats.c4(seeds)
        for runs in looks:
            interval = stats.shift(a, stats.Runs.of(dict(enumerate(fresh[:runs]))), alpha=LOOK)
            assert interval is not None
            word = stats.decide(interval, stats.Region(lower=-margin, upper=margin)).word
            if word != "INCONCLUSIVE":
                hits += word == "REPRODUCED"
                break
    return hits / repetitions


def promised() -> tuple[dict[int, float], dict[int, float]]:
    """The shares that the sentence names for four re-runs and for eight, by published seeds."""
    numbers = [int(number) / 100 for number in re.findall(r"(\d+)(?: %|,| and)", hints()[0])]
    four, eight = numbers[-6:-3], numbers[-3:]
    seeds = (10, 5, 3)
    return dict(zip(seeds, four, strict=True)), dict(zip(seeds, eight, strict=True))


@pytest.mark.parametrize("seeds", [10, 5, 3])
def test_four_re_runs_confirm_as_often_as_the_hint_says(seeds: int) -> None:
    # four standard errors
    assert confirmed(seeds, (4,), 600) == pytest.approx(promised()[0][seeds], abs=0.08)


@pytest.mark.parametrize("seeds", [10, 5, 3])
def test_and_eight_by_the_second_look(seeds: int) -> None:
    assert confirmed(seeds, (4, 8), 120) == pytest.approx(promised()[1][seeds], abs=0.17)


def test_the_page_of_statistics_says_the_same() -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text().replace("`", "")
    assert hints()[0].partition(": ")[2].removeprefix("with ") in " ".join(page.split())


def test_ten_seeds_are_recommended_to_whoever_has_fewer_and_a_margin() -> None:
    assert "publish 10 seeds instead of 9" in hints(9)[0]
    assert not any("publish 10" in hint for hint in hints(10))
    assert not any("publish 10" in hint for hint in hints(5, type="threshold", at_most=1))
    assert lint.hints(read(starter("mine"))) == []
    assert len(json.loads(starter("mine"))["seeds"]) == 10


# means of the last evaluations


@pytest.mark.parametrize(("n", "alpha"), [(3, 0.05), (4, LOOK), (5, 0.05), (8, LOOK), (20, 0.05)])
def test_a_margin_is_confirmed_as_often_as_its_inverse_says(n: int, alpha: float) -> None:
    for power in (0.8, 0.9):
        margin = stats.narrowest_margin(n, n, alpha=alpha, power=power)
        probability = stats.confirmation_probability(margin, n, n, alpha=alpha)
        assert probability == pytest.approx(power, abs=0.02)
        assert stats.confirmation_probability(margin, 12, 90, alpha=alpha) > power - 0.02
    assert stats.confirmation_probability(9.0, 1, 1, alpha=alpha) == 0.0


def test_half_the_variance_confirms_as_the_page_of_statistics_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text()
    said = re.search(
        r"confirms in (\d+) % of cases at 5 \+ 5 runs, the first look, is confirmed in (\d+) %, and"
        r" one of (\d+) % at 3 \+ 3 in (\d+) %",
        " ".join(page.split()),
    )
    assert said is not None
    shares = [
        stats.confirmation_probability(sd, n, n, alpha=LOOK)
        for n in (5, 3)
        for sd in (2, 2 * math.sqrt(2))
    ]
    assert [int(share) / 100 for share in said.groups()] == pytest.approx(shares, abs=0.006)


def test_a_manifest_with_a_curve_is_told_of_means_and_what_they_gain() -> None:
    (_, hint) = hints(5)
    assert (
        f'{LOSS}: a single evaluation is judged, the last; the mean of the last 3, "value"' in hint
    )
    assert hint.endswith(
        "5 re-runs, the first look, confirm a margin of two sd of single evaluations in 94 % of"
        " cases, not in 59 %"
    )
    (planned,) = hints(10, looks=[4, 8])
    assert "4 re-runs, the first look" in planned


@pytest.mark.parametrize(
    "claim",
    [
        {"value": {"mean_of_last": 3}},
        {"type": "curve"},
        {"type": "exact"},
        {"type": "bound", "at_most": 1},
        {"type": "ratio"},
    ],
)
def test_no_mean_is_advised_where_there_is_one_or_can_be_none(claim: JsonObject) -> None:
    assert not any("mean of the last" in hint for hint in hints_of(claim))
    assert not any("mean of the last" in hint for hint in hints(per="call"))


@pytest.mark.parametrize(
    "claim",
    [{"type": "threshold", "at_most": 1}, {"paired": True}, {"type": "noninferiority"}],
)
def test_what_cannot_be_foretold_is_told_without_a_number_of_runs(claim: JsonObject) -> None:
    hint = hints_of(claim)[-1]
    assert hint.endswith("has 30 to 60 % of its variance on published learning curves")


# lag 1 of consecutive evaluations of published CosmoFlow and DeepCAM curves, and of what differs
# between runs a part that stays to the end
@pytest.mark.parametrize(
    ("memory", "stays", "share"), [(-0.2, 0.05, 0.29), (0.0, 0.1, 0.40), (0.3, 0.2, 0.59)]
)
def test_curves_as_independent_as_published_ones_have_that_share_of_the_variance(
    memory: float, stays: float, share: float
) -> None:
    random = np.random.default_rng(5)
    runs = math.sqrt(stays) * random.standard_normal((20_000, 1))
    wandering = random.standard_normal((20_000, 6))
    for step in range(1, 6):
        wandering[:, step] *= math.sqrt(1 - memory**2)
        wandering[:, step] += memory * wandering[:, step - 1]
    curves = runs + math.sqrt(1 - stays) * wandering
    seen = curves[:, -3:].mean(axis=1).var() / curves[:, -1].var()
    assert seen == pytest.approx(share, abs=0.015)


# from runs

CURVE = """import json, os, random
noise = random.Random(int(os.environ["CAPSULE_SEED"]))
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    for epoch in range(1, 6):
        line = {"metric": "loss", "value": 1 + noise.gauss(0, 0.1), "step": epoch}
        results.write(json.dumps(line) + "\\n")
"""


def test_a_capsule_with_curves_is_told_what_its_own_runs_say(author: User) -> None:
    write_script(author.folder, CURVE)
    benchmark: Document = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "metrics": {"loss": {"per": "step"}},
    }
    claim = {
        "metric": "tiny/default/command/loss",
        "type": "equivalence",
        "margin": {"absolute": 0.1},
    }
    manifest = write_manifest(
        author.folder, benchmarks=[benchmark], claims=[claim], seeds=list(range(12))
    )
    author.run("run", manifest)
    (capsule,) = author.folder.glob("*.capsule.zip")
    (hint,) = author.json("lint", capsule)["hints"]
    share, low, high = map(
        float, re.findall(r"has ([\d.]+) % of the variance .* \(([\d.]+) to ([\d.]+) %\)", hint)[0]
    )
    # independent noise in each evaluation: a third of the variance, in these twelve runs as well
    assert low < 33 < high
    assert low < share < high
    alone, averaged = (
        float(re.findall(rf"(\d+) %{words}", hint)[0]) for words in (" by the last", " of cases by")
    )
    assert averaged > alone + 20
    assert f"hint: {hint}" in author.run("lint", capsule).stdout
    refused = author.run("lint", capsule, "--frameworks", "command")
    assert (refused.returncode, "linted as it is" in refused.stderr) == (2, True)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_interval_of_a_ratio_of_variances_holds(correlation: float) -> None:
    random = np.random.default_rng(4)
    inside = 0
    for _ in range(1000):
        x = random.standard_normal(6)
        y = 2 * (correlation * x + math.sqrt(1 - correlation**2) * random.standard_normal(6))
        ratio = stats.variance_ratio(x.tolist(), y.tolist(), level=0.95)
        assert ratio is not None
        inside += ratio[1] <= 0.25 <= ratio[2]
    assert inside / 1000 == pytest.approx(0.95, abs=0.028)


def test_a_ratio_of_variances_needs_three_runs_that_vary() -> None:
    assert stats.variance_ratio([1.0, 2.0], [2.0, 1.0], level=0.95) is None
    assert stats.variance_ratio([1.0, 1.0, 1.0], [2.0, 1.0, 3.0], level=0.95) is None
    huge = stats.variance_ratio([1e200, 2e200, 4e200], [1e-100, 3e-100, 2e-100], level=0.95)
    assert huge is not None
    assert huge[0] == math.inf
