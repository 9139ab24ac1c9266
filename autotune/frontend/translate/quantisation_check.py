"""Refuses scales and zero points that no quantised numbers have, before their operator is translated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope, Translate

PARAMETERS: Mapping[str, tuple[tuple[int | None, int | None, int], ...]] = {
    "QuantizeLinear": ((None, 1, 2),),
    "DequantizeLinear": ((0, 1, 2),),
    "MatMulInteger": ((0, None, 2), (1, None, 3)),
    "ConvInteger": ((0, None, 2), (1, None, 3)),
    "QLinearMatMul": ((0, 1, 2), (3, 4, 5), (None, 6, 7)),
    "QLinearConv": ((0, 1, 2), (3, 4, 5), (None, 6, 7)),
}
"""By operator, inputs that belong together: quantised numbers (None for results), their scale, their zero point."""


def checked(translations: Mapping[str, Translate]) -> dict[str, Translate]:
    """Return translations that check the parameters of quantised numbers first."""
    return {
        name: partial(_translate, translate) if name in PARAMETERS else translate
        for name, translate in translations.items()
    }


def _translate(translate: Translate, scope: Scope, node: Node) -> str:
    for numbers, scale, zero in PARAMETERS[node.operator]:
        if scale is not None:
            _check_scale(scope, node, scale, is_divisor=numbers is None)
        if node.has_input(zero):
            _check_zero_point(scope, node, numbers, scale, zero)
    return translate(scope, node)


def _check_scale(scope: Scope, node: Node, index: int, is_divisor: bool) -> None:
    """Raise ``ModelError`` for a stored scale that is not finite, and for a zero that divides."""
    name = node.inputs[index]
    if not scope.is_array(name):
        return
    scale = np.asarray(scope.arrays[name], np.float64)
    odd = scale[~np.isfinite(scale)]
    if odd.size:
        raise ModelError(
            f"{node.reads} the scale {name!r}, which is {odd.flat[0]}; quantise the network again"
        )
    if is_divisor and not scale.all():
        raise ModelError(
            f"{node.reads} the scale {name!r}, which is 0, and divides by it; quantise the network again"
        )


def _check_zero_point(
    scope: Scope, node: Node, numbers: int | None, scale: int | None, zero: int
) -> None:
    """Raise ``ModelError`` for a zero point of another type than its numbers, or another shape than its scale."""
    name = node.inputs[zero]
    if numbers is not None:
        wanted, found = scope.dtype(node, numbers), scope.dtype(node, zero)
        if wanted is not found:
            raise ModelError(
                f"{node.reads} the zero point {name!r} of type {found} for numbers of type {wanted}; "
                "both have one type"
            )
    if scale is None or not (scope.is_array(name) and scope.is_array(node.inputs[scale])):
        return
    shapes = [_shape(scope, x) for x in (name, node.inputs[scale])]
    if shapes[0] != shapes[1]:
        raise ModelError(
            f"{node.reads} the zero point {name!r} of shape {list(shapes[0])} and the scale "
            f"{node.inputs[scale]!r} of shape {list(shapes[1])}; both have one shape"
        )


def _shape(scope: Scope, name: str) -> tuple[int, ...]:
    """Return the shape of a stored parameter; one number has none."""
    shape = scope.arrays[name].shape
    return () if shape == (1,) else shape
