"""What docs/figures-model.md said before: rows and sections of targets that a run has no figures of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SUMMARY = "Summary"


@dataclass(frozen=True, slots=True)
class KeptTarget:
    """A target's cells in the summary, without its name, and the Markdown of its section below the heading."""

    cells: tuple[str, ...]
    section: str


def kept_targets(text: str) -> Mapping[str, KeptTarget]:
    """Return the targets of a page that have both a row in the summary and a section."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    rows = {}
    for line in sections.get(SUMMARY, "").splitlines():
        if line.startswith("| "):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            rows[name] = tuple(cells)
    return {
        name: KeptTarget(rows[name], section.strip())
        for name, section in sections.items()
        if name in rows
    }
