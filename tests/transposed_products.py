"""Drawn transposed convolutions in the QDQ form, and what they are by definition, in whole steps.

Scales are powers of two and sums below 2^24: every float32 engine computes the same numbers, whatever its order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

Arrays = dict[str, np.ndarray]
TYPES = (np.int8, np.uint8)
MODES = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True)
class Transposed:
    """x [batch, groups · inner, extents] by w [groups · inner, outer, kernel], with the attributes of ONNX.

    ``held`` are the stored numbers; ``limits`` the elements of the result's axes before and from which on it ends.
    """

    fed: Arrays
    held: Arrays
    attrs: dict[str, object]
    is_clamped: bool

    @property
    def model(self) -> onnx.ModelProto:
        """The network: dequantised, convolved, clamped or not, quantised."""
        names = {x: f"{x}d" for x in "xwb" if x in self.fed or x in self.held}
        nodes = [
            helper.make_node(
                "DequantizeLinear", [x, f"{x}s", f"{x}z"], [made], axis=1 if x == "w" else 0
            )
            for x, made in names.items()
        ]
        nodes.append(helper.make_node("ConvTranspose", [*names.values()], ["s"], **self.attrs))
        if self.is_clamped:
            nodes.append(helper.make_node("Relu", ["s"], ["r"]))
        last = "r" if self.is_clamped else "s"
        nodes.append(helper.make_node("QuantizeLinear", [last, "ys", "yz"], ["y"]))
        kind = helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            nodes,
            "transposed",
            [helper.make_tensor_value_info(x, kind(v.dtype), v.shape) for x, v in self.fed.items()],
            [helper.make_tensor_value_info("y", kind(self.held["yz"].dtype), None)],
            [numpy_helper.from_array(v, x) for x, v in self.held.items()],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        return onnx.shape_inference.infer_shapes(made)

    @property
    def wanted(self) -> np.ndarray:
        """The result by definition: every element of x adds its taps; what no tap reaches is the bias."""
        held, groups = self.held, int(str(self.attrs["group"]))
        x = (self.fed["x"].astype(np.float64) - held["xz"]) * held["xs"]
        w = held["w"].astype(np.float64) - held["wz"].reshape(-1, *(1,) * (held["w"].ndim - 2))
        w = w * held["ws"].reshape(-1, *(1,) * (w.ndim - 2))
        parts = zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True)
        y = np.concatenate([self._scattered(*part) for part in parts], 1)
        if "b" in held:
            y = y + (held["b"] * held["bs"].astype(np.float64)).reshape(-1, *(1,) * (y.ndim - 2))
        y = np.maximum(y, 0) if self.is_clamped else y
        limits = np.iinfo(held["yz"].dtype)
        whole = np.rint(y / held["ys"]) + held["yz"].astype(np.float64)
        return np.clip(whole, limits.min, limits.max)

    def _scattered(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        strides, dilations, extra = (
            np.asarray(self.attrs[n], int) for n in ("strides", "dilations", "output_padding")
        )
        extents, kernel = np.asarray(x.shape[2:]), np.asarray(w.shape[2:])
        whole = (extents - 1) * strides + (kernel - 1) * dilations + 1 + extra
        y = np.zeros((x.shape[0], w.shape[1], *whole))
        for tap in np.ndindex(*w.shape[2:]):
            places = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, dilations, extents, strides, strict=True)
            )
            y[(..., *places)] += np.einsum("ni...,io->no...", x, w[(..., *tap)])
        before, lengths = self._kept(whole, extents * strides)
        return y[(..., *(slice(b, b + n) for b, n in zip(before, lengths, strict=True)))]

    def _kept(self, whole: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first elements that stay, and how many do."""
        mode = self.attrs.get("auto_pad", "NOTSET")
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            cut = whole - same
            return (cut // 2 if mode == "SAME_UPPER" else cut - cut // 2), same
        pads = np.asarray(self.attrs.get("pads", (0,) * 2 * len(whole)), int).reshape(2, -1)
        return pads[0], whole - pads.sum(0)


@st.composite
def transposed(draw: st.DrawFn, groups: tuple[int, ...] = (1, 1, 1, 2, 3)) -> Transposed:
    """Draw a case of one or two spatial axes."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    group, count = draw(st.sampled_from(groups)), draw(st.integers(1, 2))
    inner, outer = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    if draw(st.integers(0, 5)) == 0:
        inner, outer = 32, 32  # phases of unequal taps are convolutions of their own
    axes = [_axis(draw) for _ in range(count)]
    extents, kernel, strides, dilations, extra, before, after = zip(*axes, strict=True)
    attrs: dict[str, object] = {
        "group": group, "strides": strides, "dilations": dilations, "output_padding": extra,
    }  # fmt: skip
    mode = draw(st.sampled_from(MODES))
    reaches = [(k - 1) * d + 1 + e for k, d, e in zip(kernel, dilations, extra, strict=True)]
    if mode.startswith("SAME") and all(r >= s for r, s in zip(reaches, strides, strict=True)):
        attrs["auto_pad"] = mode
    elif mode == "NOTSET":
        attrs["pads"] = (*before, *after)
    first, second, last = (draw(st.sampled_from(TYPES)) for _ in range(3))
    per_channel = draw(st.booleans())
    many = (outer,) if per_channel else ()
    x = _whole(rng, first, (draw(st.integers(1, 2)), group * inner, *extents))
    held = {
        "xs": _power(rng), "xz": _zero(draw, first), "w": _whole(rng, second, (group * inner, outer, *kernel)),
        "ws": _power(rng, *many),
        "wz": np.full(many, _zero(draw, second)),
        "ys": _power(rng, low=-3, high=1), "yz": _zero(draw, last),
    }  # fmt: skip
    if draw(st.booleans()):
        held["b"] = rng.integers(-5000, 5000, group * outer).astype(np.int32)
        steps = np.tile(held["ws"], group) if per_channel else np.full(group * outer, held["ws"])
        held |= {
            "bs": (held["xs"] * steps).astype(np.float32),
            "bz": np.zeros(group * outer, np.int32),
        }
    return Transposed({"x": x}, held, attrs, draw(st.booleans()))


def _axis(draw: st.DrawFn) -> tuple[int, ...]:
    """Extent, kernel, stride, dilation, elements more at the end, and padding before and after."""
    extent, kernel, stride = (draw(st.integers(1, n)) for n in (5, 3, 3))
    dilation = draw(st.integers(1, 2))
    extra = draw(st.integers(0, stride - 1))
    whole = (extent - 1) * stride + (kernel - 1) * dilation + 1 + extra
    before = draw(st.integers(0, min(2, whole - 1)))
    after = draw(st.integers(0, min(2, whole - 1 - before)))
    return extent, kernel, stride, dilation, extra, before, after


def _whole(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _zero(draw: st.DrawFn, dtype: type) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(draw(st.sampled_from((0, 3, limits.min, limits.max))), dtype)


def _power(rng: np.random.Generator, *shape: int, low: int = -8, high: int = -3) -> np.ndarray:
    return np.exp2(rng.integers(low, high, shape)).astype(np.float32)
