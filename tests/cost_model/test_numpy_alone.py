"""A saved predictor answers where numpy alone is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from autotune.cost_model.fitting import fit
from autotune.cost_model.predictor import Predictor
from tests.cost_model.measured import SPEC, observations

CODE = """if True:
    import sys

    class Refuse:
        def find_spec(self, name, path=None, target=None):
            root = name.partition(".")[0]
            if root not in {*sys.stdlib_module_names, "autotune", "numpy", "_distutils_hack"}:
                raise ModuleNotFoundError(f"{name} is not numpy", name=name)

    finders = [x for x in sys.meta_path if "editable" in repr(x)]  # this checkout, where installed so
    sys.meta_path[:0] = [*finders, Refuse()]

    import autotune

    predictor = autotune.Predictor.load(sys.argv[1])
    conv = autotune.layer("conv", (1, 8, 12, 12), (8, 8, 3, 3), pads=1)
    print(predictor.should_fuse(conv, autotune.layer("relu", conv)).gain_cycles)
    predictor.predict_batch(conv, predictor.schedules(conv))
    print(predictor.explain(conv))
"""


def test_a_loaded_predictor_imports_no_package_besides_numpy(tmp_path: Path) -> None:
    file = tmp_path / "small.predictor"
    predictor = Predictor(fit(list(observations(2, 60)), SPEC, seed=0))
    predictor.save(file)
    done = subprocess.run(
        [sys.executable, "-c", CODE, file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[0])
