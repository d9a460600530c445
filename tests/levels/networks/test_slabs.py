"""Networks cut into slabs: what the catalogue knows of them is what their graphs are."""

from itertools import pairwise, product

import pytest

from capsule.levels.catalog import slabs
from capsule.levels.catalog.slabs import Layer, Trunk
from capsule.levels.graphs import slabs as graphs
from capsule.levels.graphs.builder import Builder
from capsule.levels.networks import build

SIZES = {
    "alexnet": ({"side": 64}, {"side": 224}),
    "cosmoflow": ({"side": 8, "width": 1}, {"side": 32, "width": 3}, {"side": 128}),
    "hepcnn": ({"side": 32, "width": 2}, {"side": 57, "channels": 1, "width": 3}),
    "lenet": ({"side": 12}, {"side": 28}, {"side": 33}),
}
CASES = [(name, sizes) for name in slabs.CHAINS for sizes in SIZES[name]]


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_a_trunk_of_the_catalogue_is_that_of_the_graph(name: str, sizes: dict[str, int]) -> None:
    for batch in (1, 3):
        chain = graphs.find(build(name, {**sizes, "batch": batch}))
        assert chain.trunk == slabs.find_trunk(name, sizes)


@pytest.mark.parametrize(("name", "sizes"), CASES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_slabs_are_all_rows_and_halos_are_what_others_send(
    name: str, sizes: dict[str, int], ranks: int
) -> None:
    trunk = slabs.find_trunk(name, sizes)
    assert trunk
    if name == "alexnet":
        # whose poolings overlap
        return
    trunk = slabs.fit(trunk, ranks)
    cuts = slabs.cut(trunk, ranks)
    places = [range(one[0], one[-1]) for one in cuts]
    for layer, (before, after), rows in zip(trunk.layers, pairwise(cuts), places[1:], strict=True):
        assert len(rows) == layer.count_rows(before[-1])
        around = [slabs.find_halo(layer, before, after, rank) for rank in range(ranks)]
        for rank, (one, (begin, end)) in enumerate(zip(around, pairwise(after), strict=True)):
            assert begin < end
            assert layer.pools or (one.rows - layer.window) // layer.stride + 1 == end - begin
            if rank:
                assert one.from_before == around[rank - 1].to_after
                assert one.to_before == around[rank - 1].from_after
        assert around[0].to_before == around[-1].to_after == 0


@pytest.mark.parametrize(
    ("layers", "rows", "ranks", "message"),
    [
        ([("conv", 9, 1, 4)], 8, 4, "conv reads 4 rows beyond the slab of rank 0; the slab"),
        ([("conv", 3, 1, 1)], 3, 4, "an input of 3 rows allows at most 3 slabs"),
        ([("pool", 3, 2, 0)], 8, 2, "pool has windows of 3 rows, stride 2"),
        ([("pool", 2, 2, 1)], 8, 2, "padding 1; expected windows"),
        ([("conv", 8, 1, 0)], 8, 2, "conv reduces 8 rows to 1, which leaves no row for rank 1"),
    ],
)
def test_what_cannot_be_cut_is_told_with_its_layer(
    layers: list[tuple[str, int, int, int]], rows: int, ranks: int, message: str
) -> None:
    made = tuple(
        Layer(name, 1, *(window, stride, padding), name == "pool")
        for name, window, stride, padding in layers
    )
    with pytest.raises(ValueError, match=message):
        slabs.cut(Trunk(rows, made, 1), ranks)


def test_rows_are_gathered_where_they_are_too_few() -> None:
    trunk = slabs.find_trunk("cosmoflow", {"side": 128, "width": 2})
    assert trunk
    layers = {ranks: len(slabs.fit(trunk, ranks).layers) for ranks in (1, 4, 8, 16, 64, 128)}
    assert layers == {1: 10, 4: 10, 8: 9, 16: 7, 64: 3, 128: 1}
    assert slabs.fit(trunk, 8).row == trunk.layers[9].row
    with pytest.raises(ValueError, match="an input of 128 rows allows at most"):
        slabs.fit(trunk, 129)
    graph = build("cosmoflow", {"side": 16, "width": 2, "batch": 2})
    chain = graphs.share(graph, 8)
    assert chain.nodes[-1].name == "leaky_relu2"
    assert graphs.find(graph).parameters == chain.parameters
    assert len(graphs.share(graph, 16).parameters) == 2


def test_a_stride_moves_the_borders() -> None:
    for window, stride, padding, ranks in product((1, 3, 4, 5), (1, 2, 4), (0, 1, 2), (1, 2, 3)):
        layer = Layer("conv", 1, window, stride, padding, False)
        try:
            before, after = slabs.cut(Trunk(24, (layer,), 1), ranks)
        except ValueError:
            continue
        for rank in range(ranks):
            around = slabs.find_halo(layer, before, after, rank)
            assert (around.rows - window) // stride + 1 == after[rank + 1] - after[rank]


def test_a_network_that_is_no_chain_is_refused() -> None:
    with pytest.raises(ValueError, match="transformer cannot be cut into slabs: no convolution"):
        graphs.find(build("transformer", {"batch": 1, "length": 4}))
    with pytest.raises(ValueError, match=r"conv2d1 of .* read by batch_norm1 \(batch_norm\)"):
        graphs.split(build("resnet9", {"batch": 2, "width": 2}), 0, 2)
    g = Builder("twice")
    x = g.input("image", (1, 1, 8, 8))
    w = g.parameter("w", (1, 1, 3, 3))
    sizes = {"n": 1, "c": 1, "h": 8, "w": 8, "k": 1, "r": 3, "s": 3, "padding": 1}
    y = g.flat(g.node("conv2d", (x, w), sizes))
    z = g.flat(g.node("conv2d", (g.input("other", (1, 1, 8, 8)), w), sizes))
    with pytest.raises(ValueError, match="the parameter w is read by the chain"):
        graphs.find(g.graph([g.linear(g.sum(y, z), 2)]))
