"""Claims as an author writes them: what is read, what is refused, what lint foretells."""

import math

import pytest

from capsule import lint
from capsule.manifest import Margin, Published
from tests.manifest.test_reader import BASE, changed, command, read, told

LOSS, EPOCHS = "train/default/command/loss", "train/default/command/epochs"


def claimed(**claim):
    return changed(claims=[{"metric": "gemm/*/torch/l2_error", "type": "equivalence", **claim}])


def on_loss(**claim):
    return claimed(metric=LOSS, **claim)


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
def test_a_claim_is_read_into_values(claim, fields):
    (found,) = read(on_loss(**claim)).claims
    assert {name: getattr(found, name) for name in fields} == fields


MISTAKES = {
    "no such claim type": (claimed(type="equivalance"), ["did you mean 'equivalence'?"]),
    "three segments": (
        claimed(metric="gemm/torch/l2_error"),
        ["/claims/0/metric", "the case is missing", '"gemm/*/torch/l2_error"'],
    ),
    "three segments without the framework": (
        claimed(metric="train/default/loss"),
        ["the framework is missing", 'for example "train/default/command/loss"'],
    ),
    "three segments without the benchmark": (
        claimed(metric="default/command/loss"),
        ["the benchmark is missing", 'for example "train/default/command/loss"'],
    ),
    "three segments of which one is misspelled": (
        claimed(metric="traim/default/loss"),
        [
            "not the four of benchmark/case/framework/metric,",
            'for example "train/default/command/loss"',
        ],
    ),
    "one segment": (claimed(metric="loss"), ["has 1 segment,", '"train/default/command/loss"']),
    "five segments": (claimed(metric="a/b/c/d/e"), ["has 5 segments,", "for example"]),
    "a number for a margin": (
        on_loss(margin=0.02),
        ['0.02: write {"absolute": 0.02} for so much', '{"relative": 0.02} for such a part'],
    ),
    "a text for a margin": (on_loss(margin="5 %"), ['"5 %": write {"absolute": 0.1} for so much']),
    "a truth for a margin": (on_loss(margin=True), ['true: write {"absolute": 0.1}']),
    "three segments of a command": (
        claimed(metric="train/command/loss"),
        ['"train/default/command/loss"'],
    ),
    "no such metric": (
        claimed(metric="gem/*/torch/l2_eror"),
        ["matches no metric", 'did you mean "gemm/*/torch/l2_error"?'],
    ),
    "no such framework": (
        claimed(metric="gemm/*/qqq/l2_error"),
        ['no framework "qqq"; there are: torch, numpy'],
    ),
    "part of a segment": (claimed(metric="gemm/m*/torch/l2_error"), ["matches no metric"]),
    "ratio of one": (claimed(margin={"ratio": 1}), ["/claims/0/margin/ratio", "not more than 1"]),
    "no margin": (
        claimed(margin={}),
        ["exactly one of absolute, relative, ratio, sd, preset and distance"],
    ),
    "two margins": (claimed(margin={"ratio": 2, "absolute": 1}), ["exactly one of absolute"]),
    "margin of a threshold": (
        claimed(type="threshold", at_most=1, margin={"ratio": 2}),
        ["a margin belongs to claims of equivalence, noninferiority"],
    ),
    "threshold of nothing": (claimed(type="threshold"), ["exactly one of at_most and at_least"]),
    "two thresholds": (
        claimed(type="threshold", at_most=1, at_least=0),
        ["exactly one of at_most and at_least"],
    ),
    "bound without threshold": (claimed(at_most=1), ["belong to threshold claims"]),
    "alpha": (claimed(alpha=0), ["/claims/0/alpha"]),
    "no direction": (
        claimed(metric="train/default/command/epochs", type="noninferiority"),
        ["noninferiority needs a direction"],
    ),
    "distance of a shift": (
        on_loss(margin={"distance": 0.1}),
        ["a distance is the margin of claims on a distribution"],
    ),
    "distribution without a distance": (
        on_loss(type="distribution", margin={"absolute": 1}),
        ["/claims/0/margin", "'distance' is missing"],
    ),
    "distribution without a margin": (on_loss(type="distribution"), ["'margin' is missing"]),
    "distance of one": (
        on_loss(type="distribution", margin={"distance": 1}),
        ["1 is not less than 1"],
    ),
    "preset": (on_loss(margin={"preset": "stict"}), ["did you mean 'strict'?"]),
    "alpha of a half": (on_loss(alpha=0.5), ["0.5 is not less than 0.5"]),
    "one look": (on_loss(looks=[3]), ["/claims/0/looks", "at least 2"]),
    "four looks": (on_loss(looks=[3, 4, 5, 6]), ["/claims/0/looks", "more than 3"]),
    "an early look": (on_loss(looks=[2, 6]), ["/claims/0/looks/0", "2 is less than 3"]),
    "looks backwards": (
        on_loss(looks=[6, 3]),
        ["/claims/0/looks", "each look needs more seeds than the one before"],
    ),
    "different looks": (
        changed(
            claims=[
                {"metric": LOSS, "type": "equivalence", "looks": [3, 6]},
                {"metric": EPOCHS, "type": "equivalence", "looks": [3, 7]},
            ]
        ),
        ["/claims/1/looks", "all claims share a re-execution's seeds", "[3, 6]"],
    ),
    "looks of an exact claim": (
        on_loss(type="exact", looks=[3, 6]),
        ["looks belong to claims that an interval decides"],
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
        ["published numbers belong to claims of prediction"],
    ),
    "published without a spread": (
        on_loss(type="prediction", published={"mean": 1}),
        ["/claims/0/published", "'sd' is missing"],
    ),
    "a ratio of nothing": (
        on_loss(type="prediction", published={"mean": 0, "sd": 1}, margin={"ratio": 2}),
        ["not positive, which no ratio can be of"],
    ),
    "a curve of an operator": (claimed(type="curve"), ["/claims/0/metric", "has no steps"]),
    "resolution of exact values": (
        on_loss(type="exact", resolution=1),
        ["exact claims and distributions compare values as they are"],
    ),
    "a test set of nothing": (
        command(metrics={"accuracy": {"test_set": 0}}),
        ["/benchmarks/0/metrics/accuracy/test_set", "0 is less than 1"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name):
    document, expected = MISTAKES[name]
    message = told(document)
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize("margin", [0.1, 3, "5 %", None, [0.1], True])
def test_only_a_claim_on_a_distribution_hears_of_one(margin):
    assert "a distance is the margin of" not in told(on_loss(margin=margin))


def test_looks_that_are_the_same_for_all_claims_may_be_left_out_of_some():
    found = read(
        changed(
            claims=[
                {"metric": LOSS, "type": "equivalence"},
                {"metric": EPOCHS, "type": "equivalence", "looks": [3, 6]},
            ]
        )
    )
    assert [claim.looks for claim in found.claims] == [(), (3, 6)]


# lint


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (changed(seeds=[1]), "one seed only"),
        (claimed(), "with 3 seeds nobody can confirm a margin narrower than"),
        (claimed(), "it asks for 2: use 6 seeds, or a wider margin"),
        (changed(claims=[]), "no claims"),
        (claimed(primary=False), "no primary claim"),
        (changed(image={"reference": "docker://localhost:5000/torch:1"}), "has no digest"),
        (changed(datasets={"points": {"path": "points"}}), "dataset points has no digest"),
        (claimed(metric="gemm/*/*/forward_time"), "a claim of type ratio"),
        (claimed(metric=EPOCHS, margin={"absolute": 1}), "less than 1.5 steps of 1"),
        (
            claimed(metric=EPOCHS, margin={"absolute": 2}),
            "does not lie halfway between two steps of 1, which costs power for nothing:"
            " 2.5 allows the same",
        ),
        (on_loss(resolution=0.5, margin={"absolute": 0.6}), "less than 1.5 steps of 0.5"),
        (on_loss(type="curve"), "fewer than 5 seeds hardly ever decide a whole curve"),
    ],
)
def test_lint_warns(document, expected):
    assert expected in "\n".join(lint.warnings(read(document)))


@pytest.mark.parametrize("margin", [1.5, 2.5, 17, 20.25])
def test_a_margin_between_steps_or_of_many_steps_is_no_matter(margin):
    document = {**claimed(metric=EPOCHS, margin={"absolute": margin}), "seeds": list(range(9))}
    assert not any("step" in told for told in lint.warnings(read(document)))


def foretold(seeds=6, **claim):
    (one,) = lint.outlook(read({**on_loss(**claim), "seeds": list(range(seeds))}))
    return one


def test_the_outlook_tells_what_a_number_of_runs_can_confirm():
    one = foretold()
    assert (one.metric, one.seeds, one.margin, one.alpha) == (LOSS, 6, 2, 0.05)
    assert 1.7 < one.narrowest[0] < one.narrowest[1] < 2.3
    assert one.runs == (6, 7)
    assert one.sentence == (
        f"{LOSS}: a margin of 2 sd (standard deviations between runs) takes 6 seeds on each side to"
        " be confirmed with probability 0.8, 7 with 0.9; 6 seeds confirm"
        f" {one.narrowest[0]:.2f} sd at best, {one.narrowest[1]:.2f} sd with 0.9"
    )


@pytest.mark.parametrize(
    ("margin", "runs"),
    [({"preset": "strict"}, 20), ({"preset": "middle"}, 10), ({"sd": 2.8}, 5), (None, 6)],
)
def test_the_outlook_of_presets_is_the_table_of_the_specification(margin, runs):
    one = foretold(**({"margin": margin} if margin else {}))
    assert one.runs[0] == runs


def test_more_runs_confirm_a_narrower_margin_and_looks_cost_some_of_it():
    narrow = [foretold(seeds).narrowest[0] for seeds in (3, 5, 10, 30)]
    assert narrow == sorted(narrow, reverse=True)
    planned = foretold(looks=[3, 6])
    assert planned.rerun_seeds == 6
    assert planned.alpha == pytest.approx(0.0303, abs=2e-4)
    assert planned.narrowest[0] > foretold().narrowest[0]


@pytest.mark.parametrize(
    ("margin", "shown", "scatter"),
    [
        ({"relative": 0.05}, "5 %", ("2.28 %", "2.03 %")),
        ({"absolute": 5}, "5", ("2.28", "2.03")),
        ({"absolute": 5000}, "5000", ("2280", "2030")),
        ({"ratio": 1.05}, "a factor of 1.05", ("a factor of 1.0225", "a factor of 1.02")),
        (
            {"ratio": 1e300},
            "a factor of 1e+300",
            ("a factor of 9.68e+136", "a factor of 8.93e+121"),
        ),
        ({"absolute": 5e-324}, "4.94066e-324", ("0", "0")),
        ({"absolute": 1e308}, "1e+308", ("4.56e+307", "4.06e+307")),
    ],
)
def test_a_margin_in_other_units_tells_the_spread_that_it_bears(margin, shown, scatter):
    one = foretold(5, margin=margin)
    assert (one.margin, one.runs) == (None, (None, None))
    assert one.sentence == (
        f"{LOSS}: 5 seeds confirm {shown} with probability 0.8 if runs scatter by less than"
        f" {scatter[0]}, with 0.9 if by less than {scatter[1]} (the standard deviation between"
        " runs)"
    )


@pytest.mark.parametrize("margin", [{"relative": 0.05}, {"absolute": 0.31}, {"ratio": 1.5}])
def test_the_spread_that_is_told_is_one_that_the_margin_bears(margin):
    one = foretold(7, margin=margin)
    (size,) = margin.values()
    number = float(
        one.sentence.partition("less than ")[2].removeprefix("a factor of ").split()[0].strip(",")
    )
    bears = {"relative": number / 100, "absolute": number, "ratio": math.log(number)}
    size = math.log(size) if "ratio" in margin else size
    assert 0.9 * size < one.narrowest[0] * bears[next(iter(margin))] <= size


def test_one_run_confirms_nothing_and_a_constant_has_no_outlook():
    assert foretold(1).narrowest is None
    assert "nobody can confirm any margin" in foretold(1).sentence
    assert lint.outlook(read(on_loss(type="threshold", at_most=1))) == ()


def test_published_runs_are_one_side_and_count_as_three_when_nobody_tells():
    known = foretold(type="prediction", published={"mean": 1, "sd": 1, "n": 9})
    unknown = foretold(type="prediction", published={"mean": 1, "sd": 1})
    assert (known.seeds, unknown.seeds, known.rerun_seeds) == (9, 3, 6)
    assert "; 3 published runs and 6 seeds confirm" in unknown.sentence


def test_a_distribution_is_told_in_samples():
    one = foretold(type="distribution", margin={"distance": 0.2})
    assert 250 < one.runs[0] < one.runs[1] < 400
    assert f"{one.runs[0]} independent samples on each side confirm a distance" in one.sentence


def test_the_base_document_has_an_outlook_for_each_claim_that_runs_decide():
    assert [one.metric for one in lint.outlook(read(BASE))] == [LOSS]
