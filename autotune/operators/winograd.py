"""Winograd's minimal convolutions F(4×4, 3×3) and F(2×2, 3×3): matrices and transformed weights.

A tile of results takes one product for each point: Y = Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A (Lavin and Gray,
arXiv:1509.09308, sections 4.1 and 4.3). 4×4 results take 36 instead of 144, 2×2 take 16 instead of 36.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.operators.tensor import Array

KERNEL = 3
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """One of them. ``tile`` is its results along a row or column; ``input`` Bᵀ, ``output`` Aᵀ and
    ``filter`` G; ``line_additions`` of one line of Bᵀ and of Aᵀ, factored."""

    tile: int
    input: Matrix
    output: Matrix
    filter: Matrix
    line_additions: tuple[int, int]

    @property
    def patch(self) -> int:
        """Inputs of a tile along a row or column."""
        return self.tile + KERNEL - 1

    @property
    def points(self) -> int:
        """Products of a tile for each pair of channels."""
        return self.patch * self.patch

    @property
    def input_additions(self) -> int:
        """Additions of one tile and channel to the points: columns, then rows."""
        return self.line_additions[0] * 2 * self.patch

    @property
    def output_additions(self) -> int:
        """Additions of one tile and channel back: columns, then the rows that are left."""
        return self.line_additions[1] * (self.patch + self.tile)


NEAR, FAR = 0.75, 1.5
"""The finite points of F(4×4, 3×3) besides 0, with both signs. Points near 1 keep the entries of all three
matrices alike, so that little cancels: against 1 and 2 (Lavin and Gray) the error is a half to a third
(docs/decisions/0023-small-winograd-tiles.md). All entries of Bᵀ and Aᵀ are exact in fp32."""
_NEAR2, _FAR2 = NEAR**2, FAR**2
_NEAR_WEIGHT, _FAR_WEIGHT = 2 * _NEAR2 * (_NEAR2 - _FAR2), 2 * _FAR2 * (_FAR2 - _NEAR2)
"""Product of a point's distances to the others."""
F4 = Form(
    4,
    np.array(
        [
            [_NEAR2 * _FAR2, 0, -_NEAR2 - _FAR2, 0, 1, 0],
            [0, -NEAR * _FAR2, -_FAR2, NEAR, 1, 0],
            [0, NEAR * _FAR2, -_FAR2, -NEAR, 1, 0],
            [0, -FAR * _NEAR2, -_NEAR2, FAR, 1, 0],
            [0, FAR * _NEAR2, -_NEAR2, -FAR, 1, 0],
            [0, _NEAR2 * _FAR2, 0, -_NEAR2 - _FAR2, 0, 1],
        ],
        np.float64,
    ),
    np.array(
        [
            [1, 1, 1, 1, 1, 0],
            [0, NEAR, -NEAR, FAR, -FAR, 0],
            [0, _NEAR2, _NEAR2, _FAR2, _FAR2, 0],
            [0, NEAR**3, -(NEAR**3), FAR**3, -(FAR**3), 1],
        ],
        np.float64,
    ),
    np.array(
        [
            [1 / (_NEAR2 * _FAR2), 0, 0],
            [1 / _NEAR_WEIGHT, NEAR / _NEAR_WEIGHT, _NEAR2 / _NEAR_WEIGHT],
            [1 / _NEAR_WEIGHT, -NEAR / _NEAR_WEIGHT, _NEAR2 / _NEAR_WEIGHT],
            [1 / _FAR_WEIGHT, FAR / _FAR_WEIGHT, _FAR2 / _FAR_WEIGHT],
            [1 / _FAR_WEIGHT, -FAR / _FAR_WEIGHT, _FAR2 / _FAR_WEIGHT],
            [0, 0, 1],
        ],
        np.float64,
    ),
    (12, 10),
)
F2 = Form(
    2,
    np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64),
    np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64),
    np.array([[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]], np.float64),
    (4, 4),
)
TRANSFORMED = 8192
"""Filters that are transformed at once: their float64 points stay in a cache."""
FORMS = {form.points: form for form in (F4, F2)}
"""Forms by the points of a transformed weight [points, C, M]."""


def transformed_weight(weight: Array, form: Form = F4) -> Array:
    """Transform a weight [3, 3, C, M] to [points, C, M]: G g Gᵀ in float64, rounded once."""
    both = np.kron(form.filter, form.filter)
    taps = weight.reshape(KERNEL * KERNEL, -1)
    points = np.empty((form.points, taps.shape[1]), np.float32)
    for first in range(0, taps.shape[1], TRANSFORMED):
        block = slice(first, first + TRANSFORMED)
        points[:, block] = both @ taps[:, block].astype(np.float64)
    return points.reshape(form.points, *weight.shape[2:])


def convolved(
    x: Array | Matrix,
    u: Array | Matrix,
    bias: Array | Matrix | None,
    pads: tuple[int, ...],
    form: Form | None = None,
) -> Matrix:
    """Convolve an image [N, H, W, C] with a transformed weight to [N, OH, OW, M], in float64, by the matrices
    of ``form`` where it is given."""
    form = form or FORMS[u.shape[0]]
    tile, patch = form.tile, form.patch
    top, left, bottom, right = pads
    rows, columns = (
        n + p - KERNEL + 1 for n, p in zip(x.shape[1:3], (top + bottom, left + right), strict=True)
    )
    down, across = -(-rows // tile), -(-columns // tile)
    behind = (tile * down - rows + bottom, tile * across - columns + right)
    padded = np.pad(x, ((0, 0), (top, behind[0]), (left, behind[1]), (0, 0))).astype(np.float64)
    patches = np.lib.stride_tricks.sliding_window_view(padded, (patch, patch), axis=(1, 2))
    tiles = patches[:, ::tile, ::tile]  # [N, down, across, C, patch, patch]
    v = np.einsum("ip,jq,nabcpq->ijnabc", form.input, form.input, tiles, optimize=True)
    products = v.reshape(form.points, -1, x.shape[3]) @ u.astype(np.float64)
    m = products.reshape(patch, patch, x.shape[0], down, across, u.shape[2])
    y = np.einsum("ip,jq,pqnabm->naibjm", form.output, form.output, m, optimize=True)
    image: Matrix = y.reshape(x.shape[0], tile * down, tile * across, u.shape[2])[
        :, :rows, :columns
    ]
    return image if bias is None else image + bias
