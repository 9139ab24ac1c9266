"""What a CPU is counted to do is what the native engine does with the lowered program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from autotune.cost_model.bound.program_work import busiest
from autotune.cost_model.cached.model import CachedAnalysis
from autotune.cost_model.cached.product_work import (
    BLOCKED_CYCLES,
    PARTS,
    WIDTHS,
    product_work,
)
from autotune.cost_model.cached.unit_costs import fit_unit_costs
from autotune.cost_model.cached.work_counts import busiest_share
from autotune.cost_model.cached.work_kinds import (
    FEATURE_NAMES,
    INDEX,
    LOG_STEP,
    UNIT_COSTS,
    WORK_KINDS,
    Floats,
    WorkKind,
    function_kind,
    work_features,
)
from autotune.cost_model.features import features
from autotune.cost_model.fitting import fit
from autotune.cost_model.model import CostModel
from autotune.cost_model.steps.tiling import Tiling
from autotune.errors import ScheduleError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.passes import laid_out
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS
from autotune.isa.functions import UnaryFn
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind
from autotune.operators.tensor import DType
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import Ints, ScheduleTable
from autotune.store.records import Record
from autotune.targets.native.analysis.copy_elision import elide_copies
from autotune.targets.native.analysis.tree import leaves, tree_of
from autotune.targets.native.codegen.gemm import blocking
from autotune.targets.native.codegen.gemm.loops import Axis, Loops, Reduction, loops_of
from autotune.targets.native.codegen.gemm.shape import GemmShape, VectorAxis
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.cpu.vector_isa import AVX2, AVX512, VectorIsa
from autotune.targets.native.linking.loader import bind
from autotune.targets.spec import Memory
from tests.cost_model.measured import SPEC, drawn, observations
from tests.cost_model.walked import walk

ROUNDED_ROWS = 0.02
"""A product's tiles have the mean of their rows here, there whole ones."""

HOST = replace(SPEC, name="host", layout="channels_last", tile_multiple=32, memory=Memory.CACHED)
WALKABLE = 5_000


def on_one_core(schedule: Schedule) -> Schedule:
    return Schedule(tuple(replace(part, cores=1, buffers=1) for part in schedule.nests))


def rows_of(sizes: Sequence[int], shape: Sequence[int]) -> int:
    """Rows of a rectangle: how often its elements, in order, do not lie one behind the other in a
    tensor of this shape, and one."""
    steps = np.cumprod([1, *reversed(shape[1:])])[::-1]
    at = np.zeros((), dtype=np.int64)
    for size, step in zip(sizes, steps, strict=True):
        at = at[..., None] + np.arange(size) * step
    return 1 + int(np.count_nonzero(np.diff(at.reshape(-1)) != 1))


def copied(program: Program) -> tuple[int, int]:
    """Elements, and rows of them, that LOADs copy which the native engine does not leave out, over
    all trips."""
    order = tuple(leaves(tree_of(program.streams[0])))
    left_out = elide_copies(program, order).dropped
    elements = rows = 0
    for leaf in order:
        if leaf.opcode is Opcode.LOAD and leaf.place not in left_out:
            trips = math.prod(block.trips for block in leaf.path)
            shape = program.tensors[leaf.instruction.get("tensor")].shape
            sizes = [leaf.instruction.get(f"size{d}") for d in range(len(shape))]
            elements += trips * math.prod(sizes)
            rows += trips * rows_of(sizes, shape)
    return elements, rows


def rows_stored(program: Program, stream: int) -> list[int]:
    """Rows of each tile that a stream stores, in order."""
    found: list[int] = []
    for leaf in leaves(tree_of(program.streams[stream])):
        if leaf.opcode is Opcode.STORE:
            found += [leaf.instruction.get("size0")] * math.prod(b.trips for b in leaf.path)
    return found


@given(seed=st.integers(0, 10_000))
@example(seed=5087)  # a tile of some of a convolution's groups
@example(seed=21)  # a smaller piece of a reduction before a row of whole ones
@example(seed=189)  # padded, of channels in pieces
@example(seed=152)  # only some of the tiles reach outside
@settings(max_examples=25)
def test_products_and_copies_are_those_of_the_program(seed: int) -> None:
    group, nests, schedule = drawn(np.random.default_rng(seed), Layout.CHANNELS_LAST)
    schedule = on_one_core(schedule)
    found, loaded, stores_copy = np.zeros(len(WORK_KINDS)), np.zeros(2), False
    for nest, part in zip(nests, schedule.nests, strict=True):
        analysis = CachedAnalysis(nest, ScheduleTable.of(nest, [part]), HOST)
        assume(float(analysis.instructions[0]) < WALKABLE)
        counts = analysis.work[0]
        found += counts
        if counts[INDEX["copied_rows"]] > 0:
            stores_copy |= any(stage.view for stage in nest.stages)
            loaded += counts[[INDEX["copied"], INDEX["copied_rows"]]]
    try:
        program = lower(group, schedule, HOST)
    except ScheduleError:
        assume(False)
    assert found[INDEX["product_calls"]] == walk(program)["matrix_instructions"]
    elements, rows = copied(program)
    assert loaded[1] == pytest.approx(rows, rel=1e-9)
    assert stores_copy or loaded[0] == pytest.approx(elements, rel=1e-9)


def test_rows_of_a_padded_image_end_with_the_piece_of_the_reduction() -> None:
    b = GraphBuilder("channels_in_pieces")
    weight = b.constant(np.ones((64, 64, 3, 3)))
    y = b.add(OpKind.CONV, b.input("x", (1, 64, 28, 28)), weight, pads=(1, 1, 1, 1))
    graph = laid_out(b.build([y]), Layout.CHANNELS_LAST).graph
    group = Group.from_graph(graph, [op.name for op in graph.ops if op.kind is OpKind.CONV])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    part = NestSchedule((1, 4, 5, 48), (0, 1, 2, 3), (10,), 1)
    counts = CachedAnalysis(nests[0], ScheduleTable.of(nests[0], [part]), HOST).work[0]
    found = counts[[INDEX["copied"], INDEX["copied_rows"]]]
    assert found == pytest.approx(copied(lower(group, Schedule((part,)), HOST)), rel=1e-9)
    assert found[0] / found[1] < 10


def test_a_table_is_held_whole_and_only_rows_of_it_are_moved() -> None:
    words, width, count = 30_000, 256, 16
    b = GraphBuilder("embedding")
    table, numbers = b.input("table", (words, width)), b.input("numbers", (count,))
    y = b.add(OpKind.GATHER, table, numbers)
    graph = b.build([y])
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    rng = np.random.default_rng(0)
    rows = enumerate_nest(nests[0], HOST.capacity, 1, 4, rng, 1, 1)
    analysis = CachedAnalysis(nests[0], rows, HOST)
    # numbers in, rows taken from the table, rows out
    assert analysis.moved_bytes.tolist() == [4.0 * (count + 2 * count * width)] * len(rows)
    far = analysis.work[:, INDEX["from_dram"]]
    assert (far > 0.9 * 4 * 2 * count * width).all()


@given(seed=st.integers(0, 10_000), cores=st.integers(1, 2))
@settings(max_examples=25)
def test_counts_are_finite_and_do_not_depend_on_their_table(seed: int, cores: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng, Layout.CHANNELS_LAST)
    table = enumerate_nest(nests[0], HOST.capacity, cores, 40, rng, 1, 1)
    whole = CachedAnalysis(nests[0], table, HOST).work
    assert whole.shape == (len(table), len(WORK_KINDS))
    assert np.isfinite(whole).all() and (whole >= 0).all()
    for row in range(0, len(table), 7):
        alone = CachedAnalysis(nests[0], table.take([row]), HOST).work
        np.testing.assert_allclose(alone[0], whole[row], rtol=1e-9, atol=1e-9)
    assert features(nests[0], table, HOST).shape[1] == len(FEATURE_NAMES)


@given(rows=st.integers(2, 60), tile=st.integers(1, 60), cores=st.integers(1, 2))
@example(rows=50, tile=48, cores=2)  # no halves
@example(rows=21, tile=7, cores=2)
def test_cores_share_tiles_of_the_sizes_that_the_program_gives_them(
    rows: int, tile: int, cores: int
) -> None:
    tile = min(rows, tile)
    b = GraphBuilder("relu")
    graph = b.build([b.add(OpKind.RELU, b.input("x", (rows, 64)))])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nest = analyse(group)[0]
    cores = cores if tile < rows else 1
    one = NestSchedule((tile, 64), (0, 1), (), 1, cores)
    spec = replace(SPEC, cores=cores)
    program = lower(group, Schedule((one,)), spec)
    stored = [rows_stored(program, number) for number in range(len(program.streams))]
    assert sum(map(sum, stored)) == rows
    found = busiest_share(Tiling(nest, ScheduleTable.of(nest, [one])))
    assert found == pytest.approx(busiest([x for each in stored for x in each], cores) / rows)


def test_a_nest_without_axes_is_work_of_one_core() -> None:
    b = GraphBuilder("scalar")
    graph = b.build([b.add(OpKind.RELU, b.input("x", ()))])
    (nest,) = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    one = NestSchedule((), (), (), 1, 1)
    assert busiest_share(Tiling(nest, ScheduleTable.of(nest, [one]))).tolist() == [1.0]


@pytest.mark.parametrize(
    ("order", "cores", "borders"),
    [((0, 1, 2), 2, 1), ((1, 0, 2), 2, 4), ((1, 0, 2), 1, 0), ((2, 0, 1), 2, 24)],
)
def test_regions_of_cores_touch_in_each_row_that_they_share(
    order: tuple[int, ...], cores: int, borders: int
) -> None:
    b = GraphBuilder("relu")
    graph = b.build([b.add(OpKind.RELU, b.input("x", (4, 6, 64)))])
    nest = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))[0]
    one = NestSchedule((2, 3, 32), order, (), 1, cores)
    counted = CachedAnalysis(nest, ScheduleTable.of(nest, [one]), HOST).work
    assert counted[0, INDEX["borders"]] == borders


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_multiply_adds_take_at_least_the_cycles_of_their_pipes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, r, k = (rng.integers(1, 600, 20) for _ in range(3))
    lanes = int(rng.choice([4, 8, 16]))
    assert (product_cycles(v, r, k, lanes) >= v * r * k / lanes / 2).all()


@given(st.integers(0, 10_000), st.sampled_from([1, 2]))
@settings(max_examples=25)
def test_a_core_of_fewer_pipes_begins_fewer_multiply_adds_and_waits_for_no_more(
    seed: int, pipes: int
) -> None:
    rng = np.random.default_rng(seed)
    v, r, k = (rng.integers(1, 600, 20) for _ in range(3))
    lanes = int(rng.choice([4, 8, 16]))
    found = dict(zip(PARTS, product_work(v, r, k, lanes, pipes), strict=True))
    np.testing.assert_allclose(found["product"], -(-v // lanes) * r * k / pipes)
    np.testing.assert_allclose(found["product_ends"] * k, found["product"] * pipes)
    two = dict(zip(PARTS, product_work(v, r, k, lanes, 2), strict=True))
    for name in ("product_broadcasts", "product_tiles", "product_ends"):
        np.testing.assert_array_equal(found[name], two[name])
    # sums that hide the latency of two pipes hide that of one; a load takes as much of a pipe
    assert (
        found["product_waits"] / found["product"] <= two["product_waits"] / two["product"] + 1e-12
    ).all()


def product_cycles(vector: Ints, rows: Ints, depth: Ints, lanes: int) -> Floats:
    """Cycles of products by the constants that block kernels."""
    work = product_work(vector, rows, depth, lanes, blocking.PIPES)
    cycles: Floats = np.tensordot(BLOCKED_CYCLES, work, 1)
    return cycles


def blocked_cycles(vector: int, rows: int, depth: int, isa: VectorIsa) -> float:
    """What the generator's blocking counts for registers, with the best of the widths."""
    reduction = Reduction(depth, vector, 1)
    loops = Loops(
        VectorAxis.N0, Axis(), Axis(), Axis(rows), Axis(vector), (reduction,), 0, 0
    )  # fmt: skip
    found = []
    for width in WIDTHS:
        chosen = blocking.best_blocking(loops, isa, width * isa.lanes, outside=False)
        assert not chosen.far
        cycles = blocking._cycles(loops, chosen)
        found.append(cycles - blocking._traffic_cycles(loops, chosen, 0))
    return min(found)


@pytest.mark.parametrize("isa", [AVX2, AVX512], ids=lambda isa: isa.name)
@pytest.mark.parametrize(
    ("vector", "rows", "depth"), [(96, 12, 60), (64, 1, 40), (200, 24, 33), (7, 4, 11), (16, 6, 50)]
)
def test_products_cost_what_the_blocking_of_their_kernels_counts(
    vector: int, rows: int, depth: int, isa: VectorIsa
) -> None:
    sizes = np.array([vector]), np.array([rows]), np.array([depth])
    found = float(product_cycles(*sizes, isa.lanes)[0])
    assert found == pytest.approx(blocked_cycles(vector, rows, depth, isa), rel=ROUNDED_ROWS)


def test_large_products_come_near_the_peak_and_thin_ones_do_not() -> None:
    large, thin = (
        float(product_cycles(np.array([m]), np.array([n]), np.array([k]), 8)[0] / (m * n * k / 16))
        for m, n, k in ((512, 480, 512), (512, 1, 512))
    )
    assert large < 1.15 < 1.3 < thin


def test_features_tell_groups_apart_and_no_schedules_that_are_nearly_alike() -> None:
    counts = np.random.default_rng(0).lognormal(3, 2, (200, len(WORK_KINDS)))
    exact, near = work_features(counts), work_features(counts * (1.0 + 1e-3))
    assert np.mean(exact == near) > 0.98
    own = [kind.name for kind in WORK_KINDS if f"log_{kind.name}" in FEATURE_NAMES]
    columns = [FEATURE_NAMES.index(f"log_{name}") for name in own]
    others = work_features(counts[np.random.default_rng(1).permutation(200)])
    assert np.mean(exact[:, columns] == others[:, columns]) < 0.2
    cycles = (counts * UNIT_COSTS)[:, [INDEX[name] for name in own]]
    np.testing.assert_allclose(exact[:, columns], np.log1p(cycles), atol=LOG_STEP / 2 + 1e-12)


def test_costly_functions_share_a_feature() -> None:
    counts = np.random.default_rng(0).lognormal(3, 2, (200, len(WORK_KINDS)))
    costly = [INDEX[function_kind(fn)] for fn in (UnaryFn.EXP, UnaryFn.SIN)]
    others = np.delete(np.arange(len(WORK_KINDS)), costly)
    counts[:, others] = 0.0
    place = FEATURE_NAMES.index("log_functions")
    wanted = np.log1p((counts * UNIT_COSTS).sum(axis=1))
    np.testing.assert_allclose(work_features(counts)[:, place], wanted, atol=LOG_STEP / 2 + 1e-12)


@pytest.mark.parametrize("outliers", [0.0, 0.1])
def test_prices_of_an_invented_machine_are_found(outliers: float) -> None:
    rng = np.random.default_rng(5)
    counts = rng.lognormal(3, 2, (800, len(WORK_KINDS))) * (
        rng.random((800, len(WORK_KINDS))) < 0.4
    )
    counts[:, 0] = 1
    wanted = UNIT_COSTS * rng.lognormal(0, 0.7, len(WORK_KINDS))
    cycles = counts @ wanted * rng.lognormal(0, 0.03, 800)
    cycles[rng.random(800) < outliers] *= 6
    found = counts @ fit_unit_costs(counts, cycles, np.ones(800))
    error = np.abs(np.log(found / (counts @ wanted)))
    assert np.median(error) < 0.05
    assert np.quantile(error, 0.95) < 0.25


def invented(record: Record, scale: float) -> Record:
    return replace(record, cycles=max(1, round(scale * record.cycles)))


@pytest.mark.slow
def test_a_machine_that_works_in_place_is_learned_and_stored_with_its_prices() -> None:
    records = [invented(r, 3.0) for r in observations(7, 120, HOST, Layout.CHANNELS_LAST)]
    model = fit(records, HOST, seed=0)
    assert model.metrics["mape"] < 0.15 < model.metrics["analytic_mape"]
    again = CostModel.from_bytes(model.to_bytes(), HOST)
    _, nests, _ = drawn(np.random.default_rng(4), Layout.CHANNELS_LAST)
    rng = np.random.default_rng(0)
    table = enumerate_nest(nests[0], HOST.capacity, 1, 64, rng, 1, 1)
    for ask in (CostModel.rough, lambda m, n, t: m.estimate(n, t).cycles):
        assert np.array_equal(ask(model, nests[0], table), ask(again, nests[0], table))


def test_what_is_trusted_less_counts_less() -> None:
    rng = np.random.default_rng(2)
    counts = rng.lognormal(3, 1, (400, len(WORK_KINDS)))
    wrong = rng.random(400) < 0.3
    cycles = counts @ UNIT_COSTS * np.where(wrong, 4.0, 1.0)
    alike, less = (
        float(
            np.median(
                np.log(counts @ fit_unit_costs(counts, cycles, weight) / (counts @ UNIT_COSTS))
            )
        )
        for weight in (np.ones(400), np.where(wrong, 0.05, 1.0))
    )
    assert abs(less) < 0.03 < alike


@pytest.mark.parametrize("part", WORK_KINDS, ids=lambda p: p.name)
def test_every_part_is_complete(part: WorkKind) -> None:
    assert part.name.isidentifier() and part.unit and part.doc and part.unit_cost_cycles > 0


@pytest.mark.parametrize("depth", [64, 75])
def test_a_product_of_bf16_is_counted_as_one_of_half_the_depth(depth: int) -> None:
    """A lane takes two neighbours of the sum; where the machine does not, both count alike."""

    def counted(depth: int, dtype: DType, rate: int) -> float:
        b = GraphBuilder("product")
        weight = b.constant(np.ones((depth, 48)), "w", dtype)
        y = b.add(OpKind.MATMUL, b.input("x", (40, depth), dtype), weight)
        graph = stored_narrow(b.build([y]), ALL_FORMATS)
        nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
        assert not isinstance(nests, Rejection)
        host = replace(HOST, matrix=replace(HOST.matrix, bf16_macs_per_cell=rate))
        part = NestSchedule((40, 48), (0, 1), (depth,), 1)
        found = CachedAnalysis(nests[0], ScheduleTable.of(nests[0], [part]), host).work[0]
        return float(found[INDEX["product"]])

    half, wide = DType.BFLOAT16, DType.FLOAT32
    assert counted(depth, half, 2) == counted(-(-depth // 2), wide, 2)
    assert counted(depth, half, 0) == counted(depth, wide, 0) > counted(depth, half, 2)


def test_sums_of_integers_that_become_float32_are_counted_as_passes() -> None:
    b = GraphBuilder("narrow")
    x = b.input("x", (1, 32, 64), DType.INT8)
    w = b.constant(np.ones((64, 48)), "w", DType.INT8)
    y = b.add(OpKind.MATMUL, x, w, a_zero=3, b_zero=0, trans_a=0, trans_b=0)
    z = b.add(OpKind.MUL, y, b.constant(np.full(48, 0.5, np.float32)))
    graph = stored_narrow(b.build([z]), ALL_FORMATS)
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    assert [stage.contraction for stage in nests[0].stages] == [0, None]
    table = ScheduleTable.of(nests[0], [NestSchedule((1, 32, 48), (0, 1, 2), (64,), 1)])
    work = CachedAnalysis(nests[0], table, HOST).work[0]
    assert work[INDEX["passes"]] >= 32 * 48 / HOST.vector.lanes


@pytest.mark.parametrize(
    ("channels", "weight", "group"),
    [
        (32, (16, 2, 1, 1), 16),  # of one channel a group
        (32, (64, 1, 1, 1), 32),
        (48, (96, 24, 3, 3), 2),
    ],
)
def test_products_of_groups_have_the_lanes_of_their_kernels(
    channels: int, weight: tuple[int, ...], group: int
) -> None:
    """They leave in the network's layout, in which pixels lie side by side."""
    b = GraphBuilder("groups")
    w = b.constant(np.ones(weight, np.float32), "w")
    y = b.add(OpKind.CONV, b.input("x", (1, channels, 24, 24)), w, group=group)
    graph = laid_out(b.build([y]), Layout.CHANNELS_LAST).graph
    whole = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(whole)
    assert not isinstance(nests, Rejection)
    every = enumerate_nest(nests[0], HOST.capacity, 1, 8, np.random.default_rng(0))
    table = every.take(np.array([0]))
    schedule = on_one_core(Schedule((table.row(0),)))
    bound = bind(lower(whole, schedule, HOST), AVX512)
    cycles, lanes = 0.0, set()
    for leaf in leaves(bound.parts[0].nodes):
        call = bound.parts[0].calls.get(leaf.place)
        shape = call.kernel.constants if call and isinstance(call.kernel, KernelSpec) else None
        if isinstance(shape, GemmShape):
            loops = loops_of(shape)
            trips = math.prod(block.trips for block in leaf.path) * loops.outer.size
            rows = loops.row1.size * loops.row0.size
            vector, height, depth = np.array([[loops.vector.size], [rows], [loops.depth]])
            each = product_cycles(vector, height, depth, AVX512.lanes)
            cycles, lanes = cycles + trips * float(each[0]), lanes | {loops.axis}
    vector, matrix = (
        replace(HOST.vector, lanes=AVX512.lanes),
        replace(HOST.matrix, rows=blocking.PIPES),
    )
    wide = replace(HOST, vector=vector, matrix=matrix)
    work = CachedAnalysis(nests[0], table, wide).work[0]
    assert lanes == {VectorAxis.N0}
    counted = BLOCKED_CYCLES @ work[[INDEX[name] for name in PARTS]]
    assert counted == pytest.approx(cycles, rel=ROUNDED_ROWS)
