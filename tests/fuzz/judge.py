"""What may become of a case, and the judge who finds out: the oracle of the fuzzer.

Bytes, texts and programs are either refused with a ``ProgramError`` or accepted. An accepted
program is timed, searched for races, and run with numbers, unless its static bound of work is too
large: time must be the same with numbers, and the tensors left alone that are not outputs. It may
have races. Memory is AddressSanitizer's part. Anything else raises; whoever calls decides what that
means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from autotune.errors import ProgramError
from autotune.isa.assembly import assemble, disassemble
from autotune.isa.codec import decode, encode
from autotune.isa.program import DramTensor, Program, Role
from autotune.isa.verifier.proof import verify
from autotune.kernels.emulator.engine import Loaded
from autotune.kernels.emulator.outcome import By
from autotune.targets.arrays import ARRAY_TYPES, array_for
from autotune.targets.emulator.races import find_races
from autotune.targets.opening import load_spec
from autotune.targets.protocol import Array
from tests.fuzz.draws import Rng, below, contents, pick
from tests.fuzz.workload import tensor_bytes, work

Subject = bytes | str | Program
"""What a case is: an encoding, a text, or a program."""
EVERY = (By.INSTRUCTION,)
RUN_LIMIT = 200_000
RACES_LIMIT = 1_000_000
RACES = 4
TIME_LIMIT = 400_000
TENSOR_BYTES_LIMIT = 1 << 22
SHADOW_BYTES_LIMIT = 1 << 26
EDGE = load_spec("edge")
MACHINES = tuple(
    replace(
        EDGE,
        cores=4,
        matrix=replace(EDGE.matrix, rows=rows, cols=cols, dataflow=dataflow),
        vector=replace(EDGE.vector, lanes=lanes),
        scratchpad=replace(EDGE.scratchpad, size_bytes=1 << 18, banks=banks, ports=ports),
        control=replace(EDGE.control, queue_depth=depth),
    )
    for rows, cols, dataflow, lanes, banks, ports, depth in (
        (4, 8, "os", 8, 8, 4, 4), (16, 16, "ws", 16, 1, 1, 1), (3, 5, "is", 7, 32, 2, 256),
    )
)  # fmt: skip


class Outcome(StrEnum):
    """How far a case came."""

    MALFORMED = "malformed"  # not decoded or assembled
    REFUSED = "refused"  # by the verifier, or by the counters' limit
    SKIPPED = "skipped"  # accepted, too much work to try
    TIMED = "timed"  # accepted, ran without numbers, too much work for them
    RAN = "ran"  # accepted, ran with numbers, without a race
    RACED = "ran, with races"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and the rule that refused it."""

    outcome: Outcome
    rule: str = ""


class Wrong(AssertionError):
    """Something that must not happen did."""


_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|-?\b\d[\d.e+]*\b|\[[^\]]*\]|\b[A-Z][A-Z0-9_]+\b")


def rule_of(error: ProgramError) -> str:
    """The message without what changes from case to case."""
    text = str(error).rsplit("): ", 1)[-1] if "instruction " in str(error) else str(error)
    return _VARIABLE.sub("#", text)[:70]


def judge(subject: Subject, rng: Rng) -> Verdict:
    """Try a subject; raises ``Wrong``, or whatever else went wrong."""
    if isinstance(subject, Program):
        return judge_program(subject, rng)
    try:
        program = decode(subject) if isinstance(subject, bytes) else assemble(subject)
    except ProgramError as error:
        return Verdict(Outcome.MALFORMED, rule_of(error))
    verdict = judge_program(program, rng)
    _both_forms_hold(program)
    return verdict


def _both_forms_hold(program: Program) -> None:
    try:
        data = encode(program)
    except ProgramError:
        return  # a text may hold numbers that the binary form does not
    text = disassemble(program)
    same = "nan" in text or encode(assemble(text)) == data  # a text does not tell NaNs apart
    if not same or encode(decode(data)) != data:
        raise Wrong("the program is not what its own encoding or text says")


def judge_program(program: Program, rng: Rng) -> Verdict:
    """Verify; what is accepted must run."""
    machine = pick(rng, MACHINES)
    try:
        if len(program.streams) > machine.cores:
            raise ProgramError("made for # cores")
        verify(program, machine.scratchpad_elements)
        loaded = Loaded(program, machine)
    except ProgramError as error:
        return Verdict(Outcome.REFUSED, rule_of(error))
    if work(program, numbers=False) > TIME_LIMIT:
        return Verdict(Outcome.SKIPPED)
    parameters = {number: below(rng, 8) - 2 for number in loaded.parameters}
    timed = loaded.execute(1.0, None, parameters, by=EVERY)
    elements, size = work(program, numbers=True), tensor_bytes(program)
    races = (
        elements <= RACES_LIMIT
        and size <= SHADOW_BYTES_LIMIT
        and find_races(program, parameters, RACES)
    )
    if elements > RUN_LIMIT or size > TENSOR_BYTES_LIMIT:
        return Verdict(Outcome.TIMED)
    arrays = [_array(rng, program, tensor) for tensor in program.tensors]
    _compare(program, timed, loaded, parameters, arrays)
    return Verdict(Outcome.RACED if races else Outcome.RAN)


def _array(rng: Rng, program: Program, tensor: DramTensor) -> Array:
    """An OUTPUT as a target makes it, anything in all others."""
    if tensor.role is Role.OUTPUT:
        return array_for(program, tensor, {})
    raw = contents(rng, tensor)
    return np.frombuffer(raw, ARRAY_TYPES[tensor.format]).reshape(tensor.shape).copy()


def _compare(
    program: Program, timed: Any, loaded: Any, parameters: dict[int, int], arrays: list[Array]
) -> None:
    """Run with numbers; raises ``Wrong`` unless that costs the same and leaves inputs alone."""
    kept = [array.tobytes() for array in arrays]
    ran = loaded.execute(1.0, arrays, parameters, by=EVERY)
    same = np.array_equal(ran.sums[By.INSTRUCTION], timed.sums[By.INSTRUCTION])
    if ran.cycles != timed.cycles or not same:
        raise Wrong(f"{ran.cycles} cycles with numbers, {timed.cycles} without; or their counters")
    for tensor, array, before in zip(program.tensors, arrays, kept, strict=True):
        if array.shape != tensor.shape:
            raise Wrong(f"{tensor.name} has shape {array.shape}, not {tensor.shape}")
        if tensor.role is not Role.OUTPUT and array.tobytes() != before:
            raise Wrong(f"{tensor.role} {tensor.name} was written")
