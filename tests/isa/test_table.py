"""The instruction table is complete and fits its word."""

import pytest

from autotune.isa.access import ACCESSES
from autotune.isa.fields import HEADER, WORD_BITS, FieldType
from autotune.isa.manual import CODE_DOCS, UNIT_DOCS
from autotune.isa.notation import CODES, GROUPS
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.table import INSTRUCTIONS, OPERANDS

rows = pytest.mark.parametrize("row", INSTRUCTIONS.values(), ids=lambda row: row.opcode.name)


def test_every_opcode_has_a_row() -> None:
    assert set(INSTRUCTIONS) == set(Opcode)


@rows
def test_a_row_fits_into_the_word(row) -> None:
    assert row.bits <= WORD_BITS


@rows
def test_a_row_and_its_fields_say_what_they_mean(row) -> None:
    assert row.doc.endswith(".")
    assert all(field.doc for field in row.all_fields)


@rows
def test_field_names_of_a_row_are_unique(row) -> None:
    names = [field.name for field in row.all_fields]
    assert len(set(names)) == len(names)


@rows
def test_defaults_fit_their_fields(row) -> None:
    for field in row.fields:
        assert field.type is FieldType.FLOAT or field.low <= field.default <= field.high
        assert field.type is not FieldType.FLOAT or field.bits == 32


@rows
def test_every_field_is_written_by_exactly_one_group(row) -> None:
    positions = [p for group in GROUPS[row.opcode] for p in group.positions]
    assert sorted(positions) == list(range(len(HEADER), len(row.all_fields)))
    assert len({group.key for group in GROUPS[row.opcode]}) == len(GROUPS[row.opcode])


def test_every_queue_but_control_declares_its_operands() -> None:
    busy = {row.opcode for row in INSTRUCTIONS.values() if row.unit is not Unit.CONTROL}
    assert set(OPERANDS) == set(ACCESSES) == busy


def test_every_code_fits_its_field_and_has_a_meaning() -> None:
    assert set(UNIT_DOCS) == set(Unit)
    for opcode, fields in CODES.items():
        bits = {field.name: field.bits for field in INSTRUCTIONS[opcode].all_fields}
        for name, codes in fields.items():
            assert max(codes) < 1 << bits[name]
    for codes, docs in CODE_DOCS.items():
        assert set(docs) == set(codes) and all(docs.values())
