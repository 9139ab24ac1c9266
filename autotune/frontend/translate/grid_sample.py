"""ONNX's GridSample: samples of an image at positions that only a run knows.

The image is a table [N · pixels, C]. Each position looks up a few rows and weighs them; weights
separate over axes. All numbers are vectors [P] over positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.indexing import EXACT_NUMBERS
from autotune.frontend.translate.rearrangement import Run, permute, reshape, slice_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

KEYS = -0.75
"""Coefficient of the cubic convolution (Keys 1981)."""
TAPS: dict[str, tuple[tuple[int, tuple[float, ...]], ...]] = {
    "nearest": ((0, (1.0,)),),
    "linear": ((0, (-1.0, 1.0)), (1, (1.0, 0.0))),
    "cubic": (
        (-1, (KEYS, -2 * KEYS, KEYS, 0.0)),
        (0, (KEYS + 2, -KEYS - 3, 0.0, 1.0)),
        (1, (-KEYS - 2, 2 * KEYS + 3, -KEYS, 0.0)),
        (2, (-KEYS, KEYS, 0.0, 0.0)),
    ),
}
"""Pixels around a position and their weights: polynomials of the distance to pixel 0, highest
power first."""
MODES = {"bilinear": "linear", "bicubic": "cubic"}
PADDINGS = ("zeros", "border", "reflection")


@dataclass(frozen=True, slots=True)
class _Sampler:
    """One GridSample node's translation."""

    scope: Scope
    node: Node
    mode: str
    padding: str
    corners: bool

    def _number(self, value: float) -> str:
        return self.scope.constant(self.node, value, "number")

    def _with(self, kind: OpKind, x: str, number: float) -> str:
        return self.scope.step(self.node, kind, x, self._number(number))

    def _clipped(self, x: str, low: float, high: float) -> str:
        return self.scope.step(self.node, OpKind.CLIP, x, min=low, max=high)

    def _reflect(self, x: str, extent: int) -> str:
        """Reflect positions at the borders, as a triangle wave."""
        low, reach = (0.0, extent - 1.0) if self.corners else (-0.5, float(extent))
        if reach == 0:
            return self._with(OpKind.MUL, x, 0.0)
        turn = self._with(OpKind.MOD, self._with(OpKind.SUB, x, low), 2 * reach)
        away = self.scope.step(self.node, OpKind.ABS, self._with(OpKind.SUB, turn, reach))
        back = self.scope.step(self.node, OpKind.NEG, away)
        return self._with(OpKind.ADD, back, reach + low)

    def _place(self, grid: str, extent: int) -> str:
        """Map −1 … 1 to pixels of an axis, and apply the padding mode."""
        scale = (extent - 1) / 2 if self.corners else extent / 2
        at = self._with(OpKind.ADD, self._with(OpKind.MUL, grid, scale), (extent - 1) / 2)
        if self.mode == "nearest":
            at = self.scope.step(self.node, OpKind.ROUND, at)
        if self.padding == "border":
            return self._clipped(at, 0.0, extent - 1.0)
        return self._reflect(at, extent) if self.padding == "reflection" else at

    def pixels(self, grid: str, extent: int) -> list[tuple[str, str]]:
        """Return the pixels of one axis that every position reads, with their weights."""
        at = self._place(grid, extent)
        left = self.scope.step(self.node, OpKind.FLOOR, at)
        ratio = self.scope.step(self.node, OpKind.SUB, at, left)
        taps = []
        for offset, weights in TAPS[self.mode]:
            pixel = self._with(OpKind.ADD, left, float(offset)) if offset else left
            weight = self._polynomial(ratio, weights)
            if self.padding == "zeros":
                weight = self.scope.step(self.node, OpKind.MUL, weight, self._inside(pixel, extent))
            elif self.padding == "reflection":
                pixel = self._reflect(pixel, extent)
            taps.append((self._clipped(pixel, 0.0, extent - 1.0), weight))
        return taps

    def _polynomial(self, x: str, weights: tuple[float, ...]) -> str:
        """Evaluate a polynomial by Horner's rule."""
        total = self._number(weights[0])
        for weight in weights[1:]:
            total = self.scope.step(self.node, OpKind.MUL, total, x)
            total = self._with(OpKind.ADD, total, weight) if weight else total
        return total

    def _inside(self, pixel: str, extent: int) -> str:
        """Return 1 for whole numbers from 0 to extent − 1, else 0."""
        front = self._clipped(self._with(OpKind.ADD, pixel, 1.0), 0.0, 1.0)
        left = self.scope.step(self.node, OpKind.SUB, self._number(float(extent)), pixel)
        return self.scope.step(self.node, OpKind.MUL, front, self._clipped(left, 0.0, 1.0))

    def sample(
        self, table: str, axes: list[list[tuple[str, str]]], pitches: list[int], first: str
    ) -> str:
        """Sum over all combinations of pixels: rows [P, C] of the table times the product of
        weights."""
        scope, node, total = self.scope, self.node, ""
        for combination in product(*axes):
            row = first
            for (pixel, _), pitch in zip(combination, pitches, strict=True):
                far = self._with(OpKind.MUL, pixel, float(pitch)) if pitch > 1 else pixel
                row = scope.step(node, OpKind.ADD, row, far)
            weight = reduce(
                lambda a, b: scope.step(node, OpKind.MUL, a, b), [w for _, w in combination]
            )
            column = reshape(scope, node, weight, (*scope.shape(weight), 1))
            taken = scope.step(node, OpKind.GATHER, table, row)
            weighed = scope.step(node, OpKind.MUL, taken, column)
            total = scope.step(node, OpKind.ADD, total, weighed) if total else weighed
        return total


def _grid_sample(scope: Scope, node: Node) -> str:
    x, grid = scope.tensor(node, 0), scope.tensor(node, 1)
    shape, places = scope.shape(x), scope.shape(grid)
    extents, rank = shape[2:], len(shape) - 2
    named = node.text("mode", "linear")
    mode, padding = MODES.get(named, named), node.text("padding_mode", "zeros")
    if rank < 1 or places[-1:] != (rank,) or places[0] != shape[0] or mode not in TAPS:
        raise ModelError(f"{node.label}: GridSample {mode} of {list(shape)} at {list(places)}")
    if padding not in PADDINGS or shape[0] * math.prod(extents) > EXACT_NUMBERS:
        raise ModelError(
            f"{node.label}: GridSample with padding {padding!r} of {list(shape)}; known are "
            f"{list(PADDINGS)}, for up to {EXACT_NUMBERS} pixels"
        )
    count = math.prod(places[:-1])
    flat = reshape(scope, node, grid, (count, rank))
    sampler = _Sampler(scope, node, mode, padding, bool(node.int("align_corners", 0)))
    axes = []
    for axis, extent in enumerate(extents):
        column = slice_axis(scope, node, flat, 1, Run(rank - 1 - axis, 1, 1))
        axes.append(sampler.pixels(reshape(scope, node, column, (count,)), extent))
    pitches = [math.prod(extents[axis + 1 :]) for axis in range(rank)]
    pixels = math.prod(extents)
    images = np.repeat(np.arange(shape[0]) * pixels, count // shape[0])
    table = permute(
        scope, node, x, (shape[0], shape[1], pixels), (0, 2, 1), (shape[0] * pixels, shape[1])
    )
    first = scope.constant(node, images, "first_pixels")
    y = sampler.sample(table, axes, pitches, first)
    made = (shape[0], count // shape[0], shape[1])
    return permute(scope, node, y, made, (0, 2, 1), (*shape[:2], *places[1:-1]))


GRID_SAMPLE: dict[str, Translate] = {"GridSample": _grid_sample}
