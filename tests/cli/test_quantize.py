"""``autotune quantize``: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from autotune.cli.commands import quantize as command
from autotune.cli.main import main
from autotune.quantisation.grid import Activations, Method
from autotune.quantisation.loss import Loss
from autotune.quantisation.quantize import DEFAULT_HELD_OUT, DEFAULT_PERCENTILE, DEFAULT_RUNS
from tests.datasets.small_networks import SMALL


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small perceptron in the current folder, with ten runs of inputs."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.onnx"
    onnx.save(SMALL["mlp"](), path)
    draws = np.random.default_rng(0).standard_normal((10, 3, 9))
    np.save(tmp_path / "data.npy", draws.astype(np.float32))
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    captured = capsys.readouterr()
    assert exit_info.value.code == code, captured.err
    return captured.out if code == 0 else captured.err


def test_the_loss_and_the_file_are_told(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "quantize", network, "--data", "data.npy")
    assert "int8            2 of 2 products" in text
    assert "8 to calibrate, 2 held out" in text
    assert "loss, relative  0." in text and "file            net.int8.onnx" in text
    onnx.checker.check_model(onnx.load("net.int8.onnx"))


def test_json_is_the_same_in_numbers(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--method", "minmax", "--activations", "uint8", "--hold-out", "0.4", "--runs", "5")
    text = said(capsys, "quantize", network, "--data", "data.npy", *options, "--json")
    document = json.loads(text)
    assert document["runs"] == {"calibration": 3, "held_out": 2}
    assert (document["method"], document["activations"]) == ("minmax", "uint8")
    assert 0 < document["losses"]["relative"] < 0.1
    assert [one["type"] for one in document["operators"]] == ["int8", "int8"]
    assert document["bytes"]["after"] == Path("net.int8.onnx").stat().st_size


def test_bf16_is_a_format_without_scales(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "quantize", network, "--format", "bf16")
    assert "bf16     2 of 2 products" in text and "net.bf16.onnx" in text
    text = said(capsys, "quantize", network, "--format", "bf16", "--data", "data.npy", "--json")
    document = json.loads(text)
    assert (document["format"], document["method"], document["activations"]) == (
        "bf16", None, "bf16",
    )  # fmt: skip
    assert 0 < document["losses"]["relative"] < 0.01


def test_weights_only_says_that_no_loss_was_measured(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "quantize", network, "--weights-only", "--per-tensor", "--out", "w.onnx")
    assert "none: the loss is not measured" in text and "w.onnx" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--data", "nothing"), "nothing: there is no such file"),
        ((), "only --weights-only and --format bf16 need none"),
        (("--data", "data.npy", "--method", "best"), "minmax, percentile, mse"),
        (("--data", "data.npy", "--out", "no/folder.onnx"), "no/folder.onnx"),
        (("--data", "data.npy", "--runs", "1"), "runs"),
    ],
)
def test_bad_input_costs_one_line(
    arguments: tuple[str, ...], told: str, network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "quantize", network, *arguments, code=2)
    lines = [line for line in text.splitlines() if line.startswith("autotune: error: ")]
    assert len(lines) == 1 and told in lines[0]
    assert not Path("net.int8.onnx").exists()


def test_names_and_defaults_are_those_of_the_library() -> None:
    """The command knows them without importing it."""
    assert list(command.METHODS) == [one.value for one in Method]
    assert list(command.ACTIVATIONS) == [one.value for one in Activations]
    assert list(command.LOSSES) == [one.value for one in Loss]
    wanted = (DEFAULT_HELD_OUT, DEFAULT_RUNS, DEFAULT_PERCENTILE)
    defaults = command.quantize.__kwdefaults__ or {}
    names = command.quantize.__code__.co_varnames
    by_name = dict(
        zip(
            names[1 : command.quantize.__code__.co_argcount],
            command.quantize.__defaults__ or (),
            strict=True,
        )
    )
    assert not defaults
    assert tuple(by_name[x] for x in ("hold_out", "runs", "percentile")) == wanted


def test_a_limit_shows_the_front_and_what_stayed_in_float32(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = ("--max-loss", "0.45%")
    text = said(capsys, "quantize", network, "--data", "data.npy", *limit)
    assert "it harms most for its gain" in text and "front by relative loss" in text
    assert "kept" in text and "predicted ms" not in text
    text = said(capsys, "quantize", network, "--data", "data.npy", *limit, "--json")
    document = json.loads(text)
    assert document["limit"] == {"loss": "relative", "most": 0.0045, "gain": "multiplications"}
    assert document["losses"]["relative"] <= 0.0045
    gains = [one["gain"] for one in document["front"]]
    assert gains == sorted(gains, reverse=True) and gains[0] == 1 and gains[-1] == 0
    assert sum(one["kept"] for one in document["front"]) == 1
    assert any(one["sensitivity"] for one in document["operators"])


def test_a_report_shows_the_front_and_every_product(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--data", "data.npy", "--max-loss", "0.45%", "--report", "front.html")
    told = said(capsys, "quantize", network, *options, "--json")
    document = json.loads(told[: told.rindex("}") + 1])
    page = Path("front.html").read_text("utf-8")
    points = len(document["front"])
    assert page.count("<circle") == points and page.count('class="chosen"') == 2, (
        "a point and its row"
    )
    for one in document["operators"]:
        assert f">{one['name']}</td>" in page and f">{one['sensitivity']:.3%}</td>" in page
    assert "relative ≤ 0.450%" in page and "gain, % of all" in page
    assert "src=" not in page and "href=" not in page, "nothing is loaded"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--report", "r.html"), "give --max-loss too"),
        (("--report", "net.int8.onnx", "--max-loss", "1%"), "is the network's file"),
        (("--report", "nowhere/r.html", "--max-loss", "1%"), "nowhere"),
    ],
)
def test_a_report_without_place_or_front_is_refused(
    arguments: tuple[str, ...], told: str, network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in said(capsys, "quantize", network, "--data", "data.npy", *arguments, code=2)
    assert not Path("net.int8.onnx").exists()


def test_shells_complete_methods_and_types() -> None:
    assert command._complete_method("m") == ["minmax", "mse"]
    assert command._complete_activations("") == ["int8", "uint8"]
    assert command._complete_format("b") == ["bf16"]
    assert command._complete_loss("t") == ["top1"]
