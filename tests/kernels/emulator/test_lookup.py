"""LOOKUP takes the rows that numbers name, wherever they point; its time does not depend on them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.fields import NO_LEVEL
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.isa.verifier.proof import verify
from autotune.targets.arrays import ARRAY_TYPES
from tests.kernels.emulator.drawn_case import (
    Fields,
    address,
    dense,
    extents,
    nested,
    rectangle,
    sized,
    span,
)
from tests.kernels.emulator.engine_case import (
    TARGET,
    WORDS,
    assert_as_interpreted,
    output,
    outputs_of,
)
from tests.targets.machine_case import load, make, program, store, tensor

NUMBERS = st.sampled_from([0.0, 1.0, 2.0, 2.9, 5.0, 6.0, 7.0, 1e30, -1.0, -0.5, math.inf, -math.inf, math.nan])  # fmt: skip


def looked_up(table: np.ndarray, numbers: list[float], **fields: int) -> Program:
    """Rows of ``table`` by numbers that come from DRAM too."""
    rows, columns = len(numbers), table.shape[1]
    return program(
        load(1, 0, rows),
        make(
            Opcode.LOOKUP, tensor=0, src_base=0, src_stride0=1, dst_base=rows, size0=rows,
            size1=columns, dst_stride0=columns, dst_stride1=1, **fields,
        ),
        store(2, rows, rows * columns),
        tensors=(tensor("x", *table.shape), tensor("n", rows), output("y", rows * columns)),
        elements=rows * (columns + 1),
    )  # fmt: skip


@settings(max_examples=80)
@given(st.data(), st.integers(1, 4), st.sampled_from(Format), st.sampled_from(Format))
def test_lookup_takes_clamped_rows_of_any_tensor(
    data: st.DataObject, rank: int, source: Format, held: Format
) -> None:
    shape = (7, *data.draw(extents(4, rank - 1)))
    sizes = (data.draw(st.integers(1, 5)), *data.draw(extents(3, rank - 1)), *(1,) * (5 - rank))
    numbers = data.draw(st.lists(NUMBERS, min_size=sizes[0], max_size=sizes[0]))
    strides = data.draw(dense(sizes))
    packed = 4 // held.bytes
    place = data.draw(address("dst", 8 * packed, WORDS * packed, span(sizes, strides)))
    fields: Fields = {**sized(sizes), **rectangle("dst", strides), "format": int(held)}
    for t in range(1, rank):
        fields |= {
            f"coord{t}": data.draw(st.integers(-3, 4)),
            f"step{t}": data.draw(st.integers(-2, 2)),
        }
        fields[f"level{t}"] = data.draw(st.sampled_from((0, 1, NO_LEVEL)))
    words = WORDS * 4 // held.bytes
    case = program(
        make(Opcode.FILL, size4=WORDS, dst_stride4=1, p0=-1.0),
        load(1, 0, sizes[0]),
        *nested(make(Opcode.LOOKUP, tensor=0, pad=7.0, src_stride0=1, **fields, **place)),
        store(2, 0, words, format=int(held)),
        tensors=(
            tensor("x", *shape, format=source),
            tensor("n", sizes[0]),
            output("y", words, format=held),
        ),
        elements=WORDS,
    )
    x = (np.arange(math.prod(shape)) % 100).reshape(shape).astype(ARRAY_TYPES[source])
    assert_as_interpreted(case, x=x, n=np.asarray(numbers, np.float32))


def test_rows_come_in_the_order_of_the_numbers() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    got = outputs_of(looked_up(table, [3, 0, 0]), x=table, n=np.asarray([3, 0, 0], np.float32))
    np.testing.assert_array_equal(got["y"].reshape(3, 3), table[[3, 0, 0]])


def test_time_and_traffic_do_not_depend_on_the_numbers() -> None:
    table = np.arange(4096, dtype=np.float32).reshape(256, 16)
    feeds = [np.asarray(n, np.float32) for n in ([0, 0, 0, 0], [255, 3, 128, 64])]
    case = looked_up(table, [0.0] * 4)
    first, second = (TARGET.run(case, {"x": table, "n": n})[0] for n in feeds)
    assert first == second == TARGET.time(case)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"coord0": 1}, "coord0 and step0 must be 0"),
        ({"tensor": 2, "size1": 1}, "looks up rows of output"),
    ],
)
def test_rows_that_numbers_choose_are_any_and_never_written(fields, reason) -> None:
    table = np.zeros((4, 3), np.float32)
    good = looked_up(table, [0, 1])
    verify(good)
    word = good.streams[0][1].replace(**fields)
    stream = (good.streams[0][0], word, *good.streams[0][2:])
    with pytest.raises(ProgramError, match=reason):
        verify(Program(good.name, good.tensors, (stream,), good.credits, good.scratchpad_elements))
    assert good.tensors[2].role is Role.OUTPUT
