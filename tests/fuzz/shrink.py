"""Makes a failing case small enough to read: drops instructions, then resets fields, as long as it
still fails. Each try is a forked process, since a failure may be a crash."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from autotune.errors import ProgramError
from autotune.isa.assembly import assemble, disassemble
from autotune.isa.codec import decode
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program
from tests.fuzz.draws import Rng
from tests.fuzz.judge import Subject, judge

SECONDS = 60
"""That shrinking takes at most."""
HANG_SECONDS = 20


def fails(subject: Subject, seed: tuple[int, ...]) -> bool:
    """Whether judging it ends in an error, a crash or not at all."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        try:
            judge(subject, Rng(*seed))
        except BaseException:  # noqa: BLE001 - whatever it is, it is what we look for
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + HANG_SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def shrunk(subject: Subject, seed: tuple[int, ...]) -> Subject:
    """The smallest program found that fails as well; the subject itself where it is none."""
    try:
        program = decode(subject) if isinstance(subject, bytes) else subject
        program = assemble(program) if isinstance(program, str) else program
    except ProgramError:
        return subject
    if not fails(program, seed):
        return subject
    end = time.monotonic() + SECONDS
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(program):
            if time.monotonic() > end:
                return program
            if fails(smaller, seed):
                program, progress = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    for core, stream in enumerate(program.streams):
        for at in range(len(stream)):
            yield _with(program, core, _without(stream, at))
    for core, stream in enumerate(program.streams):
        for at, word in enumerate(stream):
            for plain in _plainer(word):
                yield _with(program, core, (*stream[:at], plain, *stream[at + 1 :]))


def _with(program: Program, core: int, stream: tuple[Instruction, ...]) -> Program:
    return replace(program, streams=(*program.streams[:core], stream, *program.streams[core + 1 :]))


def _without(stream: tuple[Instruction, ...], at: int) -> tuple[Instruction, ...]:
    """Without an instruction; without a block's begin and end, where it is one."""
    gone = {at}
    if stream[at].values[0] in (Opcode.LOOP, Opcode.CASE):
        level = stream[at].get("level")
        ends = (i for i in range(at, len(stream)) if _ends(stream[i], level))
        gone |= set([*ends][:1])
    return tuple(word for i, word in enumerate(stream) if i not in gone)


def _ends(word: Instruction, level: int) -> bool:
    return word.values[0] == Opcode.END and word.get("level") == level


def _plainer(word: Instruction) -> Iterator[Instruction]:
    if word.values[0] not in Opcode._value2member_map_:
        return
    blank = Instruction.make(word.opcode).values
    for place, (value, default) in enumerate(zip(word.values, blank, strict=False)):
        if value != default:
            yield Instruction((*word.values[:place], default, *word.values[place + 1 :]))


def shown(subject: Subject, rewrite: Callable[[Program], str] = disassemble) -> str:
    """The subject for reading."""
    if not isinstance(subject, Program):
        return subject.hex() if isinstance(subject, bytes) else repr(subject)
    try:
        return rewrite(subject)
    except (ProgramError, TypeError, ValueError):
        return repr(subject)
