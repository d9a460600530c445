"""Claims as an author writes them: what is read, what is refused, what lint foretells."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from capsule import lint, stats
from capsule.jsons import Json, JsonObject
from capsule.lint.outlook import Outlook
from capsule.manifest import Margin, Published
from tests.manifest.test_reader import BASE, command, complaint, read, variant

LOSS, EPOCHS = "train/default/command/loss", "train/default/command/epochs"


def with_claim(**claim: Json) -> JsonObject:
    return variant(claims=[{"metric": "gemm/*/torch/l2_error", "type": "equivalence", **claim}])


def on_loss(**claim: Json) -> JsonObject:
    return with_claim(metric=LOSS, **claim)


@pytest.mark.parametrize(
    ("claim", "fields"),
    [
        ({"margin": {"sd": 1.5}}, {"margin": Margin(sd=1.5)}),
        ({"margin": {"preset": "strict"}}, {"margin": Margin(preset="strict")}),
        ({"looks": [3, 6, 12]}, {"looks": (3, 6, 12), "paired": False, "resolution": None}),
        ({"paired": True, "resolution": 0.5}, {"paired": True, "resolution": 0.5, "looks": ()}),
        (
            {"type": "distribution", "margin": {"distance": 0.1}},
            {"type": "distribution", "margin": Margin(distance=0.1)},
        ),
        ({"type": "curve"}, {"type": "curve", "margin": None}),
        ({"type": "bound", "at_least": 2}, {"at_least": 2.0, "at_most": None, "primary": True}),
        (
            {"type": "prediction", "published": {"mean": 0.7, "sd": 0.1}},
            {"published": Published(mean=0.7, sd=0.1, n=None)},
        ),
        (
            {"type": "prediction", "published": {"mean": 1, "sd": 0, "n": 5.0}},
            {"published": Published(mean=1.0, sd=0.0, n=5)},
        ),
    ],
)
def test_a_claim_is_read_into_values(claim: JsonObject, fields: Mapping[str, object]) -> None:
    (actual,) = read(on_loss(**claim)).claims
    assert {name: getattr(actual, name) for name in fields} == fields


MISTAKES: dict[str, tuple[JsonObject, list[str]]] = {
    "no such claim type": (with_claim(type="equivalance"), ["did you mean 'equivalence'?"]),
    "three segments": (
        with_claim(metric="gemm/torch/l2_error"),
        ["/claims/0/metric", "the case is missing", '"gemm/*/torch/l2_error"'],
    ),
    "three segments without the framework": (
        with_claim(metric="train/default/loss"),
        ["the framework is missing", 'for example "train/default/command/loss"'],
    ),
    "three segments without the benchmark": (
        with_claim(metric="default/command/loss"),
        ["the benchmark is missing", 'for example "train/default/command/loss"'],
    ),
    "three segments of which one is misspelled": (
        with_claim(metric="traim/default/loss"),
        [
            "expected the four of benchmark/case/framework/metric,",
            'for example "train/default/command/loss"',
        ],
    ),
    "one segment": (with_claim(metric="loss"), ["has 1 segment,", '"train/default/command/loss"']),
    "five segments": (with_claim(metric="a/b/c/d/e"), ["has 5 segments,", "for example"]),
    "a number for a margin": (
        on_loss(margin=0.02),
        ['0.02: write {"absolute": 0.02} in the metric', '{"relative": 0.02} as a part'],
    ),
    "a text for a margin": (
        on_loss(margin="5 %"),
        ['"5 %": write {"absolute": 0.1} in the metric'],
    ),
    "a truth for a margin": (on_loss(margin=True), ['true: write {"absolute": 0.1}']),
    "three segments of a command": (
        with_claim(metric="train/command/loss"),
        ['"train/default/command/loss"'],
    ),
    "no such metric": (
        with_claim(metric="gem/*/torch/l2_eror"),
        ["matches no metric", 'did you mean "gemm/*/torch/l2_error"?'],
    ),
    "no such framework": (
        with_claim(metric="gemm/*/qqq/l2_error"),
        ['no framework "qqq"; there are: torch, numpy'],
    ),
    "part of a segment": (with_claim(metric="gemm/m*/torch/l2_error"), ["matches no metric"]),
    "ratio of one": (
        with_claim(margin={"ratio": 1}),
        ["/claims/0/margin/ratio", "1 is too small: write a value above 1"],
    ),
    "no margin": (
        with_claim(margin={}),
        ["exactly one of absolute, relative, ratio, sd, preset and distance"],
    ),
    "two margins": (with_claim(margin={"ratio": 2, "absolute": 1}), ["exactly one of absolute"]),
    "margin of a threshold": (
        with_claim(type="threshold", at_most=1, margin={"ratio": 2}),
        ["a margin is for claims of equivalence, noninferiority"],
    ),
    "threshold of nothing": (with_claim(type="threshold"), ["exactly one of at_most and at_least"]),
    "two thresholds": (
        with_claim(type="threshold", at_most=1, at_least=0),
        ["exactly one of at_most and at_least"],
    ),
    "a constant of no threshold": (
        with_claim(at_most=1),
        ["are for claims of type threshold and bound"],
    ),
    "bound of nothing": (with_claim(type="bound"), ["exactly one of at_most and at_least"]),
    "margin of a bound": (
        with_claim(type="bound", at_most=1, margin={"ratio": 2}),
        ["a margin is for claims of equivalence, noninferiority"],
    ),
    "looks at a bound": (
        with_claim(type="bound", at_most=1, looks=[3, 6]),
        ["exact, bound and ratio claims have no looks"],
    ),
    "resolution of a bound": (
        with_claim(type="bound", at_most=1, resolution=0.5),
        ["claims have no resolution"],
    ),
    "paired bound": (
        with_claim(type="bound", at_most=1, paired=True),
        ["only claims of equivalence and noninferiority can be paired"],
    ),
    "mean without threshold": (with_claim(mean="geometric"), ["mean is for threshold claims"]),
    "geometric mean of at most nothing": (
        with_claim(type="threshold", at_most=0, mean="geometric"),
        ["/claims/0/at_most", "0 is too small: write a value above 0"],
    ),
    "geometric mean of a count": (
        with_claim(
            metric="train/default/command/epochs", type="threshold", at_most=9, mean="geometric"
        ),
        ["is a count, and a count of 0"],
    ),
    "alpha": (with_claim(alpha=0), ["/claims/0/alpha"]),
    "no direction": (
        with_claim(metric="train/default/command/epochs", type="noninferiority"),
        ["noninferiority needs lower or higher"],
    ),
    "distance of a shift": (
        on_loss(margin={"distance": 0.1}),
        ["distance is for claims of type distribution"],
    ),
    "distribution without a distance": (
        on_loss(type="distribution", margin={"absolute": 1}),
        ["/claims/0/margin", "'distance' is missing"],
    ),
    "distribution without a margin": (on_loss(type="distribution"), ["'margin' is missing"]),
    "distance of one": (
        on_loss(type="distribution", margin={"distance": 1}),
        ["1 is too large: write a value below 1"],
    ),
    "preset": (on_loss(margin={"preset": "stict"}), ["did you mean 'strict'?"]),
    "alpha of a half": (on_loss(alpha=0.5), ["0.5 is too large: write a value below 0.5"]),
    "one look": (on_loss(looks=[3]), ["/claims/0/looks", "at least 2"]),
    "four looks": (on_loss(looks=[3, 4, 5, 6]), ["/claims/0/looks", "found 4, expected at most 3"]),
    "an early look": (on_loss(looks=[2, 6]), ["/claims/0/looks/0", "2 is below the minimum, 3"]),
    "looks backwards": (
        on_loss(looks=[6, 3]),
        ["/claims/0/looks", "the looks [6, 3] do not increase"],
    ),
    "different looks": (
        variant(
            claims=[
                {"metric": LOSS, "type": "equivalence", "looks": [3, 6]},
                {"metric": EPOCHS, "type": "equivalence", "looks": [3, 7]},
            ]
        ),
        ["/claims/1/looks", "expected the looks of all claims", "[3, 6]"],
    ),
    "looks of an exact claim": (
        on_loss(type="exact", looks=[3, 6]),
        ["exact, bound and ratio claims have no looks"],
    ),
    "looks of pairs": (
        on_loss(paired=True, looks=[3, 6]),
        ["a paired claim repeats the original's seeds"],
    ),
    "a paired curve": (
        on_loss(type="curve", paired=True),
        ["/claims/0/paired", "only claims of equivalence and noninferiority can be paired"],
    ),
    "published for equivalence": (
        on_loss(published={"mean": 1, "sd": 1}),
        ["published is for claims of type prediction"],
    ),
    "published without a spread": (
        on_loss(type="prediction", published={"mean": 1}),
        ["/claims/0/published", "'sd' is missing"],
    ),
    "a ratio of nothing": (
        on_loss(type="prediction", published={"mean": 0, "sd": 1}, margin={"ratio": 2}),
        ["a ratio needs a positive mean"],
    ),
    "a curve of an operator": (with_claim(type="curve"), ["/claims/0/metric", "has no steps"]),
    "resolution of exact values": (
        on_loss(type="exact", resolution=1),
        ["claims have no resolution"],
    ),
    "a test set of nothing": (
        command(metrics={"accuracy": {"test_set": 0}}),
        ["/benchmarks/0/metrics/accuracy/test_set", "0 is below the minimum, 1"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str) -> None:
    document, expected = MISTAKES[name]
    message = complaint(document)
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize("margin", [0.1, 3, "5 %", None, [0.1], True])
def test_only_a_claim_on_a_distribution_hears_of_one(margin: Json) -> None:
    assert "distance is for claims of" not in complaint(on_loss(margin=margin))


def test_looks_that_are_the_same_for_all_claims_may_be_left_out_of_some() -> None:
    small = read(
        variant(
            claims=[
                {"metric": LOSS, "type": "equivalence"},
                {"metric": EPOCHS, "type": "equivalence", "looks": [3, 6]},
            ]
        )
    )
    assert [claim.looks for claim in small.claims] == [(), (3, 6)]


# lint


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (variant(seeds=[1]), ("one-seed", {})),
        (with_claim(), ("too-few-seeds", {"seeds": 3, "rerun_seeds": 6, "margin": 2})),
        (variant(claims=[]), ("no-claims", {})),
        (with_claim(primary=False), ("no-primary-claim", {})),
        (
            variant(image={"reference": "docker://localhost:5000/torch:1"}),
            ("image-undigested", {"reference": "docker://localhost:5000/torch:1"}),
        ),
        (
            variant(datasets={"points": {"path": "points"}}),
            ("dataset-undigested", {"dataset": "points"}),
        ),
        (with_claim(metric="gemm/*/*/forward_time"), ("machine-equivalence", {})),
        (with_claim(metric=EPOCHS, margin={"absolute": 1}), ("margin-below-steps", {"step": 1})),
        (
            with_claim(metric=EPOCHS, margin={"absolute": 2}),
            ("margin-on-step", {"step": 1, "better": 2.5}),
        ),
        (
            on_loss(resolution=0.5, margin={"absolute": 0.6}),
            ("margin-below-steps", {"step": 0.5, "margin": 0.6}),
        ),
        (
            with_claim(metric="gemm/*/*/gradient_check", type="threshold", at_most=1),
            ("threshold-on-bound", {}),
        ),
        (variant(datasets={"points": {"path": "x", "format": "idx"}}), ("format-unused", {})),
        (on_loss(type="curve"), ("curve-few-seeds", {"found": 3, "seeds": 5})),
        (on_loss(paired=True), ("paired-alone", {"of": LOSS})),
    ],
)
def test_lint_warns(document: JsonObject, expected: tuple[str, JsonObject]) -> None:
    code, facts = expected
    found = [dict(one.facts) for one in lint.warnings(read(document)) if one.code == code]
    assert any(facts.items() <= one.items() for one in found)


@pytest.mark.parametrize("margin", [1.5, 2.5, 17, 20.25])
def test_a_margin_between_steps_or_of_many_steps_is_no_matter(margin: float) -> None:
    document = {**with_claim(metric=EPOCHS, margin={"absolute": margin}), "seeds": list(range(9))}
    assert not any("step" in warning.code for warning in lint.warnings(read(document)))


LEVEL = stats.default_alpha(0.05)


def outlook(seeds: int = 6, **claim: Json) -> Outlook:
    (one,) = lint.outlook(read({**on_loss(**claim), "seeds": list(range(seeds))}))
    return one


def narrowest(one: Outlook) -> tuple[float, float]:
    assert one.narrowest is not None
    return one.narrowest


@pytest.mark.parametrize(
    ("seeds", "margin", "said"),
    [
        (6, None, "6 runs per side, margin 2 sd {unit}: sometimes enough{look}; 8 runs per side"),
        (8, None, "8 runs per side, margin 2 sd {unit}: usually enough{look}"),
        (3, None, "3 seeds and 6 fresh seeds, margin 2 sd {unit}: "),
        (6, {"sd": 0.1}, "margin 0.1 sd {unit}: seldom enough{look}; more than 50 runs per side"),
        (1, None, "1 runs per side, margin 2 sd {unit}: one run gives no spread"),
    ],
)
def test_the_outlook_says_whether_runs_are_enough_for_a_margin_in_spreads(
    seeds: int, margin: JsonObject | None, said: str
) -> None:
    one = outlook(seeds, margin=margin) if margin else outlook(seeds)
    # a first look of three runs confirms nothing, and the second is the only one
    level = 0.05 if seeds == 3 else LEVEL
    assert (one.metric, one.seeds, one.alpha) == (LOSS, seeds, level)
    assert (one.narrowest, one.runs) == (None, (None, None))
    unit = "(sd: standard deviation between the original's runs)"
    assert said.format(unit=unit, look=" at the first look") in one.sentence
    assert "probability" not in one.sentence


@pytest.mark.parametrize(
    ("margin", "runs"),
    [({"preset": "strict"}, 23), ({"preset": "middle"}, 12), ({"sd": 2.8}, 5), (None, 8)],
)
def test_the_outlook_of_presets_is_the_table_of_the_specification(
    margin: JsonObject | None, runs: int
) -> None:
    words = [
        (outlook(seeds, margin=margin) if margin else outlook(seeds)).enough
        for seeds in (runs - 1, runs)
    ]
    assert words == ["sometimes", "usually"]


def test_more_runs_confirm_a_narrower_margin_and_looks_cost_some_of_it() -> None:
    one: JsonObject = {"absolute": 1}
    narrow = [narrowest(outlook(seeds, margin=one))[0] for seeds in (3, 5, 10, 30)]
    assert narrow == sorted(narrow, reverse=True)
    planned, more = outlook(margin=one, looks=[3, 6]), outlook(margin=one, looks=[3, 4, 6])
    assert planned.rerun_seeds == more.rerun_seeds == 6
    assert planned.alpha == pytest.approx(0.0303, abs=2e-4)
    assert narrowest(more)[0] > narrowest(planned)[0] > narrowest(outlook(margin=one))[0]


@pytest.mark.parametrize(
    ("margin", "shown", "scatter"),
    [
        ({"relative": 0.05}, "5 %", ("2.17 %", "1.94 %")),
        ({"absolute": 5}, "5", ("2.17", "1.94")),
        ({"absolute": 5000}, "5000", ("2170", "1940")),
        ({"ratio": 1.05}, "factor 1.05", ("factor 1.0214", "factor 1.0191")),
        (
            {"ratio": 1e300},
            "factor 1e+300",
            ("factor 4.02e+130", "factor 4.85e+116"),
        ),
        ({"absolute": 5e-324}, "4.94066e-324", ("0", "0")),
        ({"absolute": 1e308}, "1e+308", ("4.35e+307", "3.88e+307")),
    ],
)
def test_a_margin_in_other_units_tells_the_spread_that_it_bears(
    margin: Mapping[str, float], shown: str, scatter: tuple[str, str]
) -> None:
    one = outlook(5, margin=margin)
    assert (one.margin, one.runs) == (None, (None, None))
    assert one.sentence == (
        f"{LOSS}: 5 seeds suffice for a margin of {shown} at the first look if runs have a standard"
        f" deviation below {scatter[0]} (80 % chance to confirm it; 90 %: below {scatter[1]})"
    )


@pytest.mark.parametrize("margin", [{"relative": 0.05}, {"absolute": 0.31}, {"ratio": 1.5}])
def test_the_spread_that_is_told_is_one_that_the_margin_bears(margin: Mapping[str, float]) -> None:
    one = outlook(7, margin=margin)
    (size,) = margin.values()
    number = float(
        one.sentence.partition("below ")[2].removeprefix("factor ").split()[0].strip(",")
    )
    bears = {"relative": number / 100, "absolute": number, "ratio": math.log(number)}
    size = math.log(size) if "ratio" in margin else size
    assert 0.9 * size < narrowest(one)[0] * bears[next(iter(margin))] <= size


def test_one_run_confirms_nothing_and_a_constant_has_no_outlook() -> None:
    alone = outlook(1, margin={"absolute": 1})
    assert alone.narrowest is None
    assert alone.sentence.endswith(
        "can be confirmed: the margin 1 needs at least two runs per side"
    )
    assert lint.outlook(read(on_loss(type="threshold", at_most=1))) == ()


def test_a_bound_is_told_which_share_of_bad_runs_its_seeds_leave() -> None:
    (one,) = lint.outlook(read(on_loss(type="bound", at_most=1)))
    assert (one.margin, one.narrowest, one.runs) == (None, None, (None, None))
    assert one.sentence == (
        f"{LOSS}: one run beyond the bound is DIFFERENT; if 3 re-runs keep the bound, at most"
        " 63.2 % of all runs break it (95 % confidence), 10 % after 29 re-runs, 5 % after 59"
        " re-runs"
    )


def test_published_runs_are_one_side_and_count_as_three_when_nobody_tells() -> None:
    known = outlook(type="prediction", published={"mean": 1, "sd": 1, "n": 9})
    unknown = outlook(type="prediction", published={"mean": 1, "sd": 1})
    assert (known.seeds, unknown.seeds, known.rerun_seeds) == (9, 3, 6)
    assert ": 3 published runs and 6 seeds, margin 2 sd" in unknown.sentence


def test_a_distribution_is_told_in_runs_whose_shares_scatter_so_far() -> None:
    one = outlook(type="distribution", margin={"distance": 0.2})
    low, high = (stats.narrowest_margin(6, 6, alpha=LEVEL, power=power) for power in (0.8, 0.9))
    assert one.narrowest == (low, high)
    assert one.runs == (stats.samples_for_sd(0.2 / low), stats.samples_for_sd(0.2 / high))
    assert "suffice for a margin of distance 0.2 at one threshold at the first look" in one.sentence
    assert f"need {one.runs[0]} independent samples each" in one.sentence


def test_a_distribution_of_one_run_is_confirmed_by_nothing() -> None:
    one = outlook(1, type="distribution", margin={"distance": 0.2})
    assert (one.narrowest, one.runs) == (None, (None, None))
    assert "the margin distance 0.2 needs at least two runs per side" in one.sentence


def test_the_base_document_has_an_outlook_for_each_claim_that_runs_decide() -> None:
    assert [one.metric for one in lint.outlook(read(BASE))] == [LOSS]
