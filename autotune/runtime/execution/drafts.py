"""Drafts of many plans of one graph: what the plans share is lowered, verified and bound once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.runtime.execution.concat_aliasing import Made
from autotune.runtime.execution.native_table import Draft, WholeNetworks, draft_of, network_of
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.targets.native.linking.linking import Linkable
from autotune.targets.native.running.executable import Network
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice

_PROGRAM_BYTES = 1 << 40
"""Programs that are kept: all, as they are known by identity."""


Bind = Callable[[Sequence[Program]], tuple[Linkable, ...]]
"""Verifies and binds programs. Raises ``AutotuneError`` for one that is illegal."""


class Drafts:
    """Makes drafts of one graph's plans. Not safe to use from several threads."""

    def __init__(
        self, graph: Graph, target: WholeNetworks, spec: HardwareSpec, bind: Bind | None = None
    ) -> None:
        """``bind`` binds programs; None means the target's own way, one by one."""
        self._graph, self._target, self._spec = graph, target, spec
        self._bind = bind
        self._cache = ProgramCache(_PROGRAM_BYTES)
        self._made: Made = {}
        self._programs: dict[int, Linkable] = {}

    def draft(self, plan: Sequence[Choice]) -> Draft:
        """Return a plan with bound programs. Raises ``AutotuneError`` where it cannot be built."""
        table = compile_table(self._graph, plan, self._spec, self._cache)
        network = network_of(table, self._made)
        return draft_of(table, network, self._bound(network))

    def _bound(self, network: Network) -> tuple[Linkable, ...]:
        """Bind the programs of a network that no plan before had."""
        parts = {id(part.program): part for part in network.parts}
        new = [part for key, part in parts.items() if key not in self._programs]
        if self._bind is None:
            made = self._target.linkables(replace(network, parts=tuple(new)))
        else:
            made = self._bind([part.program for part in new])
        self._programs |= {id(p.program): one for p, one in zip(new, made, strict=True)}
        return tuple(self._programs[id(part.program)] for part in network.parts)
