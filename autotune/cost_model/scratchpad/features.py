"""Features of a schedule on a machine with scratchpads, from graph, schedule and spec alone.

A row of ``FEATURES`` is a feature: its name, unit, meaning and definition. To add one, add a row
and raise ``FEATURE_VERSION`` (version.py): stored models of another version are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.steps.tiling import Floats
from autotune.isa.formats import Format
from autotune.isa.opcodes import Unit
from autotune.operators.families import FAMILIES
from autotune.operators.family import Work
from autotune.operators.op import Family
from autotune.schedule.block_sparsity import nonzero_work
from autotune.schedule.counts import scratchpad_elements
from autotune.targets.derived import ridge
from autotune.targets.spec import DATAFLOWS, HardwareSpec

if TYPE_CHECKING:
    from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis

Term = Callable[["ScratchpadAnalysis"], npt.NDArray[Any] | float]
"""A feature of every schedule [n], or one number for all."""

MOVES = tuple(family for family, row in FAMILIES.items() if row.work is Work.MOVE)
"""What only rearranges values."""


def ratio(value: Floats, whole: Floats) -> Floats:
    """A share of what may be 0."""
    found: Floats = value / np.maximum(whole, 1e-9)
    return found


def busy_share(unit: Unit) -> Term:
    """Busy cycles of a unit over the estimate."""
    return lambda a: ratio(a.busy[unit], a.estimate)


def instructions(unit: Unit) -> Term:
    """Instructions of a unit."""
    return lambda a: a.total(lambda s: s.instructions, unit)


def innermost_share(unit: Unit) -> Term:
    """Cycles of a unit inside of the innermost loop over all of its cycles."""

    def share(a: ScratchpadAnalysis) -> Floats:
        inner = a.zeros
        for step in a.steps:
            if step.unit is unit:
                inner = inner + np.where(step.level == a.tiling.depth, step.cycles, 0.0)
        return ratio(inner, a.total(lambda s: s.cycles, unit))

    return share


def stages(*families: Family) -> Term:
    """Stages of operators of these families that are no views."""

    def count(a: ScratchpadAnalysis) -> float:
        return sum(s.op.family in families and not s.view for s in a.nest.stages)

    return count


def of_spec(value: Callable[[HardwareSpec], float]) -> Term:
    """A number of the machine, the same for all schedules."""
    return lambda a: value(a.spec)


def fold_use(a: ScratchpadAnalysis) -> Floats:
    """Multiply-adds over those of a fully used array, each format by its own."""
    peak = a.spec.matrix.rows * a.spec.matrix.cols * a.tiling.active_cores
    return ratio(a.cell_cycles, a.busy[Unit.MATRIX] * peak)


def narrow_share(a: ScratchpadAnalysis) -> float:
    """Share of the contractions that multiply a narrow format."""
    products = [stage.op.multiplied for stage in a.nest.stages if stage.contraction is not None]
    return sum(one is not Format.FP32 for one in products) / max(1, len(products))


def zero_share(a: ScratchpadAnalysis) -> Floats:
    """Share of all contractions that zero blocks leave out; only issued work is useful."""
    products = [stage for stage in a.nest.stages if stage.contraction is not None]
    left = [nonzero_work(a.nest, a.table, stage) for stage in products]
    out = a.zeros + sum(1.0 - kept.share for kept in left if kept is not None)
    return ratio(out, a.zeros + len(products))


def pieces(a: ScratchpadAnalysis) -> Floats:
    """Most reduction pieces of a contraction."""
    most = a.zeros + 1.0
    for step in a.steps:
        if step.unit is Unit.MATRIX:
            most = np.maximum(most, step.pieces)
    return most


def trips(a: ScratchpadAnalysis) -> Floats:
    """Root tiles."""
    tiles = a.zeros + 1.0
    for d in range(a.tiling.rank):
        tiles = tiles * a.tiling.parts[d]
    return tiles


def innermost_trips(a: ScratchpadAnalysis) -> Floats:
    """Tiles along the innermost loop."""
    tiles = a.zeros + 1.0
    for d in range(a.tiling.rank):
        here = (a.tiling.position[d] == a.tiling.depth) & (a.tiling.depth >= 0)
        tiles = np.where(here, a.tiling.parts[d], tiles)
    return tiles


def innermost_rest(a: ScratchpadAnalysis) -> Floats:
    """Whether the innermost loop has a rest peeled off: 1 or 0."""
    rested = a.zeros
    for d in range(a.tiling.rank):
        here = (a.tiling.position[d] == a.tiling.depth) & (a.tiling.depth >= 0)
        rested = np.where(here & (a.tiling.rest[d] > 0), 1.0, rested)
    return rested


def rest_share(a: ScratchpadAnalysis) -> Floats:
    """The share of tiles that are rests in some dimension."""
    whole = a.zeros + 1.0
    for d in range(a.tiling.rank):
        whole = whole * np.where(a.tiling.rest[d] > 0, a.tiling.full[d] / a.tiling.parts[d], 1.0)
    return 1.0 - whole


def queue_pressure(a: ScratchpadAnalysis) -> Floats:
    """Above 1 the sequencer stalls on a full queue before it reaches the next tile's loads."""
    units = (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR)
    most = np.max(np.stack([a.total(lambda s: s.instructions, unit) for unit in units]), axis=0)
    return ratio(most, trips(a)) / a.spec.control.queue_depth


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: name, unit ('1' for ratios and counts), meaning, definition [n]."""

    name: str
    unit: str
    doc: str
    compute: Term


FEATURES: tuple[Feature, ...] = (
    Feature(
        "log_estimate",
        "log cycles",
        "analytic estimate: overlap, bottleneck and DRAM channel",
        lambda a: np.log(a.estimate),
    ),
    Feature(
        "log_bottleneck",
        "log cycles",
        "busiest unit or DRAM channel",
        lambda a: np.log(np.maximum(a.bottleneck, 1.0)),
    ),
    Feature(
        "bottleneck_share",
        "1",
        "bottleneck over estimate",
        lambda a: ratio(a.bottleneck, a.estimate),
    ),
    Feature(
        "flow_share",
        "1",
        "overlap schedule over estimate",
        lambda a: ratio(a.flow.cycles, a.estimate),
    ),
    Feature(
        "serial_share",
        "1",
        "sum of all units' busy cycles over estimate",
        lambda a: ratio(a.busy_total, a.estimate),
    ),
    Feature("matrix_share", "1", "matrix busy cycles over estimate", busy_share(Unit.MATRIX)),
    Feature("vector_share", "1", "vector busy cycles over estimate", busy_share(Unit.VECTOR)),
    Feature("load_share", "1", "load busy cycles over estimate", busy_share(Unit.LOAD)),
    Feature("store_share", "1", "store busy cycles over estimate", busy_share(Unit.STORE)),
    Feature(
        "channel_share",
        "1",
        "DRAM channel cycles over estimate",
        lambda a: ratio(a.channel_cycles, a.estimate),
    ),
    Feature(
        "dispatch_share",
        "1",
        "dispatch cycles over estimate",
        lambda a: ratio(a.dispatch_cycles, a.estimate),
    ),
    Feature(
        "interval_share",
        "1",
        "innermost interval over the sum of its units' cycles",
        lambda a: ratio(a.flow.interval, a.flow.latency),
    ),
    Feature(
        "fill_share",
        "1",
        "first innermost iteration over estimate",
        lambda a: ratio(a.flow.latency, a.estimate),
    ),
    Feature(
        "log_latency",
        "log cycles",
        "first innermost iteration",
        lambda a: np.log(np.maximum(a.flow.latency, 1.0)),
    ),
    Feature("log_trips", "log 1", "root tiles", lambda a: np.log(trips(a))),
    Feature(
        "log_innermost_trips",
        "log 1",
        "tiles along the innermost loop",
        lambda a: np.log(innermost_trips(a)),
    ),
    Feature("depth", "1", "split dimensions", lambda a: a.tiling.depth + 1.0),
    Feature(
        "innermost_rest", "1", "whether the innermost loop has a rest peeled off", innermost_rest
    ),
    Feature("rest_share", "1", "tiles that are a rest in some dimension", rest_share),
    Feature(
        "log_pieces",
        "log 1",
        "most reduction pieces of a contraction",
        lambda a: np.log(pieces(a)),
    ),
    Feature("buffers", "1", "buffers per refilled tile", lambda a: a.table.buffers),
    Feature("cores", "1", "cores that have work", lambda a: a.tiling.active_cores),
    Feature(
        "core_balance",
        "1",
        "mean over largest share of a core",
        lambda a: 1.0 / (a.tiling.share * a.tiling.active_cores),
    ),
    Feature("fold_use", "1", "multiply-adds over those of a fully used array", fold_use),
    Feature("narrow_share", "1", "contractions of bytes or bf16 over all", narrow_share),
    Feature(
        "zero_share",
        "1",
        "reductions left out for zero blocks of weights, mean of contractions",
        zero_share,
    ),
    Feature("im2col", "1", "whether convolutions read patches", lambda a: a.table.im2col),
    Feature("load_inner", "1", "load cycles inside the innermost loop", innermost_share(Unit.LOAD)),
    Feature(
        "matrix_inner", "1", "matrix cycles inside the innermost loop", innermost_share(Unit.MATRIX)
    ),
    Feature(
        "vector_inner", "1", "vector cycles inside the innermost loop", innermost_share(Unit.VECTOR)
    ),
    Feature(
        "store_inner", "1", "store cycles inside the innermost loop", innermost_share(Unit.STORE)
    ),
    Feature("load_instructions", "1", "DMA loads", instructions(Unit.LOAD)),
    Feature("matrix_instructions", "1", "matrix multiplies", instructions(Unit.MATRIX)),
    Feature("vector_instructions", "1", "vector instructions", instructions(Unit.VECTOR)),
    Feature("store_instructions", "1", "DMA stores", instructions(Unit.STORE)),
    Feature(
        "queue_pressure",
        "1",
        "instructions of one unit per root tile over a queue's entries",
        queue_pressure,
    ),
    Feature(
        "load_bytes",
        "bytes",
        "loaded from DRAM, padding and burst rounding left out",
        lambda a: a.loaded_bytes,
    ),
    Feature(
        "store_bytes", "bytes", "stored to DRAM, burst rounding left out", lambda a: a.stored_bytes
    ),
    Feature(
        "burst_share",
        "1",
        "bytes asked for over bytes moved in bursts",
        lambda a: ratio(a.loaded_bytes + a.stored_bytes, a.moved_bytes),
    ),
    Feature(
        "log_run_bytes",
        "log bytes",
        "mean contiguous run of a transfer",
        lambda a: np.log(
            1.0
            + ratio(
                a.loaded_bytes + a.stored_bytes,
                a.total(lambda s: s.effort.runs, Unit.LOAD, Unit.STORE),
            )
        ),
    ),
    Feature(
        "intensity",
        "1/byte",
        "multiply-adds and vector passes per DRAM byte",
        lambda a: ratio(a.multiply_adds + a.lane_elements, a.moved_bytes),
    ),
    Feature(
        "fill_scratchpad",
        "1",
        "scratchpad share in use",
        lambda a: scratchpad_elements(a.nest, a.table) / a.spec.scratchpad_elements,
    ),
    Feature(
        "stages_contraction",
        "1",
        "convolutions and matrix multiplies on the matrix unit",
        lambda a: sum(s.contraction is not None for s in a.nest.stages),
    ),
    Feature("stages_elementwise", "1", "element-wise stages", stages(Family.UNARY, Family.BINARY)),
    Feature("stages_window", "1", "poolings, sliding sums", stages(Family.POOL, Family.SLIDE)),
    Feature(
        "stages_reduction",
        "1",
        "reductions, softmaxes and layer norms",
        stages(Family.REDUCE, Family.SOFTMAX, Family.LAYER_NORM),
    ),
    Feature(
        "stages_copy",
        "1",
        "concatenations, reshapes, transposes, slices and the like that copy",
        stages(*MOVES),
    ),
    Feature("loads", "1", "loaded buffers", lambda a: len(a.nest.loads)),
    Feature("stores", "1", "stored tensors", lambda a: len(a.nest.stores)),
    Feature(
        "spec_peak",
        "1/cycle",
        "multiply-adds per cycle of one core",
        of_spec(lambda s: s.matrix.rows * s.matrix.cols),
    ),
    Feature("spec_lanes", "1", "vector lanes", of_spec(lambda s: s.vector.lanes)),
    Feature(
        "spec_bandwidth", "bytes/cycle", "DRAM channel", of_spec(lambda s: s.dram.bytes_per_cycle)
    ),
    Feature(
        "spec_transfer_setup", "cycles", "DMA set-up", of_spec(lambda s: s.dram.latency_cycles)
    ),
    Feature("spec_row_miss", "cycles", "row miss", of_spec(lambda s: s.dram.row_miss_cycles)),
    Feature(
        "spec_scratchpad",
        "elements",
        "scratchpad of a core",
        of_spec(lambda s: s.scratchpad_elements),
    ),
    Feature(
        "port_share",
        "1",
        "all units' busy cycles over what the scratchpad's ports serve in the estimate",
        lambda a: ratio(a.busy_total, a.estimate * a.spec.scratchpad.ports),
    ),
    Feature("spec_ports", "1", "scratchpad ports", of_spec(lambda s: s.scratchpad.ports)),
    Feature("spec_banks", "1", "scratchpad banks", of_spec(lambda s: s.scratchpad.banks)),
    Feature("spec_cores", "1", "cores", of_spec(lambda s: s.cores)),
    Feature(
        "spec_dataflow",
        "1",
        "position in DATAFLOWS",
        of_spec(lambda s: DATAFLOWS.index(s.matrix.dataflow)),
    ),
    Feature(
        "spec_aspect",
        "1",
        "array rows over columns",
        of_spec(lambda s: s.matrix.rows / s.matrix.cols),
    ),
    Feature("spec_ridge", "1/byte", "peak over DRAM channel", of_spec(ridge)),
    Feature(
        "spec_dispatch", "cycles", "of an instruction", of_spec(lambda s: s.control.dispatch_cycles)
    ),
    Feature("spec_queue", "1", "entries of a queue", of_spec(lambda s: s.control.queue_depth)),
    Feature(
        "spec_turnaround",
        "cycles",
        "turn of the channel",
        of_spec(lambda s: s.dram.turnaround_cycles),
    ),
    Feature("spec_row", "bytes", "DRAM row", of_spec(lambda s: s.dram.row_bytes)),
    Feature("spec_burst", "bytes", "DRAM burst", of_spec(lambda s: s.dram.burst_bytes)),
    Feature("spec_dram_banks", "1", "DRAM banks", of_spec(lambda s: s.dram.banks)),
)
