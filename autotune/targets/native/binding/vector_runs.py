"""Fuses neighbouring element-wise instructions into vector runs; the loader binds them so.

What an instruction stores and the next one reads again, element for element, stays in a register:
the taps of a depthwise convolution become one pass, and so do chains of any length.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from autotune.isa.fields import CHAIN_STAGES, MAX_RANK
from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, UnaryFn, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Role
from autotune.targets.native.analysis.copy_elision import Moved, Reads
from autotune.targets.native.analysis.memory_access import MemoryAccess
from autotune.targets.native.analysis.tree import Leaf
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.rows.row_run import LONGEST_ROW, Reduce, RowNode, RowRun
from autotune.targets.native.codegen.vector.vector_run import (
    Binary,
    Constant,
    Fma,
    Load,
    Output,
    Unary,
    VectorRun,
)
from autotune.targets.native.cpu.vector_isa import VectorIsa

ELEMENTWISE = frozenset((Opcode.UNARY, Opcode.BINARY, Opcode.FMA, Opcode.CHAIN, Opcode.FILL))
JOINING = ELEMENTWISE | {Opcode.REDUCE}
ROUNDED = (Format.BF16, Format.FP16, Format.INT8, Format.UINT8)
"""Formats that a run's results are rounded to: nobody may read such a result in its register."""
LONGEST = 96
"""Nodes of a run at most: beyond, compiling takes longer than a pass over memory saves."""
_BESIDE = {StageKind.WITH0: "side0", StageKind.WITH1: "side1"}
_BEFORE = {StageKind.FROM0: "side0", StageKind.FROM1: "side1"}


def generable(instruction: Instruction) -> bool:
    """Whether an instruction's functions all have generated code that runs are made of."""
    get = instruction.get
    match instruction.opcode:
        case Opcode.UNARY:
            return UnaryFn(get("fn")).row.is_generated
        case Opcode.BINARY:
            return BinaryFn(get("fn")).row.is_generated
        case Opcode.CHAIN:
            stages = ((get(f"stage{i}_kind"), get(f"stage{i}_fn")) for i in range(CHAIN_STAGES))
            used = ((kind, fn) for kind, fn in stages if kind != StageKind.NONE)
            return all(
                (UnaryFn if kind == StageKind.UNARY else BinaryFn)(fn).row.is_generated
                for kind, fn in used
            )
        case Opcode.CONVERT:
            return _is_plain(instruction)
        case _:
            return instruction.opcode in JOINING


def convertible(access: MemoryAccess, role: Role) -> bool:
    """Whether a kernel reads or writes fp32 or what its tensor of that role has instead: runs and copies do, reductions
    but those of rows, which runs take with fp32 alone; products take constants as they are packed, and those of bf16
    round what they write once."""
    leaf = access.leaf
    if leaf.opcode is Opcode.REDUCE:
        keeps_fp32 = access.operand == "dst" and leaf.instruction.get("accumulate")
        return not keeps_fp32 and not _reduces_rows(leaf.instruction)
    if leaf.opcode is Opcode.STORE:
        return True
    if leaf.opcode is Opcode.MATMUL and access.operand == "c":
        return _is_written_once(leaf.instruction)
    if leaf.opcode is Opcode.MATMUL:
        return access.operand in ("a", "b") and role is Role.CONSTANT
    return leaf.opcode in ELEMENTWISE and generable(leaf.instruction)


def _reduces_rows(instruction: Instruction) -> bool:
    """Whether a REDUCE reduces neighbours in memory."""
    get = instruction.get
    return any(
        get(f"size{d}") > 1 and not get(f"dst_stride{d}") and get(f"src_stride{d}") == 1
        for d in range(MAX_RANK)
    )


def _is_written_once(instruction: Instruction) -> bool:
    """Whether all sums of a product of bf16 are finished by one MATMUL."""
    get = instruction.get
    whole = get("accumulate") == When.NEVER and get("epilogue") != When.BY_LEVEL
    return whole and get("a_format") == get("b_format") == Format.BF16


def _is_plain(instruction: Instruction) -> bool:
    """Whether a CONVERT changes nothing but the format, to one that runs write."""
    get = instruction.get
    same = instruction.scalar("scale") == 1.0 and not get("src_zero") and not get("dst_zero")
    return same and Format(get("dst_format")) in (Format.FP32, *ROUNDED)


@dataclass(frozen=True, slots=True)
class Piece:
    """An element-wise instruction and its operands by name, with the accesses they are of."""

    leaf: Leaf
    operands: Mapping[str, Operand]
    accesses: Mapping[str, MemoryAccess]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extents of the rectangle."""
        return tuple(self.leaf.instruction.get(f"size{d}") for d in range(MAX_RANK))

    def operand(self, name: str) -> Operand:
        """An operand; dimensions of one element have no stride, so that equal places are equal."""
        found = self.operands[name]
        moves = zip(self.sizes, found.strides, strict=True)
        return replace(found, strides=tuple(stride if n > 1 else 0 for n, stride in moves))

    @property
    def stores_once(self) -> bool:
        """Whether every element of the result is stored once, and nothing before."""
        get = self.leaf.instruction.get
        adds = self.leaf.opcode is Opcode.REDUCE and get("accumulate")
        return not self.repeated and not adds

    @property
    def repeated(self) -> tuple[int, ...]:
        """Dimensions along which the result stays where it is: what a reduction reduces."""
        strides = self.operands["dst"].strides
        moves = enumerate(zip(self.sizes, strides, strict=True))
        return tuple(d for d, (n, stride) in moves if n > 1 and not stride)

    def row_axis(self, isa: VectorIsa) -> int | None:
        """The dimension of neighbours that a reduction reduces, if it is the only one and neither
        long nor short; None for others."""
        if self.leaf.opcode is not Opcode.REDUCE or self.leaf.instruction.get("accumulate"):
            return None
        if len(self.repeated) != 1:
            return None
        (axis,) = self.repeated
        fits = 2 * isa.lanes <= self.sizes[axis] <= LONGEST_ROW
        return axis if fits and self.operands["src"].strides[axis] == 1 else None


@dataclass(slots=True)
class RunWriter:
    """A run while instructions join it; ``add`` says whether one could."""

    sizes: tuple[int, ...]
    isa: VectorIsa
    _axis: int | None = None
    _nodes: list[RowNode] = field(default_factory=list)
    _inputs: dict[Operand, MemoryAccess] = field(default_factory=dict)
    _windows: list[Operand] = field(default_factory=list)
    _outputs: dict[Operand, MemoryAccess] = field(default_factory=dict)
    _values: dict[Operand, int] = field(default_factory=dict)
    _leaves: list[Leaf] = field(default_factory=list)

    def add(self, piece: Piece) -> bool:
        """Take an instruction in, unless it does not fit those before it."""
        axis = self._axis_with(piece)
        if len(self._nodes) > LONGEST or not (piece.stores_once or axis is not None):
            return False
        narrow = any(x.format is not Format.FP32 for x in (*self._inputs, *self._outputs))
        narrow = narrow or any(x.format is not Format.FP32 for x in piece.operands.values())
        if narrow and (axis is not None or self._axis is not None):
            return False  # code of rows knows fp32 alone
        if piece.sizes != self.sizes and piece.sizes != self._one_a_row:
            return False
        target, access = piece.operand("dst"), piece.accesses["dst"]
        reads = [(piece.operand(x), piece.accesses[x]) for x in _reads(piece)]
        if any(_interfere(read, t, self._outputs) for read, t in reads):
            return False
        if any(self._rewritten(read) for read, _ in reads):
            return False
        loaded = dict(self._inputs) | {read: t for read, t in reads if read not in self._values}
        if _interfere(target, access, loaded) or _interfere(target, access, self._outputs):
            return False
        for read, t in reads:
            self._load(read, t)
        self._values[target] = self._compute(piece)
        self._outputs[target] = access
        self._leaves.append(piece.leaf)
        self._axis = axis if self._axis is None else self._axis
        return True

    def _rewritten(self, read: Operand) -> bool:
        """Whether the run has written there what its registers do not hold in that format."""
        return any(
            _same_place(read, output) and (output != read or output.format in ROUNDED)
            for output in self._outputs
        )

    def _axis_with(self, piece: Piece) -> int | None:
        """The dimension that a reduction reduces, if it is the run's own or the first."""
        axis = piece.row_axis(self.isa)
        return axis if self._axis is None or axis == self._axis else None

    @property
    def _one_a_row(self) -> tuple[int, ...] | None:
        """The sizes of what has one element for every row."""
        if self._axis is None:
            return None
        return tuple(1 if d == self._axis else n for d, n in enumerate(self.sizes))

    @property
    def places(self) -> frozenset[int]:
        """The places of its instructions."""
        return frozenset(leaf.place for leaf in self._leaves)

    @property
    def arguments(self) -> Mapping[Operand, MemoryAccess]:
        """What it reads."""
        return self._inputs

    @property
    def results(self) -> Mapping[Operand, MemoryAccess]:
        """What its instructions write, whether anyone reads that or not."""
        return self._outputs

    @property
    def lone(self) -> Leaf | None:
        """The instruction that is the whole run, if it is a reduction."""
        alone = len(self._leaves) == 1 and self._axis is not None
        return self._leaves[0] if alone else None

    def call(self, reads: Reads, far: Container[int] = ()) -> Call:
        """The kernel of all that was added; ``reads`` are all that read the scratchpad, ``far`` the
        numbers of tensors that no cache holds."""
        kept = [o for o, t in self._outputs.items() if self._is_read(o, t, reads)]
        outputs = kept or list(self._outputs)
        streamed = [o for o in outputs if o.space is Space.TENSOR and o.number in far]
        operands = (*self._windows, *outputs)
        inputs = tuple(operand.strides for operand in self._windows)
        results = tuple(
            Output(o.strides, self._values[o], o in streamed and o not in self._windows)
            for o in outputs
        )
        if self._axis is None:
            body = tuple(node for node in self._nodes if not isinstance(node, Reduce))
            formats = tuple(operand.format for operand in operands)
            if all(format is Format.FP32 for format in formats):
                formats = ()
            run = VectorRun(self.sizes, inputs, results, body, formats)
            return Call(KernelSpec(run, self.isa), operands)
        row_run = RowRun(self.sizes, self._axis, inputs, results, tuple(self._nodes))
        return Call(KernelSpec(row_run, self.isa), operands)

    def _is_read(self, output: Operand, access: MemoryAccess, reads: Reads) -> bool:
        """Whether anyone may read a result behind the run: what is not in the scratchpad is."""
        if output.space is not Space.SCRATCHPAD:
            return True
        mine = {leaf.place for leaf in self._leaves}
        readers = [t for t in reads.reading if t.leaf.place not in mine]
        readers += [t for o, t in self._inputs.items() if o.space is Space.SCRATCHPAD]
        moved = Moved.of(self._leaves)
        return any(reads.gets(reader, access, moved) for reader in readers)

    def _load(self, operand: Operand, access: MemoryAccess) -> None:
        if operand in self._values:
            return
        window, offset = self._window(operand)
        self._values[operand] = self._node(Load(self._windows.index(window), offset))
        self._inputs[operand] = access

    def _window(self, operand: Operand) -> tuple[Operand, int]:
        """The input of the kernel that an operand is a constant distance from, and the distance."""
        for window in self._windows:
            if replace(window, at=operand.at) == operand and window.at.terms == operand.at.terms:
                return window, operand.at.first - window.at.first
        self._windows.append(operand)
        return operand, 0

    def _node(self, node: RowNode) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _compute(self, piece: Piece) -> int:
        """Append an instruction's nodes; the one of its result."""
        get, scalar = piece.leaf.instruction.get, piece.leaf.instruction.scalar
        value = {name: self._values[piece.operand(name)] for name in _reads(piece)}
        match piece.leaf.opcode:
            case Opcode.UNARY:
                return self._unary(UnaryFn(get("fn")), value["src"], scalar("p0"), scalar("p1"))
            case Opcode.BINARY:
                return self._node(Binary(BinaryFn(get("fn")), value["lhs"], value["rhs"]))
            case Opcode.FMA:
                return self._node(Fma(value["lhs"], value["rhs"], value["dst"]))
            case Opcode.FILL:
                return self._node(Constant(scalar("p0")))
            case Opcode.CONVERT:
                return value["src"]
            case Opcode.REDUCE if not piece.repeated:  # of one element each: a copy
                return value["src"]
            case Opcode.REDUCE:
                return self._node(Reduce(ReduceFn(get("fn")), value["src"]))
            case _:
                return self._chain(piece, value)

    def _chain(self, piece: Piece, value: dict[str, int]) -> int:
        x, instruction = value["src"], piece.leaf.instruction
        for i in range(CHAIN_STAGES):
            kind, fn = StageKind(instruction.get(f"stage{i}_kind")), instruction.get(f"stage{i}_fn")
            if kind is StageKind.UNARY:
                p0, p1 = (instruction.scalar(f"stage{i}_p{j}") for j in range(2))
                x = self._unary(UnaryFn(fn), x, p0, p1)
            elif kind in _BESIDE:
                x = self._node(Binary(BinaryFn(fn), x, value[_BESIDE[kind]]))
            elif kind in _BEFORE:
                x = self._node(Binary(BinaryFn(fn), value[_BEFORE[kind]], x))
        return x

    def _unary(self, fn: UnaryFn, x: int, p0: float, p1: float) -> int:
        return x if fn is UnaryFn.COPY else self._node(Unary(fn, x, p0, p1))


def _reads(piece: Piece) -> list[str]:
    names = [name for name in piece.operands if name != "dst"]
    return [*names, "dst"] if piece.leaf.opcode is Opcode.FMA else names


def _same_place(operand: Operand, other: Operand) -> bool:
    """Whether two operands are the same memory, element for element."""
    same = operand.element_bytes == other.element_bytes
    return same and replace(other, format=operand.format) == operand


def _interfere(
    operand: Operand, access: MemoryAccess, others: Mapping[Operand, MemoryAccess]
) -> bool:
    """Whether an operand may share memory with another one that is not it, element for element."""
    for other, its in others.items():
        if other.space is not operand.space or _same_place(operand, other):
            continue
        if operand.space is Space.SCRATCHPAD:
            if access.meets(its.low, its.high):
                return True
        elif other.number == operand.number:
            return True
    return False
