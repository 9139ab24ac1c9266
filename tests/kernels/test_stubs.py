"""Stubs of compiled modules say what the modules hold: names, and parameters of every callable."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "kernels"
SOURCES = sorted(KERNELS.rglob("*.pyx"))
INCLUDE = re.compile(r'^include "(.+)"$', re.MULTILINE)
CONSTANT = re.compile(r"^([A-Z][A-Z_]*(?:, [A-Z][A-Z_]*)*) = ", re.MULTILINE)
CLASS = re.compile(r"^cdef class (\w+):\n((?:(?:    .*)?\n)+)", re.MULTILINE)
CONSTRUCTOR = re.compile(r"def __c?init__\(([^)]*)\):")


def text(source: Path) -> str:
    """The source with the files that it includes."""
    return INCLUDE.sub(lambda found: text(source.parent / found[1]), source.read_text("utf-8"))


def stub(source: Path) -> dict[str, ast.stmt]:
    """Definitions of the stub by name; type aliases are left out."""
    named: dict[str, ast.stmt] = {}
    for node in ast.parse(source.with_suffix(".pyi").read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            named[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            assert isinstance(node.target, ast.Name)
            named[node.target.id] = node
    return named


def parameters(function: ast.FunctionDef) -> list[str]:
    assert not function.args.kwonlyargs and function.args.vararg is None
    return [argument.arg for argument in function.args.args]


def test_every_module_has_a_stub() -> None:
    assert SOURCES
    assert all(source.with_suffix(".pyi").exists() for source in SOURCES)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_stub_names_what_its_module_defines(source: Path) -> None:
    name = ".".join(("autotune", *source.relative_to(KERNELS.parent).with_suffix("").parts))
    module = importlib.import_module(name)
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == name
    }
    defined |= {n for names in CONSTANT.findall(text(source)) for n in names.split(", ")}
    assert set(stub(source)) == defined
    assert all(hasattr(module, key) for key in defined)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_stub_has_the_parameters_of_its_module(source: Path) -> None:
    name = ".".join(("autotune", *source.relative_to(KERNELS.parent).with_suffix("").parts))
    module = importlib.import_module(name)
    classes = {found[0]: found[1] for found in CLASS.findall(text(source))}
    for key, node in stub(source).items():
        value = getattr(module, key)
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == list(inspect.signature(value).parameters)
        elif isinstance(node, ast.ClassDef):
            members = [member for member in node.body if isinstance(member, ast.FunctionDef)]
            named = {
                n.target.id
                for n in node.body
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
            }
            named |= {member.name for member in members}
            public = {n for n in vars(value) if not n.startswith("_")}
            assert {n for n in named if not n.startswith("_")} == public
            for member in members:
                if member.name == "__init__":
                    found = CONSTRUCTOR.search(classes[key])
                    assert found is not None
                    declared = [
                        part.split("=")[0].replace(" not None", "").split()[-1]
                        for part in found[1].split(", ")
                        if "[" not in part or "]" in part
                    ]
                    assert len(parameters(member)) == len(declared), (key, declared)
                elif member.name != "__len__" and callable(getattr(value, member.name)):
                    wanted = list(inspect.signature(getattr(value, member.name)).parameters)
                    assert parameters(member) == wanted
