"""The forward pass of a PyTorch module as one session, which takes and gives tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from autotune.adapters.exported_network import ExportedNetwork, Settings, export_program
from autotune.errors import InputError, ModelError
from autotune.runtime.session.session import Session


class InferenceModule:
    """A callable with the arguments and results of a module's ``forward``, without gradients.

    Results keep their structure: tuples, dictionaries and registered classes, such as those of
    transformers. Weights are those at the time of the export.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dynamic_shapes: Any,
        settings: Settings,
    ) -> None:
        """Export the module by these arguments. Raises ``ModelError`` if that is impossible."""
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"expected a torch.nn.Module, got {type(module).__name__}")
        try:
            with torch.no_grad():
                program = export_program(module, args, kwargs, dynamic_shapes)
                self._network = ExportedNetwork(program, settings)
        except ModelError as error:
            raise ModelError(
                f"{type(module).__name__}: {error}; torch.compile(module, backend='autotune') "
                "runs such parts in PyTorch"
            ) from error
        self._in_spec, self._out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        self._keywords = tuple(kwargs)
        self._examples = program.graph_signature.user_inputs

    @property
    def session(self) -> Session:
        """The session that runs the module."""
        return self._network.session

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module once.

        Raises ``InputError`` for arguments of another structure, shape or type than those of the
        example.
        """
        if kwargs.keys() != set(self._keywords):
            raise InputError(
                f"the module was exported with keywords {list(self._keywords)}, got {list(kwargs)}"
            )
        ordered = {name: kwargs[name] for name in self._keywords}
        leaves, spec = pytree.tree_flatten((args, ordered))
        if spec != self._in_spec:
            raise InputError("the arguments have another structure than those of the export")
        outputs = self._network(self._tensors(leaves))
        return pytree.tree_unflatten(outputs, self._out_spec)

    def _tensors(self, leaves: list[Any]) -> list[torch.Tensor]:
        """Return the tensors of the arguments; numbers and flags must be those of the export."""
        tensors: list[torch.Tensor] = []
        for leaf, example in zip(leaves, self._examples, strict=True):
            if isinstance(leaf, torch.Tensor):
                tensors.append(leaf)
            elif leaf != example:
                raise InputError(f"an argument is {leaf!r}; it was {example!r} in the export")
        return tensors
