"""TL2cgen's part of ``benchmarks.trees``: runs in an environment of its own and prints microseconds a
row, one by one and in bulk, and the share of rows with XGBoost's bits."""

import json
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import tl2cgen
import treelite
import xgboost as xgb

folder, singles, turns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = np.load(f"{folder}/x.npy")
model = treelite.frontend.load_xgboost_model(f"{folder}/model.json")
library = f"{folder}/model.so"
tl2cgen.export_lib(model, toolchain="gcc", libpath=library, params={"parallel_comp": 8})
predictor = tl2cgen.Predictor(library, nthread=1)
rows = [tl2cgen.DMatrix(x[i : i + 1]) for i in range(singles)]
whole = tl2cgen.DMatrix(x)
best = [float("inf"), float("inf")]
for _ in range(turns):
    start = time.process_time()
    for row in rows:
        predictor.predict(row)
    middle = time.process_time()
    found = predictor.predict(whole)
    took = (middle - start) / len(rows), (time.process_time() - middle) / len(x)
    best = [min(a, 1e6 * b) for a, b in zip(best, took, strict=True)]
booster = xgb.Booster({"nthread": 1}, model_file=f"{folder}/model.json")
equal = float(np.mean(np.ravel(found) == booster.inplace_predict(x)))
print(json.dumps([*best, equal]))
