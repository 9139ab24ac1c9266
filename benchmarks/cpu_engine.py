"""An engine's process as ``benchmarks.cpu`` sees it: started, asked over pipes, closed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autotune.targets.native.cpu.host import VARIABLE
from benchmarks.child import ROOT, command

WORKER = "benchmarks.cpu_worker"


class EngineFailure(Exception):
    """An engine refused a network, or its process ended."""


@dataclass(frozen=True, slots=True)
class Case:
    """What an engine is given: an ONNX file, its inputs (npz), threads, a plan of ours, and CPU features that
    ours does without (as in ``-avx512bf16``)."""

    network: Path
    inputs: Path
    threads: int
    plan: Path | None = None
    without: str = ""


class Engine:
    """One engine with one network open. Only what is asked computes. A context manager."""

    def __init__(self, name: str, python: Path, case: Case, folder: Path) -> None:
        """Raises ``EngineFailure`` when the engine cannot open the network. What it says besides
        goes to a log in ``folder``."""
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command(python, WORKER, [name]),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, VARIABLE: case.without} if case.without else None,
            )
        try:
            self.open_seconds = float(
                self._ask(
                    "open",
                    network=str(case.network),
                    inputs=str(case.inputs),
                    threads=case.threads,
                    plan=None if case.plan is None else str(case.plan),
                )["seconds"]
            )
        except EngineFailure:
            self.close()
            raise

    def time(self, seconds: float, least: int) -> list[float]:
        """Seconds of each of at least ``least`` runs, for at least ``seconds`` in all."""
        return [float(x) for x in self._ask("time", seconds=seconds, least=least)["seconds"]]

    def load(self, seconds: float, callers: int) -> list[float]:
        """Seconds of each run of so many threads that run without a pause for ``seconds``."""
        return [float(x) for x in self._ask("load", seconds=seconds, callers=callers)["seconds"]]

    def save_outputs(self, path: Path) -> Path:
        """Write what a run gives to an npz file."""
        self._ask("outputs", path=str(path))
        return path

    def _ask(self, do: str, **arguments: object) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        answer = json.loads(line)
        if "failed" in answer:
            raise EngineFailure(f"{self.name}: {answer['failed']}")
        return dict(answer)

    def _ended(self) -> EngineFailure:
        code = self._process.wait()
        return EngineFailure(f"{self.name} ended with {code}:\n{self._log.read_text()[-2000:]}")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
