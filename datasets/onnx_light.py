"""The light networks inside the onnx package: real structures, with inputs and expected outputs.

They carry no trained weights: every parameter is a ConstantOfShape, so all logits of a layer are
equal and the expected class probabilities are uniform. A wrong kernel can therefore still match
the expected outputs; ``light_seeded`` gives the same network random weights for checks that tell
more.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from autotune.errors import ModelError

Array = npt.NDArray[np.float32]

LIGHT_MODELS: tuple[str, ...] = (
    "light_bvlc_alexnet",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_resnet50",
    "light_shufflenet",
    "light_squeezenet",
    "light_vgg19",
    "light_zfnet512",
)


def light_path(name: str) -> Path:
    """Where the onnx package holds a light model. Raises ``ModelError`` for another name."""
    if name not in LIGHT_MODELS:
        raise ModelError(f"no light network {name!r}; there are {', '.join(LIGHT_MODELS)}")
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"
    if not path.is_file():
        raise ModelError(
            f"{path}: missing: this onnx {onnx.__version__} ships no light models; "
            "install another version of onnx"
        )
    return path


def light_expected(name: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and expected outputs of a light model, by tensor name.

    The inputs follow ``onnx.backend.test.runner``'s ``generate_dummy_data`` (not random):
    arange(n) / n over the input's n elements; the outputs stand beside the model.
    """
    path = light_path(name)
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        shape = tuple(dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim)
        elements = math.prod(shape)
        inputs[value.name] = (np.arange(elements).reshape(shape) / elements).astype(np.float32)
    outputs: dict[str, Array] = {}
    for index, value in enumerate(model.graph.output):
        tensor = onnx.load_tensor(path.with_name(f"{name}_output_{index}.pb"))
        outputs[value.name] = np.asarray(numpy_helper.to_array(tensor), dtype=np.float32)
    return inputs, outputs


def light_seeded(name: str, seed: int = 0) -> onnx.ModelProto:
    """The same network with seeded random weights: every output differs, none saturates.

    Weights of rank ≥ 2 are normal with variance 2 / fan-in behind a Relu, else 1 / fan-in
    (He et al. 2015, arXiv:1502.01852, section 2.2).
    Batch-norm scales are in [0.5, 1), below 1 so that residual sums do not grow with depth;
    variances are in [0.8, 1.2); biases and means are normal with deviation 0.1.
    Weights of the final Gemm are an eighth of that, so that no class takes all probability.
    """
    rng = np.random.default_rng(seed)
    model = onnx.load(light_path(name))
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    ranges = {node.input[1]: (0.5, 1.0) for node in norms}
    ranges |= {node.input[4]: (0.8, 1.2) for node in norms}
    heads = {node.input[1] for node in model.graph.node if node.op_type == "Gemm"}
    rectified = _rectified(model.graph)
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            continue
        shape = tuple(int(extent) for extent in shapes[node.input[0]])
        gain = 2.0 if node.output[0] in rectified else 1.0
        values = _weight(rng, shape, gain, ranges.get(node.output[0]))
        values = values / np.float32(8) if node.output[0] in heads else values
        node.op_type = "Constant"
        del node.input[:], node.attribute[:]
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(values)))
    return model


KEEPS_ZEROS = frozenset(
    ("Reshape", "Transpose", "Concat", "MaxPool", "AveragePool", "Dropout", "LRN")
)
"""Operators whose output is at least half zeros, or never negative, when their input is."""


def _rectified(graph: onnx.GraphProto) -> set[str]:
    """The weights that multiply what a Relu has cut."""
    cut: set[str] = set()
    weights: set[str] = set()
    for node in graph.node:
        if node.op_type == "Relu" or (node.op_type in KEEPS_ZEROS and cut.intersection(node.input)):
            cut.update(node.output)
        if node.op_type in ("Conv", "Gemm") and node.input[0] in cut:
            weights.add(node.input[1])
    return weights


def _weight(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    gain: float,
    bounds: tuple[float, float] | None,
) -> Array:
    if bounds is not None:
        return rng.uniform(*bounds, shape).astype(np.float32)
    deviation = 0.1 if len(shape) < 2 else math.sqrt(gain / math.prod(shape[1:]))
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
