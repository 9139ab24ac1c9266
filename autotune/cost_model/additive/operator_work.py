"""What one operator does: sizes and work, counted from its shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.fusion.group import Group
from autotune.operators.axes import Axes
from autotune.operators.contraction import is_depthwise
from autotune.operators.families import FAMILIES
from autotune.operators.op import Family, Op, OpKind

ELEMENT_BYTES = 4

Shape = tuple[int, ...]


@dataclass(frozen=True)
class OperatorWork:
    """Sizes of one operator of a group; a count is 0 where the operator has none of its sort."""

    op: Op
    group: Group

    def shape(self, tensor: str) -> Shape:
        """Return the shape of a tensor of the group."""
        return self.group.type_of[tensor].shape

    @cached_property
    def inputs(self) -> Sequence[Shape]:
        """Shapes of the inputs."""
        return [self.shape(x) for x in self.op.inputs]

    @cached_property
    def result(self) -> Shape:
        """Shape of the result."""
        return self.shape(self.op.output)

    @cached_property
    def elements(self) -> int:
        """Elements of the result."""
        return math.prod(self.result)

    @cached_property
    def read_elements(self) -> int:
        """Elements of the inputs that are computed."""
        return sum(self._sizes(constant=False))

    @cached_property
    def weight_elements(self) -> int:
        """Elements of the inputs that are constants."""
        return sum(self._sizes(constant=True))

    def _sizes(self, constant: bool) -> list[int]:
        held = self.group.constants
        return [math.prod(self.shape(x)) for x in set(self.op.inputs) if (x in held) == constant]

    @cached_property
    def multiply_adds(self) -> int:
        """Multiply-adds of a contraction."""
        return FAMILIES[self.op.family].multiply_adds(self.op, self.inputs, self.result)

    @cached_property
    def operations(self) -> int:
        """Scalar operations, two for each multiply-add."""
        return FAMILIES[self.op.family].operations(self.op, self.inputs, self.result)

    @cached_property
    def moved_bytes(self) -> int:
        """Bytes of all tensors, each once."""
        return ELEMENT_BYTES * (self.elements + self.read_elements + self.weight_elements)

    @cached_property
    def matrix(self) -> tuple[int, int, int, int]:
        """Batch, rows, columns and depth of the product that a contraction is."""
        op, out = self.op, self.result
        match op.family:
            case Family.MATMUL:
                depth = self.inputs[0][-2 if op.int("trans_a") else -1]
                batch = math.prod(out[:-2])
                if len(self.inputs[1]) == 2 and not op.int("trans_a"):
                    return 1, batch * out[-2], out[-1], depth
                return batch, out[-2], out[-1], depth
            case Family.CONV:
                axes, groups = op.axes, op.int("group")
                rows = out[axes.batch] * math.prod(axes.sizes(out))
                depth = self.multiply_adds // max(1, self.elements)
                return groups, rows, out[axes.channel] // groups, depth
            case _:
                return 0, 0, 0, 0

    @cached_property
    def window(self) -> tuple[int, int, int]:
        """Rows and columns of a window, and its stride."""
        op = self.op
        if op.family is Family.CONV:
            return (*op.axes.taps(self.inputs[1]), op.ints("strides")[0])
        if op.family is Family.POOL:
            return (*op.ints("kernel"), op.ints("strides")[0])  # type: ignore[return-value]
        return 0, 0, 0

    @property
    def is_depthwise(self) -> bool:
        """True for a convolution of each channel by itself."""
        return self.op.family is Family.CONV and is_depthwise(self.op, self.group.type_of)

    @property
    def image_axes(self) -> Axes | None:
        """Axes of the image that a window operator makes."""
        return self.op.axes if self.op.family in (Family.CONV, Family.POOL) else None

    @cached_property
    def run_elements(self) -> int:
        """Elements that lie one after the other in what the operator reads and makes alike."""
        op = self.op
        match op.family:
            case Family.TRANSPOSE:
                perm = op.ints("perm")
                kept = [
                    d
                    for d, axis in enumerate(perm)
                    if all(perm[e] == e for e in range(d, len(perm)))
                ]
                return math.prod(self.result[kept[0] :]) if kept else 1
            case Family.REDUCE:
                last = max(op.ints("axes"))
                return math.prod(self.inputs[0][last + 1 :])
            case Family.SOFTMAX:
                return math.prod(self.result[op.int("axis") + 1 :])
            case Family.CONCAT:
                return math.prod(self.inputs[0][op.int("axis") :])
            case Family.SLICE:
                return self.result[-1] if self.result else 1
            case Family.BINARY:
                return self._broadcast_run()
            case _:
                return self.result[-1] if self.result else 1

    def _broadcast_run(self) -> int:
        """Elements of the result for which no operand of an element-wise operator is stretched."""
        run = 1
        for d in range(1, len(self.result) + 1):
            extents = {shape[-d] if d <= len(shape) else 1 for shape in self.inputs}
            if len(extents) > 1:
                break
            run *= self.result[-d]
        return run

    @cached_property
    def reduced_elements(self) -> int:
        """Elements that become one by a reduction, a softmax or a normalisation."""
        op = self.op
        match op.family:
            case Family.REDUCE:
                return math.prod(self.inputs[0]) // max(1, self.elements)
            case Family.SOFTMAX:
                return self.result[op.int("axis")]
            case Family.LAYER_NORM:
                return math.prod(self.result[op.int("axis") :])
            case _:
                return 0

    @property
    def is_transcendental(self) -> bool:
        """True for exp, erf, tanh and the like."""
        vector = self.op.family in (Family.UNARY, Family.BINARY)
        return vector and self.op.function.row.operations >= TRANSCENDENTAL_OPERATIONS

    @property
    def is_activation(self) -> bool:
        """True for the functions of one operand that systems compute within the operator before."""
        return self.op.kind in ACTIVATIONS


TRANSCENDENTAL_OPERATIONS = 8
ACTIVATIONS = frozenset(
    (
        *(OpKind.RELU, OpKind.LEAKY_RELU, OpKind.CLIP, OpKind.SIGMOID, OpKind.TANH),
        *(OpKind.GELU, OpKind.GELU_TANH, OpKind.ELU),
    )
)
