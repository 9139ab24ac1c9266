"""Models of PyTorch's libraries give what PyTorch gives, by ``torch.compile`` and ``from_torch``."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import autotune  # noqa: E402
from autotune.adapters.subgraph import live_subgraphs  # noqa: E402
from tests.adapters.torch_zoo import MODELS, Case  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("timm") is None
        or importlib.util.find_spec("transformers") is None,
        reason="timm and transformers are in the environment of make test-torch",
    ),
]

AGREEMENT = 2e-5
"""Greatest distance from PyTorch, as a share of the range of the numbers."""

COMPILED = [name for name in MODELS if name not in ("recurrent", "t5")]
"""Models that run in sessions by ``torch.compile``: PyTorch keeps recurrent layers to itself, and T5's
buckets of relative positions are not proved exact."""

EXPORTED = ("convnext", "segmentation", "bert", "recurrent")
"""Models that ``from_torch`` is tried on too: with tuples, dictionaries and classes as results."""


@pytest.fixture(params=COMPILED)
def case(request: pytest.FixtureRequest) -> Case:
    torch.manual_seed(0)
    torch._dynamo.reset()
    return MODELS[request.param]()


def check_agrees(got: Any, wanted: Any) -> None:
    """Check that two results have one structure and the same tensors, up to rounding."""
    assert type(got) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        span = float(wanted.max() - wanted.min()) or 1.0
        assert float((got - wanted).abs().max()) <= AGREEMENT * span
    elif isinstance(wanted, dict):
        assert list(got) == list(wanted)
        for key in wanted:
            check_agrees(got[key], wanted[key])
    elif isinstance(wanted, (tuple, list)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            check_agrees(one, other)
    elif type(wanted).__name__ == "EncoderDecoderCache":
        for part in ("self_attention_cache", "cross_attention_cache"):
            check_agrees(getattr(got, part), getattr(wanted, part))
    elif type(wanted).__name__.endswith("Cache"):
        check_agrees([x.keys for x in got.layers], [x.keys for x in wanted.layers])


def test_a_compiled_model_gives_what_pytorch_gives(case: Case) -> None:
    earlier = live_subgraphs()  # of other tests, which PyTorch still holds
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="autotune: PyTorch runs")
        compiled = torch.compile(case.module, backend="autotune")
        check_agrees(compiled(*case.args, **case.kwargs), case.module(*case.args, **case.kwargs))
    new = [one for one in live_subgraphs() if all(one is not old for old in earlier)]
    reports = [subgraph.report for subgraph in new]
    assert reports and all(x.engine == "autotune" and not x.pytorch_runs for x in reports)


def test_a_model_that_no_session_runs_gives_what_pytorch_gives() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    case = MODELS["t5"]()
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="autotune: PyTorch runs")
        compiled = torch.compile(case.module, backend="autotune")
        check_agrees(compiled(**case.kwargs), case.module(**case.kwargs))


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_model_gives_what_pytorch_gives(name: str) -> None:
    torch.manual_seed(0)
    case = MODELS[name]()
    ours = autotune.from_torch(case.module, case.args, case.kwargs)
    with torch.inference_mode():
        check_agrees(ours(*case.args, **case.kwargs), case.module(*case.args, **case.kwargs))
