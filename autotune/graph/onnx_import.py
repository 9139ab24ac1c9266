"""Reads an ONNX file into a graph: the border where models enter the flow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from autotune.errors import ModelError
from autotune.graph.builder import GraphBuilder
from autotune.graph.file_memory import released
from autotune.graph.graph import Graph
from autotune.graph.onnx_model import checked_nodes, read_model
from autotune.graph.onnx_ops import CONSTANT_ONLY, TRANSLATIONS
from autotune.graph.onnx_ops.folding import FOLDED, STATIC, fold, fold_shape, tensor_array
from autotune.graph.onnx_ops.scope import Node, Scope, check_size
from autotune.graph.onnx_weights import CutModel, CutTensor
from autotune.graph.op import OpKind


def supported_operators() -> tuple[str, ...]:
    """Names of the ONNX operators that import accepts, sorted.

    Those in ``constant_operators()`` only where their value is known at import.
    """
    return tuple(sorted({*TRANSLATIONS, *CONSTANT_ONLY}))


def constant_operators() -> tuple[str, ...]:
    """Names of the ONNX operators that are evaluated at import or refused, sorted."""
    return tuple(sorted(CONSTANT_ONLY))


def load_onnx(path: Path | str, dims: Mapping[str, int] | None = None) -> Graph:
    """Read, check and translate an ONNX file (opset 9 and up).

    ``dims`` binds symbolic dimensions by name (an unnamed one is called ``input:axis``). Inputs
    and outputs keep their ONNX names. Raises ``ModelError`` naming the file, the place and the
    way out.
    """
    return released(read_onnx(path, dims))


def read_onnx(path: Path | str, dims: Mapping[str, int] | None = None) -> Graph:
    """As ``load_onnx``, but weights are parts of the file, aligned or not, until they are
    ``released``: for passes to come first."""
    path = Path(path)
    model, apart = read_model(path)
    try:
        return translate(model, path.stem, dims or {}, apart)
    except ModelError as error:
        one_line = str(error).replace("\n", "\\n")
        raise ModelError(f"{path}: {one_line}") from None


def translate(
    model: onnx.ModelProto, name: str, dims: Mapping[str, int], apart: CutModel | None = None
) -> Graph:
    """The graph of a parsed model, whose dimensions are bound in place; ``apart`` is what was cut
    from it.

    Raises ``ModelError`` without the file's name.
    """
    nodes = checked_nodes(model, dims, apart)
    outputs = [value.name for value in model.graph.output]
    consumed = {x for node in nodes for x in node.inputs} | set(outputs)
    scope = _scope(model, nodes, name, {} if apart is None else apart.initializers)
    for node in nodes:
        _translate_node(scope, node)
        _check_outputs(scope, node, consumed)
    graph = scope.builder.build([_output(scope, x) for x in outputs])
    if not graph.ops:
        raise ModelError("the graph is empty: all its operators fold into constants")
    return graph


def _scope(
    model: onnx.ModelProto, nodes: list[Node], name: str, data: Mapping[int, memoryview]
) -> Scope:
    """Initializers become known values, the other inputs become inputs of the graph."""
    stored = [
        CutTensor(tensor, data[i]) if i in data else tensor
        for i, tensor in enumerate(model.graph.initializer)
    ]
    names_of = [tensor.name for tensor in model.graph.initializer]
    arrays = {
        name: tensor_array(f"initializer {name!r}", tensor)
        for name, tensor in zip(names_of, stored, strict=True)
    }
    names = {value.name for value in model.graph.input} | {x for n in nodes for x in n.outputs}
    scope = Scope(GraphBuilder(name), arrays, frozenset(names | set(arrays)))
    for value in model.graph.input:
        if value.name in arrays:
            continue
        tensor_type = value.type.tensor_type
        if tensor_type.elem_type != onnx.TensorProto.FLOAT:
            scope.foreign[value.name] = _type_name(tensor_type.elem_type)
            continue
        shape = tuple(dim.dim_value for dim in tensor_type.shape.dim)
        check_size(f"input {value.name!r}", shape)
        scope.tensors[value.name] = scope.builder.input(value.name, shape)
    return scope


def _type_name(elem_type: int) -> str:
    known = elem_type in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(elem_type).lower() if known else f"#{elem_type}"


def _check_outputs(scope: Scope, node: Node, consumed: set[str]) -> None:
    for extra in node.outputs[1:]:
        if extra and extra in consumed and extra not in scope.tensors:
            raise ModelError(
                f"{node.label}: only the first output of {node.operator} is supported, and "
                f"{extra!r} is used; export the model without it"
            )


def _translate_node(scope: Scope, node: Node) -> None:
    """Evaluate the node if its inputs are known, else emit its operators."""
    output = node.outputs[0]
    given = [x for x in node.inputs if x]
    if node.operator in STATIC and given and given[0] in scope.tensors:
        scope.arrays[output] = fold_shape(node, scope.shape(scope.tensors[given[0]]))
    elif node.operator in STATIC and scope.is_array(given[0]):
        scope.arrays[output] = fold_shape(node, scope.arrays[given[0]].shape)
    elif node.operator in FOLDED and all(scope.is_array(x) for x in given):
        scope.arrays[output] = fold(node, [scope.arrays[x] for x in given])
    elif node.operator in TRANSLATIONS:
        scope.tensors[output] = TRANSLATIONS[node.operator](scope, node)
    else:
        run_time = next(x for x in given if not scope.is_array(x))
        raise ModelError(
            f"{node.label}: operator {node.operator} is supported on constants only, and "
            f"{run_time!r} is known only at run time; run 'autotune doctor --operators' to list "
            "what is supported"
        )


def _output(scope: Scope, name: str) -> str:
    """The graph tensor of an ONNX output, under its own name."""
    if name in scope.arrays:
        return scope.tensors.get(name) or scope.builder.constant(scope.arrays[name], name)
    if name not in scope.tensors:
        raise ModelError(f"output {name!r} is computed by no operator; export the model again")
    tensor = scope.tensors[name]
    if tensor == name:
        return name
    return scope.builder.add(
        OpKind.RESHAPE, tensor, name=name, output=name, shape=scope.shape(tensor)
    )
