"""Pass: 3×3 convolutions by Winograd's F(4×4, 3×3) or F(2×2, 3×3), where faster and allowed.

A form takes as long as its products, or as its transformed weight from memory, whichever is more: few
tiles share a weight that is four times the direct one (docs/decisions/0096-winograd-by-bandwidth.md).

The user's accuracy allows it. Infinity or NaN in a pixel spreads over all tiles that read it; the
direct convolution passes it on only to results whose window holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.graph.accuracy import Accuracy, allows
from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, rebuilt
from autotune.isa.formats import FLOAT32_ONLY, Format, Formats
from autotune.operators.axes import CHANNELS_LAST
from autotune.operators.family import Shape
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import Array
from autotune.operators.winograd import F2, F4, KERNEL, Form, transformed_weight
from autotune.operators.winograd_conv import tile_count

MIN_CHANNELS = 16
"""Least channels, in and out: fewer leave the matrix unit idle. Measured on Zen 3, relative to the
direct convolution: F(4×4) with 16 channels is 1.6 times as fast at 56×56, and 1.9 at 28×28. F(2×2)
is 0.6 with 8 channels, 1.1 with 16."""
MIN_TILES = 16
"""Of all images of a run, where the time of weights is not known. The transformed weight, four times the direct one, is
read once for all of them. Gains of F(4×4), from 128 to 512 channels: with the 4 tiles of a 7×7 image 0.7 to 1.2, with
the 9 of 10×10 0.9, with the 16 of 14×14 1.7 to 2.4. Gains of F(2×2): with the 16 tiles of a 7×7 image 1.4 to 1.6, with
the 49 of 14×14 1.7 (docs/decisions/0023-small-winograd-tiles.md)."""


Forms = Mapping[str, Form | None]
"""Forms of convolutions by name; None is the direct one."""
FORMS_BY_PRODUCTS = (F4, F2)
"""The form with the fewest products first."""


@dataclass(frozen=True, slots=True)
class WinogradConvolutions:
    """CONV that is channels-last, 3×3, of stride, dilation and group 1 and of a constant weight becomes
    WINOGRAD_CONV, in the form that gains most of those that ``accuracy`` allows. Weights are
    transformed in float64 and rounded once.

    Weights of bf16 stay as they are, unless the machine multiplies the format by constants alone, and not fast. CPUs
    without tiles are such: F(4×4) in float32 takes 0.60 to 0.86 of the time of direct products of bf16 there, F(2×2) 1.46
    (Zen 4, 16 to 512 channels, 7×7 to 224×224).
    """

    accuracy: Accuracy = Accuracy.FAST
    formats: Formats = FLOAT32_ONLY
    name: str = "winograd"

    def run(self, graph: Graph) -> PassResult:
        """Replace every convolution that gains by it."""
        constants: dict[str, Array] = {}
        ops, notes = [], []
        for op in graph.ops:
            form = self._form(op, graph) if is_plain(op, graph) else None
            if form is not None and not self._gains(op, form, graph):
                form = None
            if form is None:
                ops.append(op)
                continue
            x, weight, *bias = op.inputs
            name = f"{weight}.winograd" + ("" if form is F4 else str(form.tile))
            if name not in constants:
                constants[name] = transformed_weight(graph.constants[weight], form)
            attrs = {"pads": op.ints("pads")}
            ops.append(Op.make(op.name, OpKind.WINOGRAD_CONV, (x, name, *bias), op.output, attrs))
            reason = f"Winograd's F({form.tile}×{form.tile}, 3×3) is faster"
            notes.append(Note(self.name, f"direct form of {op.name}", reason))
        if not notes:
            return PassResult(graph, ())
        return PassResult(rebuilt(graph, ops, constants), tuple(notes))

    def _form(self, op: Op, graph: Graph) -> Form | None:
        """Return the fastest form; None if that is the direct one."""
        channels, outputs = graph.shape(op.inputs[1])[-2:]
        forms = allowed_forms(channels, outputs, self.accuracy)
        return fastest_form(graph.shape(op.output), forms, self.formats.macs_per_byte)

    def _gains(self, op: Op, form: Form, graph: Graph) -> bool:
        """Return True if a form is faster than direct products in the format of the weight."""
        format = graph.types[op.inputs[1]].storage
        if format is Format.FP32:
            return True
        is_fast = format in self.formats.fast
        return format in self.formats.by_constants and form is F4 and not is_fast


def is_plain(op: Op, graph: Graph) -> bool:
    """Return True if Winograd's algorithm computes this operator."""
    if op.kind is not OpKind.CONV or op.axes != CHANNELS_LAST or op.zeros is not None:
        return False
    if graph.types[op.output].dtype.is_integer:  # sums of integers are exact
        return False
    if any(x not in graph.constants for x in op.inputs[1:]) or op.int("group") != 1:
        return False
    kernel = op.axes.taps(graph.shape(op.inputs[1]))
    steps = (*op.ints("strides"), *op.ints("dilations"))
    return kernel == (KERNEL, KERNEL) and set(steps) == {1}


def allowed_forms(channels: int, outputs: int, accuracy: Accuracy) -> tuple[Form, ...]:
    """Return the forms with enough channels that ``accuracy`` allows, that with the fewest products first."""
    if min(channels, outputs) < MIN_CHANNELS:
        return ()
    return tuple(form for form in FORMS_BY_PRODUCTS if allows(accuracy, form, channels))


def fastest_form(image: Shape, forms: Sequence[Form], macs_per_byte: int) -> Form | None:
    """Return the fastest of the direct form, None, and others for a result ``image`` [N, H, W, M]."""
    if not macs_per_byte:
        return next((x for x in forms if tile_count(image, x) >= MIN_TILES), None)
    return min(
        (None, *forms), key=lambda form: multiply_adds_per_weight(image, form, macs_per_byte)
    )


def forms_at(graph: Graph, accuracy: Accuracy, macs_per_byte: int) -> Forms:
    """Return the fastest forms of a graph's 3×3 convolutions by name, whatever forms they have now."""
    forms: dict[str, Form | None] = {}
    for op in graph.ops:
        if op.family is Family.WINOGRAD or is_plain(op, graph):
            channels, outputs = graph.shape(op.inputs[1])[-2:]
            allowed = allowed_forms(channels, outputs, accuracy)
            forms[op.name] = fastest_form(graph.shape(op.output), allowed, macs_per_byte)
    return forms


def multiply_adds_per_weight(image: Shape, form: Form | None, macs_per_byte: int) -> int:
    """Return the time of a convolution, for each pair of an input and an output channel, in multiply-adds.

    ``image`` is the result [N, H, W, M], and ``form`` None is the direct one. ``macs_per_byte`` are
    multiply-adds in the time of a byte of the weight from memory. The additions of the transforms are left out.
    """
    batch, rows, columns, _ = image
    if form is None:
        points, uses = KERNEL * KERNEL, batch * rows * columns
    else:
        points, uses = (form.tile + KERNEL - 1) ** 2, tile_count(image, form)
    return points * max(uses, Format.FP32.bytes * macs_per_byte)
