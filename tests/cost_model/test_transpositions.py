"""A transposition is counted as the kernel that is generated for it."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from autotune.cost_model.cached.transpositions import Transposition
from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.vector.interleaving import interleaving
from autotune.targets.native.codegen.vector.square_copy import square_copy
from autotune.targets.native.codegen.vector.vector_run import Load, Output, Unary, VectorRun
from autotune.targets.native.cpu.vector_isa import AVX2, AVX512, VectorIsa

SHAPES = (
    ((1, 24, 20, 3), (0, 2, 3, 1)),
    ((1, 3, 24, 20), (0, 3, 1, 2)),
    ((1, 24, 20, 16), (0, 2, 3, 1)),
    ((1, 9, 11, 40), (0, 2, 3, 1)),
    ((6, 64, 48), (0, 2, 1)),
    ((2, 2, 96), (2, 1, 0)),
)


def run_of(shape: tuple[int, ...], perm: tuple[int, ...], computes: bool) -> VectorRun:
    """The run that copies a tensor of ``shape`` from one whose dimension ``perm[d]`` is its d."""
    operand = [0] * len(shape)
    for d, source in enumerate(perm):
        operand[source] = shape[d]
    read = tuple(prod(operand[source + 1 :]) for source in perm)
    written = tuple(prod(shape[d + 1 :]) for d in range(len(shape)))
    body = (Load(0, 0), Unary(UnaryFn.RELU, 0)) if computes else (Load(0, 0),)
    return VectorRun(shape, (read,), (Output(written, len(body) - 1),), body)


@pytest.mark.parametrize("isa", [AVX2, AVX512], ids=lambda isa: isa.name)
@pytest.mark.parametrize("computes", [False, True], ids=["copied", "computed"])
@pytest.mark.parametrize(("shape", "perm"), SHAPES)
def test_counts_are_those_of_the_generated_kernel(
    shape: tuple[int, ...], perm: tuple[int, ...], computes: bool, isa: VectorIsa
) -> None:
    work = Transposition(shape, perm).work(shape, isa.lanes, np.ones(1), computes)
    found = {name: float(each[0]) * prod(shape) for name, each in work.items()}
    run = run_of(shape, perm, computes)
    beside, squares = interleaving(run, isa), square_copy(run, isa)
    if beside is not None:
        assert found["interleaved"] == pytest.approx(prod(shape) / isa.lanes)
        assert found["squared"] == found["strided"] == 0
    elif squares is not None:
        outer = prod(dim.size for dim in squares.outer)
        edges = [-(-d.size // squares.edge) for d in (squares.along, squares.across)]
        assert found["squares"] == pytest.approx(outer * prod(edges))
        assert found["squared"] == pytest.approx(outer * prod(edges) * squares.edge**2)
        assert found["interleaved"] == found["strided"] == 0
    else:
        assert found["strided"] == prod(shape)
        assert found["squared"] == found["interleaved"] == 0


def test_each_kind_of_kernel_occurs() -> None:
    kinds = set()
    for shape, perm in SHAPES:
        run = run_of(shape, perm, False)
        kinds.add((interleaving(run, AVX2) is not None, square_copy(run, AVX2) is not None))
    assert len(kinds) >= 3


def test_lines_a_power_of_two_apart_fall_into_few_sets() -> None:
    like = np.ones(1)
    for width, collides in ((1024, True), (1030, False)):
        work = Transposition((width, 64), (1, 0)).work((width, 64), 16, like, False)
        assert bool(work["squared_set"][0] > 0) is collides
