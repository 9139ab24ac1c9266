"""One subgraph that PyTorch's compiler hands over: run by a session where that is possible."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from autotune.adapters.exported_network import ExportedNetwork, Settings, export_program
from autotune.adapters.extra import SubgraphReport
from autotune.adapters.frozen_module import FrozenModule
from autotune.adapters.tensors import check_tensor
from autotune.errors import AutotuneError, ModelError

FROZEN_SETS = 64
"""Sets of weights that a subgraph is specialised to: layers of equal code share one subgraph."""
FAILURES = 3
"""First calls that fail in a session before the subgraph stays in PyTorch."""
REBUILDS = 3
"""Times that changed weights are frozen again, before the subgraph stays in PyTorch."""


class Subgraph:
    """Calls a session for a subgraph, or PyTorch where the subgraph cannot be imported.

    Weights become constants. Weights that change afterwards are frozen again; weights of another
    module with the same code get a session of their own.
    """

    def __init__(
        self, module: torch.fx.GraphModule, examples: Sequence[Any], settings: Settings
    ) -> None:
        self._module, self._settings = module, settings
        self._operators = sum(node.op.startswith("call") for node in module.graph.nodes)
        self._networks: dict[tuple[int, ...], _FrozenNetwork] = {}
        self._rebuilds = self._runs = self._pytorch_runs = 0
        self._reason: str | None = None
        self._is_warned = False
        _SUBGRAPHS.add(self)
        try:
            _check_inference(examples)
            self._frozen = FrozenModule(module, examples)
            _check_counted([examples[at] for at in self._frozen.weights])
            self._network(examples)
        except AutotuneError as error:
            self._reason = str(error)
            self._warn(self._reason)

    def __call__(self, *args: Any) -> Any:
        """Run the subgraph once."""
        if self._reason is None:
            try:
                made = self._network(args)(args)
                self._runs += 1
                return self._frozen.outputs(args, made)
            except AutotuneError as error:
                self._fail(str(error))
        self._pytorch_runs += 1
        return self._module(*args)

    @property
    def report(self) -> SubgraphReport:
        """What became of the subgraph so far."""
        engine = "autotune" if self._reason is None else "pytorch"
        return SubgraphReport(self._operators, engine, self._reason, self._runs, self._pytorch_runs)

    def _network(self, args: Sequence[Any]) -> _FrozenNetwork:
        """Return the network of the weights in ``args``, made on first use."""
        weights = [args[at] for at in self._frozen.weights]
        key = tuple(map(id, weights))
        network = self._networks.get(key)
        if network is not None and network.is_current:
            return network
        if network is not None:
            self._rebuilds += 1
        if self._rebuilds > REBUILDS or len(self._networks) >= FROZEN_SETS:
            self._reason = "its weights change between calls"
            raise ModelError(self._reason)
        network = _FrozenNetwork(self._frozen, args, weights, self._settings)
        self._networks[key] = network
        return network

    def _fail(self, error: str) -> None:
        """Note a call that PyTorch has to serve; without any success, it serves all others too."""
        self._warn(error)
        if self._runs == 0 and self._pytorch_runs + 1 >= FAILURES:
            self._reason = error

    def _warn(self, reason: str) -> None:
        if not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"autotune: PyTorch runs a subgraph of {self._operators} operators: {reason}",
                stacklevel=3,
            )


class _FrozenNetwork:
    """A network for one set of weights, and how to tell that the weights are still the same."""

    def __init__(
        self,
        module: FrozenModule,
        args: Sequence[Any],
        weights: Sequence[torch.Tensor],
        settings: Settings,
    ) -> None:
        self._weights = tuple(weights)  # held, so that no other tensor gets their identities
        self._marks = list(map(_mark, weights))
        self._positions = module.inputs
        with torch.inference_mode(False), torch.no_grad(), torch._guards.tracing(None):
            program = export_program(
                module.bound(args), module.examples(args), dynamic_shapes=module.dynamic_shapes
            )
            self._network = ExportedNetwork(program, settings)

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        return self._network([args[at] for at in self._positions])

    @property
    def is_current(self) -> bool:
        """True unless a weight was written to."""
        return list(map(_mark, self._weights)) == self._marks


def live_subgraphs() -> tuple[Subgraph, ...]:
    """Return the subgraphs that PyTorch's compiler still holds, in no order."""
    return tuple(_SUBGRAPHS)


_SUBGRAPHS: weakref.WeakSet[Subgraph] = weakref.WeakSet()


def _mark(weight: torch.Tensor) -> tuple[int, int]:
    """Return PyTorch's count of writes to a tensor, and the address of its numbers."""
    return weight._version, weight.data_ptr()


def _check_inference(examples: Sequence[Any]) -> None:
    """Raise ``ModelError`` if gradients are recorded, or for a tensor that no session takes."""
    tensors = [x for x in examples if isinstance(x, torch.Tensor)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise ModelError("gradients are recorded; call the module under torch.inference_mode()")
    for at, tensor in enumerate(tensors):
        if isinstance(tensor, torch._subclasses.FakeTensor):
            raise ModelError("it is traced without values")
        check_tensor(f"input {at}", tensor)


def _check_counted(weights: Sequence[torch.Tensor]) -> None:
    """Raise ``ModelError`` for weights whose writes PyTorch does not count."""
    if any(weight.is_inference() for weight in weights):
        raise ModelError(
            "its weights were made under torch.inference_mode(), where PyTorch counts no writes; make "
            "the module outside of it"
        )
