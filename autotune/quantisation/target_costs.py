"""What a machine's cost model predicts of products in float32 and in a narrow format, and of whole networks."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from autotune.cost_model.predictor import Predictor
from autotune.graph.accuracy import Accuracy
from autotune.operators.axes import Layout
from autotune.quantisation.grid import Activations, Grid, NarrowFormat
from autotune.quantisation.observation import serialised
from autotune.quantisation.products import Network, Product
from autotune.quantisation.qdq import Scheme, write_qdq
from autotune.quantisation.samples import Run
from autotune.quantisation.work import shapes_of
from autotune.runtime.session.opening import open_network
from autotune.store.store import Store
from autotune.tuner.network_cost import predict_greedy
from autotune.tuner.progress import Progress

_NARROW = {Activations.INT8: TensorProto.INT8, Activations.UINT8: TensorProto.UINT8}


class TargetCosts:
    """Predictions for one machine, by name, by its calibrated or shipped model."""

    def __init__(self, target: str | Path, store: Store | Path | str | None) -> None:
        """Raise ``AutotuneError`` for a machine without a model."""
        self._predictor = Predictor.load(target, store)
        self.target: str = self._predictor.spec.name

    def seconds(self, model: onnx.ModelProto, dims: Mapping[str, int]) -> float:
        """Return the predicted seconds of one run of a network as its greedily fused groups."""
        spec = self._predictor.spec
        with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
            path = Path(folder, "model.onnx")
            path.write_bytes(serialised(model))
            graph = open_network(
                path, dims, Layout(spec.layout), Accuracy.EXACT, formats=spec.formats
            )
        return predict_greedy(graph, self._predictor).seconds

    def savings(
        self,
        network: Network,
        names: Collection[str],
        grids: Mapping[str, Grid],
        scheme: Scheme,
        format: NarrowFormat,
        run: Run,
        progress: Progress,
    ) -> dict[str, float]:
        """Return the seconds that a narrow format saves at each product, 0 where it saves none.

        A product is a network by itself, between tensors that are stored in its precision.
        """
        shapes = shapes_of(network.model, run)
        known: dict[bytes, float] = {}
        saved = {}
        for number, name in enumerate(names):
            progress("predict", number, len(names))
            product = next(p for p in network.products if p.name == name)
            saved[name] = self._saving(network, product, grids, scheme, format, shapes, known)
        return saved

    def _saving(
        self,
        network: Network,
        product: Product,
        grids: Mapping[str, Grid],
        scheme: Scheme,
        format: NarrowFormat,
        shapes: Mapping[str, tuple[int, ...]],
        known: dict[bytes, float],
    ) -> float:
        alone = _alone(network, product, shapes)
        if alone is None:
            return 0.0
        has_grids = format is NarrowFormat.INT8 and scheme.has_grids
        own = {x: grids[network.root(x)] for x in product.tensors if has_grids}
        (inner,) = alone.products
        own |= {x: own[y] for x, y in zip(inner.tensors, product.tensors, strict=True) if y in own}
        made = write_qdq(alone, {product.name: format}, own, scheme)
        narrow = _between_narrow(made, scheme, format)
        return max(0.0, self._cost(alone.model, known) - self._cost(narrow, known))

    def _cost(self, model: onnx.ModelProto, known: dict[bytes, float]) -> float:
        """Return the seconds of a small network; one of the same operators and shapes is predicted once."""
        key = _shape_key(model.graph)
        if key not in known:
            known[key] = self.seconds(model, {})
        return known[key]


def _alone(
    network: Network, product: Product, shapes: Mapping[str, tuple[int, ...]]
) -> Network | None:
    """Return a product as a network by itself; None if its shapes are not known."""
    node = next(x for x in network.model.graph.node if x.name == product.name)
    computed = [*product.operands, node.output[0]]
    bias = [x for x in node.input[2:] if x and x not in network.stored]
    if bias or any(x not in shapes for x in computed):
        return None
    inputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, shapes[x]) for x in computed[:-1]]
    made = helper.make_tensor_value_info(computed[-1], TensorProto.FLOAT, shapes[computed[-1]])
    stored = [network.stored[x] for x in node.input if x in network.stored]
    graph = helper.make_graph([node], product.name, inputs, [made], stored)
    model = helper.make_model(
        graph, opset_imports=network.model.opset_import, ir_version=network.model.ir_version
    )
    return Network(model)


def _between_narrow(
    model: onnx.ModelProto, scheme: Scheme, format: NarrowFormat
) -> onnx.ModelProto:
    """Return a network whose inputs and output are narrow already: the outermost conversions go."""
    if scheme.is_weights_only:
        return model
    graph = model.graph
    is_half = format is NarrowFormat.BF16
    kind = TensorProto.BFLOAT16 if is_half else _NARROW[scheme.activations]
    there, back = ("Cast", "Cast") if is_half else ("QuantizeLinear", "DequantizeLinear")
    for value in graph.input:
        quantiser = next(
            (n for n in graph.node if n.op_type == there and n.input[0] == value.name),
            None,
        )
        if quantiser is not None:
            graph.node.remove(quantiser)
            value.name = quantiser.output[0]
            value.type.tensor_type.elem_type = kind
    last = graph.node[-1]
    if last.op_type == back and last.output[0] == graph.output[0].name:
        graph.output[0].name = last.input[0]
        graph.output[0].type.tensor_type.elem_type = kind
        graph.node.remove(last)
    return model


def _shape_key(graph: onnx.GraphProto) -> bytes:
    """Return operators with their attributes, and shapes with their types; no names, no values."""
    facts: list[object] = [
        (node.op_type, sorted(a.SerializeToString() for a in node.attribute)) for node in graph.node
    ]
    facts += [(tuple(x.dims), x.data_type) for x in graph.initializer]
    facts += [value.type.SerializeToString() for value in graph.input]
    return repr(facts).encode()
