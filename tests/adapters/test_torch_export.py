"""``from_torch``: a module's forward pass as a callable over tensors."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from autotune import InputError, ModelError, from_torch  # noqa: E402

nn: Any = torch.nn
pytestmark = pytest.mark.slow


class Heads(nn.Module):
    """Takes a tensor, a number and keywords; gives a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x: Any, scale: float, *, mask: Any = None, flip: bool = False) -> Any:
        features = self.body(x).relu() * scale
        features = features if mask is None else features * mask
        return {"features": features, "scores": (self.head(-features if flip else features), x)}


def test_arguments_and_results_keep_their_structure() -> None:
    module, x, mask = Heads().eval(), torch.randn(3, 6), torch.rand(3, 8)
    ours = from_torch(module, (x, 2.0), {"mask": mask, "flip": True})
    with torch.no_grad():
        wanted = module(x, 2.0, mask=mask, flip=True)
    got = ours(x, 2.0, flip=True, mask=mask)
    torch.testing.assert_close(got, wanted)
    assert got["scores"][1] is x and not got["features"].requires_grad


def test_other_arguments_than_those_of_the_export_are_refused() -> None:
    module, x = Heads().eval(), torch.randn(3, 6)
    ours = from_torch(module, (x, 2.0), {"flip": True})
    with pytest.raises(InputError, match=r"an argument is 3\.0; it was 2\.0 in the export"):
        ours(x, 3.0, flip=True)
    with pytest.raises(InputError, match="another structure"):
        ours(x, flip=True)
    with pytest.raises(InputError, match=r"keywords \['flip'\]"):
        ours(x, 2.0)
    with pytest.raises(InputError, match="shape"):
        ours(torch.randn(4, 6), 2.0, flip=True)


def test_dynamic_dimensions_are_open() -> None:
    module = nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), nn.SiLU()).eval()
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=4)
    ours = from_torch(module, torch.randn(2, 3, 8), dynamic_shapes=({0: batch, 2: length},))
    for shape in ((2, 3, 8), (5, 3, 31)):
        x = torch.randn(*shape)
        with torch.no_grad():
            torch.testing.assert_close(ours(x), module(x), rtol=1e-5, atol=1e-6)
    assert [type(extent) for extent in ours.session.inputs[0].shape] == [str, int, str]


def test_what_cannot_be_exported_is_one_line_with_the_remedy() -> None:
    class Branches(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(ModelError, match=r"Branches: cannot be exported.*torch\.compile") as error:
        from_torch(Branches(), torch.randn(3))
    assert "\n" not in str(error.value)
    with pytest.raises(ModelError, match=r"draws random numbers; call module\.eval"):
        from_torch(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), torch.randn(3, 2))
    with pytest.raises(InputError, match=r"expected a torch\.nn\.Module, got function"):
        from_torch(test_dynamic_dimensions_are_open, torch.randn(3))


def test_threads_are_those_of_pytorch_unless_told() -> None:
    module, x = nn.Linear(2, 2).eval(), torch.randn(3, 2)
    assert from_torch(module, x, threads=1).session.target.spec.cores == 1
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert from_torch(module, x).session.target.spec.cores == 1
    finally:
        torch.set_num_threads(before)
