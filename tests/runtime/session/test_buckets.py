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
from autotune.frontend.source_model import SourceModel
from autotune.graph.padding.padded_graph import PaddedGraph
from autotune.graph.padding.spans import Unfit
from autotune.runtime.execution.event import EventKind
from autotune.runtime.session import buckets, dynamic
from autotune.runtime.session.dynamic import DynamicSession
from autotune.runtime.session.open_dims import OpenDims
from autotune.runtime.session.session import Session
from tests.runtime.control_case import model_of

HEADS, DEPTH, WORDS = 2, 8, 23


def fed(past: int, sequence: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(past)
    cache = (1, HEADS, past, DEPTH)
    return {
        "input_ids": rng.integers(0, WORDS, (1, sequence)),
        "position_ids": np.arange(past, past + sequence)[None],
        "attention_mask": np.ones((1, past + sequence), np.int64),
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
    monkeypatch.setattr(buckets, "prove", prove)
    monkeypatch.setattr(buckets, "_PROOF_SECONDS", 60)
    with Session(decoder, "cpu:1") as session:
        threading.Timer(0.1, begun.set).start()
        inputs = fed(7, 1)
        made = session.run(inputs)
        network = session._network
        assert isinstance(network, DynamicSession)
        assert not network._versions.held, "the bucket served the step"
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
    monkeypatch.setattr(buckets, "prove", prove)
    monkeypatch.setattr(buckets, "_PROOF_SECONDS", 0.01)
    with Session(decoder, "cpu:1") as session:
        session.run(fed(7, 1))
        network = session._network
        assert isinstance(network, DynamicSession)
        assert len(network._versions.held) == 1, "it ran at its own shape"
        monkeypatch.setattr(buckets, "_PROOF_SECONDS", 60)
        session.run(fed(8, 1))
        assert len(network._versions.held) == 2, "no step waits again"
        ended.set()
        session.wait_idle(300)
