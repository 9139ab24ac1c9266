"""TRANSFORMs for tests: drawn sizes, layouts and epilogues as one word on the scratchpad."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from autotune.isa.access import ACCESSES, TILE_ROWS
from autotune.isa.functions import Transform, UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction
from tests.kernels.emulator.engine_case import WORDS
from tests.targets.machine_case import make

ERROR = 3e-5
"""Of values up to 100 times those that a transform takes, the sum of a row of T⊗T."""


def image(name: str, tile: int, across: int, channels: int) -> dict[str, int]:
    """Strides of tiles that lie side by side in an image."""
    row = (tile * across + 2) * channels
    strides = (row, channels, tile * row, tile * channels, 1)
    return {f"{name}_stride{d}": stride for d, stride in enumerate(strides)}


def points(name: str, rows: int, tiles: tuple[int, int], channels: int) -> dict[str, int]:
    """Strides of a matrix of channels by tiles for every point of a tile."""
    row = tiles[1] * channels
    plane = tiles[0] * row
    strides = (rows * plane, plane, row, channels, 1)
    return {f"{name}_stride{d}": stride for d, stride in enumerate(strides)}


@st.composite
def transforms(draw: st.DrawFn) -> Instruction:
    """A word of which source, bias and residual lie in the lower half of the scratchpad."""
    code = draw(st.sampled_from(Transform))
    tiles = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    channels = draw(st.integers(1, 20))
    patch = TILE_ROWS[code][1]
    if code in (Transform.F4_INPUT, Transform.F2_INPUT):
        in_image = image("src", patch - 2, tiles[1], channels)
        at_points = points("dst", patch, tiles, channels)
    else:
        in_image = points("src", patch, tiles, channels)
        at_points = image("dst", patch - 2, tiles[1], channels)
    if draw(st.booleans()):
        at_points = {key: 3 * stride for key, stride in at_points.items()}
    residual = {f"r_stride{d}": draw(st.sampled_from([0, 1, 7])) for d in range(5)}
    word = make(
        Opcode.TRANSFORM, transform=int(code), size2=tiles[0], size3=tiles[1], size4=channels,
        **in_image, **at_points, **residual, dst_base=WORDS // 2, bias_base=11, r_base=50,
        biased=draw(st.integers(0, 1)), adds=draw(st.integers(0, 1)),
        fn=int(draw(st.sampled_from([UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU, UnaryFn.CLIP]))),
        p0=-0.5, p1=2.0,
    )  # fmt: skip
    spans = {access.operand: access.span(word.values) for access in ACCESSES[Opcode.TRANSFORM]}
    assume(max(spans.values()) < WORDS // 2 - 50)
    return word
