"""Memory of a program table: constants, the caller's tensors, and one arena for all intermediates.

Intermediates share the arena by their lifetimes. A session reports it; the native engine runs in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from autotune.runtime.execution.native_table import network_of
from autotune.runtime.execution.program_table import ProgramTable
from autotune.targets.native.running.executable import arena_of


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a plan takes besides its programs. ``arena_bytes`` holds all intermediates;
    ``bound_bytes`` is the largest sum of those that live at once, which no placement undercuts."""

    constant_bytes: int
    input_bytes: int
    output_bytes: int
    arena_bytes: int
    bound_bytes: int
    intermediate_bytes: int
    """What the intermediates would take side by side."""

    @cached_property
    def excess(self) -> float:
        """The arena over its bound, minus one; 0 where there are no intermediates."""
        return self.arena_bytes / self.bound_bytes - 1 if self.bound_bytes else 0.0


def memory_plan(table: ProgramTable) -> MemoryPlan:
    """Return the memory of a table: that of its executable, or of one it would get."""
    arena = arena_of(network_of(table)) if table.executable is None else table.executable.arena
    graph = table.graph
    return MemoryPlan(
        sum(array.nbytes for array in table.constants.values()),
        sum(graph.types[x].size_bytes for x in graph.inputs),
        sum(graph.types[x].size_bytes for x in graph.outputs),
        arena.size_bytes,
        arena.bound_bytes,
        arena.tensor_bytes,
    )
