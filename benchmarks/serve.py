"""The service under load: requests per second on one core, and good clients beside bad ones.

    python -m benchmarks.serve [--seconds 5] [--markdown docs/figures-serve.md]

The server runs on the first core, this client on the last one. Clients keep a connection each and send the next
request when they have the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.cost_model.predictor import Predictor
from autotune.fusion.group import Group, layer
from autotune.schedule.schedule import Schedule
from autotune.targets.native.cpu.topology import model_name
from benchmarks.table import Table

CORES = os.sched_getaffinity(0)
CLIENTS, TARGET, BATCH = 16, "edge", 256
SLOW, WRONG = 100, 4
"""Bad clients: those that send a byte per second, and those that send nonsense as fast as they can."""
HEAD = f"""# Figures of the service

Written by `make bench-serve`: `autotune serve --targets {TARGET}` on one core, {CLIENTS} clients on another one, each with one
connection and the next request when the answer is there. `GET /health` is what the HTTP stack alone allows. *Library* asks
the same questions of `autotune.Predictor` in one process, without HTTP. Measured on {{machine}}.{{note}}

- *one question*: a fused convolution, again and again; the service remembers answers by the bytes of the request.
- *all different, with schedule*: {{different:,}} schedules of 16 groups, each asked once.
- *all different, no schedule*: groups that were never asked; the service looks for each one's best schedule.
- *batches*: {BATCH} questions with schedule a request; counted are predictions.

"""
FIGURES = ("predictions/s", "library", "median, ms", "p99, ms", "worst, ms", "failures")
BAD = f"""Beside bad clients, the good ones ask *one question*: {SLOW} connections that send a byte per second, {WRONG} clients that
send broken JSON, unknown targets, wrong lengths and bodies of 5 MiB as fast as they can, and half requests that end:"""


@dataclass(frozen=True, slots=True)
class Load:
    """What clients saw: requests per second, milliseconds of the median, 99th percentile and slowest one, and failures."""

    rate: float
    median_ms: float
    p99_ms: float
    worst_ms: float
    failures: int

    @classmethod
    def of(cls, times: Sequence[float], seconds: float, failures: int) -> Load:
        """Return the figures of answer times in seconds."""
        ordered = sorted(times)
        middle, late = statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))]
        return cls(len(times) / seconds, 1e3 * middle, 1e3 * late, 1e3 * ordered[-1], failures)


@contextmanager
def server(home: str) -> Iterator[int]:
    """Start the service on the first core; yield its port."""
    command = [sys.executable, "-m", "autotune", "serve", "--targets", TARGET, "--port", "0", "--rate", "1e9"]  # fmt: skip
    said = Path(home) / "said"  # a file: the server would wait for a reader of a full pipe
    with (
        said.open("w") as errors,
        subprocess.Popen(
            command, env={**os.environ, "AUTOTUNE_HOME": home}, stderr=errors
        ) as process,
    ):
        os.sched_setaffinity(process.pid, {min(CORES)})
        try:
            while not (found := re.match(r"http://127.0.0.1:(\d+)/.*\n", said.read_text("utf-8"))):
                assert process.poll() is None, said.read_text("utf-8")
                time.sleep(0.1)
            asyncio.run(_wait(int(found[1])))
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)


async def _wait(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.1)
            continue
        writer.close()
        return


def request(path: str, document: Any | None = None) -> bytes:
    """Return a request as bytes: GET without a document."""
    body = b"" if document is None else json.dumps(document).encode()
    method = "GET" if document is None else "POST"
    return (
        f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> int:
    """Send a request; return the status of the answer."""
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None, head
    await reader.readexactly(int(length[1]))
    return int(head[9:12])


async def drive(port: int, requests: Iterator[bytes], seconds: float) -> Load:
    """Send requests from all clients for so many seconds, or until there is none left."""
    times: list[float] = []
    failures = 0
    begin = time.perf_counter()

    async def client() -> None:
        nonlocal failures
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for sent in requests:
            asked = time.perf_counter()
            if asked - begin > seconds:
                break
            failures += await ask(reader, writer, sent) != 200
            times.append(time.perf_counter() - asked)
        writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return Load.of(times, time.perf_counter() - begin, failures)


def convolution(channels: int, size: int) -> dict[str, Any]:
    """Return a question about a convolution with its activation."""
    conv = {
        "kind": "conv",
        "operands": {"x": [1, channels, size, size], "w": [channels, channels, 3, 3]},
        "attributes": {"pads": 1},
    }
    return {"target": TARGET, "layers": [conv, {"kind": "relu", "operands": [0]}]}


def group_of(channels: int, size: int) -> Group:
    """Return the group of that question."""
    conv = layer("conv", x=(1, channels, size, size), w=(channels, channels, 3, 3), pads=1)
    return conv.fuse(layer("relu", conv))


SIZES = [(channels, size) for channels in (8, 16, 24, 32) for size in (14, 20, 28, 56)]


def scheduled() -> list[tuple[dict[str, Any], Group, str]]:
    """Return questions with a schedule, no two alike."""
    predictor = Predictor.load(TARGET)
    made = []
    for channels, size in SIZES:
        group = group_of(channels, size)
        prepared = predictor.prepare(group)
        for row in prepared.schedules(1024):
            text = prepared.schedule(row).to_json()
            made.append((convolution(channels, size) | {"schedule": text}, group, text))
    return made


def library_rate(asked: Sequence[tuple[Any, Group, str]], seconds: float) -> float:
    """Return predictions per second of the library, question by question, by texts of schedules: each once."""
    predictor = Predictor.load(TARGET)
    begin, count = time.perf_counter(), 0
    for _, group, text in asked:
        predictor.predict(group, Schedule.from_json(text))
        count += 1
        if time.perf_counter() - begin > seconds:
            break
    return count / (time.perf_counter() - begin)


def library_batch_rate(asked: Sequence[tuple[Any, Group, str]], seconds: float) -> float:
    """Return predictions per second of the library by batches of one group, by texts of schedules: each once."""
    predictor = Predictor.load(TARGET)
    begin, count = time.perf_counter(), 0
    for at in range(0, len(asked) - BATCH + 1, BATCH):
        prepared = predictor.prepare(asked[at][1])
        rows = [prepared.row(Schedule.from_json(text)) for _, _, text in asked[at : at + BATCH]]
        prepared.predict_batch(np.stack(rows))
        count += BATCH
        if time.perf_counter() - begin > seconds:
            break
    return count / (time.perf_counter() - begin)


def loads(port: int, seconds: float) -> tuple[list[list[str]], int]:
    """Return a row per kind of question, and how many were all different."""
    asked = scheduled()
    singles = [request("/v1/predict", document) for document, _, _ in asked]
    items = [{"layers": d["layers"], "schedule": d["schedule"]} for d, _, _ in asked]
    batches = [
        request("/v1/predict/batch", {"target": TARGET, "items": items[at : at + BATCH]})
        for at in range(0, len(items) - BATCH + 1, BATCH)
    ]
    fresh = (request("/v1/predict", convolution(c, s)) for c in range(5, 200) for s in range(9, 99))
    one = request("/v1/predict", convolution(32, 28))
    library, by_batches = library_rate(asked, seconds), library_batch_rate(asked, seconds)
    cases: list[tuple[str, Iterator[bytes], int, str]] = [
        ("`GET /health`", itertools.repeat(request("/health")), 1, "–"),
        ("one question", itertools.repeat(one), 1, "–"),
        ("all different, with schedule", iter(singles), 1, f"{library:,.0f}"),
        ("all different, no schedule", fresh, 1, "–"),
        (f"batches of {BATCH}", itertools.cycle(batches), BATCH, f"{by_batches:,.0f}"),
    ]
    rows = []
    for name, requests, each, compared in cases:
        load = asyncio.run(drive(port, requests, seconds))
        rows.append(_row(name, load, each, compared))
        print(" | ".join(rows[-1]), flush=True)
    return rows, len(singles)


def _row(name: str, load: Load, each: int, library: str) -> list[str]:
    return [
        name,
        f"{each * load.rate:,.0f}",
        library,
        f"{load.median_ms:.2f}",
        f"{load.p99_ms:.2f}",
        f"{load.worst_ms:.1f}",
        str(load.failures),
    ]


async def among_bad_clients(port: int, seconds: float) -> Load:
    """Return what good clients see while bad ones are at work."""
    one = itertools.repeat(request("/v1/predict", convolution(32, 28)))
    bad = [asyncio.create_task(_slow(port)) for _ in range(SLOW)]
    bad += [asyncio.create_task(_nonsense(port)) for _ in range(WRONG)]
    load = await drive(port, one, seconds)
    for task in bad:
        task.cancel()
    await asyncio.gather(*bad, return_exceptions=True)
    return load


async def _slow(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    for byte in itertools.cycle(b"POST /v1/predict HTTP/1.1\r\nx-a: "):
        writer.write(bytes([byte]))
        await asyncio.sleep(1.0)


NONSENSE: tuple[Callable[[], bytes], ...] = (
    lambda: request("/v1/predict", {"layers": "?"}),
    lambda: request("/v1/predict", convolution(8, 8) | {"target": "x"}),
    lambda: (
        b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 5242880\r\n\r\n"
        + b" " * 5_242_880
    ),
    lambda: b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{",
    lambda: b"\x00\xff\r\n\r\n",
)


async def _nonsense(port: int) -> None:
    for make in itertools.cycle(NONSENSE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(make())
            async with asyncio.timeout(0.5):
                await reader.read(1)
        except (OSError, TimeoutError):
            pass
        writer.close()


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("benchmarks.serve", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--note", default="", help="what to tell of the machine")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(CORES)})
    with tempfile.TemporaryDirectory() as home, server(home) as port:
        rows, different = loads(port, given.seconds)
        one = itertools.repeat(request("/v1/predict", convolution(32, 28)))
        alone = asyncio.run(drive(port, one, given.seconds))
        beside = asyncio.run(among_bad_clients(port, given.seconds))
        again = asyncio.run(drive(port, one, given.seconds))
    first = Table("Questions of one kind:", ("questions", *FIGURES), tuple(map(tuple, rows)))
    second = Table(
        BAD,
        ("good clients", *FIGURES),
        (
            tuple(_row("alone", alone, 1, "–")),
            tuple(_row("beside bad clients", beside, 1, "–")),
            tuple(_row("afterwards", again, 1, "–")),
        ),
    )
    note = given.note and f" {given.note}."
    head = HEAD.format(different=different, machine=model_name(), note=note)
    page = head + f"{first.markdown()}\n\n{second.markdown()}\n"
    print(page)
    if given.markdown:
        given.markdown.write_text(page, "utf-8")
    return 1 if beside.failures or again.failures else 0


if __name__ == "__main__":
    sys.exit(main())
