"""How each ONNX operator is read: one table row per operator, by family."""

from __future__ import annotations

from autotune.graph.onnx_ops.activation import ACTIVATION
from autotune.graph.onnx_ops.casting import CASTING
from autotune.graph.onnx_ops.contraction import CONTRACTION
from autotune.graph.onnx_ops.einsum import EINSUM
from autotune.graph.onnx_ops.elementwise import ELEMENTWISE
from autotune.graph.onnx_ops.folding import FOLDED, STATIC
from autotune.graph.onnx_ops.fourier import FOURIER
from autotune.graph.onnx_ops.grid_sample import GRID_SAMPLE
from autotune.graph.onnx_ops.indexing import INDEXING
from autotune.graph.onnx_ops.integers import INTEGERS
from autotune.graph.onnx_ops.logic import LOGIC
from autotune.graph.onnx_ops.masks import MASKS
from autotune.graph.onnx_ops.movement import MOVEMENT
from autotune.graph.onnx_ops.normalisation import NORMALISATION
from autotune.graph.onnx_ops.quantisation import QUANTISATION
from autotune.graph.onnx_ops.recurrent_cells import RECURRENT
from autotune.graph.onnx_ops.reduction import REDUCTION
from autotune.graph.onnx_ops.resize import RESIZE
from autotune.graph.onnx_ops.scatter import SCATTER
from autotune.graph.onnx_ops.scope import Translate
from autotune.graph.onnx_ops.slicing import SLICING
from autotune.graph.onnx_ops.top import TOP
from autotune.graph.onnx_ops.transposed_conv import TRANSPOSED_CONV
from autotune.graph.onnx_ops.window import WINDOW

TRANSLATIONS: dict[str, Translate] = {
    **CONTRACTION,
    **EINSUM,
    **WINDOW,
    **RECURRENT,
    **ELEMENTWISE,
    **ACTIVATION,
    **LOGIC,
    **INTEGERS,
    **REDUCTION,
    **MOVEMENT,
    **SLICING,
    **INDEXING,
    **SCATTER,
    **TOP,
    **FOURIER,
    **GRID_SAMPLE,
    **RESIZE,
    **TRANSPOSED_CONV,
    **CASTING,
    **NORMALISATION,
    **MASKS,
    **QUANTISATION,
}
"""ONNX operators that may read run-time tensors."""

CONSTANT_ONLY: frozenset[str] = (frozenset(FOLDED) | STATIC) - frozenset(TRANSLATIONS)
"""ONNX operators that are accepted only where their value is known at import."""
