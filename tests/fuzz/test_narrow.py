"""Drawn products of narrow numbers hold on both engines; ``make fuzz-narrow`` tries thousands, sanitized."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.targets.native.cpu.host import available
from tests.fuzz.narrow import fuzz


@pytest.mark.skipif(not available(), reason="llvmlite is not installed")
def test_drawn_products_are_exact_on_both_engines(tmp_path: Path) -> None:
    counts, held = fuzz(12, 7, tmp_path)
    assert held
    assert counts["bytes"] + counts["bf16"] + counts["fp16"] == 12
    assert counts["products"] >= 12
