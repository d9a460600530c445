"""Networks cut into stages: where the catalogue says that one value passes, one does."""

from math import prod

import pytest

from capsule.levels.catalog import stages
from capsule.levels.catalog.stages import Cut
from capsule.levels.graphs import stages as graphs
from capsule.levels.networks import build

SIZES = {
    "alexnet": ({"side": 64}, {"side": 64, "dropout": 50}),
    "cosmoflow": ({"side": 8, "width": 1}, {"side": 32, "width": 3, "dropout": 20}),
    "hepcnn": ({"side": 32, "width": 2},),
    "lenet": ({"side": 12}, {"side": 28}),
    "transformer": ({"layers": 1, "length": 4}, {"layers": 3, "length": 4, "dropout": 10}),
}


@pytest.mark.parametrize(
    ("name", "sizes"), [(name, sizes) for name in stages.LINES for sizes in SIZES[name]]
)
def test_all_cuts_of_the_catalogue_are_cuts_of_the_graph(name: str, sizes: dict[str, int]) -> None:
    line, graph = stages.find_line(name, sizes), build(name, {**sizes, "batch": 3})
    assert line
    parts = graphs.split(graph, line.cuts)
    assert [node for part in parts for node in part.nodes] == list(graph.training)
    for cut, part, after in zip(line.cuts, parts[:-1], parts[1:], strict=True):
        shape = part.nodes[-1].shape
        assert (part.loss, prod(shape)) == (cut.name, 3 * cut.elements)
        assert next(iter(after.inputs.items()))[1].shape == shape
        # so that every rank has something to train
        assert part.trainable
    assert parts[-1].trainable
    tied = graphs.list_ties(parts)
    assert sum(prod(graph.parameters[one].shape) for one in tied) == line.tied
    for ranks in range(1, len(parts) + 1):
        assert len(stages.choose(line, ranks)) == ranks - 1
    with pytest.raises(ValueError, match=f"expected at most {len(parts)} stages for this network"):
        stages.choose(line, len(parts) + 1)


def test_a_cut_that_more_than_one_value_passes_is_refused() -> None:
    graph = build("transformer", {"batch": 1, "layers": 1, "length": 4})
    with pytest.raises(ValueError, match=r"cannot be cut at layer_norm1: .* also read"):
        graphs.split(graph, (Cut("layer_norm1", 1),))
    with pytest.raises(ValueError, match="has no value nowhere"):
        graphs.split(graph, (Cut("nowhere", 1),))
