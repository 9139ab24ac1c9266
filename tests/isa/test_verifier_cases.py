"""The verifier on dispatch, gathers, chains and online softmax: each new refusal, each licence."""

from itertools import product

import numpy as np
import pytest

from autotune.errors import ProgramError
from autotune.isa.assembly import disassemble
from autotune.isa.functions import BinaryFn, StageKind, UnaryFn, When
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.isa.verifier.proof import verify
from tests.isa.isa_case import elements

make = Instruction.make
HALT = make(Opcode.HALT)
TENSORS = (
    DramTensor("x", (8, 8), Role.INPUT),
    DramTensor("y", (8, 8), Role.OUTPUT),
    DramTensor("z", (8, 8, 8, 8, 8), Role.INPUT),
)


def small(*stream: Instruction, elements: int = 64) -> Program:
    return Program("small", TENSORS, ((*stream, HALT),), ((0, 1),), elements)


def refused(program: Program, reason: str) -> None:
    with pytest.raises(ProgramError, match=reason):
        verify(program)


def fill(base: int, words: int = 1) -> Instruction:
    return make(Opcode.FILL, dst_base=base, size0=words, dst_stride0=1)


def copy(dst: int, src: int, **fields: int) -> Instruction:
    return make(Opcode.UNARY, dst_base=dst, src_base=src, **fields)


def case(*body: Instruction, level: int = 0, **fields: int) -> tuple[Instruction, ...]:
    bounds = {"low": 1, "high": 4, "level": level, **fields}
    return (make(Opcode.CASE, **bounds), *body, make(Opcode.END, level=level))


def loop(*body: Instruction, trips: int = 3, level: int = 0) -> tuple[Instruction, ...]:
    return (
        make(Opcode.LOOP, trips=trips, level=level), *body, make(Opcode.END, level=level)
    )  # fmt: skip


def test_a_case_encloses_its_body_like_a_loop_of_one_trip() -> None:
    moved = {"dst_step0": 1000, "dst_level0": 0, "dst_slot": 3, "dst_turn": 0}
    verify(small(*case(fill(60).replace(**moved))))
    verify(small(*case(*loop(*case(fill(0), level=2), level=1))))
    refused(small(fill(60).replace(**moved)), "dst_level0 0 is not a loop around it")


def test_an_empty_range_of_a_case_is_refused() -> None:
    verify(small(*case(low=-3, high=-3)))
    refused(small(*case(low=4, high=3)), "enters from 4 to 3, hence never")


def test_cases_nest_by_their_level_and_are_closed() -> None:
    refused(small(*case(level=1)), "level 1 inside of 0 loops and cases; it must be 0")
    refused(small(*case()[:1]), "1 loops or cases are open at HALT")
    refused(
        small(*case()[:1], make(Opcode.END, level=1)), "level 1 closes the loop or case of level 0"
    )
    begins = [make(Opcode.CASE, level=n) for n in range(14)]
    refused(
        small(*begins, make(Opcode.LOOP, level=14, trips=1)), "nested deeper than 14 loops and cas"
    )


def test_the_body_of_a_case_changes_no_semaphore() -> None:
    take, give = (make(op, unit=int(Unit.LOAD), semaphore=1) for op in (Opcode.WAIT, Opcode.SIGNAL))
    verify(small(*case(take, give)))
    refused(small(*case(take), give), "the body changes semaphore 1 by -1")
    refused(small(take, *case(give)), r"the body changes semaphore 1 by \+1")


def test_what_a_case_writes_counts_inside_of_it_alone() -> None:
    verify(small(*case(fill(0), copy(1, 0))))
    refused(small(*case(fill(0)), copy(1, 0)), "src reads elements 0 to 0, which nothing")
    refused(small(*case(fill(0)), *case(copy(1, 0))), "src reads elements 0 to 0, which nothing")
    refused(small(*case(*case(fill(0), level=1), copy(1, 0))), "src reads elements 0 to 0")
    verify(small(fill(0), *case(fill(0)), copy(1, 0)))


def test_a_case_in_a_loop_reads_what_its_own_earlier_trips_wrote() -> None:
    walk = {"dst_step0": 1, "dst_level0": 0, "src_step0": 1, "src_level0": 0}
    step = copy(1, 0, **walk)
    verify(small(fill(0), *loop(*case(step, level=1))))
    refused(small(fill(0), *loop(*case(step.replace(dst_base=9), level=1))), "src reads element 2")
    supply = fill(0).replace(dst_step0=1, dst_level0=0)
    reads = copy(9, 0, src_step0=1, src_level0=0)
    verify(small(fill(0), *loop(*case(reads, level=1), supply)))
    refused(small(fill(0), *loop(reads, *case(supply, level=1))), "src reads element 2")


def test_a_store_in_a_case_makes_no_later_load_legal() -> None:
    store, load = make(Opcode.STORE, tensor=1), make(Opcode.LOAD, tensor=1)
    verify(small(fill(0), *case(store, load)))
    verify(small(fill(0), store, *case(load)))
    refused(small(fill(0), *case(store), load), "loads output 'y' before anything is stored")


def switched(rng: np.random.Generator, depth: int, names: list[int]) -> list[Instruction]:
    """A tree of loops, cases (each by a parameter of its own), fills and copies."""
    out: list[Instruction] = []
    for _ in range(rng.integers(1, 4)):
        choice = rng.random() if depth < 3 else 1.0
        if choice < 0.3:
            out += loop(
                *switched(rng, depth + 1, names), trips=int(rng.integers(1, 4)), level=depth
            )
        elif choice < 0.5 and len(names) < 4:
            names.append(len(names))
            parameter = names[-1]
            out += case(*switched(rng, depth + 1, names), level=depth, parameter=parameter)
        else:
            out.append(word(rng, depth))
    return out


def word(rng: np.random.Generator, depth: int) -> Instruction:
    opcode = Opcode.FILL if rng.random() < 0.5 else Opcode.UNARY
    fields = {"size0": int(rng.integers(1, 4))}
    for name in ("dst", "src")[: 1 + (opcode is Opcode.UNARY)]:
        fields |= {f"{name}_base": int(rng.integers(0, 5)), f"{name}_stride0": 1}
        if depth and rng.random() < 0.7:
            fields |= {
                f"{name}_step0": int(rng.integers(0, 3)),
                f"{name}_level0": int(rng.integers(depth)),
            }
    return make(opcode, **fields)


def reads_only_written(stream: list[Instruction], entered: tuple[bool, ...]) -> bool:
    """Runs the stream with these cases entered; whether every element read was written."""
    index, written = [0] * 15, set()

    def run(at: int, stop: int) -> bool:
        while at < stop:
            word = stream[at]
            if word.opcode in (Opcode.LOOP, Opcode.CASE):
                level = word.get("level")
                close = next(
                    i for i in range(at, stop)
                    if stream[i].opcode is Opcode.END and stream[i].get("level") == level
                )  # fmt: skip
                is_loop = word.opcode is Opcode.LOOP
                trips = word.get("trips") if is_loop else entered[word.get("parameter")]
                for trip in range(trips):
                    index[level] = trip
                    if not run(at + 1, close):
                        return False
                at = close
            else:
                reads = (
                    elements(word, "src", index, index) if word.opcode is Opcode.UNARY else set()
                )
                if not reads <= written:
                    return False
                written.update(elements(word, "dst", index, index))
            at += 1
        return True

    return run(0, len(stream))


def test_no_program_that_writes_all_it_reads_whatever_its_cases_do_is_refused() -> None:
    rng = np.random.default_rng(23)
    clean = refusals = 0
    for _ in range(2500):
        names: list[int] = []
        stream = switched(rng, 0, names)
        program = small(*stream)
        reason = ""
        try:
            verify(program)
        except ProgramError as error:
            reason = str(error)
        refusals += reason != ""
        ways = product((False, True), repeat=len(names))
        if names and all(reads_only_written(stream, way) for way in ways):
            clean += 1
            assert not reason, f"{reason}\n{disassemble(program)}"
    assert clean > 100 and refusals > 300


def test_a_gather_runs_along_the_dimensions_of_its_tensor() -> None:
    patches = {f"size{d}": 2 for d in range(5)}
    axes = {"axis0": 0, "axis1": 1, "axis2": 0, "axis3": 1, "axis4": 0}
    verify(small(make(Opcode.GATHER, **patches, **axes)))
    verify(small(make(Opcode.GATHER, size0=2, axis3=4)))
    verify(small(make(Opcode.GATHER, tensor=2, **patches)))
    refused(
        small(make(Opcode.GATHER, size2=2)), "dimension 2 of size 2 runs along dimension 2 of a ten"
    )
    for axis in (5, 7):
        word = make(Opcode.GATHER, tensor=2, axis1=axis)
        refused(small(word), rf"axis1 {axis} is not one of \[0, 1, 2, 3, 4\]")


@pytest.mark.parametrize("fields", [{"coord2": 1}, {"step4": 1}, {"coord3": -1}])
def test_a_gather_begins_within_the_rank_of_its_tensor(fields) -> None:
    verify(small(make(Opcode.GATHER, tensor=2, **fields)))
    refused(
        small(make(Opcode.GATHER, **fields)), "rank 2; dimensions from 2 on must have coordinate"
    )


def test_a_gather_obeys_the_roles_like_a_load() -> None:
    refused(small(make(Opcode.GATHER, tensor=1)), "loads output 'y' before anything is stored")
    refused(small(make(Opcode.GATHER, tensor=3)), "tensor 3 of 3")
    verify(small(fill(0), make(Opcode.STORE, tensor=1), make(Opcode.GATHER, tensor=1)))


CHAIN = {"dst_base": 1, "src_base": 0, "side0_base": 2, "side1_base": 3}


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("kind", StageKind)
def test_a_chain_reads_a_side_only_if_a_stage_uses_it(kind, stage) -> None:
    chain = make(Opcode.CHAIN, **CHAIN, **{f"stage{stage}_kind": int(kind)})
    uses = {StageKind.WITH0: 2, StageKind.FROM0: 2, StageKind.WITH1: 3, StageKind.FROM1: 3}
    if kind in uses:
        refused(small(fill(0), chain), f"side{uses[kind] - 2} reads elements {uses[kind]} to")
        verify(small(fill(0), fill(uses[kind]), chain))
    else:
        verify(small(fill(0), chain))


@pytest.mark.parametrize(
    ("kind", "fn", "accepted"),
    [
        (StageKind.NONE, 0, True),
        (StageKind.NONE, 63, True),
        (StageKind.UNARY, max(UnaryFn), True),
        (StageKind.UNARY, max(UnaryFn) + 1, False),
        *((kind, max(BinaryFn), True) for kind in list(StageKind)[2:]),
        *((kind, max(BinaryFn) + 1, False) for kind in list(StageKind)[2:]),
    ],
)
def test_a_stage_knows_the_functions_of_its_kind(kind, fn, accepted) -> None:
    chain = make(Opcode.CHAIN, **CHAIN, stage2_kind=int(kind), stage2_fn=int(fn))
    if accepted:
        verify(small(fill(0, 4), chain))
    else:
        refused(small(fill(0, 4), chain), f"stage2_fn {fn} is not one of .* {kind.name} knows")


def test_an_unknown_stage_kind_is_refused() -> None:
    chain = make(Opcode.CHAIN, **CHAIN, stage1_kind=6)
    refused(small(fill(0, 4), chain), r"stage1_kind 6 is not one of \[0, 1, 2, 3, 4, 5\]")


ONLINE = {"size0": 2, "size1": 4, "src_stride0": 4, "src_stride1": 1, "state_base": 58}
ONLINE |= {"dst_stride0": 4, "dst_stride1": 1, "state_stride0": 3}


def test_online_softmax_writes_three_words_per_row() -> None:
    verify(small(fill(0, 8), make(Opcode.ONLINE, **ONLINE)))
    far = make(Opcode.ONLINE, **ONLINE | {"state_stride0": 4})
    refused(small(fill(0, 8), far), "state reaches elements 58 to 64")
    reads = copy(0, 58, size0=6, src_stride0=1)
    verify(small(fill(0, 8), make(Opcode.ONLINE, **ONLINE), reads))


def test_online_softmax_reads_its_state_first_when_it_always_continues() -> None:
    anew, ever = (make(Opcode.ONLINE, **ONLINE, accumulate=int(w)) for w in (When(0), When(1)))
    refused(small(fill(0, 8), ever), "state reads elements 58 to 63, which nothing")
    verify(small(fill(0, 8), anew, ever))
    later = make(Opcode.ONLINE, **ONLINE, accumulate=int(When.BY_LEVEL), k_level=0)
    verify(small(fill(0, 8), *loop(later)))
    refused(small(fill(0, 8), later), "k_level 0 is not a loop around it")
    by_none = make(Opcode.ONLINE, **ONLINE, accumulate=int(When.BY_LEVEL))
    refused(small(fill(0, 8), by_none), "accumulate goes by k_level, which names no loop")
    refused(small(fill(0, 8), anew.replace(accumulate=3)), "accumulate 3 is not one of")


def test_online_softmax_does_not_read_its_destination() -> None:
    verify(small(fill(0, 8), make(Opcode.ONLINE, **ONLINE, dst_base=20)))
    refused(small(fill(0, 7), make(Opcode.ONLINE, **ONLINE)), "src reads elements 0 to 7")
