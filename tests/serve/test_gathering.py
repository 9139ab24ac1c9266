"""Questions that come together are answered together, each by its own answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autotune.schedule.schedule import Schedule
from autotune.serve.gathering import QUICK_SECONDS, Gathering
from autotune.serve.oracle import Oracle
from tests.serve.service import PAIR, pair, service


class Answers:
    """Doubles numbers and remembers the batches; a negative one fails its batch."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, asked: Sequence[int]) -> list[int]:
        self.batches.append(list(asked))
        if min(asked) < 0:
            raise ValueError("negative")
        return [2 * one for one in asked]


def test_questions_of_a_kind_go_together_up_to_the_limit() -> None:
    answers = Answers()

    async def run() -> list[int]:
        gathering = Gathering(answers, 4)
        return await asyncio.gather(*(gathering.ask(n % 2, n) for n in range(12)))

    assert asyncio.run(run()) == [2 * n for n in range(12)]
    assert sorted(answers.batches) == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10], [9, 11]]


def test_a_failure_ends_its_batch_and_no_other() -> None:
    async def run() -> list[Any]:
        gathering = Gathering(Answers(), 2)
        asked = (gathering.ask("", n) for n in (1, -1, 2, 3))
        first = await asyncio.gather(*asked, return_exceptions=True)
        return [*first, await gathering.ask("", 5)]

    found = asyncio.run(run())
    assert [str(one) for one in found] == ["negative", "negative", "4", "6", "10"]


def test_who_gives_up_holds_nobody() -> None:
    answers = Answers()

    async def run() -> int:
        gathering = Gathering(answers, 1)
        tasks = [asyncio.create_task(gathering.ask("", n)) for n in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        return await tasks[2]

    assert asyncio.run(run()) == 4
    assert answers.batches == [[0], [2]]


def test_quick_kinds_are_answered_on_the_loop_and_slow_ones_in_a_thread() -> None:
    places: list[tuple[str, bool]] = []
    loop_thread = threading.get_ident()

    def answers(asked: Sequence[str]) -> Sequence[str]:
        places.append((asked[0], threading.get_ident() == loop_thread))
        begun = time.thread_time()
        while asked[0] == "slow" and time.thread_time() - begun < 5 * QUICK_SECONDS:
            pass
        return asked

    async def run() -> None:
        gathering = Gathering(answers, 4)
        for kind in ("quick", "quick", "slow", "slow", "quick"):
            assert await gathering.ask(kind, kind) == kind

    asyncio.run(run())
    told = [("quick", False), ("quick", True), ("slow", False), ("slow", False), ("quick", True)]
    assert places == told, "the first batch of a kind tells how long it takes"


def test_predictions_that_come_together_are_those_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    sizes: list[int] = []
    asked: list[str] = []
    ordinary, ordinary_ask = Oracle.predict_alike, Gathering.ask

    def slow(self: Oracle, questions: Sequence[Any]) -> Any:
        sizes.append(len(questions))
        begun.set()
        assert go_on.wait(30)
        return ordinary(self, questions)

    async def counted(self: Gathering[Any, Any], kind: Any, question: Any) -> Any:
        asked.append(question.schedule)
        return await ordinary_ask(self, kind, question)

    monkeypatch.setattr(Oracle, "predict_alike", slow)
    monkeypatch.setattr(Gathering, "ask", counted)
    with service(tmp_path) as (client, oracle), ThreadPoolExecutor(9) as threads:
        prepared = oracle.predictors["edge"].prepare(pair())
        texts = [prepared.schedule(row).to_json() for row in prepared.schedules(8)]
        first, *rest = (PAIR | {"schedule": text} for text in texts)
        sent = [threads.submit(client.post, "/v1/predict", json=first)]
        assert begun.wait(30)
        sent += [threads.submit(client.post, "/v1/predict", json=one) for one in rest]
        deadline = time.monotonic() + 30
        while len(asked) < len(texts) and time.monotonic() < deadline:
            time.sleep(0.01)
        go_on.set()
        answers = [one.result() for one in sent]
        wrong = client.post("/v1/predict", json=PAIR | {"schedule": "[]"})
        unknown = client.post("/v1/predict", json=first | {"target": "mine"})
        for text, answer in zip(texts, answers, strict=True):
            wanted, told = prepared.predict(Schedule.from_json(text)), answer.json()
            assert told["schedule"] == text
            assert told["cycles"] == pytest.approx(wanted.cycles, rel=1e-9)
            assert told["high_cycles"] == pytest.approx(wanted.high_cycles, rel=1e-9)
    assert sizes == [1, 7, 1], "all that waited went together"
    assert wrong.status_code == 400 and "\n" not in wrong.json()["error"]
    assert unknown.status_code == 404
