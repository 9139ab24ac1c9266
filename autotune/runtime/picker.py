"""Makes the slices that a loop's trip picks from what it is given (graph/picks.py), in numpy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from autotune.errors import InputError
from autotune.graph.onnx_ops.folding import FOLD_ERRORS
from autotune.runtime.binding import Value


class Picker:
    """The picks of one loop. Safe to use from several threads."""

    def __init__(self, label: str, picks: onnx.ModelProto) -> None:
        from onnx.reference import ReferenceEvaluator  # few loops slice

        self._label = label
        self._evaluator = ReferenceEvaluator(picks)
        self.inputs = tuple(value.name for value in picks.graph.input)
        self._outputs = tuple(value.name for value in picks.graph.output)

    def run(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """The slices by name, from a trip's values by name. Raises ``InputError`` for places that what is
        sliced does not have."""
        try:
            made = self._evaluator.run(None, {x: given[x] for x in self.inputs})
        except (*FOLD_ERRORS, RuntimeError) as error:
            raise InputError(
                f"{self._label}: a slice in its body does not fit: {error}; check the model's indices"
            ) from None
        return {x: np.asarray(y) for x, y in zip(self._outputs, made, strict=True)}
