"""Gate before the service: token, rate, size of the body, time of the answer; it counts what passes.

A plain ASGI layer: nothing of a request that is refused is read, parsed or kept.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotune.serve.limits import Limits, Rate
from autotune.serve.metrics import Metrics
from autotune.serve.remembered import Desk

DOCS = "/docs"
OPEN = ("/health", DOCS)
"""Paths that need no token: a browser that opens the page has no way to send one."""
PLAN = "/v1/plan"


class TooLarge(Exception):
    """A body that goes on behind the limit; the application answers it with 413."""


@dataclass(slots=True)
class Traffic:
    """Requests since the start that were answered, and those that the end of the service cut off."""

    answered: int = 0
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Gate:
    """Refuses by status: 401 without the token, 429 above the rate, 413 for a large body, 503 for a late answer."""

    app: ASGIApp
    limits: Limits
    rate: Rate
    metrics: Metrics
    desks: Mapping[str, Desk]
    """What answers by path. Questions whose body comes in one message do not reach the application, whose way
    from request to document takes longer than most answers."""
    refusal: Callable[[Exception], tuple[int, str] | None]
    """Status and reason of an error that a desk raises; None for a defect."""
    token: str | None = None
    traffic: Traffic = field(default_factory=Traffic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        answer = _Answer(send)
        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self._serve(scope, receive, answer)
            else:
                await answer.refuse(*refusal)
        except asyncio.CancelledError:
            self.traffic.cut += not answer.status
            raise
        finally:
            self.traffic.answered += bool(answer.status)
        self.metrics.count(scope, answer.status, time.perf_counter() - began)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        path: str = scope["path"]
        if self.token is not None and path not in OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self.token.encode()):
                return 401, "the header 'Authorization: Bearer TOKEN' is missing or wrong"
        client = scope.get("client")
        if not self.rate.admits(client[0] if client else ""):
            return 429, f"more than {self.limits.rate:g} requests per second; ask less often"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most(path):
            return 413, too_large(self._most(path))
        return None

    def _most(self, path: str) -> int:
        return self.limits.model_bytes if path == PLAN else self.limits.body_bytes

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        path: str = scope["path"]
        seconds = self.limits.plan_seconds if path == PLAN else self.limits.seconds
        body = _Body(receive, self._most(path))
        try:
            async with asyncio.timeout(seconds):
                desk = self.desks.get(path) if scope["method"] == "POST" else None
                whole = None if desk is None else await body.whole()
                if desk is None or whole is None:
                    await self.app(scope, body.receive, answer.send)
                else:
                    await self._ask(desk, whole, answer)
        except TooLarge as error:  # before the application, which answers its own
            await answer.refuse(413, str(error))
        except TimeoutError:
            await answer.refuse(503, f"no answer within {seconds:g} s; ask for less, or later")

    async def _ask(self, desk: Desk, question: bytes, answer: _Answer) -> None:
        try:
            found = await desk.answer(question)
        except Exception as error:  # what is no refusal is raised on
            refusal = self.refusal(error)
            if refusal is None:
                raise
            await answer.refuse(*refusal)
        else:
            await answer.give(200, found)


class _Body:
    """The body of a request, of ``most`` bytes. Raises ``TooLarge`` where it goes on."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._read = 0
        self._first: Message | None = None

    async def whole(self) -> bytes | None:
        """Return a body that comes in one message, as short ones do; else None, and ``receive`` begins anew."""
        self._first = await self.receive()
        if self._first["type"] != "http.request" or self._first.get("more_body"):
            return None
        found: bytes = self._first.get("body", b"")
        return found

    async def receive(self) -> Message:
        """Return the next message."""
        if self._first is not None:
            message, self._first = self._first, None
            return message
        message = await self._receive()
        self._read += len(message.get("body", b""))
        if self._read > self._most:
            raise TooLarge(too_large(self._most))
        return message


class _Answer:
    """Passes an answer on; keeps its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def refuse(self, status: int, reason: str) -> None:
        """Answer with an error document, unless an answer has begun."""
        if self.status:
            return
        extra = [(b"www-authenticate", b"Bearer")] if status == 401 else []
        extra += [(b"connection", b"close")] if status in (413, 503) else []
        await self.give(status, json.dumps({"error": reason}).encode(), extra)

    async def give(
        self, status: int, body: bytes, extra: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Answer with a JSON document."""
        kind, length = (
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        )
        headers = [kind, length, *extra]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def too_large(most: int) -> str:
    return f"the body is larger than {most} bytes, or its length is no number; send less at once"
