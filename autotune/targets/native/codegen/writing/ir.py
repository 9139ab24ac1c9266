"""Writes LLVM IR text, one function a module; every micro-kernel generator writes through this.

Text, because making a kernel's IR must take well under a millisecond, which object builders miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import zip_longest

from autotune.targets.native.codegen.writing.micro_kernel import SYMBOL, MicroKernel


@dataclass(slots=True)
class Loop:
    """An open loop: its index (i64, from 0) and the values carried from trip to trip, as SSA names
    inside of the body."""

    trips: str
    index: str
    values: tuple[str, ...]
    _types: tuple[str, ...]
    _starts: tuple[str, ...]
    _head: str
    _entry: str
    _phis_at: int


class FunctionWriter:
    """The body of one micro-kernel. Methods that compute return the name of their result."""

    def __init__(self, operands: int, numbers: int = 0) -> None:
        self._operands, self._numbers = operands, numbers
        self._lines: list[str] = []
        self._declared: dict[str, None] = {}
        self._streams = False
        self._count = 0
        self._block = "entry"
        self.pointers = tuple(self._argument("ptr", "%operands", i) for i in range(operands))
        """The operands' first elements."""
        self.numbers = tuple(self._argument("i64", "%numbers", i) for i in range(numbers))
        """The integers of this run."""

    def _argument(self, kind: str, table: str, position: int) -> str:
        place = self.value(f"getelementptr inbounds i64, ptr {table}, i64 {position}")
        return self.value(f"load {kind}, ptr {place}, align 8, !invariant.load !0")

    def fresh(self) -> str:
        """A name that is not in use yet, without its sigil."""
        self._count += 1
        return f"v{self._count}"

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        self._lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """Append an instruction; returns the name of its result."""
        name = f"%{self.fresh()}"
        self._lines.append(f"  {name} = {text}")
        return name

    def declare(self, signature: str) -> None:
        """Declare a function that is called, as in ``float @llvm.fma.f32(float, float, float)``.
        Intrinsics only that become instructions: an unresolved symbol would end the process."""
        self._declared[signature] = None

    def call(self, returns: str, name: str, *arguments: tuple[str, str]) -> str:
        """Call an intrinsic with (type, value) arguments, declaring it."""
        self.declare(f"{returns} @{name}({', '.join(kind for kind, _ in arguments)})")
        given = ", ".join(f"{kind} {value}" for kind, value in arguments)
        return self.value(f"call {returns} @{name}({given})")

    def block(self, label: str) -> None:
        """Begin a basic block; the one before must have ended."""
        self._lines.append(f"{label}:")
        self._block = label

    def branch(self, condition: str | None, then: str, otherwise: str | None = None) -> None:
        """End the basic block: go to ``then``, or by an i1 to one of two labels."""
        if condition is None:
            self.line(f"br label %{then}")
        else:
            self.line(f"br i1 {condition}, label %{then}, label %{otherwise}")

    @property
    def current_block(self) -> str:
        """Label of the basic block being written, for phi instructions."""
        return self._block

    def offset(self, pointer: str, elements: str | int, kind: str = "float") -> str:
        """The address ``elements`` floats, or others of a ``kind``, behind ``pointer``."""
        if elements in (0, "0"):
            return pointer
        return self.value(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {elements}")

    def load(self, kind: str, pointer: str) -> str:
        """Load a float or a vector of floats from an address aligned to 4 bytes."""
        return self.value(f"load {kind}, ptr {pointer}, align 4")

    def store(self, kind: str, value: str, pointer: str) -> None:
        """Store a float or a vector of floats to an address aligned to 4 bytes."""
        self.line(f"store {kind} {value}, ptr {pointer}, align 4")

    def stream(self, kind: str, value: str, pointer: str, alignment: int) -> None:
        """Store a vector past the caches to an address aligned to as many bytes as it has."""
        self._streams = True
        self.line(f"store {kind} {value}, ptr {pointer}, align {alignment}, !nontemporal !1")

    def in_turns(self, parts: Iterable[Callable[[], None]]) -> None:
        """Write what parts of a basic block write, a line of each in turns. None needs anything of another.
        A core looks ahead a few dozen instructions: chains side by side there run at once."""
        start, written = len(self._lines), []
        for part in parts:
            part()
            written.append(self._lines[start:])
            del self._lines[start:]
        turns = zip_longest(*written)
        self._lines += [line for turn in turns for line in turn if line is not None]

    def begin(self, trips: int | str, *carried: tuple[str, str]) -> Loop:
        """Open a loop of ``trips`` ≥ 1 trips (an SSA i64, or a number), carrying values given as
        (type, first value)."""
        head, entry = self.fresh(), self._block
        self.branch(None, head)
        self.block(head)
        index = f"%{self.fresh()}"
        values = tuple(f"%{self.fresh()}" for _ in carried)
        types, starts = tuple(t for t, _ in carried), tuple(v for _, v in carried)
        return Loop(str(trips), index, values, types, starts, head, entry, len(self._lines))

    def end(self, loop: Loop, *results: str) -> None:
        """Close a loop. ``results`` are what its carried values become for the next trip, and what
        they are behind the loop."""
        assert len(results) == len(loop.values), "a carried value without its next one"
        following = self.value(f"add nuw nsw i64 {loop.index}, 1")
        more = self.value(f"icmp ult i64 {following}, {loop.trips}")
        latch, behind = self._block, self.fresh()
        self.branch(more, loop._head, behind)
        phis = [_phi(loop.index, "i64", "0", loop._entry, following, latch)]
        phis += [
            _phi(name, kind, start, loop._entry, result, latch)
            for name, kind, start, result in zip(
                loop.values, loop._types, loop._starts, results, strict=True
            )
        ]
        self._lines[loop._phis_at : loop._phis_at] = phis
        self.block(behind)

    def finish(self) -> MicroKernel:
        """The module."""
        declarations = [f"declare {signature}" for signature in self._declared]
        head = f"define void @{SYMBOL}(ptr noalias %operands, ptr noalias %numbers) nounwind {{"
        notes = ["!0 = !{}", *(["!1 = !{i32 1}"] if self._streams else [])]
        body = [head, "entry:", *self._lines, "  ret void", "}", *notes, ""]
        return MicroKernel("\n".join([*declarations, *body]), self._operands, self._numbers)


def _phi(name: str, kind: str, start: str, entry: str, following: str, latch: str) -> str:
    return f"  {name} = phi {kind} [ {start}, %{entry} ], [ {following}, %{latch} ]"


def vector(lanes: int) -> str:
    """The type of ``lanes`` floats."""
    return f"<{lanes} x float>" if lanes > 1 else "float"
