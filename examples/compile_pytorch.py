"""Run a PyTorch model with autotune by changing one line. Needs: pip install 'autotune[torch]'

python examples/compile_pytorch.py
"""

import time

import torch
from torch import nn

import autotune

model = nn.Sequential(
    nn.Conv2d(3, 32, 3, stride=2, padding=1),
    nn.BatchNorm2d(32),
    nn.SiLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.GELU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
).eval()
images = torch.randn(1, 3, 64, 64)

compiled = torch.compile(model, backend="autotune")  # the one line


def milliseconds(function, runs=50):
    function(images)
    start = time.perf_counter()
    for _ in range(runs):
        function(images)
    return (time.perf_counter() - start) / runs * 1e3


with torch.inference_mode():  # gradients stay in PyTorch
    error = (compiled(images) - model(images)).abs().max()
    print(f"greatest difference from PyTorch: {error:.1e}")
    print(f"PyTorch {milliseconds(model):.3f} ms, autotune {milliseconds(compiled):.3f} ms")

# What ran where, and why.
for subgraph in autotune.compiled_subgraphs():
    print(subgraph)

# The same without PyTorch's compiler: one callable, one session.
exported = autotune.from_torch(model, images)
print("scores", exported(images).shape, "by", exported.session)
assert error < 1e-4
