"""Valid programs that mutations begin from: one or more by hand for every opcode, and lowered ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError, ScheduleError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, Transform, UnaryFn, When
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.isa.verifier.proof import verify
from autotune.lowering.lower import lower
from autotune.targets.opening import load_spec
from tests.drawn_graphs import graphs, schedules
from tests.targets.machine_case import every_format

make = Instruction.make
LOWERED = 24
SHORT = 60
"""Instructions of a lowered program at most, so that a mutation hits what matters."""
X = DramTensor("x", (6, 9, 10), Role.INPUT)
W = DramTensor("w", (8, 8), Role.CONSTANT, Format.INT8)
H = DramTensor("h", (7, 12), Role.INPUT, Format.BF16)
Y = DramTensor("y", (6, 9, 10), Role.OUTPUT)
Z = DramTensor("z", (8, 12), Role.OUTPUT, Format.UINT8)
TENSORS = (X, W, H, Y, Z)


def _loop(trips: int, *body: Instruction, level: int = 0) -> tuple[Instruction, ...]:
    return (make(Opcode.LOOP, trips=trips, level=level), *body, make(Opcode.END, level=level))


def _fill(words: int, **fields: int | float) -> Instruction:
    given = {"dst_base": 0, "size3": words, "dst_stride3": 1, "p0": 0.5}
    return make(Opcode.FILL, **{**given, **fields})


def _tight(name: str, *stream: Instruction, credits: tuple[int, ...] = ()) -> Program:
    """The stream in the smallest scratchpad that it fits."""
    low, high = 0, 1 << 16
    program = Program(name, TENSORS, ((*stream, make(Opcode.HALT)),), (credits,), high)
    verify(program)
    return tightened(program, low, high)


def tightened(program: Program, low: int, high: int) -> Program:
    """In the smallest scratchpad in [low, high] that the verifier accepts; it accepts ``high``."""
    while low < high:
        middle = (low + high) // 2
        try:
            verify(replace(program, scratchpad_elements=middle))
            high = middle
        except ProgramError:
            low = middle + 1
    return replace(program, scratchpad_elements=high)


def _transfers() -> Program:
    load = make(
        Opcode.LOAD, tensor=0, dst_base=5, dst_slot=200, dst_turn=0, size0=2, size1=5, size2=10, dst_stride0=70,
        dst_stride1=12, dst_stride2=1, coord0=-1, step0=2, level0=0, coord1=3, step1=4, level1=1, pad=-1.0, signal0=1,
    )  # fmt: skip
    store = make(
        Opcode.STORE, tensor=3, src_base=5, src_slot=200, src_turn=0, size0=2, size1=5, size2=10, src_stride0=70,
        src_stride1=12, src_stride2=1, coord0=-1, step0=2, level0=0, coord1=3, step1=4, level1=1, wait0=1, signal0=2,
    )  # fmt: skip
    wait = make(Opcode.WAIT, unit=int(Unit.LOAD), semaphore=2)
    again = make(
        Opcode.LOAD,
        tensor=3,
        dst_base=401,
        size0=6,
        size1=9,
        size2=10,
        dst_stride0=90,
        dst_stride1=10,
        dst_stride2=1,
    )
    inner = _loop(2, wait, load, store, level=1)
    return _tight("transfers", _fill(400), *_loop(4, *inner), again, credits=(0, 0, 1))


def _narrow_transfers() -> Program:
    words = []
    for number, tensor in enumerate((X, W, H)):
        for form in Format:
            size = {f"size{d}": n for d, n in enumerate(tensor.shape)}
            words.append(
                make(
                    Opcode.LOAD, tensor=number, format=int(form), dst_base=16 * number, **size,
                    **{f"dst_stride{d}": (90, 10, 1)[d + 3 - len(tensor.shape)] for d in range(len(tensor.shape))}
                )
            )  # fmt: skip
    for form in Format:
        words.append(
            make(
                Opcode.STORE,
                tensor=4,
                format=int(form),
                size0=8,
                size1=12,
                src_stride0=12,
                src_stride1=1,
            )
        )
    return _tight("narrow_transfers", *words)


def _gather() -> Program:
    im2col = make(
        Opcode.GATHER, tensor=0, dst_base=3, size0=3, size1=3, size2=7, size3=8, size4=2, dst_stride0=3, dst_stride1=1,
        dst_stride2=144, dst_stride3=18, dst_stride4=9, axis0=1, axis1=2, axis2=1, axis3=2, axis4=0, coord0=0, step0=2,
        level0=0, coord1=-1, coord2=-1, pad=-7.0,
    )  # fmt: skip
    flipped = make(
        Opcode.GATHER, tensor=2, format=int(Format.INT8), size0=7, size1=12, dst_stride0=12, dst_stride1=1,
        axis0=0, hop0=-1, axis1=1, hop1=2, coord0=6, pad=3.0,
    )  # fmt: skip
    repeated = make(
        Opcode.GATHER, tensor=1, size0=4, size1=8, dst_stride0=8, dst_stride1=1, hop0=0, axis1=1
    )
    return _tight("gather", *_loop(3, im2col, flipped, repeated))


def _lookup() -> Program:
    """Rows of an image chosen by numbers of any kind: fractions, below the first, behind the last."""
    numbers = make(Opcode.LOAD, tensor=0, size0=1, size1=1, size2=4, dst_stride2=1, signal0=1)
    rows = make(
        Opcode.LOOKUP, tensor=0, dst_base=4, src_base=0, size0=4, size1=3, size2=5, dst_stride0=15, dst_stride1=5,
        dst_stride2=1, src_stride0=1, coord1=-1, step1=2, level1=0, coord2=7, pad=-7.0,
    )  # fmt: skip
    narrow = make(
        Opcode.LOOKUP, tensor=1, format=int(Format.INT8), dst_base=64, src_base=0, size0=3, size1=8, dst_stride0=8,
        dst_stride1=1, src_stride0=1,
    )  # fmt: skip
    wait = make(Opcode.WAIT, unit=int(Unit.LOAD), semaphore=1)
    return _tight("lookup", numbers, wait, *_loop(3, rows), narrow)


def _vector() -> Program:
    rect = {"size0": 3, "size2": 4, "size4": 5}
    dst = {"dst_base": 20, "dst_stride0": 20, "dst_stride2": 5, "dst_stride4": 1}
    rows = {"stride0": 20, "stride2": 5, "stride4": 1}
    words = [
        make(Opcode.UNARY, **rect, **dst, fn=int(UnaryFn.AFFINE), p0=2.0, p1=1.0, **_named("src", rows)),
        make(Opcode.UNARY, **rect, **dst, fn=int(UnaryFn.EXP), **_named("src", rows)),
        make(Opcode.BINARY, **rect, **dst, fn=int(BinaryFn.DIV), **_named("lhs", rows), rhs_base=90, rhs_stride4=2),
        make(Opcode.FMA, **rect, **dst, lhs_base=7, **_named("lhs", rows), rhs_stride0=1),
        make(Opcode.REDUCE, **rect, dst_base=100, dst_stride2=1, fn=int(ReduceFn.SUM), **_named("src", rows)),
        make(Opcode.REDUCE, **rect, dst_base=100, dst_stride0=1, fn=int(ReduceFn.MAX), accumulate=1, **_named("src", rows)),
        make(Opcode.MASK, **rect, **dst, coord0=-1, step0=1, level0=0, coord4=2, extent0=2, extent2=3, extent4=6, p0=-9.0),
    ]  # fmt: skip
    return _tight(
        "vector", _fill(120), make(Opcode.MARK, id=3), *_loop(3, *words), make(Opcode.MARK, id=9)
    )


def _named(operand: str, strides: dict[str, int]) -> dict[str, int]:
    return {f"{operand}_{name}": stride for name, stride in strides.items()}


def _chain() -> Program:
    stages = {
        "stage0_kind": int(StageKind.WITH0), "stage0_fn": int(BinaryFn.ADD),
        "stage1_kind": int(StageKind.UNARY), "stage1_fn": int(UnaryFn.CLIP), "stage1_p1": 6.0,
        "stage2_kind": int(StageKind.FROM1), "stage2_fn": int(BinaryFn.SUB),
        "stage3_kind": int(StageKind.WITH0), "stage3_fn": int(BinaryFn.MUL),
    }  # fmt: skip
    chain = make(
        Opcode.CHAIN, size1=6, size4=11, dst_base=200, dst_stride1=11, dst_stride4=1, dst_step0=70, dst_level0=0,
        src_stride1=11, src_stride4=1, side0_base=70, side0_stride1=1, side1_base=90, side1_stride4=3, **stages,
    )  # fmt: skip
    return _tight("chain", _fill(200), *_loop(2, chain, chain.replace(src_base=3, side1_stride4=1)))


def _online() -> Program:
    online = make(
        Opcode.ONLINE, size0=5, size1=7, dst_base=100, dst_stride0=7, dst_stride1=1, src_stride0=8, src_stride1=1,
        src_step0=40, src_level0=1, state_base=150, state_stride0=3, accumulate=int(When.BY_LEVEL), k_level=1, scale=0.5,
    )  # fmt: skip
    return _tight("online", _fill(100), *_loop(2, *_loop(2, online, level=1)))


def _transform() -> Program:
    there = make(
        Opcode.TRANSFORM, size2=2, size3=2, size4=3, src_stride0=30, src_stride1=3, src_stride2=120, src_stride3=12,
        src_stride4=1, src_step0=3, src_level0=0, dst_base=310, dst_stride0=72, dst_stride1=12, dst_stride2=6,
        dst_stride3=3, dst_stride4=1,
    )  # fmt: skip
    back = make(
        Opcode.TRANSFORM, transform=int(Transform.F4_OUTPUT), size2=2, size3=2, size4=3, src_base=310, src_stride0=72,
        src_stride1=12, src_stride2=6, src_stride3=3, src_stride4=1, dst_stride0=24, dst_stride1=3, dst_stride2=96,
        dst_stride3=12, dst_stride4=1, biased=1, bias_base=780, adds=1, r_base=700, r_stride1=2, r_stride4=1,
        fn=int(UnaryFn.CLIP), p0=-1.0, p1=6.0,
    )  # fmt: skip
    small = make(
        Opcode.TRANSFORM, transform=int(Transform.F2_OUTPUT), size2=2, size3=2, size4=3, src_base=310, src_stride0=48,
        src_stride1=12, src_stride2=6, src_stride3=3, src_stride4=1, dst_stride0=12, dst_stride1=3, dst_stride2=24,
        dst_stride3=6, dst_stride4=1,
    )  # fmt: skip
    return _tight("transform", _fill(800), *_loop(2, there, back, small))


def _convert() -> Program:
    words = [
        make(
            Opcode.CONVERT, size0=5, size4=9, dst_base=300, dst_stride0=9, dst_stride4=1, src_base=7, src_stride0=10,
            src_stride4=1, dst_format=int(to), src_format=int(source), scale=0.25, divide=(to + source) % 2,
            dst_zero=0 if to.is_float else 3, src_zero=0 if source.is_float else -5,
        )
        for to in Format
        for source in Format
    ]  # fmt: skip
    return _tight("convert", _fill(400), *words)


MATMUL = {
    "m": 5, "n1": 2, "n0": 9, "k2": 2, "k1": 3, "k0": 7, "a_m": 42, "a_k2": 21, "a_k1": 7, "a_k0": 1, "b_base": 220,
    "b_k2": 378, "b_k1": 126, "b_k0": 18, "b_n1": 9, "b_n0": 1, "c_base": 1000, "c_m": 18, "c_n1": 9, "c_n0": 1,
}  # fmt: skip


def _matmul() -> Program:
    product = make(
        Opcode.MATMUL, **MATMUL, accumulate=int(When.BY_LEVEL), epilogue=int(When.BY_LEVEL), k_level=0, bias_axis=2,
        bias_base=3, fn=int(UnaryFn.CLIP), p0=-1.0, p1=6.0, scale=0.5, adds=1, r_base=1100, r_m=18, r_n1=9, r_n0=1,
        forward=1, signal0=4,
    )  # fmt: skip
    relu = make(
        Opcode.CHAIN, size0=90, dst_base=1000, dst_stride0=1, src_base=1000, src_stride0=1, stage0_kind=int(StageKind.UNARY),
        stage0_fn=int(UnaryFn.RELU), wait0=4,
    )  # fmt: skip
    rows = product.replace(
        accumulate=int(When.ALWAYS), epilogue=int(When.ALWAYS), bias_axis=1, b_n0=2, adds=0
    )
    return _tight("matmul", _fill(1200), *_loop(3, product, relu, rows, relu))


def _narrow_matmul() -> Program:
    bf16 = {"a_format": int(Format.BF16), "b_format": int(Format.BF16)}
    words = [
        make(
            Opcode.MATMUL,
            **MATMUL,
            **bf16,
            epilogue=1,
            bias_axis=2,
            bias_base=1000,
            fn=int(UnaryFn.LEAKY_RELU),
        )
    ]
    for a, b in (
        (Format.INT8, Format.INT8),
        (Format.UINT8, Format.INT8),
        (Format.UINT8, Format.UINT8),
    ):
        words.append(
            make(
                Opcode.MATMUL, **MATMUL, a_format=int(a), b_format=int(b), a_zero=3, b_zero=-128, adds=1, r_base=900, r_m=18,
                r_n1=9, r_n0=1, epilogue=1, accumulate=1, fn=int(UnaryFn.RELU), bias_axis=1,
            )
        )  # fmt: skip
    return _tight("narrow_matmul", _fill(1200), *words)


def _cases() -> Program:
    def case(
        low: int, high: int, *body: Instruction, level: int, parameter: int = 7
    ) -> tuple[Instruction, ...]:
        begin = make(Opcode.CASE, parameter=parameter, low=low, high=high, level=level)
        return (begin, *body, make(Opcode.END, level=level))

    take = make(Opcode.WAIT, unit=int(Unit.CONTROL), semaphore=9)
    give = make(Opcode.SIGNAL, unit=int(Unit.VECTOR), semaphore=9)
    copy = make(
        Opcode.UNARY, size0=8, dst_base=8, dst_stride0=1, src_stride0=1, dst_step1=4, dst_level1=0
    )
    deep = _loop(2, *case(0, 3, copy, level=2, parameter=255), give, take, level=1)
    return _tight(
        "cases",
        _fill(32),
        *_loop(3, *case(-1, 1, copy, level=1), *deep),
        *case(2, 5, copy.replace(dst_level1=15), level=0),
    )


def _two_cores() -> Program:
    one = _chain()
    return replace(one, name="two_cores", streams=one.streams * 2, credits=((), (0, 0, 0)))


@cache
def lowered() -> tuple[Program, ...]:
    """Programs of random groups and schedules; the same in every run."""
    spec = replace(every_format(load_spec("server")), cores=2)
    found: list[Program] = []

    @seed(11)
    @settings(
        max_examples=3 * LOWERED,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        graph = data.draw(graphs(max_ops=3))
        group = Group.from_graph(graph, [op.name for op in graph.ops])
        nests = analyse(group)
        if isinstance(nests, Rejection):
            return
        try:
            program = lower(group, data.draw(schedules(nests)), spec)
        except ScheduleError:
            return
        if sum(map(len, program.streams)) <= SHORT and program.scratchpad_elements <= 1 << 14:
            found.append(program)

    collect()
    return tuple(found[:LOWERED])


@cache
def corpus() -> tuple[Program, ...]:
    """All of them."""
    by_hand = (
        _transfers, _narrow_transfers, _gather, _lookup, _vector, _chain, _online, _transform, _convert, _matmul, _narrow_matmul, _cases, _two_cores,
    )  # fmt: skip
    return (*(make_one() for make_one in by_hand), *lowered())
