"""A session that learns builds variants for the classes that its callers feed, and gives the same numbers throughout."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest

from autotune import Session
from autotune.datasets.masked import masked_encoder
from autotune.runtime.guards import observation, specialiser
from autotune.runtime.guards.class_trial import ClassTrial
from autotune.runtime.online import live_tuning
from autotune.runtime.online.paired_test import Verdict

SIZES = (2, 16, 16, 2, 2, 32)


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An encoder, in sessions that decide by few samples and let every variant win."""
    monkeypatch.setattr(live_tuning, "SUPPORTED", False)  # plans are not what is tuned here
    monkeypatch.setattr(observation, "LEAST_SAMPLES", 4)
    monkeypatch.setattr(specialiser, "FIRST_EVERY", 1)
    monkeypatch.setattr(specialiser, "SAMPLING_SHARE", 1e9)
    monkeypatch.setattr(specialiser, "HORIZON", 1e9)
    monkeypatch.setattr(ClassTrial, "note", lambda *_: Verdict.BETTER)
    path = tmp_path / "encoder.onnx"
    onnx.save(masked_encoder(*SIZES), path)
    return path


def feed(length: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    fed = {x: rng.integers(0, 2, SIZES[:2]) for x in ("input_ids", "token_type_ids")}
    fed["attention_mask"] = np.zeros(SIZES[:2], np.int64)
    fed["attention_mask"][:, :length] = 1
    return fed


@pytest.mark.parametrize("target", ["cpu:1", "cpu:2"])
def test_what_is_fed_often_gets_a_variant_and_every_answer_is_right(
    encoder: Path, target: str
) -> None:
    failures: list[AssertionError] = []
    with Session(encoder, target, online=True) as session, Session(encoder, "cpu:1") as plain:

        def call(offset: int) -> None:
            try:
                for number in range(40):
                    fed = feed((5, 16, 9, 7)[(number + offset) % 4], number)
                    found, wanted = (one.run(fed)["logits"] for one in (session, plain))
                    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
                    if number % 10 == 9:
                        session.wait_idle()
            except AssertionError as error:
                failures.append(error)

        threads = [threading.Thread(target=call, args=(offset,)) for offset in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert any(variant.share < 0.9 and variant.served for variant in session.variants)
        assert session.events


def test_without_learning_nothing_is_built(encoder: Path) -> None:
    with Session(encoder, "cpu:1") as session:
        for number in range(30):
            session.run(feed(5, number))
        assert not session.variants
        assert not session.events
