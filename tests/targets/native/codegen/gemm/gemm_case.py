"""Random MATMULs for the native generator: drawn shapes, their arrays, and the oracle in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn, When
from autotune.isa.notation import EPILOGUE_FUNCTIONS
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.codegen.gemm.shape import (
    BiasAxis,
    GemmShape,
    VectorAxis,
    vector_axis,
)

GUARD = np.float32(-77.5)
GUARDS = 40


@st.composite
def strides(draw: st.DrawFn, names: str, sizes: dict[str, int], first: str) -> dict[str, int]:
    """Strides of an array with those axes in a drawn order, the innermost drawn unit or spread."""
    order = draw(st.permutations(names.split()))
    if draw(st.booleans()):
        order.sort(key=lambda name: name == first)
    step, found = draw(st.sampled_from([1, 1, 1, 2, 3])), {}
    for name in reversed(order):
        found[name] = step
        step = step * sizes[name] + draw(st.sampled_from([0, 0, 0, 5]))
    return found


@st.composite
def shapes(draw: st.DrawFn) -> GemmShape:
    """Any MATMUL, small."""
    sizes = {
        "m": draw(st.sampled_from([1, 2, 3, 5, 7, 8, 12, 16, 19, 33, 48])),
        "n1": draw(st.sampled_from([1, 1, 1, 2, 3, 7])),
        "n0": draw(st.sampled_from([1, 2, 4, 7, 8, 9, 16, 21, 40])),
        "k2": draw(st.sampled_from([1, 1, 3])),
        "k1": draw(st.sampled_from([1, 1, 2, 3])),
        "k0": draw(st.integers(1, 13)),
    }
    lanes = draw(st.sampled_from(["m", "n0"]))
    a = draw(strides("m k2 k1 k0", sizes, "m" if lanes == "m" else "k0"))
    b = draw(strides("k2 k1 k0 n1 n0", sizes, "k0" if lanes == "m" else "n0"))
    c = draw(strides("m n1 n0", sizes, lanes))
    r = c if draw(st.booleans()) else draw(strides("m n1 n0", sizes, lanes))
    if draw(st.booleans()):  # a convolution's overlapping windows
        b["k1"] = b["n0"]
    low, high = sorted(draw(st.tuples(*[st.floats(-2, 2, width=32)] * 2)))
    return GemmShape(
        **sizes,
        **{f"{array}_{axis}": step for array, table in zip("abcr", (a, b, c, r), strict=True) for axis, step in table.items()},
        accumulate=draw(st.sampled_from(When)),
        epilogue=draw(st.sampled_from(When)),
        last=draw(st.integers(0, 3)),
        bias=draw(st.sampled_from(BiasAxis)),
        fn=draw(st.sampled_from(EPILOGUE_FUNCTIONS)),
        p0=low,
        p1=high,
        scale=draw(st.sampled_from([1.0, 1.0, 0.37])),
        adds=draw(st.booleans()),
        adds_last=draw(st.booleans()),
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A shape with flat arrays; c has ``GUARDS`` words on either side and guards in all gaps."""

    shape: GemmShape
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    bias: np.ndarray
    r: np.ndarray

    @classmethod
    def of(cls, shape: GemmShape, seed: int) -> Case:
        """Normally distributed numbers, and arrays that end at their last element."""
        rng = np.random.default_rng(seed)
        extents = {name: _extent(shape, name) for name in "abcr"}
        a, b, r = (rng.standard_normal(extents[name], np.float32) for name in "abr")
        if shape.panel_format is not Format.FP32:
            a, b = (
                _narrow(rng, shape.panel_format, x.size) if name == packed_factor(shape) else x
                for name, x in (("a", a), ("b", b))
            )
        c = np.full(extents["c"] + 2 * GUARDS, GUARD)
        view(c[GUARDS:], shape, "c")[...] = rng.standard_normal((shape.m, shape.n1, shape.n0))
        bias = rng.standard_normal(shape.m if shape.bias == BiasAxis.M else shape.n0, np.float32)
        return cls(shape, a, b, c, bias, r)

    def operands(self, c: np.ndarray) -> list[np.ndarray]:
        """The kernel's, with ``c`` as given and the factor in panels if the shape says so."""
        by_name = {"a": self.a, "b": self.b, "c": c[GUARDS:], "bias": self.bias, "r": self.r}
        if self.shape.panel is not None:
            packed = packed_factor(self.shape)
            by_name[packed] = panels(self, packed)
        return [by_name[name] for name in self.shape.operands]

    def expected(self, trip: int, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """c[m,n1,n0] in float64, and a bound of the kernel's error."""
        s = self.shape
        a, b = view(self.a, s, "a").astype(float), view(self.b, s, "b").astype(float)
        total = np.einsum("mkji,kjinp->mnp", a, b)
        size = np.einsum("mkji,kjinp->mnp", abs(a), abs(b))
        if s.accumulate == When.ALWAYS or (s.accumulate == When.BY_LEVEL and trip != 0):
            old = view(self.c[GUARDS:], s, "c").astype(float)
            total, size = total + old, size + abs(old)
        if s.epilogue == When.ALWAYS or (s.epilogue == When.BY_LEVEL and trip == s.last):
            term = self._term(r)
            total, size = s.scale * total + term, abs(s.scale) * size + abs(term)
            total = _apply(s, total)
            size = size * max(1.0, abs(s.p0)) + abs(s.p0) + abs(s.p1)
        eps = np.finfo(np.float32).eps
        return total, (s.k2 * s.k1 * s.k0 + 6) * eps * size

    def _term(self, r: np.ndarray) -> np.ndarray:
        s = self.shape
        term = np.zeros((s.m, s.n1, s.n0))
        if s.bias == BiasAxis.M:
            term += self.bias[:, None, None]
        elif s.bias == BiasAxis.N0:
            term += self.bias
        return term + view(r, s, "r") if s.adds else term


AXES = {
    "a": ("m", "k2", "k1", "k0"),
    "b": ("k2", "k1", "k0", "n1", "n0"),
    "c": ("m", "n1", "n0"),
    "r": ("m", "n1", "n0"),
}


def view(flat: np.ndarray, shape: GemmShape, name: str) -> np.ndarray:
    """The strided array in a flat one."""
    sizes = [getattr(shape, axis) for axis in AXES[name]]
    steps = [4 * getattr(shape, f"{name}_{axis}") for axis in AXES[name]]
    return np.lib.stride_tricks.as_strided(flat, sizes, steps)


def panels(case: Case, name: str) -> np.ndarray:
    """The factor as [ceil(V/NR)][k][NR] with zeros behind."""
    shape, width = case.shape, case.shape.panel
    assert width is not None
    whole = view(getattr(case, name), shape, name)
    whole = whole.reshape(shape.m, -1).T if name == "a" else whole.reshape(-1, shape.n0)
    count = -(-whole.shape[1] // width)
    padded = np.pad(whole, ((0, 0), (0, count * width - whole.shape[1])))
    dtype = ARRAY_TYPES[shape.panel_format]
    return np.ascontiguousarray(padded.reshape(-1, count, width).swapaxes(0, 1)).astype(dtype)


def packed_factor(shape: GemmShape) -> str:
    """Name of the factor that panels hold."""
    return "a" if vector_axis(shape) is VectorAxis.M else "b"


def with_panels(shape: GemmShape, width: int) -> GemmShape:
    """The same in panels, without n1 where b is packed."""
    if vector_axis(shape) is VectorAxis.N0:
        shape = replace(shape, n1=1)
    return replace(shape, panel=width)


def _narrow(rng: np.random.Generator, format: Format, count: int) -> np.ndarray:
    """Numbers of a format as float32: whole ones of all of its range, or normal ones."""
    if format.is_float:
        return rng.standard_normal(count).astype(ARRAY_TYPES[format]).astype(np.float32)
    limits = np.iinfo(ARRAY_TYPES[format])
    return rng.integers(limits.min, limits.max, count, endpoint=True).astype(np.float32)


def _extent(shape: GemmShape, name: str) -> int:
    steps = ((getattr(shape, axis) - 1) * getattr(shape, f"{name}_{axis}") for axis in AXES[name])
    return 1 + sum(steps)


def _apply(shape: GemmShape, x: np.ndarray) -> np.ndarray:
    match shape.fn:
        case UnaryFn.RELU:
            return np.maximum(x, 0)
        case UnaryFn.LEAKY_RELU:
            return np.where(x < 0, shape.p0 * x, x)
        case UnaryFn.CLIP:
            return np.clip(x, shape.p0, shape.p1)
        case _:
            return x
