"""int8 and bf16 in one file: within the limit, and never dearer than either format alone."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from autotune.errors import InputError
from autotune.quantisation.grid import NarrowFormat
from autotune.quantisation.loss import Loss, loss_of
from autotune.quantisation.qdq import Scheme, write_qdq
from autotune.quantisation.quantize import quantize
from autotune.quantisation.target_costs import TargetCosts
from autotune.runtime.session.session import Session
from tests.networks.test_quantised import peer
from tests.quantisation.test_precision import quantiser
from tests.quantisation.test_quantize import saved

INT8, BF16 = NarrowFormat.INT8, NarrowFormat.BF16
LIMIT = 0.02


@pytest.mark.parametrize("name", ["mlp", "bert_layer"])
def test_both_formats_are_within_the_limit_and_no_dearer_than_one(
    name: str, tmp_path: Path
) -> None:
    path, data = saved(name, tmp_path)
    costs, seconds = TargetCosts("edge", None), {}
    for formats in ("int8", "bf16", "int8,bf16"):
        result = quantize(
            path, data, tmp_path / "q.onnx", format=formats, max_loss=LIMIT, target="edge"
        )
        assert result.losses[Loss.RELATIVE] <= LIMIT
        seconds[formats] = costs.seconds(onnx.load(result.file), {})
    assert seconds["int8,bf16"] <= min(seconds.values())


@pytest.mark.parametrize("first", [INT8, BF16])
def test_every_engine_computes_a_file_of_two_formats(first: NarrowFormat, tmp_path: Path) -> None:
    made = quantiser("mlp", tmp_path)
    names = [p.name for p in made.network.products]
    formats = dict(zip(names, (first, BF16 if first is INT8 else INT8), strict=True))
    model = write_qdq(made.network, formats, made.calibrate(), Scheme(formats=(INT8, BF16)))
    onnx.checker.check_model(model, full_check=True)
    file = tmp_path / "mixed.onnx"
    onnx.save(model, file)
    run = made.samples.held_out[0]
    theirs, plain = peer(file, run), peer(tmp_path / "mlp.onnx", run)
    rounding = loss_of([plain], [theirs], Loss.RELATIVE)
    assert 1e-3 < rounding < 0.05
    for target in ("cpu", "edge", "server"):
        with Session(file, target) as session:
            found = session.run(dict(run))
        assert loss_of([theirs], [found], Loss.RELATIVE) < 0.3 * rounding, target


def test_a_tensor_between_two_formats_is_stored_in_int8_and_rounded_again(tmp_path: Path) -> None:
    made = quantiser("mlp", tmp_path)
    first, second = (p.name for p in made.network.products)
    model = write_qdq(
        made.network,
        {first: INT8, second: BF16},
        made.calibrate(),
        Scheme(formats=(INT8, BF16)),
    )
    makers = {x: node for node in model.graph.node for x in node.output}
    by_name = {node.name: node for node in model.graph.node}
    again = makers[by_name[second].input[0]]
    assert (again.op_type, makers[again.input[0]].op_type) == ("Cast", "Cast")
    narrow = makers[by_name[first].input[0]]
    assert narrow.op_type == "DequantizeLinear"


@pytest.mark.parametrize("options", [{}, {"max_loss": 0.1}, {"target": "edge"}])
def test_several_formats_need_a_limit_and_a_target(
    options: dict[str, object], tmp_path: Path
) -> None:
    path, data = saved("mlp", tmp_path)
    with pytest.raises(InputError, match="give --max-loss and --target too"):
        quantize(path, data, tmp_path / "q.onnx", format=["int8", "bf16"], **options)


def test_a_format_that_is_none_is_refused(tmp_path: Path) -> None:
    path, data = saved("mlp", tmp_path)
    with pytest.raises(InputError, match="format is 'fp4'; choose among int8, bf16"):
        quantize(path, data, tmp_path / "q.onnx", format="int8, fp4")
