"""``autotune serve`` as a process: it answers, ends on SIGTERM, and refuses what is unsafe or taken."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from autotune.serve.gate import Gate
from autotune.serve.limits import Limits, Rate
from autotune.serve.metrics import Metrics
from autotune.serve.server import Served
from tests.serve.service import PAIR


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(["serve", *arguments])
    return exit_info.value.code, capsys.readouterr().err


@pytest.mark.slow
def test_a_server_answers_and_ends_when_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "autotune", "serve", "--targets", "edge", "--port", "0"]
    home = {**os.environ, "AUTOTUNE_HOME": str(tmp_path)}
    with subprocess.Popen(command, env=home, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        found = re.match(r"(http://127.0.0.1:\d+)/docs answers for edge; Ctrl-C ends it", line)
        assert found is not None, line + server.stderr.read()
        question = urllib.request.Request(
            f"{found[1]}/v1/predict",
            json.dumps(PAIR).encode(),
            {"content-type": "application/json"},
        )
        for attempt in range(200):  # the line comes before the socket listens
            try:
                with urllib.request.urlopen(question, timeout=60) as answer:
                    assert json.load(answer)["cycles"] > 0
                break
            except urllib.error.URLError as error:
                assert isinstance(error.reason, ConnectionRefusedError), error
                assert server.poll() is None and attempt < 199
                signal.sigtimedwait([], 0.1)
        slow = HalfAsked(found[1])
        server.send_signal(signal.SIGTERM)
        signal.sigtimedwait([], 0.5)
        assert slow.finish().startswith("HTTP/1.1 200")
        assert server.wait(60) == 0
        place = found[1].removeprefix("http://")
        told = f"SIGTERM: answered 2 requests, 1 of them after the signal; {place} is free again"
        assert server.stderr.read().strip() == told
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind((place.partition(":")[0], int(place.partition(":")[2])))


class HalfAsked:
    """A prediction of which one half is sent, so that it is under way."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        body = json.dumps(PAIR).encode()
        head = f"POST /v1/predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._rest = body[20:]
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.sendall(head.encode() + body[:20])
        signal.sigtimedwait([], 0.5)  # until the service has read it

    def finish(self) -> str:
        """Send the other half; return the answer."""
        self._socket.sendall(self._rest)
        with self._socket:
            return self._socket.makefile("rb").read().decode()


def test_the_end_of_a_service_tells_what_was_cut_off() -> None:
    assert Served("SIGINT", 1, 0, 0).text("host:1") == "SIGINT: answered 1 request; host:1 is free again"  # fmt: skip
    told = Served("SIGTERM", 1200, 3, 2).text("host:1")
    assert "1,200 requests, 3 of them after the signal; 2 were cut off after 30 s" in told


class Defect(Exception):
    """What an application raises that is no refusal."""


def test_only_what_the_end_of_a_service_leaves_unanswered_is_cut_off() -> None:
    """Neither a client that goes away nor a defect is."""
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "client": ("here", 1)}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if (await receive())["type"] == "http.disconnect":
            raise Defect
        await asyncio.sleep(60)

    async def ask(gate: Gate, message: str) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": message, "body": b"", "more_body": True}

        async def send(message: Any) -> None:
            """No client reads it."""

        task = asyncio.create_task(gate(scope, receive, send))
        await asyncio.sleep(0.05)
        task.cancel()  # as uvicorn does once the grace is over
        with pytest.raises(Defect if message == "http.disconnect" else asyncio.CancelledError):
            await task

    for message, cut in (("http.disconnect", 0), ("http.request", 1)):
        gate = Gate(app, Limits(), Rate(100.0), Metrics(frozenset()), {}, lambda error: None)
        asyncio.run(ask(gate, message))
        assert (gate.traffic.answered, gate.traffic.cut) == (0, cut)


def test_a_service_that_others_reach_needs_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AUTOTUNE_TOKEN", raising=False)
    code, err = ended(capsys, "--host", "0.0.0.0")
    assert code == 2 and "0.0.0.0 is reachable from elsewhere: set AUTOTUNE_TOKEN" in err


def test_a_taken_port_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, err = ended(capsys, "--port", str(taken.getsockname()[1]))
    assert code == 2 and "give another --port" in err


def test_an_unknown_target_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    code, err = ended(capsys, "--targets", "edge,egde", "--port", "0")
    assert code == 2 and "no target is named 'egde'" in err


def test_a_missing_extra_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "uvicorn" else found(name, *rest)
    )  # fmt: skip
    code, err = ended(capsys)
    assert code == 2 and "pip install 'autotune[serve]'" in err
