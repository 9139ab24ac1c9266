"""ONNX operators that slide a window: the poolings, LRN; and the window attributes Conv shares."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import ModelError
from autotune.graph.onnx_ops.scope import Node, Scope, Translate
from autotune.graph.op import AttrValue, OpKind
from autotune.graph.shapes import MAX_SLIDING_RANK

CHANNEL_AXIS = 1
"""Of every tensor that ONNX slides a window over."""


@dataclass(frozen=True, slots=True)
class Window:
    """Two-dimensional window attributes with every default and ``auto_pad`` resolved."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    widened: bool
    """Whether ``ceil_mode`` added padding behind what the model declares."""

    def conv(self, group: int) -> dict[str, AttrValue]:
        """The attributes of a CONV operator."""
        return {
            "strides": self.strides,
            "pads": self.pads,
            "dilations": self.dilations,
            "group": group,
        }

    def pool(self) -> dict[str, AttrValue]:
        """The attributes of a MAX_POOL operator."""
        return {
            "kernel": self.kernel,
            "strides": self.strides,
            "pads": self.pads,
            "dilations": self.dilations,
        }


def window_attrs(node: Node, x_shape: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """Read strides, pads, dilations, ``auto_pad`` and ``ceil_mode`` of a node over ``x_shape``.

    A one-dimensional window (rank 3) comes back with a leading extent of 1.
    """
    axes = len(x_shape) - 2
    if axes not in (1, 2):
        raise ModelError(
            f"{node.label}: {node.operator} over shape {list(x_shape)}: only one or two spatial "
            "axes (rank 3 or 4) are supported"
        )
    strides = _per_axis(node, "strides", axes)
    dilations = _per_axis(node, "dilations", axes)
    if len(kernel) != axes or min(*kernel, *strides, *dilations) < 1:
        raise ModelError(f"{node.label}: kernel, strides and dilations must be {axes} integers ≥ 1")
    spans = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    before, after = _pads(node, x_shape[2:], spans, strides)
    declared = after
    if node.int("ceil_mode", 0):
        after = tuple(
            a + _ceil_extra(size, span, s, b, a)
            for size, span, s, b, a in zip(x_shape[2:], spans, strides, before, after, strict=True)
        )
    lead = (1,) * (2 - axes)
    none = (0,) * (2 - axes)
    return Window(
        kernel=(*lead, *kernel),
        strides=(*lead, *strides),
        pads=(*none, *before, *none, *after),
        dilations=(*lead, *dilations),
        widened=after != declared,
    )


def planar_input(scope: Scope, node: Node, tensor: str) -> str:
    """[N, C, L] seen as [N, C, 1, L]; rank 4 stays."""
    shape = scope.shape(tensor)
    if len(shape) == 4:
        return tensor
    return scope.step(node, OpKind.RESHAPE, tensor, shape=(*shape[:2], 1, *shape[2:]))


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
    """Padding behind the input that lets floor mode give the output extent of ceil mode.

    A last window that would start in the padding behind the input is dropped, as ONNX says.
    """
    room = size + before + after - span
    positions = -(-room // stride) + 1
    if (positions - 1) * stride >= size + before:
        positions -= 1
    return max(0, (positions - 1) * stride - room)


def _pooled(scope: Scope, node: Node, kind: OpKind) -> str:
    kernel = node.ints("kernel_shape")
    if kernel is None:
        raise ModelError(f"{node.label}: {node.operator} has no kernel_shape")
    x = scope.tensor(node, 0)
    window = window_attrs(node, scope.shape(x), kernel)
    attrs = window.pool()
    if kind is OpKind.AVERAGE_POOL:
        attrs["count_include_pad"] = int(node.int("count_include_pad", 0) != 0)
        if window.widened and attrs["count_include_pad"]:
            raise ModelError(
                f"{node.label}: AveragePool with both ceil_mode and count_include_pad reaches past "
                "the padding, which is not supported; export with ceil_mode=0"
            )
    if len(scope.shape(x)) == 4:
        return scope.result(node, kind, x, **attrs)
    y = scope.step(node, kind, planar_input(scope, node, x), **attrs)
    n, c, _, length = scope.shape(y)
    return scope.reshaped(node, y, (n, c, length))


def _global_pooled(scope: Scope, node: Node, kind: OpKind) -> str:
    x = scope.tensor(node, 0)
    rank = len(scope.shape(x))
    if rank < 3:
        raise ModelError(f"{node.label}: {node.operator} needs rank ≥ 3, got {rank}")
    return scope.result(node, kind, x, axes=tuple(range(2, rank)))


def _local_response_norm(scope: Scope, node: Node) -> str:
    """y = x / (bias + alpha / size · Σ x²)^beta over ``size`` neighbouring channels
    (Krizhevsky et al. 2012, section 3.3). The windows reach ⌊(size − 1) / 2⌋ channels down."""
    size = node.int("size", 0)
    if size < 1:
        raise ModelError(f"{node.label}: LRN size must be an integer ≥ 1, got {size}")
    x = scope.tensor(node, 0)
    if not 2 <= len(scope.shape(x)) <= MAX_SLIDING_RANK:
        raise ModelError(
            f"{node.label}: LRN over shape {list(scope.shape(x))}: only ranks 2 to "
            f"{MAX_SLIDING_RANK} are supported"
        )
    before = (size - 1) // 2
    total = scope.step(
        node,
        OpKind.SLIDING_SUM,
        scope.step(node, OpKind.MUL, x, x),
        axis=CHANNEL_AXIS,
        before=before,
        after=size - 1 - before,
    )
    share = scope.constant(node, node.float("alpha", 1e-4) / size, "alpha")
    scaled = scope.step(node, OpKind.MUL, total, share)
    base = scope.step(
        node, OpKind.ADD, scaled, scope.constant(node, node.float("bias", 1.0), "bias")
    )
    return scope.result(node, OpKind.DIV, x, _power(scope, node, base, node.float("beta", 0.75)))


def _power(scope: Scope, node: Node, base: str, beta: float) -> str:
    """base^beta; the published 0.75 by two square roots, exact where a general power is not."""
    if beta == 1.0:
        return base
    if beta not in (0.5, 0.75):
        return scope.step(node, OpKind.POW, base, scope.constant(node, beta, "beta"))
    root = scope.step(node, OpKind.SQRT, base)
    if beta == 0.5:
        return root
    return scope.step(node, OpKind.SQRT, scope.step(node, OpKind.MUL, base, root))


WINDOW: dict[str, Translate] = {
    "MaxPool": lambda scope, node: _pooled(scope, node, OpKind.MAX_POOL),
    "AveragePool": lambda scope, node: _pooled(scope, node, OpKind.AVERAGE_POOL),
    "LRN": _local_response_norm,
    "GlobalAveragePool": lambda scope, node: _global_pooled(scope, node, OpKind.REDUCE_MEAN),
    "GlobalMaxPool": lambda scope, node: _global_pooled(scope, node, OpKind.REDUCE_MAX),
}
