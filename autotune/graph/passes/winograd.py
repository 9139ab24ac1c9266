"""Pass: 3×3 convolutions by Winograd's F(4×4, 3×3), where that is faster; only under Accuracy.FAST."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.graph.axes import CHANNELS_LAST
from autotune.graph.graph import Array, Graph
from autotune.graph.op import Op, OpKind
from autotune.graph.passes.note import Note, PassResult, rebuilt
from autotune.graph.winograd import KERNEL, transformed_weight
from autotune.graph.work import tiles_of

MIN_CHANNELS = 16
"""In and out: fewer leave the matrix unit idle (measured on Zen 3: 1.6 times the direct convolution
with 16 channels at 56×56, 1.9 at 28×28)."""
MIN_TILES = 16
"""Of all images of a run. The transformed weight, four times the direct one, is read once for all of
them: with the 4 tiles of a 7×7 image the gain is 0.7 to 1.2 from 128 to 512 channels, with the 9 of
10×10 it is 0.9, with the 16 of 14×14 it is 1.7 to 2.4."""


@dataclass(frozen=True, slots=True)
class WinogradConvolutions:
    """CONV that is channels-last, 3×3, of stride, dilation and group 1 and of a constant weight becomes
    WINOGRAD_CONV. Weights are transformed in float64 and rounded once."""

    name: str = "winograd"

    def run(self, graph: Graph) -> PassResult:
        """Replace every convolution that gains by it."""
        constants: dict[str, Array] = {}
        ops, notes = [], []
        for op in graph.ops:
            if not (is_plain(op, graph) and gains(op, graph)):
                ops.append(op)
                continue
            x, weight, *bias = op.inputs
            name = f"{weight}.winograd"
            if name not in constants:
                constants[name] = transformed_weight(graph.constants[weight])
            attrs = {"pads": op.ints("pads")}
            ops.append(Op.make(op.name, OpKind.WINOGRAD_CONV, (x, name, *bias), op.output, attrs))
            notes.append(Note(self.name, f"direct form of {op.name}", "Winograd's is faster"))
        if not notes:
            return PassResult(graph, ())
        return PassResult(rebuilt(graph, ops, constants), tuple(notes))


def is_plain(op: Op, graph: Graph) -> bool:
    """Whether Winograd's algorithm computes this operator."""
    if op.kind is not OpKind.CONV or op.axes != CHANNELS_LAST:
        return False
    if any(x not in graph.constants for x in op.inputs[1:]) or op.int("group") != 1:
        return False
    kernel = op.axes.taps(graph.shape(op.inputs[1]))
    steps = (*op.ints("strides"), *op.ints("dilations"))
    return kernel == (KERNEL, KERNEL) and set(steps) == {1}


def gains(op: Op, graph: Graph) -> bool:
    """Whether it is faster there, by the measurements of this module's constants."""
    *_, channels, outputs = graph.shape(op.inputs[1])
    enough = tiles_of(graph.shape(op.output)) >= MIN_TILES
    return min(channels, outputs) >= MIN_CHANNELS and enough
