"""Bring hardware of your own: a function that times an ONNX model is all that is needed.

python examples/your_hardware.py
"""

import time

import onnxruntime

import autotune


def time_model(model, inputs):  # the bytes of an ONNX model, and arrays to feed it
    session = onnxruntime.InferenceSession(model)

    def run():
        start = time.perf_counter()
        session.run(None, inputs)
        return time.perf_counter() - start

    return run


if __name__ == "__main__":
    autotune.register_target("mine", time_model)
    autotune.calibrate("mine", budget=120, models=["mlp", "transformer_block"])
    cost = autotune.predict_network("mlp", "mine")
    print(
        f"mlp: {cost.seconds * 1e6:.0f} µs ({cost.low_seconds * 1e6:.0f} to {cost.high_seconds * 1e6:.0f})"
    )
