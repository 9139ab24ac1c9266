"""Hypothesis strategies: small random graphs and legal schedules for their groups."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from autotune.fusion.nest import ADDRESS_LOOPS, Nest
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OPERATORS, OpKind
from autotune.schedule.fit import loops
from autotune.schedule.schedule import NestSchedule, Schedule

RNG = np.random.default_rng(7)


def array(*shape: int) -> np.ndarray:
    """Random weights of moderate size."""
    return (RNG.standard_normal(shape) / 2).astype(np.float32)


UNARY_KINDS = (
    OpKind.RELU,
    OpKind.TANH,
    OpKind.SIGMOID,
    OpKind.NEG,
    OpKind.SIN,
    OpKind.ATAN,
    OpKind.ASINH,
    OpKind.SOFTPLUS,
)
"""Functions without steps, defined everywhere, that do not make large numbers."""
STEP_KINDS = (
    OpKind.FLOOR,
    OpKind.CEIL,
    OpKind.ROUND,
    OpKind.TRUNC,
    OpKind.SIGN,
    OpKind.MOD,
    OpKind.FMOD,
)


class Grower:
    """Adds one drawn operator at a time to a builder, keeping the tensors that may be read."""

    def __init__(self, draw: st.DrawFn, builder: GraphBuilder, tensors: list[str]) -> None:
        self.draw = draw
        self.builder = builder
        self.tensors = tensors
        self.shapes: dict[str, tuple[int, ...]] = {}

    def pick(self) -> str:
        return self.draw(st.sampled_from(self.tensors[-3:]))

    def put(self, tensor: str, shape: tuple[int, ...]) -> None:
        self.tensors.append(tensor)
        self.shapes[tensor] = shape

    def conv(self, x: str) -> None:
        n, c, h, w = self.shapes[x]
        kernel = self.draw(st.sampled_from([1, 2, 3]))
        stride, pad = self.draw(st.integers(1, 2)), self.draw(st.integers(0, kernel - 1))
        depthwise = self.draw(st.booleans())
        group = c if depthwise else self.draw(st.sampled_from([g for g in (1, 2) if c % g == 0]))
        out = c if depthwise else group * self.draw(st.integers(1, 4))
        oh, ow = ((s + 2 * pad - kernel) // stride + 1 for s in (h, w))
        if oh < 1 or ow < 1:
            return
        inputs = [x, self.builder.constant(array(out, c // group, kernel, kernel))]
        if self.draw(st.booleans()):
            inputs.append(self.builder.constant(array(out)))
        y = self.builder.add(
            OpKind.CONV,
            *inputs,
            strides=(stride, stride),
            pads=(pad,) * 4,
            dilations=(1, 1),
            group=group,
        )
        self.put(y, (n, out, oh, ow))

    def pool(self, x: str) -> None:
        n, c, h, w = self.shapes[x]
        if h < 2 or w < 2:
            return
        kind = self.draw(st.sampled_from([OpKind.MAX_POOL, OpKind.AVERAGE_POOL]))
        extra = (
            {"count_include_pad": self.draw(st.integers(0, 1))}
            if kind is OpKind.AVERAGE_POOL
            else {}
        )
        pad = self.draw(st.integers(0, 1))
        y = self.builder.add(
            kind, x, kernel=(2, 2), strides=(2, 1), pads=(pad,) * 4, dilations=(1, 1), **extra
        )
        self.put(y, (n, c, (h + 2 * pad - 2) // 2 + 1, w + 2 * pad - 1))

    def slide(self, x: str) -> None:
        axis = self.draw(st.integers(0, len(self.shapes[x]) - 1))
        before, after = self.draw(st.integers(0, 3)), self.draw(st.integers(0, 3))
        y = self.builder.add(OpKind.SLIDING_SUM, x, axis=axis, before=before, after=after)
        self.put(y, self.shapes[x])

    def unary(self, x: str) -> None:
        kind = self.draw(st.sampled_from(UNARY_KINDS))
        self.put(self.builder.add(kind, x), self.shapes[x])

    def elu(self, x: str) -> None:
        y = self.builder.add(OpKind.ELU, x, alpha=0.5, scale=1.25)
        self.put(y, self.shapes[x])

    def step_function(self, x: str) -> None:
        """x plus a function with steps: of constants, since rounding moves nothing across a step."""
        shape = self.shapes[x]
        kind = self.draw(st.sampled_from(STEP_KINDS))
        count = OPERATORS[kind].arity[0]
        steps = self.builder.add(
            kind, *(self.builder.constant(4 * array(*shape)) for _ in range(count))
        )
        self.put(self.builder.add(OpKind.ADD, x, steps), shape)

    def choice(self, x: str) -> None:
        """A choice between two tensors of one shape, by a comparison of constants."""
        shape = self.shapes[x]
        same = [t for t in self.tensors if self.shapes[t] == shape]
        kind = self.draw(st.sampled_from([OpKind.LESS, OpKind.LESS_EQUAL, OpKind.EQUAL]))
        row = self.builder.constant(np.round(2 * array(*shape[:-1], 1)))
        mask = self.builder.add(kind, row, self.builder.constant(np.round(array(*shape))))
        kept = self.builder.add(OpKind.KEEP_IF, x, mask)
        other = self.builder.add(OpKind.KEEP_UNLESS, self.draw(st.sampled_from(same)), mask)
        self.put(self.builder.add(OpKind.ADD, kept, other), shape)

    def binary(self, x: str) -> None:
        kind = self.draw(st.sampled_from([OpKind.ADD, OpKind.MUL, OpKind.MAXIMUM, OpKind.SUB]))
        same = [t for t in self.tensors if self.shapes[t] == self.shapes[x]]
        shape = self.shapes[x]
        vector = (shape[1],) + (1,) * (len(shape) - 2) if len(shape) == 4 else shape[-1:]
        other = self.draw(st.sampled_from([*same, "vector"]))
        if other == "vector":
            other = self.builder.constant(array(*vector))
        self.put(self.builder.add(kind, x, other), shape)

    def concat(self, x: str) -> None:
        fits = [
            t
            for t in self.tensors
            if self.shapes[t][2:] == self.shapes[x][2:]
            and self.shapes[t][0] == self.shapes[x][0]
            and len(self.shapes[t]) == len(self.shapes[x])
        ]
        other = self.draw(st.sampled_from(fits))
        shape = list(self.shapes[x])
        shape[1] += self.shapes[other][1]
        self.put(self.builder.add(OpKind.CONCAT, x, other, axis=1), tuple(shape))

    def reduce(self, x: str) -> None:
        kind = self.draw(
            st.sampled_from(
                [OpKind.REDUCE_MEAN, OpKind.REDUCE_MAX, OpKind.REDUCE_SUM, OpKind.REDUCE_MIN]
            )
        )
        rank = len(self.shapes[x])
        axes = tuple(sorted(self.draw(st.sets(st.integers(1, rank - 1), min_size=1, max_size=2))))
        shape = tuple(1 if d in axes else n for d, n in enumerate(self.shapes[x]))
        self.put(self.builder.add(kind, x, axes=axes), shape)

    def matmul(self, x: str) -> None:
        *batch, m, k = self.shapes[x]
        n = self.draw(st.integers(1, 6))
        trans = self.draw(st.integers(0, 1))
        w = self.builder.constant(array(n, k) if trans else array(k, n))
        y = self.builder.add(OpKind.MATMUL, x, w, trans_a=0, trans_b=trans)
        self.put(y, (*batch, m, n))

    def softmax(self, x: str) -> None:
        rank = len(self.shapes[x])
        axis = self.draw(st.integers(1, rank - 1))
        self.put(self.builder.add(OpKind.SOFTMAX, x, axis=axis), self.shapes[x])

    def normalisation(self, x: str) -> None:
        shape = self.shapes[x]
        kind = self.draw(st.sampled_from([OpKind.LAYER_NORM, OpKind.RMS_NORM]))
        count = 2 if kind is OpKind.LAYER_NORM else 1
        parameters = [self.builder.constant(array(shape[-1])) for _ in range(count)]
        y = self.builder.add(kind, x, *parameters, axis=len(shape) - 1, epsilon=1e-3)
        self.put(y, shape)

    def transpose(self, x: str) -> None:
        perm = tuple(self.draw(st.permutations(range(len(self.shapes[x])))))
        self.put(
            self.builder.add(OpKind.TRANSPOSE, x, perm=perm), tuple(self.shapes[x][d] for d in perm)
        )

    def reshape(self, x: str) -> None:
        shape = self.shapes[x]
        flat = (
            (shape[0], math.prod(shape[1:-1]), shape[-1])
            if len(shape) > 3
            else (*shape[:-2], shape[-2] * shape[-1])
        )
        if len(flat) > 1:
            self.put(self.builder.add(OpKind.RESHAPE, x, shape=flat), flat)

    def slice(self, x: str) -> None:
        starts, steps, sizes = [], [], []
        for extent in self.shapes[x]:
            step = self.draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2]))
            first, last = (
                self.draw(st.integers(0, extent - 1)),
                self.draw(st.integers(0, extent - 1)),
            )
            low, high = min(first, last), max(first, last)
            starts.append(low if step > 0 else high)
            steps.append(step)
            sizes.append((high - low) // abs(step) + 1)
        y = self.builder.add(
            OpKind.SLICE, x, starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes)
        )
        self.put(y, tuple(sizes))

    def pad(self, x: str) -> None:
        shape = self.shapes[x]
        before, after = (tuple(self.draw(st.integers(0, 2)) for _ in shape) for _ in range(2))
        value = self.draw(st.sampled_from([0.0, 1.5, -2.0]))
        y = self.builder.add(OpKind.PAD, x, before=before, after=after, value=value)
        self.put(y, tuple(n + b + a for n, b, a in zip(shape, before, after, strict=True)))

    def expand(self, x: str) -> None:
        shape = tuple(self.draw(st.integers(1, 3)) if n == 1 else n for n in self.shapes[x])
        self.put(self.builder.add(OpKind.EXPAND, x, shape=shape), shape)

    def gather(self, x: str) -> None:
        """Rows by known numbers, or by those of the input, which every engine has exactly."""
        rows, columns = self.draw(st.integers(1, 5)), self.draw(st.integers(1, 4))
        if self.draw(st.booleans()):
            numbers = self.builder.constant(2 * array(rows))
            table = self.builder.add(
                OpKind.RESHAPE, x, shape=(math.prod(self.shapes[x][:-1]), self.shapes[x][-1])
            )
            y = self.builder.add(OpKind.GATHER, table, numbers)
            self.put(y, (rows, self.shapes[x][-1]))
            return
        shape = self.shapes["x"]
        flat = self.builder.add(OpKind.RESHAPE, "x", shape=(math.prod(shape),))
        numbers = self.builder.add(OpKind.MAXIMUM, flat, self.builder.constant(array(1)))
        table = self.builder.constant(array(rows, columns))
        y = self.builder.add(OpKind.GATHER, table, numbers)
        self.put(y, (math.prod(shape), columns))


IMAGE = (Grower.conv, Grower.conv, Grower.pool)
ANY = (
    Grower.unary,
    Grower.elu,
    Grower.step_function,
    Grower.choice,
    Grower.binary,
    Grower.reduce,
    Grower.slide,
    Grower.matmul,
    Grower.softmax,
    Grower.normalisation,
    Grower.transpose,
    Grower.concat,
    Grower.reshape,
    Grower.slice,
    Grower.pad,
    Grower.expand,
    Grower.gather,
)


@st.composite
def graphs(draw: st.DrawFn, max_ops: int = 6) -> Graph:
    """A connected-enough graph of up to ``max_ops`` operators over one image or sequence input."""
    builder = GraphBuilder("drawn")
    shape = draw(st.sampled_from([(1, 4, 6, 5), (2, 3, 5, 4), (1, 6, 8, 4), (2, 5, 4), (7, 6)]))
    grower = Grower(draw, builder, [])
    grower.put(builder.input("x", shape), shape)
    for _ in range(draw(st.integers(1, max_ops))):
        x = grower.pick()
        menu = ANY + (IMAGE if len(grower.shapes[x]) == 4 else ())
        draw(st.sampled_from(menu))(grower, x)
    made = [t for t in grower.tensors if t != "x"]
    if not made:
        made = [builder.add(OpKind.RELU, "x")]
    outputs = {made[-1], *draw(st.sets(st.sampled_from(made), max_size=2))}
    return builder.build(outputs=[t for t in made if t in outputs])


def _extents(extent: int, granule: int) -> st.SearchStrategy[int]:
    """Any part of a dimension that is a multiple of ``granule``, or all of it."""
    return st.integers(1, -(-extent // granule)).map(lambda n: min(n * granule, extent))


@st.composite
def nest_schedules(
    draw: st.DrawFn, nest: Nest, most_cores: int = 2, most_buffers: int = 2, patches: bool = True
) -> NestSchedule:
    """Any legal schedule of a nest on a machine with a large scratchpad."""
    tile = tuple(
        n if d in nest.forced else draw(_extents(n, nest.granule(d)))
        for d, n in enumerate(nest.root_shape)
    )
    k_tile = tuple(
        draw(st.integers(1, c.k_extent)) if c.chunkable else c.k_extent for c in nest.contractions
    )
    order = tuple(draw(st.permutations(range(len(tile)))))
    split = [d for d in order if tile[d] < nest.root_shape[d]]
    cores = draw(st.integers(1, most_cores)) if nest.shareable.issuperset(split[:1]) else 1
    im2col = patches and nest.takes_patches and draw(st.booleans())
    drawn = NestSchedule(tile, order, k_tile, draw(st.integers(1, most_buffers)), cores, im2col)
    assume(all(loops(nest, drawn, moving) <= ADDRESS_LOOPS for moving in nest.moving_operands))
    return drawn


def schedules(nests: tuple[Nest, ...]) -> st.SearchStrategy[Schedule]:
    """One schedule per nest."""
    return st.tuples(*(nest_schedules(nest) for nest in nests)).map(Schedule)
