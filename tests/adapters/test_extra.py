"""Without PyTorch, its functions name the extra to install."""

from __future__ import annotations

import importlib.util

import pytest

import autotune
from autotune import AutotuneError


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is here")
@pytest.mark.parametrize("call", [autotune.compiled_subgraphs, lambda: autotune.from_torch(0, 0)])
def test_a_missing_pytorch_is_one_line_with_the_remedy(call) -> None:
    with pytest.raises(AutotuneError, match=r"pip install 'autotune\[torch\]'"):
        call()
