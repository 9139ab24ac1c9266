"""Questions of one kind that wait while others are answered: they are answered together, next."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from fastapi.concurrency import run_in_threadpool

Question = TypeVar("Question")
Answer = TypeVar("Answer")

QUICK_SECONDS = 2e-3
"""Batches that take no longer are answered on the event loop: a thread costs more, as both wait for Python's lock."""
KINDS = 4096
"""Kinds whose time is known; the oldest ones go."""


class Gathering(Generic[Question, Answer]):
    """Answers questions in batches, without waiting for a batch to fill.

    A question whose kind is idle is answered with those that were received with it. Those of its kind that come
    meanwhile make the next batch, of ``most`` at most. Kinds do not wait for each other. The event loop alone asks.
    """

    def __init__(
        self, answer_all: Callable[[Sequence[Question]], Sequence[Answer]], most: int
    ) -> None:
        """``answer_all`` returns an answer for each question, in order. A thread of the pool calls it, or the event
        loop where the last batch of the kind says that this one is quick."""
        self._answer_all, self._most = answer_all, most
        self._waiting: dict[Hashable, list[tuple[Question, asyncio.Future[Answer]]]] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._last: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        """Seconds of processor time and questions of the last batch of each kind."""

    async def ask(self, kind: Hashable, question: Question) -> Answer:
        """Return the answer. Raises what ``answer_all`` raises; all questions of that batch get the same."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        is_idle = kind not in self._waiting
        self._waiting.setdefault(kind, []).append((question, future))
        if is_idle:
            work = asyncio.create_task(self._answer(kind))
            self._work.add(work)  # the loop holds tasks weakly
            work.add_done_callback(self._work.discard)
        return await future

    async def _answer(self, kind: Hashable) -> None:
        """Answer the questions of a kind until none waits."""
        await asyncio.sleep(0)  # requests that were received together ask in one turn of the loop
        while waiting := [one for one in self._waiting[kind] if not one[1].done()]:
            batch, self._waiting[kind] = waiting[: self._most], waiting[self._most :]
            try:
                answers = await self._answers(kind, [one for one, _ in batch])
            except Exception as error:  # noqa: BLE001 - the boundary of the batch: each who asked raises it
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():  # who asked may have given up
                    future.set_result(answer)
        del self._waiting[kind]

    async def _answers(self, kind: Hashable, questions: Sequence[Question]) -> Sequence[Answer]:
        """Return the answers of a batch, and keep how long they took."""
        seconds, count = self._last.get(kind, (math.inf, 1))
        is_quick = seconds * max(1.0, len(questions) / count) <= QUICK_SECONDS
        if is_quick:
            answers, seconds = self._timed(questions)
        else:
            answers, seconds = await run_in_threadpool(self._timed, questions)
        self._last[kind] = seconds, len(questions)
        self._last.move_to_end(kind)
        if len(self._last) > KINDS:
            self._last.popitem(last=False)
        return answers

    def _timed(self, questions: Sequence[Question]) -> tuple[Sequence[Answer], float]:
        """Return answers, and the processor time of this thread that they took."""
        began = time.thread_time()
        return self._answer_all(questions), time.thread_time() - began
