"""Search of configurations: the fastest one of a machine whose best is known, measured and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune import api
from autotune.cli.main import main
from autotune.errors import InputError
from autotune.store.store import Store
from autotune.targets.plugins.model_target import ModelTarget
from tests.targets.plugins import timing_functions as functions

pytestmark = pytest.mark.slow  # trains a model

FILE = Path(functions.__file__)
BEST = {"units": 4, "layout": "columns"}


def test_the_fastest_configuration_is_found_measured_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, place = f"{FILE}:tuned", tmp_path / "a.db"
    api.calibrate(name, 150, "mlp", store=place)
    result = api.search_configuration("transformer_block", name, measure=3, store=place)
    assert (len(result.tried), result.weighed, dict(result.best.configuration)) == (3, 8, BEST)
    times = [one.measured_seconds for one in result.tried]
    assert result.best.measured_seconds == min(x for x in times if x is not None)
    with Store.open(place) as store:
        (profile,) = (one.profile_id for one in store.info().profiles)
        assert store.count(profile, "search") == 3
    with pytest.raises(SystemExit) as ended:
        main(["search", "mlp", "--target", name, "--store", str(place), "--json"])
    assert ended.value.code in (0, None)
    document = json.loads(capsys.readouterr().out)
    assert document["best"]["configuration"] == BEST and len(document["tried"]) == 8


def test_what_has_no_parameters_or_plans_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    machine, store = ModelTarget("mine", functions.by_results), Store.memory()
    api.calibrate(machine, 50, "mlp", store=store)
    with pytest.raises(InputError, match="mine has no parameters to search"):
        api.search_configuration("mlp", machine, store=store)
    with pytest.raises(SystemExit):
        main(["search", "mlp", "--target", f"{FILE}:tuned", "--out", "x.plan"])
    assert "--out belongs to machines that run programs" in capsys.readouterr().err
