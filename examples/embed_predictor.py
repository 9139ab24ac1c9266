"""Embed the cost model in a compiler: calibrate once, ship a file, ask what fusing gains.

python examples/embed_predictor.py
"""

import autotune

# In the build, once: measure programs, train, write one file. It needs the whole package.
autotune.calibrate("edge", budget=150, models=["mlp"])
autotune.Predictor.load("edge").save("edge.predictor")

# In the compiler: the file and numpy are all that is needed.
predictor = autotune.Predictor.load("edge.predictor")

# Layers from plain shapes; what one makes is an operand of the next.
conv = autotune.layer("conv", x=(1, 64, 56, 56), w=(64, 64, 3, 3), pads=1)
relu = autotune.layer("relu", conv)
gain = predictor.should_fuse(conv, relu)
print("conv + relu:", "fuse" if gain else "keep apart")
print(gain.reason)

# Many schedules of one group at once: rows of whole numbers, costs as arrays.
block = conv.then("relu").then("conv", w=(64, 64, 1, 1))
rows = predictor.schedules(block, limit=1024)
costs = predictor.predict_batch(block, rows)
print(f"{len(costs)} schedules take {costs.cycles.min():,.0f} to {costs.cycles.max():,.0f} cycles")

# Why the best one costs what it does.
for reason in predictor.explain(block).reasons:
    print("-", reason)

# Groups of an ONNX network, by the names of its operators.
graph = autotune.load_network("mlp")
first, second = graph.ops[:2]
gain = predictor.should_fuse(graph.group(first.name), graph.group(second.name))
print(f"{first.kind} + {second.kind}:", gain.reason)
