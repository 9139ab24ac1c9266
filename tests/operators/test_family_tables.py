"""Where an addition has to be made: tables and matches that need a row for every family stand in a few files only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import autotune
from autotune.operators.op import Family

ROOT = Path(autotune.__file__).parent
WHOLE = {
    "lowering/vector_operators.py",
    "operators/families.py",
}
"""Files that every family has a place in, beside its own and ``op.py``; ``docs/adding.md`` counts them."""
REFUSES = {"graph/padding/rules.py"}
"""Files that have a rule for every family today, but refuse one without by name."""


def _families(node: ast.AST) -> set[str]:
    return {
        child.attr
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute)
        and isinstance(child.value, ast.Name)
        and child.value.id == "Family"
    }


def _is_exhaustive(match: ast.Match) -> bool:
    """Return True if the last case refuses what no other took, or if there is none for the rest."""
    last = match.cases[-1]
    catches_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
    return not catches_all or "assert_never" in ast.unparse(last)


def _whole_tables(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = [key for key in node.keys if key is not None]
            if len({name for key in keys for name in _families(key)}) == len(Family):
                yield f"table in line {node.lineno}"
        if isinstance(node, ast.Match) and _is_exhaustive(node):
            named = {name for case in node.cases for name in _families(case.pattern)}
            if len(named) == len(Family):
                yield f"match in line {node.lineno}"


def test_few_files_need_a_row_for_every_family() -> None:
    found = {
        str(path.relative_to(ROOT)): list(tables)
        for path in sorted(ROOT.rglob("*.py"))
        if (tables := list(_whole_tables(ast.parse(path.read_text()))))
    }
    assert found.keys() == WHOLE | REFUSES, found


def test_the_scan_sees_tables_and_matches() -> None:
    names = [f"Family.{family.name}" for family in Family]
    table = "x = {" + ", ".join(f"{name}: 1" for name in names) + "}"
    match = f"match x:\n    case {' | '.join(names)}:\n        pass"
    partial = (
        f"match x:\n    case {' | '.join(names[1:])}:\n        pass\n    case _:\n        pass"
    )
    assert len(list(_whole_tables(ast.parse(table)))) == 1
    assert len(list(_whole_tables(ast.parse(match)))) == 1
    assert not list(_whole_tables(ast.parse(partial)))


def test_the_page_on_adding_counts_the_files_of_a_family() -> None:
    """Beside the whole tables: ``op.py``, the family's own file and its ONNX spelling."""
    page = (ROOT.parent / "docs" / "adding.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| operator family |")]
    assert row.split("|")[2].strip() == str(len(WHOLE) + 3)
