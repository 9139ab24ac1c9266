"""ONNX's DFT and STFT: multiplications by constant matrices of cosines and sines.

Complex numbers are pairs along the last axis, real part first. A transform of n points is a
product with a matrix of n² entries, which suits frames of audio.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.frontend.limits import check_size
from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import Run, concat, pad, permute, reshape, slice_axis
from autotune.frontend.translate.reduction import resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

Matrix = npt.NDArray[np.float64]


def _matrix(points: int, complex_in: bool, bins: int) -> Matrix:
    """Return [points · parts, kept · 2]: the share of every input number in every output number."""
    angle = 2 * np.pi / points * (np.outer(np.arange(points), np.arange(bins)) % points)
    cosine, sine = np.cos(angle), -np.sin(angle)
    from_real = np.stack([cosine, sine], axis=-1)  # [points, kept, parts out]
    from_imaginary = np.stack([-sine, cosine], axis=-1)
    pairs = np.stack([from_real, from_imaginary] if complex_in else [from_real], axis=1)
    # [points, parts in, kept, parts out]
    return np.asarray(pairs.reshape(points * pairs.shape[1], bins * 2))


def _one_sided(points: int) -> Matrix:
    """Return [2 · (points // 2 + 1), points]: the real signal of a one-sided spectrum; the other
    side is its conjugate."""
    half = points // 2 + 1
    weights = np.full((half, 1), 2.0)
    weights[0] = 1.0
    if points % 2 == 0:
        weights[-1] = 1.0
    angle = 2 * np.pi / points * (np.outer(np.arange(half), np.arange(points)) % points)
    pairs = np.stack([weights * np.cos(angle), -weights * np.sin(angle)], axis=1) / points
    return np.asarray(pairs.reshape(2 * half, points))


def _transform(scope: Scope, node: Node, x: str, axis: int, matrix: Matrix, parts: int) -> str:
    """Multiply along one axis and its pairs of ``parts`` numbers."""
    check_size(node.label, matrix.shape)
    shape = scope.shape(x)
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 : -1])
    points, parts_in = shape[axis], shape[-1]
    rows = permute(
        scope,
        node,
        x,
        (outer, points, inner, parts_in),
        (0, 2, 1, 3),
        (outer * inner, points * parts_in),
    )
    y = scope.step(node, OpKind.MATMUL, rows, scope.constant(node, matrix, "waves"))
    bins = matrix.shape[1] // parts
    result = (*shape[:axis], bins, *shape[axis + 1 : -1], parts)
    return permute(scope, node, y, (outer, inner, bins, parts), (0, 2, 1, 3), result)


def _points(scope: Scope, node: Node, shape: tuple[int, ...], axis: int, back: bool) -> int:
    """Return the length of the signal: the node's, or the tensor's; ``back`` reads it off one
    side."""
    points = 2 * (shape[axis] - 1) if back else shape[axis]
    if node.has_input(1):
        points = int(np.ravel(scope.array(node, 1))[0])
    if points < 1:
        raise ModelError(
            f"{node.label}: DFT of shape {list(shape)} along axis {axis} makes {points} points; state "
            "a dft_length of 1 at least"
        )
    return points


def _dft(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    position = node.int("axis", 1)
    if node.opset >= 20:
        position = int(np.ravel(scope.array(node, 2))[0]) if node.has_input(2) else -2
    axis = resolve_axis(node, position, len(shape))
    inverse, half = bool(node.int("inverse", 0)), bool(node.int("onesided", 0))
    back = half and inverse
    if axis == len(shape) - 1 or shape[-1] not in (1, 2) or (half and shape[-1] != 1 + back):
        raise ModelError(
            f"{node.label}: DFT of shape {list(shape)} along axis {axis}; numbers are real or pairs "
            "along the last axis, one side is enough of real ones only, and pairs are what goes back"
        )
    if inverse and not half:
        raise ModelError(
            f"{node.label}: DFT back from both sides of a spectrum is not supported; what it gives for "
            "real signals comes from one side (onesided=1)"
        )
    points = _points(scope, node, shape, axis, back)
    after = [0] * len(shape)
    after[axis] = (points // 2 + 1 if back else points) - shape[axis]
    x = pad(scope, node, x, [0] * len(shape), after)
    if back:
        y = _transform(scope, node, x, axis, _one_sided(points), 1)
    else:
        bins = points // 2 + 1 if half else points
        y = _transform(scope, node, x, axis, _matrix(points, shape[-1] == 2, bins), 2)
    return scope.reshape_result(node, y, scope.shape(y))


def _stft(scope: Scope, node: Node) -> str:
    """Translate STFT: overlapping windowed frames, each transformed."""
    x = scope.tensor(node, 0)
    shape, step = scope.shape(x), int(np.ravel(scope.array(node, 1))[0])
    window = node.has_input(2)
    points = scope.shape(scope.tensor(node, 2))[0] if window else 0
    if node.has_input(3):
        points = int(np.ravel(scope.array(node, 3))[0])
    parts = shape[-1] if len(shape) == 3 else 1
    batch, length = shape[:2]
    if (
        step < 1
        or not 1 <= points <= length
        or (window and scope.shape(scope.tensor(node, 2)) != (points,))
    ):
        raise ModelError(
            f"{node.label}: STFT of {length} samples by frames of {points}, {step} apart; frames lie "
            "in the signal and have the window's length"
        )
    signal = reshape(scope, node, x, (batch, length, parts))
    count = (length - points) // step + 1
    taken = [
        slice_axis(scope, node, signal, 1, Run(frame * step, 1, points)) for frame in range(count)
    ]
    frames = reshape(scope, node, concat(scope, node, taken, 1), (batch, count, points, parts))
    if window:
        column = reshape(scope, node, scope.tensor(node, 2), (points, 1))
        frames = scope.step(node, OpKind.MUL, frames, column)
    half = parts == 1 and bool(node.int("onesided", 1))
    bins = points // 2 + 1 if half else points
    y = _transform(scope, node, frames, 2, _matrix(points, parts == 2, bins), 2)
    return scope.reshape_result(node, y, scope.shape(y))


FOURIER: dict[str, Translate] = {"DFT": _dft, "STFT": _stft}
