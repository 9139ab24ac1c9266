"""Translates one ONNX node: evaluates it where its inputs are known, or emits its operators; importing.py
goes through them."""

from __future__ import annotations

from autotune.errors import ModelError
from autotune.frontend.translate import TRANSLATIONS
from autotune.frontend.translate.casting import cast_like
from autotune.frontend.translate.element_types import FRACTIONAL
from autotune.frontend.translate.folding import (
    FOLD_ERRORS,
    FOLDED,
    JOINING,
    PARTING,
    STATIC,
    STRUCTURAL,
    evaluated,
    fold,
    fold_shape,
)
from autotune.frontend.translate.scope import Node, RunTimeValue, Scope
from autotune.operators.tensor import DType


def translate_node(scope: Scope, node: Node) -> None:
    """Translate a node. What translations do not check themselves, because only files made by hand
    have it, numpy or Python does."""
    try:
        _translate(scope, node)
    except MemoryError:
        raise ModelError(
            f"{node.label}: {node.operator} takes more memory than there is; use smaller tensors"
        ) from None
    except FOLD_ERRORS as error:
        raise ModelError(
            f"{node.label}: inputs or attributes of {node.operator} do not fit: {error}; export the "
            "model again"
        ) from error


def check_outputs(scope: Scope, node: Node, consumed: set[str]) -> None:
    """Refuse outputs that are used, ``consumed``, and that a node's translation does not give."""
    for extra in node.outputs[1:]:
        if extra in consumed and extra not in scope.tensors and extra not in scope.arrays:
            raise ModelError(
                f"{node.label}: output {extra!r} of {node.operator} is not supported, and it is "
                "used; export the model without it"
            )


def _translate(scope: Scope, node: Node) -> None:
    """Evaluate the node if its inputs are known, else emit its operators."""
    output = node.outputs[0]
    given = [x for x in node.inputs if x]
    scope.begin(node)
    if node.operator in STATIC and given and given[0] in scope.tensors:
        scope.arrays[output] = fold_shape(node, scope.shape(scope.tensors[given[0]]))
    elif node.operator in STATIC and scope.is_array(given[0]):
        scope.arrays[output] = fold_shape(node, scope.arrays[given[0]].shape)
    elif node.operator == "CastLike" and scope.is_array(given[0]):
        scope.arrays[output] = cast_like(scope, node)
    elif node.operator in FOLDED and all(scope.is_array(x) for x in given):
        scope.arrays[output] = fold(node, [scope.arrays[x] for x in given])
    elif _is_evaluated(scope, node, given):
        values = evaluated(node, {x: scope.arrays[x] for x in given})
        scope.arrays.update((x, value) for x, value in values.items() if x)
    elif node.operator in TRANSLATIONS:
        _check_whole(scope, node)
        scope.give(node, 0, TRANSLATIONS[node.operator](scope, node))
    else:
        _refuse_run_time(scope, node, given)


def _is_evaluated(scope: Scope, node: Node, given: list[str]) -> bool:
    """Whether a node's outputs are known, though no function of ours folds its operator."""
    if node.operator in PARTING and all(scope.is_array(x) for x in given):
        return True
    return bool(given) and node.operator not in JOINING and _is_empty(scope, given)


def _is_empty(scope: Scope, given: list[str]) -> bool:
    """Whether a node works on a tensor without elements. The others that it reads have to be known
    then; ``RunTimeValue`` asks for them."""
    first = scope.arrays.get(given[0])
    if first is None or first.size:
        return False
    for x in given:
        if x not in scope.arrays:
            raise RunTimeValue(
                f"{x!r} is known only at run time, and stands beside a tensor that holds nothing; "
                "remove what computes nothing from the model",
                x,
            )
    return True


def _check_whole(scope: Scope, node: Node) -> None:
    """Refuse what is computed with fractions and ONNX defines on integers alone."""
    if node.operator in FRACTIONAL and _given_type(scope, node).is_integer:
        raise ModelError(
            f"{node.label}: {node.operator} on {_given_type(scope, node)} is not supported; cast to "
            "float before it"
        )


def _given_type(scope: Scope, node: Node) -> DType:
    """What the numbers of a node's first input mean."""
    return scope.dtype(node, 0) if node.has_input(0) else DType.FLOAT32


def _refuse_run_time(scope: Scope, node: Node, given: list[str]) -> None:
    run_time = next(x for x in given if not scope.is_array(x))
    message = (
        f"{node.label}: operator {node.operator} is supported on constants only, and "
        f"{run_time!r} is known only at run time; run 'autotune doctor --operators' to list "
        "what is supported"
    )
    if node.operator in STRUCTURAL:
        raise RunTimeValue(message, run_time)
    raise ModelError(message)
