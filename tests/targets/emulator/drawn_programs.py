"""Drawn programs of every opcode, in part ordered by semaphores: what the race check meets."""

from __future__ import annotations

import numpy as np

from autotune.isa.fields import CHAIN_STAGES, NO_LEVEL, FieldType
from autotune.isa.formats import Format
from autotune.isa.functions import StageKind, When
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program, Role
from autotune.isa.table import INSTRUCTIONS, OPERANDS
from tests.targets.machine_case import loop, make, tensor

ELEMENTS = 4096
WORK = sorted(OPERANDS)
FORMS = (Format.FP32, Format.BF16, Format.INT8)
TENSORS = (
    tensor("x", 9, 7),
    tensor("y", 6, 5, role=Role.OUTPUT),
    tensor("z", 4, 3, 9, role=Role.OUTPUT, format=Format.INT8),
)
TRIPS = (3, 3)


def drawn(rng: np.random.Generator, opcode: Opcode, depth: int) -> Instruction:
    """An instruction whose operands lie anywhere in the scratchpad, at any two of its loops."""
    fields: dict[str, int | float] = {}
    for field in INSTRUCTIONS[opcode].all_fields:
        if field.name.endswith("_format") or field.name == "format":
            fields[field.name] = 0
        elif "stride" in field.name or field.name[:2] in ("a_", "b_", "c_", "r_"):
            if field.type is FieldType.UNSIGNED and "_base" not in field.name:
                fields[field.name] = int(rng.choice((0, 1, 1, 2, 3, 5, 12)))
        elif field.name.startswith("size") or field.name in ("m", "n1", "n0", "k2", "k1", "k0"):
            fields[field.name] = int(rng.integers(1, 4))
    for name, _ in OPERANDS[opcode]:
        fields |= drawn_address(rng, name, depth)
    return make(opcode, **fields | particular(rng, opcode, depth))


def drawn_address(rng: np.random.Generator, name: str, depth: int) -> dict[str, int | float]:
    levels = [*range(depth), NO_LEVEL]
    fields: dict[str, int | float] = {
        f"{name}_base": int(rng.integers(40, 200)),
        f"{name}_slot": int(rng.integers(0, 30)),
        f"{name}_turn": int(rng.choice(levels)),
    }
    for k in range(2):
        fields[f"{name}_step{k}"] = int(rng.integers(-6, 12))
        fields[f"{name}_level{k}"] = int(rng.choice(levels))
    return fields


def particular(rng: np.random.Generator, opcode: Opcode, depth: int) -> dict[str, int | float]:
    """Fields that an opcode has for itself, so that it is legal and meets all its cases."""
    inner = depth - 1 if depth else NO_LEVEL
    whens = [When.NEVER, When.ALWAYS, *([When.BY_LEVEL] if depth else [])]
    match opcode:
        case Opcode.MATMUL:
            form = int(rng.choice((Format.FP32, Format.BF16, Format.INT8)))
            return {
                "a_format": form, "b_format": form, "a_zero": 0, "b_zero": 0, "k_level": inner,
                "accumulate": int(rng.choice(whens)), "epilogue": int(rng.choice(whens)),
                "bias_axis": int(rng.integers(0, 3)), "adds": int(rng.integers(0, 2)),
            }  # fmt: skip
        case Opcode.ONLINE:
            return {"accumulate": int(rng.choice(whens)), "k_level": inner, "state_stride0": 4}
        case Opcode.CHAIN:
            kinds = rng.choice([int(kind) for kind in StageKind], CHAIN_STAGES)
            return {f"stage{k}_kind": int(kind) for k, kind in enumerate(kinds)}
        case Opcode.CONVERT:
            return {name: int(rng.choice(FORMS)) for name in ("dst_format", "src_format")}
        case Opcode.TRANSFORM:
            return {name: int(rng.integers(0, 2)) for name in ("transform", "biased", "adds")}
        case Opcode.REDUCE:
            return {"accumulate": int(rng.integers(0, 2))}
        case Opcode.MASK:
            return placed(rng, 5, depth) | {f"extent{d}": int(rng.integers(1, 4)) for d in range(5)}
        case Opcode.LOAD | Opcode.STORE | Opcode.GATHER | Opcode.LOOKUP:
            return transfer(rng, opcode, depth)
        case _:
            return {}


def transfer(rng: np.random.Generator, opcode: Opcode, depth: int) -> dict[str, int | float]:
    number = int(rng.integers(1, 3) if opcode is Opcode.STORE else rng.integers(0, 3))
    number = 0 if opcode is Opcode.LOOKUP else number
    rank = len(TENSORS[number].shape)
    fields = placed(rng, rank, depth) | {"tensor": number, "format": int(rng.choice(FORMS))}
    if opcode is Opcode.GATHER:
        for d in range(5):
            fields |= {f"axis{d}": int(rng.integers(0, rank)), f"hop{d}": int(rng.integers(-2, 3))}
        return fields
    if opcode is Opcode.LOOKUP:
        fields |= {"coord0": 0, "step0": 0}
    return fields | {f"size{d}": 1 for d in range(rank, 5)}


def placed(rng: np.random.Generator, rank: int, depth: int) -> dict[str, int | float]:
    fields: dict[str, int | float] = {}
    for d in range(rank):
        fields[f"coord{d}"] = int(rng.integers(-2, 5))
        fields[f"step{d}"] = int(rng.integers(-1, 3)) if depth else 0
        fields[f"level{d}"] = int(rng.choice([*range(depth), NO_LEVEL]))
    return fields


def ordered(
    rng: np.random.Generator, body: list[Instruction], credits: list[int], loops: bool
) -> list[Instruction]:
    """The body with some pairs signalling each other, forward or one or two trips back."""
    uses: list[dict[str, int]] = [{} for _ in body]
    units = [INSTRUCTIONS[i.opcode].unit for i in body]
    for _ in range(int(rng.integers(0, 2 * len(body)))):
        giver, taker = (int(x) for x in rng.integers(0, len(body), 2))
        back = 0 if giver < taker else int(rng.integers(1, 3))
        side = [k for k in range(3) if f"signal{k}" not in uses[giver]]
        other = [k for k in range(3) if f"wait{k}" not in uses[taker]]
        if units[giver] is units[taker] or not side or not other or (back and not loops):
            continue
        uses[giver][f"signal{side[0]}"] = uses[taker][f"wait{other[0]}"] = len(credits)
        credits.append(back)
    for i, used in zip(body, uses, strict=True):
        if i.opcode is Opcode.MATMUL and any(f"signal{k}" in used for k in range(3)):
            used["forward"] = int(rng.integers(0, 2))
    return [i.replace(**used) for i, used in zip(body, uses, strict=True)]


def held_up(rng: np.random.Generator, body: list[Instruction], credits: list[int]):
    """The body with, perhaps, the sequencer waiting for a unit somewhere."""
    if rng.random() < 0.7:
        return body
    at, unit = int(rng.integers(0, len(body) + 1)), int(rng.integers(0, Unit.CONTROL))
    credits.append(0)
    pair = [
        make(opcode, unit=of, semaphore=len(credits) - 1)
        for opcode, of in ((Opcode.SIGNAL, unit), (Opcode.WAIT, int(Unit.CONTROL)))
    ]
    return [*body[:at], *pair, *body[at:]]


def prologue() -> list[Instruction]:
    """All of the scratchpad and of the outputs is written, and every unit knows."""
    fill = make(Opcode.FILL, size3=64, dst_stride3=64, size4=64, dst_stride4=1)
    stores = [
        make(Opcode.STORE, tensor=number, **{f"size{d}": n for d, n in enumerate(t.shape)})
        for number, t in enumerate(TENSORS)
        if t.role is Role.OUTPUT
    ]
    pairs = [
        (Unit.VECTOR, Unit.STORE),
        *((Unit.STORE, u) for u in (Unit.LOAD, Unit.MATRIX, Unit.VECTOR)),
    ]
    words = [
        make(opcode, unit=int(unit), semaphore=k)
        for k, pair in enumerate(pairs, start=1)
        for opcode, unit in zip((Opcode.SIGNAL, Opcode.WAIT), pair, strict=True)
    ]
    return [fill, *words[:2], *stores, *words[2:]]


def drawn_stream(rng: np.random.Generator) -> tuple[tuple[Instruction, ...], tuple[int, ...]]:
    """Two loops around a body behind the prologue, and another body in a CASE of parameter 1."""

    def body(least: int, most: int, depth: int) -> list[Instruction]:
        found = [
            drawn(rng, Opcode(int(rng.choice(WORK))), depth)
            for _ in range(rng.integers(least, most))
        ]
        return held_up(rng, ordered(rng, found, credits, depth == 2), credits)

    credits = [0] * 5
    nest = loop(TRIPS[0], *loop(TRIPS[1], *body(2, 7, 2), level=1))
    case = make(Opcode.CASE, parameter=1, low=0, high=int(rng.integers(0, 9)), level=0)
    last = [case, *body(1, 4, 1), make(Opcode.END, level=0)]
    return (*prologue(), *nest, *last, make(Opcode.HALT)), tuple(credits)


def drawn_program(rng: np.random.Generator) -> Program:
    """A program of one or two cores; most of them race."""
    streams = [drawn_stream(rng) for _ in range(int(rng.choice((1, 1, 2))))]
    return Program(
        "drawn", TENSORS, tuple(s for s, _ in streams), tuple(c for _, c in streams), ELEMENTS
    )
