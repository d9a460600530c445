"""The benchmark of two trees: blocks that take turns, and the ratio of their medians."""

from importlib import util
from pathlib import Path

import pytest
import two_trees

ROOT = Path(__file__).parents[2]


@pytest.mark.torch
@pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here")
def test_a_tree_is_compared_with_itself() -> None:
    pairs = two_trees.compare("transformer", (ROOT, ROOT), 3, 2, 1)
    assert len(pairs) == 3
    assert min(min(pair) for pair in pairs) > 0


def test_a_tree_of_another_commit_is_that_of_the_commit(tmp_path: Path) -> None:
    assert two_trees.find_tree(str(tmp_path), tmp_path / "none") == tmp_path
    if not (ROOT / ".git").exists():
        pytest.skip("no repository here")
    tree = two_trees.find_tree("HEAD", tmp_path / "tree")
    assert (tree / "capsule" / "levels" / "run.py").is_file()
    assert not (tree / "tests").exists()


def test_a_process_that_runs_another_capsule_is_refused(tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    job.write_text("{}")
    side = two_trees.Side.start(tmp_path, job, 1)
    try:
        with pytest.raises(SystemExit, match="runs the capsule of"):
            side.check()
    finally:
        side.close()


def test_the_ratios_of_medians_and_within_pairs_have_intervals() -> None:
    pairs = [(1.0 + n / 100, 2.0 + n / 50) for n in range(31)]
    for whole in two_trees.estimate(pairs):
        assert whole.middle == pytest.approx(2)
        assert (whole.low, whole.high) == pytest.approx((2, 2))
    # the last place is as good as any
    apart, _ = two_trees.estimate([(1.0, 1.0 + 0.1 * (n % 3)) for n in range(30)])
    assert apart.middle == pytest.approx(1.1)
    assert apart.low < apart.middle < apart.high
    # each pair on a machine of another speed
    medians, within = two_trees.estimate([(1.0, 1.2), (2.0, 1.0), (4.0, 4.8)])
    assert (medians.middle, within.middle) == pytest.approx((0.6, 1.2))


def test_the_minis_are_those_of_the_manifests() -> None:
    for name in two_trees.NAMES:
        row, recipe = two_trees.read_row(name)
        assert row.network == name
        assert row.sizes
        assert recipe["optimizer"]["lr"] > 0
