"""Translations of ONNX operators: a table row for each operator, a module for each family."""

from __future__ import annotations

from autotune.frontend.translate.activation import ACTIVATION
from autotune.frontend.translate.casting import CASTING
from autotune.frontend.translate.constant_folding import FOLDED, STATIC
from autotune.frontend.translate.contraction import CONTRACTION
from autotune.frontend.translate.convolution import CONVOLUTION
from autotune.frontend.translate.einsum import EINSUM
from autotune.frontend.translate.elementwise import ELEMENTWISE
from autotune.frontend.translate.fourier import FOURIER
from autotune.frontend.translate.grid_sample import GRID_SAMPLE
from autotune.frontend.translate.indexing import INDEXING
from autotune.frontend.translate.integers import INTEGERS
from autotune.frontend.translate.logic import LOGIC
from autotune.frontend.translate.masks import MASKS
from autotune.frontend.translate.movement import MOVEMENT
from autotune.frontend.translate.normalisation import NORMALISATION
from autotune.frontend.translate.pooling import POOLING
from autotune.frontend.translate.quantisation import QUANTISATION
from autotune.frontend.translate.quantisation_check import checked
from autotune.frontend.translate.recurrence import RECURRENT
from autotune.frontend.translate.reduction import REDUCTION
from autotune.frontend.translate.resize import RESIZE
from autotune.frontend.translate.scatter import SCATTER
from autotune.frontend.translate.scope import Translate
from autotune.frontend.translate.slicing import SLICING
from autotune.frontend.translate.topk import TOP
from autotune.frontend.translate.transposed_conv import TRANSPOSED_CONV

TRANSLATIONS: dict[str, Translate] = {
    **CONTRACTION,
    **EINSUM,
    **CONVOLUTION,
    **POOLING,
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
    **checked(QUANTISATION),
}
"""ONNX operators that may read run-time tensors."""

CONSTANT_ONLY: frozenset[str] = (frozenset(FOLDED) | STATIC) - frozenset(TRANSLATIONS)
"""ONNX operators whose value must be known at import."""
