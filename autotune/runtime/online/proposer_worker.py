"""The proposer's process: takes a graph once, then occasions, and answers each with a version.

``proposer_process`` starts it as a fresh interpreter with one end of a socket. It ends with its parent.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.errors import AutotuneError
from autotune.graph.graph import Graph
from autotune.measure.worker import end_with_parent
from autotune.operators.interval import Interval
from autotune.operators.op import Op
from autotune.operators.tensor import Array, TensorType
from autotune.runtime.execution.native_table import Draft
from autotune.runtime.online.draft_transfer import DraftSender, SentDraft
from autotune.runtime.online.proposer import LocalProposer, Occasion, Version
from autotune.runtime.online.thread_priority import run_when_idle
from autotune.runtime.variants.edits import Edit
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class Opening:
    """First message: the graph but for its constants, which follow by ``arrays``, and the machine."""

    name: str
    ops: tuple[Op, ...]
    types: Mapping[str, TensorType]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[str, ...]
    spec: HardwareSpec
    ranges: Mapping[str, Interval]
    seed: int
    model: bytes | None

    def graph(self, constants: Mapping[str, Array]) -> Graph:
        """Return the graph."""
        return Graph(self.name, self.ops, self.types, self.inputs, self.outputs, constants)


@dataclass(frozen=True, slots=True)
class Asked:
    """A further message: an occasion whose inputs follow by ``arrays``, so many of each name."""

    occasion: Occasion
    names: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Answered:
    """A version of the answer to ``Asked``, with its draft as it travels."""

    edits: tuple[Edit, ...]
    refused: tuple[Edit, ...]
    draft: SentDraft


@dataclass(frozen=True, slots=True)
class Broken:
    """Answer to ``Asked`` where the plan in use cannot be built; ``reason`` is one line."""

    reason: str


def send_array(line: Connection, array: Array) -> None:
    """Send an array; other threads run meanwhile."""
    dense = np.ascontiguousarray(array)
    line.send((dense.dtype.str, array.shape))
    if dense.nbytes:
        line.send_bytes(memoryview(dense.data).cast("B"))


def receive_array(line: Connection) -> Array:
    """Receive what ``send_array`` sent."""
    kind, shape = line.recv()
    made: Array = np.empty(shape, kind)
    if made.nbytes:
        line.recv_bytes_into(memoryview(made.data).cast("B"))
    return made


def serve(descriptor: int) -> None:
    """Answer occasions that come over the socket until the other end hangs up."""
    run_when_idle()
    threading.Thread(target=end_with_parent, args=(descriptor,), daemon=True).start()
    with Connection(descriptor) as line:
        try:
            opening: Opening = line.recv()
            graph = opening.graph({name: receive_array(line) for name in opening.constants})
            target = NativeTarget(opening.spec)
            spec, blob = opening.spec, opening.model
            model = None if blob is None else CostModel.from_bytes(blob, spec)
            proposer = LocalProposer(graph, target, spec, opening.ranges, opening.seed, model)
            sender = DraftSender()
            while True:
                line.send(_answer(proposer, sender, _occasion(line)))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            os._exit(0)  # the parent ended, or does not want answers any more


def _occasion(line: Connection) -> Occasion:
    asked: Asked = line.recv()
    inputs = [{x: receive_array(line) for x in asked.names} for _ in range(asked.count)]
    return replace(asked.occasion, inputs=inputs)


def _answer(
    proposer: LocalProposer, sender: DraftSender, occasion: Occasion
) -> tuple[Answered, ...] | Broken:
    try:
        versions = proposer.propose(occasion)
    except AutotuneError as error:
        return Broken(str(error))
    return tuple(Answered(one.edits, one.refused, sender.send(_native(one))) for one in versions)


def _native(version: Version) -> Draft:
    assert isinstance(version.draft, Draft), "the target runs whole networks"
    return version.draft
