"""A network as a tree of graphs: steps in running order, whose bodies are models of their own.

A straight network is a tree of one piece. Control flow that import cannot fold splits a network:
each piece and each body is imported, fused, tuned and run by itself. A body captures outer tensors
as further inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from autotune.frontend.control.loop_slices import LoopSlices
from autotune.frontend.node import AnyArray, Node
from autotune.frontend.source_model import SourceModel
from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note


@dataclass(frozen=True, slots=True)
class GraphPiece:
    """A straight piece whose shapes are known, ready to be planned."""

    label: str
    graph: Graph


@dataclass(frozen=True, slots=True)
class Piece:
    """A straight piece between two control steps; only a run knows its shapes."""

    label: str
    model: SourceModel


@dataclass(frozen=True, slots=True)
class Branch:
    """An If: the tensor ``condition`` chooses the body that makes ``outputs``."""

    label: str
    condition: str
    then: SourceModel
    otherwise: SourceModel
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A Loop: ``trips`` and ``condition`` name tensors or are empty; ``carried`` names the first
    values of the loop state.

    The body's first ``2 + len(carried)`` inputs are the trip's number, the condition and the state;
    the others are captured. ``slices`` makes some of these from values of the trip.
    """

    label: str
    trips: str
    condition: str
    carried: tuple[str, ...]
    body: SourceModel
    outputs: tuple[str, ...]
    slices: LoopSlices | None = None


@dataclass(frozen=True, slots=True)
class ScanAxis:
    """The axis along which a Scan slices an input or stacks an output, and its direction."""

    axis: int
    backwards: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """A Scan over slices of the tensors ``scanned``, along the axes ``sliced``.

    The body's first inputs are the state ``carried`` and a slice of each scanned tensor; its further
    outputs are joined along the axes ``stacked``.
    """

    label: str
    carried: tuple[str, ...]
    scanned: tuple[str, ...]
    sliced: tuple[ScanAxis, ...]
    stacked: tuple[ScanAxis, ...]
    body: SourceModel
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """An operator on sequences or optionals: moves tensors and computes nothing."""

    label: str
    node: Node


@dataclass(frozen=True, slots=True)
class Host:
    """An operator on integers or booleans that numpy computes, exactly over its type."""

    label: str
    node: Node


Step = GraphPiece | Piece | Branch | Loop | Scan | Move | Host


@dataclass(frozen=True, slots=True)
class GraphTree:
    """A network at known shapes of its inputs: steps in running order and the outputs they leave.

    ``constants`` are tensors by name that steps other than pieces read, or that are outputs;
    ``notes`` tell which control flow was folded.
    """

    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, AnyArray]
    notes: tuple[Note, ...] = ()

    @property
    def is_straight(self) -> bool:
        """True if the network is at most one graph."""
        return all(isinstance(step, GraphPiece) for step in self.steps)

    @property
    def has_host(self) -> bool:
        """True if numpy computes some of its integers."""
        return any(isinstance(step, Host) for step in self.steps)

    @property
    def graph(self) -> Graph | None:
        """The graph of a straight network; None if all outputs are constants."""
        return next((step.graph for step in self.steps if isinstance(step, GraphPiece)), None)


def bodies_of(step: Step) -> Mapping[str, SourceModel]:
    """Return the open models of a step by label."""
    match step:
        case Piece():
            return {step.label: step.model}
        case Branch():
            return {f"{step.label} then": step.then, f"{step.label} else": step.otherwise}
        case Loop() | Scan():
            return {f"{step.label} body": step.body}
        case GraphPiece() | Move() | Host():
            return {}
        case _:
            assert_never(step)
