"""A whole plan as one native call: programs linked together, tensors in one arena, no copies.

The session makes one of each program table that it publishes, and runs it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autotune.isa.formats import Format
from autotune.isa.program import Program, Role
from autotune.kernels.native.executor import (
    NOWHERE,
    Call,
    Plan,
    RunMemory,
    ThreadPool,
    addresses,
)
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.linking.linking import Linkable, Linker, Packing, linked
from autotune.targets.native.running.arena import ALIGNMENT_BYTES, Arena, Lifetime, placed
from autotune.targets.native.running.outputs import OutputMemory
from autotune.targets.native.running.run_memory import OneBlock, memory_of
from autotune.targets.protocol import Array

if TYPE_CHECKING:
    from autotune.targets.native.linking.step_kinds import StepKind

Floats = npt.NDArray[np.float32]
ARENA = 0
"""Number of the arena's pointer; those of inputs follow, then those of outputs."""
_IN_PLACE_OF_MEMORY = np.zeros(1, np.float32)


@dataclass(frozen=True, slots=True)
class Part:
    """One program of a plan; ``names`` maps its tensors' names to the network's."""

    program: Program
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AliasedSlice:
    """A tensor that lies in the tensor ``owner`` from element ``first`` on, with the strides of its
    ``shape``."""

    owner: str
    first: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """What a plan computes: parts in order; ``views`` maps a tensor to the one whose memory it
    shares, ``windows`` to the one that it is a part of; ``shapes`` are of inputs and outputs;
    constants lie in memory as they may. ``formats`` are those of tensors that are not stored as fp32."""

    parts: tuple[Part, ...]
    views: Mapping[str, str]
    constants: Mapping[str, Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    windows: Mapping[str, AliasedSlice] = field(default_factory=dict)
    formats: Mapping[str, Format] = field(default_factory=dict)

    def format(self, name: str) -> Format:
        """The format that a tensor is stored in."""
        return self.formats.get(name, Format.FP32)

    def root(self, name: str) -> str:
        """The tensor that owns the memory of another one."""
        while name in self.views:
            name = self.views[name]
        return self.windows[name].owner if name in self.windows else name

    def first(self, name: str) -> int:
        """The byte of its root's memory that a tensor begins at."""
        size = self.format(name).bytes
        return size * self.windows[name].first if name in self.windows else 0


class Workshop:
    """What the executables of one network's plans share: linked programs, packed constants, memory of the arena.

    A search that tries many plans makes each executable in milliseconds by it, and all of them run in the same
    memory. They may run from several threads, but are made by one.
    """

    def __init__(self, compiler: Compiler | None) -> None:
        self.linker = Linker(compiler)
        self._elements = 0
        self._memory: RunMemory | OneBlock | None = None

    @property
    def block_bytes(self) -> int:
        """Bytes of an arena in the memory that it gave last."""
        return 4 * (self._elements - ALIGNMENT_BYTES)

    def memory(self, elements: int, runs: int) -> RunMemory | OneBlock:
        """Return memory of so many floats for each of as many ``runs`` at once, the same as before while it suffices."""
        if self._memory is None or self._elements < elements:
            self._elements, self._memory = elements, memory_of(elements, runs)
        return self._memory


class Executable:
    """A network ready to run on a pool's threads; safe to use from several threads at once.

    ``programs`` are its parts', bound (``loader.linkable``). ``arena`` says where intermediates lie. As many runs go on at once
    as cores have room for (``ThreadPool.lanes``), each in memory of its own; others wait. A ``workshop`` is shared with other
    executables of the network; without one, the constants may be in ``packing`` already.
    """

    def __init__(
        self,
        network: Network,
        programs: Sequence[Linkable],
        pool: ThreadPool,
        compiler: Compiler | None,
        workshop: Workshop | None = None,
        packing: Packing | None = None,
    ) -> None:
        self._network = network
        self._direct = _direct_outputs(network)
        self.arena, self._pointers = _places(network, self._direct)
        constants = constants_of(network)
        if workshop is None:
            loaded = linked(programs, constants, compiler, packing=packing)
        else:
            loaded = workshop.linker.linked(programs, constants)
        self._clocks = tuple(one.clocks for one in loaded)
        self._dense: dict[tuple[str, Format], Array] = {}
        bases = [
            (one.streams, one.renumbered(self._table(part, program.read_in_place)))
            for one, program, part in zip(loaded, programs, network.parts, strict=True)
        ]
        runs = 1 if any(self._clocks) else pool.lanes  # clocks are those of one run
        self._plan = Plan(bases, pool, (loaded, self._dense), many=runs > 1)
        elements = self.arena.size_bytes // 4 + ALIGNMENT_BYTES
        make = memory_of if workshop is None else workshop.memory
        self._memory = make(elements, runs)
        self._block_bytes = self.arena.size_bytes if workshop is None else workshop.block_bytes
        self._inputs = network.inputs
        self._made = [
            (x, OutputMemory(network.shapes[x], ARRAY_TYPES[network.format(x)]))
            for x in self._direct
        ]
        narrow = {x: ARRAY_TYPES[network.format(x)] for x in network.inputs if x in network.formats}
        self._narrow = narrow
        self._only_made = tuple(network.outputs) == self._direct
        self.part_count = len(network.parts)
        self.call = self._whole_call()
        """Runs the network on a user's dict of inputs, and gives outputs and the nanoseconds of each part. It declines inputs that
        need conversion. None where tensors are stored narrow, or where an output is a view."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory for intermediates: a block for each run that has gone on at once with others. Plans that share a
        workshop share blocks, which hold the largest arena so far."""
        return self._block_bytes * self._memory.made

    def _whole_call(self) -> Call | None:
        network = self._network
        stored = {network.format(x) for x in (*network.inputs, *network.outputs)}
        if not self._only_made or stored - {Format.FP32}:
            return None
        inputs = [(x, network.shapes[x]) for x in network.inputs]
        outputs = [(x, network.shapes[x], memory.maker) for x, memory in self._made]
        return Call(self._plan, self._memory, inputs, outputs)

    def _table(self, part: Part, read: Container[int]) -> list[tuple[int, int]]:
        """Pointer and byte of every tensor of a part; of constants, those that are ``read``."""
        found = []
        for number, tensor in enumerate(part.program.tensors):
            name = part.names[tensor.name]
            root = self._network.root(name)
            if root not in self._network.constants:
                pointer, place = self._pointers[root]
                found.append((pointer, place + self._network.first(name)))
            else:
                is_read = number in read
                found.append((NOWHERE, self._constant(root, tensor.format) if is_read else 0))
        return found

    def _constant(self, root: str, format: Format) -> int:
        """The address of a constant in a format, made dense where it is not."""
        key = root, format
        if key not in self._dense:
            value = self._network.constants[root]
            self._dense[key] = np.require(value, ARRAY_TYPES[format], ["C", "A"])
        return self._dense[key].ctypes.data

    def run(
        self,
        inputs: Mapping[str, Floats],
        nanoseconds: npt.NDArray[np.int64] | None = None,
        own_time: bool = False,
    ) -> dict[str, Floats]:
        """Run once: C-contiguous float32 arrays of the inputs' shapes by name to outputs by name,
        none of which shares memory with what was given. ``nanoseconds`` gets the time of each part,
        by the clock or, on one thread, the thread's ``own_time`` (``Plan.run``).
        """
        made: dict[str, Floats] = {}
        if self._narrow:
            inputs = self._stored(inputs)
        arrays = [_IN_PLACE_OF_MEMORY]  # loops, as a comprehension is a call: 0.2 µs
        for x in self._inputs:
            arrays.append(inputs[x])
        for x, memory in self._made:
            made[x] = array = memory.array()
            arrays.append(array)
        self._plan.run(addresses(arrays), None, nanoseconds, own_time, self._memory)
        if self._only_made:
            return made
        outputs = self._network.outputs
        return {x: made[x] if x in made else self._copied(x, inputs, made) for x in outputs}

    def _stored(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The inputs in the formats that programs find them in."""
        narrow = {x: inputs[x].astype(form, copy=False) for x, form in self._narrow.items()}
        return {**inputs, **narrow}

    @property
    def threads(self) -> int:
        """Threads that a run uses: no more than a part can be cut for."""
        return int(self._plan.threads)

    def kind_nanoseconds(self, inputs: Mapping[str, Floats]) -> tuple[Mapping[StepKind, int], ...]:
        """Run once and say what the calls of each part took, by kind, on all threads together."""
        from autotune.targets.native.linking.step_clock import spent  # to profile, not to run

        for clock in itertools.chain(*self._clocks):
            clock.ledger[:] = 0
        self.run(inputs)
        return tuple(spent(clocks) for clocks in self._clocks)

    def _copied(
        self, name: str, inputs: Mapping[str, Floats], made: Mapping[str, Floats]
    ) -> Floats:
        """An output that is a view of an input, of a constant or of another output."""
        root = self._network.root(name)
        owners = {self._network.root(x): array for x, array in made.items()}
        sources = {**self._network.constants, **inputs, **owners}
        form = ARRAY_TYPES[self._network.format(name)]
        return np.array(sources[root], form).reshape(self._network.shapes[name])


def _direct_outputs(network: Network) -> tuple[str, ...]:
    """The outputs that parts write straight into the caller's arrays: one for each tensor."""
    written = {name for part in network.parts for name in _written(part)}
    first: dict[str, str] = {}
    for name in network.outputs:
        root = network.root(name)
        if root in written:
            first.setdefault(root, name)
    return tuple(first.values())


def _written(part: Part) -> list[str]:
    return [part.names[t.name] for t in part.program.tensors if t.role is Role.OUTPUT]


def arena_of(network: Network) -> Arena:
    """Where a network's intermediates lie."""
    return _places(network, _direct_outputs(network))[0]


@functools.lru_cache(maxsize=16)  # plans that differ in schedules alone have equal tensors
def _placed(tensors: tuple[Lifetime, ...]) -> Arena:
    return placed(tensors)


def _places(network: Network, direct: Sequence[str]) -> tuple[Arena, dict[str, tuple[int, int]]]:
    """Pointer number and byte of every tensor that is no constant."""
    outside = [*network.inputs, *(network.root(x) for x in direct)]
    pointers = {name: (1 + i, 0) for i, name in enumerate(outside)}
    sizes: dict[str, int] = {}
    steps: dict[str, list[int]] = {}
    for step, part in enumerate(network.parts):
        for tensor in part.program.tensors:
            root = network.root(part.names[tensor.name])
            if root in pointers or root in network.constants:
                continue
            size = tensor.format.bytes * int(np.prod(tensor.shape))
            sizes[root] = max(sizes.get(root, 0), size)
            steps.setdefault(root, []).append(step)
    names = list(sizes)
    arena = _placed(tuple(Lifetime(sizes[x], min(steps[x]), max(steps[x])) for x in names))
    pointers |= {x: (ARENA, offset) for x, offset in zip(names, arena.offsets, strict=True)}
    return arena, pointers


def constants_of(network: Network) -> list[dict[str, Array]]:
    """Return the constants of each part by their names in its program."""
    return [
        {
            t.name: network.constants[network.root(part.names[t.name])].reshape(t.shape)
            for t in part.program.tensors
            if t.role is Role.CONSTANT
        }
        for part in network.parts
    ]
