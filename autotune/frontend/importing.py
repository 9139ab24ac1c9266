"""Reads an ONNX file into a graph: the border where models enter the flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from autotune.arguments import dims_of, path_of
from autotune.errors import ModelError, one_line
from autotune.frontend.control.flow import (
    check_bodies,
    declare_outputs,
    has_control,
    is_control,
    label_of,
    put_in_order,
)
from autotune.frontend.model_file import bind_dims, check_valid, checked_nodes, read_model
from autotune.frontend.modernise import Form, modernised
from autotune.frontend.nodes import check_outputs, translate_node
from autotune.frontend.translate import CONSTANT_ONLY, TRANSLATIONS
from autotune.frontend.translate.element_types import dtype_of_elem, elem_name
from autotune.frontend.translate.folding import STATIC, tensor_array
from autotune.frontend.translate.limits import check_size
from autotune.frontend.translate.scope import AnyArray, Node, RunTimeValue, Scope
from autotune.frontend.weights import CutModel, CutTensor, restore
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.mapped_weights import copy_mapped_weights
from autotune.graph.passes.note import Note
from autotune.operators.op import OpKind


def supported_operators() -> tuple[str, ...]:
    """Names of the ONNX operators that import accepts, sorted.

    Those in ``constant_operators()`` only where their value is known at import.
    """
    return tuple(sorted({*TRANSLATIONS, *CONSTANT_ONLY}))


def constant_operators() -> tuple[str, ...]:
    """Names of the ONNX operators that are evaluated at import or refused, sorted."""
    return tuple(sorted(CONSTANT_ONLY))


def load_onnx(path: Path | str, dims: Mapping[str, int] | None = None) -> Graph:
    """Read, check and translate an ONNX file.

    ``dims`` binds symbolic dimensions by name (an unnamed one is called ``input:axis``). Inputs
    and outputs keep their ONNX names. Raises ``ModelError`` naming the file, the place and the
    way out.
    """
    return copy_mapped_weights(read_onnx(path_of(path, "a network"), dims_of(dims)))


def read_onnx(path: Path | str, dims: Mapping[str, int] | None = None) -> Graph:
    """As ``load_onnx``, but weights are parts of the file, aligned or not, until they are
    ``released``: for passes to come first."""
    path = Path(path)
    model, apart = read_model(path)
    try:
        return translate(model, path.stem, dims or {}, apart)
    except ModelError as error:
        raise ModelError(f"{path}: {one_line(str(error))}") from None


class RunTimeControl(ModelError):
    """A model has control flow that only a run decides: it is a tree of graphs, not one. ``notes``
    say what was folded, in the model itself, before this was found."""

    def __init__(self, node: onnx.NodeProto, index: int, notes: tuple[Note, ...]) -> None:
        super().__init__(
            f"{label_of(node, index)}: operator {node.op_type} is decided at run time; open the model "
            "with Session, which runs what is inside as programs of their own"
        )
        self.notes = notes


@dataclass(frozen=True, slots=True)
class Imported:
    """A model split by when its outputs are known: ``graph`` computes those that depend on run-time
    inputs (None where none does), ``known`` holds the others, by name, of their own types."""

    graph: Graph | None
    known: Mapping[str, AnyArray]
    notes: tuple[Note, ...] = ()
    """Control flow that was folded."""


def translate(
    model: onnx.ModelProto,
    name: str,
    dims: Mapping[str, int],
    apart: CutModel | None = None,
    bind: Mapping[str, AnyArray] | None = None,
) -> Graph:
    """The graph of a parsed model, whose dimensions are bound in place; ``apart`` is what was cut
    from it; ``bind`` gives run-time inputs that are to be constants their
    values.

    Raises ``ModelError`` without the file's name, ``RunTimeValue`` where binding inputs would help.
    """
    scope, outputs, _ = _translated(model, name, dims, apart, bind or {})
    graph = scope.builder.build([_output(scope, x) for x in outputs])
    if not graph.ops:
        raise ModelError("the graph is empty: all its operators fold into constants")
    return graph


def split(
    model: onnx.ModelProto,
    name: str,
    dims: Mapping[str, int],
    bind: Mapping[str, AnyArray] | None = None,
) -> Imported:
    """As ``translate``, for models that may be known at import in part or as a whole."""
    scope, outputs, notes = _translated(model, name, dims, None, bind or {})
    known = {x: scope.arrays[x] for x in outputs if x in scope.arrays}
    computed = [_output(scope, x) for x in outputs if x not in known]
    return Imported(scope.builder.build(computed) if computed else None, known, notes)


def _translated(
    model: onnx.ModelProto,
    name: str,
    dims: Mapping[str, int],
    apart: CutModel | None,
    bind: Mapping[str, AnyArray],
) -> tuple[Scope, list[str], tuple[Note, ...]]:
    """Every node evaluated or emitted, the names of the model's outputs, and what was folded."""
    form = modernised(model, apart)
    if has_control(model):
        form, dims = _folded(model, form, dims, bind), {}
    nodes = checked_nodes(model, dims, form, bind)
    outputs = [value.name for value in model.graph.output]
    consumed = {x for node in nodes for x in node.inputs if x} | set(outputs)  # "" is none
    data = {} if form.apart is None else form.apart.initializers
    scope = _scope(model, nodes, name, bind, data)
    try:
        for node in nodes:
            translate_node(scope, node)
            check_outputs(scope, node, consumed)
            scope.count(node)
    except RunTimeValue as need:
        raise RunTimeValue(str(need), need.tensor, _decided_by(need.tensor, nodes, scope)) from None
    return scope, outputs, form.folded


def _folded(
    model: onnx.ModelProto, form: Form, dims: Mapping[str, int], bind: Mapping[str, AnyArray]
) -> Form:
    """Bind dimensions and fold the control flow that is decided, in place. Raises ``RunTimeControl``
    where some is left."""
    from autotune.frontend.control.folding import fold_control  # few models have any

    if form.apart is not None:
        restore(model, form.apart)
    put_in_order(model)
    check_bodies(model)
    bind_dims(model, dims, bind)
    check_valid(model)
    notes = fold_control(model, lambda cone, name: _value(cone, name, bind))
    left = next((node for node in model.graph.node if is_control(node)), None)
    if left is not None:
        raise RunTimeControl(left, list(model.graph.node).index(left), notes)
    return Form(None, form.expanded, notes)


def _value(cone: onnx.ModelProto, name: str, bind: Mapping[str, AnyArray]) -> AnyArray | None:
    """The value of a model's output; None where a run decides it."""
    read = {value.name for value in cone.graph.input}
    declare_outputs(cone)
    try:
        return split(cone, name, {}, {x: y for x, y in bind.items() if x in read}).known.get(name)
    except ModelError:  # what is wrong is said when the operators themselves are imported
        return None


def _scope(
    model: onnx.ModelProto,
    nodes: list[Node],
    name: str,
    bind: Mapping[str, AnyArray],
    data: Mapping[int, memoryview],
) -> Scope:
    """Initializers and bound inputs become known values, the other inputs become inputs of the
    graph."""
    arrays: dict[str, AnyArray] = dict(bind)
    for i, tensor in enumerate(model.graph.initializer):
        stored = CutTensor(tensor, data[i]) if i in data else tensor
        arrays[tensor.name] = tensor_array(f"initializer {tensor.name!r}", stored)
    names = {value.name for value in model.graph.input} | {x for n in nodes for x in n.outputs}
    scope = Scope(GraphBuilder(name), arrays, frozenset(names | set(arrays)))
    for value in model.graph.input:
        if value.name in arrays:
            continue
        tensor_type = value.type.tensor_type
        dtype = dtype_of_elem(tensor_type.elem_type)
        if dtype is None:
            scope.foreign[value.name] = elem_name(tensor_type.elem_type)
            continue
        shape = tuple(dim.dim_value for dim in tensor_type.shape.dim)
        check_size(f"input {value.name!r}", shape)
        scope.tensors[value.name] = scope.builder.input(value.name, shape, dtype)
        scope.types[value.name] = dtype
    return scope


def _decided_by(tensor: str, nodes: list[Node], scope: Scope) -> tuple[str, ...]:
    """The run-time inputs whose values decide that of a tensor; shapes are known without them."""
    producer = {x: node for node in nodes for x in node.outputs}
    found: dict[str, None] = {}
    wanted = [tensor]
    while wanted:
        x = wanted.pop()
        if x in scope.arrays or x == "" or x in found:
            continue
        if x not in producer:
            found[x] = None
        elif producer[x].operator not in STATIC:
            wanted += producer[x].inputs
    return tuple(found)


def _output(scope: Scope, name: str) -> str:
    """The graph tensor of an ONNX output, under its own name."""
    if name in scope.arrays:
        return scope.tensors.get(name) or scope.known_output(name)
    if name not in scope.tensors:
        raise ModelError(f"output {name!r} is computed by no operator; export the model again")
    tensor = scope.tensors[name]
    if tensor == name:
        return name
    scope.builder.add(OpKind.RESHAPE, tensor, name=name, output=name, shape=scope.shape(tensor))
    scope.builder.mean(name, scope.types[name])
    return name
