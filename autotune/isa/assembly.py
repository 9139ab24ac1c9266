"""The text form of a program, for reading, tests and writing by hand; stands beside codec.

A line is a directive, an instruction, or blank; ``#`` begins a comment::

    .program "axpy"
    .scratchpad 64
    .tensor 0 "x" input (4, 32)
    .tensor 1 "w" constant bf16 (32)
    .core
    .credits (0, 2)
    loop trips=4 level=i0
      load tensor=0 dst=[0 + 32@i0] size=(32) ... at=(1*i0) ?1 !2
    end level=i0
    halt

``[base + step*i0 + step*i1 + slot@i2]`` is a scratchpad address, ``at=(coord + step*i0, …)`` a
place in a tensor, ``_`` stands for no loop, ``?3`` waits for semaphore 3, ``!4`` signals 4.
What is not written holds its default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from autotune.errors import ProgramError
from autotune.isa.fields import HEADER
from autotune.isa.formats import Format
from autotune.isa.notation import BLOCKS, GROUPS, FieldGroup
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.isa.scanner import Scanner
from autotune.isa.spelling import read, write
from autotune.isa.table import INSTRUCTIONS

_OPCODES = {opcode.name.lower(): opcode for opcode in Opcode}
_FORMATS = {form.name.lower(): form for form in Format}
_WAITS = tuple(i for i, field in enumerate(HEADER) if field.name.startswith("wait"))
_SIGNALS = tuple(i for i, field in enumerate(HEADER) if field.name.startswith("signal"))


def disassemble(program: Program) -> str:
    """Return the program as text; ``assemble`` gives an equal program back."""
    lines = [f".program {_quoted(program.name)}", f".scratchpad {program.scratchpad_elements}"]
    for number, tensor in enumerate(program.tensors):
        shape = ", ".join(map(str, tensor.shape))
        form = "" if tensor.format is Format.FP32 else f" {tensor.format.name.lower()}"
        lines.append(f".tensor {number} {_quoted(tensor.name)} {tensor.role}{form} ({shape})")
    for stream, credits in zip(program.streams, program.credits, strict=True):
        lines.append(".core")
        if credits:
            lines.append(f".credits ({', '.join(map(str, credits))})")
        lines += _stream_lines(stream)
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _stream_lines(stream: tuple[Instruction, ...]) -> Iterator[str]:
    depth = 0
    for instruction in stream:
        opcode = instruction.opcode
        depth -= opcode is Opcode.END
        yield "  " * max(0, depth) + instruction_text(instruction)
        depth += opcode in BLOCKS


def instruction_text(instruction: Instruction) -> str:
    """Return one instruction as text without indentation, for messages and listings."""
    values = instruction.values
    parts = [instruction.opcode.name.lower()]
    for group in GROUPS[instruction.opcode]:
        text = write(group, [values[position] for position in group.positions])
        if text is not None:
            parts.append(text)
    for mark, positions in (("?", _WAITS), ("!", _SIGNALS)):
        ids = [values[position] for position in positions]
        while ids and ids[-1] == 0:
            ids.pop()
        parts += [f"{mark}{semaphore}" for semaphore in ids]
    return " ".join(parts)


def assemble(text: str) -> Program:
    """Return the program of a text.

    Raises ``ProgramError`` with line and column for anything that does not parse. The result is not
    verified.
    """
    draft = _Draft()
    for number, line in enumerate(text.split("\n"), start=1):
        scan = Scanner(line, number)
        if not scan.done:
            draft.add(scan)
            scan.finish()
    return draft.program(text.count("\n") + 1)


class _Draft:
    """A program under construction: directives and instructions of the lines read so far."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.scratchpad_elements: int | None = None
        self.tensors: list[DramTensor] = []
        self.streams: list[list[Instruction]] = []
        self.credits: list[tuple[int, ...] | None] = []

    def add(self, scan: Scanner) -> None:
        """Add one line that is not blank."""
        column = scan.next.column
        word = scan.word("a directive or an instruction")
        match word:
            case ".program":
                self._once(self.name, word, scan, column)
                self.name = scan.string("the program's name in quotes")
            case ".scratchpad":
                self._once(self.scratchpad_elements, word, scan, column)
                self.scratchpad_elements = scan.integer("a number of elements")
            case ".tensor":
                self.tensors.append(self._tensor(scan))
            case ".core":
                self.streams.append([])
                self.credits.append(None)
            case ".credits":
                self._in_core(word, scan, column)
                self._once(self.credits[-1], word, scan, column)
                self.credits[-1] = tuple(scan.list("a credit count"))
            case _ if word in _OPCODES:
                self._in_core(word, scan, column)
                self.streams[-1].append(_instruction(_OPCODES[word], scan))
            case _:
                known = ", ".join(_OPCODES)
                raise scan.error(f"{word!r} is no directive and no instruction ({known})", column)

    def _tensor(self, scan: Scanner) -> DramTensor:
        column = scan.next.column
        number = scan.integer("the tensor's number")
        if number != len(self.tensors):
            raise scan.error(f"tensor {number} should be number {len(self.tensors)}", column)
        name = scan.string("the tensor's name in quotes")
        column = scan.next.column
        role = scan.word("a role")
        if role not in list(Role):
            raise scan.error(f"{role!r} is not a role ({', '.join(Role)})", column)
        form = _format(scan) if scan.next.kind == "word" else Format.FP32
        column = scan.next.column
        shape = tuple(scan.list("an extent"))
        try:
            return DramTensor(name, shape, Role(role), form)
        except ProgramError as error:
            raise scan.error(str(error), column) from None

    def _once(self, known: object, word: str, scan: Scanner, column: int) -> None:
        if known is not None:
            raise scan.error(f"a second {word}", column)

    def _in_core(self, word: str, scan: Scanner, column: int) -> None:
        if not self.streams:
            raise scan.error(f"{word} before the first .core", column)

    def program(self, lines: int) -> Program:
        """Return the whole program, once every line is read."""
        place = f"line {lines}, column 1"
        if self.name is None:
            raise ProgramError(f'{place}: the text ends without .program "NAME"')
        if self.scratchpad_elements is None:
            raise ProgramError(f"{place}: the text ends without .scratchpad ELEMENTS")
        try:
            return Program(
                self.name,
                tuple(self.tensors),
                tuple(tuple(stream) for stream in self.streams),
                tuple(credits or () for credits in self.credits),
                self.scratchpad_elements,
            )
        except ProgramError as error:
            raise ProgramError(f"{place}: {error}") from None


def _format(scan: Scanner) -> Format:
    column = scan.next.column
    name = scan.word("a format")
    if name not in _FORMATS:
        raise scan.error(f"{name!r} is not a format ({', '.join(_FORMATS)})", column)
    return _FORMATS[name]


def _instruction(opcode: Opcode, scan: Scanner) -> Instruction:
    values = list(Instruction.make(opcode).values)
    groups: dict[str, FieldGroup] = {group.key: group for group in GROUPS[opcode]}
    waits, signals = list(_WAITS), list(_SIGNALS)
    while not scan.done:
        column = scan.next.column
        if scan.accept("?"):
            values[_semaphore_position(waits, "waits", scan, column)] = _semaphore(scan)
        elif scan.accept("!"):
            values[_semaphore_position(signals, "signals", scan, column)] = _semaphore(scan)
        else:
            group = _group(opcode, groups, scan)
            for position, value in zip(group.positions, read(group, scan), strict=True):
                values[position] = value
    return Instruction(tuple(values))


def _semaphore_position(left: list[int], what: str, scan: Scanner, column: int) -> int:
    if not left:
        raise scan.error(f"an instruction has at most {len(_WAITS)} {what}", column)
    return left.pop(0)


def _semaphore(scan: Scanner) -> int:
    column = scan.next.column
    value = scan.integer("a semaphore")
    field = HEADER[_WAITS[0]]
    if not field.low <= value <= field.high:
        raise scan.error(f"semaphore {value} is not in {field.low} to {field.high}", column)
    return value


def _group(opcode: Opcode, left: dict[str, FieldGroup], scan: Scanner) -> FieldGroup:
    """Take the group of the next ``key=``; each may be written once."""
    column = scan.next.column
    key = scan.word("a field, ?semaphore or !semaphore")
    if key not in left:
        known = ", ".join(group.key for group in GROUPS[opcode]) or "none"
        again = any(group.key == key for group in GROUPS[opcode])
        reason = f"{key} is given twice" if again else f"no field {key!r}; it has: {known}"
        raise scan.error(f"{INSTRUCTIONS[opcode].opcode.name}: {reason}", column)
    scan.expect("=")
    return left.pop(key)
