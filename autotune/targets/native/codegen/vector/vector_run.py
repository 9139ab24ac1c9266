"""A vector run: element-wise instructions over one rectangle, fused into one pass over memory.

The loader makes runs of UNARY, BINARY, FMA, CHAIN and FILL; elementwise.py makes code of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, UnaryFn

MAX_RANK = 5


@dataclass(frozen=True, slots=True)
class Load:
    """The element of an input, or the one ``offset`` elements behind it: the taps of a window."""

    operand: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, rounded to fp32."""

    value: float


@dataclass(frozen=True, slots=True)
class Unary:
    """fn(x) with its scalars; ``x`` is a node."""

    fn: UnaryFn
    x: int
    p0: float = 0.0
    p1: float = 0.0


@dataclass(frozen=True, slots=True)
class Binary:
    """fn(x, y) of two nodes."""

    fn: BinaryFn
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Fma:
    """x·y + z of three nodes."""

    x: int
    y: int
    z: int


Node = Load | Constant | Unary | Binary | Fma


@dataclass(frozen=True, slots=True)
class Output:
    """Where a node's values go: a stride per dimension, in elements. ``streamed``: no one reads them
    while they are in cache, so that they may go past it."""

    strides: tuple[int, ...]
    node: int
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class VectorRun:
    """For every element of a rectangle: load, compute, store.

    ``body`` is in order of computation: a node refers to nodes before it, by index. Operands of
    the kernel are the inputs' first elements, then the outputs'. An input's stride 0 broadcasts.
    An output may be an input's memory, element for element (loaded before it is stored, also where
    an operand stands for several inputs); otherwise an output overlaps no other operand. Operands of
    other formats become fp32 when loaded, and results integers when stored: rounded to nearest, ties
    to even, saturated, NaN as 0.
    """

    sizes: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[Output, ...]
    body: tuple[Node, ...]
    formats: tuple[Format, ...] = ()

    def format(self, operand: int) -> Format:
        """Format of an operand, of inputs and then outputs: fp32 unless ``formats`` are given."""
        return self.formats[operand] if self.formats else Format.FP32

    def __post_init__(self) -> None:
        assert not self.formats or len(self.formats) == len(self.inputs) + len(self.outputs)
        rank = len(self.sizes)
        assert rank <= MAX_RANK and min(self.sizes, default=1) >= 1, "no rectangle"
        assert self.outputs, "a run without a result"
        for strides in (*self.inputs, *(output.strides for output in self.outputs)):
            assert len(strides) == rank, "strides of another rank"
        for output in self.outputs:
            assert 0 <= output.node < len(self.body), "a result that nothing computes"
            moves = zip(self.sizes, output.strides, strict=True)
            assert all(size == 1 or stride for size, stride in moves), "elements stored twice"
        for position, node in enumerate(self.body):
            assert all(0 <= x < position for x in arguments(node)), "a node before its arguments"
            assert not isinstance(node, Load) or 0 <= node.operand < len(self.inputs), "no operand"

    @property
    def elements(self) -> int:
        """Elements of the rectangle."""
        return prod(self.sizes)


def arguments(node: Node) -> tuple[int, ...]:
    """The nodes that a node computes from."""
    match node:
        case Unary(x=x):
            return (x,)
        case Binary(x=x, y=y):
            return (x, y)
        case Fma(x=x, y=y, z=z):
            return (x, y, z)
        case _:
            return ()
