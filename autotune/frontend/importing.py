"""Imports ONNX models: the border where networks enter the flow, through stages of frozen values.

SourceModel ─ modernise ─► ModernModel ─ bind, fold ─► BoundModel ─ straighten ─► StraightModel
─ translate ─► Graph. A model whose control flow only a run decides is cut into a ``GraphTree``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from autotune.arguments import dims_of, path_of
from autotune.errors import ModelError, one_line
from autotune.frontend.bind import BoundModel, bind, bind_some, declare_inputs, declare_outputs
from autotune.frontend.control.cutting import passes_on, tree_of, with_stored_constants
from autotune.frontend.control.folding import fold_control
from autotune.frontend.control.host_integers import host_nodes, needs_host
from autotune.frontend.control.tree import GraphPiece, GraphTree
from autotune.frontend.limits import WideConstant
from autotune.frontend.model_file import peek_model, read_model
from autotune.frontend.modernise import check_operators, check_supported, modernise
from autotune.frontend.node import AnyArray
from autotune.frontend.open_extent import Known
from autotune.frontend.source_model import SourceModel
from autotune.frontend.straight import load_schemas, straighten
from autotune.frontend.subgraphs import has_control, is_control, label_of
from autotune.frontend.translate import CONSTANT_ONLY, TRANSLATIONS
from autotune.frontend.translate.model import translate_graph, translate_known, translate_outputs
from autotune.graph.graph import Graph
from autotune.graph.mapped_weights import copy_mapped_weights
from autotune.graph.padding.spans import Sample, Unfit

SUPPORTED = frozenset(TRANSLATIONS) | CONSTANT_ONLY
"""ONNX operators that import accepts; those in ``CONSTANT_ONLY`` with constant values."""


def supported_operators() -> tuple[str, ...]:
    """Return the names of the ONNX operators that import accepts, sorted.

    Those in ``constant_operators()`` need a value that is known at import.
    """
    return tuple(sorted(SUPPORTED))


def constant_operators() -> tuple[str, ...]:
    """Return the names of the ONNX operators that are evaluated at import or refused, sorted."""
    return tuple(sorted(CONSTANT_ONLY))


def load_onnx(path: Path | str, dims: Mapping[str, int] | None = None) -> Graph:
    """Read, check and translate an ONNX file.

    ``dims`` binds symbolic dimensions by name (an unnamed one is called ``input:axis``). Inputs
    and outputs keep their ONNX names. Raises ``ModelError`` naming the file, the place and the
    way out.
    """
    return copy_mapped_weights(read_onnx(path_of(path, "a network"), dims_of(dims)))


def read_onnx(path: Path | str, dims: Mapping[str, int] | None = None) -> Graph:
    """Import a file as ``load_onnx`` does, but leave weights in the mapped file, aligned or not.

    Passes come first; ``copy_mapped_weights`` copies what they leave.
    """
    path = Path(path)
    model = read_model(path)
    try:
        return import_graph(model, path.stem, dims or {})
    except ModelError as error:
        raise ModelError(f"{path}: {one_line(str(error))}") from None


def translate(model: onnx.ModelProto, name: str, dims: Mapping[str, int]) -> Graph:
    """Import a parsed model. Raises ``ModelError`` without the file's name."""
    return import_graph(SourceModel(model), name, dims)


def import_graph(model: SourceModel, name: str, dims: Mapping[str, int]) -> Graph:
    """Import a model as one graph.

    Raises ``ModelError`` without the file's name, also for control flow that only a run decides, and
    ``RunTimeValue`` if it would help to bind inputs.
    """
    bound = _prepare(model, dims, {})
    for index, node in enumerate(bound.proto.graph.node):
        if is_control(node):
            raise ModelError(
                f"{label_of(node, index)}: operator {node.op_type} is decided at run time; open the "
                "model with Session, which runs what is inside as programs of their own"
            )
    return translate_graph(straighten(bound), name)


def import_tree(
    model: SourceModel,
    name: str,
    dims: Mapping[str, int],
    constants: Mapping[str, AnyArray] | None = None,
) -> GraphTree:
    """Import a model as a tree of graphs; ``constants`` are values of inputs, by name.

    Raises ``ModelError`` without the file's name, and ``RunTimeValue`` if it would help to bind
    inputs.
    """
    bound = _prepare(model, dims, constants or {})
    if has_control(bound.proto):
        return tree_of(SourceModel(bound.proto, bound.weights), notes=bound.notes)
    straight = straighten(bound)
    made = translate_outputs(straight, name)
    steps = () if made.graph is None else (GraphPiece(name, made.graph),)
    return GraphTree(steps, straight.outputs, made.constants, straight.notes)


def open_network(path: Path, dims: Mapping[str, int]) -> SourceModel:
    """Read a file whose shapes or control flow only a run decides; ``dims`` binds some dimensions.

    Weights are in memory of their own. What the first import at some shapes would wait for is loaded. Raises ``ModelError``
    naming the file.
    """
    load_schemas()
    model = read_model(path)
    try:
        return bind_some(SourceModel(model.proto, model.weights.copy()), dims)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def is_straight(path: Path, dims: Mapping[str, int]) -> bool:
    """Return True if an ONNX file has no control flow, and no dimension that ``dims`` leaves open.

    Raises ``ModelError`` naming the file.
    """
    model = peek_model(path)
    symbols = {symbol for value in model.inputs for symbol in value.open_axes.values()}
    return not has_control(model.proto) and symbols <= dims.keys()


def needs_numpy(path: Path) -> bool:
    """Return True if an ONNX file has integers that only numpy computes exactly.

    Raises ``ModelError`` naming the file.
    """
    return needs_host(peek_model(path))


def has_control_flow(path: Path) -> bool:
    """Return True if an ONNX file has control flow. Raises ``ModelError`` naming the file."""
    return has_control(peek_model(path).proto)


def specialise(
    model: SourceModel,
    name: str,
    inputs: Mapping[str, Any],
    constants: Container[str] = (),
    on_host: bool = False,
) -> GraphTree:
    """Import a model at the shapes and types of ``inputs``: arrays, sequences or optionals by name.

    ``constants`` names inputs whose values become constants. With ``on_host``, numpy computes all
    integer operators that it may. Raises ``ModelError``, and ``RunTimeValue`` if it would help to
    bind inputs.
    """
    typed = declare_inputs(model, inputs)
    if on_host or needs_host(typed):
        typed = with_stored_constants(typed)
        hosted = _host_tree(typed)
        if hosted is not None:
            return hosted
    if passes_on(typed):
        return tree_of(with_stored_constants(typed))
    values = {
        x: value.copy()  # the caller may write to its own
        for x, value in inputs.items()
        if x in constants or (isinstance(value, np.ndarray) and value.size == 0)
    }
    try:
        return import_tree(typed, name, {}, values)
    except WideConstant:
        hosted = None if on_host else _host_tree(with_stored_constants(typed))
        if hosted is None:
            raise
        return hosted


def sample_extents(
    model: SourceModel,
    name: str,
    extents: Mapping[int, Mapping[str, AnyArray]],
    before_each: Callable[[], None] = lambda: None,
) -> tuple[tuple[Sample, ...], tuple[Known, ...]]:
    """Import a model at several extents of one open dimension: arrays of its inputs, by extent.

    Return the network and what import evaluated at each. Raises ``Unfit`` for control flow, for
    integers that numpy computes and for outputs that are known at import, ``ModelError``, and
    ``RunTimeValue`` if shapes depend on values.
    """
    if has_control(model.proto):
        raise Unfit("control flow")
    graphs, known = [], []
    for extent, inputs in extents.items():
        before_each()
        typed = declare_inputs(model, inputs)
        if needs_host(typed) or passes_on(typed):
            raise Unfit("operators that numpy runs")
        straight = straighten(_prepare(typed, {}, {}))
        made, arrays = translate_known(straight, name)
        if made.graph is None or made.constants:
            raise Unfit("outputs that are known without a run")
        graphs.append(Sample(extent, made.graph))
        known.append(Known(extent, straight.nodes, arrays))
    return tuple(graphs), tuple(known)


def host_tree(model: SourceModel, inputs: Mapping[str, Any]) -> GraphTree | None:
    """Cut a model at ``inputs`` into a tree whose integer operators numpy computes; return None if it
    has none."""
    return _host_tree(with_stored_constants(declare_inputs(model, inputs)))


def check_model(model: SourceModel) -> None:
    """Refuse operators that are unsupported at any extents of open dimensions. Raises
    ``ModelError``."""
    check_operators(model, SUPPORTED)


def _host_tree(model: SourceModel) -> GraphTree | None:
    hosted = host_nodes(model)
    return tree_of(model, hosted) if hosted else None


def _prepare(
    model: SourceModel, dims: Mapping[str, int], constants: Mapping[str, AnyArray]
) -> BoundModel:
    """Return the model in modern operators, bound, and without control flow that is decided."""
    bound = bind(modernise(model, SUPPORTED), dims, constants)
    if not has_control(bound.proto):
        return bound
    folded = fold_control(bound, lambda cone, name: _value(cone, name, constants))
    if not has_control(folded.proto):
        check_supported(folded.proto, SUPPORTED, folded.inlined)
    return folded


def _value(cone: SourceModel, name: str, constants: Mapping[str, AnyArray]) -> AnyArray | None:
    """Return the value of a model's output; None if a run decides it."""
    inputs = {value.name for value in cone.inputs}
    proto = onnx.ModelProto()
    proto.CopyFrom(cone.proto)
    declare_outputs(proto)
    values = {x: y for x, y in constants.items() if x in inputs}
    try:
        return import_tree(SourceModel(proto, cone.weights), name, {}, values).constants.get(name)
    except ModelError:  # reported when the operators themselves are imported
        return None
