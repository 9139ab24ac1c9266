"""Makes the slices that a loop's trip picks from what it is given (frontend/control/loop_slices.py), in numpy. What depends on
constants alone is made once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from autotune.errors import InputError, ModelError
from autotune.frontend.model_file import nodes_of
from autotune.frontend.translate.folding import STATIC, fold, fold_shape
from autotune.frontend.translate.scope import AnyArray, Node
from autotune.runtime.execution.ownership import read_only
from autotune.runtime.execution.values import Value


class Picker:
    """The picks of one loop. Safe to use from several threads."""

    def __init__(self, label: str, picks: onnx.ModelProto) -> None:
        self._label = label
        self._inputs = tuple(value.name for value in picks.graph.input)
        self._outputs = tuple(value.name for value in picks.graph.output)
        stored = {t.name: numpy_helper.to_array(t) for t in picks.graph.initializer}
        self._constants = {x: read_only(value) for x, value in stored.items()}
        self._nodes = [node for node in nodes_of(picks) if not self._folded(node)]

    def run(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """The slices by name, from a trip's values by name. Raises ``InputError`` for places that what is
        sliced does not have."""
        known = {**self._constants, **{x: self._array(x, given[x]) for x in self._inputs}}
        for node in self._nodes:
            try:
                known[node.outputs[0]] = _made(node, known)
            except ModelError as error:
                raise InputError(
                    f"{self._label}: a slice in its body does not fit: {error}; check the model's indices"
                ) from None
        return {x: known[x] for x in self._outputs}

    def _folded(self, node: Node) -> bool:
        """Whether a node depends on constants alone, and is one of them from now on. What does not fit is left
        to a trip to refuse: the loop may have none."""
        if not self._constants.keys() >= set(node.inputs):
            return False
        try:
            self._constants[node.outputs[0]] = read_only(_made(node, self._constants))
        except ModelError:
            return False
        return True

    def _array(self, name: str, value: Value) -> AnyArray:
        if not isinstance(value, np.ndarray):
            raise InputError(
                f"{self._label}: a slice in its body reads {name!r}, which is {type(value).__name__}; "
                "only tensors are sliced: export the model again"
            )
        return value


def _made(node: Node, known: Mapping[str, AnyArray]) -> AnyArray:
    """The output of a node. Raises ``ModelError`` where its inputs do not fit."""
    values = [known[x] for x in node.inputs]
    return fold_shape(node, values[0].shape) if node.operator in STATIC else fold(node, values)
