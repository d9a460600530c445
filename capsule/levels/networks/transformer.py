"""A decoder of the GPT-2 kind (Radford et al., OpenAI, 2019)."""

from __future__ import annotations

from collections.abc import Mapping

from ..graphs.builder import Builder
from ..graphs.graph import Graph


def transformer(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """Build a network from tokens to the logits of the next: pre-norm blocks of causal attention
    and an MLP.

    Positions are learned, the MLP is four times as wide with a gelu (tanh form), and the table of
    tokens is also the last layer's weight. With 12 layers, width 768, 12 heads, length 1024 and
    vocabulary 50257 it is GPT-2 small: 124,439,808 parameters. Dropout, of so many percent (10 in
    GPT-2), comes after the embeddings and at the end of each branch; of the attention's weights,
    which its one operator does not show, there is none.

    Tokens and the tokens to predict have the shape (batch x length,): whole sequences one after
    the other, as operators of rows want them; logits are (batch x length, vocabulary).

    Raises:
        ValueError: The heads do not divide the width.
    """
    batch, length, width = sizes["batch"], sizes["length"], sizes["width"]
    vocabulary, rows = sizes["vocabulary"], batch * length
    if width % sizes["heads"]:
        raise ValueError(f"width {width} is not a multiple of heads {sizes['heads']}")
    tokens = g.input("token", (rows,), vocabulary)
    # deviation 0.02, as GPT-2 is initialized
    table = g.parameter("embedding.weight", (vocabulary, width), "uniform", 0.02 * 3**0.5)
    places = g.parameter("position.weight", (length, width), "uniform", 0.02 * 3**0.5)
    x = g.view(g.embedding(tokens, table), (batch, length * width))
    x = g.view(g.add_rows(x, g.view(places, (length * width,))), (rows, width))
    x = g.dropout(x, sizes["dropout"])
    for _ in range(sizes["layers"]):
        x = g.sum(x, g.dropout(_attend(g, g.layer_norm(x), sizes), sizes["dropout"]))
        hidden = g.gelu(g.linear(g.layer_norm(x), 4 * width), approximate=True)
        x = g.sum(x, g.dropout(g.linear(hidden, width), sizes["dropout"]))
    logits = g.linear(g.layer_norm(x), vocabulary, bias=False, weight=table)
    labels = g.labels("label", rows, vocabulary)
    return g.graph([logits], loss=g.softmax_cross_entropy(logits, labels))


def _attend(g: Builder, x: str, sizes: Mapping[str, int]) -> str:
    rows, width = g.shape(x)
    heads = sizes["heads"]
    split = (sizes["batch"], sizes["length"], heads, width // heads)
    q, k, v = (g.transpose(g.view(g.linear(x, width), split), (0, 2, 1, 3)) for _ in range(3))
    mixed = g.transpose(g.attention(q, k, v, causal=True), (0, 2, 1, 3))
    return g.linear(g.view(mixed, (rows, width)), width)


NETWORKS = {"transformer": transformer}
