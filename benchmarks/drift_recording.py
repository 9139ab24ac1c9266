"""Records quiet runs of networks on this CPU: what ordinary noise looks like, for ``benchmarks.drift``.

    python -m benchmarks.drift_recording FILE.npz [--runs 1500]

Each case is a network on one or two threads. A run is its nanoseconds, group by group, the time at which it
began, and the number of times that the kernel took a core from this process meanwhile.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.runtime.session.session import Session

CASES = (
    ("mlp", 1), ("mlp", 2), ("light_squeezenet", 1), ("light_squeezenet", 2),
    ("mobilenet_v2", 1), ("mobilenet_v2", 2), ("bert_small", 1), ("bert_small", 2),
)  # fmt: skip
MOST_SECONDS = 14.0
"""A case ends after so long, with the runs that it has."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recording:
    """Runs of one case: begin in nanoseconds of a clock that never jumps, nanoseconds [runs, groups], and
    times that a core was taken away during each run."""

    name: str
    begun_ns: Ints
    group_ns: Ints
    taken: Ints

    @property
    def log_seconds(self) -> npt.NDArray[np.float64]:
        """Logarithm of each run's seconds."""
        seconds: npt.NDArray[np.float64] = np.log(self.group_ns.sum(axis=1) * 1e-9)
        return seconds


def record(network: str, threads: int, runs: int) -> Recording:
    """Run a network ``runs`` times, or for ``MOST_SECONDS``, one run after another."""
    with Session(network, f"cpu:{threads}") as session:
        feeds = session.draw_inputs(np.random.default_rng(0))
        for _ in range(5):
            session.run(feeds)
        begun: list[int] = []
        groups: list[list[int]] = []
        taken: list[int] = []
        end = time.monotonic() + MOST_SECONDS
        while len(begun) < runs and time.monotonic() < end:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
            begun.append(time.monotonic_ns())
            _, trace = session.traced_run(feeds)
            taken.append(resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - before)
            groups.append([run.execution.counters["nanoseconds"] for run in trace.groups])
    name = f"{network} cpu:{threads}"
    return Recording(name, np.asarray(begun), np.asarray(groups), np.asarray(taken))


def save(path: Path, recordings: list[Recording]) -> None:
    """Keep recordings in one file."""
    arrays: dict[str, Ints] = {}
    for one in recordings:
        arrays |= {
            f"{one.name}/begun": one.begun_ns,
            f"{one.name}/groups": one.group_ns,
            f"{one.name}/taken": one.taken,
        }
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # its stub names an argument


def load(path: Path) -> list[Recording]:
    """Return the recordings of a file."""
    with np.load(path, allow_pickle=False) as file:
        names = dict.fromkeys(key.rsplit("/", 1)[0] for key in file.files)
        return [
            Recording(n, file[f"{n}/begun"], file[f"{n}/groups"], file[f"{n}/taken"]) for n in names
        ]


def main() -> None:
    """Record every case, round-robin in two halves, so that each meets two times of the day."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=1500)
    wanted = parser.parse_args()
    save(wanted.file, [record(network, threads, wanted.runs) for network, threads in CASES])


if __name__ == "__main__":
    main()
