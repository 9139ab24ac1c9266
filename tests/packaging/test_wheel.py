"""The wheel built from the sdist holds the compiled kernels and works outside of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "kernels").rglob("*.pyx")
)

SMOKE = Path(__file__).with_name("smoke.py")


def command(*words: str | Path, cwd: Path, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= variables
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `python -m build` makes from the sdist of a copy of the tracked files."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = command("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist"]
    command(*build, cwd=source, CC=str(_quick_compiler(folder)))
    return next((folder / "dist").glob("*.whl"))


def _quick_compiler(folder: Path) -> Path:
    """The C compiler without its optimiser: a quarter of the time, and what is packed is the same."""
    script = folder / "cc"
    script.write_text(f'#!/bin/sh\nexec {os.environ.get("CC", "cc")} "$@" -O0\n', "utf-8")
    script.chmod(0o755)
    return script


@pytest.mark.slow
def test_the_wheel_contains_every_compiled_kernel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert KERNELS
    for kernel in KERNELS:
        assert any(
            n.startswith(f"autotune/{kernel}.") and n.endswith((".so", ".pyd")) for n in names
        ), kernel
    assert any(n.startswith("autotune/targets/specs/") for n in names)
    assert "autotune/cost_model/models/scratchpad.model" in names
    assert not any(n.startswith(("kernels/", "datasets/", "tests/", "benchmarks/")) for n in names)


@pytest.mark.slow
def test_the_wheel_runs_a_fused_program_outside_of_the_repository(
    wheel: Path, tmp_path: Path
) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True, system_site_packages=False)
    python = home / "bin" / "python"
    # its dependencies come from the environment that runs the tests; autotune itself must not
    site = command(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path
    ).strip()
    command(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=tmp_path)
    outer = next(p for p in sys.path if p.endswith("site-packages"))
    code = f"import sys; sys.path.append({outer!r})\n{SMOKE.read_text()}\nassert autotune.__file__.startswith({site!r})"
    assert "smoke" in command(python, "-c", code, cwd=tmp_path)
