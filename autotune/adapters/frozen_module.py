"""A subgraph of PyTorch's compiler as a module to export: weights inside, only computed outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch.export import Dim

from autotune.errors import ModelError


@dataclass(frozen=True, slots=True)
class _Argument:
    """An output that is an argument of the subgraph, by its position."""

    position: int


class FrozenModule:
    """A subgraph whose arguments are split into weights, tensors and sizes.

    ``weights`` and ``inputs`` are positions in the arguments. Sizes are read from the tensors that
    have them. Raises ``ModelError`` if that is impossible, or if an output is a view of an input.
    """

    def __init__(self, module: fx.GraphModule, examples: Sequence[Any]) -> None:
        self._module = module
        self._nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.weights = tuple(
            at for at, node in enumerate(self._nodes) if _is_weight(node, examples[at])
        )
        self.inputs = tuple(
            at
            for at, value in enumerate(examples)
            if isinstance(value, torch.Tensor) and at not in self.weights
        )
        self.dynamic_shapes = tuple(_open_axes(self._nodes[at]) for at in self.inputs)
        self._sizes = {
            node: self._size_place(node)
            for node, value in zip(self._nodes, examples, strict=True)
            if not isinstance(value, torch.Tensor) and node.users
        }
        self._results = self._checked_results()

    def bound(self, args: Sequence[Any]) -> fx.GraphModule:
        """Return the subgraph with the weights of ``args`` as its parameters and buffers."""
        held: dict[str, Any] = {f"weight_{at}": args[at] for at in self.weights}
        graph = fx.Graph()
        mapped = {self._nodes[at]: graph.placeholder(f"input_{at}") for at in self.inputs}
        mapped |= {self._nodes[at]: graph.get_attr(f"weight_{at}") for at in self.weights}
        for node, (at, axis) in self._sizes.items():
            arguments = mapped[self._nodes[at]], axis
            mapped[node] = graph.call_function(torch.ops.aten.sym_size.int, arguments)
        for node in self._module.graph.nodes:
            if node.op in ("get_attr", "call_module"):
                held[node.target] = attrgetter(node.target)(self._module)
            if node.op not in ("placeholder", "output"):
                mapped[node] = graph.node_copy(node, mapped.__getitem__)
        graph.output(tuple(mapped[x] for x in self._results if isinstance(x, fx.Node)))
        return fx.GraphModule(held, graph)

    def examples(self, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Return tensors such as those of ``args`` to trace with; their numbers do not matter."""
        return tuple(torch.empty_like(args[at], requires_grad=False) for at in self.inputs)

    def outputs(self, args: Sequence[Any], computed: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs of the subgraph from its arguments and from computed tensors."""
        following = iter(computed)
        outputs: list[Any] = []
        for result in self._results:
            if isinstance(result, fx.Node):
                outputs.append(next(following))
            else:
                outputs.append(args[result.position] if isinstance(result, _Argument) else result)
        return tuple(outputs)

    def _size_place(self, node: fx.Node) -> tuple[int, int]:
        """Return the position of a tensor and the axis whose extent an argument is."""
        size = str(node.meta.get("example_value"))
        for at in self.inputs:
            extents = _fake(self._nodes[at]).shape
            if size in map(str, extents):
                return at, list(map(str, extents)).index(size)
        raise ModelError(f"argument {node.name!r} is a number that no tensor's shape tells")

    def _checked_results(self) -> tuple[Any, ...]:
        output = next(node for node in self._module.graph.nodes if node.op == "output")
        results = tuple(self._result(x) for x in output.args[0])
        given = {_storage(_fake(self._nodes[at])) for at in (*self.inputs, *self.weights)}
        for result in results:
            if not isinstance(result, fx.Node):
                continue
            if not isinstance(_fake(result), torch.Tensor):
                raise ModelError(f"output {result.name!r} is a number that depends on shapes")
            if _storage(_fake(result)) in given:
                raise ModelError(f"output {result.name!r} is a view of an input")
        return results

    def _result(self, value: Any) -> Any:
        is_argument = isinstance(value, fx.Node) and value.op == "placeholder"
        return _Argument(self._nodes.index(value)) if is_argument else value


def _is_weight(node: fx.Node, example: Any) -> bool:
    """Return True for parameters and buffers of modules."""
    source = getattr(node, "_dynamo_source", None)
    of_module = source is not None and source.guard_source.is_unspecialized_nn_module()
    return isinstance(example, torch.Tensor) and (
        of_module or isinstance(example, torch.nn.Parameter)
    )


def _open_axes(node: fx.Node) -> dict[int, Any]:
    """Return a symbolic dimension for each axis of a tensor whose extent is not fixed."""
    extents = enumerate(_fake(node).shape)
    return {axis: Dim.AUTO for axis, extent in extents if isinstance(extent, torch.SymInt)}


def _fake(node: fx.Node) -> Any:
    """Return the tensor without numbers that the compiler traced for a node."""
    return node.meta.get("example_value")


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
