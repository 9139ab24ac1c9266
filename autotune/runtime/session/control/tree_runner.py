"""Runs a tree of control flow: its pieces as programs, branches and loops as their values decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, assert_never

import numpy as np
from numpy.exceptions import AxisError

from autotune.errors import InputError, ModelError
from autotune.frontend.control.host_integers import compute_on_host
from autotune.frontend.control.tree import (
    Branch,
    GraphPiece,
    GraphTree,
    Host,
    Loop,
    Move,
    Piece,
    Scan,
    ScanAxis,
    Step,
    bodies_of,
)
from autotune.frontend.sequences import move
from autotune.frontend.source_model import Declaration
from autotune.operators.tensor import EXACT_LIMIT
from autotune.runtime.execution.ownership import read_only
from autotune.runtime.execution.values import Value
from autotune.runtime.session.control.versions import OpenGraph, Versions

Environment = dict[str, Value]


class TreeRunner:
    """A model with control flow, at given shapes of its inputs.

    Pieces and bodies have versions of their own, made when they first run: a body whose carried
    shapes change from one iteration to the next is specialised again for each of them.
    """

    def __init__(self, tree: GraphTree, open_graph: OpenGraph, name: str) -> None:
        self.name = name
        self.notes = tree.notes
        self.tree = tree
        self._constants = {x: read_only(value) for x, value in tree.constants.items()}
        inner = [(x, body) for step in tree.steps for x, body in bodies_of(step).items()]
        self.models: dict[str, Versions] = {
            label: Versions(body, open_graph, f"{name}/{label}", type(self))
            for label, body in inner
        }
        assert len(self.models) == len(inner), "no two steps have one label"

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Outputs by name."""
        known: Environment = {**self._constants, **inputs}
        for step in self.tree.steps:
            self._step(step, known)
        return {name: known[name] for name in self.tree.outputs}

    def labels(self, step: Step) -> tuple[str, ...]:
        """The pieces and bodies of a step, by which ``models`` has them."""
        return tuple(bodies_of(step))

    def close(self) -> None:
        """Close the versions of all pieces, whatever one of them raises."""
        with ExitStack() as closing:
            for model in self.models.values():
                closing.callback(model.close)

    def _step(self, step: Step, known: Environment) -> None:
        match step:
            case Piece():
                known |= self._call(step.label, (), known)
            case Branch():
                _give(step.outputs, self._branch(step, known), known)
            case Loop():
                _give(step.outputs, self._loop(step, known), known)
            case Scan():
                try:
                    made = self._scan(step, known)
                except AxisError as error:
                    raise InputError(
                        f"{self.name}: {step.label}: {error}; check its axes"
                    ) from None
                _give(step.outputs, made, known)
            case Move():
                try:
                    made = move(
                        step.node.operator,
                        step.node.attrs,
                        [known[x] if x else None for x in step.node.inputs],
                    )
                except InputError as error:
                    raise InputError(f"{self.name}: {step.label}: {error}") from None
                _give(step.node.outputs, [made], known)
            case Host():
                try:
                    known |= compute_on_host(step.node, known)
                except ModelError as error:
                    raise InputError(f"{self.name}: {error}") from None
            case GraphPiece():
                raise AssertionError("only a straight tree has one")
            case _:
                assert_never(step)

    def _call(self, label: str, given: Sequence[Value], known: Environment) -> dict[str, Value]:
        """Run a piece or a body: its first inputs are given, the others captured."""
        model = self.models[label]
        own = dict(zip(model.inputs, given, strict=False))
        own |= {x: known[x] for x in model.inputs[len(given) :]}
        return model.run(own)

    def _outputs(self, label: str, given: Sequence[Value], known: Environment) -> list[Value]:
        """The outputs of a body in its order."""
        made = self._call(label, given, known)
        return [made[value.name] for value in self.models[label].model.outputs]

    def _branch(self, step: Branch, known: Environment) -> list[Value]:
        taken = truth(step.label, known[step.condition])
        return self._outputs(f"{step.label} {'then' if taken else 'else'}", (), known)

    def _loop(self, step: Loop, known: Environment) -> list[Value]:
        limit = None if not step.trips else _trip_count(step.label, known[step.trips])
        condition = not step.condition or truth(step.label, known[step.condition])
        carried = [known[x] for x in step.carried]
        slices: list[list[Value]] = []
        trip = 0
        while condition and (limit is None or trip < limit):
            made = self._trip(step, trip, condition, carried, known)
            condition = truth(step.label, made[0])
            carried = made[1 : 1 + len(carried)]
            slices.append(made[1 + len(carried) :])
            trip += 1
            if trip > EXACT_LIMIT:
                raise InputError(
                    f"{self.name}: {step.label}: still runs after {EXACT_LIMIT} iterations, beyond "
                    "which their number is not exact; give the loop a trip count or a condition"
                )
        if trip == 0:
            return [*carried, *self._no_rows(step, carried, known)]
        return [*carried, *_stacked(slices)]

    def _no_rows(self, step: Loop, carried: list[Value], known: Environment) -> list[Value]:
        """Scan outputs of a loop that never ran: of the shapes that the body declares, or of those
        that an iteration on the first values would make (which is run: a body has no effects)."""
        declared = [_declared_rows(v) for v in step.body.outputs[1 + len(carried) :]]
        if all(rows is not None for rows in declared):
            return declared
        rows = self._trip(step, 0, True, carried, known)[1 + len(carried) :]
        return [np.empty((0, *row.shape), row.dtype) for row in rows]

    def _trip(
        self, step: Loop, trip: int, condition: bool, carried: list[Value], known: Environment
    ) -> list[Value]:
        """What one iteration makes: the condition, what is carried on, and rows."""
        given = [np.asarray(trip, np.int64), np.asarray(condition), *carried]
        if step.slices is not None:
            own = (value.name for value in step.body.inputs)
            values = known | dict(zip(own, given, strict=False))
            known = known | step.slices.evaluate(f"{self.name}: {step.label}", values)
        return self._outputs(f"{step.label} body", given, known)

    def _scan(self, step: Scan, known: Environment) -> list[Value]:
        carried = [known[x] for x in step.carried]
        scanned = [
            np.moveaxis(known[x], axis.axis, 0)
            for x, axis in zip(step.scanned, step.sliced, strict=True)
        ]
        trips = {len(x) for x in scanned}
        if len(trips) != 1:
            raise InputError(
                f"{self.name}: {step.label}: scans {sorted(trips)} slices; feed equal extents"
            )
        slices: list[list[Value]] = []
        for trip in range(len(scanned[0])):
            pairs = zip(scanned, step.sliced, strict=True)
            rows = [np.asarray(x[-1 - trip if a.backwards else trip]) for x, a in pairs]
            made = self._outputs(f"{step.label} body", [*carried, *rows], known)
            carried = made[: len(carried)]
            slices.append(made[len(carried) :])
        if not slices:
            raise InputError(
                f"{self.name}: {step.label}: scans no slices, which makes nothing; feed at least one"
            )
        pairs_out = zip(_stacked(slices), step.stacked, strict=True)
        return [*carried, *(_laid(x, axis) for x, axis in pairs_out)]


def _give(names: Sequence[str], values: Sequence[Value], known: Environment) -> None:
    known |= {name: value for name, value in zip(names, values, strict=False) if name}


def truth(label: str, value: Any) -> bool:
    """Return the truth of a condition. Raises ``InputError`` for more than one value."""
    if np.size(value) != 1:
        raise InputError(
            f"{label}: its condition has {np.size(value)} values; it must be a single boolean"
        )
    return bool(np.reshape(value, ()))


def _trip_count(label: str, value: Any) -> int:
    if np.size(value) != 1:
        raise InputError(
            f"{label}: its trip count has {np.size(value)} values; it must be a single integer"
        )
    return int(np.reshape(value, ()))


def _stacked(slices: Sequence[Sequence[Value]]) -> list[Value]:
    """Scan outputs, joined along a new first axis. Raises ``InputError`` where shapes differ."""
    columns = list(zip(*slices, strict=True))
    for column in columns:
        shapes = {np.shape(row) for row in column}
        if len(shapes) > 1:
            raise InputError(
                f"a loop stacks rows of shapes {sorted(map(list, shapes))}; they have to be equal"
            )
    return [np.stack(column) for column in columns]


def _declared_rows(value: Declaration) -> Value:
    """Return no rows of a declared shape; None if that is open."""
    if value.shape is None or not all(isinstance(extent, int) for extent in value.shape):
        return None
    return np.empty((0, *value.shape), value.numpy_dtype)


def _laid(joined: Value, axis: ScanAxis) -> Value:
    rows = joined[::-1] if axis.backwards else joined
    return np.ascontiguousarray(np.moveaxis(rows, 0, axis.axis))
