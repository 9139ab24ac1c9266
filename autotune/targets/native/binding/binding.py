"""Binds instructions to micro-kernels: generated for their constants, or the compiled ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autotune.errors import ProgramError
from autotune.isa.access import MATMUL_DIMENSIONS
from autotune.isa.fields import MAX_RANK, NO_LEVEL
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.isa.functions import ReduceFn, Transform, UnaryFn, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program, Role
from autotune.isa.tile import row_major
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.copy_elision import NO_READS, ElidedCopies, Reads
from autotune.targets.native.analysis.memory_access import MemoryAccess, accesses_of
from autotune.targets.native.analysis.rectangle import Rectangle
from autotune.targets.native.analysis.tree import Body, Leaf, Node
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.binding.narrow_packing import NarrowPacked
from autotune.targets.native.binding.narrow_panels import narrow_packed
from autotune.targets.native.binding.packing import GROWTH, Packed, packed
from autotune.targets.native.binding.residual_products import with_residual
from autotune.targets.native.binding.tile_runs import with_run
from autotune.targets.native.binding.vector_runs import ROUNDED, Piece, RunWriter, generable
from autotune.targets.native.binding.words import word_call
from autotune.targets.native.codegen.gemm.narrow_blocking import copied_product, narrow_panel_width
from autotune.targets.native.codegen.gemm.narrow_shape import BYTES, Factor, NarrowShape
from autotune.targets.native.codegen.gemm.panels import panel_width
from autotune.targets.native.codegen.gemm.shape import (
    BiasAxis,
    GemmShape,
    VectorAxis,
    vector_axis,
)
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.rows.reduction import Reduction
from autotune.targets.native.codegen.vector.vector_run import Load, Output, VectorRun
from autotune.targets.native.codegen.winograd import TileTransform
from autotune.targets.native.cpu.vector_isa import VectorIsa

FAR_BYTES = 32 << 20
"""As much as most CPUs' last caches hold: a core's part of it is less."""

WIDENED_ROWS = 16
"""Rows up to which 8-bit weights stay so in panels: each tile of rows widens them anew."""


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds the instructions of one stream, whose scratchpad only ``reads`` read. Without ``isa``
    nothing is generated."""

    program: Program
    elided: ElidedCopies
    isa: VectorIsa | None
    reads: Reads = NO_READS

    def calls(self, nodes: tuple[Node, ...]) -> dict[int, Call]:
        """The calls of all instructions that are not left out, by place."""
        found: dict[int, Call] = {}
        run, last, ahead = None, -1, None
        for node in nodes:
            leaf = node if isinstance(node, Leaf) else None
            if leaf is not None and leaf.place in self.elided.dropped:
                continue
            piece = self._piece(leaf) if leaf is not None else None
            if run is not None and (piece is None or not run.add(piece)):
                self._end_run(found, run, last, ahead)
                run = ahead = None
            if run is None and piece is not None:
                run = RunWriter(piece.sizes, self._isa)
                run = run if run.add(piece) else None
            if run is not None:
                last = piece.leaf.place if piece is not None else last
            elif isinstance(node, Body):
                found |= self.calls(node.nodes)
                ahead = None
            else:
                found[node.place] = self.bind(node)
                ahead = node
        if run is not None:
            self._end_run(found, run, last, ahead)
        return found

    def _end_run(
        self, found: dict[int, Call], run: RunWriter, last: int, ahead: Leaf | None
    ) -> None:
        """Add the call of a run at its ``last`` place, with the product at ``ahead`` if both are one."""
        call = self._called(run)
        joint = None
        if ahead is not None:
            given = found[ahead.place], ahead, run, call, self.reads
            joint = with_run(*given) or with_residual(*given)
            if joint is not None:
                del found[ahead.place]
        found[last] = joint or call

    def _called(self, run: RunWriter) -> Call:
        """The call of a run; of a reduction alone, that of its own code."""
        lone = run.lone
        return run.call(self.reads, self._far) if lone is None else self.bind(lone)

    @property
    def _isa(self) -> VectorIsa:
        assert self.isa is not None, "nothing is generated"
        return self.isa

    @property
    def _far(self) -> frozenset[int]:
        """Tensors larger than caches: who reads what is written there finds it in memory."""
        sizes = [tensor.format.bytes * prod(tensor.shape) for tensor in self.program.tensors]
        return frozenset(i for i, size in enumerate(sizes) if size >= FAR_BYTES)

    def _piece(self, leaf: Leaf) -> Piece | None:
        """An instruction that may join a run."""
        if self.isa is None or not generable(leaf.instruction):
            return None
        accesses = {access.operand: access for access in accesses_of(leaf)}
        return Piece(leaf, self._operands(accesses.values()), accesses)

    def _operands(self, accesses: Iterable[MemoryAccess]) -> dict[str, Operand]:
        return {t.operand: Operand.of(t, self.elided.place(t)) for t in accesses}

    def bind(self, leaf: Leaf) -> Call:
        """The call of one instruction."""
        accesses = accesses_of(leaf)
        operands = self._operands(accesses)
        if leaf.opcode is Opcode.LOAD and operands["dst"].format is not accesses[0].format:
            narrow = leaf.instruction.replace(format=operands["dst"].format)
            return word_call(replace(leaf, instruction=narrow), operands)
        elsewhere = {t.operand for t in accesses if _is_elsewhere(t, operands[t.operand])}
        if self.isa is not None and leaf.opcode is Opcode.MATMUL and _is_fp32(leaf):
            call = self._product(leaf, operands, self.isa)
            if any(operand.format is not Format.FP32 for operand in call.operands):
                raise NotConverted("MATMUL converts nothing but constants, as they are packed")
            return call
        if self.isa is not None and leaf.opcode is Opcode.MATMUL and _is_bf16(leaf, self.isa):
            found = self._narrow_product(leaf, operands, self.isa)
            if found is not None:
                return found
        if (
            self.isa is not None
            and leaf.opcode is Opcode.STORE
            and self._is_copy(accesses[0], operands)
        ):
            return self._copy(accesses[0], operands["src"], self.isa)
        if self.isa is not None and leaf.opcode is Opcode.REDUCE and _apart(accesses, operands):
            return _reduction(leaf, operands, self.isa)
        if elsewhere:
            raise NotConverted(f"{leaf.opcode.name} reads or writes fp32 in its own memory only")
        if self.isa is not None:
            if leaf.opcode is Opcode.MATMUL and _is_bytes(leaf):
                found = self._narrow_product(leaf, operands, self.isa)
                if found is not None:
                    return found
            if leaf.opcode is Opcode.TRANSFORM:
                return _transform(leaf, operands, self.isa)
        return word_call(leaf, operands)

    def _narrow_product(
        self, leaf: Leaf, operands: dict[str, Operand], isa: VectorIsa
    ) -> Call | None:
        """A product of bytes or bf16 whose factor in lanes is a constant; None for others. Of bf16 the constant
        goes into lanes, even where c is strided then."""
        plain = gemm_shape(leaf, operands)
        if _is_bf16(leaf, isa):
            lanes = VectorAxis(1 - self._is_constant(operands["a"]))
            plain = replace(plain, lanes=lanes, c_format=operands["c"].format)
        factor = "a" if vector_axis(plain) is VectorAxis.M else "b"
        constant = operands[factor]
        if factor == "b" and plain.n1 > 1:
            return None
        shape = narrow_shape(leaf, plain)
        if not self._is_constant(constant):
            copied = copied_product(shape, isa)
            if copied is None:
                return None
            places = tuple(operands[name] for name in plain.operands)
            return Call(KernelSpec(copied, isa), places, _trip(leaf, copied))
        tensor = self.program.tensors[constant.number]
        width = narrow_panel_width(shape, isa)
        shape = replace(shape, product=replace(shape.product, panel=width))
        panels = narrow_packed(shape, isa, constant.number, constant.at, leaf)
        if panels is None or panels.elements > _most_words(panels, prod(tensor.shape)):
            return None
        operands = {**operands, factor: Operand(Space.POOL, 0, panels.at)}
        places = tuple(operands[name] for name in shape.product.operands)
        return Call(KernelSpec(shape, isa), places, _trip(leaf, shape), packed=panels)

    def _is_constant(self, operand: Operand) -> bool:
        """Whether an operand lies in a constant tensor."""
        if operand.space is not Space.TENSOR:
            return False
        return self.program.tensors[operand.number].role is Role.CONSTANT

    def _is_copy(self, access: MemoryAccess, operands: dict[str, Operand]) -> bool:
        """Whether a STORE takes from a tensor of a format that runs read and write, or rounds all of its buffer."""
        rectangle = Rectangle.of(access.leaf, access, self.program.tensors)
        if operands["src"].space is Space.TENSOR:
            return (
                Format.BF16 not in (rectangle.format, operands["src"].format) or rectangle.converts
            )
        rounds = rectangle.format in ROUNDED and access.format is Format.FP32
        return rounds and rectangle.inside

    def _copy(self, access: MemoryAccess, source: Operand, isa: VectorIsa) -> Call:
        """A STORE that takes from a tensor: one copy, in whatever order of dimensions."""
        rectangle = Rectangle.of(access.leaf, access, self.program.tensors)
        strides, format = row_major(rectangle.shape), rectangle.format
        is_word = format.bytes == ELEMENT_BYTES
        run = VectorRun(
            tuple(n for n, _ in access.dims),
            (source.strides,),
            (Output(strides, 0),),
            (Load(0),),
            () if is_word else (source.format, format),
        )
        target = Operand(
            Space.TENSOR, rectangle.tensor, rectangle.first, None, strides, format.bytes, format
        )
        return Call(KernelSpec(run, isa), (source, target))

    def _product(self, leaf: Leaf, operands: dict[str, Operand], isa: VectorIsa) -> Call:
        shape = gemm_shape(leaf, operands)
        factor = "a" if vector_axis(shape) is VectorAxis.M else "b"
        constant = self._packed(leaf, shape, operands[factor], factor, isa)
        if constant is not None:
            shape = replace(shape, panel=constant.width, panel_format=constant.format)
            operands = {**operands, factor: Operand(Space.POOL, 0, constant.at)}
        numbers = (Affine.of(0, (leaf.instruction.get("k_level"), 1)),) if shape.numbers else ()
        return Call(
            KernelSpec(shape, isa),
            tuple(operands[name] for name in shape.operands),
            numbers,
            packed=constant,
        )

    def _packed(
        self, leaf: Leaf, shape: GemmShape, operand: Operand, factor: str, isa: VectorIsa
    ) -> Packed | None:
        """A constant factor in panels; None where it is none, or packing it is not possible."""
        if not self._is_constant(operand) or (factor == "b" and shape.n1 > 1):
            return None
        tensor = self.program.tensors[operand.number]
        names = ("m", "k2", "k1", "k0") if factor == "a" else ("n0", "k2", "k1", "k0")
        axes = tuple((getattr(shape, d), getattr(shape, f"{factor}_{d}")) for d in names)
        format = _panel_format(operand, shape, factor)
        width = panel_width(replace(shape, panel_format=format), isa)
        limit = prod(tensor.shape)
        return packed(leaf, operand.number, operand.at, axes, width, limit, format)


def _panel_format(operand: Operand, shape: GemmShape, factor: str) -> Format:
    """The format of a constant's panels: its own where few rows pass by it, which wait for memory."""
    rows = shape.n1 * shape.n0 if factor == "a" else shape.m
    return operand.format if rows <= WIDENED_ROWS else Format.FP32


class NotConverted(ProgramError):
    """An instruction that no run took was to convert: its operands have to be copied."""


def _is_elsewhere(access: MemoryAccess, operand: Operand) -> bool:
    """Whether an operand has another format than the instruction says."""
    return operand.format is not access.format


def gemm_shape(leaf: Leaf, operands: dict[str, Operand]) -> GemmShape:
    """The constants of a MATMUL with its operands where they live."""
    instruction = leaf.instruction
    epilogue = When(instruction.get("epilogue"))
    level = instruction.get("k_level")
    strides: dict[str, Any] = {
        f"{name}_{d}": stride
        for name, dims in MATMUL_DIMENSIONS.items()
        if name in operands
        for d, stride in zip(dims, operands[name].strides, strict=True)
    }
    sizes: dict[str, Any] = {d: instruction.get(d) for d in ("m", "n1", "n0", "k2", "k1", "k0")}
    return GemmShape(
        **sizes,
        **strides,
        accumulate=When(instruction.get("accumulate")),
        epilogue=epilogue,
        last=0 if level == NO_LEVEL else leaf.trips(level) - 1,
        bias=BiasAxis(instruction.get("bias_axis")),
        fn=UnaryFn(instruction.get("fn")),
        p0=instruction.scalar("p0"),
        p1=instruction.scalar("p1"),
        scale=instruction.scalar("scale"),
        adds=bool(instruction.get("adds")),
    )


def _apart(accesses: tuple[MemoryAccess, ...], operands: dict[str, Operand]) -> bool:
    """Whether the two operands of an instruction share no memory."""
    a, b = accesses
    first, second = operands[a.operand], operands[b.operand]
    if (first.space, first.number) != (second.space, second.number):
        return True
    return first.space is Space.SCRATCHPAD and not a.meets(b.low, b.high)


def _reduction(leaf: Leaf, operands: dict[str, Operand], isa: VectorIsa) -> Call:
    get = leaf.instruction.get
    dst, src = operands["dst"], operands["src"]
    sizes = tuple(get(f"size{d}") for d in range(MAX_RANK))
    fn, accumulate = ReduceFn(get("fn")), bool(get("accumulate"))
    formats = dst.format, src.format
    spec = Reduction(fn, sizes, dst.strides, src.strides, accumulate, formats)
    return Call(KernelSpec(spec, isa), (dst, src))


def tile_transform_of(
    instruction: Instruction, strides: Mapping[str, tuple[int, ...]]
) -> TileTransform:
    """The constants of a TRANSFORM whose operands, those that it has, lie at these strides."""
    get = instruction.get
    return TileTransform(
        Transform(get("transform")),
        (get("size2"), get("size3")),
        get("size4"),
        strides["src"],
        strides["dst"],
        strides.get("r", (0, 0, 0, 0, 0)),
        bool(get("biased")),
        bool(get("adds")),
        UnaryFn(get("fn")),
        instruction.scalar("p0"),
        instruction.scalar("p1"),
    )


def _transform(leaf: Leaf, operands: dict[str, Operand], isa: VectorIsa) -> Call:
    strides = {name: operand.strides for name, operand in operands.items()}
    spec = tile_transform_of(leaf.instruction, strides)
    return Call(KernelSpec(spec, isa), tuple(operands[name] for name in spec.operands))


def narrow_shape(leaf: Leaf, shape: GemmShape) -> NarrowShape:
    """The constants of a narrow MATMUL, whose form is ``shape``."""
    get = leaf.instruction.get
    a, b = (Factor(Format(get(f"{x}_format")), get(f"{x}_zero")) for x in ("a", "b"))
    return NarrowShape(replace(shape, panel=1), a, b)


def _trip(leaf: Leaf, shape: NarrowShape) -> tuple[Affine, ...]:
    """What the kernel goes by: the trip of the reduction loop, or nothing."""
    level = leaf.instruction.get("k_level")
    return (Affine.of(0, (level, 1)),) if shape.product.numbers else ()


def _most_words(panels: NarrowPacked, elements: int) -> int:
    """Words that a constant of so many bytes may take: tiles that overlap are packed apart."""
    return GROWTH * elements + panels.block_elements


def _is_bytes(leaf: Leaf) -> bool:
    get = leaf.instruction.get
    return all(Format(get(x)) in BYTES for x in ("a_format", "b_format"))


def _is_bf16(leaf: Leaf, isa: VectorIsa) -> bool:
    """Whether it multiplies bf16, and the instruction set does."""
    get = leaf.instruction.get
    return isa.halves is not None and get("a_format") == get("b_format") == Format.BF16


def _is_fp32(leaf: Leaf) -> bool:
    get = leaf.instruction.get
    return get("a_format") == Format.FP32 and get("b_format") == Format.FP32
