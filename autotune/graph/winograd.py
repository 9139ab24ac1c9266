"""Winograd's minimal convolution F(4×4, 3×3): its matrices and weights; beside the operator that uses it.

A tile of 4×4 results takes 36 products instead of 144: Y = Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A (Lavin and Gray,
arXiv:1509.09308, section 4.3).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Array

KERNEL = 3
TILE = 4
"""Results of a tile along a row or column."""
PATCH = TILE + KERNEL - 1
"""Inputs that they are made of."""
POINTS = PATCH * PATCH
INPUT_ADDITIONS, OUTPUT_ADDITIONS = 144, 100
"""Of one tile and channel: 12 a line of Bᵀ over 12 lines, 10 a line of Aᵀ over 10."""

INPUT = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    np.float64,
)
"""Bᵀ [PATCH, PATCH]."""
OUTPUT = np.array(
    [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    np.float64,
)
"""Aᵀ [TILE, PATCH]."""
FILTER = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
    np.float64,
)
"""G [PATCH, KERNEL]."""


def transformed_weight(weight: Array) -> Array:
    """[3, 3, C, M] as [36, C, M]: G g Gᵀ in float64, rounded once."""
    points: npt.NDArray[np.float64] = np.einsum(
        "ip,jq,pqcm->ijcm", FILTER, FILTER, weight.astype(np.float64)
    )
    return np.asarray(points.reshape(POINTS, *weight.shape[2:]), np.float32)


def convolved(
    x: Array, u: Array, bias: Array | None, pads: tuple[int, ...]
) -> npt.NDArray[np.float64]:
    """The convolution of an image [N, H, W, C] by a transformed weight, [N, OH, OW, M]: by the
    definition, in float64."""
    top, left, bottom, right = pads
    rows, columns = (
        n + p - KERNEL + 1 for n, p in zip(x.shape[1:3], (top + bottom, left + right), strict=True)
    )
    down, across = -(-rows // TILE), -(-columns // TILE)
    behind = (TILE * down - rows + bottom, TILE * across - columns + right)
    padded = np.pad(x, ((0, 0), (top, behind[0]), (left, behind[1]), (0, 0))).astype(np.float64)
    patches = np.lib.stride_tricks.sliding_window_view(padded, (PATCH, PATCH), axis=(1, 2))
    tiles = patches[:, ::TILE, ::TILE]  # [N, down, across, C, PATCH, PATCH]
    v = np.einsum("ip,jq,nabcpq->ijnabc", INPUT, INPUT, tiles, optimize=True)
    products = v.reshape(POINTS, -1, x.shape[3]) @ u.astype(np.float64)
    m = products.reshape(PATCH, PATCH, x.shape[0], down, across, u.shape[2])
    y = np.einsum("ip,jq,pqnabm->naibjm", OUTPUT, OUTPUT, m, optimize=True)
    image: npt.NDArray[np.float64] = y.reshape(x.shape[0], TILE * down, TILE * across, u.shape[2])[
        :, :rows, :columns
    ]
    return image if bias is None else image + bias
