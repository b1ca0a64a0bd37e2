"""Float arithmetic over int8 weights: the same vectors on every machine.

Row-wise int8 rounds every activation to one of 255 levels. Where a value lies at the edge of two,
the last bit of a float decides, and processors differ in it: by the order of additions, by fused
multiplications, by their approximations of exp and erf. A few values then land on another level,
and the vectors part company by what quantisation itself costs. In float arithmetic such a
difference stays as small as it began. The weights' file is not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import ExportError, MissingExtraError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

QUANTISED_PRODUCT = "MatMulIntegerToFloat"


def make_portable(graph: bytes) -> bytes:
    """Rewrite a text graph so that it multiplies in floats.

    Weights are widened once, when a session is made.

    Args:
        graph: content of an ONNX file whose large weights lie in another.

    Returns:
        The same for the new graph; its weights lie where they did.

    Raises:
        MissingExtraError: when onnx is not installed.
        ExportError: when a product is not quantised by row as this project does it.
    """
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("a bundle with float arithmetic", "edge") from error
    model = onnx.load_model_from_string(graph)
    producers = {name: node for node in model.graph.node for name in node.output}
    readers: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    replaced: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        if node.op_type == QUANTISED_PRODUCT:
            source, output = _ends(node, producers, readers)
            replaced[output] = _product(node, source, output)
    nodes = [new for node in model.graph.node for new in replaced.get(node.output[0], [node])]
    _keep(model, nodes)
    return bytes(model.SerializeToString())


def _ends(
    node: NodeProto, producers: dict[str, NodeProto], readers: dict[str, list[NodeProto]]
) -> tuple[str, str]:
    """Find what a quantised product reads before quantisation, and its scaled result."""
    quantise = producers.get(node.input[0])
    scaled = producers.get(quantise.input[0]) if quantise is not None else None
    after = readers.get(node.output[0], [])
    if scaled is None or [scaled.op_type, *(one.op_type for one in after)] != ["Mul", "Mul"]:
        raise ExportError(
            f"the product {node.name!r} is not quantised by row; use --precision int8"
        )
    return scaled.input[0], after[0].output[0]


def _product(node: NodeProto, source: str, output: str) -> list[NodeProto]:
    from onnx import TensorProto, helper

    weight, scale = node.input[1], node.input[3]
    wide, real = f"{output}.wide", f"{output}.weight"
    return [
        helper.make_node("Cast", [weight], [wide], wide, to=TensorProto.FLOAT),
        helper.make_node("Mul", [wide, scale], [real], real),
        helper.make_node("MatMul", [source, real], [output], output),
    ]


def _keep(model: ModelProto, nodes: list[NodeProto]) -> None:
    """Give the graph those of the nodes, and of its constants, that its outputs depend on."""
    wanted = {one.name for one in model.graph.output}
    kept: list[NodeProto] = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            kept.append(node)
    constants = [one for one in model.graph.initializer if one.name in wanted]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(reversed(kept))
    model.graph.initializer.extend(constants)
