"""A plain numpy interpreter of tile programs, in program order: the oracle engines are tested by."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from autotune.isa.fields import CHAIN_STAGES, MAX_RANK, NO_LEVEL
from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, Transform, UnaryFn, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program, Role, field_index
from autotune.targets.arrays import ARRAY_TYPES, array_for

TRANSFORMS = {
    Transform.F4_INPUT: np.array(
        [[1.265625, 0, -2.8125, 0, 1, 0], [0, -1.6875, -2.25, 0.75, 1, 0],
         [0, 1.6875, -2.25, -0.75, 1, 0], [0, -0.84375, -0.5625, 1.5, 1, 0],
         [0, 0.84375, -0.5625, -1.5, 1, 0], [0, 1.265625, 0, -2.8125, 0, 1]]
    ),
    Transform.F4_OUTPUT: np.array(
        [[1, 1, 1, 1, 1, 0], [0, 0.75, -0.75, 1.5, -1.5, 0], [0, 0.5625, 0.5625, 2.25, 2.25, 0],
         [0, 0.421875, -0.421875, 3.375, -3.375, 1]]
    ),
    Transform.F2_INPUT: np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]),
    Transform.F2_OUTPUT: np.array([[1, 1, 1, 0], [0, 1, -1, -1]]),
}  # fmt: skip
REDUCE = {
    ReduceFn.SUM: np.add,
    ReduceFn.MAX: np.maximum,
    ReduceFn.MIN: np.minimum,
    ReduceFn.PROD: np.multiply,
}


def unary(code: int, x: np.ndarray, p0: float, p1: float) -> np.ndarray:
    """A unary function by its row, with as many of the instruction's scalars as it takes."""
    row = UnaryFn(code).row
    scalars = (np.float32(p0), np.float32(p1))
    return row.reference(x, *scalars[: len(row.parameters)])


def converted(
    x: np.ndarray,
    dst: Format,
    scale: float = 1.0,
    divide: bool = False,
    src_zero: int = 0,
    dst_zero: int = 0,
) -> np.ndarray:
    """CONVERT as its table row says it; ``x`` has the numpy type of its format."""
    integer = np.issubdtype(x.dtype, np.integer)
    value = (x.astype(np.int64) - src_zero if integer else x).astype(np.float32)
    value = value / np.float32(scale) if divide else value * np.float32(scale)
    if dst.is_float:
        return value.astype(ARRAY_TYPES[dst])
    limits = np.iinfo(ARRAY_TYPES[dst])
    whole = np.nan_to_num(np.rint(value.astype(np.float64)), nan=0.0, posinf=1e18, neginf=-1e18)
    return np.clip(whole + dst_zero, limits.min, limits.max).astype(ARRAY_TYPES[dst])


def ordered_sums(a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    """a·b in fp32: blocks of 256 products in ascending order, each from 0, added to c in order."""
    for first in range(0, a.shape[1], 256):
        block = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in range(first, min(first + 256, a.shape[1])):
            block += a[:, k, None] * b[k]
        c = block if c is None else c + block
    assert c is not None
    return c


def recoded(x: np.ndarray, dst: Format) -> np.ndarray:
    """What a DMA makes of elements: bits as they are unless the format changes."""
    return x if x.dtype == ARRAY_TYPES[dst] else converted(x, dst)


class Interpreter:
    """Runs one program; ``touched`` collects nothing, only numbers matter here."""

    def __init__(self, program: Program, tensors: Mapping[str, np.ndarray]) -> None:
        self.program = program
        self.dram = [array_for(program, t, tensors).reshape(t.shape) for t in program.tensors]

    def run(self) -> dict[str, np.ndarray]:
        for stream in self.program.streams:
            self.scratchpad = np.full(self.program.scratchpad_elements, np.nan, np.float32)
            self.index, self.count, self.trips = {}, {}, {}
            self._block(stream, 0, len(stream))
        return {
            t.name: a
            for t, a in zip(self.program.tensors, self.dram, strict=True)
            if t.role is Role.OUTPUT
        }

    def _block(self, stream: tuple[Instruction, ...], start: int, end: int) -> None:
        pc = start
        while pc < end:
            instruction = stream[pc]
            if instruction.opcode is Opcode.LOOP:
                pc = self._loop(stream, pc)
            else:
                self._execute(instruction)
                pc += 1

    def _loop(self, stream: tuple[Instruction, ...], pc: int) -> int:
        depth, end = 1, pc + 1
        while depth:
            depth += {Opcode.LOOP: 1, Opcode.END: -1}.get(stream[end].opcode, 0)
            end += 1
        level, trips = stream[pc].get("level"), stream[pc].get("trips")
        for trip in range(trips):
            self.index[level], self.trips[level] = trip, trips
            self.turn = self.count
            begun = self.count.get(pc, 0)
            self.count[pc] = begun + 1
            self.count["level", level] = begun
            self._block(stream, pc + 1, end - 1)
        return end

    def _view(
        self,
        i: Instruction,
        name: str,
        sizes: list[int],
        strides: list[int],
        format: Format = Format.FP32,
    ) -> np.ndarray:
        address = i.get(f"{name}_base")
        for k in range(2):
            level = i.get(f"{name}_level{k}")
            if level != NO_LEVEL:
                address += i.get(f"{name}_step{k}") * self.index[level]
        turn = i.get(f"{name}_turn")
        if turn != NO_LEVEL:
            address += i.get(f"{name}_slot") * (self.count["level", turn] % 2)
        dtype = ARRAY_TYPES[format]
        steps = [dtype.itemsize * stride for stride in strides]
        return self._elements_at(sizes, dtype, dtype.itemsize * address, steps)

    def _elements_at(
        self, sizes: list[int], dtype: np.dtype, first_byte: int, steps: list[int]
    ) -> np.ndarray:
        """Elements of the scratchpad in place; raises beyond its end."""
        return np.ndarray(sizes, dtype, self.scratchpad, first_byte, steps)

    def _rect(self, i: Instruction, name: str, format: Format = Format.FP32) -> np.ndarray:
        known = field_index(i.opcode)
        dims = [d for d in range(MAX_RANK) if f"{name}_stride{d}" in known]
        sizes = [i.get(f"size{d}") for d in dims]
        strides = [i.get(f"{name}_stride{d}") for d in dims]
        return self._view(i, name, sizes, strides, format)

    def _firsts(self, i: Instruction) -> list[int]:
        """Coordinate at which the rectangle begins, by dimension."""
        levels = [i.get(f"level{d}") for d in range(MAX_RANK)]
        return [
            i.get(f"coord{d}") + (i.get(f"step{d}") * self.index[level] if level != NO_LEVEL else 0)
            for d, level in enumerate(levels)
        ]

    def _coordinates(self, i: Instruction) -> list[np.ndarray]:
        return [first + np.arange(i.get(f"size{d}")) for d, first in enumerate(self._firsts(i))]

    def _execute(self, i: Instruction) -> None:
        with np.errstate(all="ignore"):
            match i.opcode:
                case Opcode.LOAD | Opcode.STORE:
                    self._dma(i)
                case Opcode.GATHER:
                    self._gather(i)
                case Opcode.LOOKUP:
                    self._lookup(i)
                case Opcode.MATMUL:
                    self._matmul(i)
                case Opcode.UNARY:
                    x = self._rect(i, "src").copy()
                    self._rect(i, "dst")[...] = unary(
                        i.get("fn"), x, i.scalar("p0"), i.scalar("p1")
                    )
                case Opcode.BINARY:
                    self._rect(i, "dst")[...] = BinaryFn(i.get("fn")).row.reference(
                        self._rect(i, "lhs").copy(), self._rect(i, "rhs").copy()
                    )
                case Opcode.FMA:
                    self._rect(i, "dst")[...] += self._rect(i, "lhs") * self._rect(i, "rhs")
                case Opcode.REDUCE:
                    self._reduce(i)
                case Opcode.FILL:
                    self._rect(i, "dst")[...] = i.scalar("p0")
                case Opcode.MASK:
                    outside = np.zeros([i.get(f"size{d}") for d in range(MAX_RANK)], bool)
                    for d, at in enumerate(self._coordinates(i)):
                        bad = (at < 0) | (at >= i.get(f"extent{d}"))
                        outside |= bad.reshape([-1 if k == d else 1 for k in range(MAX_RANK)])
                    self._rect(i, "dst")[outside] = i.scalar("p0")
                case Opcode.CHAIN:
                    self._chain(i)
                case Opcode.ONLINE:
                    self._online(i)
                case Opcode.CONVERT:
                    self._convert(i)
                case Opcode.TRANSFORM:
                    self._transform(i)
                case _:
                    pass

    def _dma(self, i: Instruction) -> None:
        tensor = self.dram[i.get("tensor")]
        tensor = tensor.reshape(tensor.shape + (1,) * (MAX_RANK - tensor.ndim))
        at = self._coordinates(i)
        inside = [(a >= 0) & (a < n) for a, n in zip(at, tensor.shape, strict=True)]
        grid = np.ix_(*[a[m] for a, m in zip(at, inside, strict=True)])
        format = Format(i.get("format"))
        if i.opcode is Opcode.STORE:
            stored = Format(self.program.tensors[i.get("tensor")].format)
            tensor[grid] = recoded(self._rect(i, "src", format)[np.ix_(*inside)], stored)
            return
        target = self._rect(i, "dst", format)
        target[...] = converted(np.float32(i.scalar("pad")), format)
        target[np.ix_(*inside)] = recoded(tensor[grid], format)

    def _gather(self, i: Instruction) -> None:
        tensor = self.dram[i.get("tensor")]
        tensor = tensor.reshape(tensor.shape + (1,) * (MAX_RANK - tensor.ndim))
        format = Format(i.get("format"))
        target = self._rect(i, "dst", format)
        target[...] = converted(np.float32(i.scalar("pad")), format)
        firsts = self._firsts(i)
        for place in np.ndindex(*target.shape):
            at = list(firsts)
            for d, index in enumerate(place):
                at[i.get(f"axis{d}")] += i.get(f"hop{d}") * index
            if all(0 <= a < n for a, n in zip(at, tensor.shape, strict=True)):
                target[place] = recoded(tensor[tuple(at)], format)

    def _lookup(self, i: Instruction) -> None:
        tensor = self.dram[i.get("tensor")]
        tensor = tensor.reshape(tensor.shape + (1,) * (MAX_RANK - tensor.ndim))
        format = Format(i.get("format"))
        target = self._rect(i, "dst", format)
        at = self._coordinates(i)[1:]
        inside = [(a >= 0) & (a < n) for a, n in zip(at, tensor.shape[1:], strict=True)]
        grid = np.ix_(*[a[m] for a, m in zip(at, inside, strict=True)])
        for row, number in zip(target, self._rect(i, "src").tolist(), strict=True):
            named = 0 if math.isnan(number) else min(max(number, 0), len(tensor) - 1)
            row[...] = converted(np.float32(i.scalar("pad")), format)
            row[np.ix_(*inside)] = recoded(tensor[int(named)][grid], format)

    def _chain(self, i: Instruction) -> None:
        x = self._rect(i, "src").copy()
        for k in range(CHAIN_STAGES):
            kind, fn = StageKind(i.get(f"stage{k}_kind")), i.get(f"stage{k}_fn")
            if kind is StageKind.UNARY:
                p0, p1 = i.scalar(f"stage{k}_p0"), i.scalar(f"stage{k}_p1")
                x = unary(fn, x, p0, p1)
            elif kind is not StageKind.NONE:
                side = self._rect(
                    i, "side0" if kind in (StageKind.WITH0, StageKind.FROM0) else "side1"
                )
                from_side = kind in (StageKind.FROM0, StageKind.FROM1)
                x = BinaryFn(fn).row.reference(*((side, x) if from_side else (x, side)))
        self._rect(i, "dst")[...] = x

    def _online(self, i: Instruction) -> None:
        src, dst = self._rect(i, "src"), self._rect(i, "dst")
        rows = i.get("size0")
        state = self._view(i, "state", [rows, 3], [i.get("state_stride0"), 1])
        continues = self._applies(i.get("accumulate"), i.get("k_level"), first=False)
        scores = np.float32(i.scalar("scale")) * src
        before = state[:, 0].copy() if continues else np.full(rows, -np.inf, np.float32)
        total = state[:, 1].copy() if continues else np.zeros(rows, np.float32)
        most = np.maximum(before, scores.max(axis=1))
        shift = np.where(most == -np.inf, np.float32(0), most)
        dst[...] = np.exp(scores - shift[:, None])
        factor = np.exp(before - shift)
        state[...] = np.stack([most, total * factor + dst.sum(axis=1), factor], axis=1)

    def _tiles(self, i: Instruction, name: str) -> np.ndarray:
        """An operand of a TRANSFORM; dimensions as its row has them."""
        if name == "bias":
            return self._view(i, name, [i.get("size4")], [1])
        matrix = TRANSFORMS[Transform(i.get("transform"))]
        rows = matrix.shape[1] if name == "src" else matrix.shape[0]
        sizes = [rows, rows, *(i.get(f"size{d}") for d in range(2, MAX_RANK))]
        return self._view(i, name, sizes, [i.get(f"{name}_stride{d}") for d in range(MAX_RANK)])

    def _transform(self, i: Instruction) -> None:
        matrix = TRANSFORMS[Transform(i.get("transform"))]
        src = self._tiles(i, "src").astype(np.float64)
        total = np.einsum("ip,jq,pqabc->ijabc", matrix, matrix, src).astype(np.float32)
        if i.get("biased"):
            total = total + self._tiles(i, "bias")
        if i.get("adds"):
            total = total + self._tiles(i, "r")
        self._tiles(i, "dst")[...] = unary(i.get("fn"), total, i.scalar("p0"), i.scalar("p1"))

    def _convert(self, i: Instruction) -> None:
        to, source = Format(i.get("dst_format")), Format(i.get("src_format"))
        self._rect(i, "dst", to)[...] = converted(
            self._rect(i, "src", source),
            to,
            i.scalar("scale"),
            bool(i.get("divide")),
            i.get("src_zero"),
            i.get("dst_zero"),
        )

    def _matmul(self, i: Instruction) -> None:
        m, n1, n0, k2, k1, k0 = (i.get(n) for n in ("m", "n1", "n0", "k2", "k1", "k0"))
        left, right = Format(i.get("a_format")), Format(i.get("b_format"))
        result = Format.FP32 if left in (Format.FP32, Format.BF16) else Format.INT32
        a = self._view(
            i, "a", [m, k2, k1, k0], [i.get(f"a_{d}") for d in ("m", "k2", "k1", "k0")], left
        ).reshape(m, -1)
        b = self._view(
            i,
            "b",
            [k2, k1, k0, n1, n0],
            [i.get(f"b_{d}") for d in ("k2", "k1", "k0", "n1", "n0")],
            right,
        ).reshape(k2 * k1 * k0, -1)
        rows = [m, n1, n0]
        c = self._view(i, "c", rows, [i.get(f"c_{d}") for d in ("m", "n1", "n0")], result)
        r = self._view(i, "r", rows, [i.get(f"r_{d}") for d in ("m", "n1", "n0")], result)
        level = i.get("k_level")
        own = c if self._applies(i.get("accumulate"), level, first=False) else None
        total = self._sums(i, a, b, None if own is None else own.reshape(m, -1)).reshape(rows)
        if self._applies(i.get("epilogue"), level, first=True):
            if i.scalar("scale") != 1:
                total = total * total.dtype.type(i.scalar("scale"))
            if i.get("bias_axis") == 1:
                total = total + self._view(i, "bias", [m, 1, 1], [1, 0, 0], result)
            elif i.get("bias_axis") == 2:
                total = total + self._view(i, "bias", [1, 1, n0], [0, 0, 1], result)
            if i.get("adds"):
                total = total + r
            total = unary(i.get("fn"), total, i.scalar("p0"), i.scalar("p1"))
        c[...] = total

    def _sums(
        self, i: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray | None
    ) -> np.ndarray:
        """c + a·b by rows and columns: bf16 in the order of the machine, integers modulo 2³²."""
        match Format(i.get("a_format")):
            case Format.FP32:
                total = a.astype(np.float64) @ b.astype(np.float64)
                return total if c is None else c + total
            case Format.BF16:
                return ordered_sums(a.astype(np.float32), b.astype(np.float32), c)
            case _:
                left, right = (
                    a.astype(np.int64) - i.get("a_zero"),
                    b.astype(np.int64) - i.get("b_zero"),
                )
                total = (left @ right).astype(np.int32)
                return total if c is None else c + total

    def _applies(self, when: int, level: int, first: bool) -> bool:
        if when != When.BY_LEVEL:
            return when == When.ALWAYS
        return self.index[level] == self.trips[level] - 1 if first else self.index[level] != 0

    def _reduce(self, i: Instruction) -> None:
        source = self._rect(i, "src")
        axes = tuple(
            d for d in range(MAX_RANK) if i.get(f"dst_stride{d}") == 0 and source.shape[d] > 1
        )
        fn = REDUCE[ReduceFn(i.get("fn"))]
        total = fn.reduce(source, axis=axes, keepdims=True) if axes else source.copy()
        sizes = list(total.shape)
        target = self._view(i, "dst", sizes, [i.get(f"dst_stride{d}") for d in range(MAX_RANK)])
        target[...] = fn(target, total) if i.get("accumulate") else total
