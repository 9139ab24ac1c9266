"""Versions: a model specialised for the shapes, and the deciding values, that it is run with.

A version is programs for one graph, or a tree of control flow whose pieces have versions in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from autotune.errors import ExactnessError
from autotune.frontend.control.tree import GraphTree
from autotune.frontend.importing import host_tree, specialise
from autotune.frontend.node import BOUND_ELEMENTS, RunTimeValue
from autotune.frontend.source_model import SourceModel
from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note
from autotune.runtime.execution.ownership import read_only
from autotune.runtime.execution.values import AnyArray, Value, Values
from autotune.runtime.session.control.binding import (
    check_values,
    placeholder,
    signature,
)
from autotune.runtime.session.control.key_locks import KeyLocks
from autotune.runtime.session.control.version_table import Entry, Version, VersionTable

Key = tuple[Any, ...]


class Runnable(Protocol):
    """What a version runs: programs of one graph."""

    @property
    def graph(self) -> Graph:
        """The network as it is run."""
        ...

    def run(self, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """Outputs by name."""
        ...

    def close(self) -> None:
        """Give back what it holds; it is not run again."""
        ...


OpenGraph = Callable[[Graph], Runnable]
"""Makes programs of an imported graph."""
OpenTree = Callable[[GraphTree, OpenGraph, str], Version]
"""Makes a version of a tree of control flow, with the name of the network."""


@dataclass(frozen=True, slots=True)
class GraphVersion:
    """A version that is one graph (None where nothing depends on run-time data), and the outputs
    that are known at import, read-only."""

    programs: Runnable | None
    known: Mapping[str, AnyArray]
    notes: tuple[Note, ...] = ()

    def run(self, inputs: Values) -> dict[str, Value]:
        """Return outputs by name; bound inputs are ignored."""
        if self.programs is None:
            return dict(self.known)
        made = self.programs.run({x: inputs[x] for x in self.programs.graph.inputs})
        return {**self.known, **made} if self.known else made

    def close(self) -> None:
        """Close its programs."""
        if self.programs is not None:
            self.programs.close()


class Versions:
    """Runs a model whose shapes come with its inputs.

    A shape that was not seen yet is checked against the model's declared inputs, imported and handed
    to ``open_graph``; inputs whose values decide shapes are bound to the values that they have.
    ``open_tree`` makes the version that runs control flow. Threads with one shape make one version;
    threads with other shapes do not wait for it.
    """

    def __init__(
        self,
        model: SourceModel,
        open_graph: OpenGraph,
        name: str,
        open_tree: OpenTree,
    ) -> None:
        self.name = name
        self.model = model
        self._declared = {value.name: value for value in model.inputs}
        self._open_graph = open_graph
        self._open_tree = open_tree
        self._bound: tuple[str, ...] = ()
        self._on_host = False
        self._table = VersionTable(name)
        self._making = KeyLocks()
        self._hosting = threading.Lock()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the run-time inputs."""
        return tuple(self._declared)

    @property
    def held(self) -> tuple[Version, ...]:
        """Existing versions, the most recently used last."""
        return self._table.held

    def run(self, inputs: Values) -> dict[str, Value]:
        """Run the version for these inputs; return outputs by name.

        Safe from several threads: runs of existing versions never wait for a new one. Raises
        ``InputError`` for arrays that contradict the model or each other, ``ModelError`` for a model that
        cannot be imported at their shapes.
        """
        entry = self._begun(inputs)
        try:
            return entry.version.run(inputs)
        except ExactnessError:
            if not isinstance(entry.version, GraphVersion) or not self._hosts(inputs):
                raise
        finally:
            self._table.leave(entry)
        return self.run(inputs)

    def _hosts(self, inputs: Values) -> bool:
        """Have numpy compute integers from now on, in this version and in new ones; return False if
        the model has none that it may compute."""
        with self._hosting:
            current = self._begun(inputs)
            self._table.leave(current)
            if not isinstance(current.version, GraphVersion):  # another thread was here meanwhile
                return True
            tree = host_tree(self.model, inputs)
            if tree is None:
                return False
            self._on_host = True
            self._table.leave(self._keep(inputs, self._version_of(tree)))
            return True

    def version(self, inputs: Values) -> Version:
        """Return the version for these inputs; make it if there is none."""
        entry = self._begun(inputs)
        self._table.leave(entry)
        return entry.version

    def peek(self, inputs: Values) -> Version | None:
        """Return the version for these inputs if there is one."""
        return self._table.peek(self._key(inputs))

    def give_up(self, is_it: Callable[[Version], bool]) -> bool:
        """Evict the version that ``is_it`` says, and close it when it has run; return False if there is none."""
        return self._table.give_up(is_it)

    def close(self) -> None:
        """Close all versions; those that are running, when they have run. Closing again does nothing.

        Raises what closing one of them raised, now or when it was evicted, after all are closed.
        """
        self._table.close()

    def _begun(self, inputs: Values) -> Entry:
        """The entry for these inputs, with one more user. Raises ``AutotuneError`` once closed."""
        entry = self._table.find(self._key(inputs))
        if entry is not None:
            return entry
        with self._making.of(self._key(inputs)):
            entry = self._table.find(self._key(inputs))  # another thread may have made it meanwhile
            return self._made(inputs) if entry is None else entry

    def _made(self, inputs: Values) -> Entry:
        """A new entry for these inputs, with one user."""
        check_values(self.name, self._declared, inputs)
        while True:
            try:
                return self._keep(inputs, self._specialised(inputs))
            except RunTimeValue as need:
                self._bound = self._bindable(need, inputs)

    def prepare(self) -> None:
        """Import for the declared inputs, where no extent is open, so that whatever can be refused
        is refused now; what needs values waits for a run. Raises ``ModelError``."""
        declared = self._declared.values()
        if not all(value.is_tensor and not value.open_axes for value in declared):
            return
        inputs = {value.name: placeholder(value) for value in declared}
        try:
            self._table.leave(self._keep(inputs, self._specialised(inputs)))
        except RunTimeValue as need:
            self._bound = self._bindable(need, inputs)

    def _keep(self, inputs: Values, version: Version) -> Entry:
        return self._table.keep(self._key(inputs), version)

    def _specialised(self, inputs: Values) -> Version:
        return self._version_of(
            specialise(self.model, self.name, inputs, self._bound, self._on_host)
        )

    def _version_of(self, tree: GraphTree) -> Version:
        if tree.is_straight:
            known = {x: read_only(y) for x, y in tree.constants.items()}
            graph = tree.graph
            return GraphVersion(
                None if graph is None else self._open_graph(graph), known, tree.notes
            )
        self._on_host = self._on_host or tree.has_host
        return self._open_tree(tree, self._open_graph, self.name)

    def _key(self, inputs: Values) -> Key:
        """Return the key of a version; misnamed inputs have a key that is never in the table."""
        if inputs.keys() != self._declared.keys():
            return (None,)
        shapes = tuple([signature(inputs[x]) for x in self._declared])
        if not self._bound:
            return shapes
        return (*shapes, *[inputs[x].tobytes() for x in self._bound])

    def _bindable(self, need: RunTimeValue, inputs: Values) -> tuple[str, ...]:
        """The inputs bound so far and those that the import asks for.

        Raises the request itself where one of them is data.
        """
        more = tuple(x for x in need.inputs if x not in self._bound)
        if not more or any(np.size(inputs[x]) > BOUND_ELEMENTS for x in more):
            raise need
        return (*self._bound, *more)
