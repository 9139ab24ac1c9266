"""Operands of timed programs: filled alike in every process, and moved from place to place."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from autotune.isa.program import Program, Role
from autotune.targets.native.running.operands import MOVED_BYTES, PAGE_BYTES, Operands
from autotune.targets.native.running.tensors import tensor_bytes
from tests.targets.machine_case import program, tensor


def program_of(*counts: int) -> Program:
    """A program of one input and outputs of so many elements; its streams do not matter here."""
    roles = (Role.INPUT, *[Role.OUTPUT] * (len(counts) - 1))
    named = zip(counts, roles, strict=True)
    return program(tensors=tuple(tensor(f"t{i}", n, role=r) for i, (n, r) in enumerate(named)))


def at(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def test_tensors_do_not_overlap_and_no_two_begin_at_one_offset_of_a_page() -> None:
    case = program_of(5000, 1, 700, 1024)
    operands = Operands(case)
    spans = [
        (int(begin), int(begin) + tensor_bytes(t))
        for begin, t in zip(operands.pointers, case.tensors, strict=True)
    ]
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert len({begin % PAGE_BYTES for begin, _ in spans}) == len(spans)
    assert not (operands.pointers % 64).any()


def test_moved_operands_hold_the_same_numbers_elsewhere() -> None:
    operands = Operands(program_of(5000, 40))
    offsets = operands.pointers - operands.pointers[0]
    places = set()
    for _ in range(4):
        operands.move()
        places.add(int(operands.pointers[0]))
        np.testing.assert_array_equal(at(int(operands.pointers[0]), 5000), operands.arrays["t0"])
        np.testing.assert_array_equal(operands.pointers - operands.pointers[0], offsets)
    assert len(places) == 4


def test_two_programs_of_a_size_visit_the_same_places_with_the_same_numbers() -> None:
    one, other = Operands(program_of(300)), Operands(program_of(300))
    np.testing.assert_array_equal(one.arrays["t0"], other.arrays["t0"])
    for _ in range(3):
        one.move()
        other.move()
        assert one.pointers[0] == other.pointers[0]


@pytest.mark.parametrize(("spare", "movable"), [(2 * PAGE_BYTES, True), (-PAGE_BYTES, False)])
def test_large_operands_stay(spare: int, movable: bool) -> None:
    operands = Operands(program_of((MOVED_BYTES - spare) // 4))
    before = operands.pointers.copy()
    operands.move()
    assert operands.movable == movable == bool((operands.pointers != before).any())
