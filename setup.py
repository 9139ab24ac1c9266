"""Builds the Cython kernels. Everything declarative stands in pyproject.toml.

With AUTOTUNE_SANITIZE=1 in the environment they watch their own memory and arithmetic; what imports
them must run under the compiler's libasan (tests/fuzz/sanitized.py does).
"""

import os
import re
from pathlib import Path

import numpy
from setuptools import Extension, setup

FAST = ["-O3", "-fno-math-errno", "-fno-trapping-math"]
SANITIZED = ["-O1", "-g1", "-fno-omit-frame-pointer", "-fno-wrapv",
             "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize=null,object-size",
             "-fsanitize-recover=undefined,float-cast-overflow"]  # fmt: skip
"""-fno-wrapv takes back what Python's own flags say, so that overflows are seen. A null pointer is
seen by the processor; to look for it takes a third of the compiler's time."""
SANITIZES = os.environ.get("AUTOTUNE_SANITIZE") == "1"
KERNELS = Path("kernels")
SOURCES = sorted(KERNELS.rglob("*.pyx"))
INCLUDE = re.compile(r'^\s*(?:#include|include|cdef extern from)\s+"([^"]+)"', re.MULTILINE)
CIMPORT = re.compile(r"^from kernels\.([\w.]+) cimport", re.MULTILINE)

if not SOURCES:
    raise SystemExit("setup.py: no .pyx file under kernels/: the source tree is incomplete")
LINK = Path("autotune", "kernels")
if not LINK.exists():  # an sdist has no links; Cython finds a module's own .pxd by its package
    LINK.symlink_to(Path("..") / KERNELS)


def included(source: Path) -> set[Path]:
    """Return the files under kernels/ that a source includes or cimports, directly or not, and its own .pxd."""
    own = source.with_suffix(".pxd")
    found: set[Path] = {own} if own.exists() else set()
    unread = [source, *found]
    while unread:
        reader = unread.pop()
        text = reader.read_text("utf-8")
        names = INCLUDE.findall(text)
        names += [f"{name.replace('.', '/')}.pxd" for name in CIMPORT.findall(text)]
        named = {folder / name for name in names for folder in (KERNELS, reader.parent)}
        new = {path for path in named if path.exists()} - found
        found |= new
        unread += new
    return found


def extension(source: Path) -> Extension:
    """One compiled module for one .pyx file, rebuilt when what it includes changes."""
    return Extension(
        "autotune." + ".".join(source.with_suffix("").parts),
        [str(source)],
        depends=sorted(map(str, included(source))),
        include_dirs=[numpy.get_include(), str(KERNELS)],
        extra_compile_args=SANITIZED if SANITIZES else FAST,
        extra_link_args=["-pthread", *(["-fsanitize=address,undefined"] if SANITIZES else [])],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
    )


setup(
    packages=[
        "autotune",
        *(
            f"autotune.{path.parent.relative_to('autotune').as_posix().replace('/', '.')}"
            for path in sorted(Path("autotune").rglob("__init__.py"))
            if path.parent != Path("autotune")
        ),
        "autotune.kernels",
        *(f"autotune.kernels.{path.parent.name}" for path in sorted(KERNELS.glob("*/__init__.py"))),
        "autotune.datasets",
    ],
    package_data={
        "autotune.targets": ["specs/*.toml", "components/*.toml", "links/*.toml"],
        "autotune.cost_model": ["models/*.model"],
        "autotune.report": ["templates/*"],
        "autotune.serve": ["templates/*"],
        "autotune.kernels": ["*/*.pyi", "*/*.pyx", "*/*.pxd", "*/*.pxi", "*/*.h"],
        "autotune": ["py.typed"],
    },
    ext_modules=[extension(source) for source in SOURCES],
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
