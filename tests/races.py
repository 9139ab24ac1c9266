"""Happens-before check of a program's execution, in plain Python: the oracle of the race check.

Replays program order with one vector clock per unit and looks at every word of every access, one by
one. Elements come from the interpreter that numbers are tested by, so nothing is shared with C.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

import numpy as np

from autotune.isa.access import FORMAT_FIELDS, MATMUL_DIMENSIONS, STATE_WORDS
from autotune.isa.fields import CHAIN_STAGES, MAX_RANK
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.isa.functions import StageKind
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program, Role
from autotune.isa.table import INSTRUCTIONS, OPERANDS
from autotune.targets.emulator.races import SCRATCHPAD
from tests.oracle import Interpreter

UNITS = len(Unit)
SIDE_USERS = {
    "side0": (StageKind.WITH0, StageKind.FROM0),
    "side1": (StageKind.WITH1, StageKind.FROM1),
}
Place = tuple[int, int]
Found = tuple[str, str, Place, Place]
"""Kind, memory, (core, instruction) that came first, (core, instruction) that came second."""


class Word:
    """Who touched a word: the last write and each unit's last read of this core as (unit, stamp,
    place), and of any core the first write and read."""

    def __init__(self) -> None:
        self.write: tuple[int, int, Place] | None = None
        self.reads: dict[int, tuple[int, int, Place]] = {}
        self.firsts: dict[bool, Place] = {}


class RaceDetector(Interpreter):
    """Collects conflicts instead of numbers."""

    def __init__(self, program: Program, parameters: Mapping[int, int] | None = None) -> None:
        self.program = program
        self.parameters = parameters or {}
        self.words: dict[tuple[str, int], Word] = defaultdict(Word)
        self.found: set[Found] = set()

    def run(self) -> set[Found]:  # type: ignore[override]
        for core, (stream, credits) in enumerate(
            zip(self.program.streams, self.program.credits, strict=True)
        ):
            self.core = core
            self.index, self.count, self.trips = {}, {}, {}
            self.clock = np.zeros((UNITS, UNITS), np.int64)
            self.tokens: dict[int, deque] = defaultdict(deque)
            for semaphore, count in enumerate(credits):
                self.tokens[semaphore].extend([(np.zeros(UNITS, np.int64), 0)] * count)
            for word in self.words.values():
                word.write, word.reads = None, {}
            self.words = defaultdict(
                Word, {at: word for at, word in self.words.items() if at[0] != SCRATCHPAD}
            )
            self._block(stream, 0, len(stream))
        return self.found

    def _block(self, stream: tuple[Instruction, ...], start: int, end: int) -> None:
        pc = start
        while pc < end:
            i = stream[pc]
            if i.opcode is Opcode.LOOP:
                pc = self._loop(stream, pc)
            elif i.opcode is Opcode.CASE:
                pc = self._case(stream, pc)
            else:
                self.place = (self.core, pc)
                self._execute(i)
                pc += 1

    def _loop(self, stream: tuple[Instruction, ...], pc: int) -> int:
        end, level, trips = self._end(stream, pc), stream[pc].get("level"), stream[pc].get("trips")
        for trip in range(trips):
            self.trips[level] = trips
            self._trip(stream, pc, end, level, trip)
        return end

    def _case(self, stream: tuple[Instruction, ...], pc: int) -> int:
        i, end = stream[pc], self._end(stream, pc)
        if i.get("low") <= self.parameters[i.get("parameter")] <= i.get("high"):
            self.trips[i.get("level")] = 1
            self._trip(stream, pc, end, i.get("level"), 0)
        return end

    def _end(self, stream: tuple[Instruction, ...], pc: int) -> int:
        """Behind the END of the block at ``pc``."""
        depth, end = 1, pc + 1
        while depth:
            opcode = stream[end].opcode
            depth += 1 if opcode in (Opcode.LOOP, Opcode.CASE) else -(opcode is Opcode.END)
            end += 1
        return end

    def _trip(self, stream: tuple[Instruction, ...], pc: int, end: int, level: int, trip: int):
        self.index[level] = trip
        self.count["level", level] = self.count.get(pc, 0)
        self.count[pc] = self.count.get(pc, 0) + 1
        self._block(stream, pc + 1, end - 1)

    def _execute(self, i: Instruction) -> None:
        unit, waits, signals = self._semaphores(i)
        mine, late = self.clock[unit], 0
        np.maximum(mine, self.clock[Unit.CONTROL], out=mine)
        for semaphore in waits:
            seen, product = self.tokens[semaphore].popleft()
            np.maximum(mine, seen, out=mine)
            late = max(late, product if unit is Unit.VECTOR else 0)
        forwards = i.opcode is Opcode.MATMUL and bool(i.get("forward"))
        if unit is not Unit.CONTROL:
            # c of a forwarding product counts half a step earlier than its other operands
            mine[unit] += 2
            self.seen = mine.copy()
            self.seen[Unit.MATRIX] = max(self.seen[Unit.MATRIX], late - 1)
            self._touch(i, unit, forwards)
            mine[Unit.MATRIX] = max(mine[Unit.MATRIX], late)
        given = mine.copy()
        given[Unit.MATRIX] -= 2 * forwards
        for semaphore in signals:
            self.tokens[semaphore].append((given, mine[Unit.MATRIX] if forwards else 0))

    def _semaphores(self, i: Instruction) -> tuple[Unit, list[int], list[int]]:
        waits = [i.get(f"wait{k}") for k in range(3) if i.get(f"wait{k}")]
        signals = [i.get(f"signal{k}") for k in range(3) if i.get(f"signal{k}")]
        if i.opcode is Opcode.WAIT:
            return Unit(i.get("unit")), [i.get("semaphore")], []
        if i.opcode is Opcode.SIGNAL:
            return Unit(i.get("unit")), [], [i.get("semaphore")]
        return INSTRUCTIONS[i.opcode].unit, waits, signals

    def _touch(self, i: Instruction, unit: Unit, forwards: bool) -> None:
        """Reads before writes."""
        reads, writes = [], []
        for name, written in OPERANDS.get(i.opcode, ()):
            stamp = self.clock[unit, unit] - (forwards and name == "c")
            at = (SCRATCHPAD, np.unique(self._elements(i, name)), stamp)
            if not written or self._is_read_too(i, name):
                reads.append(at)
            if written:
                writes.append(at)
        if i.opcode in (Opcode.LOAD, Opcode.STORE, Opcode.GATHER):
            tensor = self.program.tensors[i.get("tensor")]
            at = (tensor.name, self._dram_words(i), self.clock[unit, unit])
            if tensor.role is Role.OUTPUT:
                (writes if i.opcode is Opcode.STORE else reads).append(at)
        for accesses, written in ((reads, False), (writes, True)):
            for memory, words, stamp in accesses:
                for word in words.tolist():
                    self._access(memory, word, unit, int(stamp), written)

    def _access(self, memory: str, at: int, unit: Unit, stamp: int, written: bool) -> None:
        word = self.words[memory, at]
        before = [("WAW" if written else "RAW", word.write)] if word.write else []
        if written:
            before += [("WAR", read) for read in word.reads.values()]
        for kind, (other, then, place) in before:
            if other != unit and then > self.seen[other]:
                self.found.add((kind, memory, place, self.place))
        if memory != SCRATCHPAD:
            for wrote, place in word.firsts.items():
                if (wrote or written) and place[0] != self.core:
                    kind = "WAR" if not wrote else "WAW" if written else "RAW"
                    self.found.add((kind, memory, place, self.place))
            word.firsts.setdefault(written, self.place)
        if written:
            word.write = (unit, stamp, self.place)
        else:
            word.reads[unit] = (unit, stamp, self.place)

    def _is_read_too(self, i: Instruction, name: str) -> bool:
        match i.opcode:
            case Opcode.MATMUL:
                return self._applies(i.get("accumulate"), i.get("k_level"), first=False)
            case Opcode.ONLINE:
                return name == "state" and self._applies(
                    i.get("accumulate"), i.get("k_level"), first=False
                )
            case Opcode.REDUCE:
                return bool(i.get("accumulate"))
            case _:
                return i.opcode is Opcode.FMA

    def _elements_at(
        self, sizes: list[int], dtype: np.dtype, first_byte: int, steps: list[int]
    ) -> np.ndarray:
        """The words of elements, in place of the elements."""
        at = np.full(sizes, first_byte)
        for d, (size, step) in enumerate(zip(sizes, steps, strict=True)):
            at += (step * np.arange(size)).reshape([-1 if e == d else 1 for e in range(len(sizes))])
        return at // ELEMENT_BYTES

    def _elements(self, i: Instruction, name: str) -> np.ndarray:
        """Words of the scratchpad that an operand touches."""
        field = FORMAT_FIELDS.get((i.opcode, name))
        format = Format.FP32 if field is None else Format(i.get(field))
        if not self._is_present(i, name):
            return np.zeros(0, np.int64)
        if i.opcode is Opcode.MATMUL:
            sizes, strides = self._matmul_extents(i, name)
            return self._view(i, name, sizes, strides, format)
        if i.opcode is Opcode.TRANSFORM:
            return self._tiles(i, name)
        if name == "state":
            sizes, strides = [i.get("size0"), STATE_WORDS], [i.get("state_stride0"), 1]
            return self._view(i, name, sizes, strides)
        view = self._rect(i, name, format)
        if i.opcode is Opcode.STORE:
            return view[np.ix_(*self._inside(i, self._shape(i)))]
        if i.opcode is Opcode.MASK:
            inside = self._inside(i, [i.get(f"extent{d}") for d in range(MAX_RANK)])
            outside = np.ones(view.shape, bool)
            outside[np.ix_(*inside)] = False
            return view[outside]
        return view

    def _inside(self, i: Instruction, extents: list[int]) -> list[np.ndarray]:
        at = self._coordinates(i)
        return [(a >= 0) & (a < n) for a, n in zip(at, extents, strict=True)]

    def _shape(self, i: Instruction) -> list[int]:
        shape = self.program.tensors[i.get("tensor")].shape
        return [*shape, *[1] * (MAX_RANK - len(shape))]

    def _dram_words(self, i: Instruction) -> np.ndarray:
        shape = self._shape(i)
        if i.opcode is Opcode.GATHER:
            at = self._gathered(i, shape)
        else:
            pairs = zip(self._coordinates(i), self._inside(i, shape), strict=True)
            at = np.ravel_multi_index(np.ix_(*[a[m] for a, m in pairs]), shape)
        size = self.program.tensors[i.get("tensor")].format.bytes
        return np.unique(at * size // ELEMENT_BYTES)

    def _gathered(self, i: Instruction, shape: list[int]) -> np.ndarray:
        found = []
        for place in np.ndindex(*[i.get(f"size{d}") for d in range(MAX_RANK)]):
            at = self._firsts(i)
            for d, index in enumerate(place):
                if index:
                    at[i.get(f"axis{d}")] += i.get(f"hop{d}") * index
            if all(0 <= a < n for a, n in zip(at, shape, strict=True)):
                found.append(np.ravel_multi_index(at, shape))
        return np.array(found, np.int64)

    def _is_present(self, i: Instruction, name: str) -> bool:
        if i.opcode is Opcode.TRANSFORM and name in ("bias", "r"):
            return i.get("biased" if name == "bias" else "adds") != 0
        if name in ("bias", "r"):
            ends = self._applies(i.get("epilogue"), i.get("k_level"), first=True)
            return ends and i.get("bias_axis" if name == "bias" else "adds") != 0
        users = SIDE_USERS.get(name)
        return users is None or any(i.get(f"stage{k}_kind") in users for k in range(CHAIN_STAGES))

    def _matmul_extents(self, i: Instruction, name: str) -> tuple[list[int], list[int]]:
        if name == "bias":
            return [i.get("m" if i.get("bias_axis") == 1 else "n0")], [1]
        dims = MATMUL_DIMENSIONS[name]
        return [i.get(d) for d in dims], [i.get(f"{name}_{d}") for d in dims]
