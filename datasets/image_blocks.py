"""Blocks that image networks are built of: activations, squeeze-and-excite, inverted residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.datasets.exporter import Exporter
from autotune.errors import ModelError

Activation = Callable[[Exporter, str], str]
"""Appends an activation to a tensor."""


def relu(export: Exporter, x: str) -> str:
    """max(x, 0)."""
    return export.node("Relu", x)


def relu6(export: Exporter, x: str) -> str:
    """min(max(x, 0), 6) (section 4 of arXiv:1801.04381)."""
    stem = f"relu{len(export.nodes)}"
    low, high = export.number(f"{stem}_low", 0.0), export.number(f"{stem}_high", 6.0)
    return export.node("Clip", x, low, high)


def swish(export: Exporter, x: str) -> str:
    """x · sigmoid(x) (arXiv:1710.05941), in two nodes as exporters write it."""
    return export.node("Mul", x, export.node("Sigmoid", x))


def hard_swish(export: Exporter, x: str) -> str:
    """x · clip(x / 6 + 1/2, 0, 1) (section 5.2 of arXiv:1905.02244)."""
    return export.node("HardSwish", x)


def sigmoid(export: Exporter, x: str) -> str:
    """1 / (1 + exp(−x))."""
    return export.node("Sigmoid", x)


def hard_sigmoid(export: Exporter, x: str) -> str:
    """clip(x / 6 + 1/2, 0, 1)."""
    return export.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@dataclass(frozen=True, slots=True)
class Squeeze:
    """Squeeze-and-excite (Hu et al. 2018, arXiv:1709.01507): every channel is scaled by a gate that
    two 1×1 convolutions, over ``channels`` between them, make of all channels' means."""

    channels: int
    activate: Activation
    gate: Activation

    def added(self, export: Exporter, x: str, name: str, width: int) -> str:
        """x [N, width, H, W], scaled."""
        y = export.node("GlobalAveragePool", x)
        y = self.activate(export, export.conv(y, f"{name}_reduce", (width, self.channels), 1))
        y = export.conv(y, f"{name}_expand", (self.channels, width), 1, gain=1.0)
        return export.node("Mul", x, self.gate(export, y))


@dataclass(frozen=True, slots=True)
class InvertedResidual:
    """Expand to ``inner`` channels, filter depthwise, squeeze, project linearly; a residual where the
    shape stays (section 3 of arXiv:1801.04381)."""

    inputs: int
    inner: int
    outputs: int
    activate: Activation
    kernel: int = 3
    stride: int = 1
    squeeze: Squeeze | None = None
    rectified: bool = False
    """Whether the input comes from a rectifier, and weights make up for it."""

    def added(self, export: Exporter, x: str, name: str) -> str:
        """The block behind x [N, inputs, H, W]."""
        y, inner = x, self.inner
        if inner != self.inputs:
            gain = 2.0 if self.rectified else 1.0
            y = export.conv(y, f"{name}_expand", (self.inputs, inner), 1, gain=gain)
            y = self.activate(export, y)
        y = self.activate(
            export,
            export.conv(
                y, f"{name}_depthwise", (inner, inner), self.kernel,
                stride=self.stride, pad=self.kernel // 2, group=inner,
            ),
        )  # fmt: skip
        gain = 2.0
        if self.squeeze is not None:
            y = self.squeeze.added(export, y, f"{name}_squeeze", inner)
            gain = 8.0  # gates are near a half
        y = export.conv(y, f"{name}_project", (inner, self.outputs), 1, gain=gain)
        return export.node("Add", x, y) if self.stride == 1 and self.inputs == self.outputs else y


def classified(export: Exporter, x: str, channels: int, classes: int) -> None:
    """Means over the image, and the logits ``y`` [N, classes] of them."""
    pooled = export.node("Flatten", export.node("GlobalAveragePool", x), axis=1)
    weight = export.weight("classifier_w", channels, classes)
    export.node("Gemm", pooled, weight, export.vector("classifier_b", classes), output="y")


def check_multiple(network: str, what: str, value: int, of: int) -> None:
    """Raises ``ModelError`` unless ``value`` is a positive multiple of ``of``."""
    if value < of or value % of:
        raise ModelError(f"{network}: {what} {value} is no multiple of {of}")


def of_eight(channels: float) -> int:
    """The multiple of 8 next to a scaled number of channels, not over 10 % below it, at least 8."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
