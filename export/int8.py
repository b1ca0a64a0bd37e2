"""Row-wise dynamic int8 for the linear layers of an exported encoder.

ONNX Runtime's own dynamic quantisation takes one activation scale a tensor, so that a vector
depends on its neighbours in the batch. Here every token has a scale of its own: a vector is
bitwise the same alone and in any batch. Two measures keep the error small, both chosen from
what feeds the layer:

* after a LayerNorm, whose output has a few channels far larger than the rest, channels are
  equalised against the weights (SmoothQuant, arXiv 2211.10438) by their peaks on a few texts;
* after a GELU, whose output never falls below -0.17, the range is shifted so that all 256
  levels are used, and the shift is folded into the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

GELU_FLOOR = 0.17
SMOOTHING = 0.5
_SMALL_TABLE = 1_000_000


class RowwiseQuantiser:
    """Rewrites one graph in place.

    Args:
        model: an fp32 ONNX model whose linear layers are ``MatMul`` with a constant weight.
        peaks: largest magnitude of every channel of each LayerNorm output, float32 (d,), by
            the output's name; see :func:`norm_peaks`.
    """

    def __init__(self, model: onnx.ModelProto, peaks: Mapping[str, NDArray[np.float32]]) -> None:
        self._model = model
        self._graph = model.graph
        self._peaks = peaks
        self._constants = {item.name: item for item in model.graph.initializer}
        self._producer = {out: node for node in model.graph.node for out in node.output}
        self._nodes: list[onnx.NodeProto] = []
        self._added: dict[str, onnx.TensorProto] = {}
        self._dropped: set[str] = set()

    def run(self) -> int:
        """Quantise every linear layer and the largest embedding table.

        Returns:
            Number of matrix products rewritten.
        """
        self._add("rw.127", np.float32(127))
        self._add("rw.1", np.float32(1))
        self._add("rw.tiny", np.float32(1e-12))
        self._add("rw.last", np.array([-1], np.int64))
        self._add("rw.zero", np.uint8(0))
        self._add("rw.middle", np.uint8(128))
        groups = self._linear_groups()
        table = largest_table(self._graph)
        first = {nodes[0].output[0]: source for source, nodes in groups.items()}
        rewritten = {node.output[0] for nodes in groups.values() for node in nodes}
        for node in self._graph.node:
            output = node.output[0] if node.output else ""
            if output in first:
                self._rewrite_group(first[output], groups[first[output]])
            elif output not in rewritten:
                if table and node.op_type == "Gather" and node.input[0] == table:
                    self._rewrite_table(node)
                else:
                    self._nodes.append(node)
        if all(entry.domain != "com.microsoft" for entry in self._model.opset_import):
            self._model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        kept = [item for item in self._graph.initializer if item.name not in self._dropped]
        del self._graph.node[:], self._graph.initializer[:]
        self._graph.node.extend(self._nodes)
        self._graph.initializer.extend([*kept, *self._added.values()])
        return len(rewritten)

    def _linear_groups(self) -> dict[str, list[onnx.NodeProto]]:
        groups: dict[str, list[onnx.NodeProto]] = {}
        for node in self._graph.node:
            if node.op_type == "MatMul" and self._is_matrix(node.input[1]):
                groups.setdefault(node.input[0], []).append(node)
        return groups

    def _is_matrix(self, name: str) -> bool:
        return name in self._constants and len(self._constants[name].dims) == 2

    def _rewrite_group(self, source: str, linears: Sequence[onnx.NodeProto]) -> None:
        """Quantise one activation and every matrix product that reads it."""
        weights = [self._array(node.input[1]) for node in linears]
        producer = self._producer.get(source)
        shift = GELU_FLOOR if producer is not None and self._is_gelu(producer) else 0.0
        smooth = _smoothing(self._peaks[source], weights) if source in self._peaks else None
        prefix = f"{source}.rw"
        if shift:
            self._quantise_shifted(source, prefix, shift)
        else:
            self._quantise_symmetric(source, prefix, smooth)
        zero_point = "rw.zero" if shift else "rw.middle"
        for node, weight in zip(linears, weights, strict=True):
            scaled = weight if smooth is None else weight * smooth[:, None]
            self._multiply(node, scaled, prefix, zero_point, shift)

    def _quantise_symmetric(
        self, source: str, prefix: str, smooth: NDArray[np.float32] | None
    ) -> None:
        if smooth is not None:
            self._add(f"{prefix}.inverse", (1.0 / smooth).astype(np.float32))
            self._node("Mul", [source, f"{prefix}.inverse"], f"{prefix}.smooth")
            source = f"{prefix}.smooth"
        self._node("Abs", [source], f"{prefix}.abs")
        self._node("ReduceMax", [f"{prefix}.abs", "rw.last"], f"{prefix}.peak", keepdims=1)
        self._finish(source, prefix, levels="rw.127", zero_point="rw.middle")

    def _quantise_shifted(self, source: str, prefix: str, shift: float) -> None:
        self._add("rw.255", np.float32(255))
        self._add("rw.shift", np.float32(shift))
        self._node("Add", [source, "rw.shift"], f"{prefix}.up")
        self._node("ReduceMax", [f"{prefix}.up", "rw.last"], f"{prefix}.peak", keepdims=1)
        self._finish(f"{prefix}.up", prefix, levels="rw.255", zero_point="rw.zero")

    def _finish(self, source: str, prefix: str, *, levels: str, zero_point: str) -> None:
        self._node("Max", [f"{prefix}.peak", "rw.tiny"], f"{prefix}.range")
        self._node("Div", [f"{prefix}.range", levels], f"{prefix}.scale")
        self._node("Div", [levels, f"{prefix}.range"], f"{prefix}.gain")
        self._node("Mul", [source, f"{prefix}.gain"], f"{prefix}.scaled")
        # Unit scale: a fused round, offset, saturate and cast.
        self._node("QuantizeLinear", [f"{prefix}.scaled", "rw.1", zero_point], f"{prefix}.uint8")

    def _multiply(
        self,
        node: onnx.NodeProto,
        weight: NDArray[np.float32],
        prefix: str,
        zero_point: str,
        shift: float,
    ) -> None:
        name, output = node.input[1], node.output[0]
        scale = np.maximum(np.abs(weight).max(axis=0), 1e-12) / 127
        quantised = np.clip(np.round(weight / scale), -127, 127).astype(np.int8)
        self._dropped.add(name)
        self._add(f"{name}.int8", quantised)
        self._add(f"{name}.scale", scale.astype(np.float32))
        inputs = [f"{prefix}.uint8", f"{name}.int8", "rw.1", f"{name}.scale", zero_point]
        # The activation scale is given as 1 and the row scale multiplied afterwards: the fused
        # kernel takes a scalar, and reads a vector as one without complaint.
        self._node("MatMulIntegerToFloat", inputs, f"{output}.columns", domain="com.microsoft")
        if not shift:
            self._node("Mul", [f"{output}.columns", f"{prefix}.scale"], output)
            return
        correction = -shift * (quantised.astype(np.float32) * scale).sum(axis=0)
        self._add(f"{name}.shift", correction.astype(np.float32))
        self._node("Mul", [f"{output}.columns", f"{prefix}.scale"], f"{output}.shifted")
        self._node("Add", [f"{output}.shifted", f"{name}.shift"], output)

    def _is_gelu(self, node: onnx.NodeProto) -> bool:
        """Tell GELU and CLIP's approximation x · sigmoid(1.702 x), whose floor is -0.164."""
        if node.op_type == "Gelu":
            return True
        if node.op_type != "Mul":
            return False
        for value, other in (node.input, reversed(node.input)):
            gate = self._producer.get(other)
            inner = self._producer.get(gate.input[0]) if gate is not None else None
            if gate is None or gate.op_type != "Sigmoid" or inner is None:
                continue
            if inner.op_type == "Mul" and value in inner.input:
                factor = next((one for one in inner.input if one != value), "")
                if factor in self._constants and float(self._array(factor).min()) > 1.65:
                    return True
        return False

    def _rewrite_table(self, node: onnx.NodeProto) -> None:
        tensors, nodes = table_as_int8(node, self._array(node.input[0]))
        self._dropped.add(node.input[0])
        self._added.update({tensor.name: tensor for tensor in tensors})
        self._nodes.extend(nodes)

    def _array(self, name: str) -> NDArray[np.float32]:
        return np.asarray(numpy_helper.to_array(self._constants[name]), dtype=np.float32)

    def _add(self, name: str, value: object) -> None:
        self._added[name] = numpy_helper.from_array(np.asarray(value), name)

    def _node(
        self, op: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: int
    ) -> None:
        self._nodes.append(
            helper.make_node(op, list(inputs), [output], output, domain=domain, **attributes)
        )


def largest_table(graph: onnx.GraphProto) -> str | None:
    """Find the embedding table that is worth storing as int8.

    Args:
        graph: the graph.

    Returns:
        Its name; ``None`` when all are small.
    """
    sizes = {item.name: int(np.prod(item.dims)) for item in graph.initializer}
    tables = {
        node.input[0]: sizes[node.input[0]]
        for node in graph.node
        if node.op_type == "Gather" and sizes.get(node.input[0], 0) > _SMALL_TABLE
    }
    return max(tables, key=lambda name: tables[name]) if tables else None


def table_as_int8(
    node: onnx.NodeProto, table: NDArray[np.float32]
) -> tuple[list[onnx.TensorProto], list[onnx.NodeProto]]:
    """Store an embedding table as int8 with a scale a row.

    Args:
        node: the ``Gather`` that reads it.
        table: float32 (rows, d).

    Returns:
        Tensors and nodes that replace it.
    """
    name, indices, output = node.input[0], node.input[1], node.output[0]
    scale = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-12) / 127
    tensors = [
        numpy_helper.from_array(np.round(table / scale).astype(np.int8), f"{name}.int8"),
        numpy_helper.from_array(scale.astype(np.float32), f"{name}.scale"),
    ]

    def make(op: str, inputs: list[str], out: str, **attributes: int) -> onnx.NodeProto:
        return helper.make_node(op, inputs, [out], out, **attributes)

    nodes = [
        make("Gather", [f"{name}.int8", indices], f"{output}.int8", axis=0),
        make("Gather", [f"{name}.scale", indices], f"{output}.scale", axis=0),
        make("Cast", [f"{output}.int8"], f"{output}.float", to=TensorProto.FLOAT),
        make("Mul", [f"{output}.float", f"{output}.scale"], output),
    ]
    return tensors, nodes


def store_table(model: onnx.ModelProto) -> None:
    """Store the largest embedding table as int8 with a scale a row.

    Args:
        model: changed in place.
    """
    graph, name = model.graph, largest_table(model.graph)
    users = [node for node in graph.node if name in node.input]
    if name is None or len(users) != 1 or users[0].op_type != "Gather":
        return
    (item,) = (one for one in graph.initializer if one.name == name)
    tensors, nodes = table_as_int8(users[0], np.asarray(numpy_helper.to_array(item), np.float32))
    at = list(graph.node).index(users[0])
    everything = [*graph.node[:at], *nodes, *graph.node[at + 1 :]]
    kept = [one for one in graph.initializer if one.name != name]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(everything)
    graph.initializer.extend([*kept, *tensors])


def _smoothing(
    peak: NDArray[np.float32], weights: Sequence[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Per-channel factors that move range from activations into weights."""
    weight_peak = np.max([np.abs(weight).max(axis=1) for weight in weights], axis=0)
    factor = np.maximum(peak, 1e-5) ** SMOOTHING / np.maximum(weight_peak, 1e-5) ** (1 - SMOOTHING)
    return np.asarray(factor / factor.mean(), dtype=np.float32)


def norm_peaks(
    model: onnx.ModelProto,
    run: Callable[[onnx.ModelProto, Sequence[str]], Iterable[Sequence[NDArray[np.float32]]]],
) -> dict[str, NDArray[np.float32]]:
    """Measure the channels of every LayerNorm output.

    Args:
        model: the fp32 model; left as it is.
        run: runs a model on calibration inputs and yields, for each, the named outputs.

    Returns:
        Largest magnitude a channel, float32 (d,), by output name.
    """
    names = [node.output[0] for node in model.graph.node if node.op_type == "LayerNormalization"]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    known = {output.name for output in probe.graph.output}
    probe.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    peaks: dict[str, NDArray[np.float32]] = {}
    for values in run(probe, names):
        for name, value in zip(names, values, strict=True):
            peak = np.abs(value).reshape(-1, value.shape[-1]).max(axis=0)
            peaks[name] = np.maximum(peaks[name], peak) if name in peaks else peak
    return peaks
