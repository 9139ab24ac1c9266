"""GATHER takes what its row says from where it says: axes, hops, padding, formats."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.isa.fields import NO_LEVEL
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
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
    WORDS,
    assert_as_interpreted,
    output,
    outputs_of,
)
from tests.targets.machine_case import make, program, store, tensor


@settings(max_examples=80)
@given(st.data(), st.integers(1, 5), st.sampled_from(Format), st.sampled_from(Format))
def test_gather_follows_axes_and_hops(
    data: st.DataObject, rank: int, source: Format, held: Format
) -> None:
    shape, sizes = data.draw(extents(6, rank)), data.draw(extents(4))
    strides = data.draw(dense(sizes))
    place = data.draw(address("dst", 0, WORDS * 4 // held.bytes, span(sizes, strides)))
    fields: Fields = {**sized(sizes), **rectangle("dst", strides), "format": int(held)}
    for d in range(5):
        fields[f"axis{d}"] = data.draw(st.integers(0, rank - 1))
        fields[f"hop{d}"] = data.draw(st.integers(-2, 3))
    for t in range(rank):
        fields |= {
            f"coord{t}": data.draw(st.integers(-4, 5)),
            f"step{t}": data.draw(st.integers(-2, 2)),
        }
        fields[f"level{t}"] = data.draw(st.sampled_from((0, 1, NO_LEVEL)))
    words = WORDS * 4 // held.bytes
    case = program(
        make(Opcode.FILL, size4=WORDS, dst_stride4=1, p0=-1.0),
        *nested(make(Opcode.GATHER, tensor=0, pad=7.0, **fields, **place)),
        store(1, 0, words, format=int(held)),
        tensors=(
            tensor("x", *shape, format=source),
            output("y", words, format=held),
        ),
        elements=WORDS,
    )
    x = (np.arange(math.prod(shape)) % 100).reshape(shape).astype(ARRAY_TYPES[source])
    assert_as_interpreted(case, x=x)


def gathered(x: np.ndarray, count: int, fields: Fields) -> np.ndarray:
    """The first ``count`` words of the scratchpad after a GATHER of ``x``."""
    case = program(
        make(Opcode.GATHER, tensor=0, **fields),
        store(1, 0, count),
        tensors=(tensor("x", *x.shape), output("y", count)),
        elements=count,
    )
    return outputs_of(case, x=x)["y"]


@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3), st.integers(1, 2)
)
def test_gather_makes_patches_of_a_padded_image(
    channels: int, height: int, width: int, kernel: int, stride: int
) -> None:
    """im2col of ``[channels, height, width]``: rows c, kernel y, kernel x; columns y, x."""
    pad = kernel // 2
    down, across = ((n + 2 * pad - kernel) // stride + 1 for n in (height, width))
    assume(down > 0 and across > 0)
    shape = (channels, kernel, kernel, down, across)
    strides = [math.prod(shape[d + 1 :]) for d in range(5)]
    fields: Fields = {**sized(shape), **rectangle("dst", tuple(strides))}
    fields |= {f"axis{d}": axis for d, axis in enumerate((0, 1, 2, 1, 2))}
    fields |= {"hop3": stride, "hop4": stride, "coord1": -pad, "coord2": -pad}
    x = np.arange(1, channels * height * width + 1, dtype=np.float32).reshape(
        channels, height, width
    )
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    want = windows[:, ::stride, ::stride].transpose(0, 3, 4, 1, 2)
    np.testing.assert_array_equal(gathered(x, math.prod(shape), fields).reshape(shape), want)


def test_gather_takes_an_axis_beyond_the_rank_for_a_dimension_of_size_1() -> None:
    fields: Fields = {f"axis{d}": 4 for d in range(4)} | {f"hop{d}": 9 for d in range(4)}
    fields |= {"axis4": 0, "hop4": 2, "size4": 3, "dst_stride4": 1, "coord0": 1}
    for count in (3, 1):
        got = gathered(np.arange(6, dtype=np.float32), count, {**fields, "size4": count})
        assert got.tolist() == [1.0, 3.0, 5.0][:count]


def test_gather_blocks_channels_and_repeats_by_hop_0() -> None:
    """``[6, 2, 2]`` in blocks of 4 channels, channel innermost, padded to 8, twice."""
    shape = (2, 2, 2, 2, 4)
    x = np.arange(24, dtype=np.float32).reshape(6, 2, 2)
    fields: Fields = {**sized(shape), **rectangle("dst", (32, 16, 8, 4, 1))}
    fields |= {f"axis{d}": axis for d, axis in enumerate((0, 0, 1, 2, 0))}
    fields |= {"hop0": 0, "hop1": 4}
    blocks = np.pad(x, ((0, 2), (0, 0), (0, 0))).reshape(2, 4, 2, 2).transpose(0, 2, 3, 1)
    got = gathered(x, 64, fields).reshape(shape)
    np.testing.assert_array_equal(got, np.stack([blocks, blocks]))
