"""Finds the graphs of a network with control flow before it runs: all pieces, taken or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.errors import AutotuneError, InputError, ModelError
from autotune.frontend.control.tree import Branch, Host, Loop, Move, Piece, Scan, Step
from autotune.frontend.importing import open_network
from autotune.frontend.source_model import Declaration, SourceModel
from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note
from autotune.operators.tensor import TensorType
from autotune.runtime.execution.random_inputs import draw_array
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.execution.values import Value
from autotune.runtime.session.control.tree_runner import Environment, TreeRunner, truth
from autotune.runtime.session.control.version_table import Version
from autotune.runtime.session.control.versions import GraphVersion, Versions

Draw = Callable[[TensorType], Any]
"""An array of a type."""


@dataclass(frozen=True, slots=True)
class ExploredNode:
    """A node of the tree: ``depth`` counts the bodies around it, ``kind`` is the ONNX operator of a
    control node, or nothing for a piece; ``graph`` is what a piece computes (None where it is known
    at import)."""

    label: str
    depth: int
    kind: str
    graph: Graph | None


@dataclass(frozen=True, slots=True)
class Exploration:
    """The parts of a network in running order, and what control flow was folded."""

    parts: tuple[ExploredNode, ...]
    notes: tuple[Note, ...]

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The distinct graphs that runs need, each once."""
        found = {part.graph.fingerprint: part.graph for part in self.parts if part.graph}
        return tuple(found.values())


def explore(model: SourceModel, name: str, inputs: Mapping[str, Value]) -> Exploration:
    """Run a model by the numpy reference, with both branches of every If and at least one trip of
    every loop. Shapes that depend on values are those of these ``inputs``.

    Raises ``InputError`` or ``ModelError`` as a run does.
    """
    versions = Versions(model, ReferenceSession, name, _Explorer)
    versions.run(inputs)
    notes: list[Note] = []
    parts = tuple(_parts(name, versions.held[-1], 0, notes))
    return Exploration(parts, tuple(notes))


def explored(path: Path, dims: Mapping[str, int], seed: int = 0) -> Exploration:
    """The parts of an ONNX file's network at seeded inputs. Raises ``ModelError`` or ``InputError``
    naming the file."""
    rng = np.random.default_rng(seed)
    model = open_network(path, dims)
    try:
        return explore(model, path.stem, drawn_inputs(model, lambda kind: draw_array(kind, rng)))
    except (ModelError, InputError) as error:
        raise type(error)(f"{path}: {error}") from None


def drawn_inputs(model: SourceModel, draw: Draw) -> dict[str, Any]:
    """Arrays for the run-time inputs as they are declared.

    Raises ``InputError`` for an input with an open dimension, or one that is no tensor.
    """
    return {value.name: draw(_type_of(value)) for value in model.inputs}


class _Explorer(TreeRunner):
    """Takes the other branch too, and one trip of a loop that has none."""

    def _branch(self, step: Branch, known: Environment) -> list[Value]:
        other = "else" if truth(step.label, known[step.condition]) else "then"
        with suppress(AutotuneError):  # what is not taken may not fit these values
            self._outputs(f"{step.label} {other}", (), known)
        return super()._branch(step, known)

    def _loop(self, step: Loop, known: Environment) -> list[Value]:
        made = super()._loop(step, known)
        if not self.models[f"{step.label} body"].held:  # it had no trip
            with suppress(AutotuneError):
                self._trip(step, 0, True, [known[x] for x in step.carried], known)
        return made


def _parts(label: str, version: Version, depth: int, notes: list[Note]) -> Iterator[ExploredNode]:
    notes += version.notes
    if isinstance(version, GraphVersion):
        yield ExploredNode(
            label, depth, "", None if version.programs is None else version.programs.graph
        )
    if not isinstance(version, TreeRunner):
        return
    for step in version.tree.steps:
        if not isinstance(step, Piece):
            yield ExploredNode(step.label, depth, _kind(step), None)
        inside = depth if isinstance(step, Piece) else depth + 1
        for inner in version.labels(step):
            held = version.models[inner].held
            if not held:
                yield ExploredNode(inner, inside, "not reached", None)
            for one in held[-1:]:
                yield from _parts(inner, one, inside, notes)


def _kind(step: Step) -> str:
    match step:
        case Branch():
            return "If"
        case Loop():
            return "Loop"
        case Scan():
            return "Scan"
        case Move() | Host():
            return step.node.operator
        case _:
            return ""


def _type_of(value: Declaration) -> TensorType:
    if not value.is_tensor:
        raise InputError(
            f"input {value.name!r} is no tensor; give the values of all inputs with --inputs"
        )
    for axis, symbol in value.open_axes.items():
        raise InputError(
            f"input {value.name!r} has the dynamic dimension {symbol!r} (axis {axis}); bind it with "
            f"--dim {symbol}=1, or give arrays with --inputs"
        )
    if value.dtype is None:
        raise InputError(
            f"input {value.name!r} is of type {value.element}; give arrays with --inputs"
        )
    shape = tuple(extent for extent in value.shape or () if isinstance(extent, int))
    return TensorType(shape, value.dtype)
