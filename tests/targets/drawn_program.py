"""Drawn legal programs of every opcode: loops, cases, marks, semaphores, formats, several cores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from autotune.isa.fields import NO_LEVEL
from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, UnaryFn, When
from autotune.isa.notation import BLOCKS, LEVEL_POSITIONS
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program, Role, field_index
from autotune.isa.table import OPERANDS
from autotune.isa.verifier.proof import verify
from autotune.targets.spec import HardwareSpec
from tests.targets.machine_case import PLAIN, fill, make, tensor

WORDS = 4096
PARAMETER = 3
TENSORS = (
    tensor("x", 30, 70),
    tensor("h", 9, 8, 33, format=Format.BF16),
    tensor("q", 2000, format=Format.INT8),
    tensor("y", 30, 70, role=Role.OUTPUT),
    tensor("z", 3, 500, role=Role.OUTPUT, format=Format.INT8),
)


def _square(opcode: Opcode, number: int, name: str, **at: int) -> Instruction:
    """A DMA of a 5×20 rectangle."""
    return make(
        opcode, tensor=number, size0=5, size1=20,
        **{f"{name}_stride0": 20, f"{name}_stride1": 1, **at},
    )  # fmt: skip


def _product(**fields: int | float) -> Instruction:
    sizes = {"m": 9, "n0": 9, "k0": 9}
    strides = {"a_m": 9, "a_k0": 1, "b_k0": 9, "b_n0": 1, "c_base": 500, "c_m": 9, "c_n0": 1}
    return make(Opcode.MATMUL, **{**sizes, **strides, **fields})


def _dense(opcode: Opcode, count: int, *names: str, **fields: int | float) -> Instruction:
    rows = {f"{name}_stride4": 1 for name in names}
    return make(opcode, size4=count, **{**rows, **fields})


_CHAIN_STAGES = {
    "stage0_kind": StageKind.WITH0, "stage0_fn": BinaryFn.DIV,
    "stage1_kind": StageKind.UNARY, "stage1_fn": UnaryFn.EXP, "stage2_kind": StageKind.FROM1,
}  # fmt: skip
WORK = (
    _square(Opcode.LOAD, 0, "dst"),
    _square(Opcode.LOAD, 0, "dst", coord0=-3, coord1=55),
    _square(Opcode.LOAD, 0, "dst", dst_stride1=8, dst_stride0=160),
    make(Opcode.LOAD, tensor=1, size0=3, size1=2, size2=7, dst_stride0=14, dst_stride1=7,
         dst_stride2=1, coord2=30, format=int(Format.BF16)),
    make(Opcode.LOAD, tensor=2, size0=300, dst_stride0=1, coord0=-3, format=int(Format.INT8)),
    make(Opcode.LOAD, tensor=2, size0=40, dst_stride0=2),
    make(Opcode.GATHER, tensor=0, size0=4, size1=6, dst_stride0=6, dst_stride1=1, hop1=3, axis0=0,
         axis1=0, coord0=-2, coord1=66),
    make(Opcode.GATHER, tensor=1, size0=5, size1=3, size2=20, dst_stride0=60, dst_stride1=20,
         dst_stride2=1, axis0=2, axis1=0, axis2=1, hop1=-1, hop2=0, coord0=2, format=int(Format.INT8)),
    make(Opcode.GATHER, tensor=2, size0=50, dst_stride0=1, coord0=5000),
    _square(Opcode.STORE, 3, "src"),
    _square(Opcode.STORE, 3, "src", coord0=27, coord1=-30),
    make(Opcode.STORE, tensor=4, size0=2, size1=90, src_stride0=100, src_stride1=1, coord1=-8,
         format=int(Format.INT8)),
    _product(),
    _product(epilogue=int(When.ALWAYS), bias_axis=2, adds=1, r_m=9, r_n0=1, scale=0.5, fn=1,
             accumulate=int(When.ALWAYS)),
    _product(m=3, a_format=int(Format.BF16), b_format=int(Format.BF16)),
    _product(k1=3, a_k1=81, b_k1=81, a_format=int(Format.INT8), b_format=int(Format.UINT8), a_zero=-5),
    _dense(Opcode.UNARY, 90, "src", fn=int(UnaryFn.GELU), dst_base=600, dst_stride4=2),
    _dense(Opcode.BINARY, 61, "dst", "lhs", fn=int(BinaryFn.DIV), dst_base=900),
    _dense(Opcode.FMA, 17, "dst", "lhs", "rhs", dst_base=900),
    make(Opcode.REDUCE, fn=int(ReduceFn.MAX), size3=8, size4=9, src_stride3=1, src_stride4=8,
         dst_stride3=1, dst_base=1000, accumulate=1),
    fill(400, size4=33),
    make(Opcode.MASK, size3=4, size4=8, dst_stride3=8, dst_stride4=1, extent3=3, extent4=5),
    _dense(Opcode.CHAIN, 70, "dst", "src", "side0", side1_stride4=4,
           **{name: int(code) for name, code in _CHAIN_STAGES.items()}),
    make(Opcode.ONLINE, size0=3, size1=11, dst_stride0=11, dst_stride1=1, src_stride0=11,
         src_stride1=1, state_base=1200, state_stride0=3),
    make(Opcode.TRANSFORM, size2=2, size3=2, size4=5, src_stride0=50, src_stride1=5, src_stride2=200,
         src_stride3=20, src_stride4=1, dst_base=700, dst_stride0=120, dst_stride1=20, dst_stride2=10,
         dst_stride3=5, dst_stride4=1),
    make(Opcode.TRANSFORM, transform=1, size2=2, size4=9, src_stride0=108, src_stride1=18,
         src_stride2=9, src_stride4=1, dst_base=700, dst_stride0=36, dst_stride1=9, dst_stride2=144,
         dst_stride4=1, biased=1, bias_base=1300, adds=1, r_base=1000, r_stride1=9, r_stride4=1, fn=1),
    _dense(Opcode.CONVERT, 90, "dst", "src", dst_format=int(Format.INT8), scale=0.5, dst_zero=3),
    _dense(Opcode.CONVERT, 50, "dst", "src", src_format=int(Format.BF16), divide=1),
)  # fmt: skip
"""One or more of each opcode that a unit executes. Their operands lie below word 2048."""


@dataclass
class _Stream:
    """What has been drawn of one core's stream: credits by semaphore, and marks."""

    credits: list[int] = field(default_factory=lambda: [0])

    def semaphore(self, count: int) -> int:
        """A new one that starts with ``count``."""
        self.credits.append(count)
        return len(self.credits) - 1


def _moving(draw: st.DrawFn, one: Instruction, loops: tuple[int, ...]) -> Instruction:
    """Its first operand and its coordinates go by the loops around it."""
    if not loops:
        return one
    name = OPERANDS[one.opcode][0][0]
    level = st.sampled_from((*loops, NO_LEVEL))
    moves = {f"{name}_step0": draw(st.integers(0, 90)), f"{name}_level0": draw(level)}
    moves |= {f"{name}_slot": 700, f"{name}_turn": draw(level)}
    if one.opcode in (Opcode.LOAD, Opcode.STORE, Opcode.GATHER):
        moves |= {"step0": draw(st.integers(-4, 9)), "level0": draw(level)}
    if one.opcode in (Opcode.MATMUL, Opcode.ONLINE) and draw(st.booleans()):
        moves |= {"k_level": loops[-1], "accumulate": int(When.BY_LEVEL)}
        if one.opcode is Opcode.MATMUL:
            moves |= {"epilogue": int(When.BY_LEVEL)}
    return one.replace(**moves)


def _pair(draw: st.DrawFn, stream: _Stream, work: list[Instruction]) -> list[Instruction]:
    """One instruction waits for another, within a trip or across two."""
    a, b = draw(st.integers(0, len(work) - 1)), draw(st.integers(0, len(work) - 1))
    signals = [k for k in range(3) if not work[a].get(f"signal{k}")]
    waits = [k for k in range(3) if not work[b].get(f"wait{k}")]
    if not signals or not waits:
        return work
    semaphore = stream.semaphore(0 if a < b else draw(st.integers(1, 2)))
    forward = {"forward": 1} if work[a].opcode is Opcode.MATMUL and draw(st.booleans()) else {}
    work[a] = work[a].replace(**{f"signal{signals[0]}": semaphore, **forward})
    work[b] = work[b].replace(**{f"wait{waits[0]}": semaphore})
    return work


def _words(draw: st.DrawFn, stream: _Stream, body: list[Instruction | None]) -> None:
    """The same by words of their own, of any unit, the sequencer as well."""
    units = st.sampled_from(Unit).map(int)
    first = draw(st.booleans())
    semaphore = stream.semaphore(0 if first else 1)
    pair = [make(Opcode.SIGNAL, unit=draw(units), semaphore=semaphore),
            make(Opcode.WAIT, unit=draw(units), semaphore=semaphore)]  # fmt: skip
    places = sorted(draw(st.tuples(st.integers(0, len(body)), st.integers(0, len(body)))))
    for place, word in zip(reversed(places), pair[::-1] if first else pair, strict=True):
        body.insert(place, word)


def _body(
    draw: st.DrawFn, stream: _Stream, depth: int, loops: tuple[int, ...]
) -> list[Instruction]:
    work = [_moving(draw, one, loops) for one in draw(st.lists(st.sampled_from(WORK), max_size=4))]
    for _ in range(draw(st.integers(0, 3)) if work else 0):
        work = _pair(draw, stream, work)
    body: list[Instruction | None] = [*work]
    if draw(st.integers(0, 3)) == 0:
        _words(draw, stream, body)
    out: list[Instruction] = []
    for one in body:
        if one is not None:
            out.append(one)
        kind = draw(st.integers(0, 5))
        if kind == 0:
            out.append(make(Opcode.MARK, id=draw(st.integers(0, 2))))
        elif kind <= 2 and depth < 3:
            out += _block(draw, stream, depth, loops)
    return out


def _block(
    draw: st.DrawFn, stream: _Stream, depth: int, loops: tuple[int, ...]
) -> list[Instruction]:
    if draw(st.booleans()):
        begin = make(Opcode.LOOP, trips=draw(st.integers(1, 4)), level=depth)
        inner = (*loops, depth)
    else:
        low = draw(st.integers(-1, 2))
        begin = make(Opcode.CASE, parameter=PARAMETER, low=low, high=low + 1, level=depth)
        inner = loops
    return [begin, *_body(draw, stream, depth + 1, inner), make(Opcode.END, level=depth)]


@st.composite
def drawn_programs(draw: st.DrawFn, most_cores: int = 2) -> Program:
    """Verified; of one to ``most_cores`` different streams, with one parameter to dispatch on."""
    streams, credits = [], []
    for _ in range(draw(st.integers(1, most_cores))):
        stream = _Stream()
        body = _block(draw, stream, 0, ()) + _body(draw, stream, 0, ())
        streams.append((fill(0, size4=WORDS), *body, make(Opcode.HALT)))
        credits.append(tuple(stream.credits))
    program = Program("drawn", TENSORS, tuple(streams), tuple(credits), WORDS)
    verify(program)
    return program


VALUES = st.integers(-2, 4)
"""Of the parameter: some enter no case, some several."""


@st.composite
def machines(draw: st.DrawFn) -> HardwareSpec:
    """Any ports, dataflow, queues, channel latencies; two or three cores."""
    return replace(
        PLAIN,
        cores=draw(st.integers(2, 3)),
        matrix=replace(PLAIN.matrix, dataflow=draw(st.sampled_from(("os", "ws", "is")))),
        scratchpad=replace(PLAIN.scratchpad, ports=draw(st.integers(1, 4))),
        control=replace(
            PLAIN.control, dispatch_cycles=draw(st.sampled_from((0, 1, 9))),
            queue_depth=draw(st.integers(1, 4)),
        ),
        dram=replace(
            PLAIN.dram, bytes_per_cycle=draw(st.sampled_from((0.7, 8.0, 64.0))),
            precharge_cycles=draw(st.sampled_from((0, 7))),
            column_cycles=draw(st.sampled_from((0, 11))),
            turnaround_cycles=draw(st.sampled_from((0, 5))),
            setup_cycles=draw(st.sampled_from((0, 20))),
        ),
    )  # fmt: skip


def specialised(program: Program, value: int) -> Program:
    """Without its cases: bodies that the value enters stay, the others go."""
    streams = tuple(tuple(_specialised(stream, value)) for stream in program.streams)
    return replace(program, streams=streams)


def _specialised(stream: tuple[Instruction, ...], value: int) -> list[Instruction]:
    out: list[Instruction] = []
    open_cases: list[bool] = []  # per open block, whether it is a case
    left_out = 0
    for one in stream:
        if one.opcode in BLOCKS:
            is_case = one.opcode is Opcode.CASE
            open_cases.append(is_case)
            enters = not is_case or one.get("low") <= value <= one.get("high")
            left_out += bool(left_out) or not enters
        keeps = not left_out and one.opcode is not Opcode.CASE
        if keeps and not (one.opcode is Opcode.END and open_cases[-1]):
            out.append(_lowered(one, open_cases))
        if one.opcode is Opcode.END:
            open_cases.pop()
            left_out -= bool(left_out)
    return out


def _lowered(one: Instruction, open_cases: list[bool]) -> Instruction:
    """With the levels that its loops have without the cases around them."""
    values = list(one.values)
    own = [field_index(one.opcode)["level"]] if one.opcode in (Opcode.LOOP, Opcode.END) else []
    for position in (*LEVEL_POSITIONS[one.opcode], *own):
        level = int(values[position])
        if level != NO_LEVEL:
            values[position] = level - sum(open_cases[:level])
    return Instruction(tuple(values))
