"""`benchmarks/harness/architectures.py`: a line of its table, and what it takes out of a file."""

from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

import architectures
import onnx

from capsule.levels.graphs import values
from capsule.levels.graphs.onnx import exchange
from capsule.levels.networks import build


def test_a_file_is_a_line_with_the_ratios_of_both_frameworks(tmp_path: Path) -> None:
    graph = build("lenet", {"batch": 2})
    path = tmp_path / "lenet.onnx"
    path.write_bytes(exchange.dump(graph, values.parameters(graph, "float32", 1), batch=2))
    _, name, _, _, _, own, *ratios, _, _, _ = (
        cell.strip() for cell in architectures.check(path).split("|")
    )
    assert (name, own.split()[0]) == ("lenet", "0")
    assert all(0 < float(ratio) < 1 for ratio in ratios)
    assert len(ratios) == 2
    path.write_bytes(b"no such file")
    with pytest.raises(ValueError, match="is not an ONNX file"):
        architectures.check(path)


def test_what_the_exporter_tells_of_the_machine_is_taken_out() -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"], doc_string="/home/me/net.py")
    node.metadata_props.add(key="stack", value="/home/me/net.py")
    form = onnx.helper.make_tensor_value_info("x", 1, [2])
    graph = onnx.helper.make_graph([node], "g", [form], [onnx.ValueInfoProto(name="y")])
    model = onnx.helper.make_model(graph, doc_string="/home/me")
    assert b"home" not in architectures.strip(model)
    assert b"Relu" in architectures.strip(model)


def test_there_are_twenty() -> None:
    assert len(architectures.ARCHITECTURES) == 20
