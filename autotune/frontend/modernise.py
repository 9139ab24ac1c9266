"""Brings a model to operators that import supports: a newer operator set, functions inlined."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

import onnx
from onnx import inliner, version_converter

from autotune.errors import ModelError
from autotune.frontend.model_file import MAX_NODES
from autotune.frontend.node import label_with_functions
from autotune.frontend.source_model import SourceModel
from autotune.frontend.subgraphs import has_control, is_control, is_standard, opset_of
from autotune.frontend.weights import Weights

OLDEST_OPSET = 9
OWN_DOMAIN = "autotune.expanded"
"""Domain of functions that import writes into a model."""
EXPANSION_ERRORS = (
    RuntimeError,
    ValueError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
)
"""Errors of onnx for models that it cannot inline or convert."""
MAX_CALL_DEPTH = 100
"""Depth of functions that call functions; onnx's own limit."""


@dataclass(frozen=True, slots=True)
class ModernModel:
    """A model of a newer operator set, its functions replaced by their bodies.

    ``inlined`` names the replaced functions. Operators outside of control flow are supported.
    """

    proto: onnx.ModelProto
    weights: Weights
    inlined: tuple[str, ...] = ()


def modernise(model: SourceModel, supported: Set[str]) -> ModernModel:
    """Convert operator sets before ``OLDEST_OPSET``, and inline functions that are not ``supported``.

    Raises ``ModelError`` for an operator that remains unsupported, and where ONNX's converter or
    inliner fails.
    """
    proto = model.proto
    check_extent(proto)
    if 0 < opset_of(proto) < OLDEST_OPSET:
        proto = _convert(proto)
    functions = tuple(sorted({node.op_type for node in functions_of(proto, supported)}))
    if functions:
        proto = _inline(proto, functions, supported)
    if not has_control(proto):
        check_supported(proto, supported, functions)
    return ModernModel(proto, model.weights, functions)


def check_operators(model: SourceModel, supported: Set[str]) -> None:
    """Refuse operators that are unsupported at any extents of open dimensions. Raises
    ``ModelError``."""
    proto = model.proto
    if opset_of(proto) < OLDEST_OPSET:
        return  # conversion needs extents
    functions = {(node.domain, node.op_type) for node in functions_of(proto, supported)}
    for index, node in enumerate(proto.graph.node):
        if not is_control(node) and (node.domain, node.op_type) not in functions:
            _check_supported(node, index, supported, ())


def check_supported(model: onnx.ModelProto, supported: Set[str], inlined: tuple[str, ...]) -> None:
    """Refuse a model with an operator that is not ``supported``. Raises ``ModelError``."""
    for index, node in enumerate(model.graph.node):
        _check_supported(node, index, supported, inlined)


def _check_supported(
    node: onnx.NodeProto, index: int, supported: Set[str], inlined: tuple[str, ...]
) -> None:
    if _is_supported(node, supported):
        return
    operator = node.op_type if is_standard(node) else f"{node.domain}.{node.op_type}"
    raise ModelError(
        f"{label_with_functions(node, index, inlined)}: operator {operator} is not supported; run 'autotune doctor "
        "--operators' to list what is supported"
    )


def check_extent(model: onnx.ModelProto) -> None:
    """Refuse models that are too large to analyse, and unknown operator sets. Raises
    ``ModelError``."""
    newest = onnx.defs.onnx_opset_version()
    if opset_of(model) > newest:
        raise ModelError(
            f"opset {opset_of(model)} is newer than {newest}, the newest that is known; export the "
            f"model with opset {newest} or older"
        )
    count = _NodeCounter(model).nodes(model.graph.node, 0)
    if count > MAX_NODES:
        raise ModelError(
            f"the model has {count} nodes, its functions expanded, more than the limit of "
            f"{MAX_NODES}; export a smaller part of it"
        )


class _NodeCounter:
    """Counts nodes of a model's functions, including the functions that they call."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._bodies = {(f.domain, f.name): f.node for f in model.functions}
        self._counts: dict[tuple[str, str], int] = {}

    def nodes(self, nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        """Return the number of nodes, bodies included. Raises ``ModelError`` for functions that call
        themselves, or others too deep."""
        if depth > MAX_CALL_DEPTH:
            raise ModelError(
                f"functions call each other more than {MAX_CALL_DEPTH} deep, or themselves; export "
                "the model without functions"
            )
        return sum(self._count(node, depth) for node in nodes)

    def _count(self, node: onnx.NodeProto, depth: int) -> int:
        count = 1
        for attribute in node.attribute:
            if attribute.HasField("g"):
                count += self.nodes(attribute.g.node, depth)
        if not self._bodies:
            return count
        key = (node.domain, node.op_type)
        if key in self._bodies and key not in self._counts:
            self._counts[key] = self.nodes(self._bodies[key], depth + 1)
        return count + self._counts.get(key, 0)


def _convert(model: onnx.ModelProto) -> onnx.ModelProto:
    if any(node.op_type == "Scan" for node in model.graph.node):
        raise ModelError(
            f"operator Scan of opset {opset_of(model)} runs over batches, which is not supported; "
            f"export the model with opset {OLDEST_OPSET} or newer"
        )
    try:
        return version_converter.convert_version(model, OLDEST_OPSET)
    except (version_converter.ConvertError, *EXPANSION_ERRORS) as error:
        operators = ", ".join(sorted({node.op_type for node in model.graph.node}))
        raise ModelError(
            f"opset {opset_of(model)} is older than {OLDEST_OPSET}, and onnx.version_converter "
            f"cannot bring the model's operators ({operators}) there{_cause(error)}; export it again"
        ) from None


def _inline(
    model: onnx.ModelProto, functions: tuple[str, ...], supported: Set[str]
) -> onnx.ModelProto:
    """Return the model with ``functions``, and those that they call, replaced by their bodies."""
    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    for node in functions_of(complete, supported):
        _state_defaults(node, _schema(node, complete))
    try:
        typed = onnx.shape_inference.infer_shapes(complete)  # some bodies depend on element types
        _state_types(typed.graph)
        for node in [node for node in functions_of(typed, supported) if "" in node.input]:
            _call_own_function(node, typed)
        inlined = inliner.inline_selected_functions(
            typed,
            [("", name) for name in sorted(supported)],
            exclude=True,
            inline_schema_functions=True,
        )
    except EXPANSION_ERRORS as error:
        raise ModelError(
            f"operators {', '.join(functions)} are functions that onnx cannot expand: "
            f"{_last_line(error)}; export the model without them"
        ) from None
    outputs = {x for node in model.graph.node for x in node.output}
    for index, node in enumerate(inlined.graph.node):
        if not node.name and outputs.isdisjoint(node.output):
            node.name = f"{'/'.join(functions)} {index}"
    return inlined


def _state_types(graph: onnx.GraphProto) -> None:
    """Declare the types of initializers: the inliner looks nowhere else."""
    declared = {value.name for value in (*graph.input, *graph.value_info)}
    for weight in graph.initializer:
        if weight.name not in declared:
            kind = onnx.helper.make_tensor_type_proto(weight.data_type, tuple(weight.dims))
            graph.value_info.append(onnx.helper.make_value_info(weight.name, kind))


def _call_own_function(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Make a node with an absent input call a function written into the model: onnx's inliner asks
    for the types of all inputs."""
    schema = _schema(node, model)
    if schema is None or not schema.has_context_dependent_function:
        return
    types = {value.name: value.type for value in (*model.graph.input, *model.graph.value_info)}
    for tensor in model.graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    inputs = [types.get(x, onnx.TypeProto()).SerializeToString() for x in node.input]
    version = max(
        v for v in schema.context_dependent_function_opset_versions if v <= opset_of(model)
    )
    function = onnx.FunctionProto.FromString(
        schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), inputs
        )
    )
    function.name, function.domain = f"{node.op_type}{len(model.functions)}", OWN_DOMAIN
    node.op_type, node.domain = function.name, OWN_DOMAIN
    model.functions.append(function)
    if all(opset.domain != OWN_DOMAIN for opset in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(OWN_DOMAIN, 1))


def _state_defaults(node: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> None:
    """Write absent attributes with a default: bodies refer to them by name."""
    if schema is None:
        return
    present = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in present and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def functions_of(model: onnx.ModelProto, supported: Set[str]) -> list[onnx.NodeProto]:
    """Return the nodes that are not supported but defined by other operators."""
    own = {(function.domain, function.name) for function in model.functions}
    unknown = [node for node in model.graph.node if not _is_supported(node, supported)]
    return [
        node for node in unknown if (node.domain, node.op_type) in own or _is_defined(node, model)
    ]


def _is_supported(node: onnx.NodeProto, supported: Set[str]) -> bool:
    return is_standard(node) and node.op_type in supported


def _is_defined(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    schema = _schema(node, model)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def _schema(node: onnx.NodeProto, model: onnx.ModelProto) -> onnx.defs.OpSchema | None:
    """Return ONNX's schema of a node's operator; None if it has none."""
    versions = {o.domain: o.version for o in model.opset_import}
    try:
        return onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except (onnx.defs.SchemaError, TypeError):  # the latter for names that are not UTF-8
        return None


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _cause(error: Exception) -> str:
    """Return the converter's message as a suffix; empty for a failed assertion."""
    line = _last_line(error)
    return "" if "Assertion" in line else f": {line}"
