"""``python -m tests.fuzz``: many cases in worker processes; a crash or a hang is found, named and shrunk.

Case ``i`` of a seed is always the same, so that a run goes on where another one ended: ``--first``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import sanitized
from tests.fuzz.share import Note, Share, Tally, read_tally

HANG_SECONDS = 60
"""CPU seconds that a case may take."""
PROGRESS_SECONDS = 20
EXPLAINED = 2
"""Failing cases of a worker that are shrunk and printed."""


@dataclass(slots=True)
class Worker:
    """A process that tries a share, and what it leaves behind."""

    process: subprocess.Popen[bytes]
    share: Share
    place: Path
    note: Note
    last: int = -1
    since: float = 0.0

    def hangs(self) -> bool:
        """Whether it has been at the same case for too long; to be asked again and again."""
        number, now = self.note.read(), _cpu_seconds(self.process.pid)
        if number != self.last:
            self.last, self.since = number, now
        return number >= 0 and now - self.since > HANG_SECONDS


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process: a worker waits for nothing, so one that gets none was stopped, or has
    a busy machine, and does not hang. The clock on the wall where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="go on from this case")
    parser.add_argument("--kind", choices=("encodings", "texts", "sequences", "mutations"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sanitize", action="store_true", help="AddressSanitizer and UBSan")
    parser.add_argument("--show", type=int, metavar="CASE", help="shrink and print one case")
    parser.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--modules", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser


def _command(share: Share, modules: Path | None, *more: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz",
        "--seed",
        str(share.seed),
        "--first",
        str(share.first),
    ]
    command += ["--cases", str(share.end - share.first), "--step", str(share.step), *more]
    command += [] if share.kind is None else ["--kind", share.kind]
    return command if modules is None else [*command, "--modules", str(modules)]


def _environment(modules: Path | None) -> dict[str, str]:
    given = dict(os.environ) if modules is None else sanitized.environment()
    path = given.get("PYTHONPATH")
    root = str(sanitized.ROOT)
    return given | {"PYTHONPATH": root if path is None else f"{root}{os.pathsep}{path}"}


def _start(share: Share, modules: Path | None, place: Path) -> Worker:
    note = Note(place / "note")
    with (place / "errors").open("wb") as errors:
        command = _command(share, modules, "--worker", str(place))
        process = subprocess.Popen(command, env=_environment(modules), stderr=errors)
    return Worker(process, share, place, note)


def _supervise(workers: list[Worker], begin: float) -> None:
    """Until all have ended; those that hang are ended."""
    told = begin
    while any(worker.process.poll() is None for worker in workers):
        time.sleep(0.2)
        now = time.monotonic()
        for worker in workers:
            if worker.process.poll() is None and worker.hangs():
                print(f"case {worker.note.read()} hangs: {HANG_SECONDS} s", flush=True)
                worker.process.kill()
                worker.process.wait()
        if now - told > PROGRESS_SECONDS:
            told = now
            print(f"{now - begin:6.0f} s: case {min(w.note.read() for w in workers)}", flush=True)


def ending(worker: Worker) -> str:
    """How a worker that is no more ended: the signal's name, where one ended it."""
    status = worker.process.returncode
    return f"status {status}" if status >= 0 else signal.Signals(-status).name


def _failed(worker: Worker, modules: Path | None) -> bool:
    """Print what went wrong in a worker; False if nothing did."""
    tally = read_tally(worker.place / "report")
    crashed = worker.process.returncode != 0
    numbers = [*tally.failures, *([worker.note.read()] if crashed else [])]
    if numbers:
        print((worker.place / "errors").read_text(errors="replace")[-6000:])
    if crashed:
        print(f"the worker at case {worker.note.read()} ended with {ending(worker)}", flush=True)
    for number in numbers[-EXPLAINED:]:
        command = _command(worker.share, modules, "--show", str(number))
        subprocess.run(command, env=_environment(modules), check=False)
    return bool(numbers)


def fuzz(share: Share, jobs: int, modules: Path | None) -> int:
    """Try a share by several processes; returns the exit status."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        workers = []
        for job in range(jobs):
            place = Path(folder) / str(job)
            place.mkdir()
            part = Share(share.seed, share.first + job, share.end, jobs, share.kind)
            workers.append(_start(part, modules, place))
        _supervise(workers, begin)
        tally = Tally()
        for worker in workers:
            tally.add(read_tally(worker.place / "report"))
        for name, count in [*sorted(tally.outcomes.items()), *tally.rules.most_common(40)]:
            print(f"{count:9} {name}")
        failed = [_failed(worker, modules) for worker in workers]
    print(f"{tally.outcomes.total()} cases in {time.monotonic() - begin:.0f} s, seed {share.seed}")
    return 1 if any(failed) else 0


def main() -> int:
    """Run the command."""
    given = _arguments().parse_args()
    share = Share(given.seed, given.first, given.first + given.cases, given.step, given.kind)
    if given.worker is not None or given.show is not None:
        if given.modules is not None:
            sanitized.use(given.modules)
        from tests.fuzz.worker import explain, run_share  # imports kernels, hence not before

        if given.show is not None:
            print(explain(share, given.show))
        else:
            run_share(share, Note(given.worker / "note"), given.worker / "report")
        return 0
    return fuzz(share, given.jobs, sanitized.build() if given.sanitize else None)


if __name__ == "__main__":
    sys.exit(main())
