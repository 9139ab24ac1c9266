"""The contract that every simplification pass keeps, whatever it looks for."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest

from autotune.datasets import random_graphs
from autotune.graph import passes
from autotune.graph.graph import Graph
from autotune.graph.passes import PASSES, Pass
from autotune.graph.passes.bf16_products import Bf16Products
from autotune.graph.passes.block_sparsity import ZeroBlockMarking
from autotune.graph.passes.channels_last import ChannelsLast
from autotune.graph.passes.demand_trimming import DemandTrimming
from autotune.graph.passes.fp16_storage import Fp16Storage
from autotune.graph.passes.input_binding import InputBinding
from autotune.graph.passes.joined_channels import JoinedChannels
from autotune.graph.passes.large_groups import LargeGroups
from autotune.graph.passes.late_resizing import LateResizing
from autotune.graph.passes.long_reductions import LongReductions
from autotune.graph.passes.long_rows import LongRows
from autotune.graph.passes.moved_weights import MovedWeights
from autotune.graph.passes.narrow_products import NarrowProducts
from autotune.graph.passes.narrow_weights import NarrowWeights
from autotune.graph.passes.padding_bands import PaddingBands
from autotune.graph.passes.separable_pooling import SeparablePooling
from autotune.graph.passes.strassen import StrassenProducts
from autotune.graph.passes.unbound_axes import UnboundAxes
from autotune.graph.passes.winograd import WinogradConvolutions
from autotune.isa.formats import ALL_FORMATS, CONVERTED_FORMATS, Formats
from tests.graph.graph_cases import assert_equivalent
from tests.lowering.lowering_case import residual_block
from tests.tuner.search_case import chain, residual

LATER = (
    Bf16Products(ALL_FORMATS),
    ZeroBlockMarking(),
    ChannelsLast(),
    DemandTrimming(),
    Fp16Storage(CONVERTED_FORMATS),
    InputBinding({}),
    JoinedChannels(),
    LargeGroups(),
    LateResizing(),
    LongReductions(),
    LongRows(),
    MovedWeights(ALL_FORMATS),
    NarrowProducts(ALL_FORMATS),
    NarrowWeights(ALL_FORMATS),
    PaddingBands(),
    SeparablePooling(),
    StrassenProducts(formats=Formats(macs_per_byte=1)),
    UnboundAxes(),
    WinogradConvolutions(),
)
"""Passes that run once, after the others have settled."""
ALL: tuple[Pass, ...] = (*PASSES, *LATER)
ELEMENTS = 1 << 16
"""Elements of all tensors of a drawn network at most, so that evaluating it takes milliseconds."""
ROUNDS = 10


def drawn() -> list[Graph]:
    graphs = random_graphs(np.random.default_rng(5), 40)
    small = [g for g in graphs if sum(t.elements for t in g.types.values()) < ELEMENTS]
    assert len(small) >= 10
    return small


GRAPHS = [residual_block(), chain(3), residual(2), *drawn()]


def test_every_pass_is_held_to_the_contract() -> None:
    found = set()
    for module in pkgutil.iter_modules(passes.__path__, f"{passes.__name__}."):
        for _, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = value.__module__ == module.name and value is not Pass
            if own and hasattr(value, "run") and "name" in dir(value):
                found.add(value)
    assert {type(one) for one in ALL} == found


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
class TestContract:
    def test_it_keeps_what_the_network_computes(self, one: Pass) -> None:
        for graph in GRAPHS:
            assert_equivalent(graph, one.run(graph).graph, rtol=1e-3, atol=1e-4)

    def test_its_notes_name_it_and_say_what_went_and_why(self, one: Pass) -> None:
        notes = [note for graph in GRAPHS for note in one.run(graph).notes]
        assert all(note.pass_name == one.name and note.removed and note.reason for note in notes)

    def test_without_a_note_the_graph_is_the_same_object(self, one: Pass) -> None:
        for graph in GRAPHS:
            result = one.run(graph)
            assert (result.graph is graph) == (not result.notes)

    def test_it_leaves_its_input_as_it_was(self, one: Pass) -> None:
        for graph in GRAPHS:
            before = graph.fingerprint
            one.run(graph)
            assert graph.fingerprint == before

    def test_repeated_it_settles(self, one: Pass) -> None:
        for graph in GRAPHS:
            result = one.run(graph)
            for _ in range(ROUNDS):
                if result.notes:
                    result = one.run(result.graph)
            assert not result.notes
