"""A decoder's first bucket is made when it is opened, and serves the steps of its cache."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from autotune.datasets.generation import gpt2_decoder
from autotune.disk import file_stamp
from autotune.errors import AutotuneError
from autotune.frontend.source_model import SourceModel
from autotune.graph.padding.padded_graph import PaddedGraph
from autotune.graph.padding.spans import Unfit
from autotune.runtime.execution.event import EventKind
from autotune.runtime.session import buckets, dynamic
from autotune.runtime.session.dynamic import DynamicSession
from autotune.runtime.session.graph_session import GraphSession
from autotune.runtime.session.open_dims import OpenDims
from autotune.runtime.session.session import Session
from autotune.runtime.session.tiered_part import TieredPart
from tests.runtime.control_case import model_of

HEADS, DEPTH, WORDS = 2, 8, 23


def fed(past: int, sequence: int, batch: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(past)
    cache = (batch, HEADS, past, DEPTH)
    return {
        "input_ids": rng.integers(0, WORDS, (batch, sequence)),
        "position_ids": np.tile(np.arange(past, past + sequence), (batch, 1)),
        "attention_mask": np.ones((batch, past + sequence), np.int64),
        "past_key_values.0.key": rng.standard_normal(cache).astype(np.float32),
        "past_key_values.0.value": rng.standard_normal(cache).astype(np.float32),
    }


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    onnx.save(gpt2_decoder(HEADS * DEPTH, HEADS, 1, WORDS, 512), path)
    return path


def test_steps_of_a_decoder_find_programs_that_were_made_since_it_was_opened(decoder: Path) -> None:
    with Session(decoder, "cpu:1") as session:
        session.wait_idle(300)
        for past in (1, 2, 40, 127, 254, 255):
            inputs = fed(past, 1)
            made, wanted = session.run(inputs), session.reference_outputs(inputs)
            for name, value in wanted.items():
                np.testing.assert_allclose(made[name], value, rtol=2e-5, atol=2e-5)
        network = session._network
        assert isinstance(network, DynamicSession)
        assert not network._versions.held, "the bucket served all steps"


def test_a_prompt_of_a_decoder_does_not_compile_before_its_steps(decoder: Path) -> None:
    with Session(decoder, "cpu:1") as session:
        session.run(fed(0, 5))
        session.wait_idle(300)
        network = session._network
        assert isinstance(network, DynamicSession)
        kinds = [event.kind for event in network.events]
        assert kinds == [EventKind.PADDED, EventKind.COMPILED]
        session.run(fed(0, 5))
        session.wait_idle(300)
        assert len(session.parts) == 1, "a prompt that comes again has programs of its own"


def test_a_bucket_that_was_built_once_is_read_from_disk(decoder: Path) -> None:
    with Session(decoder, "cpu:1") as first:
        first.wait_idle(300)
        wanted = first.run(fed(3, 1))
    with Session(decoder, "cpu:1") as second:
        second.wait_idle(300)
        made = second.run(fed(3, 1))
        assert second.status().builds == (), "its table was kept"
    for name, value in wanted.items():
        np.testing.assert_array_equal(made[name], value)


def test_the_next_bucket_is_made_when_one_is_half_full(decoder: Path) -> None:
    with Session(decoder, "cpu:1") as session:
        session.wait_idle(300)
        network = session._network
        assert isinstance(network, DynamicSession)
        for past in (126, 127):
            session.run(fed(past, 1))
        session.wait_idle(300)
        assert _padded(network) == 1
        session.run(fed(128, 1))
        session.wait_idle(300)
        assert _padded(network) == 2
        session.run(fed(300, 1))
        assert not network._versions.held, "the second bucket served it"


def _padded(network: DynamicSession) -> int:
    return sum(event.kind is EventKind.PADDED for event in network.events)


@pytest.mark.parametrize(
    ("inputs", "cache"),
    [
        ("int64[b, s] ids, int64[b, past_s] mask, float[b, 2, past, 8] kv", None),
        ('int64[b, s] ids, int64[b, "past + s"] mask, float[b, 2, past, 8] kv', "past"),
        ('float[b, s] x, float[b, "past + s"] mask, float[b, 2, past, 8] kv', None),
    ],
)
def test_the_dimension_of_a_cache_is_told_by_declared_inputs(
    inputs: str, cache: str | None
) -> None:
    plain = inputs.replace('"past + s"', "total")
    model = model_of(f"decoder ({plain}) => (float[b, 2, past, 8] y) {{ y = Relu (kv) }}")
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "total":
                dim.dim_param = "past + s"
    dims = OpenDims.of(SourceModel(model))
    assert cache == (None if dims is None else dims.cache)


def test_a_bucket_that_was_proved_once_is_not_proved_again(
    decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = file_stamp.now_ns
    monkeypatch.setattr(dynamic, "now_ns", lambda: now() + 3600 * 10**9)  # the file is new
    with Session(decoder, "cpu:1") as first:
        first.wait_idle(300)
        wanted = first.run(fed(3, 1))
    monkeypatch.setattr(buckets, "prove", None)  # calling it would raise
    with Session(decoder, "cpu:1") as second:
        second.wait_idle(300)
        made = second.run(fed(3, 1))
        network = second._network
        assert isinstance(network, DynamicSession)
        assert not network._versions.held, "the bucket served the step"
        told = [event.text for event in network.events if event.kind is EventKind.PADDED]
        assert len(told) == 1 and "read in" in told[0]
    for name, value in wanted.items():
        np.testing.assert_array_equal(made[name], value)


def test_a_step_waits_for_the_proof_rather_than_import_a_shape_of_its_own(
    decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, genuine = threading.Event(), buckets.prove

    def prove(*given: Any) -> PaddedGraph:
        begun.wait(60)
        return genuine(*given)

    monkeypatch.setattr(dynamic, "now_ns", lambda: 0)  # as a file that was just written
    monkeypatch.setattr(buckets, "_PROOF_SECONDS", 60)
    with Session(decoder, "cpu:1") as session:
        monkeypatch.setattr(buckets, "prove", prove)
        session.run(fed(6, 1, batch=2))
        threading.Timer(0.1, begun.set).start()
        inputs = fed(7, 1, batch=2)
        made = session.run(inputs)
        network = session._network
        assert isinstance(network, DynamicSession)
        assert len(network._versions.held) == 1, "the bucket served the second step"
        for name, value in session.reference_outputs(inputs).items():
            np.testing.assert_allclose(made[name], value, rtol=2e-5, atol=2e-5)


def test_a_step_waits_for_no_proof_that_takes_long(
    decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def prove(*_: Any) -> PaddedGraph:
        ended.wait(60)
        raise Unfit("took long")

    monkeypatch.setattr(dynamic, "now_ns", lambda: 0)  # as a file that was just written
    monkeypatch.setattr(buckets, "_PROOF_SECONDS", 0.01)
    with Session(decoder, "cpu:1") as session:
        monkeypatch.setattr(buckets, "prove", prove)
        for past in (6, 7):
            session.run(fed(past, 1, batch=2))
        network = session._network
        assert isinstance(network, DynamicSession)
        assert len(network._versions.held) == 2, "they ran at their own shapes"
        monkeypatch.setattr(buckets, "_PROOF_SECONDS", 60)
        session.run(fed(8, 1, batch=2))
        assert len(network._versions.held) == 3, "no step waits again"
        ended.set()
        session.wait_idle(300)


def test_a_decoder_that_may_not_be_padded_opens_and_runs(
    decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prove(*_: Any) -> PaddedGraph:
        raise Unfit("reads padding")

    monkeypatch.setattr(dynamic, "now_ns", lambda: 0)  # as a file that was just written
    monkeypatch.setattr(buckets, "prove", prove)
    with Session(decoder, "cpu:1") as session:
        inputs = fed(7, 1)
        made = session.run(inputs)
        for name, value in session.reference_outputs(inputs).items():
            np.testing.assert_allclose(made[name], value, rtol=2e-5, atol=2e-5)


def _generated(session: Session, first: int, count: int, hand_on: Any) -> list[dict[str, Any]]:
    """Steps whose cache is what ``hand_on`` makes of the one that the step before returned."""
    inputs, made = fed(first, 1), list[dict[str, Any]]()
    for past in range(first, first + count):
        inputs |= {x: y for x, y in fed(past, 1).items() if "past" not in x}
        made.append(session.run(inputs))
        cache = {
            x: made[-1][x.replace("past_key_values", "present")] for x in inputs if "past" in x
        }
        inputs |= {x: hand_on(y) for x, y in cache.items()}
    return made


@pytest.mark.parametrize(
    "hand_on",
    [
        lambda y: y,
        lambda y: y[:, :, :],
        lambda y: y[::-1, :, :, :],
        lambda y: np.pad(y, ((0, 0), (0, 0), (9, 0), (0, 0)), constant_values=7.0)[:, :, 9:],
    ],
    ids=["as it is", "a view", "a reversed view", "a part of an array of the caller's"],
)
def test_a_cache_that_is_handed_back_is_what_a_copy_of_it_is(decoder: Path, hand_on: Any) -> None:
    with Session(decoder, "cpu:1") as session:
        made = _generated(session, 253, 5, hand_on)  # beyond the first bucket
        wanted = _generated(session, 253, 5, lambda y: hand_on(y).copy())
    for one, other in zip(made, wanted, strict=True):
        for name, value in other.items():
            np.testing.assert_allclose(one[name], value, rtol=2e-5, atol=2e-5)


def test_a_part_of_a_cache_that_is_handed_back_lies_in_zeros(decoder: Path) -> None:
    """A sliding window drops the first place: what stands before the rest is no padding."""
    with Session(decoder, "cpu:1") as session:
        made = session.run(fed(6, 1))
        cache = {}
        for name in (x for x in fed(6, 1) if "past" in x):
            whole = made[name.replace("past_key_values", "present")]
            whole[:, :, 0] = np.inf
            cache[name] = whole[:, :, 1:]
        copied = {x: y.copy() for x, y in cache.items()}
        one, other = session.run(fed(6, 1) | cache), session.run(fed(6, 1) | copied)
    for name, value in other.items():
        np.testing.assert_array_equal(one[name], value)


def test_a_cache_that_is_handed_back_is_run_where_it_is(
    decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []
    genuine = TieredPart.run

    def run(part: TieredPart, inputs: Any) -> Any:
        ran.append(inputs["past_key_values.0.key"])
        return genuine(part, inputs)

    with Session(decoder, "cpu:1") as session:
        monkeypatch.setattr(TieredPart, "run", run)
        made = _generated(session, 3, 4, lambda y: y)
        for one, taken in zip(made, ran[1:], strict=False):
            assert np.shares_memory(one["present.0.key"], taken)
        kept = [one["present.0.key"].copy() for one in made]
        _generated(session, 3, 4, lambda y: y)
        for one, value in zip(made, kept, strict=True):
            np.testing.assert_array_equal(one["present.0.key"], value)


def test_all_parts_are_closed_whatever_closing_one_raises(
    decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(decoder, "cpu:1")
    session.run(fed(0, 5))
    session.wait_idle()
    network = session._network
    assert isinstance(network, DynamicSession) and network._buckets is not None
    parts = [*network.parts.values(), *(part.session for part in network._buckets.compiled)]
    assert len({id(part) for part in parts}) > 1
    honest, closed = GraphSession.close, list[GraphSession]()

    def close(self: GraphSession) -> None:
        honest(self)
        closed.append(self)
        raise AutotuneError("its learning has failed")

    monkeypatch.setattr(GraphSession, "close", close)
    with pytest.raises(AutotuneError, match="its learning has failed"):
        session.close()
    assert {id(part) for part in parts} <= {id(one) for one in closed}
