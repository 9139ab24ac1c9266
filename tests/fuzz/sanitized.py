"""Kernels built to watch their own memory, and the environment that they run in.

The build lies in ``build/asan/<hash of the sources>``, so that it is made once for each state of
the kernels. It holds the rooms that fuzzing runs. Only a process started with ``environment()`` can
import it, by ``use``.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILDS = ROOT / "build" / "asan"
ROOMS = ("emit", "emulator", "micro")
"""Rooms of ``kernels/`` that decoder, assembler, verifier and both engines run; the others keep the usual build."""
_OPTIONS = (
    "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:detect_stack_use_after_return=0"
)


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{sys.version}{os.environ.get('CC', '')}".encode())
    sources = [
        path
        for path in (ROOT / "kernels").rglob("*")
        if path.suffix in (".pyx", ".pxd", ".pxi", ".h")
    ]
    for path in sorted([*sources, ROOT / "setup.py", Path(__file__)]):
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _library(name: str) -> Path | None:
    """The compiler's own copy of a sanitizer's library, None if it has none."""
    compiler = os.environ.get("CC", "gcc").split()[0]
    if shutil.which(compiler) is None:
        return None
    asked = [compiler, f"-print-file-name={name}"]
    found = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    return found if found.is_absolute() else None


def available() -> bool:
    """Whether this machine's compiler brings the sanitizers along."""
    return sys.platform == "linux" and None not in (_library("libasan.so"), _library("libubsan.so"))


def build() -> Path:
    """The folder of the sanitized modules; builds them if there are none for these sources, and
    removes those for other ones. Raises ``CalledProcessError`` where that fails."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = BUILDS / _fingerprint()
        if not (place / "done").exists():
            for old in BUILDS.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            _compile(place)
            (place / "done").touch()
    return place / "autotune" / "kernels"


def _compile(place: Path) -> None:
    """Compile the rooms without optimisation: that takes half of the time, and a case a tenth more."""
    places = ["--build-lib", str(place), "--build-temp", str(place / "objects")]
    environment = os.environ | {"AUTOTUNE_SANITIZE": "1"}
    command = [sys.executable, str(Path(__file__)), "--parallel", "2", *places]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    shutil.rmtree(place / "objects")


def compile_rooms(options: Sequence[str]) -> None:
    """Run ``build_ext`` of ``setup.py`` with ``options`` for the modules of ``ROOMS``."""
    from distutils.core import run_setup

    whole = run_setup("setup.py", ["--quiet", "build_ext", *options], stop_after="commandline")
    modules = [one for one in whole.ext_modules if one.name.split(".")[2] in ROOMS]
    assert {one.name.split(".")[2] for one in modules} == set(ROOMS)
    for module in modules:
        module.extra_compile_args.append("-O0")
    whole.ext_modules = modules
    whole.run_commands()


def environment() -> dict[str, str]:
    """Environment of a process that imports sanitized modules: the sanitizers come first, an error
    aborts. Python's own objects stay in its arenas, unwatched: the kernels' memory comes from malloc
    and numpy, and cases take half as long."""
    libraries = [str(path) for name in ("libasan.so", "libubsan.so") if (path := _library(name))]
    return os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": _OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:abort_on_error=1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def use(modules: Path) -> None:
    """Import the kernels of this process from ``modules``; before anything imports one."""
    loaded = [name for name in sys.modules if name.startswith("autotune.kernels.")]
    assert not loaded, f"{loaded} are imported already"
    for folder in sorted(path for path in modules.iterdir() if path.is_dir()):
        package = importlib.import_module(f"autotune.kernels.{folder.name}")
        package.__path__.insert(0, str(folder))


if __name__ == "__main__":
    compile_rooms(sys.argv[1:])
