"""The fixed order of the simplification passes, repeated until nothing changes."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.input_class import Classes, Padded
from autotune.graph.mapped_weights import copy_mapped_weights
from autotune.graph.passes.activation_pattern import ActivationPattern
from autotune.graph.passes.affine_folding import AffineFolding
from autotune.graph.passes.bf16_products import Bf16Products
from autotune.graph.passes.block_sparsity import ZeroBlockMarking
from autotune.graph.passes.bound_limits import BoundLimits
from autotune.graph.passes.channels_last import ChannelsLast
from autotune.graph.passes.common_subexpressions import CommonSubexpressions
from autotune.graph.passes.constant_folding import ConstantFolding
from autotune.graph.passes.dead_columns import dead_columns
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.graph.passes.demand_trimming import DemandTrimming
from autotune.graph.passes.early_rounding import EarlyRounding
from autotune.graph.passes.fp16_storage import Fp16Storage
from autotune.graph.passes.identities import Identities
from autotune.graph.passes.input_binding import InputBinding
from autotune.graph.passes.input_folding import InputFolding
from autotune.graph.passes.joined_channels import JoinedChannels
from autotune.graph.passes.large_groups import LargeGroups
from autotune.graph.passes.late_resizing import LateResizing
from autotune.graph.passes.long_reductions import LongReductions
from autotune.graph.passes.long_rows import LongRows
from autotune.graph.passes.moved_weights import MovedWeights
from autotune.graph.passes.narrow_products import NarrowProducts
from autotune.graph.passes.narrow_weights import NarrowWeights
from autotune.graph.passes.normal_pattern import NormalPattern
from autotune.graph.passes.note import Note, Pass, PassResult
from autotune.graph.passes.pad_folding import PadFolding
from autotune.graph.passes.padding_bands import PaddingBands
from autotune.graph.passes.padding_taps import PaddingTaps
from autotune.graph.passes.range_pruning import RangePruning, finite_tensors
from autotune.graph.passes.requantised_sums import RequantisedSums
from autotune.graph.passes.score_scaling import ScoreScaling
from autotune.graph.passes.separable_pooling import SeparablePooling
from autotune.graph.passes.storage import stored_as, stored_narrow
from autotune.graph.passes.strassen import StrassenProducts
from autotune.graph.passes.unbound_axes import UnboundAxes
from autotune.graph.passes.view_chains import ViewChains
from autotune.graph.passes.winograd import WinogradConvolutions
from autotune.isa.formats import FLOAT32_ONLY, Formats
from autotune.operators.axes import Layout
from autotune.operators.interval import Interval

PASSES: tuple[Pass, ...] = (
    ConstantFolding(),
    Identities(),
    ViewChains(),
    RangePruning(),
    EarlyRounding(),
    RequantisedSums(),
    BoundLimits(),
    CommonSubexpressions(),
    ActivationPattern(),
    NormalPattern(),
    ScoreScaling(),
    AffineFolding(),
    InputFolding(),
    PadFolding(),
    PaddingTaps(),
    DeadNodes(),
)


def simplify(
    graph: Graph,
    layout: Layout = Layout.CHANNELS_FIRST,
    accuracy: Accuracy = Accuracy.EXACT,
    ranges: Mapping[str, Interval] | None = None,
    formats: Formats = FLOAT32_ONLY,
    rows_apart: bool = False,
) -> PassResult:
    """Take the products that ``formats`` allows as narrow ones; run every pass in order until a whole round changes nothing.

    Then cut convolutions into bands without padding where that pays. Then hold the images in ``layout``, and simplify
    what that leaves; a network that is channels-last stays so. Then take the algorithms that ``accuracy`` allows. Last,
    products are marked that may leave zeros out. Between ``ranges`` of inputs more may be removed: the result is then
    right for such inputs only. With ``rows_apart`` no algorithm computes on several rows together: some are padding.
    """
    moved = MovedWeights(formats).run(graph)
    multiplied = _joined(moved, NarrowProducts(formats).run(moved.graph))
    narrowed = _joined(multiplied, NarrowWeights(formats).run(multiplied.graph))
    narrowed = _joined(narrowed, Bf16Products(formats).run(narrowed.graph))
    narrowed = _joined(narrowed, Fp16Storage(formats).run(narrowed.graph))
    settled = _joined(narrowed, _settled(narrowed.graph))
    if ranges:
        settled = _joined(settled, _pruned(settled.graph, ranges))
    cut = _cut(settled.graph)
    turned = laid_out(cut.graph, layout, accuracy, formats, rows_apart)
    skipped = _without_zeros(turned.graph, accuracy, ranges or {})
    notes = (*settled.notes, *cut.notes, *turned.notes, *skipped.notes)
    return PassResult(stored_narrow(copy_mapped_weights(skipped.graph), formats), notes)


def specialise(
    graph: Graph,
    classes: Classes,
    accuracy: Accuracy = Accuracy.EXACT,
    ranges: Mapping[str, Interval] | None = None,
) -> PassResult:
    """Remove from a simplified network what has no effect while its inputs are of ``classes``.

    The result is right for such inputs only: masks that hide nothing go, with all that is computed from
    known arrays. Where an output would be computed no more, nothing is removed. ``ranges`` bound further inputs.
    """
    values = {x: one.constant(graph.shape(x)) for x, one in classes.items()}
    bound = InputBinding({x: v for x, v in values.items() if v is not None}).run(graph)
    settled = _joined(bound, _settled(bound.graph)) if bound.notes else bound
    limits = {**(ranges or {}), **{x: one.interval for x, one in classes.items()}}
    pruned = _joined(settled, _pruned(settled.graph, limits))
    lengths = {x: one.length for x, one in classes.items() if isinstance(one, Padded)}
    trimmed = _joined(pruned, _trimmed(pruned.graph, lengths, limits)) if lengths else pruned
    marked = _joined(trimmed, _without_zeros(trimmed.graph, accuracy, limits))
    is_computed = all(x in marked.graph.producer for x in graph.outputs)
    marked = PassResult(stored_as(marked.graph, graph), marked.notes)
    return marked if is_computed else PassResult(graph, ())


def _trimmed(
    graph: Graph, lengths: Mapping[str, int], ranges: Mapping[str, Interval]
) -> PassResult:
    """Leave out what masks of these lengths hide from all outputs, and what no output depends on."""
    finite = finite_tensors(graph, ranges)
    dead = dead_columns(graph, lengths, ranges, finite)
    trimmed = DemandTrimming(dead, finite).run(graph) if dead else PassResult(graph, ())
    return _joined(trimmed, _settled(trimmed.graph)) if trimmed.notes else trimmed


def _joined(first: PassResult, second: PassResult) -> PassResult:
    return PassResult(second.graph, (*first.notes, *second.notes))


def _pruned(graph: Graph, ranges: Mapping[str, Interval]) -> PassResult:
    """Remove operators without effect inside ``ranges``, and what that leaves over."""
    pruned = RangePruning(ranges).run(graph)
    return _joined(pruned, _settled(pruned.graph)) if pruned.notes else pruned


def _without_zeros(graph: Graph, accuracy: Accuracy, ranges: Mapping[str, Interval]) -> PassResult:
    """Mark products to skip zero blocks where that is allowed."""
    if accuracy is Accuracy.FAST:
        return ZeroBlockMarking().run(graph)
    return (
        ZeroBlockMarking(finite_tensors(graph, ranges)).run(graph)
        if ranges
        else PassResult(graph, ())
    )


def _cut(graph: Graph) -> PassResult:
    """Cut convolutions into bands. A band of rows may be cut into columns once."""
    once = PaddingBands().run(graph)
    twice = PaddingBands().run(once.graph)
    return PassResult(twice.graph, (*once.notes, *twice.notes))


def laid_out(
    graph: Graph,
    layout: Layout,
    accuracy: Accuracy = Accuracy.EXACT,
    formats: Formats = FLOAT32_ONLY,
    rows_apart: bool = False,
) -> PassResult:
    """Return the graph with its images in ``layout``, and the algorithms that ``accuracy`` allows and that
    gain on a machine of these ``formats``.

    A changed layout is simplified again.
    """
    if accuracy is Accuracy.EXACT:
        return _turned(graph, layout)
    late = LateResizing().run(graph)
    late = _joined(late, _settled(late.graph)) if late.notes else late
    turned = _joined(late, _turned(late.graph, layout))
    hastened = WinogradConvolutions(accuracy, formats).run(turned.graph)
    if not rows_apart:
        hastened = _joined(hastened, StrassenProducts(accuracy, formats).run(hastened.graph))
    return PassResult(hastened.graph, (*turned.notes, *hastened.notes))


def _turned(graph: Graph, layout: Layout) -> PassResult:
    if layout is Layout.CHANNELS_FIRST:
        groups = LargeGroups().run(graph)
        rows = LongRows().run(groups.graph)
        steps = _repeated(LongReductions(), rows.graph)
        return PassResult(steps.graph, (*groups.notes, *rows.notes, *steps.notes))
    turned = ChannelsLast().run(graph)
    if turned.notes:
        settled = _settled(turned.graph)
        turned = PassResult(settled.graph, (*turned.notes, *settled.notes))
    parted = _joined(turned, SeparablePooling().run(turned.graph))
    unbound = UnboundAxes().run(parted.graph)
    cut = _joined(unbound, JoinedChannels().run(unbound.graph))
    return _joined(parted, _joined(cut, _settled(cut.graph))) if cut.notes else parted


def _repeated(one: Pass, graph: Graph) -> PassResult:
    """Repeat a pass until it changes nothing."""
    notes: list[Note] = []
    while (result := one.run(graph)).notes:
        graph = result.graph
        notes += result.notes
    return PassResult(graph, tuple(notes))


def _settled(graph: Graph) -> PassResult:
    """Repeat passes until none changes anything; each change removes an operator or a constant."""
    notes: list[Note] = []
    while True:
        before = len(notes)
        for one in PASSES:
            result = one.run(graph)
            graph = result.graph
            notes += result.notes
        if len(notes) == before:
            return PassResult(graph, tuple(notes))
