"""Translates a straight model to a graph: each node is evaluated if its inputs are known, else emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from autotune.errors import ModelError
from autotune.frontend.element_types import FRACTIONAL
from autotune.frontend.limits import check_size
from autotune.frontend.node import AnyArray, Node, RunTimeValue
from autotune.frontend.straight import StraightModel
from autotune.frontend.translate import TRANSLATIONS
from autotune.frontend.translate.casting import cast_like
from autotune.frontend.translate.constant_folding import (
    FOLD_ERRORS,
    FOLDED,
    JOINING,
    PARTING,
    STATIC,
    STRUCTURAL,
    evaluate_by_onnx,
    fold,
    fold_shape,
    tensor_array,
)
from autotune.frontend.translate.scope import Scope
from autotune.frontend.weights import CutTensor
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.operators.tensor import NUMPY, DType


@dataclass(frozen=True, slots=True)
class Translation:
    """A model split by when its outputs are known.

    ``graph`` computes those that depend on run-time inputs, None if there are none; ``constants``
    holds the others by name, of their own types.
    """

    graph: Graph | None
    constants: Mapping[str, AnyArray]


def translate_outputs(model: StraightModel, name: str) -> Translation:
    """Translate a model some or all of whose outputs may be constants.

    Raises ``ModelError``, or ``RunTimeValue`` if it would help to bind inputs.
    """
    return _translation(model, _translate_nodes(model, name))


def translate_known(model: StraightModel, name: str) -> tuple[Translation, dict[str, AnyArray]]:
    """Translate as ``translate_outputs`` does; return all values that were evaluated as well."""
    scope = _translate_nodes(model, name)
    return _translation(model, scope), scope.arrays


def _translation(model: StraightModel, scope: Scope) -> Translation:
    constants = {x: scope.arrays[x] for x in model.outputs if x in scope.arrays}
    computed = [_output(scope, x) for x in model.outputs if x not in constants]
    return Translation(scope.builder.build(computed) if computed else None, constants)


def translate_graph(model: StraightModel, name: str) -> Graph:
    """Translate a model to one graph, constant outputs included. Raises as ``translate_outputs``."""
    scope = _translate_nodes(model, name)
    graph = scope.builder.build([_output(scope, x) for x in model.outputs])
    if not graph.ops:
        raise ModelError("the graph is empty: all its operators fold into constants")
    return graph


def _translate_nodes(model: StraightModel, name: str) -> Scope:
    """Return a scope with all nodes evaluated or emitted."""
    consumed = {x for node in model.nodes for x in node.inputs if x} | set(model.outputs)
    scope = _scope(model, name)
    try:
        for node in model.nodes:
            _translate_node(scope, node)
            _check_outputs(scope, node, consumed)
            scope.count(node)
    except RunTimeValue as need:
        inputs = _deciding_inputs(need.tensor, model.nodes, scope)
        raise RunTimeValue(str(need), need.tensor, inputs) from None
    return scope


def _scope(model: StraightModel, name: str) -> Scope:
    """Return a scope whose known arrays are initializers and constants, and whose graph has the
    other inputs."""
    arrays: dict[str, AnyArray] = dict(model.constants)
    for stored in model.initializers:
        tensor = stored.tensor if isinstance(stored, CutTensor) else stored
        arrays[tensor.name] = tensor_array(f"initializer {tensor.name!r}", stored)
    names = {x.name for x in model.inputs} | {x for n in model.nodes for x in n.outputs}
    stored = {x.dtype for x in arrays.values()}
    halves = frozenset(x for x in (DType.BFLOAT16, DType.FLOAT16) if NUMPY[x] in stored)
    scope = Scope(GraphBuilder(name), arrays, frozenset(names | set(arrays)), halves=halves)
    for declared in model.inputs:
        if declared.name in arrays:
            continue
        if declared.dtype is None:
            scope.foreign[declared.name] = declared.element
            continue
        shape = tuple(extent for extent in declared.shape or () if isinstance(extent, int))
        check_size(f"input {declared.name!r}", shape)
        scope.tensors[declared.name] = scope.builder.input(declared.name, shape, declared.dtype)
        scope.types[declared.name] = declared.dtype
    return scope


def _translate_node(scope: Scope, node: Node) -> None:
    """Translate a node. Errors of numpy or Python stand for checks that only hand-made files need."""
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


def _check_outputs(scope: Scope, node: Node, consumed: Set[str]) -> None:
    """Refuse a ``consumed`` output that the node's translation does not make."""
    for extra in node.outputs[1:]:
        if extra in consumed and extra not in scope.tensors and extra not in scope.arrays:
            raise ModelError(
                f"{node.label}: output {extra!r} of {node.operator} is not supported, and it is "
                "used; export the model without it"
            )


def _translate(scope: Scope, node: Node) -> None:
    """Evaluate the node if its inputs are known, else emit its operators."""
    output = node.outputs[0]
    inputs = [x for x in node.inputs if x]
    scope.begin(node)
    if node.operator in STATIC and inputs and inputs[0] in scope.tensors:
        scope.arrays[output] = fold_shape(node, scope.shape(scope.tensors[inputs[0]]))
    elif node.operator in STATIC and scope.is_array(inputs[0]):
        scope.arrays[output] = fold_shape(node, scope.arrays[inputs[0]].shape)
    elif node.operator == "CastLike" and scope.is_array(inputs[0]):
        scope.arrays[output] = cast_like(scope, node)
    elif node.operator in FOLDED and all(scope.is_array(x) for x in inputs):
        scope.arrays[output] = fold(node, [scope.arrays[x] for x in inputs])
    elif _is_evaluated(scope, node, inputs):
        values = evaluate_by_onnx(node, {x: scope.arrays[x] for x in inputs})
        scope.arrays.update((x, value) for x, value in values.items() if x)
    elif node.operator in TRANSLATIONS:
        _check_whole(scope, node)
        scope.give(node, 0, TRANSLATIONS[node.operator](scope, node))
    else:
        _refuse_run_time(scope, node, inputs)


def _is_evaluated(scope: Scope, node: Node, inputs: list[str]) -> bool:
    """Return True if ONNX's evaluator makes a node's outputs at import."""
    if node.operator in PARTING and all(scope.is_array(x) for x in inputs):
        return True
    return bool(inputs) and node.operator not in JOINING and _is_empty(scope, inputs)


def _is_empty(scope: Scope, inputs: list[str]) -> bool:
    """Return True if a node's first input is an empty constant. Raises ``RunTimeValue`` for other
    inputs that are unknown then."""
    first = scope.arrays.get(inputs[0])
    if first is None or first.size:
        return False
    for x in inputs:
        if x not in scope.arrays:
            raise RunTimeValue(
                f"{x!r} is known only at run time, and stands beside a tensor that holds nothing; "
                "remove what computes nothing from the model",
                x,
            )
    return True


def _check_whole(scope: Scope, node: Node) -> None:
    """Refuse integers for operators that are computed with fractions."""
    if node.operator in FRACTIONAL and _first_type(scope, node).is_integer:
        raise ModelError(
            f"{node.label}: {node.operator} on {_first_type(scope, node)} is not supported; cast to "
            "float before it"
        )


def _first_type(scope: Scope, node: Node) -> DType:
    """Return the element type of a node's first input."""
    return scope.dtype(node, 0) if node.has_input(0) else DType.FLOAT32


def _refuse_run_time(scope: Scope, node: Node, inputs: list[str]) -> None:
    run_time = next(x for x in inputs if not scope.is_array(x))
    message = (
        f"{node.label}: operator {node.operator} is supported on constants only, and "
        f"{run_time!r} is known only at run time; run 'autotune doctor --operators' to list "
        "what is supported"
    )
    if node.operator in STRUCTURAL:
        raise RunTimeValue(message, run_time)
    raise ModelError(message)


def _deciding_inputs(tensor: str, nodes: Sequence[Node], scope: Scope) -> tuple[str, ...]:
    """Return the run-time inputs that decide the value of a tensor; shapes are known without them."""
    producer = {x: node for node in nodes for x in node.outputs}
    inputs: dict[str, None] = {}
    wanted = [tensor]
    while wanted:
        x = wanted.pop()
        if x in scope.arrays or x == "" or x in inputs:
            continue
        if x not in producer:
            inputs[x] = None
        elif producer[x].operator not in STATIC:
            wanted += producer[x].inputs
    return tuple(inputs)


def _output(scope: Scope, name: str) -> str:
    """Return the graph tensor of an ONNX output, under its own name."""
    if name in scope.arrays:
        return scope.tensors.get(name) or scope.add_output_constant(name)
    if name not in scope.tensors:
        raise ModelError(f"output {name!r} is computed by no operator; export the model again")
    tensor = scope.tensors[name]
    if tensor == name:
        return name
    scope.builder.add(OpKind.RESHAPE, tensor, name=name, output=name, shape=scope.shape(tensor))
    scope.builder.mean(name, scope.types[name])
    return name
