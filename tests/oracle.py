"""A plain numpy interpreter of tile programs, in program order: the oracle engines are tested by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import erf

from autotune.isa.program import Instruction, Program, Role
from autotune.isa.table import MAX_RANK, NO_LEVEL, BinaryFn, Opcode, ReduceFn, UnaryFn, When

UNARY = {
    UnaryFn.COPY: lambda x, p, q: x,
    UnaryFn.RELU: lambda x, p, q: np.maximum(x, 0),
    UnaryFn.LEAKY_RELU: lambda x, p, q: np.where(x < 0, p * x, x),
    UnaryFn.CLIP: np.clip,
    UnaryFn.SIGMOID: lambda x, p, q: 1 / (1 + np.exp(-x)),
    UnaryFn.TANH: lambda x, _p, _q: np.tanh(x),
    UnaryFn.ERF: lambda x, p, q: erf(x),
    UnaryFn.GELU: lambda x, p, q: x / 2 * (1 + erf(x / np.sqrt(2))),
    UnaryFn.GELU_TANH: lambda x, p, q: (
        x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    UnaryFn.EXP: lambda x, _p, _q: np.exp(x),
    UnaryFn.LOG: lambda x, p, q: np.log(x),
    UnaryFn.SQRT: lambda x, p, q: np.sqrt(x),
    UnaryFn.RSQRT: lambda x, p, q: 1 / np.sqrt(x),
    UnaryFn.RECIPROCAL: lambda x, p, q: 1 / x,
    UnaryFn.NEG: lambda x, p, q: -x,
    UnaryFn.ABS: lambda x, p, q: np.abs(x),
    UnaryFn.SQUARE: lambda x, p, q: x * x,
    UnaryFn.AFFINE: lambda x, p, q: p * x + q,
}
BINARY = {
    BinaryFn.ADD: np.add,
    BinaryFn.SUB: np.subtract,
    BinaryFn.MUL: np.multiply,
    BinaryFn.DIV: np.divide,
    BinaryFn.MAXIMUM: np.maximum,
    BinaryFn.MINIMUM: np.minimum,
    BinaryFn.POW: np.power,
}


class Interpreter:
    """Runs one program; ``touched`` collects nothing, only numbers matter here."""

    def __init__(self, program: Program, tensors: Mapping[str, np.ndarray]) -> None:
        self.program = program
        self.dram = [
            np.full(t.shape, np.nan, np.float32)
            if t.role is Role.OUTPUT
            else np.ascontiguousarray(tensors[t.name], np.float32).reshape(t.shape)
            for t in program.tensors
        ]

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

    def _view(self, i: Instruction, name: str, sizes: list[int], strides: list[int]) -> np.ndarray:
        address = i.get(f"{name}_base")
        for k in range(2):
            level = i.get(f"{name}_level{k}")
            if level != NO_LEVEL:
                address += i.get(f"{name}_step{k}") * self.index[level]
        turn = i.get(f"{name}_turn")
        if turn != NO_LEVEL:
            address += i.get(f"{name}_slot") * (self.count["level", turn] % 2)
        last = address + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        assert 0 <= address <= last < len(self.scratchpad)
        return np.lib.stride_tricks.as_strided(
            self.scratchpad[address:], sizes, [4 * s for s in strides]
        )

    def _rect(self, i: Instruction, name: str) -> np.ndarray:
        sizes = [i.get(f"size{d}") for d in range(MAX_RANK)]
        return self._view(i, name, sizes, [i.get(f"{name}_stride{d}") for d in range(MAX_RANK)])

    def _coordinates(self, i: Instruction) -> list[np.ndarray]:
        found = []
        for d in range(MAX_RANK):
            level = i.get(f"level{d}")
            first = i.get(f"coord{d}") + (
                i.get(f"step{d}") * self.index[level] if level != NO_LEVEL else 0
            )
            found.append(first + np.arange(i.get(f"size{d}")))
        return found

    def _execute(self, i: Instruction) -> None:
        with np.errstate(all="ignore"):
            match i.opcode:
                case Opcode.LOAD | Opcode.STORE:
                    self._dma(i)
                case Opcode.MATMUL:
                    self._matmul(i)
                case Opcode.UNARY:
                    fn = UNARY[UnaryFn(i.get("fn"))]
                    self._rect(i, "dst")[...] = fn(
                        self._rect(i, "src").copy(),
                        np.float32(i.scalar("p0")),
                        np.float32(i.scalar("p1")),
                    )
                case Opcode.BINARY:
                    fn = BINARY[BinaryFn(i.get("fn"))]
                    self._rect(i, "dst")[...] = fn(
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
                case _:
                    pass

    def _dma(self, i: Instruction) -> None:
        tensor = self.dram[i.get("tensor")]
        tensor = tensor.reshape(tensor.shape + (1,) * (MAX_RANK - tensor.ndim))
        at = self._coordinates(i)
        inside = [(a >= 0) & (a < n) for a, n in zip(at, tensor.shape, strict=True)]
        grid = np.ix_(*[a[m] for a, m in zip(at, inside, strict=True)])
        if i.opcode is Opcode.STORE:
            tensor[grid] = self._rect(i, "src")[np.ix_(*inside)]
            return
        target = self._rect(i, "dst")
        target[...] = i.scalar("pad")
        target[np.ix_(*inside)] = tensor[grid]

    def _matmul(self, i: Instruction) -> None:
        m, n1, n0, k2, k1, k0 = (i.get(n) for n in ("m", "n1", "n0", "k2", "k1", "k0"))
        a = self._view(i, "a", [m, k2, k1, k0], [i.get(f"a_{d}") for d in ("m", "k2", "k1", "k0")])
        b = self._view(
            i, "b", [k2, k1, k0, n1, n0], [i.get(f"b_{d}") for d in ("k2", "k1", "k0", "n1", "n0")]
        )
        c = self._view(i, "c", [m, n1, n0], [i.get(f"c_{d}") for d in ("m", "n1", "n0")])
        total = np.tensordot(a.astype(np.float64), b.astype(np.float64), 3)
        level = i.get("k_level")
        if self._applies(i.get("accumulate"), level, first=False):
            total = total + c
        if self._applies(i.get("epilogue"), level, first=True):
            if i.get("bias_axis") == 1:
                total = total + self._view(i, "bias", [m, 1, 1], [1, 0, 0])
            elif i.get("bias_axis") == 2:
                total = total + self._view(i, "bias", [1, 1, n0], [0, 0, 1])
            total = UNARY[UnaryFn(i.get("fn"))](total, i.scalar("p0"), i.scalar("p1"))
        c[...] = total

    def _applies(self, when: int, level: int, first: bool) -> bool:
        if when != When.BY_LEVEL:
            return when == When.ALWAYS
        return self.index[level] == self.trips[level] - 1 if first else self.index[level] != 0

    def _reduce(self, i: Instruction) -> None:
        source = self._rect(i, "src")
        axes = tuple(
            d for d in range(MAX_RANK) if i.get(f"dst_stride{d}") == 0 and source.shape[d] > 1
        )
        fn = np.add if i.get("fn") == ReduceFn.SUM else np.maximum
        total = fn.reduce(source, axis=axes, keepdims=True) if axes else source.copy()
        sizes = list(total.shape)
        target = self._view(i, "dst", sizes, [i.get(f"dst_stride{d}") for d in range(MAX_RANK)])
        target[...] = fn(target, total) if i.get("accumulate") else total
