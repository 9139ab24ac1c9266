"""Every instruction computes what the plain numpy interpreter computes."""

from __future__ import annotations

import math

import numpy as np
from drawn_case import (
    Fields,
    address,
    coordinates,
    dense,
    extents,
    near,
    nested,
    rectangle,
    repeats,
    sized,
    span,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from machine_case import load, make, program, store, tensor

from autotune.isa.program import Instruction, Program, Role
from autotune.isa.table import BinaryFn, Opcode, ReduceFn, UnaryFn, When
from autotune.targets.emulator import EmulatorTarget
from autotune.targets.library import load_spec
from oracle import Interpreter

ELEMENTS = 6000
HALF = ELEMENTS // 2
TARGET = EmulatorTarget(load_spec("edge"))


def compare(case: Program, feeds: dict[str, np.ndarray]) -> None:
    """Engine and interpreter agree on all outputs."""
    execution, got = TARGET.run(case, feeds)
    want = Interpreter(case, feeds).run()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=3e-5, atol=3e-5, equal_nan=True)
    assert TARGET.time(case) == execution


def on_scratchpad(*body: Instruction, positive: bool = False) -> None:
    """Compare the whole scratchpad after ``body``, which begins with random numbers in it."""
    data = np.random.default_rng(7).standard_normal(ELEMENTS).astype(np.float32)
    case = program(
        load(0, 0, ELEMENTS),
        *body,
        store(1, 0, ELEMENTS),
        tensors=(tensor("x", ELEMENTS), tensor("y", ELEMENTS, role=Role.OUTPUT)),
        elements=ELEMENTS,
    )
    compare(case, {"x": np.abs(data) + 0.1 if positive else data})


@settings(max_examples=120)
@given(st.data(), st.sampled_from(UnaryFn), extents(), st.booleans())
def test_unary(data: st.DataObject, fn: UnaryFn, sizes: tuple[int, ...], in_place: bool) -> None:
    strides = data.draw(dense(sizes))
    fields = rectangle("dst", strides) | data.draw(address("dst", 0, HALF, span(sizes, strides)))
    if in_place:
        fields |= {name.replace("dst", "src"): value for name, value in fields.items()}
    else:
        keep = data.draw(st.tuples(*[st.booleans()] * 5))
        strides = repeats(data.draw(dense(sizes)), keep)
        fields |= rectangle("src", strides)
        fields |= data.draw(address("src", HALF, ELEMENTS, span(sizes, strides)))
    scalars = data.draw(st.sampled_from(((-0.5, 0.75), (0.1, 0.2), (1.0, 6.0))))
    fields |= sized(sizes) | {"fn": int(fn), "p0": scalars[0], "p1": scalars[1]}
    once = nested(make(Opcode.UNARY, **fields), trips=1 if in_place else 3)
    on_scratchpad(*once, positive=True)


@settings(max_examples=120)
@given(st.data(), st.sampled_from([*BinaryFn, None]), extents())
def test_binary_and_fma(data: st.DataObject, fn: BinaryFn | None, sizes: tuple[int, ...]) -> None:
    strides = data.draw(dense(sizes))
    third = ELEMENTS // 3
    assume(span(sizes, strides) <= third)
    fields = rectangle("dst", strides) | data.draw(address("dst", 0, third, span(sizes, strides)))
    for name, low in (("lhs", third), ("rhs", 2 * third)):
        keep = data.draw(st.tuples(*[st.booleans()] * 5))
        own = repeats(data.draw(dense(sizes)), keep)
        assume(span(sizes, own) <= third)
        fields |= rectangle(name, own) | data.draw(
            address(name, low, low + third, span(sizes, own))
        )
    fields |= sized(sizes)
    if fn is None:
        on_scratchpad(*nested(make(Opcode.FMA, **fields)))
    else:
        on_scratchpad(
            *nested(make(Opcode.BINARY, fn=int(fn), **fields)), positive=fn is BinaryFn.POW
        )


@given(st.integers(1, 200), st.sampled_from([*BinaryFn, None]), st.tuples(*[st.integers(0, 2)] * 2))
def test_long_rows_of_binary_and_fma(n: int, fn: BinaryFn | None, strides: tuple[int, int]) -> None:
    fields: Fields = {"size4": n, "dst_stride4": 1, "lhs_base": 1000, "rhs_base": 2000}
    fields |= {"lhs_stride4": strides[0], "rhs_stride4": strides[1]}
    if fn is None:
        on_scratchpad(make(Opcode.FMA, **fields))
    else:
        on_scratchpad(make(Opcode.BINARY, fn=int(fn), **fields), positive=True)


@settings(max_examples=120)
@given(st.data(), st.sampled_from(ReduceFn), st.integers(0, 1), st.sampled_from((4, 4, 50)))
def test_reduce(data: st.DataObject, fn: ReduceFn, accumulate: int, inner: int) -> None:
    sizes = (*data.draw(extents(3, 4)), data.draw(st.integers(1, inner)))
    keep = data.draw(st.tuples(*[st.booleans()] * 5))
    kept = tuple(n if k else 1 for n, k in zip(sizes, keep, strict=True))
    strides = repeats(data.draw(dense(kept)), keep)
    fields = rectangle("dst", strides) | data.draw(address("dst", 0, HALF, span(kept, strides)))
    strides = data.draw(dense(sizes)) if math.prod(sizes) < 80 else (0, 0, 0, 2, 1)
    fields |= rectangle("src", strides)
    fields |= data.draw(address("src", HALF, ELEMENTS, span(sizes, strides)))
    fields |= sized(sizes) | {"fn": int(fn), "accumulate": accumulate}
    on_scratchpad(*nested(make(Opcode.REDUCE, **fields)))


@given(st.data(), extents())
def test_fill(data: st.DataObject, sizes: tuple[int, ...]) -> None:
    strides = data.draw(dense(sizes))
    fields = data.draw(address("dst", 0, ELEMENTS, span(sizes, strides)))
    on_scratchpad(
        *nested(make(Opcode.FILL, p0=2.5, **fields, **sized(sizes), **rectangle("dst", strides)))
    )


@settings(max_examples=120)
@given(st.data(), extents(), coordinates(), extents(6))
def test_mask(
    data: st.DataObject, sizes: tuple[int, ...], at: Fields, shape: tuple[int, ...]
) -> None:
    strides = data.draw(dense(sizes))
    fields = data.draw(address("dst", 0, ELEMENTS, span(sizes, strides)))
    fields |= {f"extent{d}": n for d, n in enumerate(shape)}
    on_scratchpad(
        *nested(
            make(Opcode.MASK, p0=9.0, **fields, **at, **sized(sizes), **rectangle("dst", strides))
        )
    )


@settings(max_examples=120)
@given(st.data(), st.integers(1, 5))
def test_load_pads_and_transposes_and_store_clips(data: st.DataObject, rank: int) -> None:
    shape, sizes = data.draw(extents(6, rank)), data.draw(extents(4, rank))
    strides = data.draw(dense(sizes))
    at = data.draw(coordinates())
    at = {name: value for name, value in at.items() if int(name[-1]) < rank}
    place = data.draw(address("dst", 0, ELEMENTS, span(sizes, strides)))
    common = {**sized(sizes), **at}
    moved = {name.replace("dst", "src"): value for name, value in place.items()}
    case = program(
        make(Opcode.FILL, size4=ELEMENTS, dst_stride4=1, p0=-1.0),
        *nested(
            make(Opcode.LOAD, tensor=0, pad=7.0, **common, **place, **rectangle("dst", strides)),
            make(Opcode.STORE, tensor=1, **common, **moved, **rectangle("src", strides)),
        ),
        tensors=(tensor("x", *shape), tensor("y", *shape, role=Role.OUTPUT)),
        elements=ELEMENTS,
    )
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    compare(case, {"x": x})


@settings(max_examples=150)
@given(
    st.data(),
    st.tuples(*[st.integers(1, n) for n in (9, 4, 20, 3, 3, 6)]),
    st.sampled_from(When),
    st.sampled_from(When),
    st.integers(0, 2),
    st.sampled_from((UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU, UnaryFn.CLIP)),
)
def test_matmul(
    data: st.DataObject, sizes: tuple[int, ...], adds: When, ends: When, bias_axis: int, fn: UnaryFn
) -> None:
    n = dict(zip(("m", "n1", "n0", "k2", "k1", "k0"), sizes, strict=True))
    dims = {
        "a": ("m", "k2", "k1", "k0"),
        "b": ("k2", "k1", "k0", "n1", "n0"),
        "c": ("m", "n1", "n0"),
    }
    whole = ELEMENTS * 4
    fields: Fields = dict(n.items())
    for place, (name, own) in enumerate(dims.items()):
        extent = tuple(n[d] for d in own)
        strides = data.draw(dense(extent)) if name == "c" else data.draw(near(extent))
        fields |= {f"{name}_{d}": s for d, s in zip(own, strides, strict=True)}
        low, high = place * whole // 4, (place + 1) * whole // 4
        fields |= data.draw(address(name, low, high, span(extent, strides)))
    fields |= data.draw(address("bias", 3 * whole // 4, whole, 20))
    fields |= {
        "accumulate": int(adds),
        "epilogue": int(ends),
        "bias_axis": bias_axis,
        "fn": int(fn),
    }
    fields |= {"k_level": data.draw(st.integers(0, 1)), "p0": -0.5, "p1": 0.75}
    numbers = np.random.default_rng(3).standard_normal(whole).astype(np.float32)
    case = program(
        load(0, 0, whole),
        *nested(make(Opcode.MATMUL, **fields)),
        store(1, 0, whole),
        tensors=(tensor("x", whole), tensor("y", whole, role=Role.OUTPUT)),
        elements=whole,
    )
    execution, got = TARGET.run(case, {"x": numbers})
    want = Interpreter(case, {"x": numbers}).run()
    np.testing.assert_allclose(got["y"], want["y"], rtol=1e-4, atol=1e-4)
    assert TARGET.time(case) == execution


@given(st.integers(1, 130), st.integers(1, 70), st.integers(1, 40), st.sampled_from((1, 300, 700)))
@settings(max_examples=40)
def test_matmul_larger_than_its_blocks(m: int, n: int, n1: int, k: int) -> None:
    n1 = 1 if k > 1 else n1
    a, c = m * k, m * n1 * n
    b = k * n1 * n
    case = program(
        make(Opcode.LOAD, tensor=0, size0=m, size1=k, dst_stride0=k, dst_stride1=1),
        make(Opcode.LOAD, tensor=1, dst_base=a, size0=k, size1=n1 * n, dst_stride0=n1 * n, dst_stride1=1),
        make(
            Opcode.MATMUL, b_base=a, c_base=a + b, m=m, n1=n1, n0=n, k0=k, a_m=k, a_k0=1,
            b_k0=n1 * n, b_n1=n, b_n0=1, c_m=n1 * n, c_n1=n, c_n0=1,
        ),
        make(Opcode.STORE, tensor=2, src_base=a + b, size0=m, size1=n1 * n, src_stride0=n1 * n, src_stride1=1),
        tensors=(tensor("a", m, k), tensor("b", k, n1 * n), tensor("c", m, n1 * n, role=Role.OUTPUT)),
        elements=a + b + c,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((m, k)), rng.standard_normal((k, n1 * n))
    feeds = {"a": left.astype(np.float32), "b": right.astype(np.float32)}
    _, got = EmulatorTarget(load_spec("server")).run(case, feeds)
    np.testing.assert_allclose(got["c"], left @ right, rtol=1e-3, atol=1e-3)


@given(st.integers(1, 30), st.integers(1, 70), st.integers(1, 800))
@settings(max_examples=20)
def test_matmul_sums_its_reduction_in_order_in_blocks_of_256(m: int, n: int, k: int) -> None:
    """Bit for bit, on numbers of 8 bits whose products are exact with and without FMA."""
    a, b = m * k, k * n
    case = program(
        load(0, 0, a),
        load(1, a, b),
        make(
            Opcode.MATMUL, b_base=a, c_base=a + b, m=m, n0=n, k0=k, a_m=k, a_k0=1,
            b_k0=n, b_n0=1, c_m=n, c_n0=1,
        ),
        store(2, a + b, m * n),
        tensors=(tensor("a", a), tensor("b", b), tensor("c", m * n, role=Role.OUTPUT)),
        elements=a + b + m * n,
    )  # fmt: skip
    rng = np.random.default_rng(k)
    left, right = (
        (rng.integers(-255, 256, shape) * 2.0 ** rng.integers(-9, 2, shape)).astype(np.float32)
        for shape in ((m, k), (k, n))
    )
    want = np.zeros((m, n), np.float32)
    for block in range(0, k, 256):
        total = np.zeros((m, n), np.float32)
        for i in range(block, min(block + 256, k)):
            total += left[:, i, None] * right[None, i]
        want = total if block == 0 else want + total
    _, got = EmulatorTarget(load_spec("server")).run(case, {"a": left.ravel(), "b": right.ravel()})
    np.testing.assert_array_equal(got["c"].reshape(m, n), want)
