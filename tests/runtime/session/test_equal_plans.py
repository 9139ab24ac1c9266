"""Equal networks and machines open with equal plans, whatever the caches hold and however texts hash."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.runtime.caches.program_files import shared_programs
from autotune.runtime.session.session import Session

MACHINES = ("edge", "cpu:1")
OPENS = 10
CODE = (
    "import sys; from tests.runtime.session.test_equal_plans import plan; print(plan(sys.argv[1]))"
)


def plan(machine: str) -> str:
    """Digest of the plan of a session that opens, with every program."""
    digest = hashlib.sha256()
    with Session("mlp", machine) as session:
        for step in session.tables[0].group_steps:
            digest.update(f"{step.operators} {step.key} {step.program}\n".encode())
    return digest.hexdigest()


@pytest.mark.parametrize("machine", MACHINES)
def test_every_open_gives_the_same_plan(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for number in range(OPENS):
        monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / str(number % 3)))
        if number % 2:
            shared_programs.cache_clear()
        found.add(plan(machine))
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", CODE, machine]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout.strip())
    assert len(found) == 1
