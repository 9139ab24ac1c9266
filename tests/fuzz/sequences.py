"""Random instruction sequences that the verifier often accepts: blocks nest, operands lie in the
scratchpad, right up to its edges; a few fields are then changed to what is at the edge of legal."""

from __future__ import annotations

from autotune.isa.access import ACCESSES, EXTENT_FIELDS, Access
from autotune.isa.fields import MAX_LOOP_DEPTH, NO_LEVEL, Field, FieldType
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role, field_index
from autotune.isa.table import INSTRUCTIONS
from autotune.isa.verifier.legal_values import AT_LEAST_ONE, CODE_LIMITS
from tests.fuzz.draws import (
    HEADER_LENGTH,
    Rng,
    below,
    chance,
    changed_field,
    edge_value,
    pick,
    tensor,
)

WORK = tuple(ACCESSES)
SMALL_FLOATS = (0.0, 1.0, -1.0, 0.5, 3.0, 1e30, float("inf"))


class _Writer:
    """Writes one stream; ``trips`` are those of the open blocks, outermost first."""

    def __init__(self, rng: Rng, tensors: tuple[DramTensor, ...], elements: int) -> None:
        self.rng = rng
        self.tensors = tensors
        self.elements = elements
        self.trips: list[int] = []
        self.stored: list[int] = []
        self.stream: list[Instruction] = []

    def write(self, count: int) -> tuple[Instruction, ...]:
        """About so many instructions, blocks closed, HALT behind them."""
        self.stream.append(self._whole_fill())
        for _ in range(count):
            self._next()
        while self.trips:
            self._close()
        self.stream.append(Instruction.make(Opcode.HALT))
        return tuple(self.stream)

    def _whole_fill(self) -> Instruction:
        """Nothing is read unwritten behind it, so that bounds alone decide."""
        rows = -(-self.elements // 65535)
        size = self.elements // rows
        strides = {"dst_stride3": size, "dst_stride4": 1}
        return Instruction.make(Opcode.FILL, size3=rows, size4=size, p0=0.25, **strides)

    def _next(self) -> None:
        rng = self.rng
        choice = below(rng, 100) / 100
        if choice < 0.15 and len(self.trips) < MAX_LOOP_DEPTH:
            self._open(Opcode.LOOP, trips=1 + below(rng, 4))
        elif choice < 0.2 and len(self.trips) < MAX_LOOP_DEPTH:
            low = below(rng, 6) - 2
            self._open(Opcode.CASE, low=low, high=low + below(rng, 3), parameter=below(rng, 3))
        elif choice < 0.3 and self.trips:
            self._close()
        elif choice < 0.37:
            self._handshake()
        elif choice < 0.4:
            self.stream.append(Instruction.make(Opcode.MARK, id=below(rng, 4)))
        else:
            self.stream.append(self._word())

    def _open(self, opcode: Opcode, **fields: int) -> None:
        self.stream.append(Instruction.make(opcode, level=len(self.trips), **fields))
        self.trips.append(fields.get("trips", 1))

    def _close(self) -> None:
        self.trips.pop()
        self.stream.append(Instruction.make(Opcode.END, level=len(self.trips)))

    def _handshake(self) -> None:
        """A signal and a wait for it, in words or in instructions of their own."""
        semaphore, taker = 1 + below(self.rng, 255), below(self.rng, 5)
        given = 1 + below(self.rng, 3)
        if chance(self.rng, 0.5):
            names = {f"signal{i}": semaphore for i in range(given)}
            self.stream.append(self._word().replace(**names))
        else:
            give = Instruction.make(Opcode.SIGNAL, unit=below(self.rng, 5), semaphore=semaphore)
            self.stream += [give] * given
        take = Instruction.make(Opcode.WAIT, unit=taker, semaphore=semaphore)
        word = self._word()
        if chance(self.rng, 0.5):
            self.stream += [take] * given
        else:
            self.stream.append(word.replace(**{f"wait{i}": semaphore for i in range(given)}))

    def _word(self) -> Instruction:
        opcode: Opcode = pick(self.rng, WORK)
        word = self._drawn(opcode)
        for _ in range(5):
            if word is not None:
                break
            word = self._drawn(opcode)
        word = Instruction.make(Opcode.FILL) if word is None else word
        return changed_field(self.rng, word) if chance(self.rng, 0.08) else word

    def _drawn(self, opcode: Opcode) -> Instruction | None:
        """A word whose operands lie in the scratchpad; None if one did not fit."""
        fields = INSTRUCTIONS[opcode].all_fields
        values = {field.name: self._value(opcode, field) for field in fields[HEADER_LENGTH:]}
        if "tensor" in values:
            self._fit_tensor(opcode, values)
        values |= _legal_codes(opcode, values)
        word = Instruction.make(opcode, **values)
        for access in ACCESSES[opcode]:
            if access.present is None or access.present(word.values):
                placed = self._placed(word, access)
                if placed is None:
                    return None
                word = placed
        return word

    def _value(self, opcode: Opcode, field: Field) -> int | float:
        """A moderate value of a field."""
        rng, name = self.rng, field.name
        if field.type is FieldType.FLOAT:
            return pick(rng, SMALL_FLOATS)
        if (opcode, name) in CODE_LIMITS:
            return below(rng, CODE_LIMITS[opcode, name][1] + 1)
        if (opcode, name) in AT_LEAST_ONE or name in EXTENT_FIELDS.get(opcode, ()):
            return pick(rng, (1, 1, 1, 2, 3, 4, 7)) if chance(rng, 0.98) else 1 + below(rng, 600)
        if name.endswith("_turn") or "level" in name:
            return below(rng, len(self.trips)) if self.trips and chance(rng, 0.3) else NO_LEVEL
        if field.bits == 1 or name == "tensor":
            return below(rng, 2)
        if name.startswith("extent"):
            return below(rng, 8)
        if "_zero" in name:
            return pick(rng, (0, 0, 1, field.low, field.high))
        if name.startswith("hop"):
            return pick(rng, (0, 1, -1, 2, -3, field.low, field.high))
        if field.type is FieldType.SIGNED:
            return below(rng, 9) - 4
        most = 12 if "stride" in name or "_" in name else 4
        return below(rng, most) if chance(rng, 0.98) else edge_value(rng, field)

    def _fit_tensor(self, opcode: Opcode, values: dict[str, int | float]) -> None:
        """A tensor that the opcode may name; nothing beyond its rank."""
        numbers = range(len(self.tensors))
        outputs = [n for n in numbers if self.tensors[n].role is Role.OUTPUT]
        inputs = [n for n in numbers if n not in outputs]
        inputs += self.stored if opcode is not Opcode.LOOKUP else []
        if opcode is Opcode.STORE:
            number = pick(self.rng, outputs or [0])
            if not self.trips:
                self.stored.append(number)
        else:
            number = pick(self.rng, inputs or [0])
        values["tensor"] = number
        rank = len(self.tensors[number].shape)
        for d in range(rank, 5):
            values |= {f"coord{d}": 0, f"step{d}": 0}
            if opcode is not Opcode.GATHER:
                values[f"size{d}"] = 1
        if opcode is Opcode.GATHER:
            values |= {f"axis{d}": below(self.rng, rank) for d in range(5)}
        if opcode is Opcode.LOOKUP:
            values |= {"coord0": 0, "step0": 0}

    def _placed(self, word: Instruction, access: Access) -> Instruction | None:
        """With the operand's base at either edge of the scratchpad, or anywhere in it; None if the
        operand does not fit."""
        _, step0, level0, step1, level1, slot, turn = access.address(word.values)
        low = high = 0
        for step, level in ((step0, level0), (step1, level1)):
            reach = step * (self.trips[level] - 1) if level < len(self.trips) else 0
            low, high = low + min(reach, 0), high + max(reach, 0)
        high += access.span(word.values) + (slot if turn != NO_LEVEL else 0)
        room = self.elements - 1 - high + low
        if room < 0:
            return None
        place = pick(self.rng, (0, room, below(self.rng, room + 1)))
        index = field_index(word.opcode)[f"{access.operand}_base"]
        values = list(word.values)
        values[index] = min(place - low, (1 << 26) - 1)
        return Instruction(tuple(values))


def _legal_codes(opcode: Opcode, values: dict[str, int | float]) -> dict[str, int | float]:
    """What the fields of a word must be for each other."""
    match opcode:
        case Opcode.MATMUL:
            return _legal_product(values)
        case Opcode.CHAIN:
            return {
                f"stage{i}_fn": min(
                    values[f"stage{i}_fn"], (0, 17, 6, 6, 6, 6)[int(values[f"stage{i}_kind"])]
                )
                for i in range(4)
            }
        case Opcode.CONVERT:
            return {
                f"{side}_zero": 0
                for side in ("src", "dst")
                if values[f"{side}_format"] < Format.INT8
            }
        case Opcode.ONLINE:
            return (
                {"accumulate": min(values["accumulate"], 1)}
                if values["k_level"] == NO_LEVEL
                else {}
            )
        case _:
            return {}


def _legal_product(values: dict[str, int | float]) -> dict[str, int | float]:
    legal: dict[str, int | float] = {"forward": 0}
    if values["k_level"] == NO_LEVEL:
        legal |= {name: min(values[name], 1) for name in ("accumulate", "epilogue")}
    integers = (Format.INT8, Format.UINT8)
    a, b = int(values["a_format"]), int(values["b_format"])
    if a in integers:
        legal |= {"b_format": b if b in integers else a, "scale": 1.0, "fn": values["fn"] % 2}
    else:
        form = a if a in (Format.FP32, Format.BF16) else Format.FP32
        legal |= {"a_format": int(form), "b_format": int(form), "a_zero": 0, "b_zero": 0}
    return legal


def sequence(rng: Rng) -> Program:
    """A program of such sequences, on one or two cores."""
    tensors = tuple(tensor(rng, number) for number in range(1 + below(rng, 4)))
    elements = pick(rng, (1, 7, 64, 256, 1024, 5000))
    cores = 2 if chance(rng, 0.1) else 1
    streams = tuple(_Writer(rng, tensors, elements).write(1 + below(rng, 8)) for _ in range(cores))
    return Program("sequence", tensors, streams, ((),) * cores, elements)
