"""Builds one network in a process of its own, whose caches are empty, and tells how.

Arguments: ``build FILE CORES [KERNELS]`` (killed after so many kernels), ``open FILE CORES`` or
``memory NETWORK LIMIT``. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.child import spent

if TYPE_CHECKING:  # the worker measures what it imports
    from autotune.runtime.builder.trace import BuildTrace


def build(path: str, cores: str, kernels: str = "0") -> dict[str, Any]:
    """Build a plan that is known, once imports and LLVM's start are over: seconds of the build alone."""
    from autotune.runtime.builder.plan_build import build_plan
    from autotune.runtime.caches.program_files import ProgramFiles
    from autotune.runtime.execution.collector_pause import pause_collector
    from autotune.runtime.execution.program_cache import ProgramCache
    from autotune.runtime.session.initial_table import first_choices
    from autotune.runtime.session.opening import open_graph
    from autotune.runtime.session.request import open_request
    from autotune.runtime.session.session import Session

    with Session(_small(), cores=1):
        pass
    request = open_request(Path(path), cores=int(cores))
    opened = open_graph(request)
    choices = first_choices(opened, request.target)
    if int(kernels):
        _kill_after(int(kernels))
    cache = ProgramCache(files=ProgramFiles())
    with pause_collector():
        begin, others = time.perf_counter(), -others_seconds()
        found = build_plan(opened.graph, choices, request.target, cache, request.limits)
        seconds = time.perf_counter() - begin
        others += others_seconds()
    share = max(0.0, others) / seconds / (os.cpu_count() or 1)
    told = {"seconds": seconds, "others_share": share, "loads": cache.figures.loads}
    return told | _told(found.trace)


def others_seconds() -> float:
    """Return the seconds that all cores have worked for other processes, on Linux; elsewhere what makes a share of 0."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, *others = map(int, stat.read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK") - time.process_time()


def _small() -> Any:
    """A network whose kernels no other has."""
    from autotune.graph.builder import GraphBuilder
    from autotune.operators.op import OpKind

    b = GraphBuilder("small")
    return b.build([b.add(OpKind.SIN, b.add(OpKind.TANH, b.input("x", (3, 7))))])


def _kill_after(kernels: int) -> None:
    from autotune.targets.native.compiling.compiler import Compiler

    generate, left = Compiler.generate, [kernels]

    def counted(self: Compiler, kernel: Any) -> None:
        generate(self, kernel)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(Compiler, "generate", counted)  # noqa: B010 - a method of a class that is checked


def _told(trace: BuildTrace) -> dict[str, Any]:
    loads: dict[str, float] = {}
    for stage, row in trace.stages.items():
        loads[stage.load.value] = loads.get(stage.load.value, 0.0) + row.seconds
    kernels = trace.document()["stages"].get("generate", {"tasks": 0})["tasks"]
    return {"loads_seconds": loads, "kernels": kernels, "paired_seconds": trace.paired_seconds}


def opened(path: str, cores: str) -> dict[str, Any]:
    """Open a session from its file in a fresh process: imports, passes, plan, build, and all else."""
    begin = time.perf_counter()
    from autotune.runtime.session.session import Session

    with Session(Path(path), cores=int(cores)):
        return {"seconds": time.perf_counter() - begin}


def memory(network: str, limit: str) -> dict[str, Any]:
    """Open and run a shipped network within a memory: peak of the process, and what was predicted."""
    import numpy as np

    from autotune.runtime.session.session import Session

    with Session(network, memory=limit) as session:
        builds = session.status().builds
        session.run(session.draw_inputs(np.random.default_rng(0)))
        reserved = max((one.reserved_bytes for one in builds), default=0)
        return {"reserved_bytes": reserved, "builds": len(builds), **spent()}


JOBS = {"build": build, "open": opened, "memory": memory}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
