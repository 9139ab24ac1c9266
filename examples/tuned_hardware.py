"""Bring hardware with parameters of its own: calibration learns them, prediction says which values are best.

python examples/tuned_hardware.py
"""

import time

import onnxruntime

import autotune

LEVELS = {
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def time_model(model, inputs, configuration):  # the third argument: a value of each parameter
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = configuration["threads"]
    options.graph_optimization_level = LEVELS[configuration["optimisation"]]
    session = onnxruntime.InferenceSession(model, options)

    def run():
        start = time.perf_counter()
        session.run(None, inputs)
        return time.perf_counter() - start

    return run


time_model.parameters = {"threads": [1, 2], "optimisation": ["off", "all"]}


if __name__ == "__main__":
    autotune.register_target("mine", time_model)
    autotune.calibrate("mine", budget=120, models=["mlp", "transformer_block"])
    cost = autotune.predict_network("mlp", "mine")
    print(f"mlp: {cost.seconds * 1e6:.0f} µs with {dict(cost.configuration)}")
