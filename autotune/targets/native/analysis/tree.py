"""A stream as a tree of loops and instructions; the loader's first step.

One thread executes a stream in its own order, so that waits, signals and marks have nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction

_SEQUENCING = frozenset((Opcode.WAIT, Opcode.SIGNAL, Opcode.MARK, Opcode.HALT))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A LOOP, or a CASE as a loop of one trip that may be left out, in the body of ``path[-1]``."""

    instruction: Instruction
    path: tuple[Block, ...]

    @property
    def conditional(self) -> bool:
        """Whether its body may not run at all."""
        return self.instruction.opcode is Opcode.CASE

    @property
    def level(self) -> int:
        """Number of blocks around it."""
        return len(self.path)

    @property
    def trips(self) -> int:
        """How often its body runs."""
        return 1 if self.conditional else self.instruction.get("trips")


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """An instruction that computes or moves, its place in the stream, and the blocks around it."""

    instruction: Instruction
    place: int
    path: tuple[Block, ...]

    @property
    def opcode(self) -> Opcode:
        """Operation code."""
        return self.instruction.opcode

    def trips(self, level: int) -> int:
        """Return the trips of the loop at a level around it."""
        return self.path[level].trips


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A block with what is in it, in order."""

    block: Block
    nodes: tuple[Node, ...]


Node = Leaf | Body


def tree_of(stream: tuple[Instruction, ...]) -> tuple[Node, ...]:
    """The nodes of a verified stream, blocks without an instruction left out."""
    open_blocks: list[Block] = []
    nodes: list[list[Node]] = [[]]
    for place, instruction in enumerate(stream):
        opcode = instruction.opcode
        if opcode in (Opcode.LOOP, Opcode.CASE):
            open_blocks.append(Block(instruction, tuple(open_blocks)))
            nodes.append([])
        elif opcode is Opcode.END:
            body, block = tuple(nodes.pop()), open_blocks.pop()
            if body:
                nodes[-1].append(Body(block, body))
        elif opcode not in _SEQUENCING:
            nodes[-1].append(Leaf(instruction, place, tuple(open_blocks)))
    return tuple(nodes[0])


def leaves(nodes: tuple[Node, ...]) -> Iterator[Leaf]:
    """All instructions in stream order."""
    for node in nodes:
        if isinstance(node, Leaf):
            yield node
        else:
            yield from leaves(node.nodes)
