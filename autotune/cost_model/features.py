"""Features: what the cost model sees of a schedule, computed from graph, schedule and spec alone.

A row of ``FEATURES`` is a feature: its name, unit, meaning and definition. To add one, add a row
and raise ``FEATURE_VERSION`` (version.py): stored models of another version are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.analysis import Analysis
from autotune.cost_model.feature_terms import (
    MOVES,
    busy_share,
    fold_use,
    innermost_rest,
    innermost_share,
    innermost_trips,
    instructions,
    of_spec,
    pieces,
    queue_pressure,
    ratio,
    rest_share,
    stages,
    trips,
    zero_share,
)
from autotune.cost_model.host_parts import HOST_FEATURES, host_features
from autotune.cost_model.tiling import Floats
from autotune.fusion.nest import Nest
from autotune.isa.opcodes import Unit
from autotune.operators.op import Family
from autotune.schedule.counts import scratchpad_elements
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: name, unit ('1' for ratios and counts), meaning, definition [n]."""

    name: str
    unit: str
    doc: str
    compute: Callable[[Analysis], Floats]


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
    Feature("depth", "1", "split dimensions", lambda a: a.zeros + a.tiling.depth + 1.0),
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
    Feature("buffers", "1", "buffers per refilled tile", lambda a: a.table.buffers + a.zeros),
    Feature("cores", "1", "cores that have work", lambda a: a.tiling.active_cores + a.zeros),
    Feature(
        "core_balance",
        "1",
        "mean over largest share of a core",
        lambda a: 1.0 / (a.tiling.share * a.tiling.active_cores),
    ),
    Feature("fold_use", "1", "multiply-adds over those of a fully used array", fold_use),
    Feature(
        "zero_share",
        "1",
        "reductions left out for zero blocks of weights, mean of contractions",
        zero_share,
    ),
    Feature("im2col", "1", "whether convolutions read patches", lambda a: a.table.im2col + a.zeros),
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
        lambda a: a.zeros + sum(s.contraction is not None for s in a.nest.stages),
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
    Feature("loads", "1", "loaded buffers", lambda a: a.zeros + len(a.nest.loads)),
    Feature("stores", "1", "stored tensors", lambda a: a.zeros + len(a.nest.stores)),
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
)


def names_of(spec: HardwareSpec) -> tuple[str, ...]:
    """Names of the features on a machine, in order."""
    return HOST_FEATURES if spec.in_place else tuple(feature.name for feature in FEATURES)


def matrix_of(analysis: Analysis) -> Floats:
    """Feature matrix [n, F] of an analysis, ``names_of`` its columns: what units wait for says nothing
    about a machine that works on tensors in place, which has features of its own."""
    if analysis.spec.in_place:
        return host_features(analysis.host_work)
    return np.stack([feature.compute(analysis) for feature in FEATURES], axis=1)


def features(nest: Nest, table: ScheduleTable, spec: HardwareSpec) -> Floats:
    """Features of every schedule in a table, float64 [n, F]."""
    return matrix_of(Analysis(nest, table, spec))


def bound(nest: Nest, table: ScheduleTable, spec: HardwareSpec) -> Floats:
    """Roofline cycles of every schedule [n]: the busiest unit if nothing ever waited. No run takes
    less (Williams et al. 2009, *Roofline*, CACM 52(4), per unit instead of compute alone)."""
    return Analysis(nest, table, spec).roofline
