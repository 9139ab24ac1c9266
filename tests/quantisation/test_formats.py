"""int8 and bf16 in one file: within the limit, and never dearer than either format alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from autotune.errors import InputError
from autotune.quantisation.loss import Loss, loss_of
from autotune.quantisation.quantize import quantize
from autotune.quantisation.result import QuantizeResult
from autotune.runtime.session.session import Session
from tests.networks.test_quantised import peer
from tests.quantisation.test_quantize import kinds, saved

LIMIT = 0.02


def seconds(result: QuantizeResult) -> float:
    (kept,) = [one.seconds for one in result.front if one.is_kept]
    assert kept is not None
    return kept


@pytest.mark.parametrize("name", ["resnext50", "bert_layer"])
def test_a_mixed_file_is_within_the_limit_and_no_dearer_than_one_format(
    name: str, tmp_path: Path
) -> None:
    path, data = saved(name, tmp_path)
    made = {
        formats: quantize(
            path,
            data,
            tmp_path / f"{len(formats)}.onnx",
            format=formats,
            max_loss=LIMIT,
            target="edge",
        )
        for formats in ("int8", "bf16", "int8,bf16")
    }
    mixed = made["int8,bf16"]
    is_mixed = {"int8", "bf16"} <= {one.type for one in mixed.products}
    assert is_mixed == (name == "resnext50"), "int8 gains nothing in so small a transformer"
    assert mixed.losses[Loss.RELATIVE] <= LIMIT
    assert seconds(mixed) <= min(seconds(one) for one in made.values())
    assert ("QuantizeLinear" in kinds(mixed.file)) == is_mixed and "Cast" in kinds(mixed.file)
    run = {x: values[0] for x, values in np.load(data).items()}
    with Session(mixed.file, "cpu") as session:
        own = session.run(dict(run))
    with Session(mixed.file, "edge") as session:
        emulated = session.run(dict(run))
    theirs = peer(mixed.file, run)
    assert loss_of([theirs], [own], Loss.RELATIVE) < LIMIT, "ties round elsewhere"
    assert loss_of([theirs], [emulated], Loss.RELATIVE) < LIMIT


def test_a_tensor_between_two_formats_is_stored_in_int8_and_rounded_again(tmp_path: Path) -> None:
    from autotune.quantisation.grid import NarrowFormat
    from autotune.quantisation.products import Network
    from autotune.quantisation.qdq import Scheme, write_qdq
    from tests.quantisation.test_precision import quantiser

    made = quantiser("mlp", tmp_path)
    first, second = (p.name for p in made.network.products)
    formats = {first: NarrowFormat.INT8, second: NarrowFormat.BF16}
    model = write_qdq(made.network, formats, made._calibrate(), Scheme(formats=(*NarrowFormat,)))
    onnx.checker.check_model(model, full_check=True)
    makers = {x: node for node in model.graph.node for x in node.output}
    (reader,) = [node for node in model.graph.node if node.name == second]
    again = makers[reader.input[0]]
    assert (again.op_type, makers[again.input[0]].op_type) == ("Cast", "Cast")
    assert isinstance(Network(model), Network)


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
