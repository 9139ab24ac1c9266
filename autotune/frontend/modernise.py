"""Brings a model to operators that import knows: a newer operator set, and functions expanded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx
from onnx import inliner, version_converter

from autotune.errors import ModelError
from autotune.frontend.translate import CONSTANT_ONLY, TRANSLATIONS
from autotune.frontend.weights import CutModel, restore
from autotune.graph.passes.note import Note

OLDEST_OPSET = 9
DEFAULT_DOMAINS = ("", "ai.onnx")
OWN_DOMAIN = "autotune.expanded"
"""Of functions that import writes into a model."""
EXPANSION_ERRORS = (
    RuntimeError,
    ValueError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
)
"""What onnx raises for models that it cannot expand or convert."""
MAX_NODES = 100_000
"""A model of more nodes, its functions expanded, is refused: no network that people bring comes near,
and functions that call others twice double with every level."""
MAX_CALL_DEPTH = 100
"""Functions that call functions; onnx's own limit."""
_KNOWN = frozenset(TRANSLATIONS) | CONSTANT_ONLY


@dataclass(frozen=True, slots=True)
class Form:
    """How a model came to the operators that it has: ``expanded`` names those that were replaced by
    what defines them; ``apart`` is what is still cut from it; ``folded`` is the control flow that went."""

    apart: CutModel | None
    expanded: tuple[str, ...]
    folded: tuple[Note, ...] = ()


def modernised(model: onnx.ModelProto, apart: CutModel | None) -> Form:
    """Rewrite a model in place where it needs that.

    Operator sets before ``OLDEST_OPSET`` are converted; operators that are unknown but that the
    model or ONNX defines by others are replaced by those. Raises ``ModelError`` where the converter
    gives up.
    """
    check_extent(model)
    old = 0 < opset_of(model) < OLDEST_OPSET
    if not old and not functions_of(model):
        return Form(apart, ())
    if apart is not None:
        restore(model, apart)
    if old:
        _convert(model)
    names = tuple(sorted({node.op_type for node in functions_of(model)}))
    if names:
        _expand(model, names)
    return Form(None, names)


def check_extent(model: onnx.ModelProto) -> None:
    """Refuse what would take too long to look at, and operator sets that nobody knows yet. Raises
    ``ModelError``."""
    newest = onnx.defs.onnx_opset_version()
    if opset_of(model) > newest:
        raise ModelError(
            f"opset {opset_of(model)} is newer than {newest}, the newest that is known; export the "
            f"model with opset {newest} or older"
        )
    count = _Extents(model).nodes(model.graph.node, 0)
    if count > MAX_NODES:
        raise ModelError(
            f"the model has {count} nodes, its functions expanded, more than the limit of "
            f"{MAX_NODES}; export a smaller part of it"
        )


class _Extents:
    """How many nodes each function of a model comes to, those that it calls counted in."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._bodies = {(f.domain, f.name): f.node for f in model.functions}
        self._found: dict[tuple[str, str], int] = {}

    def nodes(self, nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        """The nodes that these come to, with their bodies. Raises ``ModelError`` for functions that
        call themselves, or others too deep."""
        if depth > MAX_CALL_DEPTH:
            raise ModelError(
                f"functions call each other more than {MAX_CALL_DEPTH} deep, or themselves; export "
                "the model without functions"
            )
        return sum(self._of(node, depth) for node in nodes)

    def _of(self, node: onnx.NodeProto, depth: int) -> int:
        count = 1
        for attribute in node.attribute:
            if attribute.HasField("g"):
                count += self.nodes(attribute.g.node, depth)
        if not self._bodies:
            return count
        key = (node.domain, node.op_type)
        if key in self._bodies and key not in self._found:
            self._found[key] = self.nodes(self._bodies[key], depth + 1)
        return count + self._found.get(key, 0)


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the standard operator set; 0 where the model imports none."""
    return max((o.version for o in model.opset_import if o.domain in DEFAULT_DOMAINS), default=0)


def is_known(proto: onnx.NodeProto) -> bool:
    """Whether there is a translation of a node's operator."""
    return proto.domain in DEFAULT_DOMAINS and proto.op_type in _KNOWN


def _convert(model: onnx.ModelProto) -> None:
    if any(node.op_type == "Scan" for node in model.graph.node):
        raise ModelError(
            f"operator Scan of opset {opset_of(model)} runs over batches, which is not supported; "
            f"export the model with opset {OLDEST_OPSET} or newer"
        )
    try:
        converted = version_converter.convert_version(model, OLDEST_OPSET)
    except (version_converter.ConvertError, *EXPANSION_ERRORS) as error:
        operators = ", ".join(sorted({node.op_type for node in model.graph.node}))
        raise ModelError(
            f"opset {opset_of(model)} is older than {OLDEST_OPSET}, and onnx.version_converter "
            f"cannot bring the model's operators ({operators}) there{_cause(error)}; export it again"
        ) from None
    model.CopyFrom(converted)


def _expand(model: onnx.ModelProto, names: tuple[str, ...]) -> None:
    """Replace functions by their bodies, and the functions in these by theirs."""
    for node in functions_of(model):
        _spell_out_defaults(node, _schema(node, model))
    kept = [("", name) for name in sorted(_KNOWN)]
    try:
        typed = onnx.shape_inference.infer_shapes(model)  # some bodies depend on element types
        _state_types(typed.graph)
        for node in [node for node in functions_of(typed) if "" in node.input]:
            _make_own(node, typed)
        expanded = inliner.inline_selected_functions(
            typed, kept, exclude=True, inline_schema_functions=True
        )
    except EXPANSION_ERRORS as error:
        raise ModelError(
            f"operators {', '.join(names)} are functions that onnx cannot expand: "
            f"{_last_line(error)}; export the model without them"
        ) from None
    kept_outputs = {x for node in model.graph.node for x in node.output}
    for index, node in enumerate(expanded.graph.node):
        if not node.name and kept_outputs.isdisjoint(node.output):
            node.name = f"{'/'.join(names)} {index}"
    model.CopyFrom(expanded)


def _state_types(graph: onnx.GraphProto) -> None:
    """Say the types of weights that only their values tell: the inliner looks nowhere else."""
    stated = {value.name for value in (*graph.input, *graph.value_info)}
    for weight in graph.initializer:
        if weight.name not in stated:
            kind = onnx.helper.make_tensor_type_proto(weight.data_type, tuple(weight.dims))
            graph.value_info.append(onnx.helper.make_value_info(weight.name, kind))


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the graphs in their attributes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def _make_own(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Let a node with an input left out call a function of the model's: onnx's inliner asks for the
    types of inputs, and knows none of what is absent."""
    schema = _schema(node, model)
    if schema is None or not schema.has_context_dependent_function:
        return
    types = {value.name: value.type for value in (*model.graph.input, *model.graph.value_info)}
    for tensor in model.graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    given = [types.get(x, onnx.TypeProto()).SerializeToString() for x in node.input]
    version = max(
        v for v in schema.context_dependent_function_opset_versions if v <= opset_of(model)
    )
    function = onnx.FunctionProto.FromString(
        schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), given
        )
    )
    function.name, function.domain = f"{node.op_type}{len(model.functions)}", OWN_DOMAIN
    node.op_type, node.domain = function.name, OWN_DOMAIN
    model.functions.append(function)
    if all(known.domain != OWN_DOMAIN for known in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(OWN_DOMAIN, 1))


def _spell_out_defaults(node: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> None:
    """Write down the attributes left out: bodies refer to them by name."""
    if schema is None:
        return
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def functions_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes that are unknown and defined by others."""
    own = {(function.domain, function.name) for function in model.functions}
    unknown = [node for node in model.graph.node if not is_known(node)]
    return [
        node for node in unknown if (node.domain, node.op_type) in own or _is_defined(node, model)
    ]


def _is_defined(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    schema = _schema(node, model)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def _schema(node: onnx.NodeProto, model: onnx.ModelProto) -> onnx.defs.OpSchema | None:
    """What ONNX says of a node's operator; None where it knows nothing."""
    versions = {o.domain: o.version for o in model.opset_import}
    try:
        return onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except (onnx.defs.SchemaError, TypeError):  # the latter for names that are not UTF-8
        return None


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def _cause(error: Exception) -> str:
    """What the converter said, where it is meant for people: a failed assertion of its is not."""
    line = _last_line(error)
    return "" if "Assertion" in line else f": {line}"
