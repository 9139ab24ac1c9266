"""What the verifier claims, against brute force; and that no input makes it crash."""

from __future__ import annotations

import struct
import zlib
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.assembly import assemble, disassemble
from autotune.isa.codec import decode, encode
from autotune.isa.fields import NO_LEVEL, FieldType
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program
from autotune.isa.table import INSTRUCTIONS
from autotune.isa.verifier.interval_set import IntervalSet
from autotune.isa.verifier.proof import verify
from tests.isa.isa_case import elements, golden

HALT = Instruction.make(Opcode.HALT)


def accepts(program: Program) -> bool:
    try:
        verify(program)
    except ProgramError:
        return False
    return True


def nest(trips: list[int], body: list[Instruction]) -> list[Instruction]:
    begin = [Instruction.make(Opcode.LOOP, trips=n, level=i) for i, n in enumerate(trips)]
    ends = [Instruction.make(Opcode.END, level=i) for i in reversed(range(len(trips)))]
    return [*begin, *body, *ends]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_an_access_is_accepted_exactly_if_every_address_is_in_bounds(data) -> None:
    trips = data.draw(st.lists(st.integers(1, 4), max_size=3))
    level = st.sampled_from([*range(len(trips)), NO_LEVEL])
    base = data.draw(st.integers(0, 40))
    steps = data.draw(st.lists(st.tuples(st.integers(-9, 9), level), min_size=2, max_size=2))
    shape = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=5))
    fields = {"dst_base": base}
    for i, (step, of) in enumerate(steps):
        fields |= {f"dst_step{i}": step, f"dst_level{i}": of}
    for d, (size, stride) in enumerate(shape):
        fields |= {f"size{d}": size, f"dst_stride{d}": stride}
    reached = [
        base
        + sum(step * index[of] for step, of in steps if of != NO_LEVEL)
        + sum(at * stride for at, (_, stride) in zip(corner, shape, strict=True))
        for index in product(*map(range, trips))
        for corner in product(*(range(size) for size, _ in shape))
    ]
    limit = data.draw(st.integers(max(0, max(reached) - 1), max(0, max(reached) + 2)))
    stream = [*nest(trips, [Instruction.make(Opcode.FILL, **fields)]), HALT]
    in_bounds = min(reached) >= 0 and max(reached) < limit
    assert accepts(Program("p", (), (tuple(stream),), ((),), limit)) == in_bounds


def vector_words(rng: np.random.Generator, depth: int) -> Instruction:
    """A FILL or COPY of up to three elements somewhere in the first few, moved by loops."""
    fields = {"size0": int(rng.integers(1, 4))}
    opcode = Opcode.FILL if rng.random() < 0.5 else Opcode.UNARY
    for name in ("dst",) if opcode is Opcode.FILL else ("dst", "src"):
        fields |= {f"{name}_base": int(rng.integers(0, 6)), f"{name}_stride0": int(rng.integers(3))}
        if depth:
            fields |= {f"{name}_step0": int(rng.integers(0, 3)), f"{name}_level0": depth - 1}
            if rng.random() < 0.3:
                fields |= {f"{name}_slot": 3, f"{name}_turn": int(rng.integers(depth))}
    return Instruction.make(opcode, **fields)


def tree(rng: np.random.Generator, depth: int) -> list[Instruction]:
    out: list[Instruction] = []
    for _ in range(rng.integers(1, 4)):
        if depth < 2 and rng.random() < 0.4:
            trips = int(rng.integers(1, 4))
            out.append(Instruction.make(Opcode.LOOP, trips=trips, level=depth))
            out += [*tree(rng, depth + 1), Instruction.make(Opcode.END, level=depth)]
        else:
            out.append(vector_words(rng, depth))
    return out


def reads_only_written(stream: list[Instruction]) -> bool:
    """Executes the stream and watches which elements hold a number."""
    index, count, written = [0] * 15, [0] * 15, set()

    def run(begin: int, stop: int) -> bool:
        at = begin
        while at < stop:
            word = stream[at]
            if word.opcode is Opcode.LOOP:
                level = word.get("level")
                close = next(
                    i for i in range(at, stop)
                    if stream[i].opcode is Opcode.END and stream[i].get("level") == level
                )  # fmt: skip
                for trip in range(word.get("trips")):
                    index[level], count[level] = trip, count[level] + 1
                    if not run(at + 1, close):
                        return False
                at = close
            else:
                if (
                    word.opcode is Opcode.UNARY
                    and not elements(word, "src", index, count) <= written
                ):
                    return False
                written.update(elements(word, "dst", index, count))
            at += 1
        return True

    return run(0, len(stream))


def test_no_program_that_writes_all_it_reads_is_refused() -> None:
    rng = np.random.default_rng(11)
    clean = refused = 0
    for _ in range(2000):
        stream = tree(rng, 0)
        accepted = accepts(Program("p", (), ((*stream, HALT),), ((),), 64))
        refused += not accepted
        if reads_only_written(stream):
            clean += 1
            assert accepted, disassemble(Program("p", (), ((*stream, HALT),), ((),), 64))
    assert clean > 300 and refused > 300


def semaphore_words(rng: np.random.Generator) -> list[Instruction]:
    """A few waits and signals of three queues, some of them in a loop."""
    words = [
        Instruction.make(
            Opcode.WAIT if rng.random() < 0.5 else Opcode.SIGNAL,
            unit=int(rng.integers(3)),
            semaphore=int(rng.integers(1, 3)),
        )
        for _ in range(rng.integers(2, 7))
    ]
    cut = int(rng.integers(len(words)))
    return [*words[:cut], *nest([int(rng.integers(1, 4))], words[cut:])]


def completes(stream: list[Instruction], credits: list[int], rng: np.random.Generator) -> bool:
    """Runs the queues in a random order; whether all finish and every count is as it began."""
    close = next(i for i, word in enumerate(stream) if word.opcode is Opcode.END)
    begin = next(i for i, word in enumerate(stream) if word.opcode is Opcode.LOOP)
    body = stream[begin + 1 : close] * stream[begin].get("trips")
    queues: list[list[Instruction]] = [[], [], []]
    for word in [*stream[:begin], *body, *stream[close + 1 :]]:
        queues[word.get("unit")].append(word)
    counts = credits.copy()
    while any(queues):
        ready = [
            queue for queue in queues
            if queue and (queue[0].opcode is Opcode.SIGNAL or counts[queue[0].get("semaphore")])
        ]  # fmt: skip
        if not ready:
            return False
        word = ready[rng.integers(len(ready))].pop(0)
        counts[word.get("semaphore")] += 1 if word.opcode is Opcode.SIGNAL else -1
    return counts == credits


def test_accepted_semaphores_never_deadlock_in_any_order_of_the_queues() -> None:
    rng = np.random.default_rng(5)
    accepted = 0
    for _ in range(8000):
        stream = semaphore_words(rng)
        credits = [0, *map(int, rng.integers(0, 3, 2))]
        if accepts(Program("p", (), ((*stream, HALT),), (tuple(credits),), 0)):
            accepted += 1
            assert all(completes(stream, credits, rng) for _ in range(5))
    assert accepted > 150


def random_value(rng: np.random.Generator, low: int, high: int) -> int:
    choice = rng.integers(5)
    near = [low, high, min(high, int(rng.integers(0, 40))), int(rng.integers(low, high + 1))]
    return near[choice] if choice < 4 else 0


@pytest.mark.slow
def test_ten_thousand_changed_fields_never_crash_anything() -> None:
    rng = np.random.default_rng(3)
    program = golden()
    accepted = 0
    for case in range(10_000):
        stream = list(program.streams[0])
        at = int(rng.integers(len(stream)))
        fields = stream[at].row.all_fields
        place = int(rng.integers(1, len(fields)))
        values = list(stream[at].values)
        if fields[place].type is FieldType.FLOAT:
            values[place] = float(rng.choice([0.0, -1.5, np.inf, np.nan]))
        else:
            values[place] = random_value(rng, fields[place].low, fields[place].high)
        stream[at] = Instruction(tuple(values))
        mutant = Program("p", program.tensors, (tuple(stream),), program.credits, 5184)
        accepted += accepts(mutant)
        if case % 50 == 0:
            assert encode(decode(encode(mutant))) == encode(mutant)
            assert encode(assemble(disassemble(mutant))) == encode(mutant)
    assert 1000 < accepted < 9000


@pytest.mark.slow
def test_random_instruction_sequences_never_crash_the_verifier() -> None:
    rng = np.random.default_rng(4)
    opcodes = list(Opcode)
    for _ in range(400):
        stream = []
        for opcode in rng.choice(len(opcodes), 5):
            values: list[int | float] = [int(opcodes[opcode])]
            for field in INSTRUCTIONS[opcodes[opcode]].all_fields[1:]:
                is_float = field.type is FieldType.FLOAT
                values.append(1.0 if is_float else random_value(rng, field.low, min(field.high, 9)))
            stream.append(Instruction(tuple(values)))
        accepts(Program("p", golden().tensors, ((*stream, HALT),), ((0, 9, 9, 9),), 5184))


def test_random_bytes_are_refused_and_never_crash() -> None:
    rng = np.random.default_rng(1)
    for _ in range(2000):
        body = b"ATTP\x02\x00\x00\x00" + rng.bytes(int(rng.integers(0, 600)))
        for data in (body, body + struct.pack("<I", zlib.crc32(body))):
            try:
                accepts(decode(data))
            except ProgramError as error:
                assert str(error).startswith("offset ")


def test_flipped_bits_under_a_right_checksum_never_crash() -> None:
    rng = np.random.default_rng(2)
    original = encode(golden())[:-4]
    for _ in range(2000):
        body = bytearray(original)
        for _ in range(rng.integers(1, 4)):
            body[rng.integers(len(body))] ^= 1 << int(rng.integers(8))
        try:
            accepts(decode(bytes(body) + struct.pack("<I", zlib.crc32(body))))
        except ProgramError as error:
            assert str(error).startswith("offset ")


@settings(max_examples=200, deadline=None)
@given(spans=st.lists(st.tuples(st.integers(-9, 30), st.integers(0, 6)), max_size=8))
def test_ranges_hold_exactly_what_was_added(spans) -> None:
    ranges, numbers = IntervalSet(), set()
    for low, length in spans:
        ranges.add(low, low + length)
        numbers.update(range(low, low + length + 1))
    assert {n for n in range(-12, 40) if n in ranges} == numbers
    assert all(b - a > 1 for a, b in zip(ranges.highs, ranges.lows[1:], strict=False))
    for low, high in ((-3, 4), (0, 9), (5, 5)):
        assert ranges.holds_both(low, high) == (low in numbers and high in numbers)


def test_every_queue_may_wait_and_signal() -> None:
    words = [
        Instruction.make(opcode, unit=int(unit), semaphore=1 + int(unit))
        for unit in Unit
        for opcode in (Opcode.SIGNAL, Opcode.WAIT)
    ]
    verify(Program("p", (), ((*words, HALT),), ((),), 0))
