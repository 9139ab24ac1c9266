"""Makes the slices that a loop's trip picks from what it is given (graph/picks.py), in numpy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from autotune.errors import InputError, ModelError
from autotune.graph.onnx_model import nodes_of
from autotune.graph.onnx_ops.folding import STATIC, fold, fold_shape
from autotune.graph.onnx_ops.scope import AnyArray
from autotune.runtime.binding import Value


class Picker:
    """The picks of one loop. Safe to use from several threads."""

    def __init__(self, label: str, picks: onnx.ModelProto) -> None:
        self._label = label
        self._nodes = nodes_of(picks)
        self._inputs = tuple(value.name for value in picks.graph.input)
        self._outputs = tuple(value.name for value in picks.graph.output)
        self._constants = {t.name: numpy_helper.to_array(t) for t in picks.graph.initializer}

    def run(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """The slices by name, from a trip's values by name. Raises ``InputError`` for places that what is
        sliced does not have."""
        known = {**self._constants, **{x: self._array(x, given[x]) for x in self._inputs}}
        for node in self._nodes:
            values = [known[x] for x in node.inputs]
            try:
                static = node.operator in STATIC
                made = fold_shape(node, values[0].shape) if static else fold(node, values)
            except ModelError as error:
                raise InputError(
                    f"{self._label}: a slice in its body does not fit: {error}; check the model's indices"
                ) from None
            known[node.outputs[0]] = made
        return {x: known[x] for x in self._outputs}

    def _array(self, name: str, value: Value) -> AnyArray:
        if not isinstance(value, np.ndarray):
            raise InputError(
                f"{self._label}: a slice in its body reads {name!r}, which is {type(value).__name__}; "
                "only tensors are sliced: export the model again"
            )
        return value
