"""``torch.compile(module, backend="autotune")``: what runs, what stays in PyTorch, and why."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import autotune  # noqa: E402
from autotune.adapters.extra import SubgraphReport  # noqa: E402
from autotune.adapters.subgraph import live_subgraphs  # noqa: E402
from autotune.adapters.tensors import array_of, tensor_of  # noqa: E402

nn: Any = torch.nn
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*onnx.*"),
    pytest.mark.filterwarnings("ignore:.*TracerWarning.*"),
]
STAYS = "autotune: PyTorch runs a subgraph"


_EARLIER: weakref.WeakSet[Any] = weakref.WeakSet()
"""Subgraphs of earlier tests, which the compiler may keep."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    _EARLIER.update(live_subgraphs())


class Function(nn.Module):
    """A module with one weight that calls a function on it and its arguments."""

    def __init__(self, function: Any, *shape: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(*shape or (4, 4)))

    def forward(self, *args: Any) -> Any:
        return self.function(self.weight, *args)


def compiled(module: Any, **options: Any) -> Any:
    return torch.compile(module.eval(), backend="autotune", **options)


def reports() -> tuple[SubgraphReport, ...]:
    return tuple(x.report for x in live_subgraphs() if x not in _EARLIER)


def network() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).eval()


def close(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_the_backend_is_found_by_name() -> None:
    assert "autotune" in torch._dynamo.list_backends()


@torch.no_grad()
def test_a_network_runs_in_a_session() -> None:
    module, x = network(), torch.randn(5, 4)
    close(compiled(module)(x), module(x))
    assert [(r.engine, r.runs, r.pytorch_runs) for r in reports()] == [("autotune", 1, 0)]
    assert set(reports()) <= set(autotune.compiled_subgraphs())


def test_inference_mode_is_as_good_as_no_gradients() -> None:
    module = network()
    with torch.inference_mode():
        x = torch.randn(5, 4)
        close(compiled(module)(x), module(x))
    assert reports()[0].engine == "autotune"


def test_weights_whose_writes_nobody_counts_stay_in_pytorch() -> None:
    with torch.inference_mode():
        module, x = network(), torch.randn(5, 4)
        with pytest.warns(UserWarning, match="made under .*make the module outside of it"):
            close(compiled(module)(x), module(x))


def test_gradients_stay_in_pytorch() -> None:
    module, x = network(), torch.randn(5, 4)
    with pytest.warns(UserWarning, match="gradients are recorded; call the module under"):
        compiled(module)(x).sum().backward()
    assert module[0].weight.grad is not None
    assert reports()[0].reason is not None


@torch.no_grad()
def test_training_mode_stays_in_pytorch() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    with pytest.warns(UserWarning, match="draws random numbers; call module.eval"):
        y = torch.compile(module, backend="autotune")(torch.randn(9, 4))
    assert 0 < int((y == 0).sum()) < y.numel()


@torch.no_grad()
def test_statistics_of_a_batch_are_still_written_in_training_mode() -> None:
    module, x = nn.BatchNorm1d(4).train(), torch.randn(9, 4)
    with pytest.warns(UserWarning, match="the module writes to"):
        torch.compile(module, backend="autotune")(x)
    close(module.running_mean, 0.1 * x.mean(0))


@torch.no_grad()
def test_a_changed_batch_compiles_once_for_all_others() -> None:
    module = network()
    ours = compiled(module)
    for batch in (2, 3, 5, 7, 3):
        x = torch.randn(batch, 4)
        close(ours(x), module(x))
    assert sorted((r.runs, r.pytorch_runs) for r in reports()) == [(1, 0), (4, 0)]


@torch.no_grad()
def test_marked_dimensions_are_open_at_once() -> None:
    module = Function(lambda w, x: (x @ w).reshape(x.shape[0] // 2, -1).softmax(-1))
    ours = compiled(module)
    for batch in (4, 6, 10):
        x = torch.randn(batch, 4)
        torch._dynamo.mark_dynamic(x, 0)
        close(ours(x), module(x))
    assert [(r.runs, r.pytorch_runs) for r in reports()] == [(3, 0)]


@torch.no_grad()
def test_written_weights_are_seen() -> None:
    module, x = network(), torch.randn(5, 4)
    ours = compiled(module)
    ours(x)
    module[0].weight.mul_(2)
    close(ours(x), module(x))
    module.load_state_dict(network().state_dict())
    close(ours(x), module(x))
    assert [r.engine for r in reports()] == ["autotune"]


@torch.no_grad()
def test_weights_that_keep_changing_stay_in_pytorch() -> None:
    module, x = network(), torch.randn(5, 4)
    ours = compiled(module)
    for _ in range(4):
        module[2].bias.add_(1)
        close(ours(x), module(x))
    with pytest.warns(UserWarning, match="its weights change between calls"):
        module[2].bias.add_(1)
        close(ours(x), module(x))
    assert [r.engine for r in reports()] == ["pytorch"]


@torch.no_grad()
def test_layers_of_equal_code_keep_their_own_weights() -> None:
    layers, x = [network() for _ in range(3)], torch.randn(5, 4)
    ours = [compiled(layer) for layer in layers]
    for _ in range(2):
        for mine, layer in zip(ours, layers, strict=True):
            close(mine(x), layer(x))
    assert sum(r.runs for r in reports()) == 6


@torch.no_grad()
def test_each_side_of_a_graph_break_runs_in_a_session() -> None:
    def broken(weight: Any, x: Any) -> Any:
        x = (x @ weight).relu()
        torch._dynamo.graph_break()
        return (x @ weight).tanh()

    module, x = Function(broken), torch.randn(3, 4)
    close(compiled(module)(x), module(x))
    assert [(r.engine, r.runs) for r in reports()] == [("autotune", 1)] * 2


@torch.no_grad()
def test_operators_that_cannot_be_imported_stay_in_pytorch() -> None:
    def mixed(weight: Any, x: Any) -> Any:
        x = torch.linalg.svdvals(x @ weight)
        torch._dynamo.graph_break()
        return x.exp() @ weight

    module, x = Function(mixed), torch.randn(4, 4)
    with pytest.warns(UserWarning, match="cannot be converted to ONNX by PyTorch"):
        close(compiled(module)(x), module(x))
    assert sorted(r.engine for r in reports()) == ["autotune", "pytorch"]


SIDE_EFFECTS = {
    "input": (lambda w, x: (x.add_(1), x @ w)[1], "the module writes to"),
    "view": (lambda w, x: (x.view(-1), x @ w), "is a view of an input"),
    "float64": (lambda w, x: x.double() @ w.double(), "float64; convert the module"),
    "random": (lambda w, x: x @ w + torch.rand(4), "draws random numbers"),
}


@pytest.mark.parametrize("name", SIDE_EFFECTS)
@torch.no_grad()
def test_what_a_session_cannot_keep_stays_in_pytorch(name: str) -> None:
    function, reason = SIDE_EFFECTS[name]
    module, x, other = Function(function), torch.randn(4, 4), torch.empty(4, 4)
    other.copy_(x)
    with pytest.warns(UserWarning, match=reason):
        torch.manual_seed(1)
        got = compiled(module)(x)
    torch.manual_seed(1)
    torch.testing.assert_close(got, module(other))
    assert torch.equal(x, other)


RESULTS = {
    "tuple": lambda w, x: (x @ w, (x @ w).relu()),
    "dict": lambda w, x: {"a": x @ w, "b": [x.sum(), None]},
    "input": lambda w, x: (x, x @ w),
    "weight": lambda w, x: (w, x @ w),
    "twice": lambda w, x: (lambda y: (y, y))(x @ w),
    "integers": lambda w, x: (x @ w).topk(2),
    "booleans": lambda w, x: (x @ w) > 0,
    "constant": lambda w, x: (x @ w, torch.arange(3)),
    "scalar": lambda w, x: (x @ w).mean(),
    "strided": lambda w, x: (x @ w).T,
}


@pytest.mark.parametrize("name", RESULTS)
@torch.no_grad()
def test_results_keep_their_structure_and_types(name: str) -> None:
    module, x = Function(RESULTS[name]), torch.randn(4, 4)
    got = compiled(module)(x)
    wanted = module(x)
    assert type(got) is type(wanted)
    close(got, wanted)
    assert [(r.runs, r.pytorch_runs) for r in reports()] == [(1, 0)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_narrow_floats_keep_their_type(dtype: Any) -> None:
    module, x = network().to(dtype), torch.randn(5, 4, dtype=dtype)
    got = compiled(module)(x)
    assert got.dtype is dtype
    torch.testing.assert_close(got, module(x), rtol=2e-2, atol=2e-2)
    assert reports()[0].engine == "autotune"


@torch.no_grad()
def test_strided_inputs_are_read_in_their_order() -> None:
    module, x = Function(lambda w, x: x @ w), torch.randn(4, 6).T[::2]
    close(compiled(module)(x), module(x))


@torch.no_grad()
def test_options_choose_threads_and_accuracy() -> None:
    module, x = network(), torch.randn(5, 4)
    close(compiled(module, options={"threads": 1, "accuracy": "exact"})(x), module(x))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="no option 'speed'; the backend has threads, accuracy"):
        compiled(module, options={"speed": 9})(x)


def test_tensors_and_arrays_share_their_memory() -> None:
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
        tensor = torch.ones(3, 2).to(dtype)
        array = array_of(tensor)
        array[1] = 0
        assert torch.equal(tensor[1], torch.zeros(2, dtype=dtype))
        again = tensor_of(array)
        assert again.data_ptr() == tensor.data_ptr() and again.dtype is dtype
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    assert tensor_of(frozen).data_ptr() != frozen.ctypes.data
