"""Windows of convolutions and poolings: extents, strides, padding and dilation by axis."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope
from autotune.operators.op import AttrValue, OpKind

MAX_AXES = 3
PLANE = 2
"""Spatial axes of a window operator of the graph."""
PLANE_RANK, VOLUME_RANK = 4, 5
"""Ranks [N, C, H, W] and [N, C, D, H, W]."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window over some spatial axes, defaults and ``auto_pad`` resolved."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilations: tuple[int, ...]
    widened: tuple[int, ...]
    """Padding that ``ceil_mode`` adds to ``after``."""

    @property
    def pads(self) -> tuple[int, ...]:
        """Padding before every axis, then after every axis."""
        return (*self.before, *self.after)

    def planar(self) -> Window:
        """Return the window with a leading extent of 1 if it has a single axis."""
        if len(self.kernel) == PLANE:
            return self
        return Window(
            (1, *self.kernel),
            (1, *self.strides),
            (0, *self.before),
            (0, *self.after),
            (1, *self.dilations),
            (0, *self.widened),
        )

    def part(self, axes: slice) -> Window:
        """Return the window over some of its axes."""
        return Window(
            self.kernel[axes],
            self.strides[axes],
            self.before[axes],
            self.after[axes],
            self.dilations[axes],
            self.widened[axes],
        )

    def within_padding(self) -> Window:
        """Return the window over an input that contains the declared padding."""
        none = (0,) * len(self.kernel)
        return Window(self.kernel, self.strides, none, self.widened, self.dilations, self.widened)

    def conv(self, group: int) -> dict[str, AttrValue]:
        """Return the attributes of a CONV operator."""
        return {
            "strides": self.strides,
            "pads": self.pads,
            "dilations": self.dilations,
            "group": group,
        }

    def pool(self) -> dict[str, AttrValue]:
        """Return the attributes of a MAX_POOL operator."""
        return {
            "kernel": self.kernel,
            "strides": self.strides,
            "pads": self.pads,
            "dilations": self.dilations,
        }


def planar_input(scope: Scope, node: Node, tensor: str) -> str:
    """Return [N, C, L] as [N, C, 1, L]; rank 4 stays."""
    shape = scope.shape(tensor)
    if len(shape) == 4:
        return tensor
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(*shape[:2], 1, *shape[2:]))


def window_of(node: Node, x_shape: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """Read strides, pads, dilations, ``auto_pad`` and ``ceil_mode`` of a node over ``x_shape``."""
    axes = len(x_shape) - 2
    if not 1 <= axes <= MAX_AXES:
        raise ModelError(
            f"{node.label}: {node.operator} over shape {list(x_shape)}: only one to {MAX_AXES} spatial "
            "axes (rank 3 to 5) are supported"
        )
    strides = _per_axis(node, "strides", axes)
    dilations = _per_axis(node, "dilations", axes)
    if len(kernel) != axes or min(*kernel, *strides, *dilations) < 1:
        raise ModelError(f"{node.label}: kernel, strides and dilations must be {axes} integers ≥ 1")
    spans = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    before, after = _pads(node, x_shape[2:], spans, strides)
    extra = (0,) * axes
    if node.int("ceil_mode", 0):
        extra = tuple(
            _ceil_extra(size, span, s, b, a)
            for size, span, s, b, a in zip(x_shape[2:], spans, strides, before, after, strict=True)
        )
    after = tuple(a + e for a, e in zip(after, extra, strict=True))
    return Window(kernel, strides, before, after, dilations, extra)


def _per_axis(node: Node, name: str, axes: int) -> tuple[int, ...]:
    values = node.ints(name) or (1,) * axes
    if len(values) != axes:
        raise ModelError(f"{node.label}: {name} must hold {axes} integers, got {list(values)}")
    return values


def _pads(
    node: Node, sizes: tuple[int, ...], spans: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    axes = len(sizes)
    mode = node.text("auto_pad", "NOTSET")
    if mode == "VALID":
        return (0,) * axes, (0,) * axes
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        total = tuple(
            max(0, (-(-size // s) - 1) * s + span - size)
            for size, span, s in zip(sizes, spans, strides, strict=True)
        )
        small = tuple(t // 2 for t in total)
        large = tuple(t - h for t, h in zip(total, small, strict=True))
        return (small, large) if mode == "SAME_UPPER" else (large, small)
    pads = node.ints("pads") or (0,) * (2 * axes)
    if mode != "NOTSET" or len(pads) != 2 * axes or min(pads) < 0:
        raise ModelError(
            f"{node.label}: auto_pad={mode}, pads={list(pads)}: expected {2 * axes} pads ≥ 0"
        )
    return pads[:axes], pads[axes:]


def _ceil_extra(size: int, span: int, stride: int, before: int, after: int) -> int:
    """Return padding behind the input for which floor mode has the output extent of ceil mode.

    A last window that would start in that padding is dropped, as ONNX says.
    """
    room = size + before + after - span
    positions = -(-room // stride) + 1
    if (positions - 1) * stride >= size + before:
        positions -= 1
    return max(0, (positions - 1) * stride - room)
